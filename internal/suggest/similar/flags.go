package similar

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// ParseFlags is flags.Parse with shorter errors: the error about an unknown flag suggests the closest one, and only -h
// prints the list of all flags. It returns errors of the flag package otherwise, and flag.ErrHelp for -h.
func ParseFlags(flags *flag.FlagSet, args []string) error {
	out, usage := flags.Output(), flags.Usage
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	flags.SetOutput(out)
	flags.Usage = usage
	if err == nil {
		return nil
	}
	if errors.Is(err, flag.ErrHelp) {
		flags.Usage()
		return err
	}
	hint := fmt.Sprintf(" (%s -h lists the flags)", flags.Name())
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		var names []string
		flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		if near := Nearest(name, names); near != "" {
			hint = fmt.Sprintf(", did you mean -%s?", near)
		}
		return fmt.Errorf("unknown flag -%s%s", name, hint)
	}
	return fmt.Errorf("%w%s", err, hint)
}

// Arguments parses flags and other arguments in any order, and returns the others. The flag package stops at the first.
func Arguments(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := ParseFlags(flags, args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			return others, nil
		}
		others, args = append(others, args[0]), args[1:]
	}
}
