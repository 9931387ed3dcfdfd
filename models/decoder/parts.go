package decoder

import (
	"encoding/binary"
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// Part is a run of neighbouring key/value heads of a layer, with the query heads of their groups. New makes their
// state; nil means exact attention.
type Part struct {
	KVHeads int
	New     func(heads, kvHeads int) (State, error)
}

// Parts returns a function that makes the states of one session whose heads remember in different ways. The parts of
// a layer must cover all its heads in order.
func (m *Model) Parts(parts func(layer int) []Part) func(layer int) (State, error) {
	c := &m.config
	exact := m.exactHeads()
	return func(layer int) (State, error) {
		s := &partState{group: c.Heads / c.KVHeads}
		total := 0
		for _, p := range parts(layer) {
			if total += p.KVHeads; p.KVHeads < 1 || total > c.KVHeads {
				break
			}
			if p.New == nil {
				s.add(p.KVHeads, exact(p.KVHeads*s.group, p.KVHeads))
				continue
			}
			st, err := p.New(p.KVHeads*s.group, p.KVHeads)
			if err != nil {
				return nil, err
			}
			s.add(p.KVHeads, st)
		}
		if total != c.KVHeads {
			return nil, fmt.Errorf("parts of %d key/value heads, the model has %d: %w", total, c.KVHeads,
				dense.ErrShape)
		}
		if len(s.states) == 1 {
			return s.states[0], nil
		}
		return s, nil
	}
}

// partState is the state of a layer whose heads remember in different ways.
type partState struct {
	group  int   // query heads per key/value head
	heads  []int // key/value heads of each state
	states []State
	kept   []bool // for compacted layers: whether a state still has all keys; nil: not compacted
}

func (s *partState) add(heads int, st State) {
	s.heads, s.states = append(s.heads, heads), append(s.states, st)
}

// Step implements State.
func (s *partState) Step(out, q, k, v attention.Seq[float32]) error {
	lo := 0
	for i, st := range s.states {
		hi := lo + s.heads[i]
		a, b := lo*s.group, hi*s.group
		err := st.Step(headRange(out, a, b), headRange(q, a, b), headRange(k, lo, hi), headRange(v, lo, hi))
		if err != nil {
			return fmt.Errorf("heads %d to %d: %w", lo, hi-1, err)
		}
		lo = hi
	}
	return nil
}

// headRange returns heads lo to hi−1 of x.
func headRange(x attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	x.Data, x.Heads = x.Data[lo*x.StrideH:], hi-lo
	return x
}

// Len implements State.
func (s *partState) Len() int { return s.states[0].Len() }

// Bytes implements State.
func (s *partState) Bytes() (n int64) {
	for _, st := range s.states {
		n += st.Bytes()
	}
	return n
}

// Report implements State.
func (s *partState) Report() (r attention.Report) {
	for _, st := range s.states {
		r.Add(st.Report())
	}
	return r
}

// Reset implements State.
func (s *partState) Reset() {
	for _, st := range s.states {
		st.Reset()
	}
}

// Fork implements State.
func (s *partState) Fork() State {
	var shared *halfWork
	return forkState(s, &shared)
}

// forkState forks st, a state of a session being forked. The states of half precision of the new session share one
// scratch memory, which the first of them makes.
func forkState(st State, shared **halfWork) State {
	switch s := st.(type) {
	case *halfState:
		if *shared == nil {
			*shared = newHalfWork(s.work.kernels)
		}
		return s.fork(*shared)
	case *partState:
		f := &partState{group: s.group, kept: s.kept}
		for i, part := range s.states {
			f.add(s.heads[i], forkState(part, shared))
		}
		return f
	}
	return st.Fork()
}

// AppendBinary implements State: the parts, each after its length in bytes. The parts of a compacted layer also
// store their number of heads and whether they are exact, because nothing else records it; see ReadCompacted.
func (s *partState) AppendBinary(b []byte) ([]byte, error) {
	if s.kept != nil {
		b = append(b, mixedMagic...)
	}
	for i, st := range s.states {
		if s.kept != nil {
			b = binary.LittleEndian.AppendUint64(b, uint64(s.heads[i]))
		}
		at := len(b)
		b = binary.LittleEndian.AppendUint64(b, 0)
		if s.kept != nil {
			b = append(b, 0)
			if s.kept[i] {
				b[len(b)-1] = 1
			}
		}
		body := len(b)
		var err error
		if b, err = st.AppendBinary(b); err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-body))
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (s *partState) UnmarshalBinary(b []byte) error {
	length := -1
	for _, st := range s.states {
		u, can := st.(interface{ UnmarshalBinary([]byte) error })
		if !can || len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
			return errState
		}
		n := binary.LittleEndian.Uint64(b)
		if err := u.UnmarshalBinary(b[8 : 8+n]); err != nil {
			return err
		}
		if length >= 0 && st.Len() != length {
			return errState
		}
		length, b = st.Len(), b[8+n:]
	}
	if len(b) != 0 {
		return errState
	}
	return nil
}
