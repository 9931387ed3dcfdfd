package decoder

import (
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/internal/nn"
)

// ExactState is the state of float32 models.
func ExactState(heads, kvHeads, dim, window int) State { return newExact(heads, kvHeads, dim, window) }

// HalfState is the state of quantised models.
func HalfState(heads, kvHeads, dim, window int) State {
	k, err := nn.Chosen()
	if err != nil {
		panic(err)
	}
	return newHalf(newHalfWork(k), heads, kvHeads, dim, window)
}

// FutureQueries are the rotated queries that Compact uses for a key/value head, and the number of the recent ones.
func FutureQueries(s *Session, layer, kvHead int) (q nn.Matrix, recent int) {
	list := s.queries.examples(s.model.config.RopeFreqs)
	for _, e := range list {
		if e.recent {
			recent++
		}
	}
	return s.headExamples(list, layer, kvHead), recent
}

// Kept is the query of a layer's first heads at a recent position, as the model computed it.
func Kept(s *Session, layer, position int) []float32 {
	return s.queries.recent[layer][position%recentQueries*s.queries.width:]
}

// SinksAndWindow keeps only the first four and the last keys of a context, n in all: the baseline of Compact.
func SinksAndWindow(s *Session, n int) error {
	c := &s.model.config
	for l, st := range s.states {
		var heads []centroid.CompactHead
		for h := range c.KVHeads {
			k, v := st.(keeper).head(h)
			x := centroid.CompactHead{Keys: dense.New[float32](n, c.HeadDim),
				Values: dense.New[float32](n, c.HeadDim), Bias: make([]float32, n)}
			for j := range n {
				from := j
				if j >= 4 {
					from = k.Rows - n + j
				}
				copy(x.Keys.Row(j), k.Row(from))
				copy(x.Values.Row(j), v.Row(from))
			}
			heads = append(heads, x)
		}
		st, err := centroid.NewCompacted(heads, c.Heads, s.length, 0)
		if err != nil {
			return err
		}
		s.states[l] = st
	}
	return nil
}

// Hash is that of a position in the sample.
func Hash(position int) uint64 { return splitmix(uint64(position)) }

// SamplePositions is the sample of n positions that are read some at a time.
func SamplePositions(n, step, size int) []int {
	r := references{sample: size}
	for lo := 0; lo < n; lo += step {
		r.begin(min(step, n-lo))
	}
	var list []int
	for _, p := range r.places {
		list = append(list, p.position)
	}
	return list
}

// RecentExamples are the positions of the recent examples of a session that has kept queries from position first to
// n−1, read some at a time. Every query is its own position.
func RecentExamples(first, n, step, sample int) []int {
	r := references{first: first, length: first, width: 1, sample: sample,
		recent: [][]float32{make([]float32, recentQueries)}, all: [][]float32{make([]float32, sample)}}
	for lo := first; lo < n; lo += step {
		q := dense.New[float32](min(step, n-lo), 1)
		for i := range q.Rows {
			q.Row(i)[0] = float32(lo + i)
		}
		r.begin(q.Rows)
		r.record(0, q)
	}
	var list []int
	for _, e := range r.examples(nil) {
		if e.recent {
			list = append(list, int(r.recent[0][e.place]))
		}
	}
	return list
}

// Divergence is the mean of KL(p‖q) over rows.
func Divergence(p, q nn.Matrix) float64 { return divergence(p, q) }
