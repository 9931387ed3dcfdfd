package encoder

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
	"github.com/randfeat/randfeat/models/weights"
)

// relative is the attention of MPNet (Song et al. 2020, arXiv:2004.09297): softmax(q·k/√d + b). The bias b of a head
// depends only on the distance between key and query. All layers share the biases.
type relative struct {
	kernels nn.Kernels
	length  int         // tokens of the longest sequence
	bias    [][]float32 // [head][distance + length − 1], for key minus query from −length+1 to length−1
	works   par.Pool[relativeWork]
}

// relativeWork is the scratch memory of one head of one sequence.
type relativeWork struct {
	keys, values kern.Panel[float32]
	scores       []float32
}

// relativeRows is the number of queries of a head that are computed together.
const relativeRows = 64

// maxDistance is the distance from which on all keys share the last bucket (transformers, modeling_mpnet.py).
const maxDistance = 128

// bucket returns the bucket of a distance, key minus query. One half of the buckets is for keys after the query, the
// other for the query itself and keys before it. In each half, the first half has one bucket per distance, and the
// sizes of the others grow by a constant factor.
func bucket(distance, buckets int) int {
	half, first := buckets/2, 0
	if distance > 0 {
		first = half
	} else {
		distance = -distance
	}
	exact := half / 2
	if distance < exact {
		return first + distance
	}
	// The reference computes in float32 and truncates.
	far := float32(math.Log(float64(float32(distance)/float32(exact)))) / float32(math.Log(maxDistance/float64(exact)))
	return first + min(exact+int(far*float32(half-exact)), half-1)
}

// newRelative expands the table of buckets to one bias per distance.
func newRelative(k nn.Kernels, c *weights.Config, l *nn.Loader) (*relative, error) {
	if c.RelativeBucket < 4 || c.RelativeBucket/4 >= maxDistance {
		return nil, fmt.Errorf("%s: %d buckets of relative positions, want 4 to %d: %w", l.File.Path(),
			c.RelativeBucket, 4*maxDistance-1, weights.ErrFormat)
	}
	table := l.Floats("encoder.relative_attention_bias.weight", c.RelativeBucket, c.Heads)
	if l.Err != nil {
		return nil, l.Err
	}
	r := &relative{kernels: k, length: c.MaxPositions}
	for h := range c.Heads {
		row := make([]float32, 2*r.length-1)
		for i := range row {
			row[i] = table[bucket(i-r.length+1, c.RelativeBucket)*c.Heads+h]
		}
		r.bias = append(r.bias, row)
	}
	return r, nil
}

// attend computes all heads within each of the sequences that segments separates, one item of work per sequence and
// head.
func (r *relative) attend(_ int, out, q, k, v attention.Seq[float32], segments []int32) error {
	var ends []int
	for i := range segments {
		if i+1 == len(segments) || segments[i] != segments[i+1] {
			ends = append(ends, i+1)
		}
	}
	nn.Rows(len(ends)*q.Heads, 1, func(lo, hi int) {
		w := r.works.Get()
		defer r.works.Put(w)
		for item := lo; item < hi; item++ {
			s, h, from := item/q.Heads, item%q.Heads, 0
			if s > 0 {
				from = ends[s-1]
			}
			part := func(x attention.Seq[float32]) dense.Matrix[float32] { return x.Head(0, h).RowRange(from, ends[s]) }
			r.head(w, r.bias[h], part(out), part(q), part(k), part(v))
		}
	})
	return nil
}

// head computes one head of one sequence. The biases of query i are bias[length−1−i:], because the distance grows
// with the key.
func (r *relative) head(w *relativeWork, bias []float32, out, q, k, v nn.Matrix) {
	t, n := r.kernels.Table, k.Rows
	t.Pack(&w.keys, k)
	t.PackT(&w.values, v)
	scale := float32(1 / math.Sqrt(float64(q.Cols)))
	for i := 0; i < n; i += relativeRows {
		end := min(i+relativeRows, n)
		p := shaped(&w.scores, end-i, n)
		t.MulT(p, q.RowRange(i, end), &w.keys, nil)
		var sums [relativeRows]float32
		for j := range p.Rows {
			row := p.Row(j)
			t.Scale(row, scale)
			t.MulAdd(row, bias[r.length-1-i-j:][:n], 1)
			sums[j] = t.ExpSum(row, t.Max(row))
		}
		o := out.RowRange(i, end)
		t.MulT(o, p, &w.values, nil)
		for j := range o.Rows {
			t.Scale(o.Row(j), 1/sums[j])
		}
	}
}
