package choose

import (
	"cmp"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
)

// Rates convert costs to seconds on one machine, for heads and sequences of one size. Costs count multiply-adds, but a
// method also sorts, clusters and evaluates exponentials. With rates, [Choose] ranks plans by predicted seconds and
// picks exact attention wherever that is faster.
//
// All numbers are seconds per token and query head, with all processors busy. Exact, Features, Centroid, Top and Dense
// are per unit of cost:
//
//   - Exact and Features are the rates of these methods.
//   - Token is the time per token for clustering. Centroid covers the products with centroids and neighbours, Top the
//     keys of the opened clusters, and Visit each opened cluster.
//   - Group and Dense belong to queries that choose in blocks (centroid.Blocks, centroid.Prefix): Group is the time per
//     token for clustering and sorting, Dense the rate of all products.
//
// Token, Centroid, Top and Visit are of centroid.PerQuery, and 0 for causal attention. Rates without Dense come from
// earlier versions. Choose then leaves out plans of blocks.
type Rates struct {
	Exact    float64 `json:"exact"`
	Features float64 `json:"features"`
	Centroid float64 `json:"centroid"`
	Top      float64 `json:"top"`
	Visit    float64 `json:"visit"`
	Token    float64 `json:"token"`
	Dense    float64 `json:"dense,omitempty"`
	Group    float64 `json:"group,omitempty"`
}

// Seconds returns the predicted time of one token and query head over lenK keys.
func (r *Rates) Seconds(p Plan, causal bool, lenK, dim, valueDim int) float64 {
	cost := p.Cost(causal, lenK, dim, valueDim)
	switch p.Method {
	case Centroid:
		if s, ok := p.Centroid.(centroid.PerQuery); ok {
			base := baseCost(s, lenK, dim, valueDim)
			return r.Token + r.Centroid*base + r.Top*(cost-base) + r.Visit*float64(s.Top)
		}
		return r.Group + cmp.Or(r.Dense, r.Exact)*denseCost(p, lenK, dim, valueDim)
	case Features:
		return r.Features * cost
	}
	return r.Exact * cost
}

// denseCost returns the cost of a plan whose products are dense tiles. For causal attention it is twice the cost at the
// mean position, because the cost of exact attention, with which it is compared, is that of the last position.
func denseCost(p Plan, lenK, dim, valueDim int) float64 {
	switch s := p.Centroid.(type) {
	case centroid.Prefix:
		if lenK == 0 {
			return 0
		}
		start := min(float64(max(s.Start, s.Chunk)), float64(lenK)) // queries before it see all keys
		part := start / float64(lenK)
		return part*exactCost(int(start)) + 2*(1-part)*s.Cost(int(start+float64(lenK))/2, dim, valueDim)
	case centroid.Sketch:
		return 2 * s.Cost(lenK/2, dim, valueDim)
	}
	return p.Centroid.Cost(lenK, dim, valueDim)
}

// baseCost returns the cost of a plan without the keys of its exact clusters.
func baseCost(s centroid.PerQuery, lenK, dim, valueDim int) float64 {
	s.Top = 0
	return s.Cost(lenK, dim, valueDim)
}

// valid reports whether all rates are finite and not negative, and Exact is positive.
func (r *Rates) valid() bool {
	for _, x := range []float64{r.Exact, r.Features, r.Centroid, r.Top, r.Visit, r.Token, r.Dense, r.Group} {
		if !dense.IsFinite(x) || x < 0 {
			return false
		}
	}
	return r.Exact > 0
}

// Rates are measured at a length from minRatesLength to maxRatesLength keys, and at no more than otherLength keys
// for plans without blocks; exact attention runs with so few queries, or more for many processors, over all keys.
// There are ratesRounds rounds, or fewer, but at least fewRounds, if they exceed ratesTime.
const (
	minRatesLength = 128
	maxRatesLength = 8192
	otherLength    = 1024
	ratesTime      = 100 * time.Millisecond
	ratesRounds    = 8
	fewRounds      = 4
)

// ratesKey identifies a measurement: everything that rates depend on.
type ratesKey struct {
	procs, heads, group, length, dim, valueDim int
	causal                                     bool
}

// ratesDone keeps the rates of the process. Measurements hold ratesLock, so that they do not disturb each other.
var (
	ratesLock sync.Mutex
	ratesDone = map[ratesKey]Rates{}
)

// MeasureRates times the methods on this machine for float32 arguments of the given shapes. It uses the available
// processors, as many heads as the arguments have (at most one per processor) and about the same length. It takes some
// tenths of a second, once per process and size. A [Choice] stores its rates: pass the rates of a saved choice to get
// the same plans again.
//
// Rates hold for one length, the nearest power of two up to 8192. The clustering is trained on a sample of the keys, so
// its time per token falls with the length.
func MeasureRates(causal bool, q, k, v attention.Shape) (*Rates, error) {
	if q.Heads < 1 || k.Heads < 1 || q.Heads%k.Heads != 0 || q.Dim < 1 || q.Dim != k.Dim || v.Dim < 1 {
		return nil, fmt.Errorf("rates of q %v, k %v, v %v: %w", q, k, v, dense.ErrShape)
	}
	ratesLock.Lock()
	defer ratesLock.Unlock()
	near := 1 << bits.Len(uint(max(1, 2*k.Len/3))) // the nearest power of two
	near = min(max(near, minRatesLength), maxRatesLength)
	procs := runtime.GOMAXPROCS(0)
	key := ratesKey{procs, min(k.Heads, procs), q.Heads / k.Heads, near, q.Dim, v.Dim, causal}
	if r, ok := ratesDone[key]; ok {
		return &r, nil
	}
	r, err := measureRates(key)
	if err == nil {
		ratesDone[key] = r
	}
	return &r, err
}

// measureRates times each plan in several rounds and solves for the rates. Rounds alternate between plans, so that a
// disturbance does not hit one plan alone.
func measureRates(key ratesKey) (Rates, error) {
	causal, length, dim, valueDim := key.causal, key.length, key.dim, key.valueDim
	vis := attention.Visibility{Causal: causal}
	// All heads hold the same values, each in its own memory as real heads do.
	q, k, v := heads.Generate[float32](1, length, max(16, dim, valueDim), 1)
	q.Dim, k.Dim, v.Dim = dim, dim, valueDim
	q, k, v = repeated(q, key.heads*key.group), repeated(k, key.heads), repeated(v, key.heads)
	out := attention.NewSeq[float32](1, q.Heads, length, valueDim)

	other := min(length, otherLength)
	plans := append(ratesPlans(grid(causal, 0, 1, other, dim, key.group)), ratesDense(causal, length, key.group)...)
	lengths, methods := make([]int, len(plans)), make([]*Attention, len(plans))
	for i, p := range plans {
		lengths[i] = other
		switch {
		case i >= len(plans)-2: // those of ratesDense
			lengths[i] = length
		case p.Method == Exact:
			lengths[i] = min(length, otherLength*max(1, key.procs/8))
		}
		n := lengths[i]
		c, err := Use(p, vis, 0, cut(q, 0, n), cut(k, 0, n), cut(v, 0, n))
		if err != nil {
			return Rates{}, err
		}
		if methods[i], err = New(c); err != nil {
			return Rates{}, err
		}
		methods[i].Visibility = vis
	}
	times := make([][]float64, len(methods))
	start := time.Now()
	for round := 0; round < ratesRounds && (round < fewRounds || time.Since(start) < ratesTime); round++ {
		for i, a := range methods {
			n, m, from := lengths[i], lengths[i], time.Now()
			if plans[i].Method == Exact {
				m = length
			}
			if _, err := a.Forward(cut(out, 0, n), cut(q, m-n, m), cut(k, 0, m), cut(v, 0, m)); err != nil {
				return Rates{}, err
			}
			times[i] = append(times[i], time.Since(from).Seconds()/float64(q.Heads*n))
		}
	}
	points := make([]ratesPoint, len(plans))
	for i, p := range plans {
		// Medians, and not the least times: with many processors some are often late, which is part of the time.
		slices.Sort(times[i])
		points[i] = ratesPoint{seconds: times[i][(len(times[i])-1)/2], cost: p.Cost(causal, lengths[i], dim, valueDim)}
		if p.Method == Exact {
			points[i].cost = exactCost(length)
			if causal {
				// The cost is that of the last position. These are the last positions: a mean one takes half of the
				// time.
				points[i].cost = 2 * exactCost(length-lengths[i]/2)
			}
		}
		if s, ok := p.Centroid.(centroid.PerQuery); ok {
			points[i].base, points[i].top = baseCost(s, lengths[i], dim, valueDim), float64(s.Top)
		}
	}
	n := len(points) - 2
	for i := n; i < len(points); i++ {
		points[i].cost = denseCost(plans[i], length, dim, valueDim)
	}
	r := ratesOf(points[:n])
	r.dense(points[n], points[n+1])
	return r, nil
}

// repeated returns n copies of a head.
func repeated(s attention.Seq[float32], n int) attention.Seq[float32] {
	out := attention.NewSeq[float32](1, n, s.Len, s.Dim)
	for h := range n {
		for l := range s.Len {
			copy(out.Head(0, h).Row(l), s.Head(0, 0).Row(l))
		}
	}
	return out
}

// ratesDense returns the two plans that determine Dense and Group: one with few exact keys, one with many.
func ratesDense(causal bool, length, group int) []Plan {
	plan := func(keys int) Plan {
		if causal {
			s := prefixSpec(length, min(prefixChunk(length), length/4), group, 0)
			s.Keys = keys
			return Plan{Method: Centroid, Centroid: s}
		}
		return Plan{Method: Centroid, Centroid: centroid.Blocks{Clusters: max(4, min(64, length/32)),
			Queries: either(length <= 1<<11, 64, 128), Passes: 1, Sample: 512, Keys: keys}}
	}
	return []Plan{plan(max(1, length/64)), plan(max(2, length/6))}
}

// dense solves for Dense and Group, given a plan a with less cost than plan b.
func (r *Rates) dense(a, b ratesPoint) {
	const least = 1e-15
	if b.cost > a.cost {
		r.Dense = max(least, (b.seconds-a.seconds)/(b.cost-a.cost))
	} else {
		r.Dense = max(least, r.Exact)
	}
	r.Group = max(0, a.seconds-r.Dense*a.cost)
}

// ratesPlans returns the plans to time: exact attention, features, and of bidirectional plans the fewest and the most
// clusters without exact ones, and a cheap and an expensive plan with exact clusters. ratesOf relies on this order.
func ratesPlans(all []Plan) []Plan {
	var alone, top []Plan
	out := []Plan{{Method: Exact}, {}}
	for _, p := range all {
		s, ok := p.Centroid.(centroid.PerQuery)
		switch {
		case p.Method == Features:
			out[1] = p
		case ok && s.Top == 0:
			alone = append(alone, p)
		case ok:
			top = append(top, p)
		}
	}
	if len(top) == 0 {
		return out
	}
	slices.SortStableFunc(alone, func(a, b Plan) int {
		return cmp.Compare(a.Centroid.(centroid.PerQuery).Clusters, b.Centroid.(centroid.PerQuery).Clusters)
	})
	return append(out, alone[0], alone[len(alone)-1], top[len(top)/3], top[len(top)-2])
}

// ratesPoint holds the measurement of one plan: its time, its cost, its cost without exact clusters, and the number of
// exact clusters.
type ratesPoint struct{ seconds, cost, base, top float64 }

// ratesOf solves for the rates, given the points of ratesPlans. Noise can make a rate negative; it is then set to 0,
// and the other rate takes the whole time.
func ratesOf(p []ratesPoint) Rates {
	const least = 1e-12 // for a clock that shows no time
	r := Rates{Exact: max(p[0].seconds, least) / p[0].cost, Features: max(p[1].seconds, least) / p[1].cost}
	if len(p) == 2 {
		return r
	}
	if p[3].base > p[2].base {
		r.Centroid = max(0, (p[3].seconds-p[2].seconds)/(p[3].base-p[2].base))
	}
	r.Token = max(0, p[2].seconds-r.Centroid*p[2].base)
	// The remaining time of the two plans with exact clusters is Top·x + Visit·n.
	rest := func(p ratesPoint) (s, x, n float64) {
		return max(0, p.seconds-r.Token-r.Centroid*p.base), p.cost - p.base, p.top
	}
	s1, x1, n1 := rest(p[4])
	s2, x2, n2 := rest(p[5])
	if det := x1*n2 - x2*n1; det != 0 {
		r.Top, r.Visit = (s1*n2-s2*n1)/det, (x1*s2-x2*s1)/det
	}
	if r.Top < 0 || r.Visit < 0 || r.Top == 0 && r.Visit == 0 {
		top, visit := (s1+s2)/(x1+x2), (s1+s2)/(n1+n2)
		if r.Top < 0 {
			r.Top, r.Visit = 0, visit
		} else {
			r.Top, r.Visit = top, 0
		}
	}
	return r
}
