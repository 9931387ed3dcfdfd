package rfx

import (
	"errors"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/kernel"
)

// ErrMap means that specs cannot be combined into one map.
var ErrMap = errors.New("specs do not make one map")

// Map is a drawn feature map, one for all heads or one per key/value head. It is immutable. Its projections are
// constants of the graphs that use it, or inputs (see With).
type Map struct {
	pairs    []plan.Pair // one, or one per key/value head; all have the same structure
	targets  []kernel.Kernel
	dim      int
	features int
	numbers  Numbers
	fixed    bool // numbers have no gradients
}

// NewMap draws the projections of the specs: one for all heads, or one per key/value head, of the same family and size.
func NewMap(specs ...randfeat.Spec) (*Map, error) {
	if len(specs) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrMap)
	}
	m := &Map{dim: specs[0].Dim}
	for i, spec := range specs {
		omega, err := randfeat.Draw(spec)
		if err != nil {
			return nil, fmt.Errorf("spec %d: %w", i, err)
		}
		pair, err := randfeat.Lower(spec, omega)
		if err != nil {
			return nil, fmt.Errorf("spec %d: %w", i, err)
		}
		for _, l := range append(append([]plan.Leaf{}, pair.Query.Leaves...), pair.Key.Leaves...) {
			if functions[l.Fn] == nil {
				name := spec.Family.Name()
				return nil, fmt.Errorf("spec %d: family %s has no graph: %w", i, name, errors.ErrUnsupported)
			}
		}
		m.pairs, m.targets = append(m.pairs, pair), append(m.targets, spec.Target())
		same := spec.Dim == m.dim && spec.Target().Kind == m.targets[0].Kind &&
			sameStructure(m.pairs[0].Query, pair.Query) && sameStructure(m.pairs[0].Key, pair.Key)
		if !same {
			return nil, fmt.Errorf("%w: spec %d has another family or size than spec 0", ErrMap, i)
		}
	}
	m.features = m.pairs[0].Query.OutDim(m.dim)
	return m, nil
}

// sameStructure reports whether two sides differ only in numbers, so that one graph with stacked constants computes
// both.
func sameStructure(a, b plan.Side) bool {
	if len(a.Leaves) != len(b.Leaves) || len(a.Blocks) != len(b.Blocks) || a.Centres.Rows != b.Centres.Rows {
		return false
	}
	for i, l := range a.Leaves {
		o := b.Leaves[i]
		same := l.Fn == o.Fn && l.Conj == o.Conj && l.Floor == o.Floor && l.Eps == o.Eps &&
			l.Omega.Rows.Rows == o.Omega.Rows.Rows && l.Omega.Rows.Cols == o.Omega.Rows.Cols &&
			l.Lin.Dense.Rows == o.Lin.Dense.Rows && l.Mix.IsZero() == o.Mix.IsZero() &&
			l.MixIm.IsZero() == o.MixIm.IsZero()
		if !same {
			return false
		}
	}
	for i, block := range a.Blocks {
		if o := b.Blocks[i]; block.Rho != o.Rho || block.Base != o.Base || block.Gate != o.Gate {
			return false
		}
	}
	return true
}

// Dim is the dimension of queries and keys.
func (m *Map) Dim() int { return m.dim }

// OutDim is the number of features.
func (m *Map) OutDim() int { return m.features }

// Heads is the number of key/value heads the map was made for, 1 if it serves any number.
func (m *Map) Heads() int { return len(m.pairs) }

// Features are the features of rows as Value·exp(Log), [batch, heads, length, features]. A nil Value means 1
// everywhere, as in all families of plain exponentials.
type Features struct{ Value, Log *graph.Node }

// Queries returns the features φ1 of queries [batch, heads, length, dim]. If there are fewer maps than heads,
// neighbouring heads share one: head h has map h·Heads()/heads.
func (m *Map) Queries(q *graph.Node) Features {
	return m.side("query", q, func(p plan.Pair) plan.Side { return p.Query })
}

// Keys returns the features φ2 of keys.
func (m *Map) Keys(k *graph.Node) Features {
	return m.side("key", k, func(p plan.Pair) plan.Side { return p.Key })
}

// Plain returns the features themselves. They may overflow, as in the papers.
func (f Features) Plain() *graph.Node { return f.times(graph.Exp(f.Log)) }

// times returns Value·e, where e is an exponential of Log relative to some reference.
func (f Features) times(e *graph.Node) *graph.Node {
	if f.Value == nil {
		return e
	}
	return graph.Mul(f.Value, e)
}
