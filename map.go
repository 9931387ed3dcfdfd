package randfeat

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/kernel"
)

// Map is a drawn feature map. It is immutable and may be used by many goroutines, each with its own Workspace.
type Map[T dense.Float] struct {
	spec        Spec
	omega       []coupling.Omega
	query, key  side[T]
	queryBack   lazyBack[T]
	keyBack     lazyBack[T]
	positive    bool
	symmetric   bool
	fingerprint func() [32]byte // computed at the first call: hashing ω takes a fifth of the time of a draw
	tab         *kern.Table[T]
}

// New draws the projections of a spec and prepares its map.
func New[T dense.Float](s Spec) (*Map[T], error) {
	omega, err := Draw(s)
	if err != nil {
		return nil, err
	}
	return NewWithOmega[T](s, omega)
}

// NewWithOmega prepares the map of a spec with given projections instead of drawn ones: one Omega per draw of the
// family, in the order of its Draws. Spec.M and Spec.Seed are not used: the first Omega determines the number of
// projections. The map keeps omega, which must not be changed.
func NewWithOmega[T dense.Float](s Spec, omega []coupling.Omega) (*Map[T], error) {
	if len(omega) > 0 {
		s.M = omega[0].Rows.Rows
	}
	pair, err := Lower(s, omega)
	if err != nil {
		return nil, err
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	m := &Map[T]{spec: s, omega: omega, tab: tab}
	m.query, m.key = exec.Compile(pair.Query, s.Dim, m.tab), exec.Compile(pair.Key, s.Dim, m.tab)
	m.positive = pair.Query.Positive() && pair.Key.Positive()
	m.symmetric = reflect.DeepEqual(pair.Query, pair.Key)
	if m.fingerprint, err = fingerprint(s, omega); err != nil {
		return nil, err
	}
	return m, nil
}

// Spec returns the spec of the map.
func (m *Map[T]) Spec() Spec { return m.spec }

// Omega returns the projections, one set per draw of the family. They must not be changed.
func (m *Map[T]) Omega() []coupling.Omega { return m.omega }

// InDim is the number of input columns.
func (m *Map[T]) InDim() int { return m.spec.Dim }

// OutDim is the number of features F.
func (m *Map[T]) OutDim() int { return m.query.OutDim() }

// Positive reports whether every feature is nonnegative for every input.
func (m *Map[T]) Positive() bool { return m.positive }

// Target is the kernel that the map estimates.
func (m *Map[T]) Target() kernel.Kernel { return m.spec.Target() }

// Symmetric reports whether queries and keys have the same map, as kernel ridge regression requires.
func (m *Map[T]) Symmetric() bool { return m.symmetric }

// Fingerprint identifies the map: a hash of its spec and projections.
func (m *Map[T]) Fingerprint() [32]byte { return m.fingerprint() }

// Queries maps the rows of x: row i of dst is φ1(x_i)·exp(-logScale[i]). With a nil logScale it is φ1(x_i) itself,
// which may overflow. dst is overwritten and must not share memory with x. A nil ws allocates one. Wrong shapes and
// values that are not finite are errors. After a wrong shape dst is untouched. Values are checked block by block, so
// after a bad value dst and logScale are undefined; the error names the first bad value.
func (m *Map[T]) Queries(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	return m.run(m.query, dst, logScale, x, ws)
}

// Keys is Queries with the map φ2 of keys.
func (m *Map[T]) Keys(dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	return m.run(m.key, dst, logScale, x, ws)
}

// run validates the arguments of Queries and Keys and computes the features.
func (m *Map[T]) run(s side[T], dst dense.Matrix[T], logScale []float64, x dense.Matrix[T], ws *Workspace[T]) error {
	if ws == nil {
		ws = new(Workspace[T])
	}
	if err := checkShape(m, "x", x); err != nil {
		return err
	}
	if dst.Rows != x.Rows || dst.Cols != m.OutDim() {
		return fmt.Errorf("dst is %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, m.OutDim(), dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	if logScale != nil && len(logScale) != x.Rows {
		return fmt.Errorf("logScale has %d entries for %d rows: %w", len(logScale), x.Rows, dense.ErrShape)
	}
	if x.Rows == 0 {
		return nil
	}
	ws.exec.Workers = ws.Workers
	if bad := s.RunChecked(dst, logScale, x, normLimit[T](), &ws.exec); bad >= 0 {
		return badRow("x", x, bad)
	}
	return nil
}

func checkShape[T dense.Float](m *Map[T], name string, x dense.Matrix[T]) error {
	if x.Cols != m.spec.Dim {
		return fmt.Errorf("%s has %d columns, the map takes %d: %w", name, x.Cols, m.spec.Dim, dense.ErrShape)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// normLimit bounds |x|²: projections of longer rows would overflow.
func normLimit[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 1e30
	}
	return 1e250
}

// badRow is the error of row i, whose |x|² exceeds the limit; earlier rows are good.
func badRow[T dense.Float](name string, x dense.Matrix[T], i int) error {
	if err := x.RowRange(0, i+1).CheckFinite(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var s float64
	for _, v := range x.Row(i) {
		s += float64(v) * float64(v)
	}
	return fmt.Errorf("%s: row %d has |x|² = %.3g, beyond %.0g its projections would overflow: %w", name, i, s,
		normLimit[T](), dense.ErrNotFinite)
}

// checkInput checks the shape and the values of x and writes |x_i|² of every row into norms, which it returns grown.
func checkInput[T dense.Float](m *Map[T], name string, x dense.Matrix[T], norms []float64) ([]float64, error) {
	if err := checkShape(m, name, x); err != nil {
		return norms, err
	}
	norms = buf.Sized(norms, x.Rows)
	limit := normLimit[T]()
	m.tab.Norms(norms, x)
	for i, n := range norms {
		// A sum of squares is finite only if all its terms are.
		if !(n <= limit) {
			return norms, badRow(name, x, i)
		}
	}
	return norms, nil
}

// fingerprint hashes the spec now, and the bits of the projections when sum is first called. A coupling of another
// package has no JSON form; its type, name and projections identify it.
func fingerprint(s Spec, omega []coupling.Omega) (sum func() [32]byte, err error) {
	h := sha256.New()
	if _, err := coupling.Encode(s.coupling()); err != nil {
		fmt.Fprintf(h, "%T %s ", s.Coupling, s.Coupling.Name())
		s.Coupling = nil
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	h.Write(b)
	return sync.OnceValue(func() (sum [32]byte) {
		var row []byte
		for _, o := range omega {
			for i := range o.Rows.Rows {
				row = row[:0]
				for _, v := range o.Rows.Row(i) {
					row = binary.LittleEndian.AppendUint64(row, math.Float64bits(v))
				}
				h.Write(row)
			}
		}
		h.Sum(sum[:0])
		return sum
	}), nil
}
