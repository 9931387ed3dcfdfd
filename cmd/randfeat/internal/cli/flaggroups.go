package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagGroup lists flags of a command under a title in its help.
type FlagGroup struct {
	Title string
	Names []string
}

// GroupFlags shows the flags of a command by groups; flags in no group come last.
func GroupFlags(cmd *cobra.Command, groups []FlagGroup) {
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		fmt.Fprintf(w, "Usage:\n  %s\n", c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
		}
		shown := map[string]bool{}
		show := func(title string, has func(name string) bool, from *pflag.FlagSet) {
			set := pflag.NewFlagSet(title, pflag.ContinueOnError)
			set.SortFlags = false
			from.VisitAll(func(f *pflag.Flag) {
				if !shown[f.Name] && has(f.Name) {
					shown[f.Name] = true
					set.AddFlag(f)
				}
			})
			if set.HasAvailableFlags() {
				fmt.Fprintf(w, "\n%s:\n%s", title, strings.TrimRight(set.FlagUsages(), "\n")+"\n")
			}
		}
		for _, g := range groups {
			show(g.Title, func(name string) bool { return slices.Contains(g.Names, name) }, c.LocalFlags())
		}
		all := func(string) bool { return true }
		show("Other flags", all, c.LocalNonPersistentFlags())
		show("Global flags", all, c.InheritedFlags())
		return nil
	})
}
