package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
)

// shape is a kind of data. rows draws queries and keys, some to advise on and some fresh.
type shape struct {
	name string
	n    int // rows per side to advise on; 0: 512
	head bool
	rows func(r *rand.Rand, n int) (q, k dense.Matrix[float64], err error)
}

const freshRows = 160

func normals(n, d int, r *rand.Rand) dense.Matrix[float64] {
	m := dense.New[float64](n, d)
	for i := range m.Data {
		m.Data[i] = r.NormFloat64()
	}
	return m
}

// each makes a shape whose rows are drawn one by one; side 1 is that of keys.
func each(d int, row func(r *rand.Rand, x []float64, side int)) func(*rand.Rand, int) (q, k dense.Matrix[float64],
	err error) {
	return func(r *rand.Rand, n int) (q, k dense.Matrix[float64], err error) {
		q, k = normals(n, d, r), normals(n, d, r)
		for i := range n {
			row(r, q.Row(i), 0)
			row(r, k.Row(i), 1)
		}
		return q, k, nil
	}
}

func plain(*rand.Rand, []float64, int) {}

func scaled(x []float64, f float64) {
	for i := range x {
		x[i] *= f
	}
}

// shapes returns all kinds of data. dir and heads name folders of data sets and of arrays of real heads; empty:
// none.
func shapes(dir, heads string, which []float64) []shape {
	axis := func(i int) float64 { return 1 / float64(1+i) }
	centre := normals(8, 32, rand.New(rng.Stream(5, 1)))
	out := []shape{
		{name: "normal, d = 8", rows: each(8, plain)},
		{name: "normal, d = 64", rows: each(64, plain)},
		{name: "sphere, d = 64", rows: each(64, func(_ *rand.Rand, x []float64, _ int) {
			scaled(x, math.Sqrt(float64(len(x))/dense.Norm2(x)))
		})},
		{name: "heterogeneous rows, d = 32", rows: each(32, func(r *rand.Rand, x []float64, _ int) {
			scaled(x, math.Exp(0.6*r.NormFloat64()))
		})},
		{name: "small keys, d = 32", rows: each(32, func(_ *rand.Rand, x []float64, side int) {
			scaled(x, []float64{1.6, 0.4}[side])
		})},
		{name: "anisotropic, d = 32", rows: each(32, func(_ *rand.Rand, x []float64, _ int) {
			for i := range x {
				x[i] *= 3 * axis(i)
			}
		})},
		{name: "anisotropic, sides opposite, d = 32", rows: each(32, func(_ *rand.Rand, x []float64, side int) {
			for i := range x {
				x[i] *= 3 * axis([]int{i, len(x) - 1 - i}[side])
			}
		})},
		{name: "offset, d = 32", rows: each(32, func(_ *rand.Rand, x []float64, side int) {
			for i := range x {
				x[i] = 0.4*x[i] + []float64{1, -0.6}[side]
			}
		})},
		{name: "clustered, d = 32", rows: each(32, func(r *rand.Rand, x []float64, _ int) {
			for i, c := range centre.Row(r.IntN(centre.Rows)) {
				x[i] = 0.25*x[i] + c
			}
		})},
		{name: "outliers, d = 32", rows: each(32, func(r *rand.Rand, x []float64, _ int) {
			if r.Float64() < 0.02 {
				scaled(x, 5)
			}
		})},
		{name: "40 rows, d = 32", n: 40, rows: each(32, plain)},
		{name: "40 anisotropic rows, d = 32", n: 40, rows: each(32, func(_ *rand.Rand, x []float64, _ int) {
			for i := range x {
				x[i] *= 3 * axis(i)
			}
		})},
		{name: "12 rows, d = 16", n: 12, rows: each(16, plain)},
		{name: "uniform in a cube, d = 16", rows: each(16, func(r *rand.Rand, x []float64, _ int) {
			for i := range x {
				x[i] = r.Float64()
			}
		})},
		{name: "heavy tails, d = 24", rows: each(24, func(r *rand.Rand, x []float64, _ int) {
			for i := range x { // Student's t with 5 degrees of freedom
				var chi float64
				for range 5 {
					z := r.NormFloat64()
					chi += z * z
				}
				x[i] /= math.Sqrt(chi / 5)
			}
		})},
		{name: "3 directions and noise, d = 48", rows: each(48, func(_ *rand.Rand, x []float64, _ int) {
			for i := 3; i < len(x); i++ {
				x[i] *= 0.1
			}
		})},
	}
	if dir != "" {
		for _, set := range []string{"mnist", "fashion_mnist"} {
			out = append(out, shape{name: set + ", 7×7", rows: from(func() (dense.Matrix[float64], error) {
				return images(filepath.Join(dir, set))
			})})
		}
		for _, set := range [][3]string{{"abalone", "abalone.data", "c9"},
			{"banknote", "data_banknote_authentication.txt", "c5"}, {"wine", "wine.data", "c1"},
			{"wine_quality", "winequality-red.csv", "c12"}, {"ionosphere", "ionosphere.data", "c35"},
			{"wifi", "wifi_localization.txt", "c8"}, {"yeast", "yeast.data", "c10"},
			{"boston", "housing.data", "c14"}, {"cmc", "cmc.data", "c10"}} {
			out = append(out, shape{name: set[0], rows: from(func() (dense.Matrix[float64], error) {
				return table(filepath.Join(dir, set[0], set[1]), set[2])
			})})
		}
	}
	if heads != "" {
		for _, h := range which {
			out = append(out, shape{name: fmt.Sprintf("head %g", h), head: true, rows: headRows(heads, int(h))})
		}
	}
	return out
}

// from draws rows of a set, disjoint ones for queries and keys.
func from(load func() (dense.Matrix[float64], error)) func(*rand.Rand, int) (q, k dense.Matrix[float64], err error) {
	return func(r *rand.Rand, n int) (q, k dense.Matrix[float64], err error) {
		all, err := load()
		if err != nil {
			return q, k, err
		}
		order := r.Perm(all.Rows)
		n = min(n, all.Rows/2)
		q, k = dense.New[float64](n, all.Cols), dense.New[float64](n, all.Cols)
		for i := range n {
			copy(q.Row(i), all.Row(order[2*i]))
			copy(k.Row(i), all.Row(order[2*i+1]))
		}
		return q, k, nil
	}
}

// table reads a table as a kernel machine sees it: standardised columns, levels as indicators.
func table(path, target string) (m dense.Matrix[float64], err error) {
	src, err := text.Open(path, data.Options{Header: new(bool)})
	if err != nil {
		return m, err
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Skip: []string{target}})
	if err != nil {
		return m, err
	}
	enc, err := schema.Encoder(src.Columns(), false)
	if err != nil {
		return m, err
	}
	r, err := src.Open(enc.Kinds())
	if err != nil {
		return m, err
	}
	defer r.Close()
	m.Cols, m.Stride = schema.Width(), schema.Width()
	var b data.Block
	for {
		err := r.Read(&b, 1024)
		if err == io.EOF {
			return m, nil
		}
		if err != nil {
			return m, err
		}
		x := dense.New[float64](b.Rows, m.Cols)
		if err := enc.Encode(x, dense.Matrix[float64]{}, &b, r.Where); err != nil {
			return m, err
		}
		m.Rows, m.Data = m.Rows+x.Rows, append(m.Data, x.Data...)
	}
}

// images reads 4000 images, averaged over 4×4 pixels.
func images(dir string) (m dense.Matrix[float64], err error) {
	f, err := os.Open(filepath.Join(dir, "t10k-images-idx3-ubyte.gz"))
	if err != nil {
		return m, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return m, err
	}
	b := make([]byte, 16+4000*784)
	if _, err := io.ReadFull(z, b); err != nil {
		return m, err
	}
	m = dense.New[float64](4000, 49)
	for i := range m.Rows {
		for p, v := range b[16+784*i : 16+784*(i+1)] {
			m.Row(i)[p/28/4*7+p%28/4] += float64(v) / 255 / 16
		}
	}
	return m, nil
}

// headRows returns queries and keys of a head over all passages, scaled as in attention.
func headRows(dir string, head int) func(*rand.Rand, int) (q, k dense.Matrix[float64], err error) {
	return func(r *rand.Rand, n int) (q, k dense.Matrix[float64], err error) {
		var sides [2]dense.Matrix[float64]
		for i, side := range []string{"q", "k"} {
			t, err := npy.ReadTensorFile(filepath.Join(dir, side+".npy"))
			if err != nil {
				return q, k, err
			}
			all := npy.Floats[float32](t)
			b, h, l, d := t.Shape[0], t.Shape[1], t.Shape[2], t.Shape[3]
			sides[i] = dense.New[float64](n, d)
			for a, at := range r.Perm(b * l)[:n] {
				for c, v := range all[((at/l*h+head)*l+at%l)*d:][:d] {
					sides[i].Row(a)[c] = float64(v) / math.Pow(float64(d), 0.25)
				}
			}
		}
		return sides[0], sides[1], nil
	}
}
