package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
)

// Kernel machines. The RBFSampler of the peers gets every projection twice, with offsets −π/2 and 0: its cosines are
// then our sines and cosines, and results can be compared.

// trigSpec is the map with given projections: two features per projection.
func trigSpec(w dense.Matrix[float64]) (randfeat.Spec, []coupling.Omega) {
	return randfeat.Spec{Family: family.Trig{}, Dim: w.Cols, M: w.Rows}, []coupling.Omega{{Rows: w}}
}

// regressionData draws n rows of d inputs and a smooth target with noise.
func regressionData(n, d int, seed uint64) (x, y dense.Matrix[float64]) {
	x, y = random[float64](n, d, 1/math.Sqrt(float64(d)), seed), random[float64](n, 1, 0.3, seed+1)
	for i := range n {
		r := x.Row(i)
		y.Data[i] += math.Sin(3*(r[0]+r[1]+r[2])) + dense.Dot(r, r)
	}
	return x, y
}

// ridgeCase fits from inputs to weights, including features. Predictions of other rows are compared.
func ridgeCase(n, d, features int) benchCase {
	const lambda = 1
	x, y := regressionData(n, d, 1)
	w := random[float64](features/2, d, 1, 3)
	newX, newY := regressionData(4096, d, 5)
	spec, omega := trigSpec(w)
	fit := func(single bool) *machine.Model {
		r := must(machine.NewRidge(machine.Setup{Spec: spec, Omega: omega, Outputs: 1, Float32: single}))
		check(r.Add(x, y))
		return must(r.Model(lambda))
	}
	predict := func(m *machine.Model) dense.Matrix[float64] {
		out := dense.New[float64](newX.Rows, 1)
		check(must(machine.NewPredictor[float64](m)).Predict(out, newX, nil))
		return out
	}
	const (
		double, single = "randfeat Ridge", "randfeat Ridge, features and products in float32"
		pipeline       = "scikit-learn RBFSampler + Ridge(cholesky)"
		pipeline32     = pipeline + ", float32"
		alone          = "scikit-learn Ridge(cholesky) on ready features"
	)
	var model64, model32 *machine.Model
	return benchCase{
		name: fmt.Sprintf("ridge fit %d×%d, %d features", n, d, features), peer: "ridge",
		arrays: map[string]any{"x": x, "y": y, "w": w, "new": newX},
		ours: []variant{
			{name: double, run: func() { model64 = fit(false) },
				sample: func() []float64 { return sampleOf(predict(model64)) }},
			{name: single, run: func() { model32 = fit(true) }},
		},
		flops: float64(n) * float64(features) * float64(features+1), isFloat64: true, // of the products of features
		tolerance: 1e-8, tolerances: map[string]float64{pipeline32: 0.1}, sameFeatures: true, rounds: 5,
		targets: []target{
			{row: pipeline, against: double, least: 1}, {row: alone, against: double, least: 1},
			{row: pipeline, against: single, least: 1.5}, {row: alone, against: single, least: 1.5},
		},
		after: func() string {
			return fmt.Sprintf("Root mean squared error on %d fresh rows: %.6f in float64, %.6f with float32. The share of the limit is that of float64.",
				newX.Rows, rmse(predict(model64), newY), rmse(predict(model32), newY))
		},
	}
}

// readyRows are features and targets that are computed already.
type readyRows[T dense.Float] struct {
	phi dense.Matrix[T]
	y   dense.Matrix[float64]
}

func (r readyRows[T]) Rows(first int, phi dense.Matrix[T], y dense.Matrix[float64]) error {
	for i := range phi.Rows {
		copy(phi.Row(i), r.phi.Row(first+i))
		copy(y.Row(i), r.y.Row(first+i))
	}
	return nil
}

// readyCase is ridge regression on ready features in one precision: sums and solution only.
func readyCase[T dense.Float](n, features int) benchCase {
	const lambda = 1
	tn, f64 := typeName[T]()
	phi, newPhi := random[T](n, features, 1, 1), random[T](512, features, 1, 2)
	y := random[T](n, 1, 1, 3)
	targets := dense.New[float64](n, 2)
	for i := range n {
		targets.Set(i, 0, float64(y.Data[i])+float64(phi.At(i, 0)))
		targets.Set(i, 1, 1)
		y.Data[i] = T(targets.At(i, 0))
	}
	var w []float64
	var b float64
	fit := func() (w []float64, b float64) {
		var sums linalg.Normal
		var blocks linalg.Blocks[T]
		sums.Reset(features, 1)
		if !f64 {
			sums.Part = dense.New[float32](features, features)
		}
		check(blocks.Add(&sums, readyRows[T]{phi, targets}, n, 1024))
		s := must(sums.Solve(lambda, dense.Matrix[float64]{}))
		return s.W.Data, s.Intercept()[0]
	}
	return benchCase{
		name: fmt.Sprintf("ridge on ready features %d×%d %s", n, features, tn), peer: "ready",
		arrays: map[string]any{"phi": phi, "y": y, "new": newPhi},
		ours: []variant{{name: "randfeat sums and solution", run: func() { w, b = fit() },
			sample: func() []float64 {
				out := dense.New[float64](newPhi.Rows, 1)
				for i := range out.Data {
					out.Data[i] = b
					for j, v := range newPhi.Row(i) {
						out.Data[i] += w[j] * float64(v)
					}
				}
				return sampleOf(out)
			}}},
		flops: float64(n) * float64(features) * float64(features+1), isFloat64: f64, rounds: 5, tolerance: 1e-3,
		targets: []target{{row: "scikit-learn Ridge(cholesky)", least: 1.2}},
	}
}

func rmse(a, b dense.Matrix[float64]) float64 {
	sum := 0.0
	for i, v := range a.Data {
		sum += (v - b.Data[i]) * (v - b.Data[i])
	}
	return math.Sqrt(sum / float64(len(a.Data)))
}

// predictCase computes features and a linear model on them, as a served kernel machine does.
func predictCase[T dense.Float](n, d, features int, tolerance float64) benchCase {
	tn, f64 := typeName[T]()
	x := random[T](n, d, 1/math.Sqrt(float64(d)), 1)
	w := dense.Convert[float64](random[T](features/2, d, 1, 2))
	beta := dense.Convert[float64](random[T](features, 1, 1, 3))
	spec, omega := trigSpec(w)
	model := func(kind machine.Kind, task machine.Task, weights dense.Matrix[float64]) variant {
		p := must(machine.NewPredictor[T](&machine.Model{Kind: kind, Task: task, Outputs: weights.Cols, Spec: spec,
			Omega: omega, Rows: int64(n), Lambda: 1, Weights: weights, Intercept: make([]float64, weights.Cols)}))
		out := dense.New[T](n, weights.Cols)
		var ws machine.Workspace[T]
		return variant{run: func() { check(p.Predict(out, x, &ws)) }, sample: func() []float64 { return sampleOf(out) }}
	}
	logistic := model(machine.KindLogistic, machine.Classification,
		dense.Convert[float64](random[T](features, 2, 1, 4)))
	logistic.name, logistic.sample = "randfeat logistic, probabilities of 2 classes", nil
	ridge := model(machine.KindRidge, machine.Regression, beta)
	ridge.name = "randfeat ridge"
	const sampler = "scikit-learn RBFSampler + "
	return benchCase{
		name: fmt.Sprintf("transform and predict %d×%d, %d features, %s", n, d, features, tn), peer: "predict",
		arrays: map[string]any{"x": x, "w": dense.Convert[T](w), "beta": dense.Convert[T](beta)},
		ours:   []variant{ridge, logistic},
		flops:  float64(n) * float64(d) * float64(features), isFloat64: f64, tolerance: tolerance, sameFeatures: true,
		targets: []target{
			{row: sampler + "Ridge", against: ridge.name, least: 3},
			{row: sampler + "RidgeClassifier", against: ridge.name, least: 3},
			{row: sampler + "LogisticRegression", against: logistic.name, least: 3},
		},
	}
}

// csvCase reads all numbers of a CSV file, from the page cache into a matrix.
func csvCase(n, d int) benchCase {
	values := random[float64](n, d, 1, 1)
	path := numbersFile("randfeat-*.csv", func(w *bufio.Writer) {
		for j := range d {
			fmt.Fprintf(w, "%sc%d", []string{"", ","}[min(j, 1)], j)
		}
		var b []byte
		for i := range n {
			b = append(b[:0], '\n')
			for j, v := range values.Row(i) {
				if j > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendFloat(b, v, 'g', 7, 64)
			}
			must(w.Write(b))
		}
		check(w.WriteByte('\n'))
	})
	size := must(os.Stat(path)).Size()
	out := dense.New[float64](n, d)
	return benchCase{
		name: fmt.Sprintf("CSV of %d×%d numbers, %.0f MB", n, d, float64(size)/1e6), peer: "csv",
		arrays: map[string]any{"path": textFile(path)},
		ours: []variant{
			{name: "randfeat text.Open", run: func() { readTable(out, must(text.Open(path, data.Options{}))) },
				sample: func() []float64 { return sampleOf(out) }},
			{name: "randfeat data.Learn", run: func() {
				_, _, err := data.Learn(must(text.Open(path, data.Options{})), data.LearnOptions{})
				check(err)
			}},
		},
		bytes: float64(size), leastRate: 150, tolerance: 1e-15, isFloat64: true, rounds: 7,
		close: func() { os.Remove(path) },
	}
}

// tableCase reads the same numbers from another format.
func tableCase(n, d int, f data.Format) benchCase {
	values := random[float64](n, d, 1, 1)
	path := numbersFile("randfeat-*."+string(f), func(*bufio.Writer) {})
	columns, kinds := make([]string, d), make([]data.Kind, d)
	for j := range columns {
		columns[j], kinds[j] = fmt.Sprintf("c%d", j), data.Number
	}
	open := func() data.Source { return must(files.Open([]string{path}, data.Options{})) }
	var w data.Writer
	if f == data.Parquet {
		open = func() data.Source { return must(parquet.Open(path, data.Options{})) }
		w = must(parquet.Create(path, columns, kinds))
	} else {
		w = must(files.Create(path, f, columns, kinds))
	}
	var b data.Block
	for lo := 0; lo < n; lo += 1024 {
		hi := min(n, lo+1024)
		b.Reset(int64(lo), kinds)
		for i := lo; i < hi; i++ {
			for j, v := range values.Row(i) {
				v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 7, 64), 64)
				b.Cols[j].Num = append(b.Cols[j].Num, v)
			}
		}
		b.Rows = hi - lo
		check(w.WriteBlock(&b))
	}
	check(w.Close())
	out := dense.New[float64](n, d)
	return benchCase{
		name:  fmt.Sprintf("%s of %d×%d numbers", f, n, d),
		ours:  []variant{{name: "randfeat", run: func() { readTable(out, open()) }}},
		close: func() { os.Remove(path) },
	}
}

// numbersFile makes a temporary file with what fill writes.
func numbersFile(pattern string, fill func(*bufio.Writer)) string {
	f := must(os.CreateTemp("", pattern))
	w := bufio.NewWriter(f)
	fill(w)
	check(errors.Join(w.Flush(), f.Close()))
	return f.Name()
}

// textFile is an argument that peers get as the name of a file.
type textFile string

func readTable(out dense.Matrix[float64], src data.Source) {
	kinds := make([]data.Kind, out.Cols)
	for j := range kinds {
		kinds[j] = data.Number
	}
	r := must(src.Open(kinds))
	defer r.Close()
	var b data.Block
	for row := 0; ; row += b.Rows {
		err := r.Read(&b, 4096)
		if err == io.EOF {
			return
		}
		check(err)
		par.For(b.Rows, 256, func(lo, hi int) {
			for j := range b.Cols {
				for i, v := range b.Cols[j].Num[lo:hi] {
					out.Set(row+lo+i, j, v)
				}
			}
		})
	}
}

// generated is a text table that repeats the same lines until it has size bytes, as a stand-in for a huge file.
type generated struct {
	header, lines []byte
	size          int64
}

// newGenerated makes a table with d columns of numbers and a target.
func newGenerated(d int, size int64) *generated {
	g := &generated{size: size}
	var head, body bytes.Buffer
	for j := range d {
		fmt.Fprintf(&head, "c%d,", j)
	}
	head.WriteString("y\n")
	r := rand.New(rand.NewPCG(1, 1))
	for body.Len() < 4<<20 {
		sum := 0.0
		for range d {
			v := r.NormFloat64()
			sum += v
			fmt.Fprintf(&body, "%.5g,", v)
		}
		fmt.Fprintf(&body, "%.5g\n", math.Sin(sum)+0.1*r.NormFloat64())
	}
	g.header, g.lines = head.Bytes(), body.Bytes()
	return g
}

func (g *generated) Name() string { return "generated.csv" }
func (g *generated) Columns() []string {
	return strings.Split(strings.TrimSpace(string(g.header)), ",")
}

func (g *generated) Open(want []data.Kind) (data.Reader, error) {
	src, err := text.OpenReader(g.Name(), &generatedText{g: g, part: g.header, left: g.size},
		data.Options{Format: data.CSV})
	if err != nil {
		return nil, err
	}
	return src.Open(want)
}

type generatedText struct {
	g    *generated
	part []byte // the bytes to read next
	left int64  // bytes of repetitions still to come
}

func (t *generatedText) Read(p []byte) (int, error) {
	if len(t.part) == 0 {
		if t.left -= int64(len(t.g.lines)); t.left < 0 {
			return 0, io.EOF
		}
		t.part = t.g.lines
	}
	n := copy(p, t.part)
	t.part = t.part[n:]
	return n, nil
}
