package papers

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// normals returns n rows of N(0, sd² I).
func normals(n, d int, sd float64, seed uint64) dense.Matrix[float64] {
	x := dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(seed))
	for i := range x.Data {
		x.Data[i] *= sd
	}
	return x
}

// sphere returns n rows of length r in random directions.
func sphere(n, d int, r float64, seed uint64) dense.Matrix[float64] {
	x := normals(n, d, 1, seed)
	for i := range n {
		row := x.Row(i)
		norm := math.Sqrt(dense.Dot(row, row))
		for j := range row {
			row[j] *= r / norm
		}
	}
	return x
}

// squares has the mean squared relative errors of a spec at pairs of rows (x_i, y_i), with all spec.M projections,
// over reps seeds. The spread between batches of seeds gives the error of the mean.
type squares struct {
	mean []float64 // per pair: mean of (κ̂/κ − 1)²
	bias []float64 // per pair: mean of κ̂/κ − 1
	// batch[b] is the mean squared error over pairs in batch b.
	batch []float64
}

// measurePairs draws reps maps, in batches, and measures their errors at all pairs.
func measurePairs(spec randfeat.Spec, x, y dense.Matrix[float64], reps, batches int, seed uint64) (s squares,
	err error) {
	n := x.Rows
	s.mean, s.bias = make([]float64, n), make([]float64, n)
	var ws randfeat.Workspace[float64]
	ws.Workers = 1
	var px, py dense.Matrix[float64]
	lx, ly := make([]float64, n), make([]float64, n)
	logK := make([]float64, n)
	for i := range n {
		if logK[i], err = logKernel(spec.Target(), x.Row(i), y.Row(i)); err != nil {
			return s, err
		}
	}
	per := max(1, reps/batches)
	for b := range batches {
		sum := 0.0
		for r := range per {
			m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(b*per+r))))
			if err != nil {
				return s, err
			}
			if px.Rows == 0 {
				px, py = dense.New[float64](n, m.OutDim()), dense.New[float64](n, m.OutDim())
			}
			if err := m.Queries(px, lx, x, &ws); err != nil {
				return s, err
			}
			if err := m.Keys(py, ly, y, &ws); err != nil {
				return s, err
			}
			for i := range n {
				e := dense.Dot(px.Row(i), py.Row(i))*math.Exp(lx[i]+ly[i]-logK[i]) - 1
				s.bias[i] += e / float64(per*batches)
				s.mean[i] += e * e / float64(per*batches)
				sum += e * e
			}
		}
		s.batch = append(s.batch, sum/float64(per*n))
	}
	return s, nil
}

// singles measures the variance of one projection relative to κ² over many independent projections: feature i of a
// map belongs to projection i mod m. It returns batch means of the mean over pairs of rv_i/want_i.
func singles(spec randfeat.Spec, x, y dense.Matrix[float64], want []float64, batches, per int, seed uint64) ([]float64,
	error) {
	n := x.Rows
	var ws randfeat.Workspace[float64]
	ws.Workers = 1
	lx, ly := make([]float64, n), make([]float64, n)
	var px, py dense.Matrix[float64]
	out := make([]float64, batches)
	for b := range batches {
		for r := range per {
			m, err := randfeat.New[float64](spec.WithSeed(rng.Mix64(seed + uint64(b*per+r))))
			if err != nil {
				return nil, err
			}
			if px.Rows == 0 {
				px, py = dense.New[float64](n, m.OutDim()), dense.New[float64](n, m.OutDim())
			}
			if err := m.Queries(px, lx, x, &ws); err != nil {
				return nil, err
			}
			if err := m.Keys(py, ly, y, &ws); err != nil {
				return nil, err
			}
			for i := range n {
				logK, err := logKernel(spec.Target(), x.Row(i), y.Row(i))
				if err != nil {
					return nil, err
				}
				scale := float64(spec.M) * math.Exp(lx[i]+ly[i]-logK)
				p, q := px.Row(i), py.Row(i)
				sum := 0.0
				for f := range spec.M {
					z := 0.0
					for g := f; g < len(p); g += spec.M {
						z += p[g] * q[g]
					}
					sum += (z*scale - 1) * (z*scale - 1)
				}
				out[b] += sum / float64(spec.M*per*n) / want[i]
			}
		}
	}
	return out, nil
}

// logKernel returns the logarithm of the exact kernel of two rows.
func logKernel(k kernel.Kernel, x, y []float64) (float64, error) {
	var out [1]float64
	dst := dense.Matrix[float64]{Rows: 1, Cols: 1, Stride: 1, Data: out[:]}
	row := func(v []float64) dense.Matrix[float64] {
		return dense.Matrix[float64]{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
	}
	err := kernel.LogGram(k, dst, row(x), row(y))
	return out[0], err
}
