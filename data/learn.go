package data

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// Task is the kind of prediction for a target.
type Task string

// The tasks. Auto chooses classification for text, and for whole numbers with at most 10 distinct values in at
// least 20 rows.
const (
	Auto           Task = ""
	Regression     Task = "regression"
	Classification Task = "classification"
)

// Limits of Auto: fewer rows cannot tell classes from quantities.
const (
	autoClasses = 10
	autoRows    = 20
)

// LearnOptions give the columns their roles. The zero value makes every column a field. A name that is not a column, or
// that is listed twice, is an error. The options are part of a learner's fingerprint and its saved form, in JSON.
type LearnOptions struct {
	Targets     []string // columns to predict
	Task        Task
	IDs         []string // carried along to the predictions, not used
	Skip        []string // not read
	Numeric     []string // numbers; anything else is an error
	Categorical []string // levels, even if they are numbers
	Text        []string // free text, not levels
	MaxLevels   int      // levels of a field with their own column; the rest is "other". 0 is 64
	MaxClasses  int      // most classes of a target; 0 is 1024
	// Strict makes the first unreadable cell of a column of numbers or dates an error of kind [ErrUnreadable]
	// that names its place. Otherwise it counts as missing.
	Strict bool `json:",omitempty"`
	// Like fixes the kinds of the columns to the kinds in another schema; only means, scales, levels and ranges
	// come from the rows. Use it for some rows of a table whose schema is known, as in cross-validation.
	// Columns that are not fields of Like are not read, no cell is an error, and targets, ids and ignored
	// columns come from Like. Columns with fewer than two values are left out; if none remains, the fields are
	// copied from Like. Of the other options only MaxLevels counts.
	Like *Schema `json:",omitempty"`
}

// Levels is MaxLevels or its default.
func (o LearnOptions) Levels() int { return cmp.Or(o.MaxLevels, 64) }

// levelMemory bounds the memory for counting texts of all columns together, in bytes. Each column gets an equal
// share: between minTracked and maxTracked distinct texts, at maxLevelBytes plus about 64 bytes of bookkeeping
// each.
const (
	levelMemory = 128 << 20
	minTracked  = 16
	maxTracked  = 8192
	// numericTracked: counting stops in a column that held only numbers once it has more distinct values.
	numericTracked = 256
)

// ColumnSummary describes a column as Learn found it.
type ColumnSummary struct {
	Name    string `json:"name"`
	Use     string `json:"use"`           // numeric, boolean, time, text, categorical, target, id, ignored
	Why     string `json:"why,omitempty"` // why it is ignored, or the task of a target
	Missing int64  `json:"missing,omitempty"`
	// Unreadable is the number of missing values that are texts in a column of numbers or dates.
	Unreadable int64   `json:"unreadable,omitempty"`
	Distinct   int     `json:"distinct,omitempty"` // distinct texts that were counted
	Exact      bool    `json:"exact,omitempty"`    // whether Distinct is the exact number
	Mean       float64 `json:"mean,omitempty"`
	Scale      float64 `json:"scale,omitempty"`
	Min        float64 `json:"min,omitempty"`
	Max        float64 `json:"max,omitempty"`
}

// MarshalJSON writes mean, scale, min and max of columns of numbers, including zeros, and of no others.
func (c ColumnSummary) MarshalJSON() ([]byte, error) {
	type plain ColumnSummary
	out := struct {
		plain
		Missing int64    `json:"missing"`
		Mean    *float64 `json:"mean,omitempty"`
		Scale   *float64 `json:"scale,omitempty"`
		Min     *float64 `json:"min,omitempty"`
		Max     *float64 `json:"max,omitempty"`
	}{plain: plain(c), Missing: c.Missing}
	if c.Scale > 0 {
		out.Mean, out.Scale, out.Min, out.Max = &c.Mean, &c.Scale, &c.Min, &c.Max
	}
	return json.Marshal(out)
}

// Summary is the report of Learn.
type Summary struct {
	Rows     int64           `json:"rows"`
	Encoding string          `json:"encoding,omitempty"` // encoding of the text, if it is not UTF-8
	Columns  []ColumnSummary `json:"columns"`
	Notes    []string        `json:"notes,omitempty"` // sentences for the user about decisions that may surprise
}

// role is the use of a column that the options determine; asField leaves it to the data.
type role int

const (
	asField role = iota
	asNumeric
	asCategorical
	asText
	asTarget
	asID
	asSkip
)

// roles gives every column its role. A name that is not a column, or that has two roles, is an error.
func (o *LearnOptions) roles(place string, columns []string) ([]*columnLearner, error) {
	learners := make([]*columnLearner, len(columns))
	index := make(map[string]int, len(columns))
	for j, c := range columns {
		learners[j] = newColumnLearner(c, asField, o.Strict)
		if _, ok := index[c]; ok {
			return nil, inputError(place, "two columns are named %s: rename one", cell.Quote(c))
		}
		index[c] = j
	}
	if o.Like != nil {
		return learners, o.like(place, learners, index)
	}
	lists := []struct {
		what  string
		names []string
		role  role
	}{{"target", o.Targets, asTarget}, {"id", o.IDs, asID}, {"skipped", o.Skip, asSkip},
		{"numeric", o.Numeric, asNumeric}, {"categorical", o.Categorical, asCategorical}, {"text", o.Text, asText}}
	what := map[role]string{}
	for _, list := range lists {
		what[list.role] = list.what
		for _, n := range list.names {
			j, ok := index[n]
			if !ok {
				return nil, &InputError{Place: place, Err: ErrSchema, Detail: noColumn(n, list.what, columns)}
			}
			switch r := learners[j].role; r {
			case asField:
			case list.role:
				return nil, &InputError{Place: place, Err: ErrSchema,
					Detail: fmt.Sprintf("column %s is named twice as %s", cell.Quote(n), list.what)}
			default:
				return nil, &InputError{Place: place, Err: ErrSchema,
					Detail: fmt.Sprintf("column %s is named as %s and as %s: it can be one of them", cell.Quote(n),
						what[r], list.what)}
			}
			learners[j].role = list.role
		}
	}
	return learners, nil
}

// like gives the columns the roles of the fields of o.Like, and skips all others.
func (o *LearnOptions) like(place string, learners []*columnLearner, index map[string]int) error {
	for _, l := range learners {
		l.role = asSkip
	}
	for _, f := range o.Like.Fields {
		j, ok := index[f.Name]
		if !ok {
			return &InputError{Place: place, Err: ErrSchema, Detail: fmt.Sprintf("no column %s", cell.Quote(f.Name))}
		}
		switch f.Kind {
		case Categorical:
			learners[j].role = asCategorical
		case Words:
			learners[j].role = asText
		default:
			learners[j].role = asField
		}
	}
	return nil
}

// noColumn says that a table lacks the column that a user named as something, and which column it may be.
func noColumn(name, what string, columns []string) string {
	says := fmt.Sprintf("no column %s, named as %s", cell.Quote(name), what)
	if near := similar.Nearest(strings.TrimSpace(name), columns); near != "" {
		return fmt.Sprintf("%s, did you mean %s?", says, cell.Quote(near))
	}
	says += "; the columns are " + cell.QuoteList(columns)
	if n := len(columns); n > 0 && columns[0] == "c1" && columns[n-1] == fmt.Sprint("c", n) {
		return says + "; no line of names was found in the file"
	}
	if len(columns) == 1 {
		return says + "; the names are looked for in the first line that is not empty"
	}
	return says
}

// canonicalise merges the counts of all spellings of a number, unless the values are codes: only digits, some
// with a leading zero, such as 01 and 02. Codes keep their spelling, because predictions must print it.
func (l *columnLearner) canonicalise() {
	codes := false
	for t := range l.counts.of {
		if !digitsOnly(t) {
			codes = false
			break
		}
		codes = codes || len(t) > 1 && t[0] == '0'
	}
	if !codes {
		l.spellings = len(l.counts.of)
		l.counts.rename(canonicalText)
	}
}

func digitsOnly(t string) bool {
	return strings.IndexFunc(t, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// classes returns the distinct values of a target in increasing order, by number if all are numbers. The order
// is part of the model: it numbers the classes.
func (l *columnLearner) classes() []string {
	if l.texts == 0 {
		l.canonicalise()
	}
	if l.boolean() { // True and TRUE are one class, in the most frequent spelling
		spelled := map[float64]string{}
		truth := func(t string) float64 {
			v, _ := boolAt([]byte(t))
			return v
		}
		for _, t := range l.counts.top(len(l.counts.of)) {
			if spelled[truth(t)] == "" {
				spelled[truth(t)] = t
			}
		}
		l.spellings = len(l.counts.of)
		l.counts.rename(func(t string) string { return spelled[truth(t)] })
	}
	names := l.counts.top(len(l.counts.of))
	slices.SortFunc(names, func(a, b string) int {
		x, okX := cell.ParseNumber([]byte(a))
		y, okY := cell.ParseNumber([]byte(b))
		if okX && okY && x != y {
			return cmp.Compare(x, y)
		}
		if okX != okY { // numbers before texts
			if okX {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	return names
}

// canonicalText returns the canonical spelling of a number or a truth value, and any other text unchanged.
func canonicalText(t string) string {
	if b, ok := parseBool([]byte(t)); ok {
		return strconv.FormatBool(b)
	}
	if v, ok := cell.ParseNumber([]byte(t)); ok && !long([]byte(t), v) {
		return cell.Canonical(v)
	}
	return t
}

// long reports whether a text is an integer with more digits than float64 holds, such as a key. As numbers,
// different keys would become equal.
func long(text []byte, v float64) bool {
	if math.Abs(v) < 1<<53 {
		return false
	}
	return digitsOnly(strings.TrimLeft(string(text), "+-"))
}

// finish decides the kind of every column and builds the schema. Each column passes through one switch, in this order:
// roles set by the user, empty columns, numbers and dates (reading), truth values, levels. Columns that only number or
// identify the rows are removed at the end, but only if another field remains. It may change the learners
// (canonicalise), so callers pass clones.
func finish(place string, learners []*columnLearner, rows int64, o LearnOptions, tracked int) (*Schema, *Summary,
	error) {
	if o.Like != nil {
		return finishLike(place, learners, rows, o, tracked)
	}
	d := &decision{place: place, rows: rows, o: o, tracked: tracked, usual: usualStyle(learners), s: &Schema{},
		sum: &Summary{Rows: rows}, targets: map[string]Target{}, left: map[string][]string{},
		numbered: map[string]string{}}
	for _, l := range learners {
		d.columns = append(d.columns, l.name)
	}
	for j, l := range learners {
		cs, err := d.column(j, l)
		if err != nil {
			return nil, nil, err
		}
		d.sum.Columns = append(d.sum.Columns, cs)
	}
	d.leaveOut()
	for _, name := range o.Targets { // in the order of the options, not of the columns
		d.s.Targets = append(d.s.Targets, d.targets[name])
	}
	if len(d.s.Fields) == 0 {
		return nil, nil, &InputError{Place: place, Detail: noneLeft(d.sum.Columns), Err: ErrSchema}
	}
	if err := d.s.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place, err)
	}
	return d.s, d.sum, nil
}

// decision collects the schema and its summary, column by column.
type decision struct {
	place   string
	columns []string
	rows    int64
	o       LearnOptions
	tracked int
	usual   string

	s        *Schema
	sum      *Summary
	targets  map[string]Target
	left     map[string][]string // columns left out, by the first word of the reason, for one note each
	numbered map[string]string   // columns that only tell rows apart, with the reason
}

func (d *decision) note(format string, args ...any) {
	d.sum.Notes = append(d.sum.Notes, fmt.Sprintf(format, args...))
}

// constant leaves out a column of one value. shown is its spelling in the summary.
func (d *decision) constant(cs *ColumnSummary, value, shown string) {
	cs.Use, cs.Why = "ignored", "constant "+shown
	d.s.Ignored = append(d.s.Ignored, cs.Name)
	d.left["constant"] = append(d.left["constant"], cs.Name)
	d.s.setConstant(cs.Name, value)
}

// ignore leaves out a column for another reason, which a note tells.
func (d *decision) ignore(cs *ColumnSummary, why string) {
	cs.Use, cs.Why = "ignored", why
	d.s.Ignored = append(d.s.Ignored, cs.Name)
	reason, _, _ := strings.Cut(why, " ")
	d.left[reason] = append(d.left[reason], cs.Name)
}

// use adds a field.
func (d *decision) use(cs *ColumnSummary, f Field) {
	cs.Use = string(f.Kind)
	d.s.Fields = append(d.s.Fields, f)
}

// column decides about column j. The order of the cases is the order of the rules: what the options say comes before
// what the values look like, and numbers before truth values before levels.
func (d *decision) column(j int, l *columnLearner) (cs ColumnSummary, err error) {
	cs = ColumnSummary{Name: l.name, Missing: l.missing}
	if l.counts != nil {
		cs.Distinct, cs.Exact = len(l.counts.of), l.counts.exact()
	}
	if l.texts == 0 && l.numbers.n > 0 {
		cs.Mean, cs.Scale, cs.Min, cs.Max = l.numbers.mean, l.numbers.scale(), l.numbers.min, l.numbers.max
	}
	r, isRead := reading{}, false
	if l.role == asField || l.role == asNumeric {
		r, isRead = l.reading(d.usual, d.o.MaxLevels)
	}
	switch {
	case l.role == asID:
		cs.Use = "id"
		d.s.IDs = append(d.s.IDs, l.name)
	case l.role == asSkip: // asked for, so no note
		cs.Use, cs.Why = "ignored", "skipped as asked"
		d.s.Ignored = append(d.s.Ignored, l.name)
	case l.role == asTarget:
		err = d.target(&cs, l)
	case l.missing == d.rows:
		d.ignore(&cs, "empty")
	case l.role == asText:
		d.use(&cs, Field{Name: l.name, Kind: Words, Missing: l.missing > 0})
	// Each part was numeric, but in different styles: add could not see the conflict.
	case l.role == asNumeric && (!isRead || r.bad > 0):
		err = columnError(l.at.String(), l.name, nil, "column %s is %s, where others are written otherwise: write numbers in one way",
			cell.Quote(l.name), l.sample)
	case isRead:
		err = d.measured(&cs, j, l, r)
	case l.boolean() && l.role == asField:
		d.truths(&cs, l)
	default:
		err = d.levels(&cs, l)
	}
	return cs, err
}

func (d *decision) target(cs *ColumnSummary, l *columnLearner) error {
	t, m, err := l.target(d.place, d.rows, d.o, d.usual, d.note)
	if err != nil {
		return err
	}
	cs.Use, cs.Why = "target", string(Regression)
	if len(t.Classes) > 0 {
		cs.Why = fmt.Sprintf("%d classes", len(t.Classes))
	} else if t.Format != "" {
		cs.Mean, cs.Scale, cs.Min, cs.Max = m.mean, m.scale(), m.min, m.max
	}
	d.targets[l.name] = t
	return nil
}

// measured decides about a column of numbers or dates, which r has read.
func (d *decision) measured(cs *ColumnSummary, j int, l *columnLearner, r reading) error {
	// Numbers in one file and texts in another usually mean that files were mixed up.
	if numbers, text, ok := l.shards.conflict(); ok && r.bad > 0 && r.kind == Numeric && r.format == "" {
		return l.conflict(numbers, text, "column")
	}
	if r.bad > 0 && d.o.Strict {
		return l.strictError(r)
	}
	if r.m.min == r.m.max && l.missed(r.bad) == 0 {
		value, shown := cell.Canonical(r.m.mean), fmt.Sprintf("%g", r.m.mean)
		if l.texts > 0 {
			value = l.sample // if no counts are left
			if l.counts != nil {
				if top := l.counts.top(1); len(top) > 0 {
					value = top[0]
				}
			}
			shown = cell.Quote(value)
		}
		d.constant(cs, value, shown)
		return nil
	}
	f, outliers := l.field(r)
	if !finiteScale(f) {
		return columnError(d.place, l.name, nil, "column %s runs from %g to %g, beyond what can be standardised: rescale it",
			cell.Quote(l.name), r.m.min, r.m.max)
	}
	cs.Missing, cs.Unreadable = l.missed(r.bad), r.bad
	cs.Mean, cs.Scale, cs.Min, cs.Max = f.Mean, f.Scale, r.m.min, r.m.max
	if why := l.numbersRows(d.columns, j, d.rows); why != "" {
		d.numbered[l.name] = why
	} else {
		l.notes(r, &f, outliers, d.note)
	}
	d.use(cs, f)
	return nil
}

// truths decides about a column of truth values.
func (d *decision) truths(cs *ColumnSummary, l *columnLearner) {
	truths := l.truths()
	if truths.min == truths.max && l.missing == 0 {
		value := strconv.FormatBool(truths.mean == 1)
		d.constant(cs, value, value)
		return
	}
	cs.Mean, cs.Scale, cs.Min, cs.Max = truths.mean, truths.scale(), truths.min, truths.max
	d.use(cs, Field{Name: l.name, Kind: Boolean, Mean: cs.Mean, Scale: cs.Scale, Missing: l.missing > 0})
}

// levels decides about a column of texts, or of numbers that are to be levels.
func (d *decision) levels(cs *ColumnSummary, l *columnLearner) error {
	if l.texts == 0 {
		l.canonicalise()
	}
	distinct, exact := len(l.counts.of), l.counts.exact()
	if distinct == 1 && exact && l.missing == 0 {
		value := l.counts.top(1)[0]
		d.constant(cs, value, cell.Quote(value))
		return nil
	}
	if numbers, text, ok := l.shards.conflict(); ok && l.role == asField {
		return l.conflict(numbers, text, "column")
	}
	if l.role == asField && l.identifies(d.rows, d.o.MaxLevels) {
		d.ignore(cs, "distinct texts, like names or identifiers; named as text, their words would be read")
		return nil
	}
	if l.role == asField && l.numbers.n > 9*l.texts {
		d.note("column %s is categorical though %d of its values are numbers: the first that is not is %s at %s",
			cell.Quote(l.name), l.numbers.n, l.sample, l.at)
	}
	f := Field{Name: l.name, Kind: Categorical, Levels: l.counts.top(min(d.o.MaxLevels, d.tracked)),
		Missing: l.missing > 0}
	if f.Other = len(f.Levels) < distinct || !exact; f.Other {
		d.note("%s", f.OtherNote())
	}
	d.use(cs, f)
	return nil
}

// leaveOut removes the columns that number the rows, unless nothing else is left, and notes all that are left out.
func (d *decision) leaveOut() {
	if len(d.numbered) < len(d.s.Fields) {
		d.s.Fields = slices.DeleteFunc(d.s.Fields, func(f Field) bool { return d.numbered[f.Name] != "" })
		for i := range d.sum.Columns {
			if c := &d.sum.Columns[i]; d.numbered[c.Name] != "" {
				c.Use, c.Why = "ignored", d.numbered[c.Name]
				d.s.Ignored = append(d.s.Ignored, c.Name)
				d.note("left out, since it %s: %s; name it as numeric to use it, or as an id to carry it along",
					d.numbered[c.Name], cell.Quote(c.Name))
			}
		}
	}
	for _, l := range []struct{ reason, text string }{{"constant", "are constant"}, {"empty", "have no values"},
		{"distinct", "hold texts that nearly always differ, like names or identifiers"}} {
		if names := d.left[l.reason]; len(names) > 0 {
			d.note("left out, since they %s: %s", l.text, cell.QuoteList(names))
		}
	}
}

// OtherNote is the note of [Summary] about a column whose less frequent levels share one encoded column. It no longer
// holds if the column gets a code of all its levels.
func (f *Field) OtherNote() string {
	return fmt.Sprintf("column %s keeps its %d most frequent levels, the rest is \"other\"", cell.Quote(f.Name),
		len(f.Levels))
}

// conflict reports a column that has numbers in one file and texts in another.
func (l *columnLearner) conflict(numbers, text, what string) error {
	remedy := "categorical"
	if what == "target" {
		remedy = "a target of classes"
	}
	return columnError(l.at.String(), l.name, ErrSchema,
		"%s %s is %s; it has only such texts in %s and only numbers in %s: correct one, or name it as %s",
		what, cell.Quote(l.name), l.sample, text, numbers, remedy)
}

// noneLeft explains why no column is left to predict from.
func noneLeft(columns []ColumnSummary) string {
	var why []string
	for i, c := range columns {
		if i == 8 {
			why = append(why, fmt.Sprintf("and %d more", len(columns)-i))
			break
		}
		reason := "the " + c.Use
		if c.Use == "ignored" {
			reason = c.Why
		} else if c.Use == "id" {
			reason = "an id"
		}
		why = append(why, fmt.Sprintf("%s (%s)", cell.Quote(c.Name), reason))
	}
	return "no column is left to predict from: " + strings.Join(why, ", ")
}

// identifies reports whether a text column looks like names of rows: there are more distinct texts than levels,
// the levels that would be kept cover less than half of the rows, and most texts occur only once or twice. If
// counts are not exact, the kept levels must cover less than one row in twenty.
func (l *columnLearner) identifies(rows int64, maxLevels int) bool {
	if len(l.counts.of) <= maxLevels && l.counts.exact() {
		return false
	}
	if l.numbers.n > l.texts {
		return false
	}
	covered := int64(0)
	for _, t := range l.counts.top(maxLevels) {
		covered += *l.counts.of[t]
	}
	if l.counts.exact() {
		return covered < rows/2 && 2*int64(len(l.counts.of)) > rows
	}
	return covered < rows/20
}

// target decides between regression and classes. Unlike a field, a target must not lose cells silently:
// unreadable values among numbers are errors, unless they can be classes.
func (l *columnLearner) target(place string, rows int64, o LearnOptions, usual string,
	note func(string, ...any)) (t Target, m moments, err error) {
	t = Target{Name: l.name}
	classes := o.Task == Classification
	few := l.counts != nil && l.counts.exact() && len(l.counts.of) <= autoClasses
	r, isRead := l.reading(usual, 0)
	switch {
	case !isRead || classes:
	case r.bad > 0 && !few: // whether a row without a target may be dropped is the user's decision
		return t, m, columnError(r.first.at.String(), l.name, ErrUnreadable,
			"target %s is %s, though %d of its values are numbers: "+
				"correct it, or ask for classification", cell.Quote(l.name), r.first.sample, r.m.n)
	case l.words > 0 && !few:
		return t, m, columnError(l.word.at.String(), l.name, ErrUnreadable,
			"target %s is %s, though %d of its values are numbers: "+
				"correct it, name it as missing, or ask for classification", cell.Quote(l.name), l.word.sample, r.m.n)
	case r.bad+l.words == 0 && r.format != "" && r.m.min < r.m.max:
		if r.units != "" {
			note("target %s is read as %s, such as %s; predictions and errors are in the same units", cell.Quote(l.name), r.units,
				r.sample)
		} else {
			note("target %s is read as numbers %s, such as %s", cell.Quote(l.name), r.format, r.sample)
		}
		if r.both {
			note("target %s can be read in two ways: spell its numbers plainly if this is the wrong one", cell.Quote(l.name))
		}
		t.Format, t.Mean, t.Scale = r.format, r.m.mean, r.m.scale()
		return t, r.m, nil
	}
	t, err = l.plainTarget(t, place, rows, o, note)
	return t, m, err
}

// plainTarget decides for a target of classes or of plain numbers.
func (l *columnLearner) plainTarget(t Target, place string, rows int64, o LearnOptions,
	note func(string, ...any)) (Target, error) {
	classes := o.Task == Classification
	if o.Task == Regression && l.texts > 0 {
		return t, columnError(l.at.String(), l.name, nil, "target %s is %s, want a number", cell.Quote(l.name),
			l.sample)
	}
	if o.Task == Auto {
		classes = l.texts > 0
		if numbers, text, ok := l.shards.conflict(); ok {
			return t, l.conflict(numbers, text, "target")
		}
		distinct := len(l.counts.of)
		switch {
		case classes && l.numbers.n > 9*l.texts && (distinct > autoClasses || !l.counts.exact()):
			return t, columnError(l.at.String(), l.name, nil, "target %s is %s, though %d of its values are numbers: correct it, or ask for classification", cell.Quote(l.name), l.sample, l.numbers.n)
		// Texts that are nearly all different cannot be classes.
		case classes && rows >= autoRows && 2*int64(distinct) > rows && l.counts.exact():
			return t, columnError(place, l.name, nil, "target %s has %d distinct texts in %d rows, such as %s at %s: an identifier? Ask for classification if they are classes",
				cell.Quote(l.name), distinct, rows, l.sample, l.at)
		}
		if !classes && l.whole && rows >= autoRows && l.counts.exact() {
			l.canonicalise()
			classes = len(l.counts.of) <= autoClasses && len(l.counts.of) > 1
			if classes {
				note("target %s has %d distinct whole numbers: taken for classes; ask for regression if they are quantities", cell.Quote(l.name), len(l.counts.of))
			}
		}
	}
	if !classes {
		if l.numbers.min == l.numbers.max {
			spelled := ""
			if l.spellings > 1 {
				spelled = fmt.Sprintf(": %g in %d spellings", l.numbers.mean, l.spellings)
			}
			note("target %s is constant%s", cell.Quote(l.name), spelled)
		}
		t.Mean, t.Scale = l.numbers.mean, l.numbers.scale()
		if !dense.IsFinite(t.Mean) || !dense.IsFinite(t.Scale) || t.Scale <= 0 {
			return t, columnError(place, l.name, nil, "target %s runs from %g to %g, beyond what can be standardised: rescale it", cell.Quote(l.name), l.numbers.min, l.numbers.max)
		}
		return t, nil
	}
	if !l.counts.exact() || len(l.counts.of) > o.MaxClasses {
		hint := ""
		if l.texts > 0 && l.numbers.n > l.texts {
			hint = fmt.Sprintf(" (most are numbers; the first that is not is %s at %s)", l.sample, l.at)
		}
		return t, columnError(place, l.name, nil, "target %s has more than %d classes%s: an identifier, or a quantity for regression?", cell.Quote(l.name), o.MaxClasses, hint)
	}
	t.Classes = l.classes()
	if len(t.Classes) == 1 {
		spelled := ""
		if l.spellings > 1 {
			spelled = fmt.Sprintf(", a number in %d spellings,", l.spellings)
		}
		return t, columnError(place, l.name, nil, "target %s is %s%s in every row: one class cannot be told from another", cell.Quote(l.name), cell.Quote(t.Classes[0]), spelled)
	}
	return t, nil
}
