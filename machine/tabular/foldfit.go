package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// begin executes the stages up to the choices: it learns the columns, draws the sample and chooses, or reuses earlier
// choices if they apply. A checkpoint exists only after all choices are made, so a resumed fit starts with the fit of
// all rows. It draws the same sample again only if later stages need it.
func begin(in job, by *prior, log *journal, file *checkpoint) (*chosen, error) {
	j, was, err := learnTable(in, log, file)
	if err != nil {
		return nil, err
	}
	rows, err := j.trainingRows(j.src)
	if err != nil {
		return nil, err
	}
	var s *sample
	var n int64
	if was == nil || was.d.Exact || j.info.Summed() && j.o.Folds > 1 && j.task != machine.Unsupervised {
		err := log.stage(j, stageSample, func() (_ int64, err error) {
			s, n, err = j.take(j.watch(rows, stageSample))
			return n, err
		})
		if err != nil {
			return nil, err
		}
	}
	if was != nil {
		c := &chosen{job: j, d: was.d, rows: rows, s: s, was: was}
		file.keep(c)
		return c, nil
	}
	var c *chosen
	err = log.stage(j, stageChoose, func() (int64, error) {
		if c, err = decide(j, by, s, n); err != nil {
			return int64(s.len()), err
		}
		return int64(c.s.len()), nil
	})
	if err != nil {
		return nil, err
	}
	if c.rows, err = c.trainingRows(c.src); err != nil {
		return nil, err
	}
	file.keep(c)
	file.save(true) // at once: a kill would lose all choices
	return c, nil
}

// decide makes all choices on the sample of n rows. It reuses choices that were made for other rows if they apply, or
// chooses without the first scored fold, or searches.
func decide(j *job, by *prior, s *sample, n int64) (c *chosen, err error) {
	switch {
	case by != nil:
		c, err = by.follow(j, s, n)
	case j.choosesApart(n):
		c, err = chooseApart(j, s, n)
	}
	if c != nil || err != nil {
		return c, err
	}
	coded, codes, err := chooseCodes(j, s, n)
	if err != nil {
		return nil, err
	}
	d, err := searchAll(coded.job, coded.s, n)
	if err != nil {
		return nil, err
	}
	if codes != nil {
		d.Choices = slices.Insert(d.Choices, 1, *codes)
		d.Tried = d.Tried || !codes.Given
		d.Codes = coded.codes
	}
	return coded.chosen(d, coded.s), nil
}

// follow applies the choices to the n rows of a sample. The columns of these rows may differ from those of the choices;
// widths are matched by name. It returns nil if the choices do not apply.
func (p *prior) follow(j *job, s *sample, n int64) (*chosen, error) {
	c, err := followCodes(j, p.d.Codes, s, n)
	if err != nil {
		return nil, err
	}
	f, d := c.job, *p.d
	landmarks := len(d.marks) > 0 && d.Apart // of a contest
	if s = c.s; !(d.Exact || d.Large || landmarks) || p.task != f.task {
		return nil, nil
	}
	d.Spec.Kernel.M = carried(d.Spec.Kernel.M, p.schema, f.schema)
	if d.Spec.Dim = s.x.Cols; d.Exact {
		d.Spec.M = s.len()
	}
	d.Rows, d.Sampled, d.Last, d.Apart = n, s.len(), s.last, false
	d.Choices, d.Notes = slices.Clone(d.Choices), slices.Clone(d.Notes)
	for i := range d.Choices {
		if ch := &d.Choices[i]; ch.Name == "map" && ch.Value == MapExact {
			*ch = f.exactMap(s, n) // its reason is the number of rows
		}
	}
	if d.fields = nil; f.weighs {
		d.fields = make([]float64, len(f.schema.Fields))
		for i := range d.fields {
			d.fields[i] = weightOf(p.schema, &f.schema.Fields[i])
		}
		weigh(s.x, f.columnWeights(d.fields))
	}
	if landmarks {
		if err := d.placeLandmarks(f, s, d.Spec.M); err != nil {
			return nil, err
		}
	}
	return f.chosen(&d, s), nil
}

// chosen returns the job with choices for its columns.
func (j *job) chosen(d *decision, s *sample) *chosen {
	of := *j
	if of.total = d.Rows; d.fields != nil {
		of.schema = weightedFields(j.schema, d.fields)
	}
	return &chosen{job: &of, d: d, s: s}
}

// weightOf returns the weight that a field has in another schema, or 1 if it is not there.
func weightOf(s *data.Schema, field *data.Field) float64 {
	for i := range s.Fields {
		if o := &s.Fields[i]; o.Name == field.Name && o.Kind == field.Kind && o.Weight > 0 {
			return o.Weight
		}
	}
	return 1
}

// Choices for all rows are made on the rows outside one fold if there are at least apartRows of them. Choices for two
// folds are made on the rows outside both if there are at least sharedRows: with fewer, scalings and metrics are hardly
// told apart, and scores are those of worse choices. They are variables so that tests can use fewer rows.
var (
	apartRows  = int64(lastRows)
	sharedRows = int64(240)
)

// outside reports whether enough rows remain without some of the folds.
func (j *job) outside(n int64, folds int, enough int64) bool {
	return j.o.Folds > folds && !j.deal.grouped() && !j.deal.ordered() &&
		(j.exactOf(n) || j.o.Features > maxFeatures) &&
		n*int64(j.o.Folds-folds) >= enough*int64(j.o.Folds)
}

// choosesApart reports whether one set of choices, made on the rows outside the first scored fold, serves both that
// fold and the model of all rows. The choices have not seen the rows that judge them. A search of an exact kernel looks
// at most at lastRows rows, and as many remain without the fold. With fewer rows this costs accuracy: 97.4 % instead of
// 99.1 % correct on a table of 1383 rows, 67.0 % instead of 68.6 % on one of 3919.
func (j *job) choosesApart(n int64) bool {
	enough := apartRows
	if j.o.Quick {
		enough = min(enough, quickRows)
	}
	return !j.inner && j.outside(n, 1, enough)
}

// chooseApart makes the choices of the first scored fit and applies them to all rows. It returns nil if they do not
// apply.
func chooseApart(j *job, s *sample, n int64) (*chosen, error) {
	k := j.scoredParts()[0]
	sub, err := choosing(j, nil, k, k, n, func(done, total int64) { j.progress(stageChoose, done, total) })
	if err != nil {
		return nil, err
	}
	c, err := sub.prior().follow(j, s, n)
	if c == nil || err != nil {
		return nil, err
	}
	c.apart, c.d.Apart = sub, true
	if j.subsamples(n) {
		if err := c.contest(sub); err != nil {
			return nil, fmt.Errorf("the exact kernel of some rows against landmarks of all: %w", err)
		}
	}
	c.d.Notes = append(c.d.Notes, fmt.Sprintf("choices were made on the %d rows outside the fold that judges them",
		sub.d.Rows))
	return c, nil
}

// prior returns the choices for use with other rows.
func (c *chosen) prior() *prior {
	return &prior{schema: c.schema, task: c.task, d: c.d, last: c.src.(foldSource).last}
}

// choosing makes the choices of the rows outside folds k to last of n rows, by a guide if there is one.
func choosing(j *job, by *guide, k, last int, n int64, progress func(done, total int64)) (*chosen, error) {
	in, err := leaving(j, k, last, n)
	if err != nil {
		return nil, err
	}
	in.guide = by
	in.o.Progress = func(stage string, done, total int64) {
		if stage == stageChoose {
			progress(done, total)
		}
	}
	c, err := begin(in, nil, new(journal), nil)
	if err != nil {
		return nil, fmt.Errorf("choices without fold %d: %w", k+1, err)
	}
	c.o.Progress = nil
	return c, nil
}

// leaving returns the rows outside folds k to last of n rows as a table of their own.
func leaving(j *job, k, last int, n int64) (job, error) {
	rest := foldSource{Source: j.src, deal: j.deal, k: k, last: last, parts: j.deal.parts(j.o.Folds)}
	if j.thins(n) || j.subsamples(n) {
		rest.rows = n
	}
	return j.part(rest, n)
}

// part returns some of n rows as a table of their own.
func (j *job) part(of foldSource, n int64) (job, error) {
	out := job{ctx: j.ctx, src: of, o: j.o, inner: true, deal: newDealer(j.o.Seed, of.marks(n)),
		weighs: j.weighs && j.task != machine.Unsupervised}
	out.o.Folds, out.o.Checkpoint, out.o.Progress = 1, "", nil
	var err error
	out.o.Schema, err = j.learnFold(of)
	return out, err
}

// withoutFold fits all folds but k, with the choices of a fit that are already made. Two neighbouring folds that are
// both scored share choices made without either. shared holds the choices of the previous pair, and the result those of
// this one; nil means none.
func withoutFold(c *chosen, k int, shared *prior) (*chosen, *prior, error) {
	n := c.d.Rows
	apart := c.d.Apart && k == c.scoredParts()[0]
	if apart && c.less != nil {
		return c.less, shared, nil
	}
	if apart && c.apart != nil { // not in a fit that was resumed: its decision holds these choices
		sub := *c.apart
		sub.twin = c.lends()
		return &sub, shared, nil
	}
	by := &prior{schema: c.schema, task: c.task, d: c.d, last: k}
	if !apart {
		if shared != nil && shared.last < k {
			shared = nil
		}
		if shared == nil && k+1 < c.o.Folds && n/int64(c.o.Folds) < pairedRows && c.outside(n, 2, sharedRows) {
			sub, err := choosing(c.job, c.d.Guide, k, k+1, n, func(int64, int64) {})
			if err != nil {
				return nil, nil, err
			}
			shared = sub.prior()
		}
		by = shared
	}
	in, err := leaving(c.job, k, k, n)
	if err != nil {
		return nil, nil, err
	}
	in.guide = c.d.Guide
	sub, err := begin(in, by, new(journal), nil)
	if err != nil {
		return nil, nil, err
	}
	sub.twin = apart && c.lends()
	return sub, shared, nil
}

// scoredParts returns the parts to score, in order. Of periods of time the last comes first: its fit is closest to that
// of all rows.
func (j *job) scoredParts() []int {
	var out []int
	for k := j.deal.first(); k < j.deal.parts(j.o.Folds); k++ {
		out = append(out, k)
	}
	if j.deal.ordered() {
		slices.Reverse(out)
	}
	return out
}

// learnFold learns the columns from a part of the rows, unless the schema was given. Which columns are used, how their
// cells are read, and the targets with their classes and units come from all rows: a column with one word among dates
// would be a column of dates without the row that has it, and that row could not be read. A part learns means, scales,
// levels, ranges and whether cells are missing.
func (j *job) learnFold(src data.Source) (*data.Schema, error) {
	if j.o.Schema != nil || j.task == machine.Unsupervised {
		return j.schema, nil
	}
	like := j.schema
	if j.base != nil {
		like = j.base
	}
	s, _, err := data.Learn(src, data.LearnOptions{Like: unweighted(like), MaxLevels: j.o.Learn.MaxLevels})
	return s, err
}
