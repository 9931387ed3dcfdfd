package watch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
)

// Report says whether rows differ from those of a reference, and how.
type Report struct {
	Changed   bool    `json:"changed"` // P is at most the level
	P         float64 `json:"p"`       // probability of a difference as large between two samples of the same rows
	Level     float64 `json:"level"`   // probability of a false alarm
	Rows      int64   `json:"rows"`
	Text      string  `json:"text"`      // the verdict, in a sentence
	Joint     float64 `json:"joint"`     // p-value of all columns together: kernel mean embeddings
	Relations float64 `json:"relations"` // p-value of the relations of two columns
	// Relation names the two columns whose relation changed, if one did.
	Relation string   `json:"relation,omitempty"`
	Columns  []Column `json:"columns"` // those that changed most come first
	// Expected are scores on these rows without their targets. They need a model.
	Expected []Expected `json:"expected,omitempty"`
	// Predictions are the mean predictions of targets, or the mean probabilities of classes. They need a model.
	Predictions []Shift `json:"predictions,omitempty"`
	Far         float64 `json:"far"`        // share of rows far from all rows of the fit
	FarAtFit    float64 `json:"far_at_fit"` // that of the rows of the fit
}

// Column says how the values of a column differ from the reference.
type Column struct {
	Name    string  `json:"name"`    // of the column
	Changed bool    `json:"changed"` // P is at most the level, and so is that of the report
	P       float64 `json:"p"`       // adjusted for the number of columns (Holm)
	// Effect is the difference of the means in standard deviations for numbers, and the share of rows that would have
	// to change for levels.
	Effect float64 `json:"effect"`
	Text   string  `json:"text,omitempty"` // the effect in words

	field int
}

// DefaultLevel is the share of false alarms that a report allows if the level is 0.
const DefaultLevel = 0.05

// Report tests the rows of the monitor against the reference. level is the probability of a false alarm; 0 means 0.05.
// Fewer than [LeastRows] rows are ErrFew.
func (m *Monitor) Report(level float64) (*Report, error) {
	level = cmp.Or(level, DefaultLevel)
	if !(level > 0 && level < 1) {
		return nil, fmt.Errorf("a level of %g, want a probability such as 0.05", level)
	}
	if m.rows < LeastRows {
		return nil, fmt.Errorf("%s, a test needs at least %d: %w", rows(m.Rows()), LeastRows, ErrFew)
	}
	r := m.r
	c := r.compare(r.rows, r.sums, m.rows, m.sums)
	p := -math.Expm1(r.tests * math.Log1p(-min(c.smallest(), 1-1e-12)))
	out := &Report{P: p, Changed: p <= level, Level: level, Rows: int64(m.rows), Joint: c.joint, Relations: c.pairs,
		Far: m.sums[r.atFar] / m.rows, FarAtFit: r.sums[r.atFar] / r.rows}
	var ps []float64
	for _, t := range c.columns {
		ps = append(ps, t.p())
	}
	for k, p := range holm(ps) {
		column := Column{Name: r.schema.Fields[k].Name, P: p, Changed: out.Changed && p <= level, field: k}
		column.Effect, column.Text = m.effect(k, c.columns[k])
		out.Columns = append(out.Columns, column)
	}
	slices.SortStableFunc(out.Columns, func(a, b Column) int {
		return cmp.Or(cmp.Compare(a.P, b.P), -cmp.Compare(math.Abs(a.Effect), math.Abs(b.Effect)))
	})
	if out.Changed && c.pairs <= level {
		out.Relation = m.relation(c.pair, holm(ps), level)
	}
	out.Expected, out.Predictions = m.expected(), m.shifts()
	out.Text = out.sentence()
	return out, nil
}

// sentence is the verdict.
func (r *Report) sentence() string {
	if !r.Changed {
		level := ""
		if r.P <= DefaultLevel {
			level = fmt.Sprintf("; the level is %s", probability(r.Level))
		}
		return fmt.Sprintf("No change: %s look like those of the fit (p = %s%s).", rows(r.Rows), probability(r.P),
			level)
	}
	var names []string
	for _, c := range r.Columns {
		if c.Changed {
			names = append(names, "`"+c.Name+"`")
		}
	}
	why := ""
	switch n := len(names); {
	case n > 3:
		why = fmt.Sprintf("; %d columns, most of all %s", n, strings.Join(names[:3], ", "))
	case n > 1:
		why = "; the columns " + strings.Join(names, ", ")
	case n == 1:
		why = "; the column " + names[0]
	case r.Relation != "":
		why = "; no column by itself, but " + r.Relation
	default:
		why = "; no column by itself, but all together"
	}
	return fmt.Sprintf("Changed: %s differ from those of the fit (p = %s)%s.", rows(r.Rows), probability(r.P), why)
}

func rows(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// probability formats a p-value.
func probability(p float64) string {
	switch {
	case p < 1e-6:
		return "1e-6 or less"
	case p < 0.001:
		return fmt.Sprintf("%.0e", p)
	}
	return fmt.Sprintf("%.2g", p)
}

// percent formats a share.
func percent(v float64) string {
	switch v *= 100; {
	case v == 0 || v >= 9.95:
		return fmt.Sprintf("%.0f %%", v)
	case v < 0.095:
		return "under 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", v)
}

// tellP is the p-value of a part of a column below which its text names the part.
const tellP = 0.05

// effect describes how a column changed: the size of the effect and a text for each part that did.
func (m *Monitor) effect(k int, t columnTests) (effect float64, text string) {
	r, f := m.r, &m.r.fields[k]
	a, b := r.sums[f.at:f.at+f.cells], m.sums[f.at:f.at+f.cells]
	last := f.cells - 1
	na, nb := sum(a[:last]), sum(b[:last])
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	changed := t.values <= tellP && na > 0 && nb > 0
	switch {
	case na == 0 || nb == 0:
	case len(f.edges) > 0 && r.schema.Fields[k].Kind == data.Boolean && len(f.edges) == 3:
		x, y := (a[2]+a[3])/na, (b[2]+b[3])/nb
		if effect = y - x; changed {
			add("true %s, was %s", percent(y), percent(x))
		}
	case len(f.edges) > 0:
		meanA, sdA := moment(r.sums[r.atMeans+2*f.mean:], na)
		meanB, sdB := moment(m.sums[r.atMeans+2*f.mean:], nb)
		sdA = max(sdA, 1e-9)
		effect = (meanB - meanA) / sdA
		time := r.schema.Fields[k].Kind == data.Time
		switch ratio := sdB / sdA; {
		case time:
			add("%+.0f days on average", (meanB-meanA)*r.schema.Fields[k].Scale)
		case !changed:
		case math.Abs(effect) >= 0.05 && (math.Abs(effect) > 0.2 || ratio < 1.2 && ratio > 1/1.2):
			add("%+.2g standard deviations", effect)
		case ratio >= 1.05 || ratio <= 1/1.05:
			add("spread ×%.2g", ratio)
		default:
			add("another shape")
		}
		if t.outside <= tellP && !time {
			add("%s beyond the range of the fit", percent((b[0]+b[last-1])/nb))
		}
	case f.levels > 0:
		best := 0
		for j := range last - 1 {
			d := b[j]/nb - a[j]/na
			effect += math.Abs(d) / 2
			if math.Abs(d) > math.Abs(b[best]/nb-a[best]/na) {
				best = j
			}
		}
		effect += math.Abs(b[last-1]/nb-a[last-1]/na) / 2
		if changed && best < last-1 {
			add("%q %s, was %s", r.schema.Fields[k].Levels[best], percent(b[best]/nb), percent(a[best]/na))
		}
		if t.outside <= tellP {
			kind := "unknown"
			if a[last-1] > 0 {
				kind = "rare or unknown"
			}
			add("%s %s levels, was %s", percent(b[last-1]/nb), kind, percent(a[last-1]/na))
		}
	}
	if x, y := a[last]/(na+a[last]), b[last]/(nb+b[last]); t.missing <= tellP {
		if effect == 0 {
			effect = y - x
		}
		add("%s missing, was %s", percent(y), percent(x))
	}
	return effect, strings.Join(parts, "; ")
}

// moment returns the mean and the standard deviation of n values with the given sums of values and squares.
func moment(sums []float64, n float64) (mean, sd float64) {
	mean = sums[0] / n
	return mean, math.Sqrt(max(0, sums[1]/n-mean*mean))
}

// relation describes how the relation of a pair of columns changed; it is empty if one of them changed by itself.
func (m *Monitor) relation(k int, ps []float64, level float64) string {
	r := m.r
	p := r.pairs[k]
	for k, f := range r.fields {
		for _, c := range []encoded{r.columns[p.a], r.columns[p.b]} {
			if f.first <= c.col && c.col <= f.indicator && ps[k] <= level {
				return ""
			}
		}
	}
	at := func(sums []float64, n float64) float64 {
		a, sa := moment(sums[r.atColumns+2*p.a:], n)
		b, sb := moment(sums[r.atColumns+2*p.b:], n)
		return min(max((sums[r.atPairs+2*k]/n-a*b)/max(sa*sb, 1e-9), -1), 1)
	}
	names := r.schema.Names()
	return fmt.Sprintf("the relation of `%s` and `%s` (correlation %.2f, was %.2f)", names[r.columns[p.a].col],
		names[r.columns[p.b].col], at(m.sums, m.rows), at(r.sums, r.rows))
}
