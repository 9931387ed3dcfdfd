package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/internal/suggest"
)

// Defaults shared by several commands.
const (
	DefaultM    = 256
	DefaultSeed = 1
)

// Conflict refuses flags that another flag makes meaningless: ignoring them silently would hide a mistake.
func Conflict(cmd *cobra.Command, flag string, others ...string) error {
	for _, o := range others {
		if cmd.Flags().Changed(o) {
			return Misused("--%s and --%s exclude each other", flag, o)
		}
	}
	return nil
}

// ExactArgs is cobra.ExactArgs with a message that says which arguments are wanted.
func ExactArgs(want string, n int) cobra.PositionalArgs { return suggest.Args(want, n, n) }

// DeprecatedShorthand keeps a one-letter flag as a hidden way to set another flag, with a note that names it.
// -m meant features in some commands and projections in others.
func DeprecatedShorthand(cmd *cobra.Command, letter, flag string) {
	target := cmd.Flags().Lookup(flag)
	if target == nil {
		panic("randfeat: no flag " + flag) // a bug here
	}
	cmd.Flags().VarP(&shorthand{letter, cmd, target}, "deprecated-"+letter, letter, "")
	if err := cmd.Flags().MarkHidden("deprecated-" + letter); err != nil {
		panic("randfeat: " + err.Error())
	}
}

// shorthand is a flag value that forwards to another flag.
type shorthand struct {
	letter string
	cmd    *cobra.Command
	target *pflag.Flag
}

func (s *shorthand) String() string { return "" }
func (s *shorthand) Type() string   { return s.target.Value.Type() }

func (s *shorthand) Set(value string) error {
	fmt.Fprintf(s.cmd.ErrOrStderr(), "note: -%s is deprecated, use --%s\n", s.letter, s.target.Name)
	return s.cmd.Flags().Set(s.target.Name, value)
}
