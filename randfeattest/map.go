package randfeattest

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// float32Tolerance is the declared relative error of float32 features against float64 ones, for inputs of norm
// up to about 3: projections and exponentials are rounded once each.
const float32Tolerance = 2e-5

// Map checks what every feature map promises, whatever its family: rows independent of batch, order and stride; plain
// features equal to scaled ones; float32 near float64; the same bits on 1 and 8 threads; inputs left alone; JSON round
// trip; typed errors for bad input, with the output untouched if a shape is wrong; no allocation with a warm workspace;
// no overflow in float32 for |x|² = 10⁴.
func Map(t *testing.T, s randfeat.Spec) {
	t.Helper()
	m, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	x := inputs(s.Dim, 37, 1)
	t.Run("rows", func(t *testing.T) { rows(t, m, x) })
	t.Run("plain", func(t *testing.T) { plain(t, m, x) })
	t.Run("float32", func(t *testing.T) { float32Near(t, s, x) })
	t.Run("threads", func(t *testing.T) { threads(t, m) })
	t.Run("json", func(t *testing.T) { roundTrip(t, m, x) })
	t.Run("errors", func(t *testing.T) { badInput(t, m) })
	t.Run("allocations", func(t *testing.T) { allocations(t, m, x) })
	t.Run("large", func(t *testing.T) { large(t, s) })
}

func inputs(dim, n int, seed uint64) dense.Matrix[float64] {
	x := dense.New[float64](n, dim)
	rng.Normals(x.Data, rng.Stream(seed, uint64(dim)))
	for i := range x.Data {
		x.Data[i] *= 0.8 / math.Sqrt(float64(dim))
	}
	return x
}

// side is the method Queries or Keys of a map.
type side[T dense.Float] func(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T],
	ws *randfeat.Workspace[T]) error

func sides[T dense.Float](m *randfeat.Map[T]) map[string]side[T] {
	return map[string]side[T]{"queries": m.Queries, "keys": m.Keys}
}

func features[T dense.Float](t *testing.T, m *randfeat.Map[T], f side[T], x dense.Matrix[T],
	scaled bool) (dense.Matrix[T], []float64) {
	t.Helper()
	dst := dense.New[T](x.Rows, m.OutDim())
	var scale []float64
	if scaled {
		scale = make([]float64, x.Rows)
	}
	if err := f(dst, scale, x, nil); err != nil {
		t.Fatal(err)
	}
	return dst, scale
}

// rows checks that mapping one row at a time, in reverse, from a strided view into a strided view, gives the
// same bits.
func rows(t *testing.T, m *randfeat.Map[float64], x dense.Matrix[float64]) {
	before := x.Clone()
	for name, f := range sides(m) {
		want, wantScale := features(t, m, f, x, true)
		wide := dense.Matrix[float64]{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols + 3, Data: make([]float64,
			x.Rows*(x.Cols+3))}
		out := dense.Matrix[float64]{Rows: x.Rows, Cols: m.OutDim(), Stride: m.OutDim() + 5, Data: make([]float64,
			x.Rows*(m.OutDim()+5))}
		for i := range out.Data {
			out.Data[i] = math.Inf(1)
		}
		var ws randfeat.Workspace[float64]
		for i := x.Rows - 1; i >= 0; i-- {
			copy(wide.Row(i), x.Row(i))
			scale := make([]float64, 1)
			if err := f(out.RowRange(i, i+1), scale, wide.RowRange(i, i+1), &ws); err != nil {
				t.Fatal(err)
			}
			if scale[0] != wantScale[i] {
				t.Fatalf("%s row %d: scale %v alone, %v in a batch", name, i, scale[0], wantScale[i])
			}
			for j, v := range out.Row(i) {
				if v != want.At(i, j) {
					t.Fatalf("%s row %d feature %d: %v alone, %v in a batch", name, i, j, v, want.At(i, j))
				}
			}
			for _, v := range out.Data[i*out.Stride+out.Cols : min((i+1)*out.Stride, len(out.Data))] {
				if !math.IsInf(v, 1) {
					t.Fatalf("%s row %d wrote outside its row", name, i)
				}
			}
		}
	}
	for i, v := range x.Data {
		if v != before.Data[i] {
			t.Fatalf("input element %d changed from %v to %v", i, before.Data[i], v)
		}
	}
}

// plain checks that nil log scales give the features themselves.
func plain(t *testing.T, m *randfeat.Map[float64], x dense.Matrix[float64]) {
	for name, f := range sides(m) {
		scaled, scale := features(t, m, f, x, true)
		got, _ := features(t, m, f, x, false)
		for i := range x.Rows {
			for j, v := range got.Row(i) {
				want := scaled.At(i, j) * math.Exp(scale[i])
				if math.Abs(v-want) > 1e-13*math.Abs(want) {
					t.Fatalf("%s row %d feature %d: %v plain, %v from the scaled form", name, i, j, v, want)
				}
				if m.Positive() && v < 0 {
					t.Fatalf("%s row %d feature %d is %v in a positive map", name, i, j, v)
				}
			}
		}
	}
}

func float32Near(t *testing.T, s randfeat.Spec, x dense.Matrix[float64]) {
	m64, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	m32, err := randfeat.New[float32](s)
	if err != nil {
		t.Fatal(err)
	}
	compareFeatures(t, m32, m64, dense.Convert[float32](x), float32Tolerance)
}

// threads checks that the bits do not depend on GOMAXPROCS, even for batches large enough to be split.
func threads(t *testing.T, m *randfeat.Map[float64]) {
	n := max(64, 2_000_000/(m.InDim()*m.OutDim()))
	x := inputs(m.InDim(), min(n, 4096), 2)
	var want dense.Matrix[float64]
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, p := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(p)
		got, _ := features(t, m, m.Queries, x, true)
		if p == 1 {
			want = got
			continue
		}
		for i, v := range got.Data {
			if v != want.Data[i] {
				t.Fatalf("GOMAXPROCS=%d: element %d is %v, %v on one thread", p, i, v, want.Data[i])
			}
		}
	}
}

func roundTrip(t *testing.T, m *randfeat.Map[float64], x dense.Matrix[float64]) {
	b, err := json.Marshal(m.Spec())
	if err != nil {
		t.Fatal(err)
	}
	var s randfeat.Spec
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	again, err := json.Marshal(s)
	if err != nil || !bytes.Equal(b, again) {
		t.Fatalf("JSON changed on the second pass (%v):\n%s\n%s", err, b, again)
	}
	m2, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	if m.Fingerprint() != m2.Fingerprint() {
		t.Fatal("the fingerprint changed")
	}
	want, _ := features(t, m, m.Keys, x, true)
	got, _ := features(t, m2, m2.Keys, x, true)
	for i, v := range got.Data {
		if v != want.Data[i] {
			t.Fatalf("element %d changed from %v to %v", i, want.Data[i], v)
		}
	}
}

func badInput(t *testing.T, m *randfeat.Map[float64]) {
	d, f := m.InDim(), m.OutDim()
	nan, inf := inputs(d, 2, 3), inputs(d, 2, 3)
	nan.Set(1, d-1, math.NaN())
	inf.Set(0, 0, math.Inf(-1))
	ok := inputs(d, 2, 3)
	huge := inputs(d, 2, 3)
	huge.Set(1, 0, 1e200)
	cases := []struct {
		name  string
		dst   dense.Matrix[float64]
		scale []float64
		x     dense.Matrix[float64]
		want  error
	}{
		{"NaN", dense.New[float64](2, f), nil, nan, dense.ErrNotFinite},
		{"Inf", dense.New[float64](2, f), nil, inf, dense.ErrNotFinite},
		{"huge", dense.New[float64](2, f), nil, huge, dense.ErrNotFinite},
		{"columns", dense.New[float64](2, f), nil, dense.New[float64](2, d+1), dense.ErrShape},
		{"dst rows", dense.New[float64](3, f), nil, ok, dense.ErrShape},
		{"dst columns", dense.New[float64](2, f+1), nil, ok, dense.ErrShape},
		{"scales", dense.New[float64](2, f), make([]float64, 1), ok, dense.ErrShape},
		{"short data", dense.Matrix[float64]{Rows: 2, Cols: f, Stride: f, Data: make([]float64, f)}, nil, ok,
			dense.ErrShape},
	}
	for _, c := range cases {
		for i := range c.dst.Data {
			c.dst.Data[i] = 42
		}
		if err := m.Queries(c.dst, c.scale, c.x, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		for _, v := range c.dst.Data {
			if v != 42 && c.want == dense.ErrShape {
				t.Errorf("%s: dst was written", c.name)
				break
			}
		}
	}
	if err := m.Queries(dense.New[float64](0, f), nil, dense.New[float64](0, d), nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func allocations(t *testing.T, m *randfeat.Map[float64], x dense.Matrix[float64]) {
	dst, scale := dense.New[float64](x.Rows, m.OutDim()), make([]float64, x.Rows)
	var ws randfeat.Workspace[float64]
	for name, f := range sides(m) {
		if n := testing.AllocsPerRun(5, func() {
			if err := f(dst, scale, x, &ws); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations with a warm workspace", name, n)
		}
	}
	gram := dense.New[float64](x.Rows, x.Rows)
	if n := testing.AllocsPerRun(5, func() {
		if err := m.Gram(gram, x, x, &ws); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("gram: %v allocations with a warm workspace", n)
	}
}

// largeTolerance is the declared error of float32 features at |x|² = 10⁴, relative to the largest of the row:
// exponents of several hundred are rounded to float32 before they are exponentiated.
const largeTolerance = 2e-3

// large checks that |x|² = 10⁴ in float32 gives finite features and scales, near those of float64.
func large(t *testing.T, s randfeat.Spec) {
	m32, err := randfeat.New[float32](s)
	if err != nil {
		t.Fatal(err)
	}
	m64, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	x := dense.Convert[float32](inputs(s.Dim, 9, 4))
	for i := range x.Rows {
		n := math.Sqrt(float64(dense.Norm2(x.Row(i))))
		for j := range x.Row(i) {
			x.Row(i)[j] *= float32(100 / n)
		}
	}
	compareFeatures(t, m32, m64, x, largeTolerance)
}

// compareFeatures compares float32 features with float64 ones at a common scale, relative to the largest of
// each row.
func compareFeatures(t *testing.T, m32 *randfeat.Map[float32], m64 *randfeat.Map[float64], x dense.Matrix[float32],
	tolerance float64) {
	t.Helper()
	f32, f64 := sides(m32), sides(m64)
	x64 := dense.Convert[float64](x)
	for name := range f64 {
		want, ws := features(t, m64, f64[name], x64, true)
		got, gs := features(t, m32, f32[name], x, true)
		for i := range x.Rows {
			shift := math.Exp(gs[i] - ws[i])
			top := 0.0
			for _, v := range want.Row(i) {
				top = max(top, math.Abs(v))
			}
			for j, v := range got.Row(i) {
				if d := math.Abs(float64(v)*shift - want.At(i, j)); !(d <= tolerance*top) {
					t.Fatalf("%s row %d feature %d: %v in float32, %v in float64", name, i, j, float64(v)*shift,
						want.At(i, j))
				}
			}
		}
	}
}
