package data

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/internal/cell"
)

// reading is the interpretation of a column whose cells are numbers or times: the kind and format of its field,
// and the statistics of the cells under that interpretation.
type reading struct {
	kind   FieldKind
	format string // number style or date order; empty: plain numbers
	clock  bool
	m      moments
	wide   []*octaves // the values by magnitude, to find outliers; nil: unknown, so no outliers are cut off
	bad    int64      // cells that this interpretation cannot read
	first  oddCell    // the first of them
	both   bool       // another interpretation reads as many cells, and nothing decides between them
	units  string     // how percentages count, as words for a note; empty: there are none
	sample string     // an example for notes: a value that is not a plain number
}

// cells is the number of cells with a value if the column holds numbers or times: words such as "unknown" do
// not count.
func (l *columnLearner) cells() int64 { return l.numbers.n + l.texts - l.words }

// missed is the number of missing values under an interpretation that cannot read bad cells: empty cells, words
// that mean missing, and the unreadable ones.
func (l *columnLearner) missed(bad int64) int64 { return l.missing + l.words + bad }

// reading interprets the column as numbers or times; ok is false if it holds levels, truth values or words. It
// works in three steps:
//
//  1. Choose between plain numbers, decimal points with groups, and decimal commas (see styles.of).
//  2. Prefer dates if they leave no more cells unread.
//  3. Reject the interpretation if more than one cell in twenty cannot be read (see tolerated), or if two or
//     more of the unreadable texts repeat while all values fit into maxLevels levels. Such a column holds
//     levels that happen to be mostly numbers.
//
// usual is the number style of the other columns, which decides ambiguous ones.
func (l *columnLearner) reading(usual string, maxLevels int) (r reading, ok bool) {
	cells := l.cells()
	if cells <= 0 || l.boolean() {
		return r, false
	}
	plain := reading{kind: Numeric, m: l.numbers, wide: []*octaves{&l.wide}}
	if l.styles.n != cells { // the format has typed numbers: cells were not read as text
		return plain, l.texts == 0
	}
	style, styled := l.styles.of(usual, &l.wide)
	switch {
	case styled && style.comma:
		plain = reading{kind: Numeric, format: style.format, m: style.m, wide: style.wide, both: style.both,
			units: style.units, bad: style.bad, first: l.bad[1], sample: l.sample}
		if l.texts == 0 {
			plain.sample = l.styles.differs.sample
		}
	case l.texts == 0:
	// The style reads texts as numbers that plain parsing does not, so it is the interpretation.
	case styled && l.styles.point.n+l.styles.pointShare.n > l.numbers.n:
		plain = reading{kind: Numeric, format: style.format, m: style.m, wide: style.wide, both: style.both,
			units: style.units, bad: style.bad, first: l.bad[0], sample: l.sample}
	// All numbers are plain; the texts among them are unreadable.
	default:
		plain.bad, plain.first = style.bad, l.bad[0]
	}
	r, ok = plain, styled
	if l.role == asField && l.texts > 0 {
		if k, both, dated := l.dates.of(cells); dated && (!ok || cells-l.dates.days[k].n <= r.bad) {
			r, ok = l.dated(k), true
			r.both = both
		}
	}
	return r, ok && !(r.bad > 0 && l.codes(r, maxLevels))
}

// dated is the interpretation as times in date order k.
func (l *columnLearner) dated(k int) reading {
	return reading{kind: Time, format: dateOrders[k], clock: l.dates.clock, m: l.dates.days[k],
		wide: []*octaves{&l.dates.wide[k]}, bad: l.cells() - l.dates.days[k].n, first: l.bad[2+k], sample: l.sample}
}

// codes reports whether the unreadable cells are levels: at least two of them repeat, and all values fit into
// maxLevels. It needs exact counts; without them the column stays numeric.
func (l *columnLearner) codes(r reading, maxLevels int) bool {
	if l.counts == nil || !l.counts.exact() || len(l.counts.of) > maxLevels {
		return false
	}
	again := 0
	for t, n := range l.counts.of {
		if *n > 1 && !isMissingWord([]byte(t)) && !r.reads([]byte(t)) {
			again++
		}
	}
	return again > 1
}

// reads reports whether a text is a value under this interpretation. It uses the parser of the encoder, so
// learning and encoding agree.
func (r *reading) reads(text []byte) bool {
	f := Field{Kind: r.kind, Format: r.format}
	_, ok := f.valueAt(&Column{Text: [][]byte{text}}, 0)
	return ok
}

// field returns the field of an interpretation and the number of gross outliers, which do not count in its mean
// and scale.
func (l *columnLearner) field(r reading) (f Field, outliers int64) {
	f = Field{Name: l.name, Kind: r.kind, Format: r.format, Clock: r.clock, Mean: r.m.mean, Scale: r.m.scale(),
		Missing: l.missed(r.bad) > 0, Range: &[2]float64{r.m.min, r.m.max}}
	if core, ok := gross(r.m, r.wide); ok {
		f.Mean, f.Scale, f.Clip = core.mean, core.scale(), &[2]float64{core.min, core.max}
		outliers = r.m.n - core.n
	}
	return f, outliers
}

// name is the plural for messages.
func (r *reading) name() string {
	if r.kind == Time {
		return "dates"
	}
	return "numbers"
}

// unread says what n values are that could not be read.
func (r *reading) unread(n int64) string {
	if n == 1 {
		return "is not a " + strings.TrimSuffix(r.name(), "s") + " and counts"
	}
	return "are not " + r.name() + " and count"
}

// notes tells the user how a column was read: its format, unreadable cells, and outliers. f is its field.
func (l *columnLearner) notes(r reading, f *Field, outliers int64, note func(string, ...any)) {
	what := map[FieldKind]string{Numeric: "numbers", Time: "times"}[r.kind]
	units := ""
	if r.units != "" {
		units = "; " + r.units
	}
	switch {
	case r.format == "":
	case r.both:
		note("column %s can be read in two ways, %s is taken for %s", cell.Quote(l.name), r.sample, r.format)
	default:
		note("column %s is read as %s %s, such as %s%s", cell.Quote(l.name), what, r.format, r.sample, units)
	}
	if r.bad > 0 {
		note("column %s: %d of %d values %s as missing: the first is %s at %s; name the column as categorical if they "+
			"are levels", cell.Quote(l.name), r.bad, l.cells(), r.unread(r.bad), r.first.sample, r.first.at)
	}
	if outliers > 0 {
		ends := [4]string{short(f.Clip[0]), short(f.Clip[1]), short(f.Range[0]), short(f.Range[1])}
		if r.kind == Time {
			for k, v := range []float64{f.Clip[0], f.Clip[1], f.Range[0], f.Range[1]} {
				ends[k] = dayText(v)
			}
		}
		lie, count := "lie", "count"
		if outliers == 1 {
			lie, count = "lies", "counts"
		}
		note("column %s: %d of its %d values %s far outside the range of all others, %s to %s, and %s as the "+
			"nearest end of it (the full range is %s to %s). If such values stand for missing ones, name them as missing",
			cell.Quote(l.name), outliers, r.m.n, lie, ends[0], ends[1], count, ends[2], ends[3])
	}
}

// strictError reports the first unreadable cell, for LearnOptions.Strict.
func (l *columnLearner) strictError(r reading) error {
	return columnError(r.first.at.String(), l.name, ErrUnreadable, "column %s is %s, where %d other values are %s: "+
		"correct it, or name the column as categorical", cell.Quote(l.name), r.first.sample, r.m.n, r.name())
}

// relearn computes the statistics of field f of another schema from these rows. The kind of the field and
// everything that the rows cannot determine stay as in f. ok is false if the rows give no information: no
// value, or a single value without missing cells, which is then returned as constant. Weight is reset, because
// it was learned together with the old scale.
func (l *columnLearner) relearn(f Field, maxLevels, tracked int) (out Field, constant string, ok bool) {
	out = f
	out.Weight = 0
	same := func(n int64, missed int64) bool { return n == 1 && missed == 0 }
	switch f.Kind {
	case Words:
		out.Missing = l.missing > 0
		return out, "", l.texts+l.numbers.n > 0
	case Categorical:
		if l.texts == 0 {
			l.canonicalise()
		}
		distinct := len(l.counts.of)
		if distinct == 0 {
			return out, "", false
		}
		out.Levels, out.Missing = l.counts.top(min(maxLevels, tracked)), l.missing > 0
		out.Other = len(out.Levels) < distinct || !l.counts.exact()
		if same(int64(distinct), l.missing) && l.counts.exact() {
			return out, out.Levels[0], false
		}
		return out, "", true
	case Boolean:
		// The rows hold other values than truth values. Fitting a part of a table must not fail, so f stays as
		// it is.
		if l.texts > 0 && !l.boolean() {
			return out, "", true
		}
		m := l.numbers
		if l.texts > 0 {
			m = l.truths()
		}
		if m.n == 0 || m.min == m.max && l.missing == 0 {
			return out, strconv.FormatBool(m.mean == 1), false
		}
		out.Mean, out.Scale, out.Missing = m.mean, m.scale(), l.missing > 0
		return out, "", true
	}
	r, ok := l.as(f)
	if !ok {
		return out, "", true
	}
	if r.m.n == 0 {
		return out, "", false
	}
	if r.m.min == r.m.max && l.missed(r.bad) == 0 {
		value := cell.Canonical(r.m.mean)
		if l.texts > 0 {
			value = strings.Trim(l.sample, `"`)
		}
		return out, value, false
	}
	learned, _ := l.field(r)
	if !finiteScale(learned) {
		return out, "", true
	}
	return learned, "", true
}

// as interprets the column like field f; ok is false if the statistics do not determine that.
func (l *columnLearner) as(f Field) (r reading, ok bool) {
	if f.Kind == Time {
		return l.dated(slices.Index(dateOrders[:], f.Format)), true
	}
	r = reading{kind: Numeric, format: f.Format, m: l.numbers, wide: []*octaves{&l.wide}, bad: l.cells() - l.numbers.n}
	if f.Format == "" || l.styles.n != l.cells() {
		return r, true
	}
	base := strings.TrimSuffix(f.Format, percentSign)
	share := l.styles.pointShare
	r.m, r.wide = l.styles.point, []*octaves{&l.wide, &l.styles.pointWide}
	if base != pointStyle {
		// Some plain number with a point would read differently under decimal commas, and the bare style reads
		// it plainly; the sums mixed both.
		if base == bareStyle && l.styles.differs.sample != "" {
			return r, false
		}
		share, r.m, r.wide = l.styles.commaShare, l.styles.comma, []*octaves{&l.wide, &l.styles.commaWide}
		if l.styles.differs.sample != "" {
			r.wide = nil
		}
	}
	if share.n > 0 && base == f.Format { // fractions, some spelled as percentages: the moments cannot be combined
		return r, false // fractions among which some are percentages
	}
	r.m.merge(share)
	r.bad = l.cells() - r.m.n
	return r, true
}

func finiteScale(f Field) bool {
	return !math.IsNaN(f.Mean) && !math.IsInf(f.Mean, 0) && f.Scale > 0 && !math.IsInf(f.Scale, 0)
}

// finishLike is finish for LearnOptions.Like: the kinds of the columns come from another schema.
func finishLike(place string, learners []*columnLearner, rows int64, o LearnOptions, tracked int) (*Schema, *Summary,
	error) {
	like := o.Like
	s := &Schema{Targets: slices.Clone(like.Targets), IDs: slices.Clone(like.IDs), Ignored: slices.Clone(like.Ignored),
		Encoding: like.Encoding}
	for name, value := range like.Constants {
		s.setConstant(name, value)
	}
	sum := &Summary{Rows: rows}
	by := make(map[string]*columnLearner, len(learners))
	for _, l := range learners {
		by[l.name] = l
	}
	for _, f := range like.Fields {
		l := by[f.Name]
		out, constant, ok := l.relearn(f, o.MaxLevels, tracked)
		cs := ColumnSummary{Name: f.Name, Use: string(f.Kind), Missing: l.missing, Mean: out.Mean, Scale: out.Scale}
		if !ok {
			s.Ignored = append(s.Ignored, f.Name)
			if cs.Use, cs.Why = "ignored", "empty"; constant != "" {
				cs.Why = "constant " + cell.Quote(constant)
				s.setConstant(f.Name, constant)
			}
		} else {
			s.Fields = append(s.Fields, out)
		}
		sum.Columns = append(sum.Columns, cs)
	}
	if len(s.Fields) == 0 { // too few rows to learn any column: use the fields of the other schema unchanged
		out := *like
		out.Fields = slices.Clone(like.Fields)
		for i := range out.Fields {
			out.Fields[i].Weight = 0
		}
		s = &out
	}
	if err := s.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", place, err)
	}
	return s, sum, nil
}

func (s *Schema) setConstant(name, value string) {
	if s.Constants == nil {
		s.Constants = map[string]string{}
	}
	s.Constants[name] = value
}

// short formats a number with four significant digits, for notes.
func short(v float64) string { return fmt.Sprintf("%.4g", v) }
