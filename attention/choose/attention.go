package choose

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// Attention runs a [Choice]: every key/value head, with the query heads of its group, by its own plan. It implements
// attention.Attention[attention.Seq[float32]]. Many goroutines may use it at the same time, as long as nobody changes
// Visibility or Unchecked. Outputs are bit-identical at any GOMAXPROCS.
type Attention struct {
	attention.Visibility
	Unchecked bool // skip the search for values that are not finite

	choice *Choice
	runs   []run

	mu        sync.Mutex
	seen      attention.Visibility // the visibility that the runs have; guarded by mu, as is unchecked
	unchecked bool
}

// run is a range of neighbouring key/value heads, lo to hi−1, that one attention computes together.
type run struct {
	lo, hi  int
	forward attention.Attention[attention.Seq[float32]]
	see     func(v attention.Visibility, unchecked bool) // sets the visibility of forward
}

// New draws the feature maps of a choice and joins neighbouring heads of one method into runs. It sets
// Visibility.Causal to the choice's value. Errors wrap [ErrChoice], or come from the maps. a refers to c.
func New(c *Choice) (*Attention, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := &Attention{choice: c}
	a.Causal, a.seen.Causal = c.Causal, c.Causal
	for lo := 0; lo < len(c.Heads); {
		hi := lo + 1
		for hi < len(c.Heads) && together(&c.Heads[lo].Plan, &c.Heads[hi].Plan) {
			hi++
		}
		r, err := newRun(c, lo, hi)
		if err != nil {
			return nil, err
		}
		r.see(a.seen, false)
		a.runs = append(a.runs, r)
		lo = hi
	}
	return a, nil
}

// together reports whether one attention can compute heads with both plans.
func together(p, o *Plan) bool {
	if p.Method != o.Method || reflect.TypeOf(p.Centroid) != reflect.TypeOf(o.Centroid) {
		return false
	}
	return p.Method != Features || p.Features.Window == o.Features.Window && p.Features.Sinks == o.Features.Sinks
}

// newRun makes the attention of heads lo to hi−1, whose plans are together.
func newRun(c *Choice, lo, hi int) (run, error) {
	r := run{lo: lo, hi: hi}
	switch plan := &c.Heads[lo].Plan; plan.Method {
	case Centroid:
		a := &centroid.Attention{Scale: c.Scale}
		for _, h := range c.Heads[lo:hi] {
			a.Specs = append(a.Specs, h.Centroid)
		}
		r.forward, r.see = a, func(v attention.Visibility, unchecked bool) { a.Visibility, a.Unchecked = v, unchecked }
	case Features:
		a := &linear.Attention[float32]{Window: plan.Features.Window, Sinks: plan.Features.Sinks}
		var specs []randfeat.Spec
		for _, h := range c.Heads[lo:hi] {
			specs = append(specs, h.Features.Spec)
		}
		var err error
		if a.Maps, err = linear.NewMaps[float32](specs); err != nil {
			return r, fmt.Errorf("heads %d to %d: %w", lo, hi-1, err)
		}
		r.forward, r.see = a, func(v attention.Visibility, unchecked bool) { a.Visibility, a.Unchecked = v, unchecked }
	default:
		a := &attention.Exact[float32]{Scale: c.Scale}
		r.forward, r.see = a, func(v attention.Visibility, unchecked bool) { a.Visibility, a.Unchecked = v, unchecked }
	}
	return r, nil
}

// Choice returns the choice that a runs. The caller must not change it.
func (a *Attention) Choice() *Choice { return a.choice }

// Forward writes the attention of q over k and v to out. out must not share memory with the inputs. The number of
// key/value heads and their dimensions must equal the numbers of the choice; the length may differ. An error about a
// head that is not in the first run counts heads from the beginning of its run, and says so.
func (a *Attention) Forward(out, q, k, v attention.Seq[float32]) (attention.Report, error) {
	if a.choice == nil {
		return attention.Report{}, fmt.Errorf("an attention without a choice, make it with New: %w", ErrChoice)
	}
	c := a.choice
	if err := out.Check("out"); err != nil {
		return attention.Report{}, err
	}
	if err := a.CheckShapes(out.Shape, q.Shape, k.Shape, v.Shape); err != nil {
		return attention.Report{}, err
	}
	if k.Heads != len(c.Heads) || k.Dim != c.Dim || v.Dim != c.ValueDim {
		return attention.Report{}, fmt.Errorf("a choice for %d key/value heads of %d and %d columns, got %d of %d and %d: %w",
			len(c.Heads), c.Dim, c.ValueDim, k.Heads, k.Dim, v.Dim, dense.ErrShape)
	}
	if a.Causal != c.Causal {
		return attention.Report{}, fmt.Errorf("causal is %t, the choice was made for %t: choose anew: %w", a.Causal,
			c.Causal, ErrChoice)
	}
	a.look()
	group := q.Heads / k.Heads
	reports, errs := make([]attention.Report, len(a.runs)), make([]error, len(a.runs))
	one := func(_, i int) {
		r := &a.runs[i]
		reports[i], errs[i] = r.forward.Forward(headRange(out, r.lo*group, r.hi*group),
			headRange(q, r.lo*group, r.hi*group), headRange(k, r.lo, r.hi), headRange(v, r.lo, r.hi))
	}
	// A run of few heads does not keep all processors busy, so runs execute in parallel.
	workers := 1
	if runtime.GOMAXPROCS(0) > 1 {
		workers = len(a.runs)
	}
	par.Each(len(a.runs), workers, one)
	var total attention.Report
	for i, err := range errs {
		total.Add(reports[i])
		if lo := a.runs[i].lo; err != nil && lo > 0 {
			return total, fmt.Errorf("heads counted from %d on: %w", lo, err)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// look passes Visibility and Unchecked on to the runs. Concurrent calls have the same values, so after the first of
// them nothing is written, and no call changes a run that another one uses.
func (a *Attention) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sameVisibility(a.seen, a.Visibility) && a.unchecked == a.Unchecked {
		return
	}
	a.seen, a.unchecked = a.Visibility, a.Unchecked
	for i := range a.runs {
		a.runs[i].see(a.Visibility, a.Unchecked)
	}
}

// sameVisibility compares slices by identity and does not read their elements: they may be long, and equal slices with
// different memory only cost an update.
func sameVisibility(v, o attention.Visibility) bool {
	return v.Causal == o.Causal && sameSlice(v.KeyMask, o.KeyMask) && sameSlice(v.Segments, o.Segments) &&
		sameSlice(v.KeySegments, o.KeySegments)
}

func sameSlice[E comparable](a, b []E) bool {
	return (a == nil) == (b == nil) && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
