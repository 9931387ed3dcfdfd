package family_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

func TestBadParameters(t *testing.T) {
	nan := math.NaN()
	singular := dense.MustFromRows([][]float64{{1, 2, 0}, {2, 4, 0}, {0, 0, 1}})
	wrong := dense.Identity[float64](2)
	holed := dense.Identity[float64](3)
	holed.Set(1, 1, math.Inf(1))
	centres := dense.New[float64](2, 3)
	for name, c := range map[string]struct {
		f    family.Family
		says string
	}{
		"gerf infinite variance": {family.GERF{A: 0.125}, "Re(1-8A) > 0"},
		"gerf complex":           {family.GERF{A: 0.2 + 1i, S: -1}, "Re(1-8A) > 0"},
		"gerf NaN":               {family.GERF{A: family.Complex(complex(nan, 0))}, "A"},
		"gerf sign":              {family.GERF{S: 2}, "s = 2"},
		"oprf":                   {family.OPRF{A: 0.2}, "A = 0.2"},
		"oprf -Inf":              {family.OPRF{A: math.Inf(-1)}, "A"},
		"poisson unfitted":       {family.Poisson{}, "lambda"},
		"poisson negative":       {family.Poisson{Lambda: -1}, "lambda"},
		"geometric":              {family.Geometric{P: 1}, "p = 1"},
		"poisson+ shift":         {family.PoissonPlus{Lambda: 1, Shift: []float64{0}}, "shift"},
		"geometric+ NaN shift":   {family.GeometricPlus{P: 0.5, Shift: []float64{0, nan, 0}}, "shift 1"},
		"complex-exp zero entry": {family.ComplexExp{Diag: []family.Complex{1, 0, 1}}, "diag entry 1"},
		"complex-exp singular":   {family.ComplexExp{Re: singular}, "singular"},
		"complex-exp size":       {family.ComplexExp{Re: wrong}, "re is 2×2"},
		"complex-exp Inf":        {family.ComplexExp{Im: holed}, "im"},
		"complex-exp both":       {family.ComplexExp{Diag: []family.Complex{1, 1, 1}, Re: holed}, "both"},
		"hybrid empty":           {family.Hybrid{}, "coefficients"},
		"hybrid nested": {family.Hybrid{Bases: []family.Family{family.Angular{}, family.Trig{}},
			Coefficients: []family.Coefficient{{Rho: "sign", N: 1}}}, "sets of projections"},
		"hybrid rho": {family.Hybrid{Bases: []family.Family{family.Trig{}, family.Trig{}},
			Coefficients: []family.Coefficient{{Rho: "cubic", N: 1}}}, "cubic"},
		"hybrid n": {family.Angular{N: -1}, "n = -1"},
		"hybrid shares unlike draws": {family.Hybrid{Bases: []family.Family{family.Poisson{Lambda: 1}, family.Trig{}},
			Groups: []int{0, 0}, Coefficients: []family.Coefficient{{Rho: "sign", N: 1}}}, "share"},
		"bipolar sigma":     {family.BipolarGaussian{Sigma: -1}, "sigma"},
		"gaussian-lambda c": {family.GaussianLambda{C: []float64{1, 2}}, "bandwidths"},
		"gaussian-lambda M": {family.GaussianLambda{M: []dense.Matrix[float64]{wrong}}, "M 0"},
		"zero-one unfitted": {family.ZeroOne{}, "query_centres"},
		"mixture amax": {family.Mixture{Clusters: family.Clusters{QueryCentres: centres,
			KeyCentres: centres, AMax: 0.5}}, "amax"},
		"dark unfitted":              {family.DARK{}, "no matrix M"},
		"dark size":                  {family.DARK{M: wrong}, "M is 2×2"},
		"dark Inf":                   {family.DARK{M: holed}, "row 1, column 1"},
		"importance singular":        {family.Importance{L: singular}, "singular"},
		"lfk":                        {family.LFK{W: wrong}, "W is 2×2"},
		"relu":                       {family.ReLU{Eps: -1}, "eps"},
		"adaptive singular":          {family.Adaptive{A: singular}, "singular"},
		"adaptive not orthogonal":    {family.Adaptive{U: holed.Clone()}, "U"},
		"adaptive rho":               {family.Adaptive{Rho: []float64{1, 2, 1}}, "rho 1"},
		"adaptive rho length":        {family.Adaptive{Rho: []float64{1}}, "rho"},
		"residual shrink":            {family.Residual{Shrink: 2}, "shrink"},
		"residual singular proposal": {family.Residual{L: singular}, "singular"},
		"zero-one wrong number of A's": {family.ZeroOne{Clusters: family.Clusters{QueryCentres: centres,
			KeyCentres: centres, A: [][]family.Complex{{1}}}}, "diagonals"},
	} {
		_, err := c.f.Draws(kernel.Softmax, 3, 4)
		if !errors.Is(err, family.ErrParam) {
			t.Errorf("%s: error %v, want ErrParam", name, err)
		} else if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "family ") {
			t.Errorf("%s: %q does not say %q", name, err, c.says)
		}
		if _, err := theory.Of(kernel.Kernel{}, c.f, nil, 4, []float64{1, 2, 3}, []float64{1, 0, 1}); err == nil {
			t.Errorf("%s: theory accepts it", name)
		}
	}
}

func TestBadSizes(t *testing.T) {
	for _, i := range family.List() {
		f, err := family.Parse(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range [][2]int{{0, 4}, {3, 0}, {-1, 1}, {3, -2}} {
			if i.Name == "elu" && size[0] > 0 {
				continue // has no projections
			}
			if _, err := f.Draws(kernel.Gaussian, size[0], size[1]); err == nil {
				t.Errorf("%s: dimension %d, m = %d accepted", i.Name, size[0], size[1])
			}
		}
		if i.Name == "trig" {
			continue
		}
		if _, err := f.Draws(kernel.Bessel, 3, 4); err == nil {
			t.Errorf("%s: the Bessel kernel accepted", i.Name)
		}
	}
}

func TestGivenProjectionsAreChecked(t *testing.T) {
	good := coupling.Omega{Rows: dense.New[float64](4, 3)}
	nan := coupling.Omega{Rows: dense.New[float64](4, 3)}
	nan.Rows.Set(2, 1, math.NaN())
	half := coupling.Omega{Rows: dense.New[float64](4, 3)}
	half.Rows.Set(0, 0, 0.5)
	for name, c := range map[string]struct {
		f     family.Family
		omega []coupling.Omega
		want  error
	}{
		"none":         {family.Trig{}, nil, dense.ErrShape},
		"two":          {family.Trig{}, []coupling.Omega{good, good}, dense.ErrShape},
		"columns":      {family.Positive{}, []coupling.Omega{{Rows: dense.New[float64](4, 2)}}, dense.ErrShape},
		"NaN":          {family.Positive{}, []coupling.Omega{nan}, dense.ErrNotFinite},
		"not a count":  {family.Poisson{Lambda: 1}, []coupling.Omega{half}, family.ErrParam},
		"hybrid count": {family.Angular{}, []coupling.Omega{good, good}, dense.ErrShape},
		"elu":          {family.ELU{}, []coupling.Omega{good}, dense.ErrShape},
	} {
		if _, err := c.f.Lower(kernel.Softmax, 3, c.omega); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, name := range family.Names() {
		f, err := family.Parse(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Name() != name {
			t.Errorf("%s has the name %s", name, f.Name())
		}
	}
	f, err := family.Parse(`{"name":"dark","m":[[1,0],[0,2]],"base":{"name":"gerf","a":[-0.1,0.02],"s":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if g := f.(family.DARK).Base.(family.GERF); g.A != -0.1+0.02i || g.S != 1 {
		t.Errorf("got %+v", f)
	}
	for text, c := range map[string]struct {
		says string
		want error
	}{
		"fourier":                           {"want one of trig, positive", family.ErrName},
		"":                                  {"no name", family.ErrName},
		`{"name":"oprf","A2":1}`:            {`unknown field "A2"; valid fields: a`, family.ErrParam},
		`{"name":"oprf","A":-0.1}`:          {`unknown field "A"`, family.ErrParam},
		`{"name":"oprf","a":-0.1,"a":-0.2}`: {`field "a" is there twice`, family.ErrParam},
		`{"name":"oprf","a":"x"}`:           {"oprf", family.ErrParam},
		`{"name":"zero-one","AMax":2}`:      {`unknown field "AMax"; valid fields: query_centres`, family.ErrParam},
		`{"name":"oprf"} x`:                 {"object", family.ErrParam},
		`{"a":1}`:                           {"no name", family.ErrName},
		`{"Name":"trig"}`:                   {"no name", family.ErrName},
		`{"name":"gerf","a":[1]}`:           {"[re, im]", family.ErrParam},
		`{"name":"dark","base":{"a":1}}`:    {"no name", family.ErrName},
		`{"name":"dark","base":{"name":"oprf","A":1}}`:                       {`unknown field "A"`, family.ErrParam},
		`{"name":"dark","Base":{"name":"oprf"}}`:                             {`unknown field "Base"`, family.ErrParam},
		`{"name":"hybrid","bases":[1]}`:                                      {"object", family.ErrParam},
		`{"name":"hybrid","bases":[],"coefficients":[{"rho":"sign","N":1}]}`: {`unknown field "N"`, family.ErrParam},
		`{`: {"object", family.ErrParam},
	} {
		if _, err := family.Parse(text); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", text, err, c.want, c.says)
		}
	}
	if _, err := family.Encode(nil); err == nil {
		t.Error("nil was encoded")
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range family.Names() {
		v, err := family.Parse(name)
		if err != nil {
			f.Fatal(err)
		}
		b, err := family.Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"name":"hybrid","bases":[{"name":"trig"},{"name":"oprf","a":-1}],"coefficients":[{"rho":"sign","n":2,"const":0.5}]}`))
	f.Add([]byte(`{"name":"zero-one","query_centres":[[1,2]],"key_centres":[[0,0],[1,1]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := family.Parse(string(b))
		if err != nil {
			return
		}
		again, err := family.Encode(v)
		if err != nil {
			t.Fatalf("%s decodes but does not encode: %v", b, err)
		}
		if _, err := family.Parse(string(again)); err != nil {
			t.Fatalf("%s encodes to %s, which does not decode: %v", b, again, err)
		}
		// Whatever was decoded must either be refused or be usable, never panic.
		if draws, err := v.Draws(kernel.Softmax, 2, 3); err == nil {
			for _, d := range draws {
				if d.Rows > 1000 || d.Dim > 1000 {
					return
				}
			}
			_, _ = v.Form(kernel.Softmax, []float64{0.1, 0.2}, []float64{0.3, -0.1})
		}
	})
}

// stats of two sets, in one pass or in merged parts.
func stats(t *testing.T, x, y dense.Matrix[float64], cuts ...int) *family.Stats {
	t.Helper()
	o := family.Options{Covariance: true, Sample: 16}
	total := family.NewStats(x.Cols, o)
	lo := 0
	for _, hi := range append(cuts, x.Rows) {
		part := family.NewStats(x.Cols, o)
		if err := errors.Join(part.Query.Add(x.RowRange(lo, hi)), part.Key.Add(y.RowRange(lo, hi)),
			total.Merge(part)); err != nil {
			t.Fatal(err)
		}
		lo = hi
	}
	return total
}

func sets(n, d int) (x, y dense.Matrix[float64]) {
	x, y = dense.New[float64](n, d), dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(1))
	rng.Normals(y.Data, rng.Stream(2))
	for i := range n {
		for l := range d {
			x.Row(i)[l] = 0.2 + x.At(i, l)*0.5/float64(1+l)
			y.Row(i)[l] = -0.1 + y.At(i, l)*0.1*float64(1+l)
		}
	}
	return x, y
}

// Merged statistics equal the statistics of one pass for any cuts, and agree with the definitions.
func TestStatsMerge(t *testing.T) {
	x, y := sets(60, 4)
	whole := stats(t, x, y)
	for _, cuts := range [][]int{{1}, {30}, {7, 8, 59}} {
		part := stats(t, x, y, cuts...)
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"mean norm +", part.MeanNorm2(1), whole.MeanNorm2(1)},
			{"mean norm -", part.MeanNorm2(-1), whole.MeanNorm2(-1)},
			{"S", part.S(), whole.S()},
			{"T", part.T()[2], whole.T()[2]},
			{"covariance", part.Key.Covariance().At(1, 3), whole.Key.Covariance().At(1, 3)},
		} {
			if math.Abs(c.got-c.want) > 1e-13*(1+math.Abs(c.want)) {
				t.Errorf("cuts %v: %s is %v, want %v", cuts, c.name, c.got, c.want)
			}
		}
		a, err := family.ZeroOne{}.Fit(part)
		if err != nil {
			t.Fatal(err)
		}
		b, err := family.ZeroOne{}.Fit(whole)
		if err != nil {
			t.Fatal(err)
		}
		ja, _ := json.Marshal(a)
		jb, _ := json.Marshal(b)
		if string(ja) != string(jb) {
			t.Errorf("cuts %v: other clusters", cuts)
		}
	}
	var plus float64
	for i := range x.Rows {
		for j := range y.Rows {
			for l := range x.Cols {
				s := x.At(i, l) + y.At(j, l)
				plus += s * s / float64(x.Rows*y.Rows)
			}
		}
	}
	if got := whole.MeanNorm2(1); math.Abs(got-plus) > 1e-12 {
		t.Errorf("mean |x+y|² over all pairs is %v, want %v", got, plus)
	}
	if err := whole.Merge(family.NewStats(4, family.Options{})); !errors.Is(err, dense.ErrShape) {
		t.Errorf("other options merged: %v", err)
	}
}

func TestFitNeedsStatistics(t *testing.T) {
	x, y := sets(10, 3)
	bare := family.NewStats(3, family.Options{})
	if err := errors.Join(bare.Query.Add(x), bare.Key.Add(y)); err != nil {
		t.Fatal(err)
	}
	for _, i := range family.List() {
		f, err := family.Parse(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		fitter, ok := f.(family.Fitter)
		if ok != i.Fits {
			t.Errorf("%s: the list says fits = %v", i.Name, i.Fits)
		}
		if !ok {
			continue
		}
		for _, s := range []*family.Stats{nil, family.NewStats(3, family.Options{Covariance: true, Sample: 4})} {
			if _, err := fitter.Fit(s); !errors.Is(err, family.ErrStats) {
				t.Errorf("%s: fitted to nothing: %v", i.Name, err)
			}
		}
		if got, err := fitter.Fit(bare); err != nil && !errors.Is(err, family.ErrStats) || err == nil && got == nil {
			t.Errorf("%s without covariances and samples: %v, %v", i.Name, got, err)
		}
	}
	if err := bare.Query.Add(dense.New[float64](1, 4)); !errors.Is(err, dense.ErrShape) {
		t.Errorf("other columns: %v", err)
	}
	bad := dense.New[float64](1, 3)
	bad.Set(0, 1, math.NaN())
	if err := bare.Key.Add(bad); !errors.Is(err, dense.ErrNotFinite) {
		t.Errorf("NaN: %v", err)
	}
}

// The optimal Gaussian proposal exists only for eigenvalues below one half (DARK Thm 3.2).
func TestImportanceNeedsSmallCovariance(t *testing.T) {
	x, y := sets(200, 3)
	for i := range x.Data {
		x.Data[i] *= 10
		y.Data[i] *= 10
	}
	if _, err := (family.Importance{}).Fit(stats(t, x, y)); !errors.Is(err, family.ErrParam) ||
		!strings.Contains(err.Error(), "1/2") {
		t.Errorf("got %v", err)
	}
}

// meanLogSecond is the mean over pairs of log(1 + rv), the objective that the fits of CRT and ours lower.
func meanLogSecond(t *testing.T, f family.Family, x, y dense.Matrix[float64]) float64 {
	t.Helper()
	var s float64
	for i := range x.Rows {
		form, err := f.Form(kernel.Softmax, x.Row(i), y.Row((i*7+3)%y.Rows))
		if err != nil {
			t.Fatal(err)
		}
		s += math.Log1p(math.Exp(form.Terms[0].LogRV)) / float64(x.Rows)
	}
	return s
}

// A fit must not be worse than the default it starts from, and nudging its parameter must not improve the objective it
// minimises.
func TestFitsImprove(t *testing.T) {
	x, y := sets(300, 6)
	s := stats(t, x, y)
	fitted := map[string]family.Family{}
	for _, f := range []family.Fitter{family.OPRF{}, family.GERF{}, family.ComplexExp{}, family.Adaptive{},
		family.Poisson{}, family.Geometric{}} {
		g, err := f.Fit(s)
		if err != nil {
			t.Fatal(err)
		}
		fitted[f.Name()] = g
	}
	base := meanLogSecond(t, family.Positive{}, x, y)
	oprf := meanLogSecond(t, fitted["oprf"], x, y)
	adaptive := meanLogSecond(t, fitted["adaptive"], x, y)
	if oprf > base || meanLogSecond(t, fitted["complex-exp"], x, y) > base || adaptive > oprf {
		t.Errorf("mean log second moments: positive %.3f, oprf %.3f, complex-exp %.3f, adaptive %.3f", base, oprf,
			meanLogSecond(t, fitted["complex-exp"], x, y), adaptive)
	}
	v := s.MeanNorm2(1)
	a := fitted["oprf"].(family.OPRF).A
	at := func(a float64) float64 { return forms.LogSecondGERF(6, complex(a, 0), 1, v) }
	if at(a) > at(a*1.01) || at(a) > at(a*0.99) {
		t.Errorf("A = %v does not minimise the second moment", a)
	}
	lambda := fitted["poisson"].(family.Poisson).Lambda
	po := func(l float64) float64 { return forms.LogRVPoisson(6, l, s.S(), 0) }
	if po(lambda) > po(lambda*1.01) || po(lambda) > po(lambda*0.99) {
		t.Errorf("lambda = %v is not optimal", lambda)
	}
	p := fitted["geometric"].(family.Geometric).P
	ge := func(p float64) float64 { return forms.LogRVGeometric(p, s.T(), 0) }
	if ge(p) > ge(p+1e-3) || ge(p) > ge(p-1e-3) {
		t.Errorf("p = %v is not optimal", p)
	}
}

// The flagship claim: on anisotropic data with unequal query and key covariances the adaptive family's error is smaller
// by orders of magnitude than FAVOR++'s (docs/theory.md §2.18).
func TestAdaptiveOnAnisotropicData(t *testing.T) {
	const n, d = 400, 64
	x, y := dense.New[float64](n, d), dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(1))
	rng.Normals(y.Data, rng.Stream(2))
	for i := range n {
		for l := range d { // power-law spectra, keys in reverse order, means off zero
			x.Row(i)[l] = 0.2 + 3*x.At(i, l)/float64(1+l)
			y.Row(i)[l] = 0.1 + 3*y.At(i, l)/float64(d-l)
		}
	}
	s := stats(t, x, y)
	o, err := family.OPRF{}.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	a, err := family.Adaptive{}.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	oprf, adaptive := meanLogSecond(t, o, x, y), meanLogSecond(t, a, x, y)
	t.Logf("mean log relative second moment: OPRF %.1f, adaptive %.1f", oprf, adaptive)
	if adaptive > oprf-5 {
		t.Errorf("adaptive %.1f is not far below OPRF %.1f", adaptive, oprf)
	}
}

// Poisson features are exact when every product x_l y_l is zero (docs/theory.md §3.3).
func TestPoissonWithoutOverlap(t *testing.T) {
	x := dense.MustFromRows([][]float64{{1, 0}, {2, 0}})
	y := dense.MustFromRows([][]float64{{0, 1}, {0, 3}})
	f, err := family.Poisson{}.Fit(stats(t, x, y))
	if err != nil {
		t.Fatal(err)
	}
	form, err := f.Form(kernel.Softmax, x.Row(0), y.Row(1))
	if err != nil || form.Terms[0].LogRV > -600 {
		t.Errorf("form %+v, %v", form, err)
	}
}
