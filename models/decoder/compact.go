package decoder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// ErrCompact means that a session cannot be compacted.
var ErrCompact = errors.New("the session cannot be compacted")

const (
	// recentQueries is the number of last positions whose queries are kept.
	recentQueries = 256
	// sampleQueries is the number of example queries of a key/value head from the last positions, and again from all
	// positions.
	sampleQueries = 768
	// futureOffsets is the number of positions after the context that examples are rotated to.
	futureOffsets = 512
)

// references keeps queries of a text as examples of the queries to come, for [Session.Compact]. It has the queries
// of the last positions in a ring, and those of a uniform sample of all positions: the positions with the smallest
// hashes. The sample depends on positions only, so it is the same however the text is cut into steps.
type references struct {
	first, length int // positions seen: first to length−1
	width, sample int
	recent, all   [][]float32 // per layer: [place][width], of the ring and of the sample
	places        []place     // positions in the sample
	largest       int         // index of the largest hash in places: the next one to go
	writes        []write     // rows of the current step that enter the sample
}

// place is a position in the sample.
type place struct {
	hash     uint64
	position int
}

// write says that row of the current step goes to a place of the sample.
type write struct{ row, place int }

// splitmix hashes positions (SplitMix64, Steele et al. 2014).
func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// KeepQueries makes the session keep examples of its queries from now on, which Compact needs. It keeps the queries
// of at most 512 tokens per layer.
func (s *Session) KeepQueries() {
	c := &s.model.config
	group := c.Heads / c.KVHeads
	r := &references{first: s.length, length: s.length, width: c.Heads * c.HeadDim,
		sample: min(recentQueries, (sampleQueries+group-1)/group)}
	for range s.states {
		r.recent = append(r.recent, make([]float32, recentQueries*r.width))
		r.all = append(r.all, make([]float32, r.sample*r.width))
	}
	s.queries = r
}

// begin decides which of the next n positions enter the sample. All layers of the step then record the same rows.
func (r *references) begin(n int) {
	r.writes = r.writes[:0]
	for i := range n {
		p := place{splitmix(uint64(r.length + i)), r.length + i}
		switch {
		case len(r.places) < r.sample:
			r.places = append(r.places, p)
			r.writes = append(r.writes, write{i, len(r.places) - 1})
		case p.hash < r.places[r.largest].hash:
			r.places[r.largest] = p
			r.writes = append(r.writes, write{i, r.largest})
		default:
			continue
		}
		r.largest = 0
		for j, q := range r.places {
			if q.hash > r.places[r.largest].hash {
				r.largest = j
			}
		}
	}
	r.length += n
}

// record keeps queries of one layer, for the positions of the last begin.
func (r *references) record(layer int, q nn.Matrix) {
	for _, w := range r.writes {
		copy(r.all[layer][w.place*r.width:], q.Row(w.row))
	}
	for i := max(0, q.Rows-recentQueries); i < q.Rows; i++ {
		at := (r.length - q.Rows + i) % recentQueries
		copy(r.recent[layer][at*r.width:], q.Row(i))
	}
}

func (r *references) clone() *references {
	if r == nil {
		return nil
	}
	c := *r
	c.places, c.writes = slices.Clone(r.places), nil
	c.recent, c.all = nil, nil
	for l := range r.all {
		c.recent = append(c.recent, slices.Clone(r.recent[l]))
		c.all = append(c.all, slices.Clone(r.all[l]))
	}
	return &c
}

// example is a kept query of all heads, with the rotation to a later position.
type example struct {
	recent   bool
	place    int
	cos, sin []float32
}

// examples returns the sample and as many of the last positions, chosen by hash. Each is assigned one of the
// futureOffsets positions after the context: later queries see the keys from there. Rotary positions only depend on
// the difference, so rotating a query further moves it to that position.
func (r *references) examples(freqs []float64) []example {
	var list []example
	add := func(recent bool, place, position int) {
		salt := uint64(1) << 32
		if recent {
			salt <<= 1
		}
		to := r.length + int(splitmix(salt+uint64(position))%futureOffsets)
		e := example{recent: recent, place: place}
		for _, f := range freqs {
			sin, cos := math.Sincos(float64(to-position) * f)
			e.sin, e.cos = append(e.sin, float32(sin)), append(e.cos, float32(cos))
		}
		list = append(list, e)
	}
	for i, p := range r.places {
		add(false, i, p.position)
	}
	var last []place
	for p := max(r.first, r.length-recentQueries); p < r.length; p++ {
		last = append(last, place{splitmix(uint64(p)), p})
	}
	slices.SortFunc(last, func(a, b place) int {
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	for _, p := range last[:min(r.sample, len(last))] {
		add(true, p.position%recentQueries, p.position)
	}
	return list
}

// keeper is a state that has all keys and values of its heads. Only such states can be compacted.
type keeper interface {
	State
	head(h int) (k, v nn.Matrix)
	// keep returns the state of key/value heads lo to hi−1 alone. It may take over their memory.
	keep(lo, hi int) State
}

// Compact replaces the exact state of every key/value head by budget(layer, head) slots, see [centroid.Compact]. A
// head whose budget is all tokens or more stays exact. Later tokens are remembered exactly.
//
// The session must have kept its queries. No layer may have a sliding window or an approximate state. After an error
// the session is unchanged. The result is the same at any number of processors.
func (s *Session) Compact(budget func(layer, head int) int) error {
	c, r := &s.model.config, s.queries
	switch {
	case s.length == 0:
		return fmt.Errorf("no tokens: %w", ErrCompact)
	case r == nil || r.length == r.first:
		return fmt.Errorf("it has kept no queries: call KeepQueries before the text is read: %w", ErrCompact)
	case c.SlidingWindow > 0:
		return fmt.Errorf("the model has a sliding window of %d tokens: %w", c.SlidingWindow, ErrCompact)
	}
	for l, st := range s.states {
		if _, ok := st.(keeper); !ok {
			return fmt.Errorf("layer %d does not keep all keys: %w", l, ErrCompact)
		}
	}
	examples := r.examples(c.RopeFreqs)
	// Heads are compacted independently on all processors. A head that stays exact keeps a zero CompactHead.
	heads := make([]centroid.CompactHead, len(s.states)*c.KVHeads)
	errs := make([]error, len(heads))
	par.Each(len(heads), par.Workers(len(heads), 1), func(_, i int) {
		l, h := i/c.KVHeads, i%c.KVHeads
		if t := budget(l, h); t < s.length {
			k, v := s.states[l].(keeper).head(h)
			heads[i], errs[i] = centroid.Compact(k, v, s.headExamples(examples, l, h), 0, t)
		}
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("layer %d, key/value head %d: %w", i/c.KVHeads, i%c.KVHeads, err)
		}
	}
	states := make([]State, len(s.states))
	for l := range states {
		st, err := s.compacted(s.states[l].(keeper), heads[l*c.KVHeads:(l+1)*c.KVHeads])
		if err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		states[l] = st
	}
	s.states, s.queries = states, nil
	return nil
}

// compacted builds the state of a layer: runs of neighbouring heads with slots, and runs that stay exact because
// their CompactHead is empty.
func (s *Session) compacted(st keeper, heads []centroid.CompactHead) (State, error) {
	group := s.model.config.Heads / s.model.config.KVHeads
	p := &partState{group: group}
	for lo := 0; lo < len(heads); {
		hi, exact := lo+1, heads[lo].Bias == nil
		for hi < len(heads) && (heads[hi].Bias == nil) == exact {
			hi++
		}
		if exact && hi-lo == len(heads) {
			return st, nil
		}
		if exact {
			p.add(hi-lo, st.keep(lo, hi), true)
		} else {
			c, err := centroid.NewCompacted(heads[lo:hi], group*(hi-lo), s.length, 0)
			if err != nil {
				return nil, err
			}
			p.add(hi-lo, c, false)
		}
		lo = hi
	}
	if len(p.states) == 1 {
		return p.states[0], nil
	}
	return p, nil
}

// headExamples returns the rotated example queries of all query heads that share a key/value head.
func (s *Session) headExamples(list []example, layer, kvHead int) nn.Matrix {
	c, r := &s.model.config, s.queries
	group, d := c.Heads/c.KVHeads, c.HeadDim
	q := nn.Matrix{Rows: len(list) * group, Cols: d, Stride: d, Data: make([]float32, len(list)*group*d)}
	for i, e := range list {
		from := r.all[layer]
		if e.recent {
			from = r.recent[layer]
		}
		rows := q.Data[i*group*d : (i+1)*group*d]
		copy(rows, from[e.place*r.width+kvHead*group*d:])
		for g := range group {
			x := rows[g*d : (g+1)*d]
			s.work.k.Model.Rotate(x[:d/2], x[d/2:], e.cos, e.sin)
		}
	}
	return q
}

// mixedMagic begins a saved layer in which some heads have slots and others all keys.
const mixedMagic = "randfeat mixed 1"

// IsCompacted reports whether b begins like the state of a layer that Compact made.
func IsCompacted(b []byte) bool {
	return centroid.IsCompacted(b) || len(b) >= len(mixedMagic) && string(b[:len(mixedMagic)]) == mixedMagic
}

// ReadCompacted reads the state of a layer of a compacted session, written by its AppendBinary.
func (m *Model) ReadCompacted(b []byte) (State, error) {
	c := &m.config
	group := c.Heads / c.KVHeads
	if centroid.IsCompacted(b) {
		return readSlots(b, c.KVHeads, group, c.HeadDim)
	}
	if len(b) < len(mixedMagic) || string(b[:len(mixedMagic)]) != mixedMagic {
		return nil, errState
	}
	b = b[len(mixedMagic):]
	p := &partState{group: group}
	exact := m.exactHeads()
	total := 0
	for total < c.KVHeads {
		if len(b) < 17 {
			return nil, errState
		}
		heads, n, kept := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[16] == 1
		b = b[17:]
		if heads < 1 || heads > uint64(c.KVHeads-total) || n > uint64(len(b)) {
			return nil, errState
		}
		var st State
		var err error
		if kept {
			st = exact(int(heads)*group, int(heads))
			err = st.(interface{ UnmarshalBinary([]byte) error }).UnmarshalBinary(b[:n])
		} else {
			st, err = readSlots(b[:n], int(heads), group, c.HeadDim)
		}
		if err != nil {
			return nil, err
		}
		if total > 0 && st.Len() != p.Len() {
			return nil, errState
		}
		p.add(int(heads), st, kept)
		total, b = total+int(heads), b[n:]
	}
	if len(b) != 0 {
		return nil, errState
	}
	return p, nil
}

// readSlots reads a state in which all heads have slots.
func readSlots(b []byte, kvHeads, group, dim int) (State, error) {
	st, err := centroid.ReadCompacted(b, 0, attention.Shape{Batch: 1, Heads: group * kvHeads, Dim: dim},
		attention.Shape{Batch: 1, Heads: kvHeads, Dim: dim})
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (s *exactState) keep(lo, hi int) State {
	group := s.heads / s.kvHeads
	f := newExact(group*(hi-lo), hi-lo, s.dim, s.window)
	f.length = s.length
	row := s.kvHeads * s.dim
	for at := 0; at < len(s.k); at += row {
		f.k = append(f.k, s.k[at+lo*s.dim:at+hi*s.dim]...)
		f.v = append(f.v, s.v[at+lo*s.dim:at+hi*s.dim]...)
	}
	return f
}

func (s *halfState) keep(lo, hi int) State {
	f := newHalf(s.work, s.heads/s.kvHeads*(hi-lo), hi-lo, s.dim, s.window)
	f.length = s.length
	copy(f.k, s.k[lo:hi])
	copy(f.v, s.v[lo:hi])
	return f
}

func (s *exactState) head(h int) (k, v nn.Matrix) {
	row := s.kvHeads * s.dim
	k = nn.Matrix{Rows: s.length, Cols: row, Stride: row, Data: s.k}
	v = nn.Matrix{Rows: s.length, Cols: row, Stride: row, Data: s.v}
	return k.ColRange(h*s.dim, (h+1)*s.dim), v.ColRange(h*s.dim, (h+1)*s.dim)
}

func (s *halfState) head(h int) (k, v nn.Matrix) {
	k = nn.Matrix{Rows: s.length, Cols: s.dim, Stride: s.dim, Data: make([]float32, s.length*s.dim)}
	v = nn.Matrix{Rows: s.length, Cols: s.dim, Stride: s.dim, Data: make([]float32, s.length*s.dim)}
	for at := range s.length {
		s.widen(h, at, k.Row(at), v.Row(at))
	}
	return k, v
}
