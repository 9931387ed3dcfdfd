package family

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/namedjson"
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
	// M is r×d: the result of the whitening fit, or any other matrix, such as a metric learned from targets.
	M    dense.Matrix[float64]
	Base Family // nil: Positive
	// Temperature t of the whitening fit, Σ = t·Cov^{-1}; 0 means 1/8. From 1/6 on the expected variance of
	// independent positive features is infinite, so full whitening (t = 1) has no finite error (DARK Thm 3.2, E30).
	Temperature float64
}

// Inner is the family behind the matrix: Base, or Positive if Base is nil.
func (f DARK) Inner() Family {
	if f.Base == nil {
		return Positive{}
	}
	return f.Base
}

// Name is "dark".
func (DARK) Name() string { return "dark" }

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

// Target is the kernel that the map estimates when the spec asks for k: the target of the base after x ↦ Mx. It is
// undefined if k has a matrix of its own that does not fit M.
func (f DARK) Target(k kernel.Kernel) kernel.Kernel {
	m := f.M
	if !k.M.IsEmpty() {
		m = plan.Mul(f.M, k.M)
	}
	k.M = m
	if base, ok := f.Inner().(interface {
		Target(kernel.Kernel) kernel.Kernel
	}); ok {
		return base.Target(k)
	}
	return k
}

// Draws asks for the projections of the base, in dimension r.
func (f DARK) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(dim); err != nil {
		return nil, err
	}
	return f.Inner().Draws(kind, f.M.Rows, m)
}

// Lower implements Family.
func (f DARK) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(dim); err != nil {
		return plan.Pair{}, err
	}
	p, err := f.Inner().Lower(kind, f.M.Rows, omega)
	if err != nil {
		return plan.Pair{}, err
	}
	return p.Compose(plan.Linear{Dense: f.M}, dim), nil
}

// Form is the form of the base at (Mx, My), with the bias towards the kernel of the spec.
func (f DARK) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := f.validate(len(x)); err != nil {
		return forms.Form{}, err
	}
	return darkForm{f.M, f.Inner()}.Form(kind, x, y)
}

// darkForm is a valid DARK with its base prepared.
type darkForm struct {
	m    dense.Matrix[float64]
	base theory.Estimator
}

// Form implements theory.Estimator.
func (f darkForm) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := pairOf(f.m.Cols, x, y); err != nil {
		return forms.Form{}, err
	}
	mx, my := make([]float64, f.m.Rows), make([]float64, f.m.Rows)
	l := plan.Linear{Dense: f.m}
	l.Apply(mx, x)
	l.Apply(my, y)
	form, err := f.base.Form(kind, mx, my)
	k := kernel.Kernel{Kind: kind}
	form.LogRatio += k.Log(mx, my) - k.Log(x, y)
	return form, err
}

// Needs asks for covariances and for the statistics of the base; bases whose fit uses more than means and covariances
// of Mx get it from a sample of rows.
func (f DARK) Needs() Options {
	o := Options{Covariance: true}
	base, ok := f.Inner().(Fitter)
	if !ok {
		return o
	}
	if needsRows(base) {
		o.Sample = defaultSample
	}
	return o.union(base.Needs())
}

// needsRows reports whether the fit of f uses mean absolute values or smallest coordinates. Covariances do not
// determine these after a linear map, so the fit needs sampled rows.
func needsRows(f Family) bool {
	switch f := f.(type) {
	case Geometric, PoissonPlus, GeometricPlus:
		return true
	case DARK:
		return needsRows(f.Inner())
	}
	return false
}

// Fit sets M = √t Λ^{-1/2}, Λ the pooled covariance of queries and keys, and then fits the base to Mx, My if it can be
// fitted. Rows that do not vary cannot be whitened: ErrStats. For poisson+ and geometric+, the smallest coordinates of
// Mx are those of the sampled rows; a row below them is clamped like an unseen one.
func (f DARK) Fit(s *Stats) (Family, error) {
	if err := s.readyCov(f); err != nil {
		return nil, err
	}
	t := f.Temperature
	t = cmp.Or(t, 0.125)
	if !(t > 0) || math.IsInf(t, 0) {
		return nil, paramError(f, "temperature = %v, want a positive number", f.Temperature)
	}
	lam := pooled(s)
	if vanishes(lam) {
		return nil, statsError(f, "the covariance is zero: rows that do not vary cannot be whitened")
	}
	var err error
	f.M, err = spectral(ridged(lam, fitRidge), func(v float64) float64 { return math.Sqrt(t / v) })
	if err != nil {
		return nil, statsError(f, "whitening: %v", err)
	}
	if base, ok := f.Inner().(Fitter); ok {
		f.Base, err = base.Fit(s.through(f.M))
		if err != nil {
			return nil, fmt.Errorf("family dark: base: %w", err)
		}
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

// through is the statistics of Mx, My. Means and covariances follow exactly. Mean absolute values and smallest
// coordinates are those of the sampled rows, and absent without a sample.
func (s *Stats) through(m dense.Matrix[float64]) *Stats {
	return &Stats{Query: s.Query.through(m), Key: s.Key.through(m)}
}

// through is the statistics of Mx for one side.
func (o *Moments) through(m dense.Matrix[float64]) *Moments {
	l := plan.Linear{Dense: m}
	out := newMoments(m.Rows, Options{Sample: o.sample.size})
	out.n = o.n
	l.Apply(out.mean, o.mean)
	out.cov = plan.Mul(m, plan.Mul(o.cov, plan.Transpose(m)))
	for i := range out.diag {
		out.diag[i] = out.cov.At(i, i)
	}
	if len(o.sample.rows) == 0 {
		out.abs, out.min = nil, nil
		return out
	}
	n := float64(len(o.sample.rows))
	for _, h := range o.sample.rows {
		row := make([]float64, m.Rows)
		l.Apply(row, h.row)
		for i, v := range row {
			out.abs[i] += math.Abs(v) / n
			out.min[i] = min(out.min[i], v)
		}
		// Keep the hashes of the rows before the map: the sample must stay the same set of rows.
		out.sample.rows = append(out.sample.rows, hashedRow{hash: h.hash, row: row})
	}
	return out
}

// darkWire is the JSON form.
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

// UnmarshalJSON reads the output of MarshalJSON.
func (f *DARK) UnmarshalJSON(b []byte) error {
	var w darkWire
	if err := namedjson.Decode(b, &w); err != nil {
		return err
	}
	*f = DARK{M: w.M, Temperature: w.Temperature}
	if w.Base != nil {
		base, err := decode(w.Base)
		if err != nil {
			return err
		}
		f.Base = base
	}
	return nil
}
