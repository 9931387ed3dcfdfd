package tabular

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
)

const (
	// A search starts on few rows and continues with more around the best setting. A trial of n rows takes n³/6
	// multiply-adds, and as many to leave rows out, so a hundred trials of 512 rows cost as much as two of 2,048. More
	// rows prefer narrower kernels; every step looks for them.
	firstRows  = 512
	secondRows = 1024
	lastRows   = 4096
)

// exactMap is the choice of the exact kernel for a sample of the given number of rows.
func (j *job) exactMap(s *sample, rows int64) Choice {
	ch := Choice{Name: "map", Value: MapExact, Given: j.o.Map != "",
		Why: fmt.Sprintf("the exact kernel of all rows: %d are no more than %d", rows, j.exactLimit())}
	switch {
	case ch.Given:
		ch.Why = "as asked"
	case j.subsamples(rows):
		ch.Why = fmt.Sprintf("the exact kernel of %d of the %d rows", s.len(), rows)
	}
	return ch
}

// chooseExact chooses bandwidth and penalty of an exact kernel.
func (f *search) chooseExact(s *sample, rows int64) (*decision, error) {
	c := &chooser{f: f, s: s, rows: rows, d: &decision{Rows: rows, Sampled: s.len(), Last: s.last, Exact: true}}
	c.noteModel()
	c.chosen(f.exactMap(s, rows))
	e := c.exactSearch(c.order(), finalSizes(s.len())...)
	e.at, e.final, e.open = f.start, true, f.kernelOpen()
	if e.wide = f.iterates(s.len()); e.wide && f.o.Lambda == 0 {
		e.least = leastPenalty(s.len())
	}
	if e.byLoss(); e.margins != nil || e.wide { // more rows decide later
		e.sizes = slices.DeleteFunc(e.sizes, func(n int) bool { return n > marginRows })
	}
	if f.o.Quick && f.iterative() && f.o.Lambda == 0 {
		e.least = quickLeast(s.len())
	}
	most := f.trialRows()
	if f.o.Quick {
		most = min(most, quickSize(s.len()))
	}
	e.sizes = slices.DeleteFunc(e.sizes, func(n int) bool { return n > max(most, e.sizes[0]) })
	if k := len(e.sizes); f.learned != nil && k > 2 { // the search starts at the result of fewer rows
		e.sizes = e.sizes[k-2:]
	}
	if g := f.guide; g != nil && g.Rows > 0 && f.learned == nil {
		rows := min(g.Rows, marginRows)
		e.sizes = slices.Compact([]int{min(s.len(), max(rows/2, firstRows)), min(s.len(), rows)})
	}
	c.planned = 20
	f.progress(stageChoose, 0, c.planned)
	if err := e.search(); err != nil {
		return nil, err
	}
	if err := e.probe(); err != nil {
		return nil, err
	}
	if err := e.lift(); err != nil {
		return nil, err
	}
	f.found.Mean = f.averages(rows)
	e.note(&f.found)
	loss, err := e.chooseLoss()
	f.found.Margins = c.d.Margins
	if err == nil && e.wide {
		var again *Choice
		if again, err = e.farther(); again != nil {
			loss = again
		}
	}
	if err != nil {
		return nil, err
	}
	if loss != nil {
		c.chosen(*loss)
	}
	c.d.Spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: e.tries.kind, Scale: e.at.scale}, Dim: s.x.Cols, M: s.len(),
		Seed: f.o.Seed, Family: family.Landmarks{}}
	c.d.Lambda, c.d.faultless = e.at.lambda, e.faultless()
	c.d.setMissed(e.all)
	if e.least > 0 && e.at.lambda <= e.least {
		c.d.Notes = append(c.d.Notes, fmt.Sprintf("λ = %s is the smallest that conjugate gradients of %d rows are "+
			"tried with: smaller ones are lost in rounding", short(e.at.lambda), s.len()))
	}
	c.noteKernel()
	c.took(e)
	c.noteMean(e)
	c.found(e, fmt.Sprintf("best %s of %s", f.metric(), e.judged()))
	c.d.Tried = len(e.all) > 1
	return c.d, nil
}

// found lists the bandwidth and λ of a search, and how they were chosen if the caller did not set them.
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

// judged describes the rows that judged the last trials.
func (e *exactSearch) judged() string {
	n, m := e.tries.x.Rows, e.tries.x.Rows-e.tries.from
	switch {
	case e.far != nil:
		return fmt.Sprintf("%d rows by %d others", e.far.x.Rows-e.far.rows, e.far.rows)
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

// exactSearch searches the bandwidth s and λ together.
type exactSearch struct {
	c       *chooser
	tries   exactTries
	order   []int     // rows of the sample, in the order of use
	sizes   []int     // numbers of rows, used in turn
	weights []float64 // of the columns; nil means 1
	at      exactPoint
	near    exactPoint   // start of a climb, s in median distances; zero: search a grid
	all     []trial      // trials of the present rows
	final   bool         // the search is for the model, not for an earlier choice
	open    bool         // try other kernels too
	kinds   []Trial      // results of these kernels
	also    []exactPart  // machines of other kernels that the model averages
	told    int          // number of rows they were tried on
	rival   exactPoint   // setting of the Gaussian kernel, to be compared on more rows; zero: none
	margins *marginTries // tried instead of least squares if not nil
	wide    bool         // more rows choose the settings again
	least   float64      // the smallest penalty; 0: no bound
	far     *far         // the search on more rows; nil: none
	// first is the best trial of the first size. The search ends if hopeless, which may be nil, reports true for it.
	first    trial
	hopeless func(first trial) bool
	ended    bool
	// most holds the largest bandwidth of each kernel.
	most map[kernel.Kind]float64
}

func (c *chooser) exactSearch(order []int, sizes ...int) *exactSearch {
	return &exactSearch{c: c, order: order, sizes: sizes, tries: exactTries{ctx: c.f.ctx, task: c.f.task,
		kind: c.f.kernelKind(), shifted: c.weighsClasses()}}
}

// finalSizes returns the numbers of rows that the search for n rows uses in turn. It ends at 2,048 rows: a last
// size of 4,096 chose the same settings for eight tables of 10,000 rows.
func finalSizes(n int) []int {
	sizes := []int{min(n, firstRows)}
	if n >= secondRows*3/4 {
		sizes = append(sizes, min(n, secondRows))
	}
	if m := 2 * secondRows; m <= n*2/3 {
		sizes = append(sizes, m)
	}
	return sizes
}

type exactPoint struct{ scale, lambda float64 }

// orNarrower returns a setting found on fewer rows, and one with the narrower kernel that more rows may prefer.
func (p exactPoint) orNarrower() []exactPoint {
	return []exactPoint{p, {p.scale * math.Sqrt2 / 2, p.lambda}}
}

// shuffled returns the numbers below n in an order hashed from the seed.
func shuffled(n int, seed uint64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return hashed(order, seed)
}

// hashed returns rows in that order.
func hashed(rows []int, seed uint64) []int {
	return slices.SortedFunc(slices.Values(rows), func(a, b int) int {
		return cmp.Compare(rng.Mix64(seed^exactLabel^rng.Mix64(uint64(a))),
			rng.Mix64(seed^exactLabel^rng.Mix64(uint64(b))))
	})
}

// picked copies some rows of the sample.
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

// rows selects the first n rows of the order for the next trials.
func (e *exactSearch) rows(n int) error {
	e.all = nil
	rows := e.order[:n]
	if e.final && e.c.weighsClasses() { // the last rows are judged
		rows = hashed(rows, e.c.f.o.Seed)
	}
	x, y, t := e.c.s.picked(rows)
	if e.weights != nil {
		weigh(x, e.weights)
	}
	e.tries.parts, e.tries.roots = e.c.f.partsOf(e.c.s, rows), e.c.roots(rows)
	return e.tries.reset(x, y, t)
}

// search tries a grid on few rows and climbs from its best setting on more rows.
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
	e.at = e.solvable(e.at)
	if o.Bandwidth > 0 {
		e.at.scale = o.Bandwidth
	}
	if o.Lambda > 0 {
		e.at.lambda = o.Lambda
	}
	told := 0 // index of the size that compares kernels; 512 of many rows missed a much better rough one
	if len(e.order) >= 2*secondRows && c.f.guide == nil {
		told = min(1, len(e.sizes)-1)
	}
	for i := range e.sizes {
		if i > 0 {
			if err := e.rows(e.sizes[i]); err != nil {
				return err
			}
			if err := e.confirmKind(); err != nil {
				return err
			}
		}
		if e.final && i == len(e.sizes)-1 {
			if err := e.guided(); err != nil {
				return err
			}
		}
		if err := e.climb(); err != nil {
			return err
		}
		if k := best(e.all); i == 0 && k >= 0 && !e.final {
			e.first = e.all[k]
			if e.ended = e.hopeless != nil && e.hopeless(e.first); e.ended {
				return nil
			}
		}
		if !e.final || e.faultless() {
			continue
		}
		if i != told {
			continue
		}
		if e.open {
			if err := e.tryKinds(); err != nil {
				return err
			}
		}
		if e.c.f.learned != nil { // its bandwidth already suits its rows
			continue
		}
		if more, err := e.narrower(); err != nil || more {
			return err
		}
	}
	return nil
}

// note keeps the result of a search for the searches of scored folds.
func (e *exactSearch) note(g *guide) {
	if e.tries.x.Rows == 0 { // bandwidth and λ were given
		return
	}
	g.Kernel, g.Rows = e.tries.kind, e.tries.x.Rows
	g.Factor = e.at.scale / medianDistance(&sample{x: e.tries.x}, e.tries.kind, e.c.f.o.Seed)
	g.Lambda = e.at.lambda
}

// guided moves to the bandwidth and λ of the guide, if there is one and they are better on the present rows. A climb
// from another setting may end in another minimum.
func (e *exactSearch) guided() error {
	f := e.c.f
	g := f.guide
	if g == nil || f.learned != nil || e.tries.kind != g.Kernel || g.Factor == 0 ||
		f.o.Bandwidth > 0 || f.o.Lambda > 0 {
		return nil
	}
	p := exactPoint{g.Factor * medianDistance(&sample{x: e.tries.x}, g.Kernel, f.o.Seed), g.Lambda}
	return e.climbOnce([]exactPoint{e.at, p})
}

// faultless reports whether the best trial predicts every class of enough rows correctly. No other setting can make
// fewer errors.
func (e *exactSearch) faultless() bool {
	i := best(e.all)
	return i >= 0 && e.all[i].faultless()
}

// wholeRows is the number of rows up to which codings of columns are judged by all of them.
const wholeRows = 5000

// narrowSteps is the number of octaves below the present bandwidth that are tried.
const narrowSteps = 3

// narrow is a bandwidth below that of e.at. now and before say by how much its loss exceeds that of e.at on the present
// rows and on half of them.
type narrow struct {
	scale       float64
	lambdas     []float64
	now, before float64
}

// wins reports whether the kernel may be better on n rows, if the difference of losses on m rows and on half of them
// continues linearly in log n.
func (k narrow) wins(n, m int) bool {
	return k.now+min(k.now-k.before, 0)*math.Log2(float64(n)/float64(m)) < 0
}

// narrower looks for much narrower kernels. They pay off if rows nearly repeat other rows and there are enough of them:
// the loss then has a second minimum in s that a local search on few rows does not reach. The difference to the kernel
// of e.at on half of the rows and on all of them is extrapolated to the rows of the table. Kernels that may be better
// there are tried on twice as many rows, repeatedly. narrower reports whether a kernel was followed up to the largest
// affordable number of rows.
func (e *exactSearch) narrower() (bool, error) {
	o := &e.c.f.o
	n, m := len(e.order), e.tries.x.Rows
	if m < 2*leastScaling || o.Bandwidth > 0 || e.tries.parts != nil || o.Quick || e.c.f.guide != nil {
		return false, nil
	}
	lambdas := []float64{e.at.lambda, e.at.lambda / 10}
	if o.Lambda > 0 {
		lambdas = lambdas[:1]
	}
	var list []narrow
	for k := 1; k <= narrowSteps; k++ {
		list = append(list, narrow{scale: math.Ldexp(e.at.scale, -k), lambdas: lambdas})
	}
	if ok, err := e.compare(list); err != nil || !ok {
		return false, err
	}
	kept := e.all
	if err := e.rows(m / 2); err != nil {
		return false, err
	}
	half := slices.Clone(list)
	if _, err := e.compare(half); err != nil {
		return false, err
	}
	for i := range list {
		list[i].before = half[i].now
	}
	list = slices.DeleteFunc(list[1:], func(k narrow) bool { return !k.wins(n, m) }) // climbs cover one octave
	top := min(n, e.c.f.trialRows(), marginRows)
	for size := m; len(list) > 0 && m < top; {
		size = min(2*size, top)
		if err := e.rows(size); err != nil {
			return false, err
		}
		kind := e.tries.kind
		if err := e.confirmKind(); err != nil {
			return false, err
		}
		if e.tries.kind != kind {
			return true, e.climb()
		}
		if ok, err := e.compare(list); err != nil || !ok {
			return false, err
		}
		if size <= 2*m {
			if rough, err := e.rough(list); err != nil || rough {
				return false, errors.Join(err, e.climb())
			}
		}
		if size == top {
			if i := best(e.all); i >= 0 {
				e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
			}
			return true, e.climb()
		}
		list = slices.DeleteFunc(list, func(k narrow) bool { return !k.wins(n, size) })
	}
	err := e.rows(m)
	e.all = kept
	return false, err
}

// rough takes matern12 instead of narrow kernels if it is better by more than a standard error on the present rows.
// Kernels with a peak predict rows well from others that they nearly repeat.
func (e *exactSearch) rough(list []narrow) (bool, error) {
	i := best(e.all)
	if !e.open || e.tries.kind != kernel.Gaussian || i < 0 {
		return false, nil
	}
	smooth, all := e.all[i], e.all
	if err := e.tries.take(kernel.Matern12); err != nil {
		return false, err
	}
	e.all = nil
	k := list[0]
	if err := e.try(product([]float64{k.scale, 2 * k.scale, 4 * k.scale}, k.lambdas)); err != nil {
		return false, err
	}
	if j := best(e.all); j >= 0 {
		if diff, se := gain(smooth.compared(), e.all[j].compared()); diff > se {
			e.at = exactPoint{e.all[j].spec.Kernel.Scale, e.all[j].lambda}
			e.kinds = append(e.kinds, e.c.f.shown(e.all[j], float64(len(e.kinds)), kernel.Matern12.String()))
			return true, nil
		}
	}
	e.all = all
	return false, e.tries.take(kernel.Gaussian)
}

// compare tries narrower kernels on the present rows and keeps the best of several penalties. It reports whether e.at
// could be solved.
func (e *exactSearch) compare(list []narrow) (bool, error) {
	points := []exactPoint{e.at}
	for _, k := range list {
		points = append(points, product([]float64{k.scale}, k.lambdas)...)
	}
	if err := e.try(points); err != nil {
		return false, err
	}
	at := e.find(e.at.scale)
	if at < 0 {
		return false, nil
	}
	for i := range list {
		k := &list[i]
		if k.before, k.now = k.now, math.Inf(1); e.find(k.scale) >= 0 {
			t := e.all[e.find(k.scale)]
			k.now, _ = gain(t.compared(), e.all[at].compared())
			k.lambdas = []float64{t.lambda}
		}
	}
	return true, nil
}

// find returns the index of the best trial of a bandwidth, or −1.
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

// The grid of an exact kernel reaches smaller s and λ than that of random features. With as many features as rows,
// narrow kernels are useful, and tables without noise prefer small penalties.
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
	if err := e.try(product(scales, lambdas)); err != nil {
		return err
	}
	i := best(e.all)
	if i < 0 {
		return fmt.Errorf("bandwidth: %w", errNothing)
	}
	e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	return nil
}

// product returns all pairs.
func product(scales, lambdas []float64) []exactPoint {
	var out []exactPoint
	for _, s := range scales {
		for _, l := range lambdas {
			out = append(out, exactPoint{s, l})
		}
	}
	return out
}

// try tries the settings that were not tried on the present rows before.
func (e *exactSearch) try(points []exactPoint) error {
	points = slices.Clone(points)
	for i := range points {
		points[i] = e.solvable(points[i])
	}
	points = slices.DeleteFunc(slices.Compact(points), func(p exactPoint) bool { return e.trialAt(p) >= 0 })
	if len(points) == 0 {
		return nil
	}
	try := e.tries.try
	if e.margins != nil {
		try = e.margins.try
	}
	ts, err := try(points)
	if err != nil {
		return err
	}
	e.all = append(e.all, ts...)
	for range points {
		e.c.counted()
	}
	return nil
}

// solvable returns the nearest setting that conjugate gradients can solve, if e.least is set: a penalty of at least
// e.least, and a kernel of at most widestWide median distances. In wider kernels all values are close to 1.
func (e *exactSearch) solvable(p exactPoint) exactPoint {
	if e.least == 0 || e.c.f.o.Bandwidth > 0 {
		return p
	}
	if e.most == nil {
		e.most = map[kernel.Kind]float64{}
	}
	kind := e.tries.kind
	if e.most[kind] == 0 {
		e.most[kind] = widestWide * medianDistance(&sample{x: e.tries.x}, kind, e.c.f.o.Seed)
	}
	return exactPoint{min(p.scale, e.most[kind]), max(p.lambda, e.least)}
}

// trialAt returns the index of the trial of a setting, or −1.
func (e *exactSearch) trialAt(p exactPoint) int {
	return slices.IndexFunc(e.all, func(t trial) bool {
		return math.Abs(t.spec.Kernel.Scale-p.scale) <= 1e-9*p.scale && math.Abs(t.lambda-p.lambda) <= 1e-9*p.lambda
	})
}

const (
	mostSteps = 12 // bounds a climb
	// A climb continues while the gain exceeds noise: a fraction of the standard error of the difference, which is
	// small between neighbours, and a fraction of the loss. Without the latter, climbs to ever smaller penalties would
	// not end.
	climbNoise = 0.25
	climbGain  = 0.002
)

// climb moves from e.at in steps of √2 in s and half a decade in λ, until no neighbour is better.
func (e *exactSearch) climb() error {
	o := &e.c.f.o
	steps := []exactPoint{{1, 1}, {math.Sqrt2 / 2, 1}, {1, math.Sqrt(0.1)}, {1, math.Sqrt(10)}, {math.Sqrt2, 1}}
	switch n := e.tries.x.Rows; { // many rows are slow; they prefer narrower kernels and a smaller λ
	case n > lastRows/2 && len(e.all) == 0:
		steps = steps[:2]
	case n >= secondRows*3/4: // also if other kernels were tried on the same rows
		steps = steps[:3]
	}
	for range mostSteps {
		var points []exactPoint
		for _, p := range steps {
			if p.scale == 1 && p.lambda == 1 || !(p.scale != 1 && o.Bandwidth > 0 || p.lambda != 1 && o.Lambda > 0) {
				points = append(points, exactPoint{e.at.scale * p.scale, e.at.lambda * p.lambda})
			}
		}
		if err := e.try(points); err != nil {
			return err
		}
		i := best(e.all)
		if at := e.trialAt(e.at); i < 0 || at >= 0 && !e.all[i].clearly(&e.all[at]) {
			return nil
		}
		e.at = exactPoint{e.all[i].spec.Kernel.Scale, e.all[i].lambda}
	}
	return nil
}

// clearly reports whether t is better than another trial by more than noise.
func (t *trial) clearly(other *trial) bool {
	if t == other || other.faultless() {
		return false
	}
	diff, se := gain(other.compared(), t.compared())
	if diff > max(climbNoise*se, climbGain*mean(other.compared())) {
		return true
	}
	diff, se = gain(other.loss, t.loss)
	return t.tie != nil && diff > nearTie*se
}

// shown returns the trials of the last number of rows, the best for each displayed value.
func (e *exactSearch) shown(value func(trial) float64) []Trial {
	var out []Trial
	for _, t := range e.all {
		n := e.tries.x.Rows
		if e.far != nil {
			n = e.far.rows
		}
		out = append(out, e.c.f.shown(t, value(t), fmt.Sprintf("%d rows", n)))
	}
	return distinct(out)
}
