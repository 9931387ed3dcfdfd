package tables

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/machine"
)

// importanceRows bounds the rows of --importance: all of them are predicted several times per column.
const importanceRows = 1000

func (f *evaluateFlags) importances(env *cli.Env, cmd *cobra.Command, m *machine.Model) ([]machine.Importance, error) {
	bar := env.Progress("columns", len(m.Schema.Fields))
	defer bar.End()
	return m.Importances(f.keep.X, f.keep.Y, machine.ImportanceOptions{Seed: cli.DefaultSeed,
		Progress: func(done, _ int) error {
			bar.At(done)
			return interrupted(cmd.Context())
		}})
}

// maxImportant is the number of columns to print; --json has all.
const maxImportant = 30

func (r *EvaluateResult) printImportance(w io.Writer) error {
	if len(r.Importance) == 0 {
		return nil
	}
	list := r.Importance[:min(maxImportant, len(r.Importance))]
	first := list[0].Drop
	fmt.Fprintf(w, "\nWhat predictions owe to columns (%d rows): %s falls by this if the column is shuffled among rows\n",
		first.Rows, first.Name)
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "column\tfalls by\t95 % interval")
		for _, c := range list {
			fmt.Fprintf(w, "%s\t%.3f\t%.3f to %.3f\n", shorten(c.Column, 40), c.Drop.Value, c.Drop.Low, c.Drop.High)
		}
	})
	if err == nil && len(list) < len(r.Importance) {
		_, err = fmt.Fprintf(w, "and %d columns that matter less\n", len(r.Importance)-len(list))
	}
	return err
}
