package choose

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
)

// Options state the goal of [Choose]. Set Tol or Budget, not both. The zero value means Tol 0.1.
type Options struct {
	// Tol is the largest acceptable relative error |ô−o|/|o| of a head on another text. A plan is accepted if the upper
	// end of its expected error is at most Tol; the cheapest such plan is chosen.
	Tol float64
	// Budget is the mean cost per token and head, in features. Within it, Choose distributes the cost over the heads so
	// that the sum of their squared errors is small (Lagrangian relaxation, then a greedy rest).
	Budget float64
	// Decode is for causal attention token by token (NewChunks). Every position chooses its clusters for itself. Plans
	// are judged on the second half of the positions and ranked by the number of keys that a token reads. Masks and
	// segments apply: a token reads the visible keys of its sequence. A head for which no plan is accurate enough reads
	// all keys.
	Decode bool
	// Rates rank plans by predicted seconds. Plans that are not faster than exact attention are left out. If nil,
	// Choose calls MeasureRates and the choice depends on the machine; a choice that is not predicted to be twice as
	// fast as exact attention is then timed, and given up if it does not gain. With given rates, equal arguments give
	// equal choices. A Budget is in features, so Choose then ranks by cost and measures no rates.
	Rates *Rates
	// ByCost ranks plans by cost (multiply-adds) instead of seconds. The choice is then the same on all machines, but
	// not always the fastest.
	ByCost bool
	Rows   int    // query rows per head and batch to measure errors on; 0 means the default of NewCheck
	Seed   uint64 // seeds the rows, the clusterings and the projections
	// Plans are the candidates; nil means a grid that suits the length. Families with parameters are fitted to each
	// head, and heads have independent projections (linear.HeadSpecs).
	Plans []Plan
	// Trace, if set, is called with the search of every head, one after the other.
	Trace func(head int, t Trace)
}

// Choose picks a plan for every key/value head, for data like q, k and v. These are passages of a calibration text, one
// per batch, or the sequences themselves.
//
// Centroids are made from the keys of every call, and causal ones from keys already seen: plans hold settings, and no
// data but the fitted parameters of feature families.
func Choose(o Options, vis attention.Visibility, scale float64, q, k, v attention.Seq[float32]) (*Choice,
	error) {
	return choose(o, scale, sample{vis, q, k, v})
}

// choose works in these steps. Heads are independent, so each step handles them in parallel; results do not depend on
// the number of goroutines.
//
//  1. Fix the candidates and their order (newChooser), and the rows that judge them (divide).
//  2. Try candidates on every head (try): until one is good enough, or all of them for a budget.
//  3. Pick a trial for every head. A budget is spent over all heads at once (spend), and the picked trials are judged
//     again on fresh rows.
//  4. Fit the picked plans to the whole sample (finish).
//  5. If the predicted gain is small and the rates were measured here, time the choice (prove).
func choose(o Options, scale float64, s sample) (*Choice, error) {
	k := s.k
	c, err := newChooser(o, scale, s)
	if err != nil {
		return nil, err
	}
	if err := c.divide(); err != nil {
		return nil, err
	}
	found, reasons, judges := make([][]trial, k.Heads), make([]string, k.Heads), make([]*judge, k.Heads)
	errs := make([]error, k.Heads)
	par.For(k.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			judges[h] = c.judge(h)
			found[h], reasons[h], errs[h] = judges[h].try()
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	out := c.empty()
	out.Tol, out.Budget, out.Rates = c.Tol, c.Budget, c.Rates
	picked := make([]int, k.Heads)
	for h, trials := range found {
		picked[h] = len(trials) - 1 // the first that was good enough, or exact
	}
	if c.Budget > 0 {
		picked = spend(found, c.Budget)
		for h := range found {
			t := &found[h][picked[h]]
			if t.Method == Exact || t.Error == math.MaxFloat64 {
				continue
			}
			var err error
			if t.Estimate, err = judges[h].estimate(t.Plan, c.check.q.Batch, freshRows); err != nil {
				return nil, fmt.Errorf("head %d: %w", h, err)
			}
		}
	}
	par.For(k.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			t := found[h][picked[h]]
			out.Heads[h] = Head{Cost: t.cost, Expected: t.Estimate}
			if picked[h] == len(found[h])-1 {
				out.Heads[h].Reason = reasons[h]
			}
			if c.Rates != nil {
				out.Heads[h].Seconds = c.seconds(t.Plan)
			}
			out.Heads[h].Plan, errs[h] = c.finish(t.Plan, h)
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	for h := range found {
		if o.Trace != nil {
			o.Trace(h, judges[h].trace(found[h][picked[h]].Plan))
		}
	}
	if o.Rates == nil && c.Rates != nil && c.doubtful(out) {
		return out, c.prove(out)
	}
	return out, nil
}

// doubtful reports whether a choice is predicted to be faster than exact attention, but by less than a factor of
// trustedGain.
func (c *chooser) doubtful(out *Choice) bool {
	var chosen, exact float64
	for h := range out.Heads {
		chosen += out.Heads[h].Seconds
		exact += c.seconds(Plan{Method: Exact})
	}
	return chosen < exact && exact < trustedGain*chosen
}

const (
	// trustedGain is the predicted gain that needs no proof. Predictions are up to twice too good where many processors
	// share few heads.
	trustedGain = 2
	proofRounds = 5
	// maxTimeShare is the largest share of the time of exact attention that a choice may take in prove.
	maxTimeShare = 0.9
)

// prove times the choice and exact attention on the first text and compares medians. If the choice does not gain, it
// makes all heads exact.
func (c *chooser) prove(out *Choice) error {
	s := c.all
	q, k, v := batch(s.q, 0), batch(s.k, 0), batch(s.v, 0)
	vis := s.vis
	vis.KeyMask = rowsOf(s.vis.KeyMask, s.k.Len, 0)
	vis.Segments = rowsOf(s.vis.Segments, s.q.Len, 0)
	vis.KeySegments = rowsOf(s.vis.KeySegments, s.k.Len, 0)
	a, err := New(out)
	if err != nil {
		return err
	}
	a.Visibility = vis
	exact := &attention.Exact[float32]{Visibility: vis, Scale: c.scale}
	to := attention.NewSeq[float32](1, q.Heads, q.Len, v.Dim)
	var times [2][]float64
	rounds := proofRounds
	if k.Len >= 1<<11 { // long calls vary less; the first of the choice allocates
		rounds = 2
	}
	for r := range rounds {
		for i, f := range []attention.Attention[attention.Seq[float32]]{exact, a} {
			if i == 0 && r > 0 && k.Len >= 1<<11 {
				continue
			}
			start := time.Now()
			if _, err := f.Forward(to, q, k, v); err != nil {
				return err
			}
			times[i] = append(times[i], time.Since(start).Seconds())
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	if times[1][(rounds-1)/2] <= maxTimeShare*times[0][(len(times[0])-1)/2] {
		return nil
	}
	t := c.last()
	for h := range out.Heads {
		out.Heads[h] = Head{Plan: t.Plan, Cost: t.cost, Expected: t.Estimate, Seconds: c.seconds(t.Plan),
			Reason: "the choice was not faster than exact attention when both were timed"}
	}
	return nil
}

// Use makes a choice with one plan for all key/value heads. It fits feature families to q, k and v. It measures
// nothing, so the choice has no expected error.
func Use(p Plan, vis attention.Visibility, scale float64, q, k, v attention.Seq[float32]) (*Choice, error) {
	s := sample{vis, q, k, v}
	c, err := newChooser(Options{Plans: []Plan{p}, ByCost: true}, scale, s)
	if err != nil {
		return nil, err
	}
	out := c.empty()
	errs := make([]error, s.k.Heads)
	par.For(s.k.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			out.Heads[h].Cost = c.cost(p)
			out.Heads[h].Plan, errs[h] = c.finish(p, h)
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	return out, nil
}

// trial is a candidate with its error on one head.
type trial struct {
	Plan
	Estimate
	cost float64
	good bool // the upper end is within the tolerance, on rows that selected no plan
}

// empty returns a choice without plans.
func (c *chooser) empty() *Choice {
	return &Choice{Causal: c.all.vis.Causal, Scale: c.scale, Length: c.all.k.Len, Dim: c.all.q.Dim,
		ValueDim: c.all.v.Dim, Heads: make([]Head, c.all.k.Heads)}
}

// sample holds the arguments of an attention.
type sample struct {
	vis     attention.Visibility
	q, k, v attention.Seq[float32]
}

// head returns the arguments of key/value head h and of the query heads of its group.
func (s *sample) head(h int) sample {
	group := s.q.Heads / s.k.Heads
	return sample{s.vis, headRange(s.q, h*group, (h+1)*group), headRange(s.k, h, h+1), headRange(s.v, h, h+1)}
}

// chooser holds the data that all heads share. It is read-only once divide has returned.
type chooser struct {
	Options
	scale float64
	all   sample
	check *Check // the rows that rank candidates
	// fresh rows judge the candidate that was picked: the smallest of many measured errors is biased downwards.
	fresh *Check
	dense bool   // candidates come from denseGrid or decodeGrid, and searchDense searches them
	left  []Plan // candidates that are not cheaper than exact attention
}

// freshSeed makes the fresh rows independent of the rows that rank candidates.
const freshSeed = 0x9e3779b97f4a7c15

// newChooser checks the arguments, measures rates if they are needed, and lists the candidates in the order of their
// price.
func newChooser(o Options, scale float64, s sample) (*chooser, error) {
	vis, q, k, v := s.vis, s.q, s.k, s.v
	if o.Tol == 0 && o.Budget == 0 {
		o.Tol = 0.1
	}
	switch {
	case !dense.IsFinite(o.Tol) || !dense.IsFinite(o.Budget) || o.Tol < 0 || o.Budget < 0 || o.Tol > 0 && o.Budget > 0:
		return nil, fmt.Errorf("tol %v and budget %v, want one of them, positive: %w", o.Tol, o.Budget, ErrChoice)
	case o.Rates != nil && !o.Rates.valid():
		return nil, fmt.Errorf("rates %+v, want finite numbers of at least 0, a positive one of exact attention: %w",
			*o.Rates, ErrChoice)
	case o.Rates != nil && o.ByCost:
		return nil, fmt.Errorf("rates and ByCost exclude each other: %w", ErrChoice)
	case o.Decode && (!vis.Causal || o.Budget > 0 || o.Rates != nil || o.Plans != nil):
		return nil, fmt.Errorf("decode is for causal attention with a tolerance, leave out budget, rates and plans: %w",
			ErrChoice)
	case !dense.IsFinite(scale) || scale < 0:
		return nil, fmt.Errorf("scale %v, want a positive number: %w", scale, ErrChoice)
	}
	if err := checkInputs(vis, q, k, v); err != nil {
		return nil, err
	}
	if q.Batch == 0 || q.Heads == 0 || q.Len == 0 || k.Len == 0 || q.Dim == 0 || v.Dim == 0 {
		return nil, fmt.Errorf("q %v, k %v, v %v: nothing to choose by: %w", q.Shape, k.Shape, v.Shape, dense.ErrShape)
	}
	if o.Rates == nil && !o.ByCost && o.Budget == 0 && !o.Decode {
		var err error
		if o.Rates, err = MeasureRates(vis.Causal, q.Shape, k.Shape, v.Shape); err != nil {
			return nil, err
		}
	}
	c := &chooser{Options: o, scale: scale, all: s}
	if o.Decode {
		c.dense, c.Plans = true, decodeGrid(o.Seed, k.Len)
		slices.SortStableFunc(c.Plans, func(a, b Plan) int { return cmp.Compare(c.price(a), c.price(b)) })
		return c, nil
	}
	if o.Plans == nil {
		var plans []Plan
		byCost := o.Rates == nil || o.Budget > 0
		switch {
		case byCost:
			plans = costGrid(vis.Causal, o.Seed, k.Len, q.Heads/k.Heads)
		case o.Rates.Dense > 0:
			plans = denseGrid(vis.Causal, o.Seed, k.Len, q.Heads/k.Heads)
		}
		if byCost || o.Tol >= manyFeatures {
			plans = append(featureGrid(scale, o.Seed, q.Dim), plans...)
		}
		c.dense = o.Budget == 0
		c.Plans = c.affordable(plans)
		return c, nil
	}
	for i := range o.Plans {
		if err := o.Plans[i].check(vis.Causal, q.Dim); err != nil {
			return nil, fmt.Errorf("plan %d: %w", i, err)
		}
	}
	c.Plans = c.affordable(slices.Clone(o.Plans))
	return c, nil
}

// divide makes the rows that judge, over all positions or, for decoding, over the second half.
func (c *chooser) divide() error {
	// The exact outputs of plans of blocks are computed for the heads and texts that judge, when they do (denseText).
	lazy := c.dense && !slices.ContainsFunc(c.Plans, func(p Plan) bool { return p.Method != Centroid })
	add := func(judged sample, from, to, rows int) error {
		check, err := newCheck(judged.vis, judged.q, judged.k, judged.v, rows, from, to, c.Seed, nil)
		if err != nil {
			return err
		}
		fresh, err := newCheck(judged.vis, judged.q, judged.k, judged.v, rows, from, to, c.Seed+freshSeed, check.rows)
		if err == nil && !lazy {
			err = errors.Join(check.answer(c.scale), fresh.answer(c.scale))
		}
		c.check, c.fresh = check, fresh
		return err
	}
	all, rows, half := c.all, c.Rows, c.all.q.Len/2
	if rows == 0 {
		rows = defaultRows(all.q.Batch, all.vis.Causal && !c.Decode)
		if c.dense && !all.vis.Causal {
			rows *= min(max(all.k.Len/2048, 2), 4) // a small part of the text, and a narrower interval
		}
		if c.Decode {
			rows = max(1, min(decodeRows/all.q.Batch, half/2)) // half of them judge first, the others are fresh
		}
		if c.dense && all.vis.Causal && !c.Decode { // a few rows of a causal text make most of its error
			rows = max(rows, min(all.q.Len/4, mostCausalRows)/all.q.Batch)
		}
	}
	if c.Decode {
		return add(all, half, all.q.Len, rows)
	}
	return add(c.judged(), 0, all.q.Len, rows)
}

// judged is the texts that plans are judged on: from budgetLength keys on a few of them say enough about bidirectional
// plans of blocks.
func (c *chooser) judged() sample {
	s := c.all
	if c.dense && !s.vis.Causal && s.k.Len >= budgetLength {
		n := min(s.q.Batch, lawTexts)
		s.q.Batch, s.k.Batch, s.v.Batch = n, n, n
		s.vis.KeyMask = firstRows(s.vis.KeyMask, n*s.k.Len)
		s.vis.Segments = firstRows(s.vis.Segments, n*s.q.Len)
		s.vis.KeySegments = firstRows(s.vis.KeySegments, n*s.k.Len)
	}
	return s
}

// firstRows returns the first n elements of a list, or nil if it is nil.
func firstRows[E any](list []E, n int) []E { return list[:min(n, len(list))] }

// mostCausalRows bounds the rows, over all texts, that judge causal plans by seconds.
const mostCausalRows = 512

// rowsOf returns row i of a list of rows of the given length; nil stays nil.
func rowsOf[E any](list []E, length, i int) []E {
	if list == nil {
		return nil
	}
	return list[i*length : (i+1)*length : (i+1)*length]
}

// try judges candidates in the order of their price. With Tol, one trial is returned, the one to use: the first that is
// good enough, or exact attention. With Budget, all trials are returned, exact attention last. reason is the
// Head.Reason of the last trial.
func (j *judge) try() (out []trial, reason string, err error) {
	if j.dense {
		t, reason, err := j.searchDense()
		return []trial{t}, reason, err
	}
	var failed failures
	for _, p := range j.Plans {
		t, err := j.test(p)
		if err != nil {
			return nil, "", err
		}
		if out = append(out, t); t.good {
			return out, "", nil
		}
		failed.add(t.Estimate)
	}
	return append(out, j.last()), j.reason(failed), nil
}

// test judges a plan on the rows that rank candidates and, if it is within the tolerance, again on fresh rows: the
// smallest of many measured errors is biased downwards.
func (j *judge) test(p Plan) (trial, error) {
	e, err := j.estimate(p, j.check.q.Batch, checkRows)
	good := j.Tol > 0 && e.High <= j.Tol
	if err == nil && good {
		e, err = j.estimate(p, j.check.q.Batch, freshRows)
		good = e.High <= j.Tol
	}
	return trial{p, e, j.cost(p), good}, err
}

// failures is the least error, and its upper end, of the plans of a head that did not keep the tolerance.
type failures struct {
	tried bool
	best  Estimate
}

func (f *failures) add(e Estimate) {
	if !f.tried || e.High < f.best.High || e.High == f.best.High && e.Error < f.best.Error {
		f.tried, f.best = true, e
	}
}

// reason is the Head.Reason of exact attention after the failures.
func (c *chooser) reason(f failures) string {
	switch {
	case !f.tried && (c.Rates != nil && c.Budget == 0 || c.Decode):
		return "no plan is predicted to be faster"
	case !f.tried:
		return "no plan costs less"
	case c.Budget > 0:
		return "the budget allows it"
	case f.best.High < math.MaxFloat64 && f.best.Error <= c.Tol: // above the tolerance, forecast states no interval
		return fmt.Sprintf("no plan kept the tolerance (best upper end %.2g)", f.best.High)
	case f.best.Error < math.MaxFloat64:
		return fmt.Sprintf("no plan kept the tolerance (least error %.2g)", f.best.Error)
	}
	return "no plan could be fitted"
}

// price returns the quantity by which plans are ranked: the keys that a token reads for decoding, the cost if there are
// no rates or a budget is set, and predicted seconds otherwise.
func (c *chooser) price(p Plan) float64 {
	if c.Decode {
		return p.Centroid.(centroid.Sketch).StepCost(c.all.k.Len)
	}
	if c.Rates == nil || c.Budget > 0 {
		return c.cost(p)
	}
	return c.seconds(p)
}

// seconds returns the predicted time of a token with plan p. It needs rates.
func (c *chooser) seconds(p Plan) float64 {
	return c.Rates.Seconds(p, c.all.vis.Causal, c.all.k.Len, c.all.q.Dim, c.all.v.Dim)
}

// affordable returns the plans that are cheaper than exact attention, in the order of their price. If the price is
// predicted seconds, they must be cheaper by a margin (worthwhile). It reuses the memory of plans.
func (c *chooser) affordable(plans []Plan) []Plan {
	exact := c.price(Plan{Method: Exact})
	if c.Rates != nil && c.Budget == 0 {
		exact *= worthwhile
	}
	plans = slices.DeleteFunc(plans, func(p Plan) bool {
		if p.Method != Exact && c.price(p) >= exact {
			c.left = append(c.left, p)
			return true
		}
		return p.Method == Exact
	})
	slices.SortStableFunc(plans, func(a, b Plan) int { return cmp.Compare(c.price(a), c.price(b)) })
	return plans
}

// worthwhile is the largest share of the time of exact attention that a plan may be predicted to take. Predictions are
// off by some percent, and a small gain does not outweigh an error.
const worthwhile = 0.9

// cost returns the cost of a token with plan p at the length of the sample, in features.
func (c *chooser) cost(p Plan) float64 {
	return p.Cost(c.all.vis.Causal, c.all.k.Len, c.all.q.Dim, c.all.v.Dim)
}

// last returns the trial of exact attention, whose error is 0 without a measurement. For decoding it is the plan that
// reads all keys.
func (c *chooser) last() trial {
	rows := 0
	if c.check != nil {
		rows = len(c.check.rows) * c.check.q.Batch
	}
	p := Plan{Method: Exact}
	if c.Decode {
		p = readAll(c.Seed, c.all.k.Len)
	}
	return trial{p, Estimate{Rows: rows}, exactCost(c.all.k.Len), true}
}

// finish fits plan p to head h of the whole sample.
func (c *chooser) finish(p Plan, h int) (Plan, error) {
	if p.Method != Features {
		return p, nil
	}
	s := c.all.head(h)
	f, err := fitFeatures(*p.Features, &s, h)
	p.Features = &f
	return p, err
}

// fitFeatures gives head h its own projections and fits the parameters of the family to the queries and keys of s, if
// the family has any.
func fitFeatures(f FeatureSpec, s *sample, h int) (FeatureSpec, error) {
	f.Spec = linear.HeadSpecs(f.Spec, h+1)[h]
	if _, ok := f.Spec.Family.(family.Fitter); !ok {
		return f, nil
	}
	stats, err := linear.NewHeadStats[float32](f.Spec, 1)
	if err != nil {
		return f, err
	}
	var queries []bool
	if s.q.Len == s.k.Len { // self-attention: a padded position is padding as a query too
		queries = s.vis.KeyMask
	}
	if err := stats.Add(s.q, s.k, queries, s.vis.KeyMask); err != nil {
		return f, err
	}
	specs, err := stats.Fit()
	if err != nil {
		return f, err
	}
	f.Spec = specs[0]
	return f, nil
}

// spend picks one trial per head such that the mean cost stays within the budget and the sum of squared errors is
// small.
//
// With a price λ per unit of cost, every head picks the trial with the least error² + λ·cost (Lagrangian relaxation). A
// bisection in log λ finds the smallest price at which the budget suffices. That leaves some budget unspent, because
// costs come in steps; a greedy loop spends it on the changes that reduce squared error most per cost. If the budget
// does not suffice at the highest price, spend returns the trials picked at that price.
func spend(found [][]trial, budget float64) []int {
	pick := func(price float64) (at []int, cost float64) {
		at = make([]int, len(found))
		for h, trials := range found {
			for i, t := range trials {
				now := trials[at[h]]
				if t.Error*t.Error+price*t.cost < now.Error*now.Error+price*now.cost {
					at[h] = i
				}
			}
			cost += trials[at[h]].cost
		}
		return at, cost / float64(len(found))
	}
	lo, hi := 0.0, 1.0
	best, cost := pick(hi)
	for range 60 {
		price := math.Sqrt(max(lo, 1e-18) * hi)
		at, c := pick(price)
		if c <= budget {
			best, cost, hi = at, c, price
		} else {
			lo = price
		}
	}
	for {
		left, gain, head, to := (budget-cost)*float64(len(found)), 0.0, -1, 0
		for h, trials := range found {
			now := trials[best[h]]
			for i, t := range trials {
				g := (now.Error*now.Error - t.Error*t.Error) / max(t.cost-now.cost, 1e-9)
				if t.Error < now.Error && t.cost-now.cost <= left && g > gain {
					gain, head, to = g, h, i
				}
			}
		}
		if head < 0 {
			return best
		}
		cost += (found[head][to].cost - found[head][best[head]].cost) / float64(len(found))
		best[head] = to
	}
}
