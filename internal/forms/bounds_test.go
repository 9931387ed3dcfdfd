package forms

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/internal/special"
)

// TestOrthogonalGainBound: CRT Thm 4.1 (corrected) on a grid; the gap is above the
// bound and tends to it as v → 0.
func TestOrthogonalGainBound(t *testing.T) {
	for _, d := range []int{2, 3, 8, 64, 512, 4096} {
		for _, m := range []int{2, d, 3*d + 1} {
			for _, v2 := range []float64{1e-6, 1e-3, 0.1, 1, 10, 100, 1000} {
				exact := math.Log(PairFraction(m, d)) + LogGapPRFOrthogonal(d, v2)
				bound := LogBoundOrthogonalGain(d, m, v2)
				if !(exact >= bound-1e-14*math.Abs(bound)) {
					t.Errorf("d=%d m=%d v²=%g: gain e^%v below its bound e^%v", d, m, v2, exact, bound)
				}
				if v2 < 1e-5 && exact-bound > 1e-4 {
					t.Errorf("d=%d m=%d v²=%g: the bound is not tight: %v", d, m, v2, exact-bound)
				}
			}
		}
	}
}

// TestAngularBound: HRF Thm 3.5 (corrected) over theta; the printed bound fails.
func TestAngularBound(t *testing.T) {
	printedFails := false
	for _, r := range []float64{1, 1.5, 2, 4.2, 8, 20, 100} {
		for _, n := range []int{1, 2, 8, 64} {
			bound := LogEpsAngularBound(r, 4, n)
			top := math.Inf(-1)
			for i := 0; i <= 4000; i++ {
				// The maximum moves to within 1/r of either end.
				theta := math.Pi * float64(i) / 4000
				top = math.Max(top, LogEpsAngular(theta, r, 4, n))
				top = math.Max(top, LogEpsAngular(theta/r, r, 4, n))
			}
			if !(top <= bound) {
				t.Errorf("r=%g n=%d: max eps e^%v above its bound e^%v", r, n, top, bound)
			}
			inv := 1 / float64(n)
			printed := LogW(r) - math.Log(r) + math.Log(((1-inv)/math.Pi+inv/math.Sqrt(math.Pi))/8)/2
			printedFails = printedFails || top > printed
		}
	}
	if !printedFails {
		t.Error("the printed bound should fail at n = 1, r ≥ 4.2: the grid has lost its power")
	}
}

// TestAngularLimits: the limits of HRF Thm 3.5 and the symmetry of Lemma 3.4.
func TestAngularLimits(t *testing.T) {
	for _, r := range []float64{0.5, 1, 3} {
		limit := LogEpsAngularLimit(r, 8, 3)
		for _, got := range []float64{
			LogEpsAngular(1e-10, r, 8, 3) - math.Log(1e-10)/2,
			LogEpsAngular(math.Pi-1e-8, r, 8, 3) - math.Log(math.Pi-(math.Pi-1e-8))/2,
		} {
			if math.Abs(got-limit) > 1e-6 {
				t.Errorf("r=%g: %v, want the limit %v", r, got, limit)
			}
		}
		for theta := 0.1; theta < math.Pi; theta += 0.3 {
			if a, b := LogEpsTrig(theta, r, 5), LogEpsHyperbolic(math.Pi-theta, r, 5); math.Abs(a-b) > 1e-12 {
				t.Errorf("r=%g theta=%g: %v, %v", r, theta, a, b)
			}
			if top := LogW(r) - math.Log(10)/2; LogEpsTrig(theta, r, 5) > top {
				t.Errorf("r=%g theta=%g: above W", r, theta)
			}
		}
	}
}

// TestAngularSphere: on a sphere LogMSEBipolar is SM²·eps² (HRF eq 47, corrected).
func TestAngularSphere(t *testing.T) {
	for _, theta := range []float64{0.01, 1, 2, 3.1} {
		r, m, n := 1.7, 6, 3
		xy := r * r * math.Cos(theta)
		for _, shared := range []bool{false, true} { // |x| = |y|: sharing changes nothing
			got := LogMSEBipolar(AngularMoments(theta, n), m, r*r, r*r, xy, shared)
			want := 2*LogEpsAngular(theta, r, m, n) + 2*xy
			if math.Abs(got-want) > 1e-11*math.Max(1, math.Abs(want)) {
				t.Errorf("theta=%g shared=%v: %v, want %v", theta, shared, got, want)
			}
		}
	}
}

// TestORFBounds: ORF Prop 3, eq 12 in its corrected range, and Prop 6.
func TestORFBounds(t *testing.T) {
	const slack = 1e-13
	printedFails := false
	for _, d := range []int{2, 3, 4, 5, 8, 33, 34, 64, 300, 1024} {
		k := ORFConstantsOf(d)
		for i := 0; i <= 300; i++ {
			z := k.KernelRange() * float64(i) / 300
			lo, hi := ORFKernelBounds(d, z)
			if j := ORFMean(d, z); !(lo <= j+slack && j <= hi+slack) {
				t.Errorf("d=%d z=%g: j = %v outside [%v, %v]", d, z, j, lo, hi)
			}
			for _, p := range []int{2, (d + 2) / 2, d} {
				v := math.Exp(LogVarORFPrime(d, p, z))
				lo, hi := ORFVarianceBounds(d, p, z)
				inside := lo <= v+slack && v <= hi+slack
				if z <= k.VarianceRange() && !inside {
					t.Errorf("d=%d p=%d z=%g: variance %v outside [%v, %v]", d, p, z, v, lo, hi)
				}
				printedFails = printedFails || !inside
			}
			z = k.ImprovementRange() * float64(i) / 300
			for _, p := range []int{2, d} {
				if a, b := LogVarORFPrime(d, p, z), LogVarRFF(p, z); a > b {
					t.Errorf("d=%d p=%d z=%g: ORF' e^%v above RFF e^%v", d, p, z, a, b)
				}
			}
		}
	}
	if !printedFails {
		t.Error("eq 12 should fail in its printed range: the grid has lost its power")
	}
}

// TestORFFirstZero: lower bounds and known zeros of J_ν.
func TestORFFirstZero(t *testing.T) {
	for d, want := range map[int]float64{1: math.Pi / 2, 2: 2.404825557695773, 3: math.Pi, 4: 3.831705970207512} {
		if got := ORFFirstZero(d); math.Abs(got-want) > 1e-14*want {
			t.Errorf("d=%d: %.17g, want %.17g", d, got, want)
		}
	}
	for d := 2; d <= 4096; d += 1 + d/3 {
		n := float64(d)
		z := ORFFirstZero(d)
		// Chambers: the zero is below √(2(ν+1)(ν+3)).
		nu := n/2 - 1
		if !(z > math.Pow(2, 0.25)*math.Pow(n, 0.75) && z > math.Sqrt(n*n/4-1) && z < math.Sqrt(2*(nu+1)*(nu+3))) {
			t.Errorf("d=%d: first zero %v", d, z)
		}
	}
}

// TestORFVarianceSeries: the series meets eq 11 at z² = 2d and in the interior.
func TestORFVarianceSeries(t *testing.T) {
	for _, d := range []int{2, 3, 8, 64, 512} {
		for _, p := range []int{1, 2, d, d + 1, 2 * d} {
			for _, z := range []float64{0.7, 0.9, 1} {
				z *= math.Sqrt(2 * float64(d))
				j, j2, jr := special.BesselJ(d, z), special.BesselJ(d, 2*z), special.BesselJ(d, math.Sqrt2*z)
				direct := math.Log(((1+j2)/2-j*j)/float64(p) + PairFraction(p, d)*(jr-j*j))
				if got := LogVarORFPrime(d, p, z); math.Abs(got-direct) > 1e-10 {
					t.Errorf("d=%d p=%d z=%g: %v, eq 11 %v", d, p, z, got, direct)
				}
			}
		}
		// p = d: O(z⁸), with leading bracket (d−1)/(d+2) at k = 4.
		n, z := float64(d), 1e-3
		pd := n / 2 * (n/2 + 1) * (n/2 + 2) * (n/2 + 3)
		want := math.Log(math.Pow(z*z/2, 4) / 24 / pd * (n - 1) / (n + 2) / n)
		if got := LogVarORFPrime(d, d, z); math.Abs(got-want) > 1e-5 {
			t.Errorf("d=%d p=d: %v, want %v", d, got, want)
		}
	}
	for _, d := range []int{1, 2, 9, 100} {
		for _, z := range []float64{1e-3, 0.5, 0.99, 1.01, 4} {
			want := ORFMean(d, z) - math.Exp(-z*z/2)
			if got := ORFBias(d, z); math.Abs(got-want) > 1e-15 {
				t.Errorf("d=%d z=%g: bias %v, want %v", d, z, got, want)
			}
		}
	}
}

// TestDarkOrder: V* < V_iso, and infinite values where docs/theory.md §5.6 has them.
func TestDarkOrder(t *testing.T) {
	for _, l := range [][]float64{{1e-9}, {0.01, 0.02}, {0.16, 0.001, 0.1}} {
		if a, b := LogVarDarkOptimal(l), LogVarDarkIsotropic(l); !(a < b) {
			t.Errorf("%v: V* e^%v, V_iso e^%v", l, a, b)
		}
		s, err := DarkSigmaEigs(l)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := LogSecondDarkGaussian(l, s), LogSecondDarkOptimal(l); math.Abs(a-b) > 1e-14 {
			t.Errorf("%v: proposal Sigma* gives %v, want %v", l, a, b)
		}
		ones := make([]float64, len(l))
		for i := range ones {
			ones[i] = 1
		}
		if a, b := LogSecondDarkGaussian(l, ones), LogSecondDarkIsotropic(l); math.Abs(a-b) > 1e-14 {
			t.Errorf("%v: proposal I gives %v, want %v", l, a, b)
		}
	}
	if v := LogVarDarkIsotropic([]float64{0.01, 1.0 / 6}); !math.IsInf(v, 1) {
		t.Errorf("l = 1/6: %v", v)
	}
	if v := LogVarDarkOptimal([]float64{0.5}); !math.IsInf(v, 1) {
		t.Errorf("l = 1/2: %v", v)
	}
	if _, err := DarkSigmaEigs([]float64{0.5}); err == nil {
		t.Error("l = 1/2 has no Sigma*")
	}
}

// TestOPRFTails: every bound is above the tail found by simulation of Y = Z/K, and
// the example of CRT erratum E5 (true probability 0.053) is covered.
func TestOPRFTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		d, m       int
		a, v2, eta float64
	}{
		{64, 1, -0.1, 0, 3},
		{4, 8, -0.1, 0.5, 0.5},
		{3, 20, -0.3, 0.2, 0.3},
	} {
		const runs = 20000
		hits := 0
		for range runs {
			sum := 0.0
			for range c.m {
				sum += drawOPRF(rng, c.d, c.a, c.v2)
			}
			if sum/float64(c.m) >= 1+c.eta {
				hits++
			}
		}
		tail := float64(hits) / runs
		legendre := LogUpperTailOPRF(c.d, c.a, c.v2, c.m, c.eta)
		hoeffding := LogHoeffdingOPRF(c.d, c.a, c.v2, c.m, c.eta)
		noise := 5 * math.Sqrt(tail*(1-tail)/runs)
		if !(tail-noise <= math.Exp(legendre)) || !(legendre <= hoeffding) || !(legendre < 0) {
			t.Errorf("%+v: tail %v, Legendre %v, Hoeffding %v", c, tail, math.Exp(legendre), math.Exp(hoeffding))
		}
	}
}

// drawOPRF draws Y = Z/K of one OPRF projection.
func drawOPRF(rng *rand.Rand, d int, a, v2 float64) float64 {
	norm2, first := 0.0, 0.0
	for i := range d {
		g := rng.NormFloat64()
		norm2 += g * g
		if i == 0 {
			first = g
		}
	}
	b := math.Sqrt(1 - 4*a)
	return math.Exp(float64(d)/2*math.Log1p(-4*a) + 2*a*norm2 + b*first*math.Sqrt(v2) - v2/2)
}

// TestUpperTail: limits of the Legendre bound.
func TestUpperTail(t *testing.T) {
	// Small deviations: exp(−m eta²/(2 rv)), the Gaussian exponent.
	d, v2, eta := 8, 0.5, 1e-3
	a := AStar(d, v2)
	got := LogUpperTailOPRF(d, a, v2, 1000, eta)
	want := -1000 * eta * eta / 2 * math.Exp(-logRVBestOPRF(d, v2))
	if math.Abs(got/want-1) > 0.01 {
		t.Errorf("small deviation: %v, want about %v", got, want)
	}
	if v := LogUpperTailOPRF(2, -1, 0.1, 3, 1e6); !math.IsInf(v, -1) {
		t.Errorf("beyond the supremum: %v", v)
	}
	for _, v2 := range []float64{0, 1, 100, 1e4} {
		for _, d := range []int{1, 64, 4096} {
			for _, eta := range []float64{1e-6, 0.1, 10} {
				a := math.Min(-1e-3, AStar(d, v2))
				if v := LogUpperTailOPRF(d, a, v2, 16, eta); math.IsNaN(v) || v > 0 {
					t.Errorf("d=%d v²=%g eta=%g: %v", d, v2, eta, v)
				}
			}
		}
	}
}

// TestFeatureCounts: m from the inequality makes the bound equal to fail.
func TestFeatureCounts(t *testing.T) {
	d, a, v2, eta, fail := 4, -0.1, 0.2, 0.1, 0.01
	logM, err := LogFeaturesHoeffding(LogSupOPRF(d, a, v2), eta, fail, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := int(math.Ceil(math.Exp(logM)))
	if p := LogHoeffdingOPRF(d, a, v2, m, eta); p > math.Log(fail) || p < math.Log(fail)-0.01 {
		t.Errorf("m = %d gives probability e^%v, want %v", m, p, fail)
	}
	many, _ := LogFeaturesHoeffding(LogSupOPRF(d, a, v2), eta, fail, 100*100)
	if want := math.Log(math.Log(2e4/fail) / math.Log(2/fail)); math.Abs(many-logM-want) > 1e-12 {
		t.Errorf("uniform over 10⁴ pairs: log m grows by %v, want %v", many-logM, want)
	}
	cheb, _ := LogFeaturesChebyshev(0, eta, fail, 1)
	if math.Abs(cheb-math.Log(1e4)) > 1e-12 {
		t.Errorf("Chebyshev: %v", cheb)
	}
	for _, c := range []struct {
		eta, fail float64
		pairs     int
	}{{0, 0.1, 1}, {0.1, 0, 1}, {0.1, 1, 1}, {0.1, 0.1, 0}} {
		if _, err := LogFeaturesHoeffding(0, c.eta, c.fail, c.pairs); err == nil {
			t.Errorf("%+v accepted", c)
		}
		if _, err := LogFeaturesChebyshev(0, c.eta, c.fail, c.pairs); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
}
