package family_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

func gather(t *testing.T, o family.Options, x, y dense.Matrix[float64]) *family.Stats {
	t.Helper()
	s := family.NewStats(x.Cols, o)
	if err := errors.Join(s.Query.Add(x), s.Key.Add(y)); err != nil {
		t.Fatal(err)
	}
	return s
}

// fitters are all families that fit, and DARK over each of them.
func fitters(t *testing.T) map[string]family.Fitter {
	t.Helper()
	out := map[string]family.Fitter{}
	for _, i := range family.List() {
		f, err := family.Parse(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := f.(family.Fitter); ok {
			out[i.Name] = f
			out["dark over "+i.Name] = family.DARK{Base: f}
		}
	}
	out["mixture of complex clusters"] = family.Mixture{Clusters: family.Clusters{Complex: true, Count: 3}}
	return out
}

// The base of DARK is fitted to the transformed rows: with all rows in the sample the result is that of a direct fit.
func TestFitDARKBase(t *testing.T) {
	x, y := sets(120, 4)
	through := func(m, x dense.Matrix[float64]) dense.Matrix[float64] { return plan.Mul(x, plan.Transpose(m)) }
	for _, base := range []family.Fitter{family.Geometric{}, family.Poisson{}, family.PoissonPlus{},
		family.GeometricPlus{}, family.OPRF{},
		family.ZeroOne{}, family.Adaptive{}, family.DARK{Base: family.GeometricPlus{}},
		family.DARK{Base: family.ZeroOne{}}} {
		f := family.DARK{Base: base}
		g, err := f.Fit(gather(t, f.Needs(), x, y))
		if err != nil {
			t.Errorf("%s: %v", base.Name(), err)
			continue
		}
		m := g.(family.DARK).M
		want, err := base.Fit(gather(t, family.Options{Covariance: true, Sample: 2048}, through(m, x), through(m, y)))
		if err != nil {
			t.Fatal(err)
		}
		// the sample is in another order: other seeds of k-means
		if strings.Contains(fmt.Sprintf("%T %+v", base, base), "Centres") {
			if _, err := g.Draws(kernel.Softmax, 4, 3); err != nil {
				t.Errorf("clusters: %v", err)
			}
			continue
		}
		if d := difference(g.(family.DARK).Base, want); !(d < 1e-6) {
			t.Errorf("%s: base fitted through M differs by %g from\n%+v: %+v", base.Name(), d, want,
				g.(family.DARK).Base)
		}
	}
	// Without a sample the error names it.
	for says, bases := range map[string][]family.Fitter{
		"absolute": {family.Geometric{}}, "sampled rows": {family.ZeroOne{}},
		"smallest": {family.PoissonPlus{}, family.GeometricPlus{}},
	} {
		for _, base := range bases {
			_, err := family.DARK{Base: base}.Fit(gather(t, family.Options{Covariance: true}, x, y))
			if !errors.Is(err, family.ErrStats) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s without a sample: %v", base.Name(), err)
			}
		}
	}
}

// difference is the largest difference of the errors that two families predict.
func difference(a, b family.Family) float64 {
	x, y := sets(20, 4)
	var worst float64
	for i := range x.Rows {
		fa, errA := a.Form(kernel.Softmax, x.Row(i), y.Row(i))
		fb, errB := b.Form(kernel.Softmax, x.Row(i), y.Row(i))
		if errA != nil || errB != nil {
			return math.Inf(1)
		}
		worst = max(worst, math.Abs(fa.Terms[0].LogRV-fb.Terms[0].LogRV)+math.Abs(fa.LogRatio-fb.LogRatio))
	}
	return worst
}

// For any data, a fit gives a usable family or an error that names the wrong statistics or parameters.
func TestFitAnyData(t *testing.T) {
	const d = 3
	normal := dense.New[float64](40, d)
	rng.Normals(normal.Data, rng.Stream(3))
	constant := dense.New[float64](5, d)
	for i := range constant.Data {
		constant.Data[i] = float64(i%d) - 0.7
	}
	rank1 := dense.New[float64](40, d)
	for i := range rank1.Rows {
		rank1.Row(i)[1] = normal.At(i, 0)
	}
	pairs := map[string][2]dense.Matrix[float64]{
		"normal":         {normal, normal},
		"one row":        {normal.RowRange(0, 1), normal.RowRange(1, 2)},
		"constant":       {constant, constant},
		"constant query": {constant, normal},
		"zero":           {dense.New[float64](4, d), dense.New[float64](4, d)},
		"zero key":       {normal, dense.New[float64](4, d)},
		"rank one":       {rank1, rank1},
		"rank one key":   {normal, rank1},
	}
	for name, f := range fitters(t) {
		for data, p := range pairs {
			for _, scale := range []float64{0, 1e-310, 1e-200, 1e-150, 1e-20, 0.1, 1, 1e3, 1e20, 1e76, 1e100, 1e150,
				1e160, 1e300} {
				x, y := p[0].Clone(), p[1].Clone()
				for _, m := range []dense.Matrix[float64]{x, y} {
					for i := range m.Data {
						m.Data[i] *= scale
					}
				}
				if data == "normal" && scale == 1e300 {
					x.Data[0], x.Data[d] = math.MaxFloat64, -math.MaxFloat64
				}
				g, err := f.Fit(gather(t, f.Needs(), x, y))
				if err != nil {
					if g != nil || !errors.Is(err, family.ErrStats) && !errors.Is(err, family.ErrParam) {
						t.Errorf("%s, %s × %g: %v, %v", name, data, scale, g, err)
					}
					if scale <= 1 && scale >= 0.1 && data == "normal" && f.Name() != "importance" &&
						!strings.HasSuffix(name, "importance") {
						t.Errorf("%s, %s × %g: %v", name, data, scale, err)
					}
					continue
				}
				if _, err := g.Draws(kernel.Softmax, d, 4); err != nil {
					t.Errorf("%s, %s × %g: the fit is not usable: %v", name, data, scale, err)
				}
			}
		}
	}
}

func TestFitDegenerate(t *testing.T) {
	one := dense.MustFromRows([][]float64{{0.3, -0.2}, {0.3, -0.2}})
	two := dense.MustFromRows([][]float64{{0.1, 0.4}, {0.1, 0.4}})
	s := gather(t, family.Options{Covariance: true, Sample: 8}, one, two)
	if _, err := (family.DARK{}).Fit(s); !errors.Is(err, family.ErrStats) ||
		!strings.Contains(err.Error(), "whitened") {
		t.Errorf("DARK on rows that do not vary: %v", err)
	}
	f, err := family.Adaptive{}.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	a := f.(family.Adaptive)
	if !a.A.IsEmpty() || math.Abs(a.C[0]-0.4) > 1e-15 || math.Abs(a.C[1]-0.2) > 1e-15 || a.Rho[0] != 1 ||
		a.Rho[1] != 1 {
		t.Errorf("adaptive on one point is %+v, want A = I, the centre and ρ = 1", a)
	}
	// Centred on its only pair the family is exact there.
	if form, err := f.Form(kernel.Softmax, one.Row(0), two.Row(0)); err != nil || form.Terms[0].LogRV > -60 {
		t.Errorf("form %+v, %v", form, err)
	}
	zero := dense.New[float64](3, 2)
	c, err := family.ComplexExp{}.Fit(gather(t, family.Options{Covariance: true}, zero, two))
	if err != nil || !reflect.DeepEqual(c.(family.ComplexExp).Re, dense.Identity[float64](2)) {
		t.Errorf("complex-exp on zeros: %+v, %v", c, err)
	}
}

// DARK Thm 3.2 is about E xxᵀ: for rows ±a the covariance of one side may vanish while the second moment does not.
func TestFitImportanceSecondMoment(t *testing.T) {
	x := dense.MustFromRows([][]float64{{0.4, 0}, {0.4, 0}})
	y := dense.MustFromRows([][]float64{{0, 0.2}, {0, 0.2}})
	f, err := family.Importance{}.Fit(gather(t, family.Options{Covariance: true}, x, y))
	if err != nil {
		t.Fatal(err)
	}
	l := f.(family.Importance).L
	for i, lam := range []float64{0.08, 0.02} { // means of 0.4² and 0, of 0 and 0.2²
		if want := math.Sqrt((1 + 2*lam) / (1 - 2*lam)); math.Abs(l.At(i, i)-want) > 1e-14 {
			t.Errorf("L[%d] = %v, want %v", i, l.At(i, i), want)
		}
	}
}

// The statistics that fits of pairs use are means over all pairs of a query and a key.
func TestStatsOfPairs(t *testing.T) {
	x, _ := sets(7, 3)
	y, _ := sets(12, 3)
	y = y.RowRange(7, 12)
	s := gather(t, family.Options{}, x, y)
	var plus, minus, squares float64
	products := make([]float64, 3)
	for i := range x.Rows {
		for j := range y.Rows {
			for l, v := range x.Row(i) {
				w := y.At(j, l)
				plus, minus = plus+(v+w)*(v+w)/35, minus+(v-w)*(v-w)/35
				squares, products[l] = squares+v*v*w*w/35, products[l]+math.Abs(v*w)/35
			}
		}
	}
	for name, v := range map[string][2]float64{"|x+y|²": {s.MeanNorm2(1), plus}, "|x−y|²": {s.MeanNorm2(-1), minus},
		"S": {s.S(), squares}, "T": {s.T()[0], products[0]}, "last of T": {s.T()[2], products[2]}} {
		if math.Abs(v[0]-v[1]) > 1e-13 {
			t.Errorf("%s is %v, over all pairs %v", name, v[0], v[1])
		}
	}
}

// Second moments and covariances are pooled over rows: a side with three times as many rows counts three times.
func TestFitsPoolByRows(t *testing.T) {
	x := dense.MustFromRows([][]float64{{0.4, 0}})
	y := dense.MustFromRows([][]float64{{0, 0.2}, {0, -0.2}, {0, 0.2}})
	s := gather(t, family.Options{Covariance: true}, x, y)
	f, err := family.Importance{}.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, lam := range []float64{0.16 / 4, 3 * 0.04 / 4} {
		if got, want := f.(family.Importance).L.At(i, i), math.Sqrt((1+2*lam)/(1-2*lam)); math.Abs(got-want) > 1e-14 {
			t.Errorf("L[%d] = %v, want %v", i, got, want)
		}
	}
	// Covariances about the mean of each side: 1 of two queries, 0.25 of four keys.
	x = dense.MustFromRows([][]float64{{6}, {4}})
	y = dense.MustFromRows([][]float64{{0.5}, {-0.5}, {0.5}, {-0.5}})
	g, err := family.DARK{Temperature: 2}.Fit(gather(t, family.Options{Covariance: true}, x, y))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.(family.DARK).M.At(0, 0), math.Sqrt(2/0.5); math.Abs(got/want-1) > 1e-5 {
		t.Errorf("M = %v, want %v", got, want)
	}
}

func TestFitEmptyStats(t *testing.T) {
	x, y := sets(10, 3)
	for name, f := range fitters(t) {
		half := gather(t, family.Options{Covariance: true, Sample: 4}, x, y)
		half.Key = nil
		other := gather(t, family.Options{Covariance: true, Sample: 4}, x, y)
		other.Key = gather(t, family.Options{Covariance: true, Sample: 4}, x.ColRange(0, 2), y.ColRange(0, 2)).Key
		flat := family.NewStats(0, family.Options{Covariance: true, Sample: 4})
		if err := errors.Join(flat.Query.Add(dense.New[float64](2, 0)),
			flat.Key.Add(dense.New[float64](2, 0))); err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]*family.Stats{"nil": nil, "empty": {},
			"zero": {Query: &family.Moments{}, Key: &family.Moments{}}, "half": half,
			"unequal dimensions": other, "no columns": flat} {
			if g, err := f.Fit(s); !errors.Is(err, family.ErrStats) || g != nil {
				t.Errorf("%s, %s statistics: %v, %v", name, what, g, err)
			}
		}
	}
	s := gather(t, family.Options{Covariance: true}, x, y)
	n := s.Query.N()
	for _, o := range []*family.Stats{nil, {}, {Query: s.Query}} {
		if err := s.Merge(o); !errors.Is(err, family.ErrStats) {
			t.Errorf("merged %+v: %v", o, err)
		}
		if err := o.Merge(s); !errors.Is(err, family.ErrStats) {
			t.Errorf("merged into %+v: %v", o, err)
		}
		if !math.IsNaN(o.MeanNorm2(1)) || !math.IsNaN(o.S()) || o.T() != nil {
			t.Errorf("statistics of nothing: %v, %v, %v", o.MeanNorm2(1), o.S(), o.T())
		}
	}
	if err := s.Merge(&family.Stats{Query: s.Query, Key: family.NewStats(2, family.Options{}).Key}); !errors.Is(err,
		dense.ErrShape) || s.Query.N() != n {
		t.Errorf("a failed merge (%v) changed the query side: %d rows", err, s.Query.N())
	}
	if c := family.NewStats(2, family.Options{Covariance: true}).Query.Covariance(); c.CheckFinite() != nil ||
		c.At(0, 0) != 0 {
		t.Errorf("covariance of nothing is %v", c.ToRows())
	}
}

func TestFitClusterSettings(t *testing.T) {
	x, y := sets(30, 3)
	s := gather(t, family.Options{Sample: 64}, x, y)
	for says, c := range map[string]family.Clusters{"count = -1": {Count: -1}, "amax = 0.5": {AMax: 0.5}} {
		for _, f := range []family.Fitter{family.ZeroOne{Clusters: c}, family.Mixture{Clusters: c}} {
			if g, err := f.Fit(s); !errors.Is(err, family.ErrParam) || !strings.Contains(err.Error(), says) ||
				g != nil {
				t.Errorf("%s with %s: %v, %v", f.Name(), says, g, err)
			}
			if _, err := f.Draws(kernel.Softmax, 3, 4); !errors.Is(err, family.ErrParam) {
				t.Errorf("%s with %s: Draws says %v", f.Name(), says, err)
			}
		}
	}
	// Without a bound a coordinate that is zero among the keys alone has no diagonal.
	for i := range y.Rows {
		y.Row(i)[1] = 0
	}
	if _, err := (family.ZeroOne{Clusters: family.Clusters{AMax: -1}}).Fit(gather(t, family.Options{Sample: 64}, x,
		y)); !errors.Is(err, family.ErrParam) {
		t.Errorf("no bound: %v", err)
	}
}

// A fit must work with no more than it says it needs, and cheap families must say that they are.
func TestFitNeeds(t *testing.T) {
	x, y := sets(50, 3)
	cheap := map[string]bool{"oprf": true, "gerf": true, "poisson": true, "geometric": true, "poisson+": true,
		"geometric+": true, "bipolar-gaussian": true}
	for name, f := range fitters(t) {
		o := f.Needs()
		if cheap[name] != (o == family.Options{}) {
			t.Errorf("%s needs %+v", name, o)
		}
		if _, err := f.Fit(gather(t, o, x, y)); errors.Is(err, family.ErrStats) {
			t.Errorf("%s with what it needs: %v", name, err)
		}
	}
	few, many := (family.ZeroOne{}).Needs(), family.ZeroOne{Clusters: family.Clusters{Count: 1000}}.Needs()
	if few.Covariance || few.Sample < 1 || many.Sample < 10*1000 {
		t.Errorf("clusters need %+v and %+v", few, many)
	}
	mixture := family.DARK{Base: family.Mixture{Clusters: family.Clusters{Count: 1000}}}
	if got := mixture.Needs(); got != (family.Options{Covariance: true, Sample: many.Sample}) {
		t.Errorf("DARK over a mixture needs %+v", got)
	}
	if got := (family.DARK{Base: family.OPRF{}}).Needs(); got != (family.Options{Covariance: true}) {
		t.Errorf("DARK over OPRF needs %+v", got)
	}
}

// Matching is homogeneous in both covariances, at any scale that float64 can hold.
func TestFitMatchScales(t *testing.T) {
	cx := dense.MustFromRows([][]float64{{2, 0.3}, {0.3, 1}})
	cy := dense.MustFromRows([][]float64{{0.5, -0.1}, {-0.1, 3}})
	p, trace := family.Match(cx, cy)
	scaled := func(m dense.Matrix[float64], c float64) dense.Matrix[float64] {
		m = m.Clone()
		for i := range m.Data {
			m.Data[i] *= c
		}
		return m
	}
	for _, c := range [][2]float64{{1e-200, 1e-200}, {1e200, 1e200}, {1e-150, 1e150}, {3, 1e300}} {
		q, tr := family.Match(scaled(cx, c[0]), scaled(cy, c[1]))
		ratio, product := math.Sqrt(c[1])/math.Sqrt(c[0]), math.Sqrt(c[0])*math.Sqrt(c[1])
		for i, v := range p.Data {
			if math.Abs(q.Data[i]-v*ratio) > 1e-12*ratio {
				t.Errorf("scales %v: P is %v, want %v times %v", c, q.ToRows(), ratio, p.ToRows())
				break
			}
		}
		if math.Abs(tr-trace*product) > 1e-12*trace*product {
			t.Errorf("scales %v: minimum %v, want %v", c, tr, trace*product)
		}
	}
	bad := scaled(cx, math.Inf(1))
	for _, m := range []dense.Matrix[float64]{bad, scaled(cx, -1), dense.New[float64](2, 2)} {
		if p, tr := family.Match(m, cy); !p.IsEmpty() || !math.IsNaN(tr) {
			t.Errorf("%v matched: %v, %v", m.ToRows(), p, tr)
		}
	}
}

func randomMatrix(d int, diag, off float64, seed uint64) dense.Matrix[float64] {
	m := dense.New[float64](d, d)
	rng.Normals(m.Data, rng.Stream(seed))
	for i := range m.Data {
		m.Data[i] *= off
	}
	for i := range d {
		m.Row(i)[i] += diag
	}
	return m
}

// prepared are families with matrices, in dimension d.
func prepared(t testing.TB, d int) map[string]family.Family {
	t.Helper()
	x, y := sets(4*d, d)
	s := family.NewStats(d, family.Options{Covariance: true, Sample: 64})
	if err := errors.Join(s.Query.Add(x), s.Key.Add(y)); err != nil {
		t.Fatal(err)
	}
	out := map[string]family.Family{"importance": family.Importance{L: randomMatrix(d, 1.1, 0.1/math.Sqrt(float64(d)),
		5)}}
	for _, f := range []family.Fitter{family.Adaptive{}, family.ComplexExp{}, family.ZeroOne{},
		family.DARK{Base: family.Adaptive{}}} {
		g, err := f.Fit(s)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = g
	}
	return out
}

func TestFormPrepared(t *testing.T) {
	const d = 5
	all := prepared(t, d)
	re, im := randomMatrix(d, 1, 0.1, 6), randomMatrix(d, 0.5, 0.1, 7)
	all["complex-exp imaginary"] = family.ComplexExp{Im: im}
	all["complex-exp complex"] = family.ComplexExp{Re: re, Im: im}
	all["complex-exp diagonal"] = family.ComplexExp{Diag: []family.Complex{1, 2i, 1 + 1i, -1, 3}}
	all["importance isotropic"] = family.Importance{L: randomMatrix(d, 1.3, 0, 1)}
	all["importance infinite"] = family.Importance{L: randomMatrix(d, 0.5, 0.01, 1)}
	all["dark nested"] = family.DARK{M: re.RowRange(0, 4), Base: family.DARK{M: im.RowRange(0, 3).ColRange(0, 4)}}
	all["oprf"] = family.OPRF{A: -0.1}
	all["adaptive default"] = family.Adaptive{}
	all["angular"] = family.Angular{}
	x, y := sets(6, d)
	for name, f := range all {
		p, err := family.Prepare(f, d)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range x.Rows {
			got, err := p.Form(kernel.Gaussian, x.Row(i), y.Row(i))
			want, err2 := f.Form(kernel.Gaussian, x.Row(i), y.Row(i))
			if err != nil || err2 != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: prepared form %+v (%v), want %+v (%v)", name, got, err, want, err2)
			}
		}
		if _, ok := p.(family.Family); ok {
			continue
		}
		if _, err := p.Form(kernel.Gaussian, x.Row(0)[:2], y.Row(0)[:2]); !errors.Is(err, dense.ErrShape) {
			t.Errorf("%s: a shorter pair: %v", name, err)
		}
		if p, err := family.Prepare(f, d+1); err == nil && !strings.Contains(name, "default") || err != nil &&
			p != nil {
			t.Errorf("%s prepared for another dimension: %v, %v", name, p, err)
		}
	}
	if p, err := family.Prepare(nil, d); !errors.Is(err, family.ErrParam) || p != nil {
		t.Errorf("no family: %v, %v", p, err)
	}
}

// The form of Importance against its definition along the axes of the proposal, ρ_i = 1/(2s_i-1) (docs/theory.md
// §2.15), and against the integral ∫p²/ψ e^{2ω·v} as it stands.
func TestFormImportance(t *testing.T) {
	x, y := sets(8, 4)
	for name, l := range map[string]dense.Matrix[float64]{
		"wide":     randomMatrix(4, 1.4, 0.1, 1),
		"narrow":   randomMatrix(4, 0.85, 0.02, 2),
		"near I":   randomMatrix(4, 1, 1e-6, 3),
		"negative": randomMatrix(4, -1.2, 0.1, 4),
		"huge":     randomMatrix(4, 1e3, 100, 5),
	} {
		lm := mat.NewDense(4, 4, l.Clone().Data)
		var sg mat.Dense
		sg.Mul(lm, lm.T())
		sym := mat.NewSymDense(4, sg.RawMatrix().Data)
		var e mat.EigenSym
		if !e.Factorize(sym, true) {
			t.Fatal(name)
		}
		var u mat.Dense
		e.VectorsTo(&u)
		s := e.Values(nil)
		var inv mat.Dense
		if err := inv.Inverse(sym); err != nil {
			t.Fatal(err)
		}
		q := mat.NewDense(4, 4, nil)
		for i := range 4 {
			q.Set(i, i, 2)
		}
		q.Sub(q, &inv)
		for i := range x.Rows {
			rho, w, v := make([]float64, 4), make([]float64, 4), make([]float64, 4)
			for k := range v {
				v[k] = x.At(i, k) + y.At(i, k)
			}
			for a := range s {
				rho[a] = 1 / (2*s[a] - 1)
				for k := range v {
					w[a] += u.At(k, a) * v[k]
				}
			}
			want := forms.LogRVAdaptive(rho, w)
			form, err := family.Importance{L: l}.Form(kernel.Softmax, x.Row(i), y.Row(i))
			if err != nil || math.Abs(form.Terms[0].LogRV-want) > 1e-9 {
				t.Errorf("%s: log rv %v (%v), want %v", name, form.Terms[0].LogRV, err, want)
			}
			logL, _ := mat.LogDet(lm)
			logQ, _ := mat.LogDet(q)
			var qv mat.VecDense
			if err := qv.SolveVec(q, mat.NewVecDense(4, v)); err != nil {
				t.Fatal(err)
			}
			logR := logL - logQ/2 + 2*dense.Dot(v, qv.RawVector().Data) - dense.Norm2(v)
			if got := math.Log1p(math.Exp(form.Terms[0].LogRV)); math.Abs(got-logR) > 1e-9*(1+math.Abs(logR)) {
				t.Errorf("%s: log second moment %v, want %v", name, got, logR)
			}
		}
	}
	form, err := family.Importance{L: dense.MustFromRows([][]float64{{0.5, 0}, {0.1, 2}})}.Form(kernel.Softmax,
		[]float64{0, 0}, []float64{0, 0})
	if err != nil || !math.IsInf(form.Terms[0].LogRV, 1) {
		t.Errorf("a proposal narrower than 1/2: %+v, %v", form, err)
	}
	// Multiples of the identity, rotated or not, keep the coupled forms of OPRF.
	rot := dense.MustFromRows([][]float64{{0.6, -0.8}, {0.8, 0.6}})
	form, err = family.Importance{L: rot}.Form(kernel.Softmax, []float64{1, 0}, []float64{0, 1})
	if err != nil || !form.Terms[0].Couples || math.Abs(form.Terms[0].LogRV-forms.LogRVPositive(2)) > 1e-12 {
		t.Errorf("a rotation: %+v, %v", form, err)
	}
	if _, err := (family.Importance{L: randomMatrix(3, 1e200, 0, 1)}).Draws(kernel.Softmax, 3, 2); !errors.Is(err,
		family.ErrParam) {
		t.Errorf("a proposal that overflows: %v", err)
	}
}

// A real matrix given with an imaginary part of zeros is real, an imaginary one has trigonometric forms.
func TestFormComplexExpParts(t *testing.T) {
	const d = 3
	m := randomMatrix(d, 1, 0.2, 9)
	for name, c := range map[string]struct {
		f     family.ComplexExp
		shape forms.Shape
	}{
		"real":      {family.ComplexExp{Re: m, Im: dense.New[float64](d, d)}, forms.Exponential},
		"imaginary": {family.ComplexExp{Re: dense.New[float64](d, d), Im: m}, forms.Trigonometric},
	} {
		form, err := c.f.Form(kernel.Softmax, []float64{1, 0, 2}, []float64{0, 1, 1})
		if err != nil || !form.Terms[0].Couples || form.Terms[0].Shape != c.shape {
			t.Errorf("%s: %+v, %v", name, form, err)
		}
	}
	if _, err := (family.ComplexExp{Re: dense.New[float64](d, d)}).Draws(kernel.Softmax, d, 2); !errors.Is(err,
		family.ErrParam) {
		t.Errorf("zero matrix: %v", err)
	}
}

// The kernel of nested DARK is exp((NMx)·(NMy)).
func TestTargetOfNestedDARK(t *testing.T) {
	m := dense.MustFromRows([][]float64{{1, 2, 0}, {0, 1, -1}})
	n := dense.MustFromRows([][]float64{{0.5, 0}, {1, 1}})
	f := family.DARK{M: m, Base: family.DARK{M: n}}
	k := f.Target(kernel.Kernel{Kind: kernel.Softmax, Scale: 2})
	x, y := []float64{0.3, -0.1, 0.7}, []float64{1, 0.4, 0.2}
	apply := func(a dense.Matrix[float64], v []float64) []float64 {
		out := make([]float64, a.Rows)
		for i := range out {
			out[i] = dense.Dot(a.Row(i), v)
		}
		return out
	}
	want := dense.Dot(apply(n, apply(m, x)), apply(n, apply(m, y))) / 4
	if got := k.Log(x, y); math.Abs(got-want) > 1e-14 {
		t.Errorf("log target %v, want %v", got, want)
	}
	form, err := f.Form(kernel.Softmax, x, y)
	if ratio := 4*want - dense.Dot(x, y); err != nil || math.Abs(form.LogRatio-ratio) > 1e-13 {
		t.Errorf("log mean/kernel is %v (%v), want %v", form.LogRatio, err, ratio)
	}
}

// W decides the number of features of LFK.
func TestLFKSize(t *testing.T) {
	f := family.LFK{W: dense.New[float64](7, 3)}
	for _, m := range []int{0, 1, 7, 20} {
		if d, err := f.Draws(kernel.Softmax, 3, m); err != nil || d != nil {
			t.Errorf("m = %d: %v, %v", m, d, err)
		}
	}
	if _, err := f.Draws(kernel.Softmax, 3, -1); !errors.Is(err, coupling.ErrSize) {
		t.Errorf("m = -1: %v", err)
	}
	p, err := f.Lower(kernel.Softmax, 3, nil)
	if err != nil || p.Query.OutDim(3) != 7 {
		t.Errorf("%d features, %v", p.Query.OutDim(3), err)
	}
}

// The output sizes that the documentation of the hybrids states.
func TestHybridSizes(t *testing.T) {
	const d, m, n = 2, 5, 3
	centres := dense.MustFromRows([][]float64{{1, 1}, {-1, 2}})
	for name, c := range map[string]struct {
		f    family.Family
		want int
	}{
		"gaussian-lambda":      {family.GaussianLambda{N: n}, 2 * m * (2*n + 1)},
		"gaussian-lambda trig": {family.GaussianLambda{N: n, TrigRho: true}, 2 * m * (4*n + 1)},
		"mixture": {family.Mixture{Clusters: family.Clusters{QueryCentres: centres, KeyCentres: centres},
			N: n}, m * (3*4*n + 2)},
		// All four pairs of centres agree in sign in the second coordinate: all A_ij are complex.
		"mixture complex": {family.Mixture{Clusters: family.Clusters{QueryCentres: centres, KeyCentres: centres,
			Complex: true}, N: n, TrigRho: true}, m * ((3*4+4)*2*n + 2)},
	} {
		draws, err := c.f.Draws(kernel.Softmax, d, m)
		if err != nil {
			t.Fatal(err)
		}
		omega := make([]coupling.Omega, len(draws))
		for i, dr := range draws {
			omega[i].Rows = dense.New[float64](dr.Rows, dr.Dim)
		}
		p, err := c.f.Lower(kernel.Softmax, d, omega)
		if err != nil || p.Query.OutDim(d) != c.want {
			t.Errorf("%s: %d features (%v), want %d", name, p.Query.OutDim(d), err, c.want)
		}
	}
}

func BenchmarkForm(b *testing.B) {
	for _, d := range []int{64, 256} {
		x, y := sets(2, d)
		for name, f := range prepared(b, d) {
			p, err := family.Prepare(f, d)
			if err != nil {
				b.Fatal(err)
			}
			for how, e := range map[string]theory.Estimator{"family": f, "prepared": p} {
				b.Run(fmt.Sprintf("family=%s/d=%d/how=%s", name, d, how), func(b *testing.B) {
					for b.Loop() {
						if _, err := e.Form(kernel.Softmax, x.Row(0), y.Row(0)); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
