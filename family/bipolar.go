package family

import (
	"cmp"
	"encoding/json"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// Angular is the angular hybrid (HRF eqs 12, 19), F = 4m(N+1), signed. It mixes the hyperbolic and the trigonometric
// map with λ̂ = ½ - (1/2n) Σ_j sgn(τ_j·x) sgn(τ_j·y), E λ̂ = θ/π. λ̂ weights the hyperbolic map, which is exact at θ =
// π; the trigonometric map is exact at θ = 0. HRF §2.4; the text suggests θ/2π, an erratum (docs/theory.md §7, E8).
type Angular struct {
	N      int  `json:"n,omitempty"`      // projections τ; 0 means 8
	Shared bool `json:"shared,omitempty"` // both bases use the same projections
}

// defaultRho is the default number of coefficient projections of the hybrids.
const defaultRho = 8

// Name is "angular".
func (Angular) Name() string { return "angular" }

// hybrid is the same map as a general Hybrid, which does all the work.
func (f Angular) hybrid() Hybrid {
	return bipolar(f.Shared, Coefficient{Const: 0.5, Sign: -1, Gain: 0.5, Rho: rhoSign, N: cmp.Or(f.N, defaultRho)})
}

// bipolar is the hybrid of the hyperbolic and the trigonometric map with one coefficient.
func bipolar(shared bool, c Coefficient) Hybrid {
	h := Hybrid{Bases: []Family{Hyperbolic{}, Trig{}}, Coefficients: []Coefficient{c}}
	if shared {
		h.Groups = []int{0, 0}
	}
	return h
}

// Draws asks for the projections of both bases (one set if shared), then for τ.
func (f Angular) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	return f.hybrid().Draws(kind, dim, m)
}

// Lower implements Family.
func (f Angular) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	return f.hybrid().Lower(kind, dim, omega)
}

// Form: HRF Thm 3.1 with the moments of Lemma 3.2 (eq 47 corrected).
func (f Angular) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	return f.hybrid().Form(kind, x, y)
}

// BipolarGaussian is the normalised bipolar Gaussian hybrid for inputs of common norm R (HRF App. F, eqs 67-70),
// F = 4m(2N+1), signed:
//
//	λ = (1 - exp(-σ²|x-y|²/2)) / (1 - exp(-2σ²R²))
//
// is 0 at θ = 0 and 1 at θ = π. Fit sets R to the root mean square norm; off the sphere the map stays unbiased.
type BipolarGaussian struct {
	Sigma  float64 `json:"sigma,omitempty"` // 0 means 1
	R      float64 `json:"r,omitempty"`     // 0 means 1
	N      int     `json:"n,omitempty"`     // projections τ; 0 means 8
	Shared bool    `json:"shared,omitempty"`
}

// Name is "bipolar-gaussian".
func (BipolarGaussian) Name() string { return "bipolar-gaussian" }

// hybrid is the same map as a general Hybrid.
func (f BipolarGaussian) hybrid() (Hybrid, error) {
	sig, r := cmp.Or(f.Sigma, 1), cmp.Or(f.R, 1)
	rho := -math.Expm1(-2 * sig * sig * r * r)
	if !(sig > 0 && r > 0 && rho > 0) || !dense.IsFinite(sig*r) {
		return Hybrid{}, paramError(f, "sigma = %v and r = %v must be positive", f.Sigma, f.R)
	}
	c := Coefficient{Const: 1 / rho, Sign: -1, Gain: 1 / rho, Rho: rhoTrig, N: cmp.Or(f.N, defaultRho),
		Bandwidth: 1 / sig}
	return bipolar(f.Shared, c), nil
}

// Draws asks for the projections of both bases (one set if shared), then for τ.
func (f BipolarGaussian) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	h, err := f.hybrid()
	if err != nil {
		return nil, err
	}
	return h.Draws(kind, dim, m)
}

// Lower implements Family.
func (f BipolarGaussian) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	h, err := f.hybrid()
	if err != nil {
		return plan.Pair{}, err
	}
	return h.Lower(kind, dim, omega)
}

// Form: HRF Thm 3.1 with the moments of Thms F.1, F.2.
func (f BipolarGaussian) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	h, err := f.hybrid()
	if err != nil {
		return forms.Form{}, err
	}
	return h.Form(kind, x, y)
}

// Needs asks for nothing costly.
func (BipolarGaussian) Needs() Options { return Options{} }

// Fit sets R to the root mean square norm of queries and keys.
func (f BipolarGaussian) Fit(s *Stats) (Family, error) {
	if err := s.ready(f); err != nil {
		return nil, err
	}
	f.R = math.Sqrt((s.Query.meanNorm2() + s.Key.meanNorm2()) / 2)
	return f, nil
}

// GaussianLambda is the hybrid with Gaussian coefficients λ_k = exp(-|x + M_k y|²/(2c_k²)) (HRF eq 20), signed.
// The last base takes the remaining weight. With N_k the features of base k for m projections and L = N coefficient
// features (2N if TrigRho), F = L ΣN_k + N_{p+1}(1 + pL), the sum over k ≤ p; the default bases give F = 2m(2L+1).
type GaussianLambda struct {
	Bases     []Family                // p+1 of them; nil: hyperbolic, then trig
	M         []dense.Matrix[float64] // p of them; an empty one is the identity; nil: one identity
	C         []float64               // p bandwidths; nil: ones
	N         int                     // projections of each coefficient; 0 means 8
	TrigRho   bool                    // trigonometric coefficient features (2N) instead of positive ones (N)
	BaseGroup []int                   // as Hybrid.Groups
}

// Name is "gaussian-lambda".
func (GaussianLambda) Name() string { return "gaussian-lambda" }

// hybrid is the same map as a general Hybrid, with defaults filled in.
func (f GaussianLambda) hybrid(dim int) (Hybrid, error) {
	if f.Bases == nil {
		f.Bases = []Family{Hyperbolic{}, Trig{}}
	}
	if f.M == nil {
		f.M = make([]dense.Matrix[float64], 1)
	}
	if f.C != nil && len(f.C) != len(f.M) {
		return Hybrid{}, paramError(f, "%d bandwidths c for %d matrices M", len(f.C), len(f.M))
	}
	h := Hybrid{Bases: f.Bases, Groups: f.BaseGroup}
	for k, m := range f.M {
		c := Coefficient{Rho: rhoPositive, N: cmp.Or(f.N, defaultRho)}
		if f.TrigRho {
			c.Rho = rhoTrig
		}
		if f.C != nil {
			c.Bandwidth = f.C[k]
		}
		if m.IsEmpty() {
			m = dense.Identity[float64](dim)
		}
		if m.Rows != dim || m.Cols != dim {
			return Hybrid{}, paramError(f, "M %d is %d×%d, want %d×%d", k, m.Rows, m.Cols, dim, dim)
		}
		c.Key = m.Clone() // the minus sign belongs to the key side
		for i := range c.Key.Data {
			c.Key.Data[i] *= -1
		}
		h.Coefficients = append(h.Coefficients, c)
	}
	return h, nil
}

// Draws asks for the projections of the bases, then for those of the coefficients.
func (f GaussianLambda) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	h, err := f.hybrid(dim)
	if err != nil {
		return nil, err
	}
	return h.Draws(kind, dim, m)
}

// Lower implements Family.
func (f GaussianLambda) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	h, err := f.hybrid(dim)
	if err != nil {
		return plan.Pair{}, err
	}
	return h.Lower(kind, dim, omega)
}

// Form is the form of the general hybrid.
func (f GaussianLambda) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	h, err := f.hybrid(len(x))
	if err != nil {
		return forms.Form{}, err
	}
	return h.Form(kind, x, y)
}

// gaussianLambdaWire is the JSON form.
type gaussianLambdaWire struct {
	Bases     []json.RawMessage       `json:"bases,omitempty"`
	M         []dense.Matrix[float64] `json:"m,omitempty"`
	C         []float64               `json:"c,omitempty"`
	N         int                     `json:"n,omitempty"`
	TrigRho   bool                    `json:"trig_rho,omitempty"`
	BaseGroup []int                   `json:"base_group,omitempty"`
}

// MarshalJSON writes the bases as family objects.
func (f GaussianLambda) MarshalJSON() ([]byte, error) {
	bases, err := encodeAll(f.Bases)
	if err != nil {
		return nil, err
	}
	return json.Marshal(gaussianLambdaWire{bases, f.M, f.C, f.N, f.TrigRho, f.BaseGroup})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (f *GaussianLambda) UnmarshalJSON(b []byte) error {
	var w gaussianLambdaWire
	if err := namedjson.Decode(b, &w); err != nil {
		return err
	}
	bases, err := decodeAll(w.Bases)
	if err != nil {
		return err
	}
	*f = GaussianLambda{bases, w.M, w.C, w.N, w.TrigRho, w.BaseGroup}
	return nil
}
