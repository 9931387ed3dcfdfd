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

// This file searches plans whose queries choose together (centroid.Spec.Together). The time of a trial goes into the
// clustering of a text and a pass over its keys for every block. Plans that differ only in the number of exact clusters
// or exact keys share the clustering. So the search groups plans by their clusters, guesses that number from one or two
// measurements on one text, and judges plans near the guess on fresh rows of several texts.
//
// From budgetLength keys on, a head may spend choosingShare of the time of exact attention over the sample.

const (
	budgetLength  = 1 << 12
	choosingShare = 0.08 // the exact rows that plans are judged by cost extra
	fewFits       = 2    // at least so many texts judge a plan, if there are
	shortFits     = 16   // trials of a head that are allowed below budgetLength
	mostTexts     = 8    // at most so many texts judge a plan
	// A plan is worth judging on fresh rows if its error on the first text, times caution, is within the tolerance.
	// caution is about the ratio of the upper end of a forecast to its error.
	caution = 1.3
	// At most mostConfirms plans of a group are judged on fresh rows. After a good one, only plans that take at most
	// gain of its time are worth another judgement.
	mostConfirms = 6
	gain         = 0.93
)

// denseSearch is the search for one head.
type denseSearch[T dense.Float] struct {
	*chooser[T]
	h     int
	texts []*denseText[T]
}

// denseText is one text with the rows that judge plans on it. trials keeps its clusterings.
type denseText[T dense.Float] struct {
	check, fresh *Check[T]
	trials       *centroid.Trials[T]
}

// searchDense returns a cheap plan that is good enough for head h, or exact attention. It searches groups of plans with
// the same clusters, those that are the best most often first. A further group is searched only if it has cheaper plans
// than the best so far and the trials allowed for the head suffice.
func (c *chooser[T]) searchDense(h int) (trial, error) {
	s := &denseSearch[T]{chooser: c, h: h}
	best := c.last()
	var groups [][]Plan // plans with the same clusters, in the order of their price
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
		// Every group needs clusterings of its own, so the trials of all groups together are limited.
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

// searchTop returns the cheapest good plan of a group, given in ascending order of exact keys, and the number of trials
// of a text that the search took. best.good is false if there is none. use is the number of texts to judge on.
//
// The error falls about with the power −2/3 of the number of exact keys, so an error e at n keys suggests n·(e/Tol)^1.5
// keys. One or two measurements on one text give the starting point. Then plans are judged on fresh rows of several
// texts, and each judgement suggests the next plan, until that one has been tried or a plan with more keys has failed.
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
		if now := exactKeys(plans[at]); now <= 3*was && was <= 3*now { // the power law holds nearby
			break
		}
	}
	tried, end := make([]bool, len(plans)), len(plans) // end is the index of the best plan so far
	rows, texts := freshRows, min(c.all.q.Batch, mostTexts)
	for range mostConfirms {
		sums, err := c.measure(plans[at], use, rows)
		if err != nil {
			return best, trials, err
		}
		trials += use
		e := sums.forecast(c.all.k.Len)
		if e.High > c.Tol && e.Error*caution <= c.Tol && (use < texts || rows != allRows) {
			// The error is small enough but its interval is too wide, because a few rows make most of the error: judge
			// on all texts, then on the other rows too.
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
		if next < 0 || next >= end || slices.Contains(tried[next:end], true) { // a plan with more keys has failed
			break
		}
		at = next
	}
	return best, trials, nil
}

// atLeast returns the index of the first plan with at least so many exact keys, or of the last plan.
func atLeast(plans []Plan, keys float64) int {
	at := slices.IndexFunc(plans, func(p Plan) bool { return exactKeys(p) >= keys })
	return either(at < 0, len(plans)-1, at)
}

// exactKeys returns the number of keys, or of clusters, that a block of queries meets exactly. Within a group of plans
// only one of the two varies.
func exactKeys(p Plan) float64 {
	if p.Method != Centroid {
		return 0
	}
	return float64(max(p.Centroid.Keys, p.Centroid.Top))
}

// trials returns the number of trials of one text that a head may spend, if they cost as much as those of plan p.
func (c *chooser[T]) trials(p Plan) int {
	texts, n := float64(c.all.q.Batch), c.all.k.Len
	if n < budgetLength || p.Method != Centroid || c.Rates == nil {
		return shortFits
	}
	few := *p.Centroid // a trial computes few rows, so its time is the clustering and the keys that blocks weigh
	few.Top, few.Keys = 0, min(few.Keys, 1)
	one := c.seconds(Plan{Method: Centroid, Centroid: &few})
	most := choosingShare * texts * c.seconds(Plan{Method: Exact}) / max(one, math.SmallestNonzeroFloat64)
	return int(min(max(most, min(fewFits, texts)), 64))
}

// preference orders groups by how often their clusters are the best, smallest first: about 64 clusters up to 8192 keys
// and more for longer sequences; for causal attention, chunks of prefixChunk, then larger ones, and few clusters first.
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

// clustersOf returns the part of a plan that determines its clustering. Plans of features form a group per number of
// features.
func clustersOf(p Plan) centroid.Spec {
	if p.Method != Centroid {
		n, _ := p.Features.Spec.OutDim()
		return centroid.Spec{Sinks: n}
	}
	s := *p.Centroid
	s.Top, s.Keys = 0, 0
	return s
}

// The rows that judge a plan: the rows that guide the search, fresh rows, or both. Rows that have guided a search
// by one or two measurements are hardly biased, so allRows may include them.
const (
	checkRows = iota
	freshRows
	allRows
)

// measure returns the errors of a plan on the given number of texts, beginning with a text that depends on the head.
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

// text prepares text b for trials of the head.
func (c *denseSearch[T]) text(b int) (*denseText[T], error) {
	f := &c.folds[0]
	t := &denseText[T]{check: f.check.text(b, c.h), fresh: f.fresh.text(b, c.h)}
	var err error
	t.trials, err = centroid.NewTrials(t.check.vis, c.scale, t.check.q, t.check.k, t.check.v)
	return t, err
}

// measure returns the errors of spec for each query head of the group.
func (t *denseText[T]) measure(spec centroid.Spec, fresh bool) ([]errorSums, error) {
	check := t.check
	if fresh {
		check = t.fresh
	}
	return check.judge(0, 1, func(out, _, _, _ attention.Seq[T]) error { return t.trials.At(out, check.rows, spec) })
}

// text returns the check of key/value head h on text b alone, with the same rows and exact outputs.
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
