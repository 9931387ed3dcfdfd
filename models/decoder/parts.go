package decoder

import (
	"encoding/binary"
	"fmt"

	"github.com/randfeat/randfeat/attention"
)

// partState is the state of a compacted layer: runs of neighbouring heads with slots, and runs that keep all keys.
type partState struct {
	group  int   // query heads per key/value head
	heads  []int // key/value heads of each state
	states []State
	kept   []bool // whether a state still has all keys
}

func (s *partState) add(heads int, st State, kept bool) {
	s.heads, s.states, s.kept = append(s.heads, heads), append(s.states, st), append(s.kept, kept)
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
		f := &partState{group: s.group}
		for i, part := range s.states {
			f.add(s.heads[i], forkState(part, shared), s.kept[i])
		}
		return f
	}
	return st.Fork()
}

// AppendBinary implements State: for each part its number of heads, its length in bytes, whether it is exact, and its
// bytes; see ReadCompacted.
func (s *partState) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, mixedMagic...)
	for i, st := range s.states {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.heads[i]))
		at := len(b)
		b = append(b, make([]byte, 9)...)
		if s.kept[i] {
			b[at+8] = 1
		}
		var err error
		if b, err = st.AppendBinary(b); err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(len(b)-at-9))
	}
	return b, nil
}
