package machine

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// Prediction intervals by group. If errors differ between groups, the intervals of all rows are too wide for some
// groups and too narrow for others. Intervals of a group use the residuals of its own rows, so their coverage holds
// within the group (Vovk, Lindsay, Nouretdinov & Gammerman 2003, "Mondrian confidence machine").

// LeastGroup is the number of held-out rows that a group needs for intervals of its own. With 19 rows, the largest
// possible coverage is 0.9. Smaller groups use the intervals of all rows.
const LeastGroup = 19

// GroupColumn returns the field that prediction intervals depend on and its first encoded column, or nil if all rows
// share the same intervals.
func (m *Model) GroupColumn() (*data.Field, int) {
	if m.IntervalBy == "" || m.Schema == nil {
		return nil, 0
	}
	at := 0
	for i := range m.Schema.Fields {
		f := &m.Schema.Fields[i]
		if f.Name == m.IntervalBy {
			return f, at
		}
		at += f.Width()
	}
	return nil, 0
}

// SetGroups sets intervals by the levels of a column, from the residuals of each level; nil means too few rows.
func (m *Model) SetGroups(column string, residuals []*Residuals) error {
	m.IntervalBy = column
	f, _ := m.GroupColumn()
	if f == nil || f.Kind != data.Categorical || f.Code != "" || len(residuals) != len(f.Levels) {
		m.IntervalBy = ""
		return fmt.Errorf("intervals by column %q, want a categorical column of the model: %w", column, ErrSetup)
	}
	m.GroupResiduals = dense.New[float64](m.Residuals.Rows*len(residuals), m.Residuals.Cols)
	for l, r := range residuals {
		limits := m.Residuals
		if r != nil && r.rows >= LeastGroup {
			limits = r.Quantiles()
		}
		for i := range limits.Rows {
			copy(m.GroupResiduals.Row(l*limits.Rows+i), limits.Row(i))
		}
	}
	return nil
}

// IntervalOf is Interval for a group: the level of the column IntervalBy, or -1 for all rows.
func (m *Model) IntervalOf(group, output int, coverage float64) (low, high float64, err error) {
	if group < 0 || m.GroupResiduals.IsEmpty() {
		return m.Interval(output, coverage)
	}
	if _, _, err := m.Interval(output, coverage); err != nil {
		return 0, 0, err
	}
	at, tail := group*m.Residuals.Rows+2*output, tailOf(coverage)
	return m.GroupResiduals.At(at, tail), m.GroupResiduals.At(at+1, tail), nil
}

// validateGroups checks intervals by group.
func (m *Model) validateGroups() error {
	if m.IntervalBy == "" && m.GroupResiduals.IsEmpty() {
		return nil
	}
	f, _ := m.GroupColumn()
	if f == nil || f.Kind != data.Categorical || f.Code != "" || m.Residuals.IsEmpty() ||
		m.GroupResiduals.Rows != m.Residuals.Rows*len(f.Levels) || m.GroupResiduals.Cols != m.Residuals.Cols {
		return fmt.Errorf("intervals by column %q with %d×%d limits: %w", m.IntervalBy, m.GroupResiduals.Rows,
			m.GroupResiduals.Cols, ErrSetup)
	}
	return checkLimits(m.GroupResiduals)
}

// checkGroups refuses a coverage for which a group has no finite interval.
func (m *Model) checkGroups(coverage float64) error {
	f, _ := m.GroupColumn()
	if f == nil {
		return nil
	}
	for l, name := range f.Levels {
		for k := range m.Outputs {
			low, high, err := m.IntervalOf(l, k, coverage)
			if err != nil {
				return err
			}
			if math.IsInf(low, -1) || math.IsInf(high, 1) {
				return fmt.Errorf("too few rows of %s %q were held out at the fit for intervals of %g %%: ask for a smaller share: %w",
					f.Name, name, 100*coverage, ErrSetup)
			}
		}
	}
	return nil
}

// groupCoverage counts how many targets of each group lie inside their 90 % intervals.
type groupCoverage struct {
	m     *Model
	f     *data.Field
	at    int
	rows  []int64   // per level; the last counts all other rows
	holds []float64 // rows inside their intervals, same order
}

// coverage90 is the coverage of the intervals that GroupCoverage checks.
const coverage90 = 0.9

// groupCoverage returns nil for a model without group intervals.
func (m *Model) GroupCoverage() *groupCoverage {
	f, at := m.GroupColumn()
	if f == nil || m.checkInterval(coverage90) != nil {
		return nil
	}
	n := len(f.Levels) + 1
	return &groupCoverage{m: m, f: f, at: at, rows: make([]int64, n), holds: make([]float64, n)}
}

// Add adds rows. With several targets, each counts as a fraction of the row.
func (c *groupCoverage) Add(x, y, pred, variance dense.Matrix[float64]) error {
	for i := range x.Rows {
		group := c.f.LevelOf(x.Row(i)[c.at : c.at+c.f.Width()])
		to := group
		if group < 0 {
			to = len(c.f.Levels)
		}
		c.rows[to]++
		for k := range c.m.Outputs {
			low, high, err := c.m.IntervalOf(group, k, coverage90)
			if err != nil {
				return err
			}
			sd := 1.0
			if variance.Cols > 0 {
				sd = math.Sqrt(variance.At(i, k))
			}
			if d := y.At(i, k) - pred.At(i, k); low*sd <= d && d <= high*sd {
				c.holds[to] += 1 / float64(c.m.Outputs)
			}
		}
	}
	return nil
}

// GroupScore is the share of observations of a group that lie in their intervals.
type GroupScore struct {
	Group   string `json:"group"`
	Covered Score  `json:"covered"`
}

// Scores returns the coverage of each group that occurs, with Clopper–Pearson intervals.
func (c *groupCoverage) Scores() []GroupScore {
	var out []GroupScore
	for l, n := range c.rows {
		if n == 0 {
			continue
		}
		name := "other"
		if l < len(c.f.Levels) {
			name = c.f.Levels[l]
		}
		s := Score{Name: "in 90 % intervals", Value: c.holds[l] / float64(n), Rows: n}
		s.Low, s.High = proportion(s.Value, float64(n))
		out = append(out, GroupScore{name, s})
	}
	return out
}
