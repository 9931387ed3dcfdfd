package cli

import (
	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// CompleteNames completes a flag with a fixed list; text after a tab is a description.
func CompleteNames(cmd *cobra.Command, flag string, names func() []string) {
	Register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteFiles completes a flag with files of one extension.
func CompleteFiles(cmd *cobra.Command, flag, ext string) {
	Register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{ext}, cobra.ShellCompDirectiveFilterFileExt
	})
}

// Register adds a completion function to a flag. A flag that does not exist is a bug, so it panics.
func Register(cmd *cobra.Command, flag string, f func(*cobra.Command, []string,
	string) ([]string, cobra.ShellCompDirective)) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("randfeat: " + err.Error()) // the flag does not exist: a bug here
	}
}

// NPYArgs completes up to n positional npy or safetensors files.
func NPYArgs(n int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []string{"npy", "safetensors"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

// FamilyNames lists the families with their summaries, for completion.
func FamilyNames() []string {
	var out []string
	for _, f := range family.List() {
		out = append(out, f.Name+"\t"+f.Summary)
	}
	return out
}

// CouplingNames lists the couplings with their summaries, for completion.
func CouplingNames() []string {
	var out []string
	for _, c := range coupling.List() {
		out = append(out, c.Name+"\t"+c.Summary)
	}
	return out
}

// KernelNames lists the kernels, for completion.
func KernelNames() []string {
	var out []string
	for _, k := range kernel.Kinds() {
		out = append(out, k.String())
	}
	return out
}
