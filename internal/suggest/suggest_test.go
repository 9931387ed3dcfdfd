package suggest

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
)

func TestSuggestions(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"fit", "--targt", "x"}, "unknown flag: --targt, did you mean --target?"},
		{[]string{"fit", "--jsn"}, "unknown flag: --jsn, did you mean --json?"},
		{[]string{"fit", "-target", "x"}, "unknown shorthand flag: 't' in -target, did you mean --target?"},
		{[]string{"fit", "-zzzzzzz"}, "unknown shorthand flag: 'z' in -zzzzzzz: names of more than one letter have two dashes"},
		{[]string{"fit", "-z"}, "unknown shorthand flag: 'z' in -z"},
		{[]string{"fit", "--secre"}, "unknown flag: --secre"}, // hidden flags are not offered
		{[]string{"fit", "--elephant"}, "unknown flag: --elephant"},
		{[]string{"fit", "--prot", "8080"}, "unknown flag: --prot"}, // fit has no address
		{[]string{"evaluate", "--prot", "8080"}, "unknown flag: --prot, did you mean --addr?"},
		{[]string{"evaluate", "--host", "::1"}, "unknown flag: --host, did you mean --addr?"},
		{[]string{"fit", "--rows", "many"}, `--rows is "many", want a whole number`},
		{[]string{"Fitt"}, `unknown command "Fitt" for "prog", did you mean fit?`},
		{[]string{"fti"}, `unknown command "fti" for "prog", did you mean fit?`},
		{[]string{"eva"}, `unknown command "eva" for "prog", did you mean evaluate?`},
		{[]string{"ol"}, `unknown command "ol" for "prog"`}, // nor are hidden commands
		{[]string{"elephant"}, `unknown command "elephant" for "prog"`},
	} {
		nothing := func(*cobra.Command, []string) error { return nil }
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Args: NoArgs, RunE: nothing}
		root.PersistentFlags().Bool("json", false, "")
		fit := &cobra.Command{Use: "fit", RunE: nothing}
		fit.Flags().String("target", "", "")
		fit.Flags().Int("rows", 0, "")
		fit.Flags().Bool("secret", false, "")
		fit.Flags().MarkHidden("secret")
		evaluate := &cobra.Command{Use: "evaluate", RunE: nothing}
		evaluate.Flags().String("addr", "", "")
		root.AddCommand(fit, evaluate,
			&cobra.Command{Use: "old", Hidden: true, RunE: nothing})
		Flags(root)
		root.SetArgs(c.args)
		root.SetErr(io.Discard)
		if err := root.Execute(); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}
