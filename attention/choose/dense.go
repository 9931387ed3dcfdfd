package choose

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stable"
)

// The search among plans whose queries choose together. What takes time is the clustering of a text and a pass over its
// keys for every block; plans with the same clusters that differ in the number of exact ones, or of exact keys, share
// the clustering. So the search finds that number by halving on one text, and judges the plan on fresh rows of several.
//
// From budgetLength keys on, a head may spend choosingShare of the time of exact attention over the sample.

const (
	budgetLength  = 1 << 12
	choosingShare = 0.08 // the rest is for the exact rows that plans are judged by
	fewFits       = 2    // texts at least judge a plan
	shortFits     = 16   // trials are allowed below budgetLength
	mostTexts     = 8
	// A plan is judged on fresh rows if its error on the first text, times caution, is within the tolerance: about the
	// factor of the upper end of a forecast.
	caution = 1.3
	// mostConfirms plans with the same clusters are judged on fresh rows; a cheaper one if it takes at most gain of the
	// time.
	mostConfirms = 6
	gain         = 0.93
)

// denseSearch is the search for one head.
type denseSearch[T dense.Float] struct {
	*chooser[T]
	h     int
	texts []*denseText[T]
}

// denseText is one text as trials of one head see it.
type denseText[T dense.Float] struct {
	check, fresh *Check[T]
	trials       *centroid.Trials[T]
}

// searchDense finds a cheap plan that is good enough, or exact attention.
func (c *chooser[T]) searchDense(h int) (trial, error) {
	s := &denseSearch[T]{chooser: c, h: h}
	best := c.last()
	var groups [][]Plan // with the same clusters, by price
	for _, p := range c.Plans {
		at := slices.IndexFunc(groups, func(g []Plan) bool { return clustersOf(g[0]) == clustersOf(p) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], p)
	}
	stable.Sort(groups, func(a, b []Plan) int { return cmp.Compare(c.preference(a[0]), c.preference(b[0])) })
	texts := c.all.q.Batch
	spent, first := 0, true
	for _, g := range groups {
		// Other clusters have to pay for their trials.
		allowed := c.trials(g[0])
		use := min(texts, mostTexts, max(fewFits, allowed/2))
		g = slices.DeleteFunc(g, func(p Plan) bool { return c.price(p) >= c.price(best.Plan) })
		if len(g) == 0 || !first && spent+use > allowed {
			continue
		}
		first = false
		t, trials, err := s.searchTop(g, use)
		if err != nil {
			return best, err
		}
		if spent += trials; t.good {
			best = t
		}
	}
	return best, nil
}

// searchTop finds the cheapest good plan of those with the same clusters, in ascending order of exact keys, and says
// how many trials of a text that took. Errors fall about with the power 2/3 of the exact keys: one measurement tells
// where to look, and judgements on fresh rows of several texts move on from there.
func (c *denseSearch[T]) searchTop(plans []Plan, use int) (best trial, trials int, err error) {
	at := len(plans) / 2
	for range 2 {
		sums, err := c.measure(plans[at], 1, checkRows)
		if err != nil {
			return best, trials, err
		}
		trials++
		was := exactKeys(plans[at])
		at = atLeast(plans, was*math.Pow(sums.error()*caution/c.Tol, 1.5))
		if now := exactKeys(plans[at]); now <= 3*was && was <= 3*now { // the power holds between neighbours
			break
		}
	}
	tried, end := make([]bool, len(plans)), len(plans) // end: the best so far
	rows, texts := freshRows, min(c.all.q.Batch, mostTexts)
	for range mostConfirms {
		sums, err := c.measure(plans[at], use, rows)
		if err != nil {
			return best, trials, err
		}
		trials += use
		e := sums.forecast(c.all.k.Len)
		if e.High > c.Tol && e.Error*caution <= c.Tol && (use < texts || rows != allRows) {
			// A few rows make most of the error: look at more.
			if use == texts {
				rows = allRows
			}
			use = texts
			continue
		}
		tried[at] = true
		next := atLeast(plans, exactKeys(plans[at])*math.Pow(min(e.High, 2*e.Error)/c.Tol, 1.5))
		if e.High <= c.Tol {
			best, end = trial{plans[at], e, c.cost(plans[at]), true}, at
			for next = min(next, at-1); next >= 0 && c.price(plans[next]) > gain*c.price(plans[at]); next-- {
			}
		} else {
			next = max(next, at+1)
		}
		if next < 0 || next >= end || slices.Contains(tried[next:end], true) { // what failed has more keys
			break
		}
		at = next
	}
	return best, trials, nil
}

// atLeast is the first plan of so many exact keys or more, or the last.
func atLeast(plans []Plan, keys float64) int {
	at := slices.IndexFunc(plans, func(p Plan) bool { return exactKeys(p) >= keys })
	return either(at < 0, len(plans)-1, at)
}

// exactKeys is the number of exact keys of a block, or of clusters.
func exactKeys(p Plan) float64 {
	if p.Method != Centroid {
		return 0
	}
	return float64(max(p.Centroid.Keys, p.Centroid.Top))
}

// trials is the number of trials of one text that a head may pay for.
func (c *chooser[T]) trials(p Plan) int {
	texts, n := float64(c.all.q.Batch), c.all.k.Len
	if n < budgetLength || p.Method != Centroid || c.Rates == nil {
		return shortFits
	}
	few := *p.Centroid // a trial has few rows: what is left is the clustering, and the keys that blocks weigh
	few.Top, few.Keys = 0, min(few.Keys, 1)
	one := c.seconds(Plan{Method: Centroid, Centroid: &few})
	most := choosingShare * texts * c.seconds(Plan{Method: Exact}) / max(one, math.SmallestNonzeroFloat64)
	return int(min(max(most, min(fewFits, texts)), 64))
}

// preference orders clusters by how often they are the best: about 64 up to 8192 keys, more of longer sequences.
func (c *chooser[T]) preference(p Plan) int {
	if p.Method != Centroid {
		return 100
	}
	s, n := p.Centroid, c.all.k.Len
	if s.Chunk > 0 {
		return either(s.Chunk == prefixChunk(n), 0, 10) + either(s.Chunk > prefixChunk(n), 0, 5) + s.Clusters/64
	}
	want := 64
	for ; n > 1<<13; n /= 4 {
		want *= 2
	}
	off := math.Abs(math.Log2(float64(s.Clusters) / float64(want)))
	return int(4*off) + either(s.Clusters < want, 1, 0)
}

func either(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}

// clustersOf is what plans with the same clusters have in common; features have each their own.
func clustersOf(p Plan) centroid.Spec {
	if p.Method != Centroid {
		n, _ := p.Features.Spec.OutDim()
		return centroid.Spec{Sinks: n}
	}
	s := *p.Centroid
	s.Top, s.Keys = 0, 0
	return s
}

// Rows that judge a plan: those that guide the search, fresh ones, or both. One measurement of the search does not make
// the first ones look better than they are.
const (
	checkRows = iota
	freshRows
	allRows
)

// measure is the errors of a plan on so many texts.
func (c *denseSearch[T]) measure(p Plan, texts, rows int) (sums errorSums, err error) {
	if rows == allRows {
		if sums, err = c.measure(p, texts, checkRows); err != nil {
			return sums, err
		}
		fresh, err := c.measure(p, texts, freshRows)
		sums.merge(fresh)
		return sums, err
	}
	if p.Method != Centroid {
		t := tester[T]{chooser: c.chooser, h: c.h}
		check := c.folds[0].check
		if rows == freshRows {
			check = c.folds[0].fresh
		}
		list, err := t.measure(p, 0, check)
		if errors.Is(err, errNoFit) {
			sums.add(1, 0, 0)
			return sums, nil
		}
		for _, s := range list {
			sums.merge(s)
		}
		return sums, err
	}
	for i := range texts {
		if i == len(c.texts) {
			t, err := c.text((c.h + i) % c.all.q.Batch)
			if err != nil {
				return sums, err
			}
			c.texts = append(c.texts, t)
		}
		list, err := c.texts[i].measure(*p.Centroid, rows == freshRows)
		if err != nil {
			return sums, err
		}
		for _, g := range list {
			for _, r := range g.rows {
				sums.add(r.a, r.b, i)
			}
		}
	}
	return sums, nil
}

// text makes text b.
func (c *denseSearch[T]) text(b int) (*denseText[T], error) {
	f := &c.folds[0]
	t := &denseText[T]{check: f.check.text(b, c.h), fresh: f.fresh.text(b, c.h)}
	var err error
	t.trials, err = centroid.NewTrials(t.check.vis, c.scale, t.check.q, t.check.k, t.check.v)
	return t, err
}

// measure is the errors of the query heads of a head.
func (t *denseText[T]) measure(spec centroid.Spec, fresh bool) ([]errorSums, error) {
	check := t.check
	if fresh {
		check = t.fresh
	}
	return check.judge(0, 1, func(out, _, _, _ attention.Seq[T]) error { return t.trials.At(out, check.rows, spec) })
}

// text is the check of key/value head h on text b alone.
func (c *Check[T]) text(b, h int) *Check[T] {
	s := sample[T]{c.vis, c.q, c.k, c.v}
	s = s.head(h)
	group := c.q.Heads / c.k.Heads
	out := &Check[T]{vis: c.vis, q: batch(s.q, b), k: batch(s.k, b), v: batch(s.v, b), rows: c.rows,
		exact: batch(headRange(c.exact, h*group, (h+1)*group), b), seen: c.seen[b : b+1]}
	out.vis.KeyMask = rowsOf(c.vis.KeyMask, c.k.Len, b, 1)
	out.vis.Segments = rowsOf(c.vis.Segments, c.q.Len, b, 1)
	out.vis.KeySegments = rowsOf(c.vis.KeySegments, c.k.Len, b, 1)
	return out
}
