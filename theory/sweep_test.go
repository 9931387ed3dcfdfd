package theory_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// Over dimensions, numbers of projections and distances, every coupling of the registry has finite moments or none, and
// a warning exactly where they show 2 % more variance than the better of orthogonal and independent rows.
func TestEveryCouplingOverSizes(t *testing.T) {
	checked, hurt := 0, 0
	for _, info := range coupling.List() {
		for _, c := range info.Examples() {
			for _, f := range []family.Family{family.Trig{}, family.Positive{}, family.Hyperbolic{}} {
				for _, d := range []int{1, 2, 3, 8, 33, 128} {
					for _, m := range []int{1, 2, d, 2*d + 1} {
						for _, r := range []float64{1e-8, 1e-3, 0.1, 0.5, 1, 2, 4} {
							x, y := make([]float64, d), make([]float64, d)
							for i := range d {
								x[i], y[i] = r/math.Sqrt(float64(d)), 0.2*r*math.Cos(float64(i))/math.Sqrt(float64(d))
							}
							k := kernel.Kernel{}
							own, err := theory.Of(k, f, c, m, x, y)
							says := theory.Warning(k, f, c, m, x, y)
							if strings.Contains(says, "NaN") || strings.Contains(says, "Inf") {
								t.Errorf("%s × %+v, d = %d, m = %d, |x| = %g: %q", f.Name(), c, d, m, r, says)
							}
							if errors.Is(err, theory.ErrNoClosedForm) {
								continue
							}
							if err != nil || math.IsNaN(own.LogMean+own.LogVar+own.LogMSE) ||
								math.IsInf(own.LogMSE, 1) {
								t.Errorf("%s × %+v, d = %d, m = %d, |x| = %g: %+v, %v", f.Name(), c, d, m, r, own, err)
								continue
							}
							checked++
							if !info.Exact || info.Replaces || info.Name == "iid" {
								continue // a bias is judged by TestWarningsAreTrue
							}
							best := math.Inf(1)
							for _, o := range []coupling.Coupling{coupling.IID{}, coupling.Orthogonal{}} {
								if v, err := theory.Of(k, f, o, m, x, y); err == nil {
									best = min(best, v.LogVar)
								}
							}
							worse := own.LogVar - best
							if worse > math.Log(1.02) {
								hurt++
							}
							if (worse > math.Log(1.021)) && says == "" || worse < math.Log(1.019) && says != "" {
								t.Errorf("%s × %+v, d = %d, m = %d, |x| = %g: %.3f of the variance, warning %q", f.Name(), c, d, m, r,
									math.Exp(worse), says)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d moments, %d combinations that hurt", checked, hurt)
	if checked < 5000 || hurt < 50 {
		t.Errorf("only %d moments and %d combinations that hurt", checked, hurt)
	}
}
