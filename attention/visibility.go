package attention

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// Visibility says which keys a query sees. With the zero value every query sees all keys. Methods do not change it, so
// calls that run at the same time may share one.
type Visibility struct {
	// Causal lets query i see the keys up to its own position. With more keys than queries the last ones are aligned:
	// query i sees key j if j ≤ i + (keys − queries), within each segment.
	Causal bool
	// KeyMask has one entry per batch and key position (batch major), false for padding. nil means that all keys count.
	KeyMask []bool
	// Segments has one id of a packed sequence per batch and query position: a query sees only keys with its own id.
	// Equal ids must be neighbours. KeySegments has the ids of the keys; nil means that they equal Segments.
	Segments, KeySegments []int32
}

// Span is one packed sequence of a batch: queries [Q0, Q1) see keys [K0, K1). Their last positions are aligned.
type Span struct{ Q0, Q1, K0, K1 int }

// check validates v for the given shapes.
func (v *Visibility) check(batch, lenQ, lenK int) error {
	if v.KeyMask != nil && len(v.KeyMask) != batch*lenK {
		return fmt.Errorf("the key mask has %d entries for %d×%d keys: %w", len(v.KeyMask), batch, lenK, dense.ErrShape)
	}
	if v.Segments == nil {
		if v.KeySegments != nil {
			return fmt.Errorf("key segments without query segments: %w", dense.ErrShape)
		}
		return nil
	}
	if len(v.Segments) != batch*lenQ {
		return fmt.Errorf("%d segment ids for %d×%d queries: %w", len(v.Segments), batch, lenQ, dense.ErrShape)
	}
	if n := len(v.keySegments()); n != batch*lenK {
		return fmt.Errorf("%d segment ids for %d×%d keys: %w", n, batch, lenK, dense.ErrShape)
	}
	for b := range batch {
		for _, side := range []struct {
			name string
			ids  []int32
		}{{"query", v.Segments[b*lenQ : (b+1)*lenQ]}, {"key", v.keySegments()[b*lenK : (b+1)*lenK]}} {
			if i := secondRun(side.ids); i >= 0 {
				return fmt.Errorf("batch %d, %s %d: segment %d begins a second time; equal ids must be neighbours: %w",
					b, side.name, i, side.ids[i], dense.ErrShape)
			}
		}
	}
	return nil
}

// secondRun is the position where an id recurs after a different one, or −1. Increasing ids, the usual case, need no
// map.
func secondRun(ids []int32) int {
	var seen map[int32]bool
	for i, id := range ids {
		if i == 0 || ids[i-1] == id || (seen == nil && id > ids[i-1]) {
			continue
		}
		if seen == nil {
			seen = make(map[int32]bool)
			for _, before := range ids[:i] {
				seen[before] = true
			}
		}
		if seen[id] {
			return i
		}
		seen[id] = true
	}
	return -1
}

// keySegments are the segment ids of the keys.
func (v *Visibility) keySegments() []int32 {
	if v.KeySegments != nil {
		return v.KeySegments
	}
	return v.Segments
}

// Spans appends the packed sequences of one batch to dst, in the order of the queries; without Segments there is one. A
// span whose id has no keys is empty on the key side. Keys that no query sees are in no span.
func (v *Visibility) Spans(dst []Span, b, lenQ, lenK int) []Span {
	if v.Segments == nil {
		return append(dst, Span{0, lenQ, 0, lenK})
	}
	qs, ks := v.Segments[b*lenQ:(b+1)*lenQ], v.keySegments()[b*lenK:(b+1)*lenK]
	same := v.KeySegments == nil
	for q0 := 0; q0 < lenQ; {
		q1 := q0 + run(qs[q0:])
		s := Span{q0, q1, q0, q1}
		if !same {
			s.K0, s.K1 = 0, 0
			if k := slices.Index(ks, qs[q0]); k >= 0 {
				s.K0, s.K1 = k, k+run(ks[k:])
			}
		}
		dst = append(dst, s)
		q0 = q1
	}
	return dst
}

// run is the number of equal ids at the front.
func run(ids []int32) int {
	n := 1
	for n < len(ids) && ids[n] == ids[0] {
		n++
	}
	return n
}

// MaskOf is the part of KeyMask for one batch of lenK keys, or nil.
func (v *Visibility) MaskOf(b, lenK int) []bool {
	if v.KeyMask == nil {
		return nil
	}
	return v.KeyMask[b*lenK : (b+1)*lenK]
}

// SeenKeys marks the keys that count, one entry per batch and key. Keys that are masked or in a segment without a query
// do not count. It returns nil if all keys count. It may reuse the memory of dst.
func (v *Visibility) SeenKeys(dst []bool, batch, lenQ, lenK int) []bool {
	if v.KeySegments == nil {
		return v.KeyMask
	}
	dst = buf.Sized(dst, batch*lenK)
	for b := range batch {
		for j := b * lenK; j < (b+1)*lenK; {
			end := j + run(v.KeySegments[j:(b+1)*lenK])
			asked := slices.Contains(v.Segments[b*lenQ:(b+1)*lenQ], v.KeySegments[j])
			for ; j < end; j++ {
				dst[j] = asked && (v.KeyMask == nil || v.KeyMask[j])
			}
		}
	}
	return dst
}

// Keys returns the half-open range of keys that query i of batch b sees, masked keys included, and the position of the
// query among the keys. That position may lie outside the keys.
func (v *Visibility) Keys(b, i, lenQ, lenK int) (lo, hi, at int) {
	for _, s := range v.Spans(nil, b, lenQ, lenK) {
		if i >= s.Q0 && i < s.Q1 {
			bd := band{Span: s, causal: v.Causal}
			lo, hi = bd.keys(i - s.Q0)
			return s.K0 + lo, s.K0 + hi, i - s.Q1 + s.K1
		}
	}
	return 0, 0, 0
}

// band says which keys of a span its queries see. Invariant: both ends of the range of query i are non-decreasing in i,
// and both ends of the range of key j in j. Blocked loops rely on it: the keys of a tile lie between the range of its
// first query and the range of its last.
type band struct {
	Span
	causal bool
	window int // see Exact.Window; 0 means no limit
}

// keys is the half-open range of keys that query i of the span sees; queries and keys are counted from the start of the
// span. With p the position of query i, last query aligned with last key, it is [p−window+1, p+1) if causal and
// [p−window+1, p+window) otherwise, cut to the span.
func (b *band) keys(i int) (lo, hi int) {
	n := b.K1 - b.K0
	p := i + n - (b.Q1 - b.Q0)
	lo, hi = 0, n
	if b.causal {
		hi = p + 1
	} else if b.window > 0 {
		hi = p + b.window
	}
	if b.window > 0 {
		lo = p - b.window + 1
	}
	hi = min(max(hi, 0), n)
	return min(max(lo, 0), hi), hi
}

// queries is the inverse of keys: the smallest range that contains every query which sees one of the keys [j0, j1).
func (b *band) queries(j0, j1 int) (lo, hi int) {
	n := b.Q1 - b.Q0
	off := b.K1 - b.K0 - n
	lo, hi = 0, n
	if b.causal {
		lo = j0 - off
	} else if b.window > 0 {
		lo = j0 - off - b.window + 1
	}
	if b.window > 0 {
		hi = j1 - off + b.window - 1
	}
	hi = min(max(hi, 0), n)
	return min(max(lo, 0), hi), hi
}
