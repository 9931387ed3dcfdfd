package catalog

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/calc"
	"github.com/randfeat/randfeat/internal/suggest"
)

// FormulaInfo is the object of theory list --json.
type FormulaInfo struct {
	Name      string       `json:"name"`
	Reference string       `json:"reference"`
	Inputs    []calc.Input `json:"inputs"` // name and type of each input
}

func TheoryCommand(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "theory",
		Short: "List the closed forms of bias, variance and error",
		Args:  suggest.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "list [prefix]",
		Short: "List every formula with its reference and inputs",
		Long: `List the formulas of 'randfeat eval': name, reference and inputs, all of which are required. A prefix such as "logrv" or
"coupling." selects some of them.`,
		Args: suggest.Args("the beginning of names, or none", 0, 1),
		RunE: cli.Do(func(_ *cobra.Command, args []string) error { return listFormulas(env, args) }),
	})
	return cmd
}

func listFormulas(env *cli.Env, args []string) error {
	var chosen []calc.Entry
	for _, e := range calc.Entries() {
		if len(args) == 0 || strings.HasPrefix(e.Name, args[0]) {
			chosen = append(chosen, e)
		}
	}
	if len(chosen) == 0 {
		return cli.Misused("no formula starts with %q; run 'randfeat theory list' for all", args[0])
	}
	if env.JSON {
		for _, e := range chosen {
			if err := env.Object(FormulaInfo{Name: e.Name, Reference: e.Reference, Inputs: e.Inputs}); err != nil {
				return err
			}
		}
		return nil
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "FORMULA\tINPUTS\tREFERENCE")
		for _, e := range chosen {
			keys := make([]string, len(e.Inputs))
			for i, in := range e.Inputs {
				keys[i] = in.Key
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, strings.Join(keys, " "), e.Reference)
		}
	})
}
