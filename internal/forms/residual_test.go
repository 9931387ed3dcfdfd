package forms

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// residualByQuadrature integrates g(ω,x)² g(ω,y)² over the plane of x and y.
func residualByQuadrature(xx, yy, xy float64) float64 {
	const n, reach = 160, 14
	x1 := math.Sqrt(xx)
	y1 := xy / x1
	y2 := math.Sqrt(math.Max(0, yy-y1*y1))
	at, w := make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(at, w, -reach, reach)
	g := func(a, sq float64) float64 { return math.Exp(a-sq/2) - 1 - a }
	second := 0.0
	for i := range at {
		for j := range at {
			p := g(at[i]*x1, xx) * g(at[i]*y1+at[j]*y2, yy)
			second += w[i] * w[j] * p * p * math.Exp(-(at[i]*at[i]+at[j]*at[j])/2) / (2 * math.Pi)
		}
	}
	mean := math.Exp(xy) - 1 - xy
	return math.Log(second-mean*mean) - 2*xy
}

func TestResidual(t *testing.T) {
	for _, c := range [][3]float64{
		{1, 1, 0.5}, {1, 1, -0.9}, {0.5, 2, 0}, {0.3, 0.7, 0.4}, {2, 2, 2}, {0.05, 1.5, -0.2},
	} {
		got, err := LogRVResidual(c[0], c[1], c[2])
		if err != nil {
			t.Fatal(err)
		}
		if want := residualByQuadrature(c[0], c[1], c[2]); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %.15g, quadrature %.15g", c, got, want)
		}
	}
}

// TestResidualSmall: the leading term, from E H2(a)² H2(b)²/16 − xy⁴/4 with Hermite
// polynomials H2: (5/4) xy⁴ + 2 xx yy xy² + xx² yy²/4.
func TestResidualSmall(t *testing.T) {
	for _, s := range []float64{1e-8, 1e-40, 1e-150, 1e-300} {
		for _, cos := range []float64{-1, 0, 0.3, 1} {
			xx, yy := s, 2*s
			xy := cos * math.Sqrt2 * s
			got, err := LogRVResidual(xx, yy, xy)
			if err != nil {
				t.Fatal(err)
			}
			// In units of s⁴, with xx = 1, yy = 2, xy² = 2 cos².
			c2 := 2 * cos * cos
			want := math.Log(1.25*c2*c2+4*c2+1) + 4*math.Log(s)
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("s=%g cos=%g: %v, want %v", s, cos, got, want)
			}
		}
	}
}

// TestResidualLarge: e^{xx+yy+4xy} dominates for aligned large inputs, relative to
// e^{2xy}; values stay finite over the whole domain.
func TestResidualLarge(t *testing.T) {
	got, err := LogRVResidual(400, 400, 400)
	if err != nil || math.Abs(got-(800+800)) > 1e-9 {
		t.Errorf("aligned: %v, %v", got, err)
	}
	for _, xx := range []float64{1e-300, 1e-9, 1, 1e3, 1e8} {
		for _, yy := range []float64{1e-200, 1, 1e8} {
			for _, cos := range []float64{-1, -0.5, 0, 0.5, 1} {
				v, err := LogRVResidual(xx, yy, cos*math.Sqrt(xx)*math.Sqrt(yy))
				if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("xx=%g yy=%g cos=%g: %v, %v", xx, yy, cos, v, err)
				}
			}
		}
	}
	if v, err := LogRVResidual(0, 3, 0); err != nil || !math.IsInf(v, -1) {
		t.Errorf("x = 0: %v, %v", v, err)
	}
	for _, c := range [][3]float64{{-1, 1, 0}, {1, math.NaN(), 0}, {1, 1, 1.1}, {1e9, 1, 0}} {
		if _, err := LogRVResidual(c[0], c[1], c[2]); !errors.Is(err, ErrDomain) {
			t.Errorf("%v: %v", c, err)
		}
	}
}
