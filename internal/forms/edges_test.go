package forms

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/coupling"
)

func TestErrorsNameTheirSubject(t *testing.T) {
	_, _, err := Kappa(Trigonometric, coupling.PairOrthogonal, 1, 1)
	if !errors.Is(err, ErrNoClosedForm) || !strings.Contains(err.Error(), "orthogonal pairs in dimension 1") {
		t.Errorf("%v", err)
	}
	_, err = DarkSigmaEigs([]float64{0.1, -0.2})
	if !errors.Is(err, ErrDomain) || !strings.Contains(err.Error(), "l = -0.2") {
		t.Errorf("%v", err)
	}
	_, err = DarkSigma(mat.NewSymDense(2, []float64{0.6, 0, 0, 0.1}))
	if !errors.Is(err, ErrNoClosedForm) {
		t.Errorf("%v", err)
	}
	_, err = DarkLogWeight(mat.NewSymDense(2, []float64{1, 2, 2, 1}), []float64{1, 1})
	if !errors.Is(err, ErrDomain) || !strings.Contains(err.Error(), "sigma") {
		t.Errorf("%v", err)
	}
	if _, err := LogRelMSE(Shape(7), coupling.PairIndependent, 2, 2, 0, 1); err == nil ||
		!strings.Contains(err.Error(), "Shape(7)") {
		t.Errorf("%v", err)
	}
	if _, err := LogRelMSE(Hyperbolic, coupling.PairKind(7), 2, 2, 0, 1); err == nil ||
		!strings.Contains(err.Error(), "law = PairKind(7)") {
		t.Errorf("%v", err)
	}
}

// TestSingularDarkSigma: a covariance of rank 1 has eigenvalue 0 up to rounding.
func TestSingularDarkSigma(t *testing.T) {
	s, err := DarkSigma(mat.NewSymDense(2, []float64{0.1, 0.1, 0.1, 0.1}))
	if err != nil {
		t.Fatal(err)
	}
	// l = 0.2 along (1,1)/√2 and 0 across: (7/3 ± 1)/2.
	if got := s.At(0, 0); math.Abs(got-5.0/3) > 1e-14 {
		t.Errorf("diagonal %v, want 5/3", got)
	}
	if got := s.At(0, 1); math.Abs(got-2.0/3) > 1e-14 {
		t.Errorf("off-diagonal %v, want 2/3", got)
	}
}

func TestShapePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"adaptive": func() { LogRVAdaptive([]float64{1}, nil) },
		"dark":     func() { LogSecondDarkGaussian([]float64{0.1}, nil) },
		"weight":   func() { _, _ = DarkLogWeight(mat.NewSymDense(2, nil), []float64{1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic on mismatched lengths", name)
				}
			}()
			f()
		}()
	}
}

func TestInvalidArguments(t *testing.T) {
	nan := math.NaN()
	for name, v := range map[string]float64{
		"LogBoundOrthogonalGain": LogBoundOrthogonalGain(0, 1, 1), "LogHoeffdingOPRF": LogHoeffdingOPRF(3, -1, 1, 0, 1),
		"LogUpperTailOPRF": LogUpperTailOPRF(3, 0, 1, 1, 1), "LogConformityOrthogonal": LogConformityOrthogonal(0, 1),
		"LogConformityCoshSimplex": LogConformityCoshSimplex(1, 1),
		"ConformityRFFOrthogonal":  ConformityRFFOrthogonal(0, 1),
		"ConformityRFFSimplex":     ConformityRFFSimplex(1, 1), "LogGapPRFOrthogonal": LogGapPRFOrthogonal(2, -1),
		"LogGapPRFSimplex": LogGapPRFSimplex(1, 1), "AStar": AStar(0, 1), "LogVarORFPrime": LogVarORFPrime(2, 0, 1),
		"ORFFirstZero": ORFFirstZero(0), "LogPairNormIID": LogPairNormIID(2, 0),
		"LogPairNormAngle": LogPairNormAngle(2, 1, 1),
		"SimplexSmallV":    SimplexSmallV(1, 1), "PaddedKernel": PaddedKernel(8, 5, 1),
		"LogRVAdaptive":         LogRVAdaptive([]float64{0}, []float64{1}),
		"LogRVGeometric":        LogRVGeometric(0.5, []float64{-1}, 0),
		"LogSecondDarkGaussian": LogSecondDarkGaussian([]float64{0.1}, []float64{0}),
		"LogRVTrig":             LogRVTrig(nan), "LogRVHyperbolic": LogRVHyperbolic(-1),
		"LogRVOPRF": LogRVOPRF(4, nan, 1),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s: %v, want NaN", name, v)
		}
	}
	if PairFraction(0, 3) != 0 || PairFraction(3, 0) != 0 {
		t.Error("PairFraction of nothing")
	}
	if LogHoeffdingOPRF(3, -1, 1, 5, 0) != math.Ln2 || LogUpperTailOPRF(3, -1, 1, 5, 0) != 0 {
		t.Error("bounds at eta = 0 are vacuous")
	}
}
