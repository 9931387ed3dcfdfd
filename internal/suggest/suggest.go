// Package suggest tells users of a cobra program which command or flag they probably meant. The programs of all
// modules share it.
package suggest

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/internal/similar"
)

// Flags makes a program answer an unknown flag with the nearest flag of the same command. Subcommands inherit it from
// the root command.
func Flags(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
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
		near := similar.Nearest(name, names)
		switch {
		case near != "":
			return fmt.Errorf("%w, did you mean --%s?", err, near)
		case len(letters) > 1:
			return fmt.Errorf("%w: names of more than one letter have two dashes", err)
		}
		return err
	})
}

// NoArgs is cobra.NoArgs for a command with subcommands: it names the subcommand that was probably meant.
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
	if near := similar.Nearest(args[0], names); near != "" {
		return fmt.Errorf("%w, did you mean %s?", err, near)
	}
	return err
}
