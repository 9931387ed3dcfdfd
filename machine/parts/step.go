package parts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/randfeat/randfeat/machine"
)

// body is the content of a part: the merged result of some rows.
type body interface {
	merge(o body) error // adds the rows of o, which follow those of the receiver
	rows() int64
	size() (int64, error) // number of bytes that write writes
	write(w io.Writer) error
}

// Step is a pass over the units of a run whose results merge. [Run.Learn], [Run.Sum] and [Run.Evaluate] make steps. A
// step serves one call at a time.
type Step struct {
	run   *Run
	name  string
	about about // description of its parts, except span, kernels, rows and bytes
	// kernels names the kernels with which leaves are read here.
	kernels string
	// begin makes an empty body, add adds the rows of a unit to a body, read makes a body from the size bytes that
	// write wrote.
	begin func() (body, error)
	add   func(ctx context.Context, b body, unit int) error
	read  func(r io.Reader, size int64) (body, error)
	reuse func(body) bool // empties a body so that it can be used again; nil, or a result of false, if it cannot be

	first body   // the first body that begin made: later ones share scratch memory with it
	free  []body // empty bodies for the next leaves
	made  int    // number of bodies that begin has made
}

// recycle keeps a body for a later leaf. There are never more of them than were in use at the same time.
func (s *Step) recycle(b body) {
	if s.reuse != nil && s.reuse(b) {
		s.free = append(s.free, b)
	}
}

// empty returns a body of no rows.
func (s *Step) empty() (body, error) {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = s.free[:n-1]
		return b, nil
	}
	b, err := s.begin()
	if s.made++; s.first == nil && err == nil {
		s.first = b
	}
	return b, err
}

// leaf reads leaf i: all rows of its units, one after the other.
func (s *Step) leaf(ctx context.Context, i int) (*Part, error) {
	b, err := s.empty()
	if err != nil {
		return nil, err
	}
	units := s.run.unitsOf(i)
	for u := units.Lo; u < units.Hi; u++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.add(ctx, b, u); err != nil {
			return nil, err
		}
	}
	return &Part{step: s, span: Span{i, i + 1}, body: b, kernels: []string{s.kernels}}, nil
}

// Do reads the units of some leaves and passes the resulting parts to emit, in order, merged as far as the tree allows.
// Memory is one leaf and one open node per level, whatever the number of leaves.
func (s *Step) Do(ctx context.Context, leaves Span, emit func(*Part) error) error {
	t := s.run.tree()
	if leaves.Lo < 0 || leaves.Lo > leaves.Hi || leaves.Hi > t.leaves {
		return fmt.Errorf("%s of %d: %w", leaves, t.leaves, machine.ErrSetup)
	}
	f := folder{t: t, out: emit}
	for i := leaves.Lo; i < leaves.Hi; i++ {
		p, err := s.leaf(ctx, i)
		if err != nil {
			return err
		}
		if err := f.add(p); err != nil {
			return err
		}
	}
	for _, p := range f.open {
		if err := emit(p); err != nil {
			return err
		}
	}
	return nil
}

// Merge merges parts of the step, in any order, as far as the tree allows; the parts of all leaves become one. It takes
// ownership of the parts. A leaf in two parts is an error that names a shard. Gaps are allowed here; see [Step.Whole].
func (s *Step) Merge(parts []*Part) ([]*Part, error) {
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b *Part) int { return cmp.Compare(a.span.Lo, b.span.Lo) })
	f := folder{t: s.run.tree()}
	end := 0
	for _, p := range parts {
		if err := s.check(p, end); err != nil {
			return nil, err
		}
		end = p.span.Hi
		if err := f.add(p); err != nil {
			return nil, err
		}
	}
	return f.open, nil
}

// check refuses parts of other steps and parts that begin before end.
func (s *Step) check(p *Part, end int) error {
	if p.step == nil || p.step.about.identity() != s.about.identity() {
		return fmt.Errorf("a part of another step or run: %w", machine.ErrMismatch)
	}
	if p.span.Lo < end {
		return fmt.Errorf("%s is in two parts: remove one of them: %w", s.run.place(p.span.Lo), machine.ErrMismatch)
	}
	return nil
}

// Whole returns the part of all leaves from merged parts. A gap is an error that names the first missing shard.
func (s *Step) Whole(parts []*Part) (*Part, error) {
	merged, err := s.Merge(parts)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, p := range merged {
		if p.span.Lo > at {
			break
		}
		at = p.span.Hi
	}
	if n := s.run.Leaves(); at < n {
		return nil, fmt.Errorf("no part of the step %s has %s (leaf %d of %d): run the step for it, then again: %w", s.name,
			s.run.place(at), at, n, machine.ErrMismatch)
	}
	if len(merged) != 1 {
		panic("parts: all leaves are there and do not make a tree")
	}
	s.first, s.free = nil, nil // no more leaves: the solver needs the memory
	return merged[0], nil
}

// Stream merges parts one at a time, so that at most one part per level is in memory. next returns the parts in the
// order of their spans, and nil at the end.
func (s *Step) Stream(next func() (*Part, error)) (*Part, error) {
	f := folder{t: s.run.tree()}
	end := 0
	for {
		p, err := next()
		if err != nil {
			return nil, err
		}
		if p == nil {
			return s.Whole(f.open)
		}
		if err := s.check(p, end); err != nil {
			return nil, err
		}
		end = p.span.Hi
		if err := f.add(p); err != nil {
			return nil, err
		}
	}
}
