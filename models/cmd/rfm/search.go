package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models/search"
)

func searchCommand(e *env) *cobra.Command {
	var f modelFlags
	var index string
	var n int
	cmd := &cobra.Command{
		Use:   "search MODEL FOLDER QUERY",
		Short: "Find passages of a folder of texts by meaning",
		Long: `search embeds the text files of FOLDER and prints the passages that are nearest to QUERY. Embeddings are kept in an index
file; a later search embeds only files that are new or have changed. Hidden files are not searched.`,
		Example: `  rfm search all-MiniLM-L6-v2 notes "how do I renew the certificate?"`,
		Args:    suggest.Args("a model, a folder and a question", 3, 3),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if n < 1 {
				return misused("--count is %d, want 1 or more", n)
			}
			folder := args[1]
			if index == "" {
				index = filepath.Join(folder, ".rfm-index")
			}
			m, err := f.encoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			old, err := search.Open(index)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: remove the file, or name another by --index", err)
			}
			read := 0
			x, err := search.Update(cmd.Context(), m, folder, old, func(done, of int) { read++ })
			if err != nil {
				return err
			}
			if old == nil || read > 0 || len(x.Files) != len(old.Files) || x.Model != old.Model {
				if err := x.Save(index); err != nil {
					return err
				}
				e.note("%d files read, %d passages in %s", read, len(x.Passages), index)
			}
			hits, err := x.Find(cmd.Context(), m, folder, args[2], n)
			if err != nil {
				return err
			}
			for _, h := range hits {
				if e.json {
					err = e.object(h)
				} else {
					_, err = fmt.Fprintf(e.stdout, "%.3f  %s:%d  %s\n", h.Score, printable(h.File), h.Line,
						printable(snippet(h.Text, 160)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&index, "index", "", "index `file` (default FOLDER/.rfm-index)")
	cmd.Flags().IntVarP(&n, "count", "n", 5, "number of passages to print")
	return cmd
}

// snippet returns the beginning of a text on one line.
func snippet(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if most--; most < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
