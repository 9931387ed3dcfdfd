package catalog

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
)

// CouplingInfo is the object of couplings --json: the description of package coupling, with laws by name.
type CouplingInfo struct {
	coupling.Info
	Laws []string `json:"laws"` // marginals it is defined for
}

func CouplingsCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "couplings",
		Short: "List the couplings",
		Long: `List the couplings: the joint laws of the projections. --coupling takes a name, or a JSON object with parameters
such as '{"name":"hadamard","k":2}'.`,
		Args: cli.ExactArgs("none", 0),
		RunE: cli.Do(func(*cobra.Command, []string) error { return listCouplings(env) }),
	}
}

func listCouplings(env *cli.Env) error {
	if env.JSON {
		for _, c := range coupling.List() {
			info := CouplingInfo{Info: c}
			for _, l := range c.Laws {
				info.Laws = append(info.Laws, l.String())
			}
			if err := env.Object(info); err != nil {
				return err
			}
		}
		return nil
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "COUPLING\tEXACT\tCOST\tPARAMETERS\tSUMMARY\tREFERENCE")
		for _, c := range coupling.List() {
			var fields []string
			for _, f := range c.Fields {
				fields = append(fields, f.Name)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, cli.YesNo(c.Exact), c.Cost, dash(strings.Join(fields,
				" ")),
				c.Summary, c.Reference)
		}
	})
}

func dash(s string) string {
	return cmp.Or(s, "-")
}
