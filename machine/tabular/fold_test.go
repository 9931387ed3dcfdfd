package tabular

import (
	"fmt"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
)

// A table that is accepted as a whole is accepted fold by fold. One odd cell changes what a column is, and the folds
// without it must not learn otherwise.
func TestOddCellsInFolds(t *testing.T) {
	const n = 200
	for name, cell := range map[string][2]string{
		"date":   {"20%02d-%02d-%02d", "0000-00-00"},
		"no day": {"20%02d-%02d-%02d", "NaT"},
		"price":  {"$%d%02d%02d.00", "free"},
		"comma":  {"%d%02d,%02d", "none"},
	} {
		for _, columns := range []data.LearnOptions{{}, {Categorical: []string{"when"}}} {
			var b strings.Builder
			b.WriteString("a,when,y\n")
			for i := range n {
				when := fmt.Sprintf(cell[0], 10+i/40, 1+i%12, 1+i%28) // nearly all differ, so the column is left out
				if i == 77 {
					when = cell[1]
				}
				fmt.Fprintf(&b, "%d,%q,%d\n", i*i%37, when, i*i%37+i%5)
			}
			src, err := text.OpenBytes("odd.csv", []byte(b.String()), data.Options{})
			if err != nil {
				t.Fatal(err)
			}
			columns.Targets, columns.Task = []string{"y"}, data.Regression
			m, r := mustFit(t, src, Options{Learn: columns, Kind: machine.KindRidge, Features: 32, Bandwidth: 1,
				Lambda: 1})
			t.Logf("%s: %d fields, %s", name, len(m.Schema.Fields), r.ScoredOn)
		}
	}
}
