package forms

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/special"
)

// gridDims spans small, odd, even and large dimensions.
var gridDims = []int{1, 2, 3, 5, 16, 63, 64, 501, 1024, 4095, 4096}

// TestFiniteMonotone: log closed forms are finite and nondecreasing in their
// argument from e^{−700} to e^{700}.
func TestFiniteMonotone(t *testing.T) {
	forms := map[string]func(d int, x float64) float64{
		"LogRVTrig":       func(_ int, x float64) float64 { return LogRVTrig(x) },
		"LogRVPositive":   func(_ int, x float64) float64 { return LogRVPositive(x) },
		"LogRVHyperbolic": func(_ int, x float64) float64 { return LogRVHyperbolic(x) },
		"LogRVOPRF best":  logRVBestOPRF,
		"LogRVOPRF 1/2":   func(d int, x float64) float64 { return LogRVOPRF(d, 0.5, x) },
		"LogRVGERF real":  func(d int, x float64) float64 { return LogRVGERF(d, -0.3, 1, x) },
		"LogRVGERF trig":  func(d int, x float64) float64 { return LogRVGERF(d, -0.05, -1, x) },
		"LogSecondGERF":   func(d int, x float64) float64 { return LogSecondGERF(d, -0.3, 1, x) },
		"LogRVComplexExp": func(_ int, x float64) float64 {
			return LogRVComplexExp([]complex128{complex(0, math.Sqrt(x))})
		},
		"LogRVAdaptive": func(_ int, x float64) float64 {
			return LogRVAdaptive([]float64{0.5, 1}, []float64{0, math.Sqrt(x)})
		},
		"LogConformityOrthogonal": LogConformityOrthogonal,
		"LogGapPRFOrthogonal":     LogGapPRFOrthogonal,
		"LogBoundOrthogonalGain":  func(d int, x float64) float64 { return LogBoundOrthogonalGain(d+1, 3*d+2, x) },
		"LogSupOPRF":              func(d int, x float64) float64 { return LogSupOPRF(d, -0.2, x) },
		"LogW":                    func(_ int, x float64) float64 { return LogW(math.Sqrt(x)) },
		"-RhoStar":                func(d int, x float64) float64 { return -RhoStar(d, x) },
		"-AStar":                  func(d int, x float64) float64 { return -AStar(d, x) },
	}
	simplex := map[string]func(d int, x float64) float64{
		"LogConformitySimplex":     LogConformitySimplex,
		"LogConformityCoshSimplex": LogConformityCoshSimplex,
		"LogGapPRFSimplex":         LogGapPRFSimplex,
	}
	for name, f := range forms {
		t.Run(name, func(t *testing.T) { checkMonotone(t, f, 1, 7) })
	}
	for name, f := range simplex {
		t.Run(name, func(t *testing.T) { checkMonotone(t, f, 2, 50) })
	}
}

func checkMonotone(t *testing.T, f func(int, float64) float64, minDim int, step float64) {
	for _, d := range gridDims {
		if d < minDim {
			continue
		}
		last := math.Inf(-1)
		for e := -700.0; e <= 700; e += step {
			v := f(d, math.Exp(e))
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("d=%d, argument e^%g: %v", d, e, v)
			}
			if v < last-1e-12*math.Abs(last) {
				t.Fatalf("d=%d, argument e^%g: %v after %v", d, e, v, last)
			}
			last = v
		}
	}
}

// TestRelMSEFinite: every shape and law, over dimensions, sizes and arguments.
func TestRelMSEFinite(t *testing.T) {
	for _, shape := range shapes {
		for _, law := range laws {
			for _, d := range gridDims {
				for _, m := range []int{1, 2, d, 2*d + 3} {
					last := math.Inf(-1)
					for e := -700.0; e <= 700; e += 100 {
						x := math.Exp(e)
						v := relMSE(t, shape, law, d, m, plainRV(shape, x), x)
						if math.IsNaN(v) || math.IsInf(v, 0) || v < last {
							t.Fatalf("%v %v d=%d m=%d t=e^%g: %v after %v", shape, law, d, m, e, v, last)
						}
						last = v
					}
				}
			}
		}
	}
}

// TestZeroVariance: exact zeros are −Inf, infinite variances +Inf, bad input NaN.
func TestZeroVariance(t *testing.T) {
	minusInf := map[string]float64{
		"trig": LogRVTrig(0), "positive": LogRVPositive(0), "hyperbolic": LogRVHyperbolic(0),
		"oprf": LogRVOPRF(5, 1, 0), "gerf+": LogRVGERF(5, 0, 1, 0), "gerf-": LogRVGERF(5, 0, -1, 0),
		"poisson": LogRVPoisson(3, 0, 0, 0), "complex": LogRVComplexExp([]complex128{0, 0}),
		"adaptive": LogRVAdaptive([]float64{1}, []float64{0}), "gap": LogGapPRFOrthogonal(4, 0),
		"simplex gap": LogGapPRFSimplex(4, 0), "orf": LogVarORFPrime(4, 4, 0), "orf d=1": LogVarORFPrime(1, 3, 1),
		"kernel = estimate": LogRVPoisson(4, 0.5, 1, 2), // x = y = (1,1,1,1)/√2: 2√(dS) = 2xy
	}
	for name, v := range minusInf {
		if !math.IsInf(v, -1) {
			t.Errorf("%s: %v, want −Inf", name, v)
		}
	}
	plusInf := map[string]float64{
		"gerf 1/8": LogRVGERF(5, 0.125, 1, 1), "gerf past": LogSecondGERF(5, 0.3+1i, -1, 1),
		"poisson": LogRVPoisson(3, 0, 1, 0), "sup": LogSupOPRF(3, 0, 1),
	}
	for name, v := range plusInf {
		if !math.IsInf(v, 1) {
			t.Errorf("%s: %v, want +Inf", name, v)
		}
	}
	nan := math.NaN()
	bad := map[string]float64{
		"trig": LogRVTrig(-1), "positive": LogRVPositive(nan), "oprf rho": LogRVOPRF(5, 0, 1),
		"oprf d": LogRVOPRF(0, 1, 1),
		"gerf s": LogRVGERF(5, 0, 2, 1), "gerf V": LogRVGERF(5, 0, 1, -1), "poisson": LogRVPoisson(3, -1, 1, 0),
		"poisson pair": LogRVPoisson(3, 1, 1, 100), "geometric": LogRVGeometric(1, nil, 0),
		"simplex": LogConformitySimplex(1, 1),
		"rho":     RhoStar(4, -1), "angle": LogConformityAngle(4, 1, 2), "sup": LogSupOPRF(4, 0.1, 1),
		"bound": LogEpsAngularBound(0.5, 1, 1), "dark": LogSecondDarkOptimal([]float64{-1}),
	}
	for name, v := range bad {
		if !math.IsNaN(v) {
			t.Errorf("%s: %v, want NaN", name, v)
		}
	}
}

// TestGERFSpecialCases ties GERF to trig, positive, OPRF and to the real s = −1 form
// cosh(½ log w)^d (e^V + e^{−V/w})/2 of docs/theory.md §3.5.
func TestGERFSpecialCases(t *testing.T) {
	close := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-11*math.Max(1, math.Abs(want)) {
			t.Errorf("%s: %.17g, want %.17g", what, got, want)
		}
	}
	for _, d := range []int{1, 8, 512} {
		for _, v := range []float64{1e-12, 1e-3, 0.7, 30, 2000} {
			close("A=0 s=+1", LogRVGERF(d, 0, 1, v), LogRVPositive(v))
			close("A=0 s=−1", LogRVGERF(d, 0, -1, v), LogRVTrig(v))
			for _, a := range []float64{-3, -0.2, -1e-5, 1e-7, 0.05, 0.12} {
				w := 1 - 8*a
				close("real s=+1", LogRVGERF(d, complex(a, 0), 1, v), LogRVOPRF(d, 1/w, v))
				second := float64(d)*special.LogCosh(math.Log(w)/2) - math.Ln2 + special.LogSumExp(v, -v/w)
				close("real s=−1", LogSecondGERF(d, complex(a, 0), -1, v), second)
				close("conjugate", LogRVGERF(d, complex(a, 0.1), -1, v), LogRVGERF(d, complex(a, -0.1), -1, v))
			}
		}
	}
}

// TestOPRFOptimal: RhoStar is the minimiser, and AStar matches it.
func TestOPRFOptimal(t *testing.T) {
	for _, d := range gridDims {
		for _, v2 := range []float64{0.01, 1, 50, 1e4} {
			rho := RhoStar(d, v2)
			best := LogRVOPRF(d, rho, v2)
			for _, f := range []float64{0.9, 0.99, 1.01, 1.1} {
				if v := LogRVOPRF(d, rho*f, v2); v < best {
					t.Errorf("d=%d v²=%g: ρ*·%g is better", d, v2, f)
				}
			}
			if got, want := AStar(d, v2), (1-1/rho)/8; math.Abs(got-want) > 1e-13*(1+math.Abs(want)) {
				t.Errorf("d=%d v²=%g: A = %v, want %v", d, v2, got, want)
			}
		}
	}
}

// TestPairNorm: both densities integrate to 1, and cosine 0 is the chi law of 2d.
func TestPairNorm(t *testing.T) {
	for _, d := range []int{2, 5, 64} {
		for _, c := range []float64{0, -1 / float64(d), 0.5} {
			total := special.LogIntegral(func(w float64) float64 { return LogPairNormAngle(d, w, c) }, 100)
			if math.Abs(total) > 1e-9 {
				t.Errorf("d=%d c=%g: total mass e^%v", d, c, total)
			}
		}
		total := special.LogIntegral(func(w float64) float64 { return LogPairNormIID(d, w) }, 100)
		if math.Abs(total) > 1e-11 {
			t.Errorf("d=%d iid: total mass e^%v", d, total)
		}
		w, n := 3.0, float64(2*d)
		lg, _ := math.Lgamma(n / 2)
		chi := (n-1)*math.Log(w) - w*w/2 - (n/2-1)*math.Ln2 - lg
		if got := LogPairNormAngle(d, w, 0); math.Abs(got-chi) > 1e-11*math.Abs(chi) {
			t.Errorf("d=%d: %v, want chi %v", d, got, chi)
		}
	}
}

// TestRFFAsymptotics: SimRF Cor 4.6 is within O(1/d²) of the exact ratio.
func TestRFFAsymptotics(t *testing.T) {
	for _, d := range []int{64, 1000, 4096} {
		for _, z2 := range []float64{0.5, 2, 6} {
			m := d / 2
			rv := LogRVTrig(z2)
			exact := math.Exp(relMSE(t, Trigonometric, coupling.PairOrthogonal, d, m, rv, z2) - rv +
				math.Log(float64(m)))
			if got := RFFOrthogonalRatio(d, m, z2); math.Abs(got-exact) > 6/float64(d) {
				t.Errorf("d=%d z²=%g: %v, exact %v", d, z2, got, exact)
			}
		}
	}
}
