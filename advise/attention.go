package advise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

const (
	defaultTol   = 0.1
	rankedHeads  = 8 // at most this many heads, spread over all, decide which features are best
	firstDraws   = 2
	finalDraws   = 8
	finalists    = 6
	adviceWindow = 32 // window of the row that shows what a window adds to features
)

// Attention advises on attention over queries, keys and values. It answers three questions:
//
//   - Which features have the smallest error |ô−o|/|o| of the outputs, over query rows that no fit has seen?
//   - Are features useful at all?
//   - Which method keeps Options.Target (0 means 0.1) on every head at the lowest cost: exact attention,
//     centroids with exact neighbours, or features?
//
// Features are always positive, and Options.Kernel and Loss are fixed to those of attention. Errors are
// [ErrOptions], dense.ErrShape, or that sequences are too short.
func Attention(ctx context.Context, vis attention.Visibility, q, k, v attention.Seq[float32],
	o Options) (*Report, error) {
	tol := o.Target
	tol = cmp.Or(tol, defaultTol)
	o.Target, o.Loss, o.Positive = 0, lossRelative, true
	if o.PerToken != 0 {
		return nil, fmt.Errorf("attention cannot have a time budget per token: give features or a target error: %w", ErrOptions)
	}
	o.Kernel = kernel.Attention(q.Dim)
	o, err := o.complete(q.Dim)
	if err != nil {
		return nil, err
	}
	if !(tol > 0 && tol < 1) {
		return nil, fmt.Errorf("a target error of %v, want one between 0 and 1: %w", tol, ErrOptions)
	}
	if k.Heads < 1 || q.Heads%k.Heads != 0 {
		return nil, fmt.Errorf("%d query heads are not a multiple of %d key/value heads: %w", q.Heads, k.Heads,
			dense.ErrShape)
	}
	if min(q.Len, k.Len) < 2*minRows {
		return nil, fmt.Errorf("sequences of %d queries and %d keys, want at least %d: %w", q.Len, k.Len, 2*minRows,
			errRows)
	}
	o.progress("choice per head", 0, k.Heads)
	// Measured costs are seconds on this machine; model costs must be the same on every machine.
	choice, err := choose.Choose(choose.Options{Tol: tol, Seed: o.Seed, ByCost: o.Costs == costModel}, vis, 0, q, k, v)
	if err != nil {
		return nil, err
	}
	r := &Report{Kernel: o.Kernel, Dim: q.Dim, Queries: q.Len, Keys: k.Len, Seed: o.Seed, Loss: lossRelative,
		Measure:  measureOutput,
		Features: o.Features, Costs: o.Costs}
	a := &attentionStudy{Options: o, vis: vis, q: q, k: k, v: v, group: q.Heads / k.Heads}
	if err := a.rank(ctx, r); err != nil {
		return nil, err
	}
	if !o.Brief {
		if err := a.curves(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Attention = &AttentionAdvice{Length: k.Len, Tol: tol, Choice: choice}
	if err := a.compare(ctx, r); err != nil {
		return nil, err
	}
	r.Code = attentionCode(tol, vis.Causal, o.Seed)
	r.explainAttention()
	return r, nil
}

// attentionStudy is one call of Attention: its input, and the measurements so far.
type attentionStudy struct {
	Options
	vis     attention.Visibility
	q, k, v attention.Seq[float32]
	group   int          // query heads per key/value head
	heads   []*headStudy // the heads that rank features
	last    []*entrant   // entrants of the first ranked head, for names and sizes
}

// headStudy is one key/value head, with the exact outputs of some rows. Fits never see these rows.
type headStudy struct {
	number  int
	q, k, v attention.Seq[float32]
	study   *study // of its queries and keys; its only fold has the statistics of rows that are not checked
	check   *choose.Check
}

func heads(s attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	s.Heads = hi - lo
	s.Data = s.Data[lo*s.StrideH:]
	return s
}

// head prepares the study of one head. If there are few rows, fits use the checked rows, too.
func (a *attentionStudy) head(h int) (*headStudy, error) {
	s := &headStudy{number: h, q: heads(a.q, h*a.group, (h+1)*a.group), k: heads(a.k, h, h+1), v: heads(a.v, h, h+1)}
	var err error
	if s.check, err = choose.NewCheck(a.vis, 0, s.q, s.k, s.v, 0, a.Seed); err != nil {
		return nil, err
	}
	checked := map[int]bool{}
	for _, i := range s.check.Rows() {
		checked[i] = true
	}
	q := gather(s.q, func(i int) bool { return !checked[i] || a.q.Len < 4*len(checked) })
	k := gather(s.k, func(int) bool { return true })
	s.study = &study{Options: a.Options, dim: a.q.Dim}
	if err := s.study.divide(q, k); err != nil {
		return nil, fmt.Errorf("head %d: %w", h, err)
	}
	st, err := s.study.statistics(q, k)
	if err != nil {
		return nil, err
	}
	s.study.folds = s.study.folds[:1]
	s.study.folds[0].stats = st
	return s, s.study.fitAll()
}

// gatherRows bounds the rows that fits see.
const gatherRows = 4096

// gather copies positions of all batches and heads into one set, evenly spread.
func gather(s attention.Seq[float32], use func(i int) bool) dense.Matrix[float64] {
	out := dense.Matrix[float64]{Cols: s.Dim, Stride: s.Dim}
	step := max(1, s.Batch*s.Heads*s.Len/gatherRows)
	for b := range s.Batch {
		for h := range s.Heads {
			m := s.Head(b, h)
			for i := (b + h) % step; i < m.Rows; i += step {
				if !use(i) {
					continue
				}
				for _, x := range m.Row(i) {
					out.Data = append(out.Data, float64(x))
				}
				out.Rows++
			}
		}
	}
	return out
}

// outputError is the error of a head with a candidate's map, for draw number r. The seed depends on the head
// and the draw only, so all candidates face the same randomness.
func (a *attentionStudy) outputError(h *headStudy, spec randfeat.Spec, window, r int) (float64, error) {
	spec.Seed = rng.Mix64(rng.Mix64(a.Seed+uint64(h.number)) + uint64(r))
	maps, err := linear.NewMaps[float32]([]randfeat.Spec{spec})
	if err != nil {
		return 0, err
	}
	_, all, err := h.check.Errors(&linear.Attention[float32]{Visibility: a.vis, Maps: maps, Window: window})
	return all.Error, err
}

// rank finds the features with the smallest output error over some heads. It first looks at all families with a
// few couplings, then at all couplings of the families within 20 % of the best, and measures the finalists with
// more draws.
func (a *attentionStudy) rank(ctx context.Context, r *Report) error {
	n := min(a.k.Heads, rankedHeads)
	a.heads = make([]*headStudy, n)
	var crew par.Crew[pilot]
	err := crew.Do(n, par.Workers(n, 1), step(func(_ *pilot, i int) (err error) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.heads[i], err = a.head(i * a.k.Heads / n)
		return err
	}))
	if err != nil {
		return err
	}
	entrants := make([][]*entrant, n)
	for i, h := range a.heads {
		entrants[i] = h.study.enterAll(a.Features)
	}
	a.last = entrants[0]
	measure := func(which []int, draws int) error {
		return crew.Do(n*len(which), par.Workers(n*len(which), 1), step(func(_ *pilot, item int) error {
			h, e := a.heads[item%n], entrants[item%n][which[item/n]]
			for d := len(e.draws); d < draws; d++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				v, err := a.outputError(h, e.spec(h.study, 0), 0, d)
				if err != nil {
					return e.excuse(err, &e.refused)
				}
				e.draws = append(e.draws, draw{square: v * v, typical: v})
			}
			return nil
		}))
	}
	// A candidate must work on every ranked head.
	usable := func(c int) bool {
		return !slices.ContainsFunc(entrants, func(e []*entrant) bool { return e[c].refused != "" })
	}
	// A candidate's figure is the geometric mean over heads of the median over draws: one bad head does not
	// decide.
	figure := func(c int) (mean float64) {
		for i := range a.heads {
			mean += math.Log(max(entrants[i][c].typical().value, 1e-12)) / float64(n)
		}
		return math.Exp(mean)
	}
	var looks, left []int
	for c, e := range a.last {
		if usable(c) && (e.first() && e.coupling != coupling.Coupling(coupling.IID{}) || a.Couplings != nil) {
			looks = append(looks, c)
		}
	}
	if err := measure(looks, firstDraws); err != nil {
		return err
	}
	looks = slices.DeleteFunc(looks, func(c int) bool { return !usable(c) })
	if len(looks) == 0 {
		return fmt.Errorf("no family with positive features can be fitted to these heads: %s: %w", a.last[0].refused, errRows)
	}
	least := figure(slices.MinFunc(looks, func(x, y int) int { return cmp.Compare(figure(x), figure(y)) }))
	for c, e := range a.last {
		if usable(c) && slices.ContainsFunc(looks, func(l int) bool {
			return a.last[l].variety == e.variety && figure(l) <= 1.2*least
		}) {
			left = append(left, c)
		}
	}
	if err := measure(left, firstDraws); err != nil {
		return err
	}
	left = slices.DeleteFunc(left, func(c int) bool { return !usable(c) })
	order := func(x, y int) int { return cmp.Compare(figure(x), figure(y)) }
	slices.SortStableFunc(left, order)
	final := left[:min(len(left), finalists)]
	a.progress("features", 1, 2)
	if err := measure(final, finalDraws); err != nil {
		return err
	}
	slices.SortStableFunc(final, order)
	others := slices.DeleteFunc(slices.Concat(left, looks), func(c int) bool { return slices.Contains(final, c) })
	slices.Sort(others)
	others = slices.Compact(others)
	slices.SortStableFunc(others, order)
	a.progress("features", 2, 2)
	return a.write(r, entrants, final, others, figure)
}

// write fills in the ranking and the recommended features.
func (a *attentionStudy) write(r *Report, entrants [][]*entrant, final, others []int,
	figure func(int) float64) error {
	for _, c := range slices.Concat(final, others) {
		e := a.last[c]
		out := Candidate{Name: e.title(), Family: e.family.Name(), Coupling: e.coupling.Name(), Features: e.features,
			M: e.m, Error: finite(figure(c)), Draws: len(e.draws), Positive: true}
		var each []float64
		for i := range entrants {
			each = append(each, entrants[i][c].typical().value)
		}
		slices.Sort(each)
		out.Low, out.High = finite(each[0]), finite(each[len(each)-1])
		var err error
		if out.Cost, err = a.heads[0].study.cost(e); err != nil {
			return err
		}
		r.Ranking = append(r.Ranking, out)
	}
	for _, e := range a.last {
		if e.refused != "" {
			r.Refused = append(r.Refused, Candidate{Name: e.title(), Family: e.family.Name(),
				Coupling: e.coupling.Name(),
				Refused:  e.refused})
		}
	}
	// The head in the middle represents all heads in facts and figures.
	best := final[0]
	order := make([]int, len(a.heads))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(entrants[x][best].typical().value, entrants[y][best].typical().value)
	})
	h := a.heads[order[len(order)/2]]
	e := entrants[order[len(order)/2]][best]
	spec := e.spec(h.study, 0)
	spec.Seed = a.Seed
	r.Spec, r.Features = &spec, e.features
	var err error
	if r.Facts, err = h.study.facts(gather(h.q, func(int) bool { return true }),
		gather(h.k, func(int) bool { return true })); err != nil {
		return err
	}
	r.FactsHead = &h.number
	r.Crossover, err = h.study.crossover(spec)
	return err
}

// curves measures the errors of the best features, and of plain ones, with fewer and with more features:
// geometric means over the heads of the ranking.
func (a *attentionStudy) curves(ctx context.Context, r *Report) error {
	best := r.Ranking[0]
	shown := []*entrant{nil, nil}
	for _, e := range a.last {
		switch e.title() {
		case best.Name:
			shown[0] = e
		case "positive, orthogonal":
			shown[1] = e
		}
	}
	var crew par.Crew[pilot]
	for i, e := range shown {
		if e == nil || i > 0 && (e == shown[0] || e.refused != "") {
			continue
		}
		c := Curve{Name: e.title()}
		for _, n := range []int{a.Features / 8, a.Features / 4, a.Features / 2, a.Features, 2 * a.Features} {
			errs := make([]float64, len(a.heads))
			err := crew.Do(len(errs), par.Workers(len(errs), 1), step(func(_ *pilot, i int) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				h := a.heads[i]
				at := slices.IndexFunc(h.study.all, func(v *variety) bool { return v.name == e.name })
				own := entrant{variety: h.study.all[at], coupling: e.coupling}
				spec, err := own.spec(h.study, 0).WithFeatures(n)
				if err != nil {
					return own.excuse(err, &own.refused) // too few features for one projection: no point
				}
				errs[i], err = a.outputError(h, spec, 0, 0)
				return err
			}))
			if err != nil {
				return err
			}
			mean := 0.0
			for _, v := range errs {
				mean += math.Log(v) / float64(len(errs))
			}
			if dense.IsFinite(mean) {
				c.Points = append(c.Points, Point{X: float64(n), Error: math.Exp(mean)})
			}
		}
		r.Curves = append(r.Curves, c)
	}
	return nil
}

// compare measures the ends of the scale, the recommended features and the choice on all heads.
func (a *attentionStudy) compare(ctx context.Context, r *Report) error {
	adv := r.Attention
	all := make([]HeadAdvice, a.k.Heads)
	type errors struct{ mean, features, window float64 }
	errs := make([]errors, a.k.Heads)
	var crew par.Crew[pilot]
	err := crew.Do(len(all), par.Workers(len(all), 1), step(func(_ *pilot, i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := slices.IndexFunc(a.heads, func(h *headStudy) bool { return h.number == i })
		var h *headStudy
		var err error
		if at >= 0 {
			h = a.heads[at]
		} else if h, err = a.head(i); err != nil {
			return err
		}
		_, mean, err := h.check.Errors(&attention.Constant[float32]{Visibility: a.vis})
		if err != nil {
			return err
		}
		errs[i].mean = mean.Error
		e := h.study.enterAll(a.Features)
		c := slices.IndexFunc(e, func(e *entrant) bool { return e.title() == r.Ranking[r.Best].Name })
		spec := e[c].spec(h.study, 0)
		if e[c].refused != "" { // the family could not be fitted to this head
			errs[i].features, errs[i].window = math.MaxFloat64, math.MaxFloat64
		} else {
			if errs[i].features, err = a.outputError(h, spec, 0, 0); err != nil {
				return err
			}
			if errs[i].window, err = a.outputError(h, spec, adviceWindow, 0); err != nil {
				return err
			}
		}
		c2 := adv.Choice.Heads[i]
		all[i] = HeadAdvice{Head: i, Method: c2.String(), Cost: c2.Cost, Error: finite(c2.Expected.Error),
			Features: finite(errs[i].features)}
		return nil
	}))
	if err != nil {
		return err
	}
	exact := float64(a.k.Len) / 2
	for i := range all {
		h := &all[i]
		switch method := adv.Choice.Heads[i].Method; {
		case method == choose.Exact && adv.Choice.Rates != nil:
			h.Why = fmt.Sprintf("nothing tried keeps %g in less time than exact attention", adv.Tol)
		case method == choose.Exact:
			h.Why = fmt.Sprintf("nothing tried keeps %g at less than the cost of exact attention, %.0f", adv.Tol, exact)
		case method == choose.Features:
			h.Why = fmt.Sprintf("features suffice: cost %.0f instead of %.0f", h.Cost, exact)
		case h.Features > errs[i].mean:
			h.Why = fmt.Sprintf("%d features err by %.2g, more than the mean of the values (%.2g)", r.Features, h.Features,
				errs[i].mean)
		default:
			h.Why = fmt.Sprintf("%d features err by %.2g", r.Features, h.Features)
		}
	}
	adv.Heads = all
	row := func(method string, cost float64, of func(i int) float64) {
		var v []float64
		for i := range all {
			v = append(v, of(i))
		}
		slices.Sort(v)
		adv.Rows = append(adv.Rows, MethodRow{method, cost, finite(v[len(v)/2]), finite(v[(9*len(v))/10])})
	}
	near := float64(2*adviceWindow-1) / 2
	if a.vis.Causal {
		near = adviceWindow / 2
	}
	name := r.Ranking[r.Best].Name
	row("exact attention", exact, func(int) float64 { return 0 })
	row("mean of the values", 0, func(i int) float64 { return errs[i].mean })
	row(fmt.Sprintf("%d features: %s", r.Features, name), float64(r.Features),
		func(i int) float64 { return errs[i].features })
	row(fmt.Sprintf("the same and a window of %d", adviceWindow), float64(r.Features)+near,
		func(i int) float64 { return errs[i].window })
	row(fmt.Sprintf("chosen per head for %g", adv.Tol), adv.Choice.Cost(), func(i int) float64 { return all[i].Error })
	cost := adv.Choice.Cost()
	if rates := adv.Choice.Rates; rates != nil { // the cost at which exact attention takes as long
		cost = adv.Choice.Seconds() / rates.Exact
	}
	adv.ExactBelow = int(math.Ceil(2 * cost))
	if cost >= exact {
		adv.ExactBelow = a.k.Len
	}
	return nil
}
