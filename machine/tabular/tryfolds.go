package tabular

import (
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/linalg"
)

// exactParts says which rows of an exact kernel predict which, for rows with groups or times. If such a row were
// left out alone, others of its group, or its future, would predict it. Instead every part is predicted by a
// solution of the parts that it may learn from. This takes about 5/6·(4/5)³·3 of the work of leaving out every row:
// about as much.
type exactParts struct {
	of      []int // the part of every row
	n       int   // number of parts
	ordered bool  // a part learns from earlier ones; the first is not scored
}

// partsOf returns the parts of some rows of the sample, or nil if rows may be left out one by one.
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
	if slices.Min(p.of) == slices.Max(p.of) { // too few rows for two parts
		return nil
	}
	return p
}

// rows returns the rows of part k and the rows that it learns from.
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

// scored keeps the losses of rows that can be predicted. In order, these are all but the first part that has rows.
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

// weigh multiplies losses by the weights of the judged rows.
func (e *exactTries) weigh(loss []float64) {
	for i := 0; e.roots != nil && i < len(loss); i++ {
		root := e.roots[e.from+i]
		loss[i] *= root * root
	}
}

// heldOut predicts the rows of every part with the other parts and penalty λ, into work.loo.
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
			for b := a; b < len(from); b++ { // from ascends, and k holds the upper triangle
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
