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
	// mostConfirms plans with the same clusters are judged on fresh rows.
	mostConfirms = 6
)

// denseSearch is the search for one head.
type denseSearch[T dense.Float] struct {
	*chooser[T]
	h     int
	texts []*denseText[T]
}

// denseText is one text as trials of one head see it: long ones have a sample of the queries.
type denseText[T dense.Float] struct {
	check, fresh *Check[T]
	trials       *centroid.Trials[T]
	thinned      []int // positions of the queries; nil: all
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

// searchTop finds the cheapest good plan of those with the same clusters, and says how many trials of a text that took.
func (c *denseSearch[T]) searchTop(plans []Plan, use int) (best trial, trials int, err error) {
	lo, hi := 0, len(plans) // the first that looks good enough is in [lo, hi]
	for lo < hi {
		at := (lo + hi) / 2
		sums, err := c.measure(plans[at], 1, false)
		if err != nil {
			return best, trials, err
		}
		trials++
		if sums.error()*caution <= c.Tol {
			hi = at
		} else {
			lo = at + 1
		}
	}
	end := min(lo+mostConfirms, len(plans))
	for at := lo; at < end; at++ {
		sums, err := c.measure(plans[at], use, true)
		if err != nil {
			return best, trials, err
		}
		trials += use
		e := sums.forecast(c.all.k.Len)
		if e.High > c.Tol {
			continue
		}
		best = trial{plans[at], e, c.cost(plans[at]), true}
		if at > lo || at < 1 || end == at {
			break
		}
		// One text was enough to find a plan, not the cheapest: errors fall about with the power 2/3 of the exact keys.
		want := exactKeys(plans[at]) * math.Pow(e.High/c.Tol, 1.5)
		next := slices.IndexFunc(plans, func(p Plan) bool { return exactKeys(p) >= want })
		if next >= at {
			break
		}
		lo, end, at = next, at, next-1
	}
	return best, trials, nil
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
		return 10*slices.Index([]int{256, 512, 1024}, s.Chunk) + slices.Index([]int{16, 8, 32}, s.Chunk/s.Clusters)
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

// measure is the errors of a plan on so many texts.
func (c *denseSearch[T]) measure(p Plan, texts int, fresh bool) (sums errorSums, err error) {
	if p.Method != Centroid {
		t := tester[T]{chooser: c.chooser, h: c.h}
		check := c.folds[0].check
		if fresh {
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
		list, err := c.texts[i].measure(*p.Centroid, fresh)
		if err != nil {
			return sums, err
		}
		for _, g := range list {
			for at, n := 0, c.clump(); at < len(g.rows); at += n {
				r := g.rows[at]
				for _, o := range g.rows[at+1 : min(at+n, len(g.rows))] { // rows of one clump
					r.a, r.b = r.a+o.a, r.b+o.b
				}
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
	q, k, v := t.check.q, t.check.k, t.check.v
	if !c.all.vis.Causal && c.all.vis.Segments == nil && q.Len >= 4*thinQueries {
		t.thinned = thin(q.Len, t.check.rows, t.fresh.rows)
		q = gathered(q, t.thinned)
	}
	var err error
	if t.trials, err = centroid.NewTrials(t.check.vis, c.scale, q, k, v); err != nil {
		return nil, err
	}
	t.trials.Voters = t.voters(q.Len, c.clump() > 1)
	return t, nil
}

// voters are queries that choose clusters but are not judged: a block of a sample has few rows, and these would choose
// what suits themselves. Of n queries they are all others; of causal ones those half-way between the rows of a clump.
func (t *denseText[T]) voters(n int, clumps bool) []bool {
	if t.thinned == nil && !clumps {
		return nil
	}
	const between = clumpBlock / clumpRows / 2
	out := make([]bool, n)
	for i := range out {
		out[i] = !clumps
	}
	for _, list := range [][]int{t.check.rows, t.fresh.rows} {
		for _, l := range list {
			switch {
			case !clumps:
				at, _ := slices.BinarySearch(t.thinned, l)
				out[at] = false
			case (l+between)/clumpBlock == l/clumpBlock && l+between < n:
				out[l+between] = true
			default:
				out[l-between] = true
			}
		}
	}
	return out
}

// thinQueries queries at least stand for all.
const thinQueries = 512

// thin keeps positions at equal distances and the given rows.
func thin(length int, lists ...[]int) []int {
	out := slices.Concat(lists...)
	n := max(thinQueries, length/16)
	for i := range n {
		out = append(out, (2*i+1)*length/(2*n))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// measure is the errors of the query heads of a head.
func (t *denseText[T]) measure(spec centroid.Spec, fresh bool) ([]errorSums, error) {
	check := t.check
	if fresh {
		check = t.fresh
	}
	rows := check.rows
	if t.thinned != nil {
		// As many blocks as there are of all queries: the rows of a block are as near to each other.
		spec.Together = max(1, spec.Together*len(t.thinned)/check.q.Len)
		rows = make([]int, len(check.rows))
		for at, l := range check.rows {
			rows[at], _ = slices.BinarySearch(t.thinned, l)
		}
	}
	return check.judge(0, 1, func(out, _, _, _ attention.Seq[T]) error { return t.trials.At(out, rows, spec) })
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
