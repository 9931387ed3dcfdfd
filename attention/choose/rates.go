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
	"github.com/randfeat/randfeat/internal/namedjson"
)

// Rates convert costs to seconds on one machine, for heads and sequences of one size. Costs count multiply-adds, but a
// method also sorts, clusters and evaluates exponentials. With rates, [Choose] ranks plans by predicted seconds and
// picks exact attention wherever that is faster.
//
// All numbers are seconds per token and query head, with all processors busy. Exact and Features are the rates of these
// methods per unit of cost. A plan of centroids takes Group for clustering and sorting, and Dense per unit of cost for
// its products. Rates without Dense come from earlier versions. Choose then leaves out plans of centroids.
type Rates struct {
	Exact    float64 `json:"exact"`
	Features float64 `json:"features"`
	Dense    float64 `json:"dense,omitempty"`
	Group    float64 `json:"group,omitempty"`
}

// UnmarshalJSON reads rates, also those of earlier versions, which had more fields.
func (r *Rates) UnmarshalJSON(b []byte) error {
	var w struct {
		ratesFields
		Centroid float64 `json:"centroid"`
		Top      float64 `json:"top"`
		Visit    float64 `json:"visit"`
		Token    float64 `json:"token"`
	}
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("rates: %w: %w", err, ErrChoice)
	}
	*r = Rates(w.ratesFields)
	return nil
}

// ratesFields is Rates without its methods.
type ratesFields Rates

// Seconds returns the predicted time of one token and query head over lenK keys.
func (r *Rates) Seconds(p Plan, causal bool, lenK, dim, valueDim int) float64 {
	switch p.Method {
	case Centroid:
		return r.Group + cmp.Or(r.Dense, r.Exact)*denseCost(p, lenK, dim, valueDim)
	case Features:
		return r.Features * p.Cost(causal, lenK, dim, valueDim)
	}
	return r.Exact * p.Cost(causal, lenK, dim, valueDim)
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

// valid reports whether all rates are finite and not negative, and Exact is positive.
func (r *Rates) valid() bool {
	for _, x := range []float64{r.Exact, r.Features, r.Dense, r.Group} {
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

	plans := append([]Plan{{Method: Exact}, featureGrid(0, 1, dim)[1]}, ratesDense(causal, length, key.group)...)
	lengths, methods := make([]int, len(plans)), make([]*Attention, len(plans))
	for i, p := range plans {
		switch lengths[i] = length; p.Method {
		case Exact:
			lengths[i] = min(length, otherLength*max(1, key.procs/8))
		case Features:
			lengths[i] = min(length, otherLength)
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
	var points [4]ratesPoint
	for i, p := range plans {
		// Medians, and not the least times: with many processors some are often late, which is part of the time.
		slices.Sort(times[i])
		points[i].seconds = times[i][(len(times[i])-1)/2]
		switch {
		case p.Method == Features:
			points[i].cost = p.Cost(causal, lengths[i], dim, valueDim)
		case p.Method == Centroid:
			points[i].cost = denseCost(p, length, dim, valueDim)
		case causal:
			// The cost is that of the last position. These are the last positions: a mean one takes half of the time.
			points[i].cost = 2 * exactCost(length-lengths[i]/2)
		default:
			points[i].cost = exactCost(length)
		}
	}
	return ratesOf(points), nil
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

// ratesPoint holds the measurement of one plan: its time and its cost.
type ratesPoint struct{ seconds, cost float64 }

// ratesOf solves for the rates, given the points of exact attention, of features, and of two plans of ratesDense. Noise
// can make a rate negative; it is then nearly 0.
func ratesOf(p [4]ratesPoint) Rates {
	const least = 1e-12 // for a clock that shows no time
	r := Rates{Exact: max(p[0].seconds, least) / p[0].cost, Features: max(p[1].seconds, least) / p[1].cost}
	few, many := p[2], p[3]
	if r.Dense = r.Exact; many.cost > few.cost {
		r.Dense = (many.seconds - few.seconds) / (many.cost - few.cost)
	}
	r.Dense = max(r.Dense, 1e-15)
	r.Group = max(0, few.seconds-r.Dense*few.cost)
	return r
}
