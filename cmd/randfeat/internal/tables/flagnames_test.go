package tables

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestFlagHints(t *testing.T) {
	for message, want := range map[string]string{
		`cannot be divided into 5 folds: give more rows, or fewer folds`: "--folds",
		`name it as missing, or ask for classification`:                  "--missing, --task classification",
		`an identifier? Ask for classification if they are classes`:      "--task classification",
		`want a column of levels: name it as categorical`:                "--categorical",
		`leave the flag out, or ask for --task classification`:           "",
		`name it as numeric to use it, or as an id to`:                   "--numeric, --id",
	} {
		if got := strings.Join(FlagHints(message, nil), ", "); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
	if got := FlagHints("fewer rows cannot be divided into folds", func(string) bool { return false }); got != nil {
		t.Errorf("%q for a command without flags", got)
	}
}

// Every hint begins with a flag of fit.
func TestHintsAreFlags(t *testing.T) {
	var f fitFlags
	cmd := &cobra.Command{}
	f.add(cmd)
	for _, h := range hints {
		name, _, _ := strings.Cut(strings.TrimPrefix(h.hint, "--"), " ")
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("fit has no --%s", name)
		}
	}
}
