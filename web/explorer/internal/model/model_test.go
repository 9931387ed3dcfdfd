package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// ask calls a model as the page does.
func ask[A any](t testing.TB, m *Model, name string, request any, files ...[]byte) A {
	t.Helper()
	var a A
	q, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Call(t.Context(), name, q, files...)
	if err != nil {
		t.Fatalf("%s %s: %v", name, q, err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

func same(got Number, want float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(float64(got))
	}
	return math.Abs(float64(got)-want) <= 1e-12*(1+math.Abs(want))
}

// What the page shows is what the library says, for every family of the registry under every coupling and kernel.
func TestTheoryIsTheLibrary(t *testing.T) {
	m := New()
	known := map[string]bool{}
	for _, kind := range kernel.Kinds() {
		for _, info := range coupling.List() {
			s := State{Kernel: kind.String(), Family: "trig", Coupling: info.Name, Dim: 6, Features: 40, QueryLen: 0.8,
				KeyLen: 1.1, Angle: 50, Seed: 1}
			got := ask[Theory](t, m, "theory", s)
			set, err := m.parse(s)
			if err != nil {
				t.Fatal(err)
			}
			x, y := set.pair(s.QueryLen, s.KeyLen, s.Angle)
			checkPair(t, s, x, y)
			if !same(got.Kernel, (kernel.Kernel{Kind: kind}).Eval(x, y)) {
				t.Errorf("kernel %v, want %v", got.Kernel, (kernel.Kernel{Kind: kind}).Eval(x, y))
			}
			if len(got.Families) != len(family.List()) || len(got.Couplings) != len(coupling.List()) || got.Pending {
				t.Fatalf("%d families and %d couplings (pending: %v)", len(got.Families), len(got.Couplings),
					got.Pending)
			}
			for _, row := range got.Families {
				if checkRow(t, set, row, info.Examples()[0], x, y) {
					known[row.Family] = true
				}
			}
			if !slices.IsSortedFunc(got.Families, func(a, b Row) int { return a.group() - b.group() }) {
				t.Errorf("%s: the order of the families", info.Name)
			}
			for i, row := range got.Couplings {
				checkRow(t, set, row, coupling.List()[i].Examples()[0], x, y)
			}
		}
	}
	if len(known) < 16 {
		t.Errorf("closed forms of %d families only: %v", len(known), known)
	}
}

func checkPair(t *testing.T, s State, x, y []float64) {
	t.Helper()
	for _, v := range []struct{ got, want float64 }{{math.Sqrt(dense.Norm2(x)), s.QueryLen},
		{math.Sqrt(dense.Norm2(y)), s.KeyLen},
		{dense.Dot(x, y), s.QueryLen * s.KeyLen * math.Cos(s.Angle*math.Pi/180)}} {
		if math.Abs(v.got-v.want) > 1e-12 {
			t.Errorf("the pair has %v, want %v", v.got, v.want)
		}
	}
}

// checkRow compares a row with theory.Of of a spec that is made without the model.
func checkRow(t *testing.T, s *setting, row Row, c coupling.Coupling, x, y []float64) bool {
	t.Helper()
	name := row.Family + " " + row.Coupling + " " + s.Kernel
	f, fit := example(row.Family, s.Dim)
	spec := randfeat.Spec{Kernel: s.kernel, Family: f, Coupling: c, Dim: s.Dim}
	var err error
	if fit {
		if spec, err = randfeat.Fit(spec, s.isotropic(s.QueryLen, 0), s.isotropic(s.KeyLen, 1)); err != nil {
			if row.Known || row.Reason == "" {
				t.Errorf("%s: %+v, want %v", name, row, err)
			}
			return false
		}
	}
	spec, err = spec.WithFeatures(s.Features)
	if err != nil && !errors.Is(err, randfeat.ErrFeatures) {
		if row.Known || row.Reason == "" {
			t.Errorf("%s: %+v, want %v", name, row, err)
		}
		return false
	}
	features, err := spec.OutDim()
	if err != nil || features > s.Features {
		if row.Known || row.Reason == "" {
			t.Errorf("%s: %+v, want %d features and %v", name, row, features, err)
		}
		return false
	}
	want, err := theory.Of(s.kernel, spec.Family, c, spec.M, x, y)
	if (err == nil) != row.Known || row.M != spec.M || row.Features != features {
		t.Errorf("%s: known %v m %d features %d, want m %d features %d (%v)", name, row.Known, row.M, row.Features,
			spec.M,
			features, err)
		return false
	}
	if err != nil {
		if row.Reason == "" {
			t.Errorf("%s: no reason, want %v", name, err)
		}
		return false
	}
	mse, bias, base := want.LogMSE, want.LogBias, want.LogKernel
	if row.Own {
		mse, bias, base = want.LogVar, math.Inf(-1), want.LogMean
	}
	if !same(row.LogMSE, (mse-2*base)/math.Ln10) || !same(row.LogVar, (want.LogVar-2*base)/math.Ln10) ||
		!same(row.LogBias, (bias-base)/math.Ln10) || row.Exact != math.IsInf(mse, -1) {
		t.Errorf("%s: %+v, want %+v", name, row, want)
	}
	if w := theory.Warning(s.kernel, spec.Family, c, spec.M, x, y); w != row.Warning {
		t.Errorf("%s: warning %q, want %q", name, row.Warning, w)
	}
	return true
}

// The curves go through the numbers of the pair.
func TestCurves(t *testing.T) {
	m := New()
	s := registry().Start
	s.Dim, s.Features = 8, 64
	c := ask[Curves](t, m, "curves", CurvesRequest{TheoryRequest{State: s}, registry().Shown})
	th := ask[Theory](t, m, "theory", s)
	for _, p := range []struct {
		name string
		plot Plot
		now  float64
	}{{"angle", c.Angle, s.Angle}, {"length", c.Length, 1}, {"features", c.Features, float64(s.Features)}} {
		at := slices.Index(p.plot.X, p.now)
		if at < 0 || len(p.plot.Series) != len(registry().Shown) {
			t.Fatalf("%s: %d series, x %v", p.name, len(p.plot.Series), p.plot.X)
		}
		for _, curve := range p.plot.Series {
			i := slices.IndexFunc(th.Families, func(r Row) bool { return r.Family == curve.Family })
			if len(curve.Y) != len(p.plot.X) || !same(curve.Y[at], float64(th.Families[i].LogMSE)) {
				t.Errorf("%s: %s is %v there, want %v", p.name, curve.Family, curve.Y[at], th.Families[i].LogMSE)
			}
		}
	}
}

// Parameters that are given are used, and not fitted.
func TestGivenParameters(t *testing.T) {
	s := registry().Start
	s.Dim, s.Family, s.Coupling = 8, `{"name":"oprf","a":-0.07}`, `{"name":"hadamard","k":2}`
	got := ask[Theory](t, New(), "theory", s).Chosen
	if got.Fitted || got.Coupling != "hadamard" || string(got.Value) != s.Family {
		t.Errorf("%+v", got)
	}
	set, err := New().parse(s)
	if err != nil {
		t.Fatal(err)
	}
	x, y := set.pair(s.QueryLen, s.KeyLen, s.Angle)
	want, err := theory.Of(set.kernel, family.OPRF{A: -0.07}, coupling.Hadamard{K: 2}, s.Features, x, y)
	if err != nil || !same(got.LogMSE, want.LogRelMSE()/math.Ln10) {
		t.Errorf("%v, want %v (%v)", got.LogMSE, want.LogRelMSE()/math.Ln10, err)
	}
}

// A quick answer leaves out what is known to be slow, until it is warm.
func TestQuick(t *testing.T) {
	m := New()
	s := registry().Start
	s.Dim = 8
	m.slow["adaptive"] = true
	quick := func() Row {
		th := ask[Theory](t, m, "theory", TheoryRequest{State: s, Quick: true})
		row := th.Families[slices.IndexFunc(th.Families, func(r Row) bool { return r.Family == "adaptive" })]
		if row.Pending && !th.Pending {
			t.Error("a row is pending, the answer is not")
		}
		return row
	}
	if row := quick(); !row.Pending || row.Known {
		t.Errorf("%+v", row)
	}
	ask[struct{}](t, m, "warm", WarmRequest{State: s, Name: "adaptive"})
	if row := quick(); row.Pending || !row.Known {
		t.Errorf("%+v", row)
	}
	for i := range 2 * maxFits { // the cache is bounded
		s.QueryLen = float64(i) / maxFits
		if _, err := m.all(must(m.parse(s)), []string{"oprf"}, false); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.fits) > maxFits {
		t.Errorf("%d fits are kept", len(m.fits))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestDraw(t *testing.T) {
	for _, c := range []struct {
		coupling string
		dim      int
		cosine   float64
	}{{"orthogonal", 3, 0}, {"simplex", 3, -0.5}, {"simplex", 2, -1}, {"orthogonal", 2, 0}} {
		d := ask[Drawn](t, New(), "draw", DrawRequest{c.coupling, c.dim, 7, 1})
		if len(d.Rows) != 7 || len(d.Rows[0]) != c.dim || len(d.Cosines) != c.dim*(c.dim-1)/2 {
			t.Fatalf("%+v", d)
		}
		for _, v := range d.Cosines {
			if math.Abs(v-c.cosine) > 1e-12 {
				t.Errorf("%s in %d dimensions: cosine %v, want %v", c.coupling, c.dim, v, c.cosine)
			}
		}
	}
	for _, i := range coupling.List() {
		if d := ask[Drawn](t, New(), "draw", DrawRequest{i.Name, 3, 5, 2}); len(d.Rows) != 5 {
			t.Errorf("%s: %+v", i.Name, d)
		}
	}
}

// Draws agree with the closed forms: the mean within its standard error, the error within its interval.
func TestMeasure(t *testing.T) {
	s := registry().Start
	s.Dim, s.Features, s.QueryLen, s.KeyLen = 8, 64, 0.7, 0.7
	for _, f := range []string{"trig", "positive", "angular"} {
		s.Family = f
		got := ask[Measured](t, New(), "measure", MeasureRequest{s, 400})
		if z := float64((got.Mean - 1) / got.MeanErr); math.Abs(z) > 5 {
			t.Errorf("%s: mean %v ± %v", f, got.Mean, got.MeanErr)
		}
		// Five standard errors, of which the interval has two.
		half := math.Pow(10, float64(got.MSEHigh)) - math.Pow(10, float64(got.MSE))
		if gap := math.Abs(math.Pow(10, float64(got.MSE)) - math.Pow(10, float64(got.LogMSE))); !(gap <= 2.5*half) {
			t.Errorf("%s: measured %v (up to %v), predicted %v", f, got.MSE, got.MSEHigh, got.LogMSE)
		}
	}
}

// The ranking is that of the library on the same rows.
func TestAdvise(t *testing.T) {
	m := New()
	stages := 0
	m.Progress = func(string, int, int) { stages++ }
	sets := sample(1)
	var files [][]byte
	for _, s := range sets {
		var b bytes.Buffer
		if err := npy.Write(&b, s); err != nil {
			t.Fatal(err)
		}
		files = append(files, b.Bytes())
	}
	r := AdviseRequest{Kernel: "softmax", Features: 32, Names: []string{"q.npy", "k.npy"}, Seed: 1}
	got := ask[Advice](t, m, "advise", r, files...)
	want, err := advise.Kernel(context.Background(), sets[0], sets[1], advise.Options{Kernel: kernel.Attention(16),
		Features: 32, Rows: pilotRows, Draws: pilotDraws, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if stages == 0 || got.Scale != 2 || len(got.Ranking) != len(want.Ranking) || len(want.Ranking) < 5 ||
		got.Best != want.Best {
		t.Fatalf("scale %v, %d ranked, best %d; want %d, best %d", got.Scale, len(got.Ranking), got.Best,
			len(want.Ranking),
			want.Best)
	}
	for i, c := range want.Ranking {
		if g := got.Ranking[i]; g.Name != c.Name || g.Error != c.Error {
			t.Errorf("place %d: %s %v, want %s %v", i, g.Name, g.Error, c.Name, c.Error)
		}
	}
	if testing.Short() {
		return
	}
	// The sample is the same two sets, and a table is one set, encoded.
	r.Names = nil
	if again := ask[Advice](t, m, "advise", r); again.Ranking[0].Error != want.Ranking[0].Error {
		t.Errorf("the sample: %v, want %v", again.Ranking[0].Error, want.Ranking[0].Error)
	}
	var table strings.Builder
	table.WriteString("a,b,c\n")
	for i := range 200 {
		fmt.Fprintf(&table, "%g,%g,%s\n", sets[0].Row(i)[0], sets[0].Row(i)[1], []string{"u", "v"}[i%2])
	}
	one := ask[Advice](t, m, "advise", AdviseRequest{Kernel: "gaussian", Features: 16, Names: []string{"t.csv"}},
		[]byte(table.String()))
	if !one.OneSet || one.Queries != 200 || one.Dim < 3 || len(one.Ranking) == 0 ||
		!strings.Contains(one.Notes[0], "200 rows") {
		t.Errorf("a table: %d rows of %d columns, notes %q", one.Queries, one.Dim, one.Notes)
	}
}

func TestAdviseBadFiles(t *testing.T) {
	var cube bytes.Buffer
	header := "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 3), }\n"
	cube.WriteString("\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), 0}) + header)
	cube.Write(make([]byte, 48))
	for _, c := range []struct {
		name  string
		files [][]byte
		says  string
	}{
		{"no array", [][]byte{[]byte("\x93NUMPY")}, "x.npy"},
		{"a cube", [][]byte{cube.Bytes()}, "want float32 or float64 of the shape [rows, columns]"},
		{"nothing", [][]byte{nil}, "x.npy"},
		{"three", make([][]byte, 3), "3 files"},
		{"few rows", [][]byte{[]byte("a,b\n1,2\n3,4\n")}, "row"},
	} {
		names := make([]string, len(c.files))
		for i := range names {
			names[i] = "x.npy"
		}
		q, err := json.Marshal(AdviseRequest{Kernel: "softmax", Features: 16, Names: names})
		if err != nil {
			t.Fatal(err)
		}
		a, err := New().Call(t.Context(), "advise", q, c.files...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s %v, want an error with %q", c.name, a, err, c.says)
		}
	}
	if _, err := bandwidth("-1", kernel.Softmax, dense.Matrix[float64]{}, dense.Matrix[float64]{}); err == nil {
		t.Error("a negative bandwidth")
	}
}

func TestErrors(t *testing.T) {
	start := registry().Start
	change := func(f func(*State)) State {
		s := start
		f(&s)
		return s
	}
	for _, c := range []struct {
		name    string
		request any
		says    string
	}{
		{"nothing", struct{}{}, "registry"},
		{"theory", map[string]int{"dims": 1}, "dims"},
		{"theory", change(func(s *State) { s.Dim = 1 }), "dim is 1"},
		{"theory", change(func(s *State) { s.Dim = 1 << 30 }), "want 2 to 256"},
		{"theory", change(func(s *State) { s.QueryLen = -1 }), "queryLen"},
		{"theory", change(func(s *State) { s.Angle = 181 }), "angle"},
		{"theory", change(func(s *State) { s.Family = "no" }), "family"},
		{"theory", change(func(s *State) { s.Coupling = "no" }), "coupling"},
		{"theory", change(func(s *State) { s.Kernel = "no" }), "kernel"},
		{"draw", DrawRequest{"iid", 4, 3, 1}, "dimension 4"},
		{"draw", DrawRequest{"iid", 3, 3000, 1}, "3000"},
		{"measure", MeasureRequest{start, 1 << 30}, "draws"},
		{"measure", MeasureRequest{change(func(s *State) { s.Family = "hybrid" }), 1}, "draws"},
	} {
		q, err := json.Marshal(c.request)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := New().Call(t.Context(), c.name, q); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %s %v, want an error with %q", c.name, q, a, err, c.says)
		}
	}
}

func TestRegistry(t *testing.T) {
	r := ask[struct {
		Kernels             []string
		Families, Couplings []struct{ Name, Summary string }
		Start               State
		Shown               []string
	}](t, New(), "registry", struct{}{})
	if len(r.Families) != len(family.List()) || len(r.Couplings) != len(coupling.List()) ||
		len(r.Kernels) != len(kernel.Kinds()) {
		t.Errorf("%+v", r)
	}
	for _, name := range append(r.Shown, r.Start.Family) {
		if !slices.Contains(family.Names(), name) {
			t.Errorf("no family %s", name)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	start := registry().Start
	for name, request := range map[string]any{"theory": start,
		"curves": CurvesRequest{TheoryRequest{State: start}, registry().Shown}} {
		b.Run(name, func(b *testing.B) {
			q, err := json.Marshal(request)
			if err != nil {
				b.Fatal(err)
			}
			m := New()
			if _, err := m.Call(b.Context(), name, q); err != nil { // fits
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := m.Call(b.Context(), name, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
