package auto

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// exactRows is the number of rows up to which ridge has the exact kernel: 3.2 GB, and n³/6 = 1.3·10¹² multiply-adds for
// one factorisation. Random features of as many rows would need as many to be as good, and then cost more. A variable
// for tests with fewer.
var exactRows = 20000

const (
	// A search looks at few rows first and at more around the best: a trial of n rows takes n³/6 multiply-adds. What
	// more rows want, narrower kernels, comes in steps that are looked at each time.
	firstRows = 1024
	lastRows  = 4096
)

// exactPossible reports whether the fit may have the exact kernel, as far as is known before rows are counted.
func (f *fit) exactPossible() bool {
	return f.info.Exact && !f.summed && (f.o.Map == MapExact || f.mapOpen())
}

// mapOpen reports whether the map is to be chosen: nothing is said of it, nor of random features.
func (f *fit) mapOpen() bool {
	return f.o.Map == "" && f.o.Family == nil && f.o.Coupling == nil && f.o.Features == 0 &&
		f.o.Budget == defaultBudget && !f.o.Float32
}

// exactLimit is the largest number of rows for which it will.
func (f *fit) exactLimit() int {
	if !f.exactPossible() {
		return 0
	}
	return min(exactRows, sampleCells/f.schema.Width())
}

// chooseExact chooses bandwidth and penalty of an exact kernel.
func (f *fit) chooseExact(s *sample, rows int64) (*decision, error) {
	c := &chooser{f: f, s: s, rows: rows, d: &decision{Rows: rows, Sampled: s.len(), Last: s.last, Exact: true}}
	c.noteModel()
	why := fmt.Sprintf("the exact kernel of all rows: %d are no more than %d", rows, f.exactLimit())
	if f.o.Map != "" {
		why = "as asked"
	}
	c.chosen(Choice{Name: "map", Value: MapExact, Given: f.o.Map != "", Why: why})
	e := c.exactSearch(shuffled(s.len(), f.o.Seed), finalSizes(s.len())...)
	e.at, e.final, e.open = f.start, true, f.kernelOpen()
	c.planned = 20
	f.progress(stageChoose, 0, c.planned)
	if err := e.search(); err != nil {
		return nil, err
	}
	loss, err := e.chooseLoss()
	if err != nil {
		return nil, err
	}
	if loss != nil {
		c.chosen(*loss)
	}
	c.d.Spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: e.tries.kind, Scale: e.at.scale}, Dim: s.x.Cols, M: s.len(),
		Seed: f.o.Seed, Family: family.Landmarks{}}
	c.d.Lambda = e.at.lambda
	c.noteKernel()
	c.took(e)
	c.found(e, fmt.Sprintf("best %s of %s", f.metric(), e.judged()))
	c.d.Tried = len(e.all) > 1
	return c.d, nil
}

// found lists the bandwidth and λ of a search, and how those that were open were chosen.
func (c *chooser) found(e *exactSearch, how string) {
	o := &c.f.o
	b := Choice{Name: "bandwidth", Number: e.at.scale, Value: short(e.at.scale), Given: o.Bandwidth > 0,
		Why: "as asked"}
	l := Choice{Name: "lambda", Number: e.at.lambda, Value: short(e.at.lambda), Given: o.Lambda > 0, Why: "as asked"}
	if !b.Given {
		b.Why, b.Trials = how, e.shown(func(t trial) float64 { return t.spec.Kernel.Scale })
	}
	if !l.Given {
		l.Why, l.Trials = how, e.shown(func(t trial) float64 { return t.lambda })
	}
	c.chosen(b)
	c.chosen(l)
}

// judged says what the last trials were judged by.
func (e *exactSearch) judged() string {
	n, m := e.tries.x.Rows, e.tries.x.Rows-e.tries.from
	switch {
	case e.tries.parts != nil:
		return fmt.Sprintf("%d rows, fold by fold", n)
	case e.margins != nil:
		return fmt.Sprintf("%d rows by the others of %d", e.margins.judged(), n)
	}
	if n == m {
		return fmt.Sprintf("%d rows, each left out", n)
	}
	return fmt.Sprintf("%d of %d rows, each left out", m, n)
}

// exactSearch searches s and λ together.
type exactSearch struct {
	c       *chooser
	tries   exactTries
	order   []int     // rows of the sample, in the order in which searches take them
	sizes   []int     // how many are looked at, step by step
	weights []float64 // of the columns; nil: 1
	at      exactPoint
	near    exactPoint   // where a climb begins instead of a grid, s in median distances; zero: there is a grid
	all     []trial      // of the last number of rows
	final   bool         // it is for the model, not for a choice before
	open    bool         // other kernels are tried as well
	kinds   []Trial      // that were
	margins *marginTries // what is tried instead of least squares, if it is not nil
}

func (c *chooser) exactSearch(order []int, sizes ...int) *exactSearch {
	return &exactSearch{c: c, order: order, sizes: sizes, tries: exactTries{ctx: c.f.ctx, task: c.f.task,
		kind: c.f.o.kernelKind()}}
}

// finalSizes are those of the search of the settings of n rows: it ends where a few trials cost as much as the fit.
func finalSizes(n int) []int {
	sizes := []int{min(n, firstRows)}
	for m := 2 * firstRows; m <= min(lastRows, n*2/3); m *= 2 {
		sizes = append(sizes, m)
	}
	return sizes
}

type exactPoint struct{ scale, lambda float64 }

// shuffled are the numbers below n in an order hashed from the seed.
func shuffled(n int, seed uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(rng.Mix64(seed^exactLabel^rng.Mix64(uint64(a))),
			rng.Mix64(seed^exactLabel^rng.Mix64(uint64(b))))
	})
	return order
}

// picked are some rows of the sample.
func (s *sample) picked(rows []int) (x, y, t dense.Matrix[float64]) {
	x, y, t = dense.New[float64](len(rows), s.x.Cols), dense.New[float64](len(rows), s.y.Cols),
		dense.New[float64](len(rows), s.t.Cols)
	for to, from := range rows {
		copy(x.Row(to), s.x.Row(from))
		copy(y.Row(to), s.y.Row(from))
		copy(t.Row(to), s.t.Row(from))
	}
	return x, y, t
}

// rows takes the first n rows of the order for what follows.
func (e *exactSearch) rows(n int) error {
	e.all = nil
	x, y, t := e.c.s.picked(e.order[:n])
	if e.weights != nil {
		weigh(x, e.weights)
	}
	e.tries.parts, e.tries.roots = e.c.f.partsOf(e.c.s, e.order[:n]), e.c.s.roots(e.order[:n])
	return e.tries.reset(x, y, t)
}

// search tries a grid on few rows, and climbs from its best on more.
func (e *exactSearch) search() error {
	c := e.c
	o := &c.f.o
	if o.Bandwidth > 0 && o.Lambda > 0 {
		e.at = exactPoint{o.Bandwidth, o.Lambda}
		return nil
	}
	if err := e.rows(e.sizes[0]); err != nil {
		return err
	}
	c.median = medianDistance(&sample{x: e.tries.x}, e.tries.kind, o.Seed)
	switch {
	case e.at != exactPoint{}:
	case e.near != exactPoint{}:
		e.at = exactPoint{e.near.scale * c.median, e.near.lambda}
	default:
		if err := e.grid(); err != nil {
			return err
		}
	}
	if o.Bandwidth > 0 {
		e.at.scale = o.Bandwidth
	}
	if o.Lambda > 0 {
		e.at.lambda = o.Lambda
	}
	for i := range e.sizes {
		if i > 0 {
			if err := e.rows(e.sizes[i]); err != nil {
				return err
			}
		}
		if err := e.climb(); err != nil {
			return err
		}
		if i > 0 || !e.final {
			continue
		}
		if e.open {
			if err := e.tryKinds(); err != nil {
				return err
			}
		}
		if more, err := e.narrower(); err != nil || more {
			return err
		}
	}
	return nil
}

const (
	// wholeRows is the number of rows up to which narrower kernels are judged by all of them.
	wholeRows = 5000
	// narrowSteps octaves below the bandwidth of the first rows are looked at.
	narrowSteps = 3
)

// narrower looks for much narrower kernels, which rows that nearly repeat others make use of once there are enough of
// them: the loss then has a second minimum that no climb on few rows comes to. How a kernel compares with that of e.at
// on half of the rows and on all is followed on, linearly in log n, to the rows of the table; those that may be better
// there are tried on as many as can be afforded. It reports whether it went there.
func (e *exactSearch) narrower() (bool, error) {
	o := &e.c.f.o
	n, m := len(e.order), e.sizes[0]
	if m < 2*leastScaling || o.Bandwidth > 0 || e.tries.parts != nil {
		return false, nil
	}
	lambdas := []float64{e.at.lambda, e.at.lambda / 10}
	if o.Lambda > 0 {
		lambdas = lambdas[:1]
	}
	// behind are the differences of losses to that of e.at.
	behind := func() (diff []float64, err error) {
		if err := e.try(e.at.scale, []float64{e.at.lambda}); err != nil {
			return nil, err
		}
		at := e.find(e.at.scale)
		if at < 0 {
			return nil, nil
		}
		for k := range narrowSteps {
			s := math.Ldexp(e.at.scale, -k-1)
			if err := e.try(s, lambdas); err != nil {
				return nil, err
			}
			d := math.Inf(1)
			if i := e.find(s); i >= 0 {
				d, _ = gain(e.all[i].compared(), e.all[at].compared())
			}
			diff = append(diff, d)
		}
		return diff, nil
	}
	all, err := behind()
	if err != nil || all == nil {
		return false, err
	}
	kept := e.all
	if err := e.rows(m / 2); err != nil {
		return false, err
	}
	half, err := behind()
	if err != nil {
		return false, err
	}
	var scales []float64
	for k := 1; k < len(half); k++ { // climbs on more rows see to one octave
		if all[k]+min(all[k]-half[k], 0)*math.Log2(float64(n)/float64(m)) < 0 {
			scales = append(scales, math.Ldexp(e.at.scale, -k-1))
		}
	}
	size := n
	if n > wholeRows {
		size = lastRows
	}
	if len(scales) == 0 {
		err := e.rows(m)
		e.all = kept
		return false, err
	}
	if err := e.rows(size); err != nil {
		return false, err
	}
	if err := e.try(e.at.scale, lambdas); err != nil {
		return false, err
	}
	for _, s := range scales {
		if err := e.try(s, lambdas); err != nil {
			return false, err
		}
	}
	if i := best(e.all); i >= 0 {
		e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	}
	return true, e.climb()
}

// find is the best trial of a bandwidth; −1: none.
func (e *exactSearch) find(s float64) int {
	top := -1
	for i, t := range e.all {
		if math.Abs(t.spec.Kernel.Scale-s) <= 1e-9*s &&
			(top < 0 || mean(t.compared()) < mean(e.all[top].compared())) {
			top = i
		}
	}
	return top
}

// The grid of an exact kernel reaches further down than that of random features, in s and in λ: as many features as
// rows can make use of narrow kernels, and tables without noise of small penalties.
const exactOctavesLo = -4

var exactDecades = []float64{-6, -4, -2, -1, 0, 1}

// grid tries s from 2⁻⁴ to 4 median distances, an octave apart, and λ from 10⁻⁶ to 10.
func (e *exactSearch) grid() error {
	lambdas := []float64{e.c.f.o.Lambda}
	if e.c.f.o.Lambda == 0 {
		lambdas = nil
		for _, d := range exactDecades {
			lambdas = append(lambdas, math.Pow(10, d))
		}
	}
	scales := []float64{e.c.f.o.Bandwidth}
	if e.c.f.o.Bandwidth == 0 {
		scales = nil
		for k := exactOctavesLo; k <= octavesHi; k++ {
			scales = append(scales, math.Ldexp(e.c.median, k))
		}
	}
	for _, s := range scales {
		if err := e.try(s, lambdas); err != nil {
			return err
		}
	}
	i := best(e.all)
	if i < 0 {
		return fmt.Errorf("bandwidth: %w", errNothing)
	}
	e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	return nil
}

func (e *exactSearch) try(s float64, lambdas []float64) error {
	lambdas = slices.DeleteFunc(slices.Clone(lambdas), func(l float64) bool { return e.known(s, l) })
	if len(lambdas) == 0 {
		return nil
	}
	try := e.tries.try
	if e.margins != nil {
		try = e.margins.try
	}
	ts, err := try(s, lambdas)
	if err != nil {
		return err
	}
	e.all = append(e.all, ts...)
	e.c.counted()
	return nil
}

func (e *exactSearch) known(s, lambda float64) bool {
	return slices.ContainsFunc(e.all, func(t trial) bool {
		return math.Abs(t.spec.Kernel.Scale-s) <= 1e-9*s && math.Abs(t.lambda-lambda) <= 1e-9*lambda
	})
}

// mostSteps bounds a climb.
const mostSteps = 12

// climb goes from e.at by steps of √2 in s and half a decade in λ to a setting whose neighbours are not better.
func (e *exactSearch) climb() error {
	o := &e.c.f.o
	steps := []exactPoint{{math.Sqrt2 / 2, 1}, {1, math.Sqrt(0.1)}, {1, math.Sqrt(10)}, {math.Sqrt2, 1}}
	switch n := e.tries.x.Rows; { // dear, and what more rows want are narrower kernels, and a smaller λ with them
	case n > lastRows/2 && len(e.all) == 0:
		steps = steps[:1]
	case n > lastRows/2: // after other kernels on the same rows
		steps = steps[:2]
	case n > firstRows:
		steps = steps[:2]
	}
	for range mostSteps {
		if err := e.try(e.at.scale, []float64{e.at.lambda}); err != nil {
			return err
		}
		for _, p := range steps {
			if p.scale != 1 && o.Bandwidth > 0 || p.lambda != 1 && o.Lambda > 0 {
				continue
			}
			if err := e.try(e.at.scale*p.scale, []float64{e.at.lambda * p.lambda}); err != nil {
				return err
			}
		}
		i := best(e.all)
		if i < 0 {
			return nil
		}
		next := exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
		if math.Abs(next.scale-e.at.scale) <= 1e-9*next.scale && math.Abs(next.lambda-e.at.lambda) <= 1e-9*next.lambda {
			return nil
		}
		e.at = next
	}
	return nil
}

// shown are the trials of the last number of rows, the best for every value of what is shown.
func (e *exactSearch) shown(value func(trial) float64) []Trial {
	var out []Trial
	for _, t := range e.all {
		out = append(out, e.c.f.shown(t, value(t), fmt.Sprintf("%d rows", e.tries.x.Rows)))
	}
	return distinct(out)
}

// fitExact solves for all rows. A λ that more rows than the search had make too small is raised, as that of sums is.
func (f *fit) fitExact(s *sample) (*machine.Model, error) {
	d := f.decision
	for k := range mostRaises + 1 {
		fit := machine.FitExact
		if d.Margins {
			fit = machine.FitMargins
		}
		m, err := fit(f.setup(d.Spec), s.x, s.y, d.Lambda*math.Pow(10, float64(k)/2))
		if !errors.Is(err, machine.ErrSingular) || f.o.Lambda > 0 || k == mostRaises {
			if err == nil {
				f.noteRaised(d.Lambda, m.Lambda)
			}
			return m, err
		}
	}
	panic("unreachable")
}
