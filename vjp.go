package randfeat

import (
	"errors"
	"fmt"
	"sync"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// ErrNoParameters is returned for maps whose family has no parameters that gradients reach.
var ErrNoParameters = errors.New("family has no learnable parameters")

// learnable is a family with a matrix of parameters that can be trained by gradients. Gradient turns the derivatives of
// a loss by the exponents of query and key features into derivatives by that matrix.
type learnable interface {
	Gradient(kind kernel.Kind, dim int, omega []coupling.Omega, query, key plan.ExponentSums) (dense.Matrix[float64],
		error)
}

// QueriesVJP multiplies a cotangent of the features with their derivatives by the inputs:
//
//	dx_i = Σ_f dphi_if ∂/∂x_i [φ1(x_i)_f·exp(col_f − shift_i)],
//
// with constant col (nil means zeros) and shift, as in QueriesScaled. phi is empty, or holds what QueriesScaled wrote
// for the same x, col and shift; maps of exponentials then need only one product. dx is overwritten and must not share
// memory with the other arguments. g, if not nil, must come from NewGrad of this map and receives the derivatives by
// the parameters of the family.
func (m *Map[T]) QueriesVJP(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *Grad[T],
	ws *Workspace[T]) error {
	if g != nil {
		return m.vjp(m.query, &m.queryBack, dx, dphi, phi, x, col, shift, g, g.query, ws)
	}
	return m.vjp(m.query, &m.queryBack, dx, dphi, phi, x, col, shift, nil, nil, ws)
}

// KeysVJP is QueriesVJP with the map φ2 of keys.
func (m *Map[T]) KeysVJP(dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64, g *Grad[T],
	ws *Workspace[T]) error {
	if g != nil {
		return m.vjp(m.key, &m.keyBack, dx, dphi, phi, x, col, shift, g, g.key, ws)
	}
	return m.vjp(m.key, &m.keyBack, dx, dphi, phi, x, col, shift, nil, nil, ws)
}

// lazyBack compiles the derivatives of a side at the first use.
type lazyBack[T dense.Float] struct {
	once sync.Once
	b    backward[T]
}

func backOf[T dense.Float](l *lazyBack[T], s side[T]) backward[T] {
	l.once.Do(func() { l.b = exec.CompileBackward(s.(*exec.Side[T])) })
	return l.b
}

// vjp validates the arguments and runs the derivatives of one side.
func (m *Map[T]) vjp(s side[T], back *lazyBack[T], dx, dphi, phi, x dense.Matrix[T], col []T, shift []float64,
	g *Grad[T], sums *exec.Sums[T], ws *Workspace[T]) error {
	if ws == nil {
		ws = new(Workspace[T])
	}
	b := backOf(back, s)
	if !phi.IsEmpty() && b.Learns() {
		// The call that computed phi has checked the values of x, and this path does not need their norms.
		if x.Cols != m.spec.Dim {
			return fmt.Errorf("x has %d columns, the map takes %d: %w", x.Cols, m.spec.Dim, dense.ErrShape)
		}
		if err := x.Check(); err != nil {
			return fmt.Errorf("x: %w", err)
		}
		ws.nx = buf.Sized(ws.nx, x.Rows)
	} else {
		var err error
		if ws.nx, err = checkInput(m, "x", x, ws.nx); err != nil {
			return err
		}
	}
	if dx.Rows != x.Rows || dx.Cols != x.Cols {
		return fmt.Errorf("dx is %d×%d, want %d×%d: %w", dx.Rows, dx.Cols, x.Rows, x.Cols, dense.ErrShape)
	}
	if err := dx.Check(); err != nil {
		return fmt.Errorf("dx: %w", err)
	}
	if err := checkFeatures(m, "dphi", dphi, x.Rows); err != nil {
		return err
	}
	if !phi.IsEmpty() {
		if err := checkFeatures(m, "phi", phi, x.Rows); err != nil {
			return err
		}
	}
	if err := checkScales(m, col, shift, x.Rows); err != nil {
		return err
	}
	if g != nil && g.of != m.Fingerprint() {
		return fmt.Errorf("the gradient belongs to another map: %w", ErrSpec)
	}
	if x.Rows == 0 {
		return nil
	}
	ws.exec.Workers = ws.Workers
	b.Run(dx, dphi, phi, x, col, shift, ws.nx, sums, &ws.exec)
	return nil
}

// Grad collects the derivatives of a loss by the parameters of a map's family (M of DARK, W of LFK) over any number of
// QueriesVJP and KeysVJP calls. Sums over long sequences are kept in float64. It serves one call at a time; several
// Grads may be filled at the same time and merged.
type Grad[T dense.Float] struct {
	of         [32]byte
	m          *Map[T]
	query, key *exec.Sums[T]
}

// NewGrad returns zero derivatives. The error is ErrNoParameters for a family without parameters that gradients reach,
// or whose features are not single exponentials (DARK with a base of cosines, hybrids).
func (m *Map[T]) NewGrad() (*Grad[T], error) {
	if _, ok := m.spec.Family.(learnable); !ok {
		return nil, fmt.Errorf("family %s: %w", m.spec.Family.Name(), ErrNoParameters)
	}
	q, k := backOf(&m.queryBack, m.query), backOf(&m.keyBack, m.key)
	if !q.Learns() || !k.Learns() {
		return nil, fmt.Errorf("family %s with features that are not single exponentials: %w", m.spec.Family.Name(),
			ErrNoParameters)
	}
	return &Grad[T]{of: m.Fingerprint(), m: m, query: q.NewSums(), key: k.NewSums()}, nil
}

// Merge adds the derivatives that o collected for the same map. The order of merges determines the last bits.
func (g *Grad[T]) Merge(o *Grad[T]) error {
	if g.of != o.of {
		return fmt.Errorf("gradients of different maps: %w", ErrSpec)
	}
	g.query.Merge(o.query)
	g.key.Merge(o.key)
	return nil
}

// Parameter is the derivative of the loss by the parameter matrix of the family: M (r×d) of DARK, W (F×d) of LFK. The
// projections ω of DARK are constants.
func (g *Grad[T]) Parameter() (dense.Matrix[float64], error) {
	s := g.m.spec
	f := s.Family.(learnable)
	return f.Gradient(s.Kernel.Kind, s.Kernel.Dim(s.Dim), g.m.omega, embedded(g, g.query), embedded(g, g.key))
}

// embedded is the sums over z = Kx, the inputs that the family sees.
func embedded[T dense.Float](g *Grad[T], s *exec.Sums[T]) plan.ExponentSums {
	w, q, lin := s.Totals()
	k := plan.Scalar(g.m.spec.Kernel.Gain())
	if mat := g.m.spec.Kernel.M; !mat.IsEmpty() {
		k = k.Compose(plan.Linear{Dense: mat}, g.m.spec.Dim)
	}
	km := k.Matrix(g.m.spec.Dim)
	kt := plan.Transpose(km)
	out := plan.ExponentSums{W: plan.Mul(w, kt), Q: plan.Mul(km, plan.Mul(q, kt)), Lin: make([]float64, km.Rows)}
	k.Apply(out.Lin, lin)
	return out
}

// Reset makes the derivatives zero.
func (g *Grad[T]) Reset() {
	g.query.Reset()
	g.key.Reset()
}
