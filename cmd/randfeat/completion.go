package main

import (
	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// strictCompletion makes cobra's completion command refuse a shell it does not know, instead of printing its help and
// succeeding. The output of root must be set before.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// completeNames offers a fixed list for a flag; text after a tab is a description.
func completeNames(cmd *cobra.Command, flag string, names func() []string) {
	register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeFiles offers files with an extension.
func completeFiles(cmd *cobra.Command, flag, ext string) {
	register(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{ext}, cobra.ShellCompDirectiveFilterFileExt
	})
}

func register(cmd *cobra.Command, flag string, f func(*cobra.Command, []string,
	string) ([]string, cobra.ShellCompDirective)) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("randfeat: " + err.Error()) // the flag does not exist: a bug here
	}
}

// npyArgs completes up to n positional npy files.
func npyArgs(n int) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []string{"npy", "safetensors"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

func familyNames() []string {
	var out []string
	for _, f := range family.List() {
		out = append(out, f.Name+"\t"+f.Summary)
	}
	return out
}

func couplingNames() []string {
	var out []string
	for _, c := range coupling.List() {
		out = append(out, c.Name+"\t"+c.Summary)
	}
	return out
}

func kernelNames() []string {
	var out []string
	for _, k := range kernel.Kinds() {
		out = append(out, k.String())
	}
	return out
}
