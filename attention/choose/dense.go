package choose

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention/centroid"
)

// The search among plans whose queries choose in blocks, and plans for decoding. The clustering of a text, and a pass
// over its keys for every block, take most of the time. Plans with the same clusters that differ in the number of exact
// ones, or of exact keys, share the clustering.
//
// The errors of bidirectional plans follow a law (denseLaw): one measurement tells the cheapest plan that should be
// good enough, judgements on fresh rows of several texts move on from there. Causal plans are searched by their
// clusters, and among those with the same clusters by the number of exact keys.
//
// From budgetLength keys on, a head may spend choosingShare of the time of exact attention over the sample.

const (
	budgetLength  = 1 << 12
	choosingShare = 0.08 // the exact rows that plans are judged by cost extra
	fewFits       = 2    // at least so many texts judge a plan, if there are
	shortFits     = 8    // trials of a head that are allowed below budgetLength
	costFits      = 64   // trials of a head that are allowed if plans are ranked by cost
	mostTexts     = 8    // at most so many texts judge a plan
	// A plan is worth judging on fresh rows if its error on the first text, times caution, is within the tolerance.
	// caution is about the ratio of the upper end of a forecast to its error.
	caution = 1.3
	// At most mostConfirms plans of a group are judged on fresh rows, twice as many if none is good, and leanConfirms
	// lean ones. After a good one, only plans that take at most betterPrice of its time are worth another judgement.
	mostConfirms = 6
	leanConfirms = 2
	betterPrice  = 0.93
)

// denseSearch is the search for one head.
type denseSearch struct {
	*judge
	failed failures
}

// searchDense returns a cheap plan that is good enough for head h, or exact attention with its Head.Reason. It searches
// groups of plans with the same clusters, those that are the best most often first. A further group is searched only if
// it has cheaper plans than the best so far and the trials allowed for the head suffice.
func (j *judge) searchDense() (best trial, reason string, err error) {
	c := j.chooser
	s := &denseSearch{judge: j}
	best = c.last()
	found := false
	if !c.all.vis.Causal {
		if best, err = s.searchLaw(best); err != nil {
			return best, "", err
		}
		found = best.Method != Exact
	}
	var groups [][]Plan // with the same clusters, by price
	for _, p := range c.Plans {
		if tilted(p) {
			continue
		}
		at := slices.IndexFunc(groups, func(g []Plan) bool { return clustersOf(g[0]) == clustersOf(p) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], p)
	}
	slices.SortStableFunc(groups, func(a, b []Plan) int { return cmp.Compare(c.preference(a[0]), c.preference(b[0])) })
	texts := c.all.q.Batch
	spent, first := 0, true
	for _, g := range groups {
		// Every group needs clusterings of its own, so the trials of all groups together are limited.
		allowed := c.trials(g[0])
		use := min(texts, mostTexts, max(fewFits, allowed/2))
		price := betterPrice * c.price(best.Plan)
		if lean(g[0]) {
			if s, ok := best.Centroid.(centroid.Prefix); !ok || s.Keys > fewestKeys {
				continue
			}
			// The search has been short, and lean plans gain more than rates predict.
			allowed, price = spent+use, c.price(best.Plan)
		}
		g = slices.DeleteFunc(g, func(p Plan) bool { return c.price(p) >= price })
		if len(g) == 0 || !first && spent+use > allowed {
			continue
		}
		first = false
		t, trials, err := s.searchTop(g, use)
		if err != nil {
			return best, "", err
		}
		if spent += trials; t.good {
			best, found = t, true
		}
	}
	if found {
		return best, "", nil
	}
	return best, c.reason(s.failed), nil
}

// tilted says that the blocks of a bidirectional plan choose single keys.
func tilted(p Plan) bool {
	_, ok := p.Centroid.(centroid.Blocks)
	return ok
}

// denseLaw is the error of a bidirectional plan up to a factor of the head, about: on heads of MiniLM at 4096 and 8192
// keys errors fall with the powers 0.4 to 0.8 of the exact keys and 0.2 of the clusters, and grow with the power 0.4 of
// the queries of a block.
func denseLaw(p Plan) float64 {
	s := p.Centroid.(centroid.Blocks)
	return math.Pow(float64(s.Queries), 0.4) / math.Sqrt(float64(s.Keys)) / math.Pow(float64(s.Clusters), 0.2)
}

// lawSearch is the search of one head among plans that follow denseLaw. Two measurements determine the exponent for the
// head.
type lawSearch struct {
	*denseSearch
	plans  []Plan // by price
	last   *Plan
	error  float64 // of the last
	power  float64
	spends trialBudget
}

// saw takes the measured error of plan p.
func (c *lawSearch) saw(p Plan, e float64) {
	if c.last != nil && e > 0 && c.error > 0 {
		if r := math.Log(denseLaw(p) / denseLaw(*c.last)); math.Abs(r) > 0.3 {
			c.power = min(max(math.Log(e/c.error)/r, 0.6), 1.8)
		}
	}
	c.last, c.error = &p, e
}

// pick is the first plan from at on that should have an error of at most want, by the last measurement. One with the
// clusters of the last plan is preferred: its trials cost less.
func (c *lawSearch) pick(at int, want float64) int {
	law := denseLaw(*c.last) * math.Pow(want/max(c.error, 1e-9), 1/c.power)
	for ; at < len(c.plans) && denseLaw(c.plans[at]) > law; at++ {
	}
	of := clustersOf(*c.last)
	for i := at; i < len(c.plans) && c.price(c.plans[i]) < newClustersGain*c.price(c.plans[at]); i++ {
		if p := c.plans[i]; denseLaw(p) <= law && clustersOf(p) == of {
			return i
		}
	}
	return at
}

// start is the plan that is measured first: one that suits many heads.
func (c *lawSearch) start() (at int) {
	least := math.Inf(1)
	for i, p := range c.plans {
		s := p.Centroid.(centroid.Blocks)
		off := math.Abs(math.Log(32*float64(s.Keys)/float64(c.all.k.Len))) +
			math.Abs(math.Log(float64(s.Queries)/128)) + math.Abs(math.Log(float64(s.Clusters)/64))
		if off < least {
			at, least = i, off
		}
	}
	return at
}

const (
	// lawShare is choosingShare, lawConfirms is mostConfirms, and lawTexts is mostTexts from budgetLength keys on.
	lawShare    = 0.06
	lawConfirms = 8
	lawTexts    = 4
	// newClustersGain is the factor of a price that another clustering has to gain.
	newClustersGain = 1.12
	// wastefulShare is the share of the tolerance below which an upper end wastes keys.
	wastefulShare = 0.6
)

// searchLaw finds the cheapest good plan of those that follow denseLaw, or returns best.
func (c *denseSearch) searchLaw(best trial) (trial, error) {
	s := &lawSearch{denseSearch: c, power: 1}
	s.plans = slices.DeleteFunc(slices.Clone(c.Plans), func(p Plan) bool { return !tilted(p) })
	if len(s.plans) == 0 {
		return best, nil
	}
	s.spends = trialBudget{fits: map[centroid.Spec]int{}, left: math.Inf(1)}
	if c.all.k.Len >= budgetLength && c.Rates != nil {
		s.spends.left = lawShare * float64(c.all.q.Batch) * c.seconds(Plan{Method: Exact})
	}
	at := s.start()
	for range 2 {
		e, err := s.try(s.plans[at], 1, checkRows)
		if err != nil {
			return best, err
		}
		was := denseLaw(s.plans[at])
		s.saw(s.plans[at], e.Error)
		at = min(s.pick(0, c.Tol/caution), len(s.plans)-1)
		if r := denseLaw(s.plans[at]) / was; r < 3 && r > 0.3 { // the law holds between neighbours
			break
		}
	}
	texts := min(c.check.q.Batch, mostTexts)
	use, rows := texts, freshRows
	if c.all.k.Len >= budgetLength {
		use = min(texts, fewFits)
	}
	least, end := 0, len(s.plans) // plans before least are not good enough; those from end on are not better than best
	for range lawConfirms {
		p := s.plans[at]
		e, err := s.try(p, use, rows)
		if err != nil {
			return best, err
		}
		// Exact attention, which a head has without a good plan, costs more than to look further.
		more := s.spends.left > 0 || best.Method == Exact
		if e.High > c.Tol && e.Error*caution <= c.Tol && more && (use < texts || rows != allRows) {
			if use == texts { // a few rows make most of the error: look at more
				rows = allRows
			}
			use = min(2*use, texts)
			continue
		}
		s.saw(p, e.Error)
		if e.High <= c.Tol {
			more = s.spends.left > 0 || e.High < wastefulShare*c.Tol && best.Method == Exact
			best, end = trial{p, e, c.cost(p), true}, at
			for end > 0 && c.price(s.plans[end-1]) > betterPrice*c.price(p) {
				end--
			}
			at = s.pick(least, c.Tol*e.Error/e.High)
		} else {
			s.failed.add(e)
			least = at + 1
			at = s.pick(least, c.Tol*max(e.Error/e.High, 0.5))
		}
		if best.Method == Exact && at >= end { // the law may be wrong: halve the remaining plans before giving up
			at = (least + end) / 2
		}
		if at >= end || !more {
			break
		}
	}
	return best, nil
}

// try measures a plan and takes the time from the budget.
func (c *lawSearch) try(p Plan, texts, rows int) (Estimate, error) {
	c.spends.spend(c.chooser, p, texts)
	return c.estimate(p, texts, rows)
}

// trialBudget is the time that a head may spend on trials, in seconds per token.
type trialBudget struct {
	left float64
	fits map[centroid.Spec]int // texts that have the clusters of a plan
}

// spend takes the time of trials of a plan on so many texts.
func (b *trialBudget) spend(c interface{ seconds(Plan) float64 }, p Plan, texts int) {
	if math.IsInf(b.left, 1) {
		return
	}
	// a trial has few rows: its time is the clustering, and the keys that blocks weigh
	few := p.Centroid.(centroid.Blocks)
	few.Keys = 1
	all := c.seconds(Plan{Method: Centroid, Centroid: few})
	few.Queries = mostQueries
	fit := c.seconds(Plan{Method: Centroid, Centroid: few}) // hardly any blocks
	of := clustersOf(p)
	b.left -= float64(texts)*(all-fit) + float64(max(0, texts-b.fits[of]))*fit
	b.fits[of] = max(b.fits[of], texts)
}

// mostQueries is the largest block of queries.
const mostQueries = 1 << 14

// searchTop returns the cheapest good plan of a group, given in ascending order of exact keys, and the number of trials
// of a text that the search took. best.good is false if there is none. use is the number of texts to judge on.
//
// The error falls about with the power −2/3 of the number of exact keys, so an error e at n keys suggests n·(e/Tol)^1.5
// keys. For decoding, one or two measurements on one text give the starting point; otherwise it is the cheapest plan.
// Plans are judged on rows of several texts, and each judgement suggests the next plan, until none is left between the
// last that failed and the best.
func (c *denseSearch) searchTop(plans []Plan, use int) (best trial, trials int, err error) {
	// The cheapest plan with blocks of causal queries is good enough for most heads. The rows that rank candidates have
	// picked nothing then, so they may judge it.
	at, guides, rows := len(plans)/2, 2, freshRows
	if !c.Decode {
		at, guides, rows = 0, 0, checkRows
	}
	for range guides {
		e, err := c.estimate(plans[at], 1, checkRows)
		if err != nil {
			return best, trials, err
		}
		trials++
		was := exactKeys(plans[at])
		at = atLeast(plans, was*math.Pow(e.Error*caution/c.Tol, 1.5))
		if now := exactKeys(plans[at]); now <= 3*was && was <= 3*now { // the power law holds nearby
			break
		}
	}
	failed, end := -1, len(plans) // the last plan that was not good enough, and the best plan so far
	texts := min(c.all.q.Batch, mostTexts)
	confirms := 2 * mostConfirms // to read all keys costs much more than another trial
	if lean(plans[0]) {          // there is a good plan
		confirms = leanConfirms
	}
	for n := 0; n < confirms && (n < mostConfirms || !best.good); n++ {
		e, err := c.estimate(plans[at], use, rows)
		if err != nil {
			return best, trials, err
		}
		trials += use
		if e.High > c.Tol && e.Error*caution <= c.Tol && (use < texts || rows != allRows) {
			// The error is small enough but its interval is too wide, because a few rows make most of the error: judge
			// on all texts, then on the other rows too.
			if use == texts {
				rows = allRows
			}
			use = texts
			continue
		}
		rows = max(rows, freshRows)
		next := atLeast(plans, exactKeys(plans[at])*math.Pow(min(e.High, 2*e.Error)/c.Tol, 1.5))
		if e.High <= c.Tol {
			best, end = trial{plans[at], e, c.cost(plans[at]), true}, at
			next = min(max(next, failed+1), at-1)
			for ; next > failed && c.price(plans[next]) > betterPrice*c.price(plans[at]); next-- {
			}
		} else {
			c.failed.add(e)
			failed = max(failed, at)
			next = max(next, at+1)
		}
		if next <= failed || next >= end {
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

// exactKeys returns a number in proportion to the keys that a query meets exactly. Within a group of plans only that
// number varies.
func exactKeys(p Plan) float64 {
	switch s := p.Centroid.(type) {
	case centroid.Prefix:
		return float64(s.Keys)
	case centroid.Sketch:
		return 1 / s.Share
	}
	return 0
}

// trials returns the number of trials of one text that a head may spend, if they cost as much as trials of plan p.
func (c *chooser) trials(p Plan) int {
	texts, n := float64(c.all.q.Batch), c.all.k.Len
	switch {
	case c.Rates == nil && !c.Decode: // the search is not part of the price
		return costFits
	case n < budgetLength || p.Method != Centroid || c.Rates == nil:
		return shortFits
	}
	few := p.Centroid
	// a trial computes few rows: its time is the clustering, and keys that blocks weigh
	if s, ok := few.(centroid.Prefix); ok {
		s.Keys = 1
		few = s
	}
	one := c.seconds(Plan{Method: Centroid, Centroid: few})
	most := choosingShare * texts * c.seconds(Plan{Method: Exact}) / max(one, math.SmallestNonzeroFloat64)
	return int(min(max(most, min(fewFits, texts)), 64))
}

// preference orders groups of causal plans by how often their clusters are the best, smallest first: chunks of
// prefixChunk, their lean plans, then larger chunks.
func (c *chooser) preference(p Plan) int {
	if p.Method != Centroid {
		return 100
	}
	s, ok := p.Centroid.(centroid.Prefix)
	if !ok {
		return 0
	}
	chunk := prefixChunk(c.all.k.Len)
	return either(s.Chunk == chunk, 0, 10) + either(s.Chunk > chunk, 0, 5) + either(lean(p), 1, 0)
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
	switch s := p.Centroid.(type) {
	case centroid.Blocks:
		s.Keys = 0
		return s
	case centroid.Prefix:
		s.Keys = 0
		return s
	case centroid.Sketch:
		s.Share = 0
		return s
	}
	n, _ := p.Features.Spec.OutDim()
	return centroid.Blocks{Clusters: n}
}
