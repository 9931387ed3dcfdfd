package sampling

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// Sampler draws classes for queries. Any number of goroutines may draw at the same time; updates need the sampler for
// themselves.
type Sampler[T dense.Float] struct {
	m       randfeat.FeatureMap[T]
	options Options
	block   int // classes per leaf
	classes dense.Matrix[T]
	dead    []bool // removed classes, by id
	free    []int  // their ids
	target  kernel.Kernel
	inner   dense.Matrix[float64] // for softmax with a matrix: log κ(q, c) = (inner·q)·c; empty means gain²·q·c

	columns columns[T]
	tree    tree[T]
	changed int // classes changed since the last rebuild
	bound   bound

	tab   *kern.Table[T]
	crews par.Pool[par.Crew[worker[T]]]
}

// New builds the tree of classes, one per row. The sampler keeps classes: only its methods may change them. Class ids
// are row numbers.
func New[T dense.Float](m randfeat.FeatureMap[T], classes dense.Matrix[T], o Options) (*Sampler[T], error) {
	if err := randfeat.CheckMap(m); err != nil {
		return nil, err
	}
	if o.Within != ByScore && o.Within != ByFeatures {
		return nil, fmt.Errorf("no law %d inside blocks: %w", o.Within, ErrRequest)
	}
	if o.Block < 0 || o.Workers < 0 {
		return nil, fmt.Errorf("blocks of %d classes, %d workers: %w", o.Block, o.Workers, ErrRequest)
	}
	if err := checkRows("classes", classes, m.InDim()); err != nil {
		return nil, err
	}
	if classes.Rows < 1 {
		return nil, fmt.Errorf("no classes: %w", dense.ErrShape)
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	if classes.Stride != classes.Cols {
		classes = classes.Clone()
	}
	classes.Data = classes.Data[:classes.Rows*classes.Cols]
	s := &Sampler[T]{m: m, options: o, block: o.block(), classes: classes, dead: make([]bool, classes.Rows),
		target: m.Target(), tab: tab}
	if s.target.Kind.Signed() && o.Within == ByScore {
		return nil, fmt.Errorf("the %v kernel has no logarithm, draw inside blocks by features: %w", s.target.Kind,
			ErrRequest)
	}
	s.inner = innerOf(s.target, m.InDim())
	return s, s.Rebuild()
}

// innerOf is MᵀM/Scale² of a softmax kernel with a matrix.
func innerOf(k kernel.Kernel, dim int) dense.Matrix[float64] {
	if k.Kind != kernel.Softmax || k.M.IsEmpty() {
		return dense.Matrix[float64]{}
	}
	a := dense.New[float64](dim, dim)
	gain := k.Gain() * k.Gain()
	for r := range k.M.Rows {
		row := k.M.Row(r)
		for i, v := range row {
			for j, w := range row {
				a.Row(i)[j] += gain * v * w
			}
		}
	}
	return a
}

func checkRows[T dense.Float](name string, x dense.Matrix[T], dim int) error {
	if x.Cols != dim {
		return fmt.Errorf("%s have %d columns, the map takes %d: %w", name, x.Cols, dim, dense.ErrShape)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := x.CheckFinite(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Len is the number of classes that can be drawn, without removed ones.
func (s *Sampler[T]) Len() int { return s.classes.Rows - len(s.free) }

// Target is the kernel whose normalised values the sampler approximates.
func (s *Sampler[T]) Target() kernel.Kernel { return s.target }

// Classes are the rows of all ids, removed ones included. They must not be changed.
func (s *Sampler[T]) Classes() dense.Matrix[T] { return s.classes }

// Memory is the size of the tree in bytes, without the classes themselves.
func (s *Sampler[T]) Memory() int {
	var t T
	size := 8
	if _, ok := any(t).(float32); ok {
		size = 4
	}
	return len(s.tree.sums)*size + 4*len(s.tree.live) + len(s.dead)
}

// Counts says how many estimates of nodes and, with ByFeatures, of classes were unusable.
type Counts struct {
	Estimates int `json:"estimates"`
	Clipped   int `json:"clipped"` // negative estimates, replaced by zero
	Lost      int `json:"lost"`    // nodes or blocks in which all estimates were zero: the numbers of classes decided
}

func (c *Counts) add(o Counts) {
	c.Estimates += o.Estimates
	c.Clipped += o.Clipped
	c.Lost += o.Lost
}

// workers is the number of goroutines of a call.
func workers(asked int) int {
	if asked > 0 {
		return asked
	}
	return runtime.GOMAXPROCS(0)
}

// bound holds what Exact needs to know about all classes.
type bound struct {
	mu      sync.Mutex
	ready   bool
	radius  float64 // at least the largest |c|
	deficit float64 // at least the largest −mean_f log φ2(c)_f
}

// raise includes one class.
func (b *bound) raise(norm2, mean float64) {
	b.radius = max(b.radius, math.Sqrt(norm2))
	b.deficit = max(b.deficit, -mean)
}
