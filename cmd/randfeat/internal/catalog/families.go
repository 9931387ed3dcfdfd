// Package catalog has the commands that list and evaluate the theory: families, couplings, theory and eval.
package catalog

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/family"
)

func FamiliesCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "families",
		Short: "List the feature families",
		Long: `List the families: the nonlinearities that turn projections into features. m is the number of projections, d the
dimension, n the number of coefficient projections of a hybrid. --family takes a name, or a JSON object with
parameters such as '{"name":"oprf","a":-0.12}'; families that fit can take their parameters from data (--fit).

'randfeat schema families' describes the objects of --json.`,
		Args: cli.ExactArgs("none", 0),
		RunE: cli.Do(func(*cobra.Command, []string) error { return listFamilies(env) }),
	}
}

func listFamilies(env *cli.Env) error {
	if env.JSON {
		for _, f := range family.List() {
			if err := env.Object(f); err != nil {
				return err
			}
		}
		return nil
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "FAMILY\tUNBIASED\tPOSITIVE\tFEATURES\tCOST\tFITS\tSUMMARY\tREFERENCE")
		for _, f := range family.List() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				f.Name, cli.YesNo(f.Unbiased), f.Positive, f.Size, f.Cost, cli.YesNo(f.Fits), f.Summary, f.Reference)
		}
	})
}
