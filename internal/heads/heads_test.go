package heads

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

// stats of one head.
type stats struct{ logit, keys, top16, first, near, column, uniform, window float64 }

// statistics by definition.
func statistics(q, k, v dense.Matrix[float64]) stats {
	n := q.Rows
	var s stats
	mean := make([]float64, v.Cols)
	for j := range n {
		for c, x := range v.Row(j) {
			mean[c] += x / float64(n)
		}
	}
	var norm, uniform, window float64
	columns := make([]float64, n)
	for i := range n {
		p := make([]float64, n)
		sum, sum2, top := 0.0, 0.0, math.Inf(-1)
		for j := range n {
			p[j] = dense.Dot(q.Row(i), k.Row(j)) / math.Sqrt(float64(q.Cols))
			columns[j] += p[j] / float64(n)
			sum += p[j]
			sum2 += p[j] * p[j]
			top = max(top, p[j])
		}
		s.logit += math.Sqrt(sum2/float64(n)-sum*sum/float64(n*n)) / float64(n)
		total := 0.0
		for j := range p {
			p[j] = math.Exp(p[j] - top)
			total += p[j]
		}
		entropy := 0.0
		o, w, mass := make([]float64, v.Cols), make([]float64, v.Cols), 0.0
		for j := range p {
			p[j] /= total
			if p[j] > 0 {
				entropy -= p[j] * math.Log(p[j])
			}
			near := j >= i-64 && j <= i+64
			if near {
				mass += p[j]
			}
			if j >= i-16 && j <= i+16 {
				s.near += p[j] / float64(n)
			}
			for c, x := range v.Row(j) {
				o[c] += p[j] * x
				if near {
					w[c] += p[j] * x
				}
			}
		}
		s.keys += math.Exp(entropy) / float64(n)
		s.first += p[0] / float64(n)
		for c := range o {
			norm += o[c] * o[c]
			uniform += (mean[c] - o[c]) * (mean[c] - o[c])
			window += (w[c]/mass - o[c]) * (w[c]/mass - o[c])
		}
		slices.Sort(p)
		for _, x := range p[n-16:] {
			s.top16 += x / float64(n)
		}
	}
	sum, sum2 := 0.0, 0.0
	for _, c := range columns {
		sum += c
		sum2 += c * c
	}
	s.column = math.Sqrt(sum2/float64(n) - sum*sum/float64(n*n))
	s.uniform, s.window = math.Sqrt(uniform/norm), math.Sqrt(window/norm)
	return s
}

// The medians over heads are near those of a sentence encoder (all-MiniLM-L6-v2, 72 heads, texts of 512 tokens), whose
// logits deviate by 1.6 and whose queries meet 122 effective keys, e^entropy; the best 16 keys hold 47 % of the
// attention, the first 9 %, the 33 nearest 17 %; the mean logits of keys deviate by 1.0; the mean of all values is
// wrong by 76 %, the nearest 129 keys alone by 43 %. Heads differ as they do there.
func TestStatistics(t *testing.T) {
	const n = 24
	q, k, v := Generate[float64](n, 512, 32, 1)
	all := make([][]float64, 8)
	for h := range n {
		s := statistics(q.Head(0, h), k.Head(0, h), v.Head(0, h))
		for i, x := range []float64{s.logit, s.keys, s.top16, s.first, s.near, s.column, s.uniform, s.window} {
			all[i] = append(all[i], x)
		}
	}
	for i, c := range []struct {
		name             string
		low, high        float64 // of the median
		smallest, larger float64 // limits for the smallest and the largest head
	}{
		{"deviation of logits", 1.4, 1.9, 1.3, 2.2}, {"effective keys", 95, 150, 60, 200},
		{"best 16", 0.4, 0.54, 0.3, 0.6},
		{"first", 0.03, 0.12, 0.02, 0.1}, {"nearest", 0.12, 0.25, 0.1, 0.4}, {"mean logits", 0.8, 1.2, 0.8, 1.2},
		{"mean of values", 0.55, 0.8, 0.5, 0.7}, {"window", 0.35, 0.52, 0.35, 0.5},
	} {
		slices.Sort(all[i])
		median := (all[i][n/2-1] + all[i][n/2]) / 2
		t.Logf("%s: %.3g, %.3g to %.3g", c.name, median, all[i][0], all[i][n-1])
		if median < c.low || median > c.high || all[i][0] > c.smallest || all[i][n-1] < c.larger {
			t.Errorf("%s: median %.3g of %.3g to %.3g, want %v to %v", c.name, median, all[i][0], all[i][n-1], c.low,
				c.high)
		}
	}
}

// A head is the same function of a text whatever else is generated, and texts differ.
func TestGenerate(t *testing.T) {
	q, k, v := Generate[float32](3, 64, 24, 7, 8)
	q1, k1, v1 := Generate[float32](2, 64, 24, 8)
	for h := range 2 {
		if !slices.Equal(q.Head(1, h).Data, q1.Head(0, h).Data) ||
			!slices.Equal(k.Head(1, h).Data, k1.Head(0, h).Data) ||
			!slices.Equal(v.Head(1, h).Data, v1.Head(0, h).Data) || slices.Equal(q.Head(0, h).Data, q.Head(1, h).Data) {
			t.Errorf("head %d", h)
		}
	}
}
