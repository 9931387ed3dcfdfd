package family

import (
	"encoding/json"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// DARK is the data-aware family of DARKFormer (DARK §4.1, eq 3): the features of Base at Mx. With the positive base
//
//	φ_i(x) = m^{-1/2} exp( ω_i·Mx - |Mx|²/2 ),   ω_i ~ N(0, I_r)
//
// F = m, positive; other bases give DARK × OPRF, DARK × adaptive and so on. Its expectation is exp(xᵀΣy), Σ = MᵀM,
// which is not the softmax kernel unless Σ = I: see Target.
type DARK struct {
	M    dense.Matrix[float64] // r×d
	Base Family                // nil: Positive
	// Temperature t of the whitening fit, Σ = t·Cov^{-1}; 0 means 1/8. From 1/6 on the expected variance of
	// independent positive features is infinite, so full whitening (t = 1) has no finite error (DARK Thm 3.2, E30).
	Temperature float64
}

// Name is "dark".
func (DARK) Name() string { return "dark" }

func (f DARK) base() Family {
	if f.Base == nil {
		return Positive{}
	}
	return f.Base
}

func (f DARK) validate(dim int) error {
	if f.M.IsEmpty() {
		return paramError(f, "no matrix M (set it or fit it)")
	}
	if f.M.Cols != dim {
		return paramError(f, "M is %d×%d, the inputs have %d columns", f.M.Rows, f.M.Cols, dim)
	}
	if err := f.M.Check(); err != nil {
		return paramError(f, "M: %v", err)
	}
	if err := f.M.CheckFinite(); err != nil {
		return paramError(f, "M: %v", err)
	}
	return nil
}

// Target is the kernel that the map estimates when the spec asks for k: k after x ↦ Mx. It is not defined for a
// kernel with a matrix of its own that M does not fit.
func (f DARK) Target(k kernel.Kernel) kernel.Kernel {
	m := f.M
	if !k.M.IsEmpty() {
		m = plan.Mul(f.M, k.M)
	}
	return kernel.Kernel{Kind: k.Kind, Scale: k.Scale, M: m}
}

// Draws asks for what the base needs in dimension r.
func (f DARK) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(dim); err != nil {
		return nil, err
	}
	return f.base().Draws(kind, f.M.Rows, m)
}

// Lower implements Family.
func (f DARK) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(dim); err != nil {
		return plan.Pair{}, err
	}
	p, err := f.base().Lower(kind, f.M.Rows, omega)
	if err != nil {
		return plan.Pair{}, err
	}
	return p.Compose(plan.Linear{Dense: f.M}, dim), nil
}

// Form is that of the base at (Mx, My), with the bias towards the kernel of the spec.
func (f DARK) Form(kind kernel.Kind, x, y []float64) (theory.Form, error) {
	if err := f.validate(len(x)); err != nil {
		return theory.Form{}, err
	}
	mx, my := make([]float64, f.M.Rows), make([]float64, f.M.Rows)
	l := plan.Linear{Dense: f.M}
	l.Apply(mx, x)
	l.Apply(my, y)
	form, err := f.base().Form(kind, mx, my)
	k := kernel.Kernel{Kind: kind}
	form.LogRatio += k.Log(mx, my) - k.Log(x, y)
	return form, err
}

// Fit sets M = √t Λ^{-1/2}, Λ the pooled covariance of queries and keys, then fits the base to Mx, My if it can.
func (f DARK) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	t := f.Temperature
	if t == 0 {
		t = 0.125
	}
	if !(t > 0) || math.IsInf(t, 0) {
		return nil, paramError(f, "temperature = %v, want a positive number", f.Temperature)
	}
	f.M = spectral(ridged(pooled(s), fitRidge), func(v float64) float64 { return math.Sqrt(t / v) })
	if base, ok := f.base().(Fitter); ok {
		b, err := base.Fit(s.through(f.M))
		if err != nil {
			return nil, err
		}
		f.Base = b
	}
	return f, nil
}

// pooled is the covariance of queries and keys together, each about its own mean.
func pooled(s *Stats) dense.Matrix[float64] {
	c := s.Query.cov.Clone()
	n := float64(s.Query.n + s.Key.n)
	for i, v := range s.Key.cov.Data {
		c.Data[i] = (c.Data[i] + v) / n
	}
	return c
}

// through is the statistics of Mx, My, as far as means and covariances determine them.
func (s *Stats) through(m dense.Matrix[float64]) *Stats {
	side := func(o *Moments) *Moments {
		out := newMoments(m.Rows, Options{})
		out.n = o.n
		plan.Linear{Dense: m}.Apply(out.mean, o.mean)
		out.cov = plan.Mul(m, plan.Mul(o.cov, plan.Transpose(m)))
		for l := range out.diag {
			out.diag[l] = out.cov.At(l, l)
		}
		return out
	}
	return &Stats{Query: side(s.Query), Key: side(s.Key)}
}

type darkWire struct {
	M           dense.Matrix[float64] `json:"m,omitzero"`
	Base        json.RawMessage       `json:"base,omitempty"`
	Temperature float64               `json:"temperature,omitempty"`
}

// MarshalJSON writes the base as a family object.
func (f DARK) MarshalJSON() ([]byte, error) {
	w := darkWire{M: f.M, Temperature: f.Temperature}
	if f.Base != nil {
		b, err := Encode(f.Base)
		if err != nil {
			return nil, err
		}
		w.Base = b
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *DARK) UnmarshalJSON(b []byte) error {
	var w darkWire
	if err := strict(b, &w); err != nil {
		return err
	}
	*f = DARK{M: w.M, Temperature: w.Temperature}
	if w.Base != nil {
		base, err := Decode(w.Base)
		if err != nil {
			return err
		}
		f.Base = base
	}
	return nil
}
