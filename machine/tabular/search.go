package tabular

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

// rule decides about one field of candidates: it proposes alternatives to the best candidate so far, and the best of
// them replaces it if its loss is smaller by more than some standard errors of the difference.
type rule struct {
	name    string
	errors  float64 // standard errors
	each    bool    // the best of each alternative is tried on all rows, not only the best of all
	wrong   bool    // errors of classes decide alone, because the other part of the loss is not comparable
	propose func(s *search, at *trial) ([]Candidate, error)
}

// rules are applied in this order.
var rules = []rule{
	{"encode", 1, false, false, (*search).otherCodes},
	{"kernel", 0.5, true, false, (*search).otherKernels},
	{"scaling", 1, false, false, (*search).otherScalings},
	{"metric", 1, true, false, (*search).otherMetrics},
	{"loss", 0.5, false, true, (*search).otherLosses},
}

// budget says how many rows a search looks at.
type budget struct {
	few  int // first
	rows int // by which rules decide
}

func (j *job) budget() budget {
	b := budget{few: 384, rows: 2048}
	if j.o.Quick {
		b = budget{few: 256, rows: 768}
	}
	most := j.trialRows()
	return budget{min(b.few, most), min(b.rows, most)}
}

// search tries candidates on few rows, and those that may be best there on more.
type search struct {
	*frame
	n     int64              // rows of the table
	some  []int              // rows that are looked at; nil: all
	open  *openCodes         // columns whose code is to be chosen; nil: none
	codes map[string]*levels // by code of levels
	whole map[string]*frame  // all rows of the sample, by code of levels
	few   bool               // there are rows that the first trials leave out
	at    *trial             // best candidate on few rows
	top   *trial             // the same on more
	done  int64
	// choices describe what was decided.
	choices []Choice
	also    *Choice
	exact   bool    // the model has an exact kernel or landmarks, so kernels are open
	losses  bool    // the model has an exact kernel, so losses are open
	least   float64 // smallest penalty that conjugate gradients can solve; smaller ones are raised to it
	// f is the frame of the chosen codes with all rows.
	f            *frame
	beyondTrials []*trial
}

// levels are the evaluators of a code of levels.
type levels struct{ probe, few, all *evaluator }

// newSearch prepares a search on the rows of a frame, for a table of n rows.
func newSearch(f *frame, open *openCodes, n int64) *search {
	b := f.budget()
	s := &search{codes: map[string]*levels{}, whole: map[string]*frame{}, open: open, n: n}
	if s.frame = f; f.s.len() > b.rows {
		s.some = f.few(b.rows)
	}
	s.few = min(f.s.len(), b.rows) > 2*b.few
	s.add("", f)
	s.frame = s.codes[""].all.f
	return s
}

// add adds the frame of a code of levels.
func (s *search) add(code string, f *frame) {
	s.whole[code] = f
	if s.some != nil {
		f = f.part(slices.Clone(s.some))
	}
	l := &levels{all: newEvaluator(f)}
	if l.few = l.all; s.few {
		l.few = newEvaluator(f.part(f.few(s.budget().few)))
	}
	probe := *l.few.f
	probe.probe = probeFolds
	l.probe = newEvaluator(&probe)
	s.codes[code] = l
}

// try tries candidates of one code on few rows or on all.
func (s *search) try(few bool, cs ...Candidate) ([]*trial, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	l := s.codes[cs[0].Codes]
	e := l.all
	if few {
		e = l.few
	}
	return s.tryBy(e, cs...)
}

// probeFolds is the number of folds that tell which of several learned columns is worth more trials.
const probeFolds = 2

func (s *search) tryBy(e *evaluator, cs ...Candidate) ([]*trial, error) {
	for i := range cs {
		cs[i] = s.given(cs[i])
	}
	before := len(e.known)
	ts, err := e.evaluate(s.ctx, cs...)
	if err != nil {
		return nil, err
	}
	s.done += int64(len(e.known) - before)
	s.progress(stageChoose, s.done, max(s.done, 60))
	return ts, nil
}

// given sets what the caller has set.
func (s *search) given(c Candidate) Candidate {
	if s.o.Lambda > 0 {
		c.Lambda = s.o.Lambda
	}
	if s.o.Bandwidth > 0 {
		c.Width = 1
	}
	if s.o.Lambda == 0 {
		c.Lambda = max(c.Lambda, s.least)
	}
	return c
}

// run makes all choices.
func (s *search) run() error {
	if err := s.start(); err != nil {
		return err
	}
	for _, r := range rules {
		if s.o.Scaling == scalingLearned && r.name != "metric" && s.o.Bandwidth == 0 {
			continue // a metric of the standard scaling
		}
		if s.o.Bandwidth > 0 && s.o.Lambda > 0 && s.o.Scaling != scalingLearned || s.top.faultless(s.frame) {
			break
		}
		if err := s.decide(r); err != nil {
			return err
		}
	}
	return nil
}

// start tries a grid of widths and penalties with the kernel and the scaling of the caller, or the usual ones.
func (s *search) start() error {
	from := Candidate{Scaling: scalingStandard, Kernel: s.o.kernelKind(), Loss: lossSquares}
	if s.o.Scaling != "" && s.o.Scaling != scalingLearned {
		from.Scaling = s.o.Scaling
	}
	if s.o.Loss == lossMargins {
		from.Loss = lossMargins
	}
	if s.o.Bandwidth > 0 && s.o.Lambda > 0 { // there is nothing to try
		s.at = &trial{Candidate: s.given(from)}
		s.top = s.at
		return nil
	}
	var cs []Candidate
	for k := -3; k <= 1; k++ {
		for _, l := range []float64{1e-3, 0.03, 1} {
			if c := s.given(from.at(math.Ldexp(1, k), l)); !slices.Contains(cs, c) {
				cs = append(cs, c)
			}
		}
	}
	ts, err := s.try(true, cs...)
	if err != nil {
		return err
	}
	if s.at = best(ts); s.at == nil {
		return fmt.Errorf("bandwidth: %w", errNothing)
	}
	if s.at, err = s.climb(true, s.at, mostSteps); err != nil {
		return err
	}
	s.top, err = s.more(s.at)
	return err
}

// more tries a candidate of few rows on all, and moves to narrower kernels and smaller penalties, which more rows want.
func (s *search) more(t *trial) (*trial, error) {
	if !s.few {
		return t, nil
	}
	ts, err := s.try(false, t.Candidate)
	if err != nil || len(ts) == 0 {
		return nil, err
	}
	return s.climb(false, ts[0], laterSteps)
}

// Steps of climbs on few rows and on more.
const (
	mostSteps  = 8
	laterSteps = 1
)

// climb moves in steps of √2 in the width and of half a decade in λ until no neighbour is better.
func (s *search) climb(few bool, t *trial, steps int) (*trial, error) {
	half := math.Sqrt(10)
	for range steps {
		w, l := t.Width, t.Lambda
		cs := []Candidate{t.at(w*math.Sqrt2/2, l), t.at(w, l/half)}
		if few || !s.few {
			cs = append(cs, t.at(w*math.Sqrt2, l), t.at(w, l*half))
		}
		ts, err := s.try(few, cs...)
		if err != nil {
			return nil, err
		}
		next := best(append([]*trial{t}, ts...))
		if diff, se := gain(t.loss, next.loss); diff <= max(climbNoise*se, climbGain*t.mean) {
			break
		}
		t = next
	}
	return t, nil
}

// A climb continues while the gain exceeds noise: a fraction of the standard error of the difference, which is small
// between neighbours, and a fraction of the loss. Without the latter, climbs to ever smaller penalties would not end.
const (
	climbNoise = 0.1
	climbGain  = 0.001
)

// decide applies a rule.
func (s *search) decide(r rule) error {
	cs, err := r.propose(s, s.at)
	if err != nil || len(cs) == 0 {
		return err
	}
	ts, err := s.try(true, cs...)
	if err != nil || len(ts) == 0 {
		return err
	}
	top := best(ts)
	asked := r.name == "metric" && s.o.Scaling == scalingLearned
	if s.few && r.each && !asked {
		return s.decideEach(r, ts)
	}
	if diff, se := r.gain(s.at, top); s.few && !asked && diff < -hopeless*se {
		s.note(r, s.at, top, ts, false) // far behind already
		return nil
	}
	if top, err = s.climb(true, top, laterSteps); err != nil {
		return err
	}
	rival, err := s.more(top)
	if err != nil {
		return err
	}
	if rival == nil {
		return nil
	}
	won := asked || r.prefers(s.top, rival)
	if !s.few {
		ts = append(ts, rival)
	} else {
		ts = []*trial{rival}
	}
	before := s.top
	if won {
		s.at, s.top = top, rival
	}
	s.note(r, before, rival, ts, won)
	return nil
}

// decideEach applies a rule whose alternatives gain differently from more rows: the best two of each alternative are
// tried on all rows.
func (s *search) decideEach(r rule, ts []*trial) error {
	slices.SortStableFunc(ts, func(a, b *trial) int { return cmp.Compare(a.mean, b.mean) })
	count := map[string]int{}
	var cs []Candidate
	for _, t := range ts {
		if diff, se := r.gain(s.at, t); diff < -beyondHope*se {
			continue
		}
		if name := t.describe(r.name); count[name] < 1 || count[name] < 2 && t.Kernel != kernel.Matern32 {
			count[name]++
			cs = append(cs, t.Candidate)
		}
	}
	slices.SortStableFunc(cs, func(a, b Candidate) int {
		return cmp.Compare(distanceOf(a.Kernel),
			distanceOf(b.Kernel))
	})
	all, err := s.try(false, cs...)
	if err != nil || len(all) == 0 {
		return err
	}
	rival, err := s.climb(false, best(all), laterSteps+1)
	if err != nil {
		return err
	}
	before := s.top
	won := r.prefers(s.top, rival)
	s.note(r, before, rival, all, won)
	if !won {
		return nil
	}
	s.top = rival
	few, err := s.try(true, rival.Candidate)
	if len(few) > 0 {
		s.at = few[0]
	}
	return err
}

// beyondHope is the number of standard errors by which it may be worse if more rows change the order of alternatives.
const beyondHope = 3

// hopeless is the number of standard errors by which an alternative may be worse on few rows and still be tried on
// more.
const hopeless = 0.5

// prefers reports whether a rule replaces a by b.
func (r rule) prefers(a, b *trial) bool {
	diff, se := r.gain(a, b)
	return diff > r.errors*se
}

// gain returns by how much b is better than a, and the standard error.
func (r rule) gain(a, b *trial) (diff, se float64) {
	if r.wrong {
		return gain(a.shown, b.shown)
	}
	return gain(a.loss, b.loss)
}

// figure converts a trial for the choice of a rule.
func (s *search) figure(r rule, t *trial, value float64, label string) Trial {
	if !r.wrong {
		return s.shown(t, value, label)
	}
	out := Trial{Value: value, Label: label, Metric: "out-of-fold accuracy", Score: 1 - mean(t.shown)}
	_, out.Error = gain(t.shown, make([]float64, len(t.shown)))
	return out
}

// note adds the choice of a rule, which compared a trial with a rival: the best of each alternative in ts, and the
// figures that decided. If both have the same alternative, the better of them is compared with the best of the others.
func (s *search) note(r rule, before, rival *trial, ts []*trial, won bool) {
	name := before.describe(r.name)
	if rival == nil || rival.describe(r.name) == name {
		if won {
			before = rival
		}
		won = false
		rival = best(slices.DeleteFunc(slices.Clone(ts), func(t *trial) bool { return t.describe(r.name) == name }))
	}
	if rival == nil {
		return
	}
	other := rival.describe(r.name)
	names, tops := []string{name, other}, map[string]*trial{name: before, other: rival}
	for _, t := range ts {
		at := t.describe(r.name)
		if at == name || at == other {
			continue
		}
		if tops[at] == nil {
			names = append(names, at)
		}
		if tops[at] == nil || t.mean < tops[at].mean {
			tops[at] = t
		}
	}
	ch := Choice{Name: r.name, Value: name, Why: s.reason(r, before, rival, won)}
	if won {
		ch.Value = other
	}
	for i, at := range names {
		ch.Trials = append(ch.Trials, s.figure(r, tops[at], float64(i), at))
	}
	s.choices = append(s.choices, ch)
}

// reason states the figures by which a rule decided, which are those of the trials of its choice.
func (s *search) reason(r rule, a, b *trial, won bool) string {
	diff, se := r.gain(a, b)
	x, y := s.figure(r, a, 0, ""), s.figure(r, b, 0, "")
	if won {
		return fmt.Sprintf("%s %.4g on %d rows, %.4g with %s: ahead by %.2g, standard error %.2g", y.Metric, y.Score, b.rows,
			x.Score, a.describe(r.name), diff/s.unit(), se/s.unit())
	}
	return fmt.Sprintf("%s %.4g on %d rows, %.4g with %s, which must be ahead by more than %g standard errors of %.2g",
		x.Metric, x.Score, b.rows, y.Score, b.describe(r.name), r.errors, se/s.unit())
}

// unit is the loss of one unit of the score that is shown.
func (j *job) unit() float64 {
	if j.task == machine.Regression {
		return float64(j.outputs)
	}
	return 1
}

// metric names Trial.Score.
func (j *job) metric() string {
	switch {
	case j.shifts():
		return "out-of-fold log likelihood of weighted classes"
	case j.task == machine.Classification:
		return "out-of-fold accuracy less half of the Brier score"
	case j.task == machine.Regression:
		return "out-of-fold R²"
	}
	return "held-out log density"
}

// shown converts a trial for the report.
func (j *job) shown(t *trial, value float64, label string) Trial {
	out := Trial{Value: value, Label: label, Metric: j.metric(), Score: -t.mean}
	_, out.Error = gain(t.loss, make([]float64, len(t.loss)))
	switch {
	case j.shifts():
	case j.task == machine.Classification:
		out.Score = 1 - t.mean
	case j.task == machine.Regression: // targets are standardised
		out.Score, out.Error = 1-t.mean/j.unit(), out.Error/j.unit()
	}
	return out
}

// laplaceColumns is the number of columns up to which the Laplace kernel is tried. Its distances have no product form,
// and with wide rows they would take longer than everything else.
const laplaceColumns = 256

// otherKernels proposes kernels at the width and penalty of the Gaussian one, and wider ones: rough kernels prefer
// those, because their correlation falls fast at first and then slowly.
func (s *search) otherKernels(at *trial) (out []Candidate, err error) {
	if !s.exact || s.o.Kernel != "" || s.o.Bandwidth > 0 {
		return nil, nil
	}
	if s.few { // more rows want narrower kernels
		out = append(out, at.at(at.Width/4, at.Lambda), at.at(at.Width/4, 10*at.Lambda))
	}
	for _, kind := range []kernel.Kind{kernel.Matern32, kernel.Matern12, kernel.Laplace} {
		if kind == kernel.Laplace && s.s.x.Cols > laplaceColumns {
			continue
		}
		c := at.Candidate
		c.Kernel = kind
		out = append(out, c, c.at(2*c.Width, c.Lambda), c.at(4*c.Width, c.Lambda))
		if kind != kernel.Matern32 { // rows that nearly repeat others want narrow kernels with a peak
			out = append(out, c.at(0.3, 0.1), c.at(1, 0.1))
		}
	}
	return out, nil
}

// otherScalings proposes other scalings of numbers.
func (s *search) otherScalings(at *trial) (out []Candidate, err error) {
	if !s.weighs || s.o.Scaling != "" || s.o.Bandwidth > 0 || s.s.len() < leastScaling {
		return nil, nil
	}
	for _, name := range []string{scalingCommon, scalingRobust} {
		w := s.fieldWeights(name, s.s.x)
		if slices.Max(w) <= alike*slices.Min(w) {
			continue
		}
		c := at.Candidate
		c.Scaling = name
		out = append(out, c)
	}
	return s.hopeful(rule{}, at, out)
}

// otherMetrics proposes a learned metric of the best kernel that has gradients.
func (s *search) otherMetrics(at *trial) (out []Candidate, err error) {
	d, asked := s.s.x.Cols, s.o.Scaling == scalingLearned
	switch why := s.metricPossible(); {
	case asked && why != "":
		return nil, fmt.Errorf("scaling %s: %s: %w", scalingLearned, why, machine.ErrSetup)
	case asked:
	case why != "" || s.s.len() < leastScaling || d > metricColumns || d < 2 || s.o.Scaling != "" || !s.weighs:
		return nil, nil
	}
	from := s.metricStart(at)
	if from == nil {
		return nil, nil
	}
	for _, full := range []bool{false, true} {
		if full && d > fullColumns {
			continue
		}
		top, err := s.learnedMetric(from.Candidate, full)
		if err != nil {
			return nil, err
		}
		if top != nil {
			out = append(out, top.Candidate)
		}
	}
	return s.hopeful(rule{}, at, out)
}

// learnedMetric returns the best trial of the kinds of metric that are full or not, by the folds of a probe; nil: none
// can be solved.
func (s *search) learnedMetric(from Candidate, full bool) (*trial, error) {
	probe := s.codes[from.Codes].probe
	var tops []*trial
	for _, kind := range metric.Kinds() {
		if kind.Full() != full {
			continue
		}
		from.Metric.Kind = kind
		got, err := s.metricRound(probe, from)
		if err != nil {
			return nil, err
		}
		if got != nil {
			tops = append(tops, got)
		}
	}
	top := best(tops)
	for top != nil && top.Metric.Rounds < metricRounds {
		got, err := s.metricRound(probe, top.Candidate)
		if err != nil {
			return nil, err
		}
		if got == nil || got.mean >= top.mean {
			break
		}
		top = got
	}
	return top, nil
}

// metricStart returns the best trial whose kernel has gradients; nil: there is none.
func (s *search) metricStart(at *trial) (top *trial) {
	for _, t := range s.codes[at.Codes].few.trials {
		if t.Scaling == at.Scaling && t.Metric.Rounds == 0 && t.Loss == lossSquares &&
			slices.Contains([]kernel.Kind{kernel.Gaussian, kernel.Matern12, kernel.Laplace}, t.Kernel) &&
			(top == nil || t.mean < top.mean) {
			top = t
		}
	}
	return top
}

// metricRound adds a round to the metric of a candidate, which begins at the candidate's width and penalty, and returns
// the best of some settings near these.
func (s *search) metricRound(probe *evaluator, c Candidate) (*trial, error) {
	c.Metric.At[c.Metric.Rounds] = Point{c.Width, c.Lambda}
	c.Metric.Rounds++
	ts, err := s.tryBy(probe, c, c.at(c.Width/2, c.Lambda), c.at(2*c.Width, c.Lambda), c.at(c.Width, 0.3*c.Lambda),
		c.at(c.Width, 3*c.Lambda))
	return best(ts), err
}

// hopeful returns the candidates that are not far behind on the folds of a probe.
func (s *search) hopeful(r rule, at *trial, cs []Candidate) (out []Candidate, err error) {
	ts, err := s.tryBy(s.codes[at.Codes].probe, cs...)
	if err != nil {
		return nil, err
	}
	for _, t := range ts {
		if diff, se := r.gain(at, t); diff > -se || t.Metric.Rounds > 0 && s.o.Scaling == scalingLearned {
			out = append(out, t.Candidate)
		}
	}
	return out, nil
}

// metricRounds bounds the rounds of fit and metric: more rounds overfit.
const metricRounds = 3

// wrongRule is how losses are compared.
var wrongRule = rule{wrong: true}

// metricPossible returns the reason why the options rule out a metric, or "" if they do not.
func (j *job) metricPossible() string {
	switch {
	case j.task == machine.Unsupervised:
		return "a density has no target to learn it from"
	case j.o.Bandwidth > 0 || j.o.Lambda > 0 || j.o.Loss != "":
		return "bandwidth, λ and loss are chosen with it: leave them out"
	}
	return ""
}

// otherLosses proposes margins.
func (s *search) otherLosses(at *trial) (out []Candidate, err error) {
	if s.s.len() < leastScaling {
		return nil, nil
	}
	out = s.withMargins(at)
	if len(out) > 0 {
		c := out[0]
		out = append(out, c.at(1, 0.01), c.at(2, 0.001))
	}
	return s.hopeful(wrongRule, at, out)
}

// withMargins returns the candidate of a trial with margins, which prefer wider kernels and smaller penalties:
// predictions beyond the target cost nothing.
func (s *search) withMargins(at *trial) []Candidate {
	if !s.losses || !s.classes() || s.roots != nil || !s.plain() || s.o.Loss != "" || s.o.Bandwidth > 0 ||
		s.o.Lambda > 0 || at.Loss == lossMargins {
		return nil
	}
	c := at.Candidate
	c.Loss = lossMargins
	return []Candidate{c, c.at(2*c.Width, c.Lambda)}
}
