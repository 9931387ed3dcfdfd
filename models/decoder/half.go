package decoder

import (
	"encoding/binary"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// halfState is exact attention over keys and values in half precision: a generated token reads half the bytes of
// float32. Keys lie in blocks of 32, column by column, so that a vector holds the same column of neighbouring keys
// and a score needs no sum across a vector.
type halfState struct {
	heads, kvHeads, dim, window int
	length                      int
	k                           [][]uint16 // by head: [block][dim][32]
	v                           [][]uint16 // by head: [token][dim]
	report                      attention.Report
	work                        *halfWork
}

// halfWork is the scratch memory that all layers of a session share. They use it one after the other.
type halfWork struct {
	kernels nn.Kernels
	wide    []float32 // float32 keys and values of a layer, for steps of many tokens
	softmax attention.Exact[float32]

	// The current step of one token. An item of work is one split of the keys of a head and four of its queries.
	s         *halfState
	n         int       // keys that the token sees
	q         []float32 // [head][group of 4][4][dim], scaled
	splits    int       // runs of splitKeys keys
	parts     []halfPart
	part      func(lo, hi int)
	widenKeys func(lo, hi int)
}

// halfPart is the result of an item: per query, the maximum of the scores, the sum of exponentials and the weighted
// sum of values. The join rescales them to a common maximum.
type halfPart struct {
	top, sum [4]float32
	acc      []float32 // [4][dim]
	scores   []float32 // [4][splitKeys]
}

const (
	// splitKeys is the number of keys of an item of work.
	splitKeys = 512
	// pushGrain is the number of positions that pays for a goroutine.
	pushGrain = 32
	// Steps of at most fewTokens tokens read them one by one.
	fewTokens = 4
	// halfGrain is the number of multiply-adds that pays for a goroutine that is still awake.
	halfGrain = 100_000
)

func newHalfWork(k nn.Kernels) *halfWork {
	w := &halfWork{kernels: k}
	w.part, w.widenKeys = w.doParts, w.doWiden
	return w
}

func newHalf(w *halfWork, heads, kvHeads, dim, window int) *halfState {
	return &halfState{heads: heads, kvHeads: kvHeads, dim: dim, window: window, work: w,
		k: make([][]uint16, kvHeads), v: make([][]uint16, kvHeads)}
}

// rounded rounds x to half precision and clamps it to the finite range.
func rounded(x float32) uint16 { return kern.ToHalf(max(-65504, min(65504, x))) }

// Step implements State.
func (s *halfState) Step(out, q, k, v attention.Seq[float32]) error {
	if q.Len > fewTokens {
		s.push(k, v, 0, q.Len)
		return s.many(out, q)
	}
	for l := range q.Len {
		s.push(k, v, l, l+1)
		s.one(out, q, l)
	}
	s.report.Rows += int64(q.Len * q.Heads)
	return nil
}

// push appends positions lo to hi−1 of k and v.
func (s *halfState) push(k, v attention.Seq[float32], lo, hi int) {
	s.length += hi - lo
	blocks := (s.length + kern.HalfKeys - 1) / kern.HalfKeys
	for h := range s.kvHeads {
		if more := blocks*kern.HalfKeys*s.dim - len(s.k[h]); more > 0 {
			s.k[h] = append(s.k[h], make([]uint16, more)...)
		}
		if hi-lo == 1 {
			for _, x := range v.Head(0, h).Row(lo) {
				s.v[h] = append(s.v[h], rounded(x))
			}
			continue
		}
		s.v[h] = append(s.v[h], make([]uint16, (hi-lo)*s.dim)...)
	}
	if hi-lo == 1 {
		s.pushKeys(k, lo, s.length-1)
		return
	}
	first := s.length - (hi - lo)
	par.For(hi-lo, pushGrain, func(from, to int) {
		for l := from; l < to; l++ {
			s.pushKeys(k, lo+l, first+l)
			for h := range s.kvHeads {
				dst := s.v[h][(first+l)*s.dim:]
				for c, x := range v.Head(0, h).Row(lo + l) {
					dst[c] = rounded(x)
				}
			}
		}
	})
}

// pushKeys stores row l of k as the keys of position at. The blocks must have room.
func (s *halfState) pushKeys(k attention.Seq[float32], l, at int) {
	for h := range s.kvHeads {
		block := s.k[h][at/kern.HalfKeys*kern.HalfKeys*s.dim:]
		for c, x := range k.Head(0, h).Row(l) {
			block[c*kern.HalfKeys+at%kern.HalfKeys] = rounded(x)
		}
	}
}

// many widens all keys and values to float32 and calls exact attention. With many queries the widening is a small
// part of the work.
func (s *halfState) many(out, q attention.Seq[float32]) error {
	w := s.work
	row := s.kvHeads * s.dim
	w.s = s
	w.wide = buf.Sized(w.wide, 2*s.length*row)
	par.For((s.length+kern.HalfKeys-1)/kern.HalfKeys, 4, w.widenKeys)
	seq := func(data []float32) attention.Seq[float32] {
		return attention.Seq[float32]{Shape: attention.Shape{Batch: 1, Heads: s.kvHeads, Len: s.length, Dim: s.dim},
			Data: data, StrideB: len(data), StrideH: s.dim, StrideL: row}
	}
	w.softmax.Causal, w.softmax.Window, w.softmax.Unchecked = true, s.window, true
	r, err := w.softmax.Forward(out, q, seq(w.wide[:s.length*row]), seq(w.wide[s.length*row:]))
	s.report.Add(r)
	return err
}

// doWiden widens the keys and values of blocks lo to hi−1.
func (w *halfWork) doWiden(lo, hi int) {
	s := w.s
	row := s.kvHeads * s.dim
	keys, values := w.wide[:s.length*row], w.wide[s.length*row:]
	for h := range s.kvHeads {
		for b := lo; b < hi; b++ {
			for at := b * kern.HalfKeys; at < min((b+1)*kern.HalfKeys, s.length); at++ {
				lo, hi := at*row+h*s.dim, at*row+(h+1)*s.dim
				s.widen(h, at, keys[lo:hi], values[lo:hi])
			}
		}
	}
}

// widen sets key and value to those of head h at a position, in float32.
func (s *halfState) widen(h, at int, key, value []float32) {
	block, j := s.k[h][at/kern.HalfKeys*kern.HalfKeys*s.dim:], at%kern.HalfKeys
	for c := range key {
		key[c] = kern.FromHalf(block[c*kern.HalfKeys+j])
	}
	for c, x := range s.v[h][at*s.dim : (at+1)*s.dim] {
		value[c] = kern.FromHalf(x)
	}
}

// one computes row l of out over all keys so far. It copies the scaled queries of each group in fours, filled up
// with zeros, computes the items in parallel, and joins the splits of every query in order. The result does not
// depend on the number of processors.
func (s *halfState) one(out, q attention.Seq[float32], l int) {
	w, group := s.work, s.heads/s.kvHeads
	fours := (group + 3) / 4
	w.s, w.n = s, s.length
	w.q = buf.Zeroed(w.q, s.kvHeads*fours*4*s.dim)
	scale := float32(1 / math.Sqrt(float64(s.dim)))
	for h := range s.heads {
		dst := w.q[(h/group*fours*4+h%group)*s.dim:][:s.dim]
		for c, x := range q.Head(0, h).Row(l) {
			dst[c] = x * scale
		}
	}
	w.splits = (w.n + splitKeys - 1) / splitKeys
	items := s.kvHeads * fours * w.splits
	for len(w.parts) < items {
		w.parts = append(w.parts, halfPart{})
	}
	for i := range items {
		p := &w.parts[i]
		p.acc, p.scores = buf.Sized(p.acc, 4*s.dim), buf.Sized(p.scores, 4*splitKeys)
	}
	perItem := min(w.n, splitKeys) * s.dim * 8
	par.For(items, max(1, halfGrain/perItem), w.part)
	for h := range s.heads {
		first := h/group*fours*w.splits + h%group/4
		w.join(out.Head(0, h).Row(l), first, fours, h%group%4)
	}
}

// doParts computes items lo to hi−1. Items are ordered so that the next one has the next queries of the same keys,
// which are still in the cache.
func (w *halfWork) doParts(lo, hi int) {
	s, t := w.s, w.kernels.Table
	fours := (s.heads/s.kvHeads + 3) / 4
	for i := lo; i < hi; i++ {
		p := &w.parts[i]
		h, from := i/w.splits/fours, i/fours%w.splits*splitKeys
		queries := w.q[(h*fours+i%fours)*4*s.dim:][:4*s.dim]
		n := min(splitKeys, w.n-from)
		blocks := (n + kern.HalfKeys - 1) / kern.HalfKeys
		keys := s.k[h][from*s.dim : (from+blocks*kern.HalfKeys)*s.dim]
		w.kernels.Model.HalfScores(p.scores, splitKeys, queries, keys, s.dim)
		first := 0 // keys before first have left the window
		if s.window > 0 {
			first = max(0, min(n, w.n-s.window-from))
		}
		clear(p.acc)
		for r := range 4 {
			row := p.scores[r*splitKeys : r*splitKeys+n]
			clear(row[:first])
			p.top[r], p.sum[r] = float32(math.Inf(-1)), 0
			if first < n {
				p.top[r] = t.Max(row[first:])
				p.sum[r] = t.ExpSum(row[first:], p.top[r])
			}
		}
		w.kernels.Model.HalfValues(p.acc, p.scores, splitKeys, s.v[h][from*s.dim:(from+n)*s.dim], s.dim)
	}
}

// join combines the splits of query r of an item: parts[first], and every step-th after it.
func (w *halfWork) join(dst []float32, first, step, r int) {
	top := float32(math.Inf(-1))
	for i := range w.splits {
		top = max(top, w.parts[first+i*step].top[r])
	}
	clear(dst)
	var sum float64
	for i := range w.splits {
		p := &w.parts[first+i*step]
		f := math.Exp(float64(p.top[r] - top))
		if f == 0 {
			continue
		}
		sum += f * float64(p.sum[r])
		w.kernels.Table.MulAdd(dst, p.acc[r*len(dst):(r+1)*len(dst)], float32(f))
	}
	w.kernels.Table.Scale(dst, float32(1/sum))
}

// Len implements State.
func (s *halfState) Len() int { return s.length }

// Bytes implements State.
func (s *halfState) Bytes() int64 {
	var n int64
	for h := range s.k {
		n += 2 * int64(cap(s.k[h])+cap(s.v[h]))
	}
	return n
}

// Report implements State.
func (s *halfState) Report() attention.Report { return s.report }

// Reset implements State.
func (s *halfState) Reset() {
	s.length, s.report = 0, attention.Report{}
	for h := range s.k {
		s.k[h], s.v[h] = nil, nil
	}
}

// Fork implements State. The copy has scratch memory of its own; Session.Fork shares it between layers.
func (s *halfState) Fork() State { return s.fork(newHalfWork(s.work.kernels)) }

func (s *halfState) fork(w *halfWork) *halfState {
	f := newHalf(w, s.heads, s.kvHeads, s.dim, s.window)
	f.length, f.report = s.length, s.report
	for h := range s.k {
		// The last block of keys is written in place, so keys are copied. Values are only appended: the copy has no
		// spare capacity and moves on its first append.
		f.k[h] = append([]uint16(nil), s.k[h]...)
		f.v[h] = s.v[h][:len(s.v[h]):len(s.v[h])]
	}
	return f
}

// AppendBinary implements State: length, key/value heads and dimension, then keys and values by head. The enclosing
// file has the checksum.
func (s *halfState) AppendBinary(b []byte) ([]byte, error) {
	for _, n := range []int{s.length, s.kvHeads, s.dim} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	for h := range s.k {
		for _, x := range [][]uint16{s.k[h], s.v[h]} {
			for _, v := range x {
				b = binary.LittleEndian.AppendUint16(b, v)
			}
		}
	}
	return b, nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (s *halfState) UnmarshalBinary(b []byte) error {
	if len(b) < 24 {
		return errState
	}
	n, h, d := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	b = b[24:]
	if h != uint64(s.kvHeads) || d != uint64(s.dim) || n > uint64(len(b)) {
		return errState
	}
	keys, values := (n+kern.HalfKeys-1)/kern.HalfKeys*kern.HalfKeys*d, n*d
	if (keys+values)*2*h != uint64(len(b)) {
		return errState
	}
	read := func(n uint64) []uint16 {
		x := make([]uint16, n)
		for i := range x {
			x[i] = binary.LittleEndian.Uint16(b[2*i:])
		}
		b = b[2*n:]
		return x
	}
	s.length = int(n)
	for h := range s.k {
		s.k[h], s.v[h] = read(keys), read(values)
	}
	return nil
}
