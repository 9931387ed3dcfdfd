package forms

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/special"
)

var (
	shapes = []Shape{Exponential, Trigonometric, Hyperbolic}
	laws   = slices.DeleteFunc(pairKinds(), func(k coupling.PairKind) bool { return !k.Closed() })
)

// Every pair law that claims a closed form has one here, and no other.
func TestPairForms(t *testing.T) {
	for _, k := range pairKinds() {
		if _, ok := pairForms()[k]; ok != k.Closed() {
			t.Errorf("%v: a closed form in pairForms is %t, PairKind.Closed says %t: add its file beside simplex.go and its "+
				"line in pairForms", k, ok, k.Closed())
		}
	}
	if len(pairForms()) != len(laws) {
		t.Errorf("%d closed forms for %d pair laws", len(pairForms()), len(laws))
	}
}

// relMSE is LogRelMSE or a test failure.
func relMSE(t *testing.T, shape Shape, law coupling.PairKind, d, m int, logRV, arg float64) float64 {
	t.Helper()
	v, err := LogRelMSE(shape, law, d, m, logRV, arg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func logRVBestOPRF(d int, v2 float64) float64 { return LogRVOPRF(d, RhoStar(d, v2), v2) }

// The general form of GERF agrees with that of OPRF, its real case.
func TestGERFOfRealA(t *testing.T) {
	for _, d := range []int{1, 3, 64} {
		for _, rho := range []float64{0.05, 0.3, 0.9, 1} {
			for _, v2 := range []float64{0, 0.4, 5, 60} {
				got, want := LogRVGERF(d, complex((1-1/rho)/8, 0), 1, v2), LogRVOPRF(d, rho, v2)
				if got != want && !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
					t.Errorf("d = %d, ρ = %v, |v|² = %v: %v, OPRF %v", d, rho, v2, got, want)
				}
			}
		}
	}
}

// TestCoupledReference compares with testdata/coupled.json, evaluated with mpmath
// straight from the definitions.
func TestCoupledReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/coupled.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Shape, Law string
			D          int
			T          float64
			Sign       int
			LogKappa   string
			Rel        [][2]json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		var v float64
		if err := json.Unmarshal([]byte(strings.Trim(s, `"`)), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	worst := 0.0
	for _, c := range file.Cases {
		shape := map[string]Shape{"exponential": Exponential, "trigonometric": Trigonometric,
			"hyperbolic": Hyperbolic}[c.Shape]
		law := map[string]coupling.PairKind{"orthogonal": coupling.PairOrthogonal,
			"simplex": coupling.PairSimplex}[c.Law]
		sign, logAbs, err := Kappa(shape, law, c.D, c.T)
		if err != nil {
			t.Fatal(err)
		}
		want := number(c.LogKappa)
		if e := math.Abs(logAbs - want); sign != c.Sign || !(e <= 2e-12*math.Max(1, math.Abs(want))) {
			t.Errorf("Kappa(%v, %v, %d, %g) = %d, %.17g, want %d, %.17g", shape, law, c.D, c.T, sign, logAbs, c.Sign,
				want)
		}
		for _, r := range c.Rel {
			m, want := int(number(string(r[0]))), number(string(r[1]))
			got := relMSE(t, shape, law, c.D, m, plainRV(shape, c.T), c.T)
			e := math.Abs(got-want) / math.Max(1, math.Abs(want))
			worst = math.Max(worst, e)
			if !(e <= 2e-12) {
				t.Errorf("LogRelMSE(%v, %v, %d, %d, %g) = %.17g, want %.17g (%.1e)", shape, law, c.D, m, c.T, got, want,
					e)
			}
		}
	}
	t.Logf("%d cases, worst error of LogRelMSE %.1e", len(file.Cases), worst)
}

// bigRelMSE evaluates log( rv/m + pf (e^{±t} 1F1(d; d/2; ∓t/2) − 1) ) in 512 bits, with
// no regard for cancellation.
func bigRelMSE(shape Shape, d, m int, t float64) float64 {
	const prec = 512
	num := func(v float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(v) }
	// exp and 1F1 by their series, term ratios supplied.
	series := func(ratio func(k int64) (num, den float64), x *big.Float) *big.Float {
		sum, term := num(1), num(1)
		for k := int64(0); term.MantExp(nil) > -prec; k++ {
			n, d := ratio(k)
			term.Mul(term, x)
			term.Mul(term, num(n))
			term.Quo(term, num(d))
			sum.Add(sum, term)
		}
		return sum
	}
	exp := func(x *big.Float) *big.Float {
		return series(func(k int64) (float64, float64) { return 1, float64(k + 1) }, x)
	}
	sign := -1.0 // exponential and hyperbolic: e^{−t} 1F1(+t/2)
	if shape == Trigonometric {
		sign = 1
	}
	plus := exp(num(t))
	minus := exp(num(-t))
	rv := num(0).Sub(plus, num(1))
	if shape != Exponential {
		rv.Add(plus, minus)
		rv.Quo(rv, num(2))
		rv.Sub(rv, num(1))
	}
	f := series(func(k int64) (float64, float64) {
		return 2 * float64(int64(d)+k), float64(int64(d)+2*k) * float64(k+1)
	}, num(-sign*t/2))
	kappa := num(0).Mul(f, map[float64]*big.Float{1: plus, -1: minus}[sign])
	kappa.Sub(kappa, num(1))

	q, r := m/d, m%d
	pairs := float64(q*d*(d-1) + r*(r-1))
	kappa.Mul(kappa, num(pairs))
	kappa.Quo(kappa, num(float64(m)))
	rv.Add(rv, kappa)
	return special.LogBig(rv.Quo(rv, num(float64(m))))
}

// TestRelMSEBig checks the joint series against extended precision, where m = d
// makes rv/m and pf·kappa nearly cancel.
func TestRelMSEBig(t *testing.T) {
	for _, shape := range shapes {
		for _, d := range []int{2, 3, 4, 7, 16, 63, 512, 1999, 4096} {
			for _, m := range []int{2, d, d + 1, 2 * d, 5*d + 2} {
				for _, x := range []float64{1e-9, 1e-5, 1e-3, 0.1, 0.5, 1, 2, 4, 6, 7.99, 8.01, 12, 20, 35} {
					got := relMSE(t, shape, coupling.PairOrthogonal, d, m, plainRV(shape, x), x)
					want := bigRelMSE(shape, d, m, x)
					if e := math.Abs(got - want); !(e <= 1e-13*math.Max(10, math.Abs(want))) {
						t.Errorf("%v d=%d m=%d t=%g: %.17g, want %.17g (%.1e)", shape, d, m, x, got, want, e)
					}
				}
			}
		}
	}
}

// TestRelMSESmall checks leading terms far below the range of float64 arithmetic:
// trigonometric and hyperbolic, m = d, orthogonal: 3t²/(2d(d+2)); positive, simplex:
// t SimplexSmallV/m.
func TestRelMSESmall(t *testing.T) {
	for _, d := range []int{2, 3, 64, 4096} {
		n := float64(d)
		for _, x := range []float64{1e-30, 1e-150, 1e-300} {
			for _, shape := range []Shape{Trigonometric, Hyperbolic} {
				got := relMSE(t, shape, coupling.PairOrthogonal, d, d, plainRV(shape, x), x)
				want := math.Log(3/(2*n*(n+2))) + 2*math.Log(x)
				if math.Abs(got-want) > 1e-13*math.Abs(want) {
					t.Errorf("%v d=%d t=%g: %v, want %v", shape, d, x, got, want)
				}
			}
			for _, m := range []int{2, d, 2*d + 1} {
				got := relMSE(t, Exponential, coupling.PairSimplex, d, m, plainRV(Exponential, x), x)
				want := math.Log(SimplexSmallV(d, m)/float64(m)) + math.Log(x)
				if math.Abs(got-want) > 1e-13*math.Abs(want) {
					t.Errorf("simplex d=%d m=%d t=%g: %v, want %v", d, m, x, got, want)
				}
			}
		}
	}
}

// TestRelMSEOrder checks docs/theory.md §5.2: simplex < orthogonal < iid for positive
// features, and simplex worse than orthogonal for hyperbolic ones and, at small z,
// for trigonometric ones.
func TestRelMSEOrder(t *testing.T) {
	for _, d := range []int{2, 3, 8, 64, 511, 4096} {
		for _, m := range []int{2, d, 2*d + 1} {
			for _, x := range []float64{1e-8, 1e-3, 0.3, 2, 9, 40, 200} {
				value := func(shape Shape, law coupling.PairKind) float64 {
					return relMSE(t, shape, law, d, m, plainRV(shape, x), x)
				}
				// Far out all three round to the same number.
				if iid, ort, sim := value(Exponential, coupling.PairIndependent),
					value(Exponential, coupling.PairOrthogonal),
					value(Exponential, coupling.PairSimplex); !(sim <= ort && ort <= iid) ||
					(x < 9 && !(sim < ort && ort < iid)) {
					t.Errorf("positive d=%d m=%d v²=%g: simplex %v, orthogonal %v, iid %v", d, m, x, sim, ort, iid)
				}
				if ort, sim := value(Hyperbolic, coupling.PairOrthogonal),
					value(Hyperbolic, coupling.PairSimplex); !(sim >= ort) {
					t.Errorf("hyperbolic d=%d m=%d v²=%g: simplex %v, orthogonal %v", d, m, x, sim, ort)
				}
				if ort, sim := value(Trigonometric, coupling.PairOrthogonal),
					value(Trigonometric, coupling.PairSimplex); x <= 3 &&
					!(sim >= ort) {
					t.Errorf("trig d=%d m=%d z²=%g: simplex %v, orthogonal %v", d, m, x, sim, ort)
				}
			}
		}
	}
}

// TestRelMSEOtherMaps: the joint series and the plain sum agree for a map whose
// variance is close to, or far from, the plain map's.
func TestRelMSEOtherMaps(t *testing.T) {
	for _, d := range []int{3, 16} {
		for _, x := range []float64{0.2, 1.5, 7} {
			for _, shift := range []float64{-0.04, 0.0499, 0.0501, 0.3, 2} {
				logRV := plainRV(Trigonometric, x) + shift
				got := relMSE(t, Trigonometric, coupling.PairOrthogonal, d, d, logRV, x)
				sign, logAbs, _ := Kappa(Trigonometric, coupling.PairOrthogonal, d, x)
				want := math.Log(math.Exp(logRV)/float64(d) + PairFraction(d, d)*float64(sign)*math.Exp(logAbs))
				if math.Abs(got-want) > 1e-12 {
					t.Errorf("d=%d z²=%g shift=%g: %v, want %v", d, x, shift, got, want)
				}
			}
		}
	}
}

func TestRelMSEEdges(t *testing.T) {
	for _, shape := range shapes {
		for _, law := range laws {
			// Dimension 1, one projection, t = 0: no pair, or no covariance.
			for _, c := range []struct {
				d, m int
				t    float64
			}{{1, 7, 2}, {5, 1, 2}, {5, 4, 0}} {
				if got := relMSE(t, shape, law, c.d, c.m, 0.5, c.t); got != 0.5-math.Log(float64(c.m)) {
					t.Errorf("%v %v %v: %v", shape, law, c, got)
				}
			}
			if got := relMSE(t, shape, law, 5, 4, math.Inf(1), 2); !math.IsInf(got, 1) {
				t.Errorf("%v %v: infinite variance gives %v", shape, law, got)
			}
		}
	}
	bad := []struct {
		arg  string
		call func() error
	}{
		{"d", func() error { _, err := LogRelMSE(Exponential, coupling.PairIndependent, 0, 1, 0, 1); return err }},
		{"m", func() error { _, err := LogRelMSE(Exponential, coupling.PairIndependent, 1, 0, 0, 1); return err }},
		{"t", func() error { _, err := LogRelMSE(Exponential, coupling.PairIndependent, 1, 1, 0, -1); return err }},
		{"shape", func() error { _, err := LogRelMSE(9, coupling.PairIndependent, 1, 1, 0, 1); return err }},
		{"law", func() error { _, _, err := Kappa(Exponential, -1, 1, 1); return err }},
		{"logRV", func() error {
			_, err := LogRelMSE(Exponential, coupling.PairIndependent, 1, 1, math.NaN(), 1)
			return err
		}},
		{"logRV", func() error { _, err := LogRelMSE(Exponential, coupling.PairSimplex, 8, 8, -20, 1); return err }},
	}
	for _, c := range bad {
		if err := c.call(); !errors.Is(err, ErrDomain) || !strings.Contains(err.Error(), c.arg+" = ") {
			t.Errorf("want ErrDomain naming %s, got %v", c.arg, err)
		}
	}
	_, _, err := Kappa(Exponential, coupling.PairSimplex, 1, 1)
	var none *NoClosedFormError
	if !errors.Is(err, ErrNoClosedForm) || !errors.As(err, &none) || none.What == "" {
		t.Errorf("simplex in dimension 1: %v", err)
	}
}

// TestPairFraction counts pairs block by block.
func TestPairFraction(t *testing.T) {
	for d := 1; d <= 7; d++ {
		for m := 1; m <= 23; m++ {
			pairs := 0
			for left := m; left > 0; left -= d {
				b := min(left, d)
				pairs += b * (b - 1)
			}
			if got, want := PairFraction(m, d), float64(pairs)/float64(m*m); math.Abs(got-want) > 1e-15 {
				t.Errorf("pf(%d, %d) = %v, want %v", m, d, got, want)
			}
		}
	}
}

// pairKinds are the pair laws: those that have a name.
func pairKinds() (all []coupling.PairKind) {
	for k := coupling.PairKind(0); k.String() != fmt.Sprintf("PairKind(%d)", int(k)); k++ {
		all = append(all, k)
	}
	return all
}
