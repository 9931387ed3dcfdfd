package decoder

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/randfeat/randfeat/attention"
)

// exactState keeps the keys and values of all tokens in float32, for softmax attention over all of them or over a
// sliding window. The window limits the keys that queries see, not the keys that are kept.
type exactState struct {
	heads, kvHeads, dim, window int
	k, v                        []float32 // [token][kvHeads·dim]
	length                      int
	report                      attention.Report
	softmax                     attention.Exact[float32]
}

func newExact(heads, kvHeads, dim, window int) *exactState {
	s := &exactState{heads: heads, kvHeads: kvHeads, dim: dim, window: window}
	s.softmax = attention.Exact[float32]{Visibility: attention.Visibility{Causal: true}, Window: window,
		Unchecked: true}
	return s
}

// Step implements State.
func (s *exactState) Step(out, q, k, v attention.Seq[float32]) error {
	s.k, s.v = appendRows(s.k, k), appendRows(s.v, v)
	s.length += q.Len
	r, err := s.softmax.Forward(out, q, s.seq(s.k), s.seq(s.v))
	s.report.Add(r)
	return err
}

// appendRows appends the positions of x to the rows of dst.
func appendRows(dst []float32, x attention.Seq[float32]) []float32 {
	for l := range x.Len {
		for h := range x.Heads {
			dst = append(dst, x.Head(0, h).Row(l)...)
		}
	}
	return dst
}

// seq views data, the keys or the values, as a sequence of s.length positions.
func (s *exactState) seq(data []float32) attention.Seq[float32] {
	w := s.kvHeads * s.dim
	return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: s.kvHeads, Len: s.length, Dim: s.dim},
		Data: data, StrideB: len(data), StrideH: s.dim, StrideL: w}
}

// Len implements State.
func (s *exactState) Len() int { return s.length }

// Bytes implements State.
func (s *exactState) Bytes() int64 { return 4 * int64(cap(s.k)+cap(s.v)) }

// Report implements State.
func (s *exactState) Report() attention.Report { return s.report }

// Reset implements State.
func (s *exactState) Reset() {
	s.k, s.v, s.length, s.report = s.k[:0:0], s.v[:0:0], 0, attention.Report{}
}

// Fork implements State. Both states share the tokens so far. The copy has no spare capacity, so its first append
// moves it to memory of its own; the original appends behind the shared part.
func (s *exactState) Fork() State {
	f := newExact(s.heads, s.kvHeads, s.dim, s.window)
	f.k, f.v, f.length, f.report = s.k[:len(s.k):len(s.k)], s.v[:len(s.v):len(s.v)], s.length, s.report
	return f
}

// AppendBinary implements State: length, key/value heads and dimension, then keys and values. The enclosing file has
// the checksum.
func (s *exactState) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range []int{s.length, s.kvHeads, s.dim} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for _, x := range [][]float32{s.k, s.v} {
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return b, nil
}

var errState = errors.New("not the state of a layer of this model")

// UnmarshalBinary reads what AppendBinary wrote.
func (s *exactState) UnmarshalBinary(b []byte) error {
	if len(b) < 24 {
		return errState
	}
	n, h, d := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	b = b[24:]
	row := uint64(s.kvHeads * s.dim)
	if h != uint64(s.kvHeads) || d != uint64(s.dim) || n > uint64(len(b)) || n*row*8 != uint64(len(b)) {
		return errState
	}
	read := func(b []byte) []float32 {
		x := make([]float32, len(b)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return x
	}
	s.length, s.k, s.v = int(n), read(b[:len(b)/2]), read(b[len(b)/2:])
	return nil
}
