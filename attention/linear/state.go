package linear

import (
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// State is the memory of one head of linear attention: sums over the keys and values seen so far. It has O(F·d) numbers
// and never grows. Make it with [NewState] or [UnmarshalState]. A State must not be used by two calls at the same time;
// Clone it to continue in two ways.
type State[T dense.Float] struct {
	m      randfeat.FeatureMap[T]
	mem    *memory[T]
	w      *worker[T]
	report attention.Report
}

var errNoState = fmt.Errorf("state that was not made by NewState: %w", attention.ErrMismatch)

// NewState returns an empty state for values of valueDim columns.
func NewState[T dense.Float](m randfeat.FeatureMap[T], valueDim int) (*State[T], error) {
	if err := randfeat.CheckMap(m); err != nil {
		return nil, err
	}
	if valueDim < 1 {
		return nil, fmt.Errorf("values of %d columns, want at least 1: %w", valueDim, dense.ErrShape)
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return nil, err
	}
	s := &State[T]{m: m, mem: newMemory[T](m.OutDim(), valueDim), w: new(worker[T])}
	s.w.useMap(m, tab, causalRows, true)
	return s, nil
}

// Map returns the feature map.
func (s *State[T]) Map() randfeat.FeatureMap[T] { return s.m }

// ValueDim returns the number of value columns.
func (s *State[T]) ValueDim() int { return s.mem.part.s.Cols }

// Len returns the number of keys seen.
func (s *State[T]) Len() int { return int(s.mem.seen()) }

// Report returns the counts of the rows read.
func (s *State[T]) Report() attention.Report { return s.report }

// Reset removes all keys and sets the counts to zero.
func (s *State[T]) Reset() {
	s.mem.reset()
	s.report = attention.Report{}
}

// Clone returns a copy that shares only the map.
func (s *State[T]) Clone() *State[T] {
	c, err := NewState(s.m, s.ValueDim())
	if err != nil {
		panic("attention: " + err.Error()) // s itself was made with the same arguments
	}
	c.mem.copyFrom(s.mem)
	c.report = s.report
	return c
}

// Append adds keys (rows of k) and their values (rows of v). The bits of the state do not depend on how the keys are
// divided into calls. After an error the state is unchanged.
func (s *State[T]) Append(k, v dense.Matrix[T]) error {
	if s.mem == nil {
		return errNoState
	}
	if err := s.checkKeys(k, v); err != nil {
		return err
	}
	s.w.look = causalRows
	for k.Rows > 0 {
		n := min(k.Rows, s.mem.room())
		if err := s.w.absorb(s.mem, k.RowRange(0, n), v.RowRange(0, n), false); err != nil {
			return fmt.Errorf("k: %w", err)
		}
		if s.mem.room() == 0 {
			s.mem.flush(s.w.tab)
		}
		k, v = k.RowRange(n, k.Rows), v.RowRange(n, v.Rows)
	}
	s.collect()
	return nil
}

// collect moves the counts of the worker into the report.
func (s *State[T]) collect() {
	s.report.Add(s.w.report)
	s.w.report, s.w.bad = attention.Report{}, false
}

// checkKeys checks everything that Append might fail on before anything is changed, so that a failed Append has no
// effect.
func (s *State[T]) checkKeys(k, v dense.Matrix[T]) error {
	if err := s.checkRows("k", k, s.m.InDim()); err != nil {
		return err
	}
	if err := s.checkRows("v", v, s.ValueDim()); err != nil {
		return err
	}
	if k.Rows != v.Rows {
		return fmt.Errorf("%d keys and %d values: %w", k.Rows, v.Rows, dense.ErrShape)
	}
	return nil
}

// checkRows checks the shape and the values of an argument; name is for the error.
func (s *State[T]) checkRows(name string, x dense.Matrix[T], cols int) error {
	if x.Cols != cols {
		return fmt.Errorf("%s has %d columns, want %d: %w", name, x.Cols, cols, dense.ErrShape)
	}
	if err := x.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i := range x.Rows {
		if n := s.w.tab.Norm2(x.Row(i)); !(n <= maxNorm2[T]()) {
			if err := x.CheckFinite(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return fmt.Errorf("%s: row %d has |x|² = %.3g, which would overflow: %w", name, i, n, dense.ErrNotFinite)
		}
	}
	return nil
}

// maxNorm2 is the largest |x|² that a map accepts: beyond it, exponents would overflow T.
func maxNorm2[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 1e30
	}
	return 1e250
}

// Read writes the attention of the queries q over all keys seen to out, q.Rows × ValueDim. It does not change the sums.
func (s *State[T]) Read(out, q dense.Matrix[T]) error {
	if s.mem == nil {
		return errNoState
	}
	if err := s.checkRows("q", q, s.m.InDim()); err != nil {
		return err
	}
	if out.Rows != q.Rows || out.Cols != s.ValueDim() {
		return fmt.Errorf("out is %d×%d, want %d×%d: %w", out.Rows, out.Cols, q.Rows, s.ValueDim(), dense.ErrShape)
	}
	if err := out.Check(); err != nil {
		return fmt.Errorf("out: %w", err)
	}
	st := stream[T]{m: s.m, q: attention.One(q), out: attention.One(out), v: dense.Matrix[T]{Cols: out.Cols},
		q1: q.Rows, group: 1}
	s.w.forward = st
	view := s.mem.view(s.w, q.Rows > fewQueries)
	err := s.w.readAll(&s.w.forward, &view, s.mem.seen(), 0, q.Rows)
	s.w.forward = stream[T]{}
	s.collect()
	if err != nil {
		return fmt.Errorf("q: %w", err)
	}
	return nil
}

// Merge adds the keys of o as if they had been appended here; o is unchanged. The result agrees with Append up to
// rounding, because the order of the sums differs. A state of another map or shape is [attention.ErrMismatch].
func (s *State[T]) Merge(o *State[T]) error {
	if s.mem == nil || o == nil || o.mem == nil {
		return errNoState
	}
	if err := s.matches(o.m.Fingerprint(), o.m.OutDim(), o.ValueDim()); err != nil {
		return err
	}
	n, p := o.mem.total.n, o.mem.part.n
	if s == o {
		o = o.Clone()
	}
	if n == 0 && p == 0 {
		return nil
	}
	s.mem.flush(s.w.tab)
	s.mem.total.add(&o.mem.total)
	addSums(s.w.tab, &s.mem.total, &o.mem.part)
	return nil
}

func (s *State[T]) matches(fingerprint [32]byte, features, valueDim int) error {
	if f := s.m.Fingerprint(); f != fingerprint {
		return fmt.Errorf("fingerprint %x…, this map has %x…: %w", fingerprint[:4], f[:4], attention.ErrMismatch)
	}
	if features != s.m.OutDim() || valueDim != s.ValueDim() {
		return fmt.Errorf("%d features and %d value columns, want %d and %d: %w", features, valueDim, s.m.OutDim(),
			s.ValueDim(), attention.ErrMismatch)
	}
	return nil
}
