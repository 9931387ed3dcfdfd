package tabular

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// member is a candidate of a choice with its share of the predictions.
type member struct {
	Candidate
	Share float64 `json:"share"`
}

// decision is a choice: plain data with a JSON form, which a checkpoint stores. JSON keeps every bit of a float64, so a
// resumed fit has the same map and λ. Projections are not stored: they are drawn again from Spec.Seed.
type decision struct {
	// Members of an exact kernel predict together. The first is the candidate that was chosen.
	Members []member `json:"members,omitempty"`
	// Spec and Lambda are those of the model. Of an exact kernel they follow from the first member.
	Spec    randfeat.Spec     `json:"spec"`
	Lambda  float64           `json:"lambda"`
	Open    bool              `json:"open,omitempty"` // the sums of all rows will decide on λ, near Lambda
	Choices []Choice          `json:"choices"`
	Notes   []string          `json:"notes,omitempty"`
	Rows    int64             `json:"rows"` // of the table
	Sampled int               `json:"sampled"`
	Exact   bool              `json:"exact,omitempty"`  // the kernel of all rows of the sample
	Large   bool              `json:"large,omitempty"`  // random features by conjugate gradients
	Missed  float64           `json:"missed,omitempty"` // out-of-fold error of the choice in standardised units
	Metric  *machine.Metric   `json:"metric,omitempty"`
	Codes   map[string]string `json:"codes,omitempty"`  // of columns of levels
	Fields  []float64         `json:"fields,omitempty"` // weights of the fields; nil: 1

	marks []coupling.Omega // landmarks; nil: the map has none
	// out are the predictions of the rows of the frame by the chosen trials; nil: not known.
	out []matrix
}

// chosen is a fit after its choices.
type chosen struct {
	*job
	d    *decision
	f    *frame // rows of the sample; nil: not needed
	rows machine.Rows
	was  *resumed // contents of a checkpoint; nil: none
}

// resumed holds the contents of a checkpoint besides the columns.
type resumed struct {
	d        *decision
	sums     *foldSums
	logistic *machine.LogisticState
}

// setup is the setup of the sums of the decision.
func (d *decision) setup(j *job) (machine.Setup, error) {
	s := j.setup(d.Spec)
	var err error
	s.Omega, err = d.drawn()
	return s, err
}

// drawn returns the projections of the decision: landmarks, or projections drawn from its seed.
func (d *decision) drawn() ([]coupling.Omega, error) {
	if !family.InfoOf(d.Spec.Family).KernelColumns {
		return randfeat.Draw(d.Spec)
	}
	if d.marks == nil {
		return nil, fmt.Errorf("no landmarks: %w", machine.ErrCorrupt)
	}
	return d.marks, nil
}

// decide makes all choices on a sample of a table of n rows.
func decide(j *job, s *sample, n int64) (*chosen, error) {
	d, f, err := choose(newFrame(j, s), n)
	if err != nil {
		return nil, err
	}
	return chosenOf(f, d), nil
}

// chosenOf returns the job with choices for its columns.
func chosenOf(f *frame, d *decision) *chosen {
	of := *f.job
	if of.total = d.Rows; d.Fields != nil {
		of.schema = weightedFields(f.schema, d.Fields)
	}
	return &chosen{job: &of, d: d, f: f}
}

// choose makes all choices for a table of n rows on the rows of a frame. It returns the frame with the chosen codes.
func choose(f *frame, n int64) (*decision, *frame, error) {
	d := &decision{Rows: n, Sampled: f.s.len()}
	f.progress(stageChoose, 0, 0)
	d.noteModel(f.job)
	exact := f.exactOf(n)
	switch {
	case exact:
		d.Exact = true
		d.Choices = append(d.Choices, f.exactMap(n))
	case f.o.Loss != "":
		return nil, nil, fmt.Errorf("loss %s for a model without an exact kernel of classes: leave it out: %w", f.o.Loss,
			machine.ErrSetup)
	case f.o.Map == MapExact && !f.info.Exact:
		return nil, nil, fmt.Errorf("a %s model has no exact kernel: leave the map out: %w", f.kind, machine.ErrSetup)
	case f.o.Map == MapExact:
		return nil, nil, fmt.Errorf("%s: %d rows are too many for an exact kernel, the limit is %d (fewer if rows are "+
			"wide): leave the map to be chosen, or give fewer rows: %w", f.src.Name(), n, f.exactLimit(),
			machine.ErrSetup)
	case f.o.Map == MapNystrom && !(f.info.LeastSquares && f.info.Summed()):
		return nil, nil, fmt.Errorf("a %s model has no features of landmarks here: leave the map out: %w", f.kind,
			machine.ErrSetup)
	}
	f, open, err := withGiven(f, n)
	if err != nil {
		return nil, nil, err
	}
	if !exact && !f.info.LeastSquares {
		return d, f, chooseAverages(f, d)
	}
	s := newSearch(f, open, n)
	if s.losses = exact; exact && f.iterates(f.s.len()) {
		s.least = leastPenalty(f.s.len())
	}
	s.exact = exact || f.o.Map == MapNystrom || f.mapOpen() && f.info.Exact
	if err := s.run(); err != nil {
		return nil, nil, err
	}
	of := s.whole[s.top.Codes]
	s.f = of
	if exact && of.iterates(of.s.len()) {
		if err := s.beyond(of); err != nil {
			return nil, nil, err
		}
	}
	d.Members = s.members(exact)
	if s.top.rows == of.s.len() {
		d.out = s.top.out
	}
	if err := d.learn(of, s); err != nil {
		return nil, nil, err
	}
	s.describe(d)
	if !exact {
		err = chooseFeatures(of, d)
	}
	return d, of, err
}

// learn learns the columns of the first member from all rows of the frame, and sets the spec of an exact kernel.
func (d *decision) learn(f *frame, s *search) error {
	c := d.Members[0].Candidate
	l, x, err := f.learnColumns(f.base(everyFold), c, seq(f.s.len()))
	if err != nil {
		return err
	}
	if f.weighs {
		d.Fields = l.fields
	}
	d.Codes, d.Lambda = f.codes, c.Lambda
	d.Spec = f.exactSpec(c, l, x)
	d.Missed = math.Sqrt(s.top.mean)
	if c.Metric.Rounds > 0 {
		d.Metric, err = f.describeMetric(c, l)
	}
	return err
}

// exactSpec returns the spec of an exact kernel of the rows x for learned columns.
func (f *frame) exactSpec(c Candidate, l *learned, x matrix) randfeat.Spec {
	s := f.o.Bandwidth
	if s == 0 {
		s = c.Width * medianDistance(l.apply(f.job, x), c.Kernel, f.o.Seed)
	}
	return randfeat.Spec{Kernel: kernel.Kernel{Kind: c.Kernel, Scale: s, M: l.metric}, Dim: x.Cols, M: x.Rows,
		Seed: f.o.Seed, Family: family.Landmarks{}}
}

func (d *decision) noteModel(j *job) {
	ch := Choice{Name: "model", Value: string(j.kind), Given: j.o.Kind != "", Why: "as asked"}
	if !ch.Given {
		ch.Why = "least squares, with penalties and folds in closed form"
		if j.task == machine.Unsupervised {
			ch.Why = "no target was named"
		}
	}
	d.Choices = append(d.Choices, ch)
	if d.Rows > int64(d.Sampled) {
		d.Notes = append(d.Notes, fmt.Sprintf("choices were tried on a sample of %d of the %d rows", d.Sampled, d.Rows))
	}
}

// exactMap is the choice of the exact kernel for a table of n rows.
func (f *frame) exactMap(n int64) Choice {
	ch := Choice{Name: "map", Value: MapExact, Given: f.o.Map != "",
		Why: fmt.Sprintf("the exact kernel of all rows: %d are no more than %d", n, f.exactLimit())}
	switch {
	case ch.Given:
		ch.Why = "as asked"
	case f.subsamples(n):
		ch.Why = fmt.Sprintf("the exact kernel of %d of the %d rows", f.s.len(), n)
	}
	return ch
}

// find returns a choice by name.
func (d *decision) find(name string) *Choice {
	for i := range d.Choices {
		if d.Choices[i].Name == name {
			return &d.Choices[i]
		}
	}
	return &Choice{}
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// Several kernels of few rows are averaged: few rows hardly tell kernels, widths and penalties apart, and machines with
// different kernels, each at its own best width and penalty, err in different ways.
const (
	// meanRows is the number of rows up to which that is done: predictions take several times as long.
	meanRows = 1000
	// alsoShare is the share of each further machine in the mean; the chosen machine has the rest.
	alsoShare = 0.25
)

// members returns the chosen candidate and those that are averaged with it: the best of each other kernel with the same
// columns, if the mean has a smaller out-of-fold loss.
func (s *search) members(exact bool) []member {
	out := []member{{s.top.Candidate, 1}}
	o := &s.o
	if !exact || s.n > meanRows || s.top.Loss == lossMargins || s.top.Metric.Rounds > 0 || o.Kernel != "" ||
		o.Bandwidth > 0 || o.Lambda > 0 {
		return out
	}
	var ts []*trial
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Matern12, kernel.Laplace} {
		var top *trial
		for _, t := range s.codes[s.top.Codes].all.trials {
			if t.Kernel == kind && t.columns() == s.top.columns() && t.Loss == lossSquares &&
				(top == nil || t.mean < top.mean) {
				top = t
			}
		}
		if top != nil && kind != s.top.Kernel {
			ts = append(ts, top)
		}
	}
	if len(ts) == 0 {
		return out
	}
	out[0].Share = 1 - alsoShare*float64(len(ts))
	mean := &trial{Candidate: s.top.Candidate, out: scaledOuts(nil, s.top.out, out[0].Share)}
	for _, t := range ts {
		out = append(out, member{t.Candidate, alsoShare})
		mean.out = scaledOuts(mean.out, t.out, alsoShare)
	}
	if err := s.f.judge(mean); err != nil || !s.takesMean(mean) {
		return []member{{s.top.Candidate, 1}}
	}
	single := s.top
	s.top = mean
	s.also = &Choice{Name: "also", Why: fmt.Sprintf("%s of the mean %.4g, of %v alone %.4g", s.metric(),
		s.shown(mean, 0, "").Score, single.Kernel, s.shown(single, 0, "").Score),
		Trials: []Trial{s.shown(single, 0, single.Kernel.String()), s.shown(mean, 1, "mean")}}
	for i, m := range out[1:] {
		if i > 0 {
			s.also.Value += ", "
		}
		s.also.Value += fmt.Sprintf("%v (%s medians, λ = %s)", m.Kernel, short(m.Width), short(m.Lambda))
	}
	return out
}

// takesMean reports whether a mean replaces the chosen candidate. The loss of the latter is that of the best of many,
// so the mean may be a little worse.
func (s *search) takesMean(mean *trial) bool {
	diff, se := gain(s.top.loss, mean.loss)
	return diff > -0.5*se
}

// scaledOuts adds share times predictions to sums.
func scaledOuts(sums, outs []matrix, share float64) []matrix {
	for r, out := range outs {
		if len(sums) <= r {
			sums = append(sums, matrix{Rows: out.Rows, Cols: out.Cols, Stride: out.Cols,
				Data: make([]float64, out.Rows*out.Cols)})
		}
		par.For(out.Rows, 256, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				for c, v := range out.Row(i) {
					sums[r].Row(i)[c] += share * v
				}
			}
		})
	}
	return sums
}

// describe adds the choices of a search to those of a decision.
func (s *search) describe(d *decision) {
	o, c := &s.o, d.Members[0].Candidate
	given := func(name, value string) {
		d.Choices = append(d.Choices, Choice{Name: name, Value: value, Given: true, Why: "as asked"})
	}
	codes := slices.IndexFunc(s.choices, func(ch Choice) bool { return ch.Name == "encode" })
	switch {
	case codes >= 0:
		s.choices[codes].Value = describeCodes(d.Codes)
	case len(o.Code) > 0:
		given("encode", describeCodes(d.Codes))
	}
	if o.Scaling != "" {
		given("scaling", o.Scaling)
	}
	if o.Kernel != "" {
		given("kernel", o.Kernel)
	}
	if o.Loss != "" {
		given("loss", o.Loss)
	}
	if !slices.ContainsFunc(s.choices, func(ch Choice) bool { return ch.Name == "scaling" }) &&
		o.Scaling == "" && s.weighs &&
		o.Bandwidth == 0 {
		why := "no other is worth a trial on all rows"
		if s.s.len() < leastScaling {
			why = fmt.Sprintf("%d rows are too few to tell which is better", s.s.len())
		}
		s.choices = append(s.choices, Choice{Name: "scaling", Value: scalingStandard, Why: why})
	}
	d.Choices = append(d.Choices, s.choices...)
	if s.also != nil {
		d.Choices = append(d.Choices, *s.also)
	}
	how := fmt.Sprintf("%s %.4g on %d rows, the best", s.metric(), s.shown(s.top, 0, "").Score, s.top.rows)
	for _, x := range []struct {
		name   string
		number float64
		given  bool
		of     func(Candidate) float64
	}{
		{"bandwidth", d.Spec.Kernel.Scale, o.Bandwidth > 0, func(c Candidate) float64 { return c.Width }},
		{"lambda", c.Lambda, o.Lambda > 0, func(c Candidate) float64 { return c.Lambda }},
	} {
		ch := Choice{Name: x.name, Number: x.number, Value: short(x.number), Given: x.given, Why: "as asked"}
		if !x.given {
			ch.Why, ch.Trials = how, s.near(c, x.of, x.number/x.of(c))
		}
		d.Choices = append(d.Choices, ch)
	}
}

// near returns the trials that differ from a candidate in width and penalty only, the best for each value.
func (s *search) near(c Candidate, of func(Candidate) float64, unit float64) []Trial {
	var out []Trial
	ts := s.codes[c.Codes].all.trials
	if s.beyondTrials != nil {
		ts = s.beyondTrials
	}
	for _, t := range ts {
		if t.at(c.Width, c.Lambda) == c {
			out = append(out, s.shown(t, of(t.Candidate)*unit, ""))
		}
	}
	return distinct(out)
}
