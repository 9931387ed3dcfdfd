package sampling

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/kernel"
)

// prepare maps a query: its features, scaled so that the largest has modulus 1, and the vector for its scores.
func (s *Sampler[T]) prepare(w *worker[T], q []T) error {
	f := s.m.OutDim()
	x := dense.Matrix[T]{Rows: 1, Cols: len(q), Stride: len(q), Data: q}
	w.e = buf.Shaped(w.e, 1, f)
	if s.m.Signed() {
		w.value = buf.Shaped(w.value, 1, f)
	}
	w.ws.Workers = 1
	if err := s.m.LogQueries(w.e, w.value, w.row[:], x, &w.ws); err != nil {
		return err
	}
	w.phi, w.logs = buf.Sized(w.phi, f), buf.Sized(w.logs, f)
	most := math.Inf(-1)
	for j, e := range w.e.Row(0) {
		w.logs[j] = float64(e) + s.columns.scale[j]
		most = max(most, w.logs[j])
	}
	if math.IsInf(most, -1) {
		most = 0 // a query without features: every estimate is zero
	}
	for j, l := range w.logs {
		w.phi[j] = T(l - most)
	}
	s.tab.Exp(w.phi, 0)
	if s.m.Signed() {
		s.tab.Mul(w.phi, w.value.Row(0))
	}
	w.phiLog = most + w.row[0]
	w.counts = Counts{}
	s.prepareScores(w, q)
	return nil
}

// prepareScores computes the vector whose inner products with classes are their scores, for a softmax kernel.
func (s *Sampler[T]) prepareScores(w *worker[T], q []T) {
	w.inner = buf.Sized(w.inner, len(q))
	gain := s.target.Gain() * s.target.Gain()
	for i := range w.inner {
		if s.inner.IsEmpty() {
			w.inner[i] = T(gain * float64(q[i]))
			continue
		}
		sum := 0.0
		for j, v := range s.inner.Row(i) {
			sum += v * float64(q[j])
		}
		w.inner[i] = T(sum)
	}
	w.query = q
}

// score sets w.scores to log κ of the query and classes lo to hi−1.
func (s *Sampler[T]) score(w *worker[T], lo, hi int) error {
	w.scores = buf.Sized(w.scores, hi-lo)
	rows := s.classes.RowRange(lo, hi)
	if s.target.Kind == kernel.Softmax {
		s.tab.MulV(w.scores, rows, w.inner)
		return nil
	}
	x := dense.Matrix[T]{Rows: 1, Cols: len(w.query), Stride: len(w.query), Data: w.query}
	dst := dense.Matrix[T]{Rows: 1, Cols: hi - lo, Stride: hi - lo, Data: w.scores}
	return kernel.LogGram(s.target, dst, x, rows)
}

// branch returns the probabilities of the two children of a node, given the node. If both estimates are zero or not
// finite, the numbers of classes decide; if all classes below are removed, both are 0.
func (s *Sampler[T]) branch(w *worker[T], node int) (left, right float64) {
	s.tab.MulV(w.pair[:], s.tree.children(node), w.phi)
	a, b := s.clip(w, w.pair[0]), s.clip(w, w.pair[1])
	if sum := a + b; sum > 0 && !math.IsInf(sum, 0) {
		return a / sum, b / sum
	}
	l, r := float64(s.tree.live[2*node]), float64(s.tree.live[2*node+1])
	if l+r == 0 {
		return 0, 0 // all classes below are removed
	}
	w.counts.Lost++
	return l / (l + r), r / (l + r)
}

// clip counts an estimate and replaces a negative one by zero. NaN passes and makes the sum of its node NaN.
func (s *Sampler[T]) clip(w *worker[T], z T) float64 {
	w.counts.Estimates++
	if z < 0 {
		w.counts.Clipped++
		return 0
	}
	return float64(z) // NaN (Inf − Inf) makes the sum NaN, and the numbers of classes decide
}

// inside sets w.weight to the log probabilities of the classes of a block, given the block.
func (s *Sampler[T]) inside(w *worker[T], node int) (first int, err error) {
	first = int(s.tree.block[node]) * s.block
	last := min(first+s.block, s.classes.Rows)
	w.weight = buf.Sized(w.weight, last-first)
	if s.tree.live[node] == 0 {
		for i := range w.weight {
			w.weight[i] = math.Inf(-1)
		}
		return first, nil
	}
	if s.options.Within == ByFeatures {
		return first, s.insideByFeatures(w, node, first, last)
	}
	if err := s.score(w, first, last); err != nil {
		return first, err
	}
	most := math.Inf(-1)
	for i, v := range w.scores {
		if !s.dead[first+i] {
			most = max(most, float64(v))
		}
	}
	sum := 0.0
	for i, v := range w.scores {
		if s.dead[first+i] {
			w.weight[i] = math.Inf(-1)
			continue
		}
		w.weight[i] = float64(v) - most
		sum += math.Exp(w.weight[i])
	}
	sum = math.Log(sum)
	for i := range w.weight {
		w.weight[i] -= sum
	}
	return first, nil
}

// insideByFeatures is inside for ByFeatures: probabilities are proportional to the clipped estimates φ1(q)·φ2(c).
func (s *Sampler[T]) insideByFeatures(w *worker[T], node, first, last int) error {
	phi, err := s.keyFeatures(w, first, last)
	if err != nil {
		return err
	}
	w.scores = buf.Sized(w.scores, last-first)
	s.tab.MulV(w.scores, phi, w.phi)
	sum := 0.0
	for i, z := range w.scores {
		w.weight[i] = 0
		if !s.dead[first+i] {
			w.weight[i] = s.clip(w, z)
			sum += w.weight[i]
		}
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		w.counts.Lost++
		sum = float64(s.tree.live[node])
		for i := range w.weight {
			w.weight[i] = 1
			if s.dead[first+i] {
				w.weight[i] = 0
			}
		}
	}
	for i := range w.weight {
		w.weight[i] = math.Log(w.weight[i] / sum)
	}
	return nil
}
