package advise

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

const (
	curveDraws = 12
	curveLines = 4
	bins       = 8
)

// leaders returns the entrants that curves show: the recommended one, the best of other families, and plain
// features for comparison.
func (s *study) leaders(r *Report, ranked []*entrant) []*entrant {
	out := []*entrant{ranked[r.Best]}
	add := func(e *entrant) {
		if len(out) < curveLines && !slices.ContainsFunc(out, func(o *entrant) bool { return o.variety == e.variety }) {
			out = append(out, e)
		}
	}
	for _, e := range ranked[:min(len(ranked), shown)] {
		if len(out) < curveLines-1 {
			add(e)
		}
	}
	for _, name := range []string{"positive", "trig"} {
		for _, e := range ranked {
			if e.name == name && e.coupling.Name() == "iid" {
				add(e)
			}
		}
	}
	return out
}

// draw measures the curves of the report.
func (s *study) draw(ctx context.Context, r *Report, ranked []*entrant) error {
	leaders := s.leaders(r, ranked)
	for _, e := range leaders {
		c := Curve{Name: e.title()}
		for _, n := range []int{r.Features / 8, r.Features / 4, r.Features / 2, r.Features, 2 * r.Features} {
			at, err := e.resized(s, n)
			if err != nil {
				continue
			}
			if err := s.more(ctx, []*entrant{at}, min(s.Draws, curveDraws)); err != nil {
				return err
			}
			if at.refused != "" {
				continue
			}
			low, high, _ := s.interval(at)
			p := Point{X: float64(n), Error: finite(s.figure(at).value), Low: low, High: high}
			if s.Measure == measureRMS {
				p.Predicted = s.predicted(at, at.m, 1)
			}
			c.Points = append(c.Points, p)
		}
		if len(c.Points) > 0 {
			r.Curves = append(r.Curves, c)
		}
		s.progress("curves", len(r.Curves), len(leaders))
	}
	return s.bin(ctx, r, leaders)
}

// bin measures the errors of the leaders in eighths of the pairs, ordered by the kernel and by the angle
// between query and key.
func (s *study) bin(ctx context.Context, r *Report, leaders []*entrant) error {
	type pair struct {
		log, angle float64
		square     []float64
	}
	var pairs []pair
	sums := make([][]dense.Matrix[float64], len(leaders))
	var p pilot
	for l, e := range leaders {
		for _, f := range s.folds {
			sums[l] = append(sums[l], dense.New[float64](f.x.Rows, f.y.Rows))
		}
		at := e.again()
		for d := range max(len(s.folds), min(s.Draws, curveDraws)) / len(s.folds) * len(s.folds) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := s.measure(&p, at, d, sums[l]); err != nil {
				return err
			}
		}
	}
	n := float64(max(len(s.folds), min(s.Draws, curveDraws)) / len(s.folds))
	for i, f := range s.folds {
		u, v := embed(s.Kernel, f.x), embed(s.Kernel, f.y)
		for a := range u.Rows {
			for b := range v.Rows {
				if !f.meets(a*v.Rows + b) {
					continue
				}
				cos := dense.Dot(u.Row(a), v.Row(b)) / math.Sqrt(dense.Norm2(u.Row(a))*dense.Norm2(v.Row(b)))
				if !dense.IsFinite(cos) {
					cos = 0
				}
				at := pair{log: f.logKernel.At(a, b), angle: math.Acos(min(max(cos, -1), 1)) * 180 / math.Pi}
				for l := range leaders {
					at.square = append(at.square, sums[l][i].At(a, b)/n)
				}
				pairs = append(pairs, at)
			}
		}
	}
	curves := func(key func(pair) float64) []Curve {
		slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(key(a), key(b)) })
		out := make([]Curve, len(leaders))
		for l, e := range leaders {
			out[l].Name = e.title()
			for b := range bins {
				part := pairs[b*len(pairs)/bins : (b+1)*len(pairs)/bins]
				if len(part) == 0 {
					continue
				}
				var sum float64
				squares := make([]float64, len(part))
				for i, p := range part {
					sum += p.square[l]
					squares[i] = p.square[l]
				}
				v := math.Sqrt(sum / float64(len(part)))
				if s.Measure == measureTypical && s.Loss == lossRelative {
					slices.Sort(squares)
					v = math.Sqrt(squares[len(squares)/2])
				}
				out[l].Points = append(out[l].Points, Point{X: finite(key(part[len(part)/2])), Error: finite(v)})
			}
		}
		return out
	}
	r.ByKernel = curves(func(p pair) float64 { return p.log })
	r.ByAngle = curves(func(p pair) float64 { return p.angle })
	return nil
}
