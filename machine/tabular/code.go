package tabular

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Codes of columns of many levels. One column per level works for few levels only: all rare levels share one column
// and look the same. Codes distinguish them. Like every choice, the code is chosen by trial inside the folds.
//
//	columns with more levels than --max-levels      as they are, or with a code
//	whole numbers of a column named as identifiers  as numbers, or with a code
//	columns in Options.Code                         with this code

const (
	// codeRows is the number of rows on which codes are first compared.
	codeRows = 2048
	// repeated is the least mean number of rows per level. Columns with fewer hold names of rows.
	repeated = 1.25
	// allLevels is the largest number of levels that may have a column each.
	allLevels = 2048
)

// codedColumns returns the columns for which a code is to be chosen, and the columns whose code the caller set.
func codedColumns(j *job) (open []string, given map[string]string, err error) {
	given = map[string]string{}
	for i := range j.schema.Fields {
		fd := &j.schema.Fields[i]
		code, ok := j.o.Code[fd.Name]
		switch {
		case ok && (fd.Kind == data.Time || fd.Kind == data.Words):
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("a column of kind %s has no levels to encode", fd.Kind))
		case ok && code == string(data.CodeMeans) && j.task == machine.Unsupervised:
			return nil, nil, errLevels(fd.Name, "means are of a target, a density has none: use another code")
		case ok && code == string(data.CodeMeans) && j.o.Features > maxFeatures:
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("means with %d features, at most %d can have them: use another "+
				"code, or fewer features", j.o.Features, maxFeatures))
		case ok && code == string(data.CodeMeans) && j.outputs > meanOutputs:
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("means of %d classes, at most %d can be had: use another code",
				j.outputs, meanOutputs))
		case ok:
			given[fd.Name] = code
		case fd.Name == j.o.IntervalBy: // keeps its levels
		case slices.Contains(j.o.Learn.Numeric, fd.Name): // the caller says that it is numeric
		case fd.Kind == data.Categorical && fd.Other, fd.Kind == data.Numeric && fd.IsIdentifier():
			open = append(open, fd.Name)
		}
	}
	for _, column := range slices.Sorted(maps.Keys(j.o.Code)) {
		if _, ok := given[column]; !ok && !j.inner { // a fold may have one level only
			return nil, nil, errLevels(column, "a code was asked for, but the column is not used: "+
				"it is missing, constant, left out, or the target")
		}
	}
	if !j.weighs || !j.info.LeastSquares || j.o.Bandwidth > 0 ||
		j.o.Features > maxFeatures || j.task == machine.Unsupervised {
		open = nil
	}
	return open, given, nil
}

// chooseCodes gives codes to columns of many levels. It returns the sample encoded with them and how they were
// chosen; the choice is nil if there was nothing to choose.
func chooseCodes(j *job, s *sample, n int64) (*codedSample, *Choice, error) {
	open, given, err := codedColumns(j)
	if err != nil || len(open)+len(given) == 0 {
		return &codedSample{job: j, s: s}, nil, err
	}
	counts, err := countLevels(j, slices.Concat(open, slices.Sorted(maps.Keys(given))))
	if err != nil {
		return nil, nil, err
	}
	open = slices.DeleteFunc(open, func(name string) bool { return !counts.repeats(name, n) })
	if s.len() < leastScaling {
		open = nil
	}
	if len(open)+len(given) == 0 {
		return &codedSample{job: j, s: s}, nil, nil
	}
	ch := &Choice{Name: "encode", Given: len(open) == 0, Why: "as asked"}
	top, err := withCodes(j, counts, given, s, n)
	if err != nil {
		return nil, nil, err
	}
	if len(open) > 0 {
		if top, err = tryCodes(j, ch, counts, top, open, n); err != nil {
			return nil, nil, err
		}
	}
	ch.Value = describeCodes(top.codes)
	return top, ch, nil
}

// followCodes gives columns the codes that were chosen for other rows.
func followCodes(j *job, codes map[string]string, s *sample, n int64) (*codedSample, error) {
	if len(codes) == 0 {
		return &codedSample{job: j, s: s}, nil
	}
	counts, err := countLevels(j, slices.Sorted(maps.Keys(codes)))
	if err != nil {
		return nil, err
	}
	return withCodes(j, counts, codes, s, n)
}

// firstLevels keeps only the most frequent levels of a field.
func firstLevels(f data.Field, most int) data.Field {
	f.Other = f.Other || len(f.Levels) > most
	f.Levels = f.Levels[:min(len(f.Levels), most)]
	return f
}

// codedSample is the sample with codes, and the job whose columns have them.
type codedSample struct {
	*job
	s *sample
}

// withCodes encodes the sample s with some codes.
func withCodes(j *job, counts *levelCounts, codes map[string]string, s *sample, n int64) (*codedSample, error) {
	schema := *j.schema
	schema.Fields = slices.Clone(schema.Fields)
	used := map[string]string{}
	for i := range schema.Fields {
		fd := &schema.Fields[i]
		code, ok := codes[fd.Name]
		k := slices.IndexFunc(counts.fields, func(o data.Field) bool { return o.Name == fd.Name })
		if !ok || k < 0 {
			continue
		}
		used[fd.Name] = code
		switch most := j.o.Learn.Levels(); code {
		case codeLevels:
			*fd = firstLevels(counts.fields[k], most)
		case codeAll:
			*fd = firstLevels(counts.fields[k], allLevels)
		default:
			*fd = counts.coded(k, data.Code(code))
		}
	}
	out := &codedSample{job: j.withSchema(&schema), s: s}
	out.base, out.codes, out.crossed = j.schema, used, nil
	if len(used) == 0 {
		return out, nil
	}
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	out.crossed = counts.cross(&schema)
	rows, err := out.trainingRows(j.src)
	if err != nil {
		return nil, err
	}
	var m int64
	if out.s, m, err = out.take(out.watch(rows, stageSample)); err != nil {
		return nil, err
	}
	if m != n {
		return nil, fmt.Errorf("%s: %d rows now, %d before: the table changed while it was read: %w", j.src.Name(), m, n,
			machine.ErrMismatch)
	}
	return out, nil
}

// codeTrial is a code with its best settings and its losses.
type codeTrial struct {
	name      string
	c         *codedSample
	e         *exactSearch
	loss      []float64
	now, half float64 // mean losses with all rows of the trial and with half of them
}

// tryCodes compares codes of the open columns on some rows, each row predicted by the others. Like scalings, codes
// are compared by exact kernel ridge regression, each at its own best settings. Some codes gain more than others
// from more rows per level. So a code that is behind but catching up is tried on more rows (see narrow.wins).
func tryCodes(j *job, ch *Choice, counts *levelCounts, base *codedSample, open []string, n int64) (*codedSample,
	error) {
	var all []*codeTrial
	try := func(name string, c *codedSample) error {
		if c.s.len() != base.s.len() {
			return nil // too wide for the exact kernel
		}
		t, err := tryCode(name, c, n)
		if t != nil {
			all = append(all, t)
			ch.Trials = append(ch.Trials, t.e.c.f.shown(t.e.all[best(t.e.all)], float64(len(ch.Trials)), name))
		}
		return err
	}
	if err := try("as it is", base); err != nil {
		return nil, err
	}
	for _, code := range openCodes(j, counts, open, n) {
		codes := maps.Clone(base.codes)
		for _, name := range open {
			codes[name] = code
		}
		c, err := withCodes(j, counts, codes, base.s, n)
		if err == nil {
			err = try(code, c)
		}
		if err != nil {
			return nil, err
		}
	}
	ch.Why = "no code is better by more than two standard errors"
	if len(all) == 0 || all[0].c != base {
		return base, nil
	}
	all, err := moreCodeRows(all, n)
	if err != nil {
		return nil, err
	}
	top := all[0]
	for _, t := range all[1:] {
		if t.now < top.now {
			top = t
		}
	}
	if diff, se := gain(all[0].loss, top.loss); top == all[0] || diff <= surely*se {
		return base, nil
	}
	ch.Why = fmt.Sprintf("best %s of %s", top.e.c.f.metric(), top.e.judged())
	return top.c, nil
}

// openCodes returns the codes to try: one column per level while that is feasible, else hashed ones.
func openCodes(j *job, counts *levelCounts, open []string, n int64) []string {
	columns := 0
	for i := range counts.fields {
		if slices.Contains(open, counts.fields[i].Name) {
			columns += len(counts.fields[i].Levels)
			if counts.fields[i].Other {
				columns += mostLevels
			}
		}
	}
	out := []string{codeAll}
	if columns > allLevels || n > int64(exactRows) { // random features of so many columns take too long
		out = []string{string(data.CodeHashed)}
	}
	if out = append(out, string(data.CodeCounts)); j.outputs <= meanOutputs {
		out = append(out, string(data.CodeMeans))
	}
	return out
}

// tryCode searches the settings of a code; nil: there are none that can be used.
func tryCode(name string, c *codedSample, n int64) (*codeTrial, error) {
	ct := &chooser{f: &search{job: c.job}, s: c.s, rows: n, d: &decision{}}
	order := ct.order()
	m := min(len(order), codeRows)
	t := &codeTrial{name: name, c: c}
	t.e = ct.exactSearch(order, slices.Compact([]int{min(m/2, firstRows), m / 2})...)
	if err := t.e.search(); err != nil {
		return nil, err
	}
	i := best(t.e.all)
	if i < 0 {
		return nil, nil
	}
	t.half = mean(t.e.all[i].compared())
	if err := t.e.rows(m); err != nil {
		return nil, err
	}
	if err := t.e.climb(); err != nil {
		return nil, err
	}
	return t.took(), nil
}

// took takes the best trial of the last rows; nil: there is none.
func (t *codeTrial) took() *codeTrial {
	i := best(t.e.all)
	if i < 0 {
		return nil
	}
	t.loss = t.e.all[i].compared()
	t.now = mean(t.loss)
	return t
}

// moreCodeRows tries those codes again that may be best with the rows of the table, as many as can be afforded. The
// first is that of columns as they are.
func moreCodeRows(all []*codeTrial, n int64) ([]*codeTrial, error) {
	top := slices.MinFunc(all, func(a, b *codeTrial) int { return cmp.Compare(a.now, b.now) })
	m, rows := top.e.tries.x.Rows, len(top.e.order)
	if rows > wholeRows {
		rows = lastRows
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(t *codeTrial) bool {
		k := narrow{now: t.now - top.now, before: t.half - top.half}
		return t != all[0] && t != top && !k.wins(int(min(n, int64(exactRows))), m)
	})
	if len(kept) < 2 || len(kept) == 2 && top != all[0] || rows < m*5/4 {
		return all, nil
	}
	var out []*codeTrial
	for _, t := range kept {
		t.e.at = exactPoint{}
		if i := best(t.e.all); i >= 0 {
			t.e.at = exactPoint{t.e.all[i].spec.Kernel.Scale, t.e.all[i].lambda}
		}
		if err := t.e.rows(rows); err != nil {
			return nil, err
		}
		if err := t.e.try(t.e.at.orNarrower()); err != nil {
			return nil, err
		}
		if t := t.took(); t != nil {
			out = append(out, t)
		}
	}
	if len(out) == 0 || out[0] != all[0] {
		return all, nil
	}
	return out, nil
}

// repeats reports whether the levels of a column repeat often enough for a code.
func (c *levelCounts) repeats(name string, rows int64) bool {
	k := slices.IndexFunc(c.fields, func(f data.Field) bool { return f.Name == name })
	return k >= 0 && float64(len(c.fields[k].Levels))*repeated <= float64(rows)
}

// describeCodes lists columns and their codes for the report.
func describeCodes(codes map[string]string) string {
	var out []string
	for _, column := range slices.Sorted(maps.Keys(codes)) {
		out = append(out, column+" "+codes[column])
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// resumeCodes learns the codes of training rows again, which a checkpoint does not store.
func resumeCodes(j *job, d *decision) error {
	j.codes = d.Codes
	var fields []data.Field
	for _, fd := range j.schema.Fields {
		if fd.Code == data.CodeMeans {
			fields = append(fields, data.Field{Name: fd.Name, Kind: fd.Kind, Levels: fd.Levels, Missing: fd.Missing,
				Other: fd.Other})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	counts, err := countRows(j, fields)
	if err == nil {
		j.crossed = counts.cross(j.schema)
	}
	return err
}
