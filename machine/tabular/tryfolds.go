package tabular

import (
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/linalg"
)

// exactParts say which rows of an exact kernel predict which: where rows are marked by groups or times, a row that is
// left out alone would be told by others of its group, or by its future. Every part is then predicted by a solution of
// those it may learn from, 5/6·(4/5)³·3 or so of the work of leaving every row out: as much.
type exactParts struct {
	of      []int // the part of every row
	n       int   // parts
	ordered bool  // a part learns from those before it, the first is not scored
}

// partsOf are those of some rows of the sample; nil where rows may be left out one by one.
func (j *job) partsOf(s *sample, rows []int) *exactParts {
	if !j.deal.grouped() && !j.deal.ordered() {
		return nil
	}
	p := &exactParts{of: make([]int, len(rows)), n: s.folds(), ordered: s.ordered}
	for i, r := range rows {
		at, found := slices.BinarySearch(s.first, r)
		if !found {
			at--
		}
		for at+1 < len(s.first)-1 && s.first[at+1] == r { // empty parts begin where the next one does
			at++
		}
		p.of[i] = at
	}
	if slices.Min(p.of) == slices.Max(p.of) { // too few rows to have two
		return nil
	}
	return p
}

// rows are those of part k, and those that it learns from.
func (p *exactParts) rows(k int) (held, from []int) {
	for i, at := range p.of {
		switch {
		case at == k:
			held = append(held, i)
		case !p.ordered || at < k:
			from = append(from, i)
		}
	}
	return held, from
}

// scored keeps what belongs to rows that can be predicted: not those of the first part that has any, in order.
func (p *exactParts) scored(loss []float64) []float64 {
	if p == nil || loss == nil || !p.ordered {
		return loss
	}
	out, first := make([]float64, 0, len(loss)), slices.Min(p.of)
	for i, v := range loss {
		if p.of[i] > first {
			out = append(out, v)
		}
	}
	return out
}

// weigh multiplies losses by the weights of the rows that are judged.
func (e *exactTries) weigh(loss []float64) {
	for i := 0; e.roots != nil && i < len(loss); i++ {
		root := e.roots[e.from+i]
		loss[i] *= root * root
	}
}

// heldOut predicts the rows of every part by the others, with penalty λ, into work.loo.
func (e *exactTries) heldOut(work *exactWork, lambda float64) error {
	for k := range e.parts.n {
		held, from := e.parts.rows(k)
		if len(held) == 0 || len(from) == 0 {
			continue
		}
		work.u = buf.Shaped(work.u, len(from), len(from))
		t := dense.New[float64](len(from), e.t.Cols)
		var roots []float64
		for a, i := range from {
			row := work.u.Row(a)
			for b := a; b < len(from); b++ { // from ascends, and k holds its upper triangle
				row[b] = work.k.At(i, from[b])
			}
			copy(t.Row(a), e.t.Row(i))
			if e.roots != nil {
				roots = append(roots, e.roots[i])
			}
		}
		d, err := linalg.SolveDualWeighted(work.u, t, roots, lambda)
		if err != nil {
			return err
		}
		for _, i := range held {
			out := work.loo.Row(i)
			copy(out, d.Intercept)
			for a, j := range from {
				v := work.k.At(min(i, j), max(i, j))
				for c, w := range d.Alpha.Row(a) {
					out[c] += float64(v * w)
				}
			}
		}
	}
	return nil
}
