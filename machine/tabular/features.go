package tabular

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

const (
	firstFeatures = 64  // of the learning curve
	trialFeatures = 512 // up to which a penalty costs less than the map
	// maxBlocks is the dimension up to which projections are drawn in blocks of d. A block takes d³ operations, in
	// every trial. Cosines of independent directions are of order d^(−1/2), so in higher dimensions blocks gain
	// little.
	maxBlocks = 1024
	// maxCovariance is the dimension up to which families with covariances are tried. Fitting one takes d³
	// operations and estimates d(d+1)/2 parameters from the sample.
	maxCovariance = 256
	// largeDense is the number of columns above which projections of very many features are structured.
	largeDense = 128
	// mostProducts bounds n·F² if the caller set no budget. Tables of more than 500,000 rows get fewer features, so the
	// time of a fit does not grow faster than the number of rows.
	mostProducts = 2.1e12
)

// featureSearch chooses a map with features for the rows of a frame. All of its trials predict the folds of the frame
// by sums of the other folds.
type featureSearch struct {
	*frame
	d    *decision
	x    matrix        // the rows in their columns
	spec randfeat.Spec // family, coupling and seed
	from float64       // bandwidth of the exact kernel, or the median distance
}

// chooseFeatures chooses the map of a model of least squares, whose kernel, width and penalty are those that an exact
// kernel has on some rows.
func chooseFeatures(f *frame, d *decision) error {
	x := f.s.x
	if d.Fields != nil {
		x = x.Clone()
		weigh(x, f.columnWeights(d.Fields))
	}
	c := &featureSearch{frame: f, d: d, x: x, from: d.Spec.Kernel.Scale}
	if f.o.Map == MapNystrom || f.mapOpen() && f.info.Exact {
		return c.landmarks()
	}
	c.spec = randfeat.Spec{Kernel: d.Spec.Kernel, Dim: x.Cols, Seed: f.o.Seed}
	c.spec = c.candidates()[0]
	large := f.o.Features > maxFeatures
	switch {
	case large && !f.info.Exact:
		return fmt.Errorf("%d features are for ridge alone, a %s model has at most %d: %w", f.o.Features, f.kind,
			maxFeatures, machine.ErrSetup)
	case large && f.o.Coupling == nil && x.Cols > largeDense:
		c.spec.Coupling = coupling.Hadamard{}
	}
	if f.o.Coupling == nil && !c.defined(c.spec) {
		c.spec.Coupling = coupling.IID{}
	}
	c.noteFamily("unbiased and bounded, the least error of a Gaussian kernel for least squares", nil)
	if f.o.Features > 0 {
		spec, err := c.at(c.spec, c.from, f.o.Features)
		if err == nil {
			err = c.setFeatures(spec, Choice{Name: "features", Given: true, Why: "as asked"})
		}
		if d.Large = large; err != nil || large {
			return err
		}
	} else if err := c.learningCurve(); err != nil {
		return err
	}
	if err := c.moreFeatures(); err != nil {
		return err
	}
	return c.penalty()
}

// at returns the spec with bandwidth s and about the given number of features. It fits the parameters of the family if
// the family has some.
func (c *featureSearch) at(spec randfeat.Spec, s float64, features int) (randfeat.Spec, error) {
	spec.Kernel = kernel.Kernel{Kind: spec.Kernel.Kind, Scale: s, M: spec.Kernel.M}
	if fitted(spec.Family) {
		var err error
		if spec, err = randfeat.Fit(spec, c.x, c.x); err != nil {
			return spec, err
		}
	}
	spec, err := spec.WithFeatures(features)
	if errors.Is(err, randfeat.ErrFeatures) {
		return spec, nil // its smallest map; the report says how many features it has
	}
	return spec, err
}

// fitted reports whether the parameters of a family are fitted: they are if the caller set none.
func fitted(f family.Family) bool {
	_, ok := f.(family.Fitter)
	return ok && reflect.ValueOf(f).IsZero()
}

// defined reports whether the coupling is defined for the projections of the family. Some families, such as Poisson,
// have projections that are not normal, and only independent ones are defined.
func (c *featureSearch) defined(s randfeat.Spec) bool {
	if c.o.Family == nil && s.Kernel.Kind.Exponential() {
		return true
	}
	one, err := c.at(s, c.from, 1)
	if err == nil {
		_, err = randfeat.Draw(one)
	}
	return !errors.Is(err, coupling.ErrLaw)
}

// candidates returns the families and couplings to choose between, the default first. For least squares there is only
// one: features of any sign work in φ·φ, and trigonometric ones are bounded. Kernel-weighted means need positive
// weights.
func (c *featureSearch) candidates() []randfeat.Spec {
	spec := func(f family.Family, k coupling.Coupling) randfeat.Spec {
		s := c.spec
		s.Family, s.Coupling = f, k
		if c.o.Family != nil {
			s.Family = c.o.Family
		}
		if c.o.Coupling != nil {
			s.Coupling = c.o.Coupling
		} else if s.Dim > maxBlocks || !c.defined(s) {
			s.Coupling = coupling.IID{}
		}
		return s
	}
	if !c.info.Averages {
		return []randfeat.Spec{spec(family.Trig{}, coupling.Orthogonal{})}
	}
	if c.o.Family != nil {
		k := coupling.Coupling(coupling.Simplex{})
		if c.o.Family.Name() == (family.Trig{}).Name() {
			k = coupling.Orthogonal{}
		}
		return []randfeat.Spec{spec(nil, k)}
	}
	list := []randfeat.Spec{spec(family.OPRF{}, coupling.Simplex{})}
	if c.spec.Dim <= maxCovariance {
		list = append(list, spec(family.Adaptive{}, coupling.Simplex{}))
	}
	if c.task == machine.Regression {
		// With features of both signs, classes get no probabilities and a density no logarithm. A mean tolerates them.
		list = append(list, spec(family.Trig{}, coupling.Orthogonal{}))
	}
	return list
}

// noteFamily adds the choices of family and coupling.
func (c *featureSearch) noteFamily(why string, trials []Trial) {
	fam := Choice{Name: "family", Value: c.spec.Family.Name(), Given: c.o.Family != nil, Why: why, Trials: trials}
	if fam.Given {
		fam.Why = "as asked"
	}
	if fitted(c.spec.Family) {
		fam.Why += "; parameters fitted to the sample"
		if w := family.Warning(c.spec.Family.(family.Fitter), c.x.Rows, c.spec.Dim); w != "" {
			c.d.Notes = append(c.d.Notes, w)
		}
	}
	cou := Choice{Name: "coupling", Value: coupling.IID{}.Name(), Given: c.o.Coupling != nil,
		Why: "goes with the family: less variance than independent projections"}
	if c.spec.Coupling != nil {
		cou.Value = c.spec.Coupling.Name()
	}
	switch {
	case cou.Given:
		cou.Why = "as asked"
	case c.spec.Dim > maxBlocks:
		cou.Why = fmt.Sprintf("blocks of %d dimensions would take too long to draw, and independent projections are nearly "+
			"orthogonal there", c.spec.Dim)
	case cou.Value == coupling.IID{}.Name():
		cou.Why = "others are not defined for the projections of this family"
	}
	c.d.Choices = append(c.d.Choices, fam, cou)
}

// limit returns the largest number of features worth trying, which is about the number of rows. With F = n the features
// can fit any targets; more features only approximate the kernel better.
func (c *featureSearch) limit() int {
	most := firstFeatures
	for int64(most) < c.d.Rows && (most <= trialFeatures || int64(2*most) <= c.d.Rows) {
		most *= 2
	}
	if c.o.Budget == defaultBudget {
		most = min(most, int(math.Sqrt(mostProducts/float64(c.d.Rows))))
	}
	return min(most, c.o.Budget, c.mostFeaturesFor())
}

// leastSquares is the kind that judges settings for all kinds of which least squares on the same features finds good
// ones: the usual kind of a task.
func (j *job) leastSquares() machine.Kind { return machine.KindsOf(j.task)[0] }

// try tries settings of a map, each with several penalties.
func (c *featureSearch) try(spec randfeat.Spec, omega []coupling.Omega, lambdas ...float64) ([]*trial, error) {
	kind := c.kind
	if c.info.LeastSquares {
		kind = c.leastSquares()
	}
	setup := c.setup(spec)
	if setup.Omega = omega; omega == nil {
		var err error
		if setup.Omega, err = randfeat.Draw(spec); err != nil {
			return nil, err
		}
	}
	c.progress(stageChoose, 0, 0)
	return c.trySums(kind, setup, lambdas)
}

// learningCurve doubles the number of features until the gain stops, twice in a row while there are few. It then takes
// the smallest number whose loss is within a standard error of the best. This is the "1 SE rule" of Breiman et al. 1984
// (Classification and Regression Trees, §3.4.3), with the paired difference in place of the error: losses of maps on
// the same rows are correlated. The smallest number is preferred because every later prediction costs F. Few features
// want wider kernels than many, so the width begins at twice that of the exact kernel and may fall at each step.
func (c *featureSearch) learningCurve() error {
	type point struct {
		*trial
		features int
		spec     randfeat.Spec
	}
	var curve []point
	s, lambda, flat := c.from, c.d.Lambda, 0
	if c.o.Bandwidth == 0 {
		s *= 2
	}
	var shown []Trial
	for f := min(firstFeatures, c.limit()); f <= c.limit() && flat < 2; f *= 2 {
		var top *point
		for step := range 4 {
			spec, err := c.at(c.spec, s*math.Pow(2, -float64(step)/2), f)
			if err != nil {
				return err
			}
			lambdas := []float64{lambda}
			if f <= trialFeatures && c.o.Lambda == 0 && c.info.Penalised {
				lambdas = append(lambdas, lambda*math.Sqrt(0.1), lambda*math.Sqrt(10))
			}
			ts, err := c.try(spec, nil, lambdas...)
			if err != nil {
				return err
			}
			t := best(ts)
			if t == nil || top != nil && t.mean >= top.mean {
				break
			}
			if top = (&point{t, f, spec}); c.o.Bandwidth > 0 {
				break
			}
		}
		if top == nil {
			continue
		}
		s, lambda = top.spec.Kernel.Scale, top.Lambda
		if n := len(curve); n > 0 {
			if diff, se := gain(curve[n-1].loss, top.loss); diff >= se {
				flat = 0
			} else if flat++; f > trialFeatures {
				flat = 2 // the next step would cost eight times as much
			}
		}
		curve = append(curve, *top)
		shown = append(shown, c.shown(top.trial, float64(f), ""))
	}
	if len(curve) == 0 {
		return fmt.Errorf("features: %w", errNothing)
	}
	top, at := curve[0], 0
	for _, p := range curve {
		if p.mean < top.mean {
			top = p
		}
	}
	for at = range curve {
		if diff, se := gain(curve[at].loss, top.loss); diff <= se {
			break
		}
	}
	p := curve[at]
	ch := Choice{Name: "features", Trials: shown, Why: "the best of the learning curve"}
	switch {
	case p.features < top.features:
		ch.Why = fmt.Sprintf("as good as %d within a standard error", top.features)
	case 2*p.features > c.limit() && c.limit() == c.o.Budget && flat == 0:
		ch.Why = fmt.Sprintf("more still helped, the budget is %d", c.o.Budget)
	}
	c.d.Lambda = p.Lambda
	if b := c.d.find("bandwidth"); !b.Given && p.spec.Kernel.Scale != b.Number {
		b.Number, b.Value = p.spec.Kernel.Scale, short(p.spec.Kernel.Scale)
		b.Why += fmt.Sprintf("; moved from %s for %d features", short(c.from), p.features)
	}
	return c.setFeatures(p.spec, ch)
}

func (c *featureSearch) setFeatures(spec randfeat.Spec, ch Choice) error {
	n, err := spec.OutDim()
	if err != nil {
		return err
	}
	if n > mostFeatures || n > maxFeatures && c.o.Features <= maxFeatures {
		return fmt.Errorf("family %s makes %d features, the limit is %d", spec.Family.Name(), n, maxFeatures)
	}
	ch.Number, ch.Value = float64(n), fmt.Sprint(n)
	if want := c.o.Features; ch.Given && n != want {
		ch.Why = fmt.Sprintf("nearest to the %d asked for that family %s can make", want, spec.Family.Name())
	}
	c.d.Spec = spec
	c.d.Choices = append(c.d.Choices, ch)
	return nil
}

// moreFeatures doubles the number of features of a model with variances until the variances are reliable. A learning
// curve of errors stops when predictions are good, at a fraction of the features that variances need. The doubling
// stops when the saturation is below half of machine.Saturated: there, measured variances were at least 0.7 of the
// exact ones, and a factor of two remains for the rows outside the sample.
func (c *featureSearch) moreFeatures() error {
	ch := c.d.find("features")
	if !c.info.Bayesian || ch.Given {
		return nil
	}
	from := int(ch.Number)
	for f := from; ; f *= 2 {
		spec, err := c.at(c.spec, c.d.Spec.Kernel.Scale, f)
		if err != nil {
			return err
		}
		used, err := c.saturation(spec)
		if err != nil {
			return err
		}
		enough := !(used > machine.Saturated/2)
		if !enough && 2*f <= c.o.Budget {
			continue
		}
		if f == from {
			return nil
		}
		n, err := spec.OutDim()
		if err != nil {
			return err
		}
		c.d.Spec, ch.Number, ch.Value = spec, float64(n), fmt.Sprint(n)
		ch.Why = fmt.Sprintf("%d are enough for predictions; more, so that %.2f of them are used up and variances can be "+
			"believed", from, used)
		if !enough {
			ch.Why = fmt.Sprintf("%d are enough for predictions; variances need more than the budget", from)
		}
		return nil
	}
}

// saturation returns the saturation of least squares on the frame (see machine.Point).
func (c *featureSearch) saturation(spec randfeat.Spec) (float64, error) {
	setup := c.setup(spec)
	var err error
	if setup.Omega, err = randfeat.Draw(spec); err != nil {
		return 0, err
	}
	sums, err := machine.NewSums(c.leastSquares(), setup)
	if err == nil {
		err = sums.Add(c.x, c.s.y)
	}
	if err != nil {
		return 0, err
	}
	at, err := sums.(pather).Path([]float64{c.d.Lambda})
	if err != nil {
		return 0, err
	}
	return at[0].Saturation, nil
}

// landmarks chooses landmarks in the frame: as many as the caller set, or as the budget allows.
func (c *featureSearch) landmarks() error {
	d := c.d
	m := c.o.Features
	if m == 0 {
		m = min(c.o.Budget, c.mostFeaturesFor(), max(c.x.Rows/2, 1))
		if c.o.Map == "" { // in the time of that many random features
			m = min(m, int(float64(c.limit())/math.Sqrt2))
		}
	}
	if m > c.x.Rows {
		return fmt.Errorf("%d landmarks from a sample of %d rows: ask for fewer features, or for a larger sample: %w", m,
			c.x.Rows, machine.ErrSetup)
	}
	rows, marks, err := machine.Landmarks(d.Spec.Kernel, c.x, m, c.o.Seed)
	if err != nil {
		return err
	}
	d.Spec.M, d.Spec.Dim, d.Spec.Family, d.marks = len(rows), c.x.Cols, family.Landmarks{}, marks
	why := fmt.Sprintf("the budget is %d, the sample has %d rows", c.o.Budget, c.x.Rows)
	switch {
	case c.o.Features > 0 && d.Spec.M == m:
		why = "as asked"
	case d.Spec.M < m:
		why = fmt.Sprintf("%d were looked for: these tell the kernel of all rows of the sample", m)
	}
	mapped := Choice{Name: "map", Value: MapNystrom, Given: c.o.Map != "", Why: "as asked"}
	if !mapped.Given {
		mapped.Why = fmt.Sprintf("landmarks of all rows: %d are more than the %d of an exact kernel", d.Rows,
			c.exactLimit())
	}
	d.Choices = slices.Insert(d.Choices, 1, mapped)
	d.Choices = append(d.Choices, Choice{Name: "features", Number: float64(d.Spec.M), Value: fmt.Sprint(d.Spec.M),
		Given: c.o.Features > 0, Why: why})
	if d.Open = c.open(); d.Open {
		d.Choices = slices.DeleteFunc(d.Choices, func(ch Choice) bool { return ch.Name == "lambda" })
	}
	return nil
}

// penalty chooses λ at the final map, or leaves it open. λ weighs against a sum of losses, not a mean, so its best
// value does not shrink with n: the best on the sample is a good centre for all rows.
func (c *featureSearch) penalty() error {
	d := c.d
	if !c.info.Penalised || c.o.Lambda > 0 {
		return nil
	}
	d.Choices = slices.DeleteFunc(d.Choices, func(ch Choice) bool { return ch.Name == "lambda" })
	switch {
	case !c.info.Summed():
		return c.chooseLogistic()
	case c.open():
		d.Open = true
		return nil
	}
	lambdas := []float64{d.Lambda, d.Lambda * math.Sqrt(0.1), d.Lambda * math.Sqrt(10)}
	ts, err := c.try(d.Spec, nil, lambdas...)
	if err != nil {
		return err
	}
	ch := Choice{Name: "lambda"}
	for range extraPenalties {
		top := best(ts)
		if top == nil {
			return fmt.Errorf("penalty: %w", errNothing)
		}
		ch.Number, ch.Value = top.Lambda, short(top.Lambda)
		ch.Why = fmt.Sprintf("%s %.4g, the best of %d", c.metric(), c.shown(top, 0, "").Score, len(ts))
		lo, hi := slices.Min(lambdas), slices.Max(lambdas)
		next := lo / math.Sqrt(10)
		if top.Lambda == hi {
			next = hi * math.Sqrt(10)
		} else if top.Lambda != lo {
			break
		}
		lambdas = append(lambdas, next)
		more, err := c.try(d.Spec, nil, next)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			break
		}
		ts = append(ts, more...)
	}
	for _, t := range ts {
		ch.Trials = append(ch.Trials, c.shown(t, t.Lambda, ""))
	}
	ch.Trials = distinct(ch.Trials)
	d.Lambda = ch.Number
	d.Choices = append(d.Choices, ch)
	return nil
}

// extraPenalties is how far a search of λ may leave its grid, in half decades.
const extraPenalties = 8

// open reports whether the sums of all rows will decide on λ: those of a regression with enough rows tell it without
// another pass. A Gaussian process always uses all rows, since the evidence needs no rows held out.
func (c *featureSearch) open() bool {
	switch {
	case c.o.Lambda > 0 || !c.info.LeastSquares || !c.info.Summed():
		return false
	case c.info.Bayesian:
		return true
	case c.task == machine.Classification:
		return false
	}
	return c.d.Rows > int64(c.x.Rows) && c.d.Rows >= gcvRows*int64(c.d.find("features").Number)
}

// gcvRows is the number of rows per feature from which all rows choose λ by generalised cross-validation. With fewer,
// it mistakes models that nearly interpolate for good ones.
const gcvRows = 4

// chooseAverages chooses the map of a kernel mean or a density: family, bandwidth and number of features.
func chooseAverages(f *frame, d *decision) error {
	l := &learned{fields: f.fieldWeights(f.o.Scaling, f.s.x)}
	if f.o.Scaling == scalingLearned {
		return fmt.Errorf("scaling %s is for models of least squares: use another scaling: %w", f.o.Scaling,
			machine.ErrSetup)
	}
	if d.Codes = f.codes; f.weighs && f.o.Scaling != "" {
		d.Fields = l.fields
		d.Choices = append(d.Choices, Choice{Name: "scaling", Value: f.o.Scaling, Given: true, Why: "as asked"})
	}
	c := &featureSearch{frame: f, d: d, x: l.apply(f.job, f.s.x)}
	c.from = medianDistance(c.x, f.o.kernelKind(), f.o.Seed)
	c.spec = randfeat.Spec{Kernel: kernel.Kernel{Kind: f.o.kernelKind()}, Dim: c.x.Cols, Seed: f.o.Seed}
	scales := []float64{f.o.Bandwidth}
	if f.o.Bandwidth == 0 {
		scales = nil
		for k := -3; k <= 2; k++ {
			scales = append(scales, math.Ldexp(c.from, k))
		}
	}
	features := cmp0(f.o.Features, min(c.limit(), trialFeatures))
	b := Choice{Name: "bandwidth", Given: f.o.Bandwidth > 0, Why: "as asked"}
	var top *trial
	var at randfeat.Spec
	var families []Trial
	list := c.candidates()
	for i, spec := range list {
		own, ownAt, trials, err := c.widths(spec, scales, features)
		if err != nil {
			return err
		}
		if own == nil {
			continue
		}
		families = append(families, f.shown(own, float64(i), label(spec)))
		if top != nil {
			if diff, se := gain(top.loss, own.loss); diff <= se {
				continue
			}
		}
		top, at, b.Trials = own, ownAt, trials
		c.spec = spec
	}
	if top == nil {
		return errNothing
	}
	why := "positive features of smallest error"
	if len(list) > 1 {
		why = "positive features; nothing tried was better by more than a standard error"
		if label(c.spec) != label(list[0]) {
			why = "better by more than a standard error, each at its best bandwidth"
		}
	} else {
		families = nil
	}
	c.noteFamily(why, families)
	b.Number, b.Value = at.Kernel.Scale, short(at.Kernel.Scale)
	if !b.Given {
		b.Why = fmt.Sprintf("%s %.4g with %d features, the best around the median distance %s", f.metric(),
			f.shown(top, 0, "").Score, features, short(c.from))
		b.Trials = distinct(b.Trials)
	} else {
		b.Trials = nil
	}
	if f.o.Kernel != "" {
		d.Choices = append(d.Choices, Choice{Name: "kernel", Value: f.o.Kernel, Given: true, Why: "as asked"})
	}
	d.Choices = append(d.Choices, b)
	if c.from = at.Kernel.Scale / 2; f.o.Bandwidth > 0 {
		c.from = at.Kernel.Scale
	}
	if f.o.Features > 0 {
		spec, err := c.at(c.spec, at.Kernel.Scale, f.o.Features)
		if err != nil {
			return err
		}
		return c.setFeatures(spec, Choice{Name: "features", Given: true, Why: "as asked"})
	}
	return c.learningCurve()
}

func cmp0(a, b int) int {
	if a > 0 {
		return min(a, trialFeatures)
	}
	return b
}

// widths tries a family at several bandwidths, beyond the ends of the grid if these are best, and finer near the best.
func (c *featureSearch) widths(spec randfeat.Spec, scales []float64, features int) (top *trial, at randfeat.Spec,
	shown []Trial, err error) {
	try := func(s float64) (bool, error) {
		full, err := c.at(spec, s, features)
		if err != nil {
			return false, err
		}
		ts, err := c.try(full, nil, 0)
		if err != nil || len(ts) == 0 {
			return false, err
		}
		shown = append(shown, c.shown(ts[0], s, fmt.Sprintf("%d features", features)))
		if top != nil && ts[0].mean >= top.mean {
			return false, nil
		}
		top, at = ts[0], full
		return true, nil
	}
	for _, s := range scales {
		if _, err := try(s); err != nil {
			return nil, at, nil, err
		}
	}
	if top == nil || len(scales) == 1 {
		return top, at, shown, nil
	}
	for _, by := range []float64{0.5, 2, math.Sqrt2 / 2, math.Sqrt2} {
		edge := scales[0]
		if by > 1 {
			edge = scales[len(scales)-1]
		}
		if (by == 0.5 || by == 2) && at.Kernel.Scale != edge {
			continue
		}
		for range 3 {
			better, err := try(at.Kernel.Scale * by)
			if err != nil {
				return nil, at, nil, err
			}
			if !better {
				break
			}
		}
	}
	return top, at, shown, nil
}

func label(s randfeat.Spec) string {
	if s.Coupling == nil {
		return s.Family.Name()
	}
	return s.Family.Name() + " × " + s.Coupling.Name()
}
