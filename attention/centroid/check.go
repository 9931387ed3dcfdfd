package centroid

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// specOf returns the spec of key/value head h.
func specOf[S any](specs []S, h int) *S {
	if len(specs) == 1 {
		return &specs[0]
	}
	return &specs[h]
}

// lower appends the settings of specs.
func lower(dst []settings, specs []Spec) []settings {
	for _, s := range specs {
		dst = append(dst, s.settings())
	}
	return dst
}

// checkSpecs returns an error unless there is one valid spec for all heads or one for each, of one method.
func checkSpecs(specs []Spec, heads int) error {
	if len(specs) != 1 && len(specs) != heads {
		return fmt.Errorf("%d specs, want 1 or one per key/value head, %d: %w", len(specs), heads, dense.ErrShape)
	}
	for h, s := range specs {
		if s == nil {
			return fmt.Errorf("head %d has no spec: %w", h, ErrSpec)
		}
		if reflect.TypeOf(s) != reflect.TypeOf(specs[0]) {
			return fmt.Errorf("head %d has a %T and head 0 a %T, use two attentions: %w", h, s, specs[0], ErrSpec)
		}
		if err := s.Validate(); err != nil {
			if len(specs) > 1 {
				return fmt.Errorf("head %d: %w", h, err)
			}
			return err
		}
	}
	return nil
}

// logitScale returns the scale of logits: scale, or 1/√d if it is 0.
func logitScale(scale float64, d int) (float64, error) {
	switch {
	case !dense.IsFinite(scale):
		return 0, fmt.Errorf("scale %v: %w", scale, dense.ErrNotFinite)
	case scale != 0:
		return scale, nil
	}
	return 1 / math.Sqrt(float64(max(1, d))), nil
}

// checkInputs validates the strides and the shapes of the arguments.
func checkInputs(vis *attention.Visibility, out attention.Shape, q, k, v attention.Seq[float32]) error {
	for _, s := range [...]struct {
		name string
		seq  attention.Seq[float32]
	}{{"q", q}, {"k", k}, {"v", v}} {
		if err := s.seq.Check(s.name); err != nil {
			return err
		}
	}
	return vis.CheckShapes(out, q.Shape, k.Shape, v.Shape)
}

// checkFinite returns an error that names the first value that is not finite, among the queries and the keys and values
// that are seen.
func checkFinite(tab *kern.Table[float32], q, k, v attention.Seq[float32], seen []bool) error {
	if err := finite(tab, "q", q, nil); err != nil {
		return err
	}
	if err := finite(tab, "k", k, seen); err != nil {
		return err
	}
	return finite(tab, "v", v, seen)
}

// finiteGrain is the number of elements whose check justifies a goroutine.
const finiteGrain = 1 << 15

// finite checks the positions that counts marks (one entry per batch and position; nil means all). A sum of squares
// detects NaN and infinities quickly, and only then are the columns searched.
func finite(tab *kern.Table[float32], name string, s attention.Seq[float32], counts []bool) error {
	rows, grain := s.Batch*s.Heads*s.Len, 1+finiteGrain/max(1, s.Dim)
	var first int
	if par.Workers(rows, grain) == 1 {
		first = badSeqRow(tab, s, counts, 0, rows)
	} else {
		first = firstBadRow(tab, s, counts, rows, grain)
	}
	if first == rows {
		return nil
	}
	h, l := first/s.Len, first%s.Len
	m := s.Head(h/s.Heads, h%s.Heads)
	c := firstBad(m.Row(l))
	return fmt.Errorf("%s: batch %d, head %d, position %d, column %d is %v: %w", name, h/s.Heads, h%s.Heads, l, c,
		m.At(l, c), dense.ErrNotFinite)
}

// firstBadRow is badSeqRow over all rows, on several goroutines. It returns the first such row whatever the scheduling.
func firstBadRow(tab *kern.Table[float32], s attention.Seq[float32], counts []bool, rows, grain int) int {
	var first atomic.Int64
	first.Store(int64(rows))
	par.For(rows, grain, func(lo, hi int) {
		l := int64(badSeqRow(tab, s, counts, lo, hi))
		for was := first.Load(); l < int64(hi) && l < was && !first.CompareAndSwap(was, l); was = first.Load() {
		}
	})
	return int(first.Load())
}

// badSeqRow is badRow for rows of a sequence, counted head by head.
func badSeqRow(tab *kern.Table[float32], s attention.Seq[float32], counts []bool, lo, hi int) int {
	for lo < hi {
		h, from := lo/s.Len, lo%s.Len
		to := min(s.Len, from+hi-lo)
		var of []bool
		if counts != nil {
			of = counts[h/s.Heads*s.Len:]
		}
		if l := badRow(tab, s.Head(h/s.Heads, h%s.Heads), of, from, to); l < to {
			return lo + l - from
		}
		lo += to - from
	}
	return hi
}

// badRow returns the first of the rows lo to hi−1 that counts and has a value that is not finite, or hi.
func badRow(tab *kern.Table[float32], m dense.Matrix[float32], counts []bool, lo, hi int) int {
	if counts == nil && m.Stride == m.Cols && tab.Finite(m.Data[lo*m.Cols:hi*m.Cols]) {
		return hi
	}
	for l := lo; l < hi; l++ {
		if (counts == nil || counts[l]) && !dense.IsFinite(tab.Norm2(m.Row(l))) && firstBad(m.Row(l)) >= 0 {
			return l
		}
	}
	return hi
}

// firstBad returns the index of the first value that is not finite, or −1.
func firstBad(x []float32) int {
	return slices.IndexFunc(x, func(v float32) bool { return !dense.IsFinite(float64(v)) })
}
