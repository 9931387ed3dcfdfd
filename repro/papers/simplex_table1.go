package papers

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/lab"
)

var simplexTable1 = &lab.Item{
	ID: "simplex-table1", Paper: simplex, Title: "Table 1: time of couplings and their fast variants by dimension",
	Version: 2,
	Run:     runSimplexTable1,
}

func runSimplexTable1(l *lab.Lab) (*lab.Page, error) {
	methods := []struct {
		name, row, column string
		c                 coupling.Coupling
		printed           float64 // power of d in Table 1
		text              string
	}{
		{"ORFs", "Regular", "ORFs", coupling.Orthogonal{}, 3, "O(d³)"},
		{"SimRFs", "Regular", "SimRFs", coupling.Simplex{}, 3, "O(d³)"},
		{"SimRFs+", "Regular", "SimRFs+", coupling.SimplexPlus{}, 3, "O(d³)"},
		{"fast ORFs", "Fast", "ORFs", coupling.Hadamard{}, 1, "O(d log d)"},
		{"fast SimRFs", "Fast", "SimRFs", coupling.FastSimplex{}, 1, "O(d log d)"},
	}
	dims := lab.Pick(l, []int{64, 128, 256, 512}, []int{64, 128, 256, 512, 1024, 2048})
	// A single cell, so that nothing else runs beside it. Methods are timed in turns.
	type key struct {
		Dims   []int
		Rounds int
	}
	type value struct{ Draw, Apply [][]float64 } // seconds by method and dimension: the minimum over rounds
	values, err := lab.Cells(l, "times", []key{{dims, lab.Pick(l, 9, 15)}}, func(k key, seed uint64) (v value,
		err error) {
		v.Draw, v.Apply = make([][]float64, len(methods)), make([][]float64, len(methods))
		for _, d := range k.Dims {
			draw, apply := make([][]float64, len(methods)), make([][]float64, len(methods))
			x := normals(batch, d, 1, seed)
			for range k.Rounds {
				for m, method := range methods {
					from := time.Now()
					omega, err := method.c.Sample(d, d, coupling.Law{}, rng.Stream(seed))
					if err != nil {
						return v, err
					}
					draw[m] = append(draw[m], time.Since(from).Seconds())
					apply[m] = append(apply[m], timeApply(omega, x)/batch)
				}
			}
			for m := range methods {
				v.Draw[m] = append(v.Draw[m], slices.Min(draw[m]))
				v.Apply[m] = append(v.Apply[m], slices.Min(apply[m]))
			}
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	v := values[0]
	p := &lab.Page{Setting: []string{fmt.Sprintf("Time to draw a block of m = d projections, and to multiply a "+
		"vector with it, in batches of 64 and with the library's kernels for both; "+
		"the least of %d rounds in which all methods take turns, one thread. A regular block is drawn in O(d³) "+
		"and applied in O(d²); a "+
		"fast one is multiplied without being written out (this library writes its rows too when it draws). The "+
		"power of d is the slope between the last two dimensions. Times are those of the machine "+
		"that made this page and differ from run to run.", lab.Pick(l, 9, 15))}}
	last := len(dims) - 1
	slope := func(t []float64) float64 {
		return math.Log(t[last]/t[last-1]) / math.Log(float64(dims[last])/float64(dims[last-1]))
	}
	for part, times := range [][][]float64{v.Draw, v.Apply} {
		what := []string{"draw", "multiply"}[part]
		fig := figure.Figure{Title: "Time to " + what, X: figure.Axis{Label: "d", Log: true},
			Y: figure.Axis{Label: "seconds",
				Log: true}}
		table := lab.Table{Title: "Microseconds to " + what, Header: []string{"d"}}
		for m, method := range methods {
			s := figure.Series{Name: method.name}
			for i, d := range dims {
				s.X, s.Y = append(s.X, float64(d)), append(s.Y, times[m][i])
			}
			fig.Series = append(fig.Series, s)
			table.Header = append(table.Header, method.name)
		}
		for i, d := range dims {
			row := []string{fmt.Sprint(d)}
			for m := range methods {
				row = append(row, fmt.Sprintf("%.3g", 1e6*times[m][i]))
			}
			table.Rows = append(table.Rows, row)
		}
		p.Tables = append(p.Tables, table)
		if err := p.Draw(what, "The least time of all rounds.", &fig); err != nil {
			return nil, err
		}
	}
	for m, method := range methods {
		// Shown, not judged: the slope of measured times depends on caches and block sizes too.
		p.Add(lab.Check{What: "power of d, draw and multiply, " + method.name, Source: lab.PrintedIn("Table 1"),
			Reference: method.text, Ours: fmt.Sprintf("draw d^%.1f, multiply d^%.1f", slope(v.Draw[m]),
				slope(v.Apply[m])),
			Interval: fmt.Sprintf("d = %d … %d", dims[last-1], dims[last]), Verdict: lab.Shown})
		p.InTable("Table 1", method.row, method.column)
	}
	ratio := v.Draw[1][last] / v.Draw[0][last]
	p.Claim(fmt.Sprintf("SimRFs cost as much as ORFs, d = %d", dims[last]), lab.StatedIn("§4.2"), "essentially equal",
		fmt.Sprintf("%.2f times to draw, %.2f times to multiply", ratio, v.Apply[1][last]/v.Apply[0][last]),
		lab.Judge(ratio < 1.5 && v.Apply[1][last]/v.Apply[0][last] < 1.5),
		"times on a busy machine, or a slow step of ours")
	p.Claim(fmt.Sprintf("fast couplings multiply faster than regular ones, d = %d", dims[last]),
		lab.StatedIn("Table 1"),
		"O(d log d) against O(d²)", fmt.Sprintf("%.1f times (ORFs), %.1f times (SimRFs)",
			v.Apply[0][last]/v.Apply[3][last],
			v.Apply[1][last]/v.Apply[4][last]), lab.Judge(v.Apply[3][last] < v.Apply[0][last] &&
			v.Apply[4][last] < v.Apply[1][last]),
		"times on a busy machine, or vectors too short for fast transforms")
	return p, nil
}

// batch is the number of rows that are multiplied at once.
const batch = 64

// timeApply returns the time of one product with a batch of rows, the mean over a millisecond.
func timeApply(w coupling.Omega, x dense.Matrix[float64]) float64 {
	out, tab := dense.New[float64](x.Rows, w.Rows.Rows), kern.Best[float64]()
	var panel kern.Panel[float64]
	tab.Pack(&panel, w.Rows)
	product := func() { tab.MulT(out, x, &panel, nil) }
	if w.Fast != nil {
		t := omega.NewTransform(w.Fast, tab)
		scratch := make([]float64, t.Scratch())
		product = func() {
			for i := range x.Rows {
				t.Apply(out.Row(i), x.Row(i), scratch)
			}
		}
	}
	n := 0
	from := time.Now()
	for n == 0 || time.Since(from) < time.Millisecond {
		product()
		n++
	}
	return time.Since(from).Seconds() / float64(n)
}
