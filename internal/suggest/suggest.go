// Package suggest tells users of a cobra program which command or flag they probably meant. The programs of all
// modules share it.
package suggest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// wanted describes the values of a flag, by pflag's name of its type.
var wanted = map[string]string{"int": "a whole number", "int64": "a whole number", "uint64": "a whole number from 0",
	"float64": "a number", "bool": "true or false", "duration": "a time such as 500ms, 30s or 10m"}

// synonyms are names that other programs give to a flag of ours. An edit distance cannot find these.
var synonyms = map[string]string{"port": "addr", "host": "addr", "listen": "addr", "bind": "addr", "address": "addr",
	"output": "out"}

// Flags makes a program name the values that a flag takes, and answer an unknown flag with the nearest
// flag of the same command. Subcommands inherit it from the root command.
func Flags(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			if want := wanted[invalid.GetFlag().Value.Type()]; want != "" {
				return fmt.Errorf("--%s is %q, want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
			}
			return err
		}
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) {
			return err
		}
		// pflag reads -target as seven one-letter flags and stops at the first that it does not know.
		name, letters := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		if len(letters) > 1 {
			name = letters
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		near := nearest(name, names)
		if near == "" {
			var others []string
			for other, flag := range synonyms {
				if slices.Contains(names, flag) {
					others = append(others, other)
				}
			}
			slices.Sort(others) // of equally near names always the same
			near = synonyms[nearest(name, others)]
		}
		switch {
		case near != "":
			return fmt.Errorf("%w, did you mean --%s?", err, near)
		case len(letters) > 1:
			return fmt.Errorf("%w: names of more than one letter have two dashes", err)
		}
		return err
	})
}

// Args accepts from low to high arguments; want says which, for the message.
func Args(want string, low, high int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if low <= len(args) && len(args) <= high {
			return nil
		}
		switch len(args) {
		case 0:
			return fmt.Errorf("no arguments, want %s", want)
		case 1:
			return fmt.Errorf("1 argument, want %s", want)
		}
		return fmt.Errorf("%d arguments, want %s", len(args), want)
	}
}

// NoArgs is cobra.NoArgs for a command with subcommands: it names the subcommand that was probably meant, or all.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := nearest(args[0], names); near != "" {
		return fmt.Errorf("%w, did you mean %s?", err, near)
	}
	if cmd.HasParent() { // the programs have too many
		return fmt.Errorf("%w, want one of %s", err, strings.Join(names, ", "))
	}
	return err
}

// nearest is similar.Nearest, or else a name with the same letters in another order (fti), or the only name that begins
// like this (pred). Names of commands are short, and an edit distance alone misses these.
func nearest(name string, names []string) string {
	if near := similar.Nearest(name, names); near != "" {
		return near
	}
	var begin []string
	for _, n := range names {
		if slices.Equal(letters(n), letters(name)) {
			return n
		}
		if strings.HasPrefix(n, name) {
			begin = append(begin, n)
		}
	}
	if len(begin) == 1 {
		return begin[0]
	}
	return ""
}

func letters(s string) []byte {
	b := []byte(s)
	slices.Sort(b)
	return b
}
