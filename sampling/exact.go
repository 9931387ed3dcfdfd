package sampling

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// Exact draws from the softmax itself, with replacement: it draws from the tree and accepts a class with probability
//
//	κ(q, c) / (bound · φ1(q)·φ2(c))
//
// The bound holds for every class. By the inequality of arithmetic and geometric means φ1(q)·φ2(c) = Σ_f e^{a_f+b_f} ≥
// F e^{ā+b̄}, where ā and b̄ are means over features of the log features a of q and b of c, and log κ(q, c) ≤ |q||c|/τ.
// So
//
//	log bound = |q|·max|c|/τ + max(−b̄) − ā − log F
//
// For unit vectors a draw is rejected about e² = 7 times; the number grows like e^{(|q|+|c|)²/2}. Exact fails once it
// has rejected Request.Tries draws for each one requested. It needs positive features without gates. The first call
// computes the features of all classes once more; updates keep the bound valid.
func (s *Sampler[T]) Exact(dst *Draws, q dense.Matrix[T], r Request) error {
	if err := r.check(s.Len()); err != nil {
		return err
	}
	if r.Distinct {
		return fmt.Errorf("exact draws without replacement: %w", ErrRequest)
	}
	if !s.m.Positive() || s.m.Signed() {
		return fmt.Errorf("exact draws need a family whose features are positive everywhere: %w", ErrRequest)
	}
	if err := s.measure(); err != nil {
		return err
	}
	tries := r.Tries
	tries = cmp.Or(tries, 1000)
	dst.reset(q.Rows, r.K)
	err := s.each(q, r.Workers, dst, func(w *worker[T], i int) error {
		return s.reject(w, dst.IDs[i*r.K:(i+1)*r.K], tries*r.K, rng.Stream(r.Seed, 'e', uint64(r.First+i)))
	})
	dst.LogProb, dst.LogCount = nil, nil
	return err
}

// reject draws until all ids are accepted.
func (s *Sampler[T]) reject(w *worker[T], ids []int, limit int, src rand.Source) error {
	var some Draws
	some.reset(1, 16)
	log, total := s.logBound(w)
	for n, tried := 0, 0; n < len(ids); {
		if tried >= limit {
			return fmt.Errorf("%d of %d exact draws after %d tries (the bound allows e^%.1f rejections a draw): "+
				"normalise the rows, raise the temperature or weigh draws instead: %w", n, len(ids), tried,
				log, ErrRequest)
		}
		some.reset(1, 16)
		if err := s.drawOne(w, some, src); err != nil {
			return err
		}
		for j, id := range some.IDs {
			tried++
			if err := s.score(w, id, id+1); err != nil {
				return err
			}
			accept := float64(w.scores[0]) - some.LogProb[j] - total - log
			if math.Log(rng.Open(src)) >= accept {
				continue
			}
			ids[n] = id
			if n++; n == len(ids) {
				break
			}
		}
		w.tried += len(some.IDs)
	}
	return nil
}

// logBound returns the log bound for the prepared query, and log φ1(q)·Σφ2(c).
func (s *Sampler[T]) logBound(w *worker[T]) (log, total float64) {
	mean := 0.0
	for j, l := range w.logs {
		mean += (l - s.columns.scale[j]) / float64(len(w.logs))
	}
	mean += w.row[0]
	if s.target.Kind == kernel.Softmax {
		log = math.Sqrt(s.tab.Norm2(w.inner)) * s.bound.radius
	}
	log += s.bound.deficit - mean - math.Log(float64(len(w.logs)))
	var z [1]T
	root := dense.Matrix[T]{Rows: 1, Cols: s.tree.f, Stride: s.tree.f, Data: s.tree.sum(1)}
	s.tab.MulV(z[:], root, w.phi)
	return log, math.Log(float64(z[0])) + w.phiLog
}

// measure computes the bound over all classes, once. Concurrent calls of Exact wait for it.
func (s *Sampler[T]) measure() error {
	s.bound.mu.Lock()
	defer s.bound.mu.Unlock()
	if s.bound.ready {
		return nil
	}
	s.bound.radius, s.bound.deficit = 0, math.Inf(-1)
	crew := s.crews.Get()
	defer s.crews.Put(crew)
	crew.Hire(1)
	for lo := 0; lo < s.classes.Rows; lo += chunkRows {
		if err := s.include(crew.Workers[0], lo, min(lo+chunkRows, s.classes.Rows)); err != nil {
			return err
		}
	}
	s.bound.ready = true
	return nil
}

// raise includes changed classes in the bound, if it has been computed.
func (s *Sampler[T]) raise(w *worker[T], ids []int) error {
	if !s.bound.ready {
		return nil
	}
	for _, id := range ids {
		if err := s.include(w, id, id+1); err != nil {
			return err
		}
	}
	return nil
}

// include raises the bound to cover classes lo to hi−1.
func (s *Sampler[T]) include(w *worker[T], lo, hi int) error {
	w.keys = buf.Shaped(w.keys, hi-lo, s.m.OutDim())
	w.shift = buf.Sized(w.shift, hi-lo)
	w.ws.Workers = 1
	rows := s.classes.RowRange(lo, hi)
	if err := s.m.LogKeys(w.keys, dense.Matrix[T]{}, w.shift, rows, &w.ws); err != nil {
		return err
	}
	for i := range hi - lo {
		if s.dead[lo+i] {
			continue
		}
		mean := 0.0
		for _, e := range w.keys.Row(i) {
			mean += float64(e) / float64(w.keys.Cols)
		}
		s.bound.raise(s.tab.Norm2(rows.Row(i)), mean+w.shift[i])
	}
	return nil
}
