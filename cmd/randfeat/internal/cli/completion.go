package cli

import (
	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// CompleteNames offers a fixed list for a flag; text after a tab is a description.
func CompleteNames(cmd *cobra.Command, flag string, names func() []string) {
	Register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteFiles offers files with an extension.
func CompleteFiles(cmd *cobra.Command, flag, ext string) {
	Register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{ext}, cobra.ShellCompDirectiveFilterFileExt
	})
}

func Register(cmd *cobra.Command, flag string, f func(*cobra.Command, []string,
	string) ([]string, cobra.ShellCompDirective)) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("randfeat: " + err.Error()) // the flag does not exist: a bug here
	}
}

// NPYArgs completes up to n positional npy files.
func NPYArgs(n int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []string{"npy", "safetensors"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

func FamilyNames() []string {
	var out []string
	for _, f := range family.List() {
		out = append(out, f.Name+"\t"+f.Summary)
	}
	return out
}

func CouplingNames() []string {
	var out []string
	for _, c := range coupling.List() {
		out = append(out, c.Name+"\t"+c.Summary)
	}
	return out
}

func KernelNames() []string {
	var out []string
	for _, k := range kernel.Kinds() {
		out = append(out, k.String())
	}
	return out
}
