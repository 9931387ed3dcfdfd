package centroid_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
)

// compactCase is a context of keys in clusters of different sizes, whose values are those of their cluster with noise,
// and two independent sets of queries of one law.
func compactCase(seed uint64, n, d, dv, clusters, queries int) (k, v, q, fresh dense.Matrix[float32]) {
	r := rand.New(rand.NewPCG(seed, 1))
	normal := func(rows, cols int, scale float64) dense.Matrix[float32] {
		m := dense.New[float32](rows, cols)
		for i := range m.Data {
			m.Data[i] = float32(scale * r.NormFloat64())
		}
		return m
	}
	ck, cv := normal(clusters, d, 1), normal(clusters, dv, 1)
	k, v = normal(n, d, 0.3), normal(n, dv, 0.2)
	for j := range n {
		c := int(float64(clusters) * r.Float64() * r.Float64())
		for i, x := range ck.Row(c) {
			k.Row(j)[i] += x
		}
		for i, x := range cv.Row(c) {
			v.Row(j)[i] += x
		}
	}
	return k, v, normal(queries, d, 1.5), normal(200, d, 1.5)
}

// attended is softmax attention over keys with a bias, in float64.
func attended(q, k, v dense.Matrix[float32], bias []float32) [][]float64 {
	out := make([][]float64, q.Rows)
	for i := range out {
		score, top := make([]float64, k.Rows), math.Inf(-1)
		for j := range score {
			for c, x := range q.Row(i) {
				score[j] += float64(x) * float64(k.At(j, c))
			}
			score[j] = score[j]/math.Sqrt(float64(k.Cols)) + float64(bias[j])
			top = max(top, score[j])
		}
		var sum float64
		out[i] = make([]float64, v.Cols)
		for j, s := range score {
			e := math.Exp(s - top)
			sum += e
			for c, x := range v.Row(j) {
				out[i][c] += e * float64(x)
			}
		}
		for c := range out[i] {
			out[i][c] /= sum
		}
	}
	return out
}

// relative is the rms of x − y in units of the rms of y.
func relative(x, y [][]float64) float64 {
	var num, den float64
	for i := range x {
		for c, v := range x[i] {
			num += (v - y[i][c]) * (v - y[i][c])
			den += y[i][c] * y[i][c]
		}
	}
	return math.Sqrt(num / den)
}

func compacted(t *testing.T, k, v, q dense.Matrix[float32], budget int) centroid.CompactHead {
	t.Helper()
	c, err := centroid.Compact(k, v, q, 0, budget)
	if err != nil {
		t.Fatal(err)
	}
	if c.Keys.Rows != min(budget, k.Rows) || c.Values.Rows != c.Keys.Rows || len(c.Bias) != c.Keys.Rows {
		t.Fatalf("%d keys, %d values, %d biases for a budget of %d", c.Keys.Rows, c.Values.Rows, len(c.Bias), budget)
	}
	return c
}

// On queries that compaction has not seen, an eighth of the slots has less than half the error of sinks and window
// at equal size; more slots have less error, also when there are more slots than queries.
func TestCompactError(t *testing.T) {
	k, v, q, fresh := compactCase(3, 512, 32, 16, 40, 400)
	want := attended(fresh, k, v, make([]float32, k.Rows))
	before := math.Inf(1)
	for _, budget := range []int{16, 64, 256, 450} {
		c := compacted(t, k, v, q, budget)
		err := relative(attended(fresh, c.Keys, c.Values, c.Bias), want)
		var wk, wv []float32
		for j := range k.Rows {
			if j < 4 || j >= k.Rows-budget+4 {
				wk, wv = append(wk, k.Row(j)...), append(wv, v.Row(j)...)
			}
		}
		window := relative(attended(fresh, dense.Matrix[float32]{Rows: budget, Cols: 32, Stride: 32, Data: wk},
			dense.Matrix[float32]{Rows: budget, Cols: 16, Stride: 16, Data: wv}, make([]float32, budget)), want)
		t.Logf("%d of %d: error %.4f, sinks and window %.4f", budget, k.Rows, err, window)
		if !(err < before) || budget == 64 && !(err < window/2) {
			t.Errorf("%d slots: error %v, %v with fewer, %v of sinks and window", budget, err, before, window)
		}
		before = err
	}
}

// A full budget keeps keys and values, a smaller one the mass of the queries in the mean, and the mean output.
func TestCompactMassAndMean(t *testing.T) {
	k, v, q, _ := compactCase(5, 300, 16, 8, 20, 256)
	full := compacted(t, k, v, q, 1000)
	if !slices.Equal(full.Keys.Data, k.Data) || !slices.Equal(full.Values.Data, v.Data) || slices.Max(full.Bias) != 0 {
		t.Error("a budget of more than all keys changes them")
	}
	for _, budget := range []int{1, 2, 5, 9, 37} {
		c := compacted(t, k, v, q, budget)
		mass := func(i int, k dense.Matrix[float32], bias []float32) float64 {
			var sum float64
			for j := range k.Rows {
				sum += math.Exp(float64(dense.Dot(q.Row(i), k.Row(j)))/4 + float64(bias[j]))
			}
			return sum
		}
		var ratio float64
		for i := range q.Rows {
			ratio += mass(i, c.Keys, c.Bias) / mass(i, k, full.Bias) / float64(q.Rows)
		}
		if !(math.Abs(ratio-1) < 1e-4) {
			t.Errorf("%d slots: the mean ratio of masses is %v, want 1", budget, ratio)
		}
		got, want := attended(q, c.Keys, c.Values, c.Bias), attended(q, k, v, full.Bias)
		mean := func(x [][]float64) [][]float64 {
			m := make([]float64, len(x[0]))
			for i := range x {
				for c, v := range x[i] {
					m[c] += v / float64(len(x))
				}
			}
			return [][]float64{m}
		}
		if d := relative(mean(got), mean(want)); !(d < 0.12) {
			t.Errorf("%d slots: the mean output is off by %v of its size", budget, d)
		}
	}
}

// With more slots than queries another system gives the values. Every query twice is the same problem, solved by the
// other system.
func TestCompactFewQueries(t *testing.T) {
	k, v, q, _ := compactCase(13, 400, 16, 8, 20, 200)
	twice := dense.Matrix[float32]{Rows: 400, Cols: 16, Stride: 16, Data: append(slices.Clone(q.Data), q.Data...)}
	a, b := compacted(t, k, v, q, 250), compacted(t, k, v, twice, 250)
	for i, x := range a.Values.Data {
		if y := b.Values.Data[i]; !(math.Abs(float64(x-y)) < 1e-3) {
			t.Fatalf("value %d is %v, %v by the larger system", i, x, y)
		}
	}
}

// The slots have the same bits at any number of processors.
func TestCompactIsDeterministic(t *testing.T) {
	k, v, q, _ := compactCase(7, 400, 16, 8, 20, 256)
	one := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(one)
	for _, budget := range []int{50, 300} {
		runtime.GOMAXPROCS(1)
		a := compacted(t, k, v, q, budget)
		runtime.GOMAXPROCS(5)
		b := compacted(t, k, v, q, budget)
		if !slices.Equal(a.Keys.Data, b.Keys.Data) || !slices.Equal(a.Values.Data, b.Values.Data) ||
			!slices.Equal(a.Bias, b.Bias) {
			t.Errorf("%d slots: other bits on five processors", budget)
		}
	}
}

// Wrong arguments are errors; contexts of equal keys, or queries of zeros, are not.
func TestCompactArguments(t *testing.T) {
	k, v, q, _ := compactCase(9, 40, 8, 4, 5, 30)
	nan := q.Clone()
	nan.Set(3, 2, float32(math.NaN()))
	for name, call := range map[string]func() error{
		"values":  func() error { _, err := centroid.Compact(k, v.RowRange(0, 39), q, 0, 4); return err },
		"queries": func() error { _, err := centroid.Compact(k, v, q.ColRange(0, 7), 0, 4); return err },
		"none":    func() error { _, err := centroid.Compact(k, v, q.RowRange(0, 0), 0, 4); return err },
		"budget":  func() error { _, err := centroid.Compact(k, v, q, 0, 0); return err },
		"scale":   func() error { _, err := centroid.Compact(k, v, q, math.Inf(1), 4); return err },
		"nan":     func() error { _, err := centroid.Compact(k, v, nan, 0, 4); return err },
	} {
		err := call()
		if !errors.Is(err, dense.ErrShape) && !errors.Is(err, centroid.ErrSpec) && !errors.Is(err, dense.ErrNotFinite) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for j := range k.Rows {
		copy(k.Row(j), k.Row(0))
		copy(v.Row(j), v.Row(0))
	}
	for _, q := range []dense.Matrix[float32]{q, dense.New[float32](30, 8)} {
		c := compacted(t, k, v, q, 6)
		bias := make([]float32, k.Rows)
		if d := relative(attended(q, c.Keys, c.Values, c.Bias), attended(q, k, v, bias)); !(d < 1e-5) {
			t.Errorf("equal keys: the outputs differ by %v", d)
		}
	}
}

// layerOf cuts sequences of tokens [lo, hi) out of n tokens.
func layerOf(x []float32, heads, dim, n, lo, hi int) attention.Seq[float32] {
	return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: heads, Len: hi - lo, Dim: dim},
		Data: x[lo*heads*dim : hi*heads*dim], StrideB: (hi - lo) * heads * dim, StrideH: dim, StrideL: heads * dim}
}

// With all keys kept, steps give exact attention to 1e-5; with fewer their bits do not depend on how tokens are divided
// among steps, forks go on by themselves, and a saved state goes on with the same bits.
func TestCompacted(t *testing.T) {
	const heads, kv, d, dv, context, more = 6, 2, 16, 8, 70, 40
	const n = context + more
	r := rand.New(rand.NewPCG(11, 1))
	data := func(heads, dim int) []float32 {
		x := make([]float32, n*heads*dim)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	q, k, v := data(heads, d), data(kv, d), data(kv, dv)
	state := func(budget int) *centroid.Compacted {
		var list []centroid.CompactHead
		for h := range kv {
			list = append(list, compacted(t, layerOf(k, kv, d, n, 0, context).Head(0, h),
				layerOf(v, kv, dv, n, 0, context).Head(0, h), layerOf(q, heads, d, n, 0, context).Head(0, 3*h),
				budget+h))
		}
		s, err := centroid.NewCompacted(list, heads, context, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := func(s centroid.State, from, to, step int) []float32 {
		out := make([]float32, n*heads*dv)
		for lo := from; lo < to; lo += step {
			hi := min(lo+step, to)
			if err := s.Step(layerOf(out, heads, dv, n, lo, hi), layerOf(q, heads, d, n, lo, hi),
				layerOf(k, kv, d, n, lo, hi), layerOf(v, kv, dv, n, lo, hi)); err != nil {
				t.Fatal(err)
			}
		}
		return out[from*heads*dv : to*heads*dv]
	}
	exact := make([]float32, n*heads*dv)
	softmax := attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}}
	if _, err := softmax.Forward(layerOf(exact, heads, dv, n, 0, n), layerOf(q, heads, d, n, 0, n),
		layerOf(k, kv, d, n, 0, n), layerOf(v, kv, dv, n, 0, n)); err != nil {
		t.Fatal(err)
	}
	for i, x := range run(state(context), context, n, 7) {
		if want := exact[context*heads*dv+i]; !(math.Abs(float64(x-want)) <= 1e-5) {
			t.Fatalf("output %d is %v, exactly %v", i, x, want)
		}
	}

	s := state(9)
	want := run(s, context, n, more)
	if s.Len() != n || !slices.Equal(s.Slots(), []int{9, 10}) || s.Bytes() <= 0 || s.Report().Rows != heads*more {
		t.Errorf("%d tokens, %v slots, %d bytes, %+v", s.Len(), s.Slots(), s.Bytes(), s.Report())
	}
	for _, step := range []int{1, 3} {
		if !slices.Equal(run(state(9), context, n, step), want) {
			t.Errorf("other bits with %d tokens a step", step)
		}
	}
	s = state(9)
	run(s, context, context+10, 10)
	f := s.Fork()
	b, err := s.AppendBinary([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.TrimPrefix(b, []byte("before"))
	if !centroid.IsCompacted(b) || centroid.IsCompacted(b[1:]) {
		t.Error("a saved state is not known as such")
	}
	layer := func(heads, dim int) attention.Shape { return attention.Shape{Batch: 1, Heads: heads, Dim: dim} }
	saved, err := centroid.ReadCompacted(b, 0, layer(heads, d), layer(kv, dv))
	if err != nil {
		t.Fatal(err)
	}
	// A fork that reads other tokens in between leaves its origin alone.
	origin := state(9)
	run(origin, context, context+10, 10)
	other := origin.Fork()
	run(origin, context+10, context+20, 10)
	run(other, context+25, context+35, 10)
	if !slices.Equal(run(origin, context+20, n, 4), want[20*heads*dv:]) {
		t.Error("a fork changes its origin")
	}
	rest := want[10*heads*dv:]
	for i, st := range []centroid.State{f, s, saved} {
		if !slices.Equal(run(st, context+10, n, 4), rest) {
			t.Errorf("state %d goes on with other bits", i)
		}
	}
	if _, err := centroid.ReadCompacted(b, 0, layer(heads, d), layer(kv, dv+1)); !errors.Is(err,
		attention.ErrMismatch) {
		t.Errorf("another shape: %v", err)
	}
	for i := range b {
		if _, err := centroid.ReadCompacted(b[:i], 0, layer(heads, d), layer(kv, dv)); err == nil {
			t.Fatalf("%d of %d bytes are read without an error", i, len(b))
		}
	}
	if _, err := centroid.NewCompacted([]centroid.CompactHead{{Keys: dense.New[float32](3, d),
		Values: dense.New[float32](2, dv), Bias: make([]float32, 3)}}, heads, 3, 0); !errors.Is(err, dense.ErrShape) {
		t.Errorf("values of other slots: %v", err)
	}
	s.Reset()
	if s.Len() != 0 {
		t.Errorf("%d tokens after Reset", s.Len())
	}
	run(s, 0, 5, 5)
}

// Logits of any size: attention to single keys, to which no mean of keys comes near.
func TestCompactLargeLogits(t *testing.T) {
	for _, size := range []float32{3, 10, 30, 100} {
		k, v, q, fresh := compactCase(6, 200, 16, 4, 9, 150)
		for i := range k.Data {
			k.Data[i] *= size
		}
		h := compacted(t, k, v, q, 150)
		want := attended(fresh, k, v, make([]float32, k.Rows))
		if d := relative(attended(fresh, h.Keys, h.Values, h.Bias), want); !(d < 1) {
			t.Errorf("keys × %v: relative error %v", size, d)
		}
	}
}

// Equal keys share a slot: a context that repeats few keys is remembered without loss, also if the repeated ones
// receive the most attention.
func TestCompactEqualKeys(t *testing.T) {
	const n, distinct, budget = 300, 30, 40
	k, v, q, fresh := compactCase(5, n, 8, 6, 4, 200)
	r := rand.New(rand.NewPCG(5, 2))
	for j := distinct; j < n; j++ {
		from := int(distinct * r.Float64() * r.Float64() * r.Float64()) // the first keys most often
		copy(k.Row(j), k.Row(from))
	}
	h, err := centroid.Compact(k, v, q, 0, budget)
	if err != nil {
		t.Fatal(err)
	}
	if h.Keys.Rows > budget || h.Keys.Rows != len(h.Bias) || h.Values.Rows != h.Keys.Rows {
		t.Fatalf("%d keys, %d values, %d biases, want at most %d", h.Keys.Rows, h.Values.Rows, len(h.Bias), budget)
	}
	want := attended(fresh, k, v, make([]float32, n))
	if d := relative(attended(fresh, h.Keys, h.Values, h.Bias), want); !(d < 1e-4) {
		t.Errorf("relative error %v with a slot for every distinct key", d)
	}
	list, err := centroid.CompactEach(k, v, q, 0, 7, budget, n)
	if err != nil {
		t.Fatal(err)
	}
	if list[0].Keys.Rows != 7 || !slices.Equal(list[1].Values.Data, h.Values.Data) || list[2].Keys.Rows != n {
		t.Error("several budgets at once give other slots")
	}
}

// A repeated key receives attention as often as it occurs. With room for two slots between the edges these are the two
// keys that occur twenty times, though a single key near one of them receives more attention than each copy.
func TestCompactCountsRepeatedKeys(t *testing.T) {
	const copies, n = 20, 8 + 2*20 + 2
	k, v := dense.New[float32](n, 4), dense.New[float32](n, 1)
	for j := range n {
		switch row := k.Row(j); {
		case j < 4 || j >= n-4: // the edges receive no attention
			row[3] = -20
		case j < 4+copies:
			row[0], v.Row(j)[0] = 2, 1
		case j < 4+2*copies:
			row[1], v.Row(j)[0] = 2, -1
		default: // two single keys
			row[0], v.Row(j)[0] = 2.5, 1
			row[2] = float32(j-4-2*copies) - 0.5
		}
	}
	q := dense.New[float32](200, 4)
	r := rand.New(rand.NewPCG(8, 1))
	for i := range q.Data {
		q.Data[i] = float32(r.NormFloat64())
		if i%4 == 3 {
			q.Data[i] = 1
		}
	}
	h := compacted(t, k, v, q, 10)
	for s, want := range []float32{0, 1} {
		row := h.Keys.Row(4 + s)
		if got := row[1] / (row[0] + row[1]); math.Abs(float64(got-want)) > 1e-3 {
			t.Errorf("slot %d has the key %v: the repeated keys have no slots of their own", 4+s, row)
		}
	}
	if e := relative(attended(q, h.Keys, h.Values, h.Bias), attended(q, k, v, make([]float32, n))); !(e < 0.05) {
		t.Errorf("relative error %v", e)
	}
}

func ExampleCompact() {
	// 400 keys on a circle, with their height as value.
	k, v := dense.New[float32](400, 2), dense.New[float32](400, 1)
	for j := range k.Rows {
		sin, cos := math.Sincos(2 * math.Pi * float64(j) / 400)
		k.Row(j)[0], k.Row(j)[1], v.Row(j)[0] = float32(cos), float32(sin), float32(sin)
	}
	// Examples of later queries: here, all directions.
	q := dense.New[float32](100, 2)
	for i := range q.Rows {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / 100)
		q.Row(i)[0], q.Row(i)[1] = float32(4*cos), float32(4*sin)
	}
	head, err := centroid.Compact(k, v, q, 1, 50)
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := centroid.NewCompacted([]centroid.CompactHead{head}, 1, 400, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The next token has the query (0, 4) and a key that hardly counts.
	seq := func(x ...float32) attention.Seq[float32] {
		return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: 1, Len: 1, Dim: len(x)}, Data: x,
			StrideB: len(x), StrideH: len(x), StrideL: len(x)}
	}
	out := seq(0)
	if err := state.Step(out, seq(0, 4), seq(0, -9), seq(0)); err != nil {
		fmt.Println(err)
		return
	}
	// Exactly the height is 0.864. Which of the 400 equally good keys stay depends on rounding.
	fmt.Printf("%d tokens in %v slots, error below 0.1: %v\n", state.Len(), state.Slots(),
		math.Abs(float64(out.Data[0])-0.864) < 0.1)
	// Output: 401 tokens in [50] slots, error below 0.1: true
}
