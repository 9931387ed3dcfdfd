package tables

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestFlagHints(t *testing.T) {
	for message, want := range map[string]string{
		`2 rows cannot be divided into 5 folds: give more rows, or fewer folds`:                " (--folds)",
		`correct it, name it as missing, or ask for classification`:                            " (--missing, --task classification)",
		`an identifier? Ask for classification if they are classes`:                            " (--task classification)",
		`it is numeric, want a column of levels: name it as categorical`:                       " (--categorical)",
		`the target is a number: leave the flag out, or ask for --task classification`:         "",
		`left out, since it numbers the rows: x; name it as numeric to use it, or as an id to`: " (--numeric, --id)",
	} {
		if got := flagHint(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
	cause := errors.New("fewer folds cannot be divided into")
	if err := withFlags(cause); !errors.Is(err, cause) || withFlags(nil) != nil {
		t.Error(err)
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
