//go:build docs

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

// addDocsCommand adds the hidden command that writes man pages, completions and the command reference. Only
// builds with the tag docs have it, because the generators would make the program larger for everyone.
func addDocsCommand(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use:    "docs FOLDER",
		Short:  "Write man pages, shell completions and the reference of all commands",
		Hidden: true,
		Args:   cli.ExactArgs("a folder", 1),
		RunE:   func(_ *cobra.Command, args []string) error { return writeDocs(root, args[0]) },
	})
}

// writeDocs fills folder/man, folder/completions and folder/commands. The result depends only on the source
// revision: no dates, no random order.
func writeDocs(root *cobra.Command, folder string) error {
	man, completions, commands := filepath.Join(folder, "man"), filepath.Join(folder, "completions"),
		filepath.Join(folder, "commands")
	for _, dir := range []string{man, completions, commands} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true // no date in generated files: the same bytes for the same revision
	date, err := sourceDate()
	if err != nil {
		return err
	}
	header := &doc.GenManHeader{Section: "1", Source: "randfeat", Manual: "randfeat", Date: &date}
	if err := doc.GenManTree(root, header, man); err != nil {
		return err
	}
	if err := doc.GenMarkdownTree(root, commands); err != nil {
		return err
	}
	for name, write := range map[string]func(string) error{
		"randfeat.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_randfeat":     root.GenZshCompletionFile,
		"randfeat.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"randfeat.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}

// sourceDate returns the date of SOURCE_DATE_EPOCH, which release builds set to the date of the revision, or
// else a fixed one.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
