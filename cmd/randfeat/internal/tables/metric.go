package tables

import (
	"fmt"
	"io"
	"strings"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/machine"
)

// printMetric prints the learned metric of a kernel; nil prints nothing.
func printMetric(w io.Writer, m *machine.Metric) error {
	if m == nil {
		return nil
	}
	fmt.Fprintf(w, "\nMetric %s, learned in %s on %s; metrics of two halves of the rows have a cosine of %.2f "+
		"(1: equal):\n", m.Kind, count(m.Rounds, "round"), count(m.Rows, "row"), m.Alike)
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "COLUMN\tSHARE")
		for _, c := range m.Columns {
			fmt.Fprintf(w, "%s\t%.1f %%\n", shorten(c.Name, 40), 100*c.Value)
		}
		for i, d := range m.Directions {
			var parts []string
			for _, c := range d.Columns {
				parts = append(parts, fmt.Sprintf("%+.2f %s", c.Value, shorten(c.Name, 24)))
			}
			fmt.Fprintf(w, "direction %d\t%.1f %%\t%s (cosine of halves %.2f)\n", i+1, 100*d.Share,
				strings.Join(parts, " "), d.Alike)
		}
	})
}
