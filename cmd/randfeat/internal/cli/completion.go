package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// names is the annotation of a flag that lists its completions.
const names = "randfeat_names"

// CompleteNames completes a flag with a fixed list; text after a tab is a description.
func CompleteNames(cmd *cobra.Command, flag string, list func() []string) {
	annotate(cmd, flag, names, list())
}

// CompleteFiles completes a flag with files of one extension.
func CompleteFiles(cmd *cobra.Command, flag, ext string) {
	annotate(cmd, flag, cobra.BashCompFilenameExt, []string{ext})
}

// annotate panics on a flag that does not exist: that is a bug.
func annotate(cmd *cobra.Command, flag, key string, values []string) {
	if err := cmd.Flags().SetAnnotation(flag, key, values); err != nil {
		panic("randfeat: " + err.Error())
	}
}

// RegisterCompletions makes cobra complete the flags of cmd and its children from their annotations. Only a command
// line that completes another one may call it: cobra keeps what is registered, and so the whole tree, until the process
// ends.
func RegisterCompletions(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		list, ok := f.Annotations[names]
		if !ok {
			return
		}
		complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list, cobra.ShellCompDirectiveNoFileComp
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic("randfeat: " + err.Error()) // registered twice: a bug here
		}
	})
	for _, c := range cmd.Commands() {
		RegisterCompletions(c)
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
