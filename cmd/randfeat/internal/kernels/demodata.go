package kernels

import (
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
)

// The demo data: queries and keys whose variances fall off along the same random axes, in opposite order for
// the two sides, around different means. Logits x·y are moderate, but |x+y|² is not small. Feature maps differ
// most there.
const (
	demoDim  = 16
	demoRows = 24
	// demoFit is the number of rows of each side that families are fitted to; they are not rows of the Gram
	// matrix.
	demoFit  = 1000
	demoSeed = 20220531
)

// demoData draws the queries and the keys. The seed is fixed, so every run sees the same rows.
func demoData() (queries, keys dense.Matrix[float64], err error) { return drawDemo(demoRows, 1, 2) }

// DemoFitData draws the rows that families are fitted to.
func DemoFitData() (queries, keys dense.Matrix[float64], err error) { return drawDemo(demoFit, 3, 4) }

func drawDemo(rows int, queryStream, keyStream uint64) (queries, keys dense.Matrix[float64], err error) {
	g := dense.New[float64](demoDim, demoDim)
	rng.Normals(g.Data, rng.Stream(demoSeed, 0))
	axes, err := omega.HaarFromGaussian(g)
	if err != nil {
		return queries, keys, err
	}
	side := func(stream uint64, spread func(l int) float64, mean float64) dense.Matrix[float64] {
		m, z := dense.New[float64](rows, demoDim), make([]float64, demoDim)
		src := rng.Stream(demoSeed, stream)
		for i := range m.Rows {
			rng.Normals(z, src)
			for l := range z {
				z[l] = mean + spread(l)*z[l]
			}
			row := m.Row(i)
			for j := range row {
				row[j] = dense.Dot(axes.Row(j), z)
			}
		}
		return m
	}
	decay := func(l int) float64 { return 0.7 / float64(l+1) }
	queries = side(queryStream, decay, 0.08)
	keys = side(keyStream, func(l int) float64 { return decay(demoDim - 1 - l) }, 0.05)
	return queries, keys, nil
}
