package tabular

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/internal/metric"
)

const (
	shownColumns    = 10 // of a metric
	shownDirections = 3
	shownLoadings   = 5 // of a direction
)

// describeMetric reports what the metric of a candidate learned about the columns, and how alike the metrics of two
// halves of the rows are.
func (f *frame) describeMetric(c Candidate, l *learned) (*machine.Metric, error) {
	s := f.schema
	order := hashed(seq(f.s.len()), f.o.Seed)
	order = order[:min(len(order), metricRows)]
	var halves []matrix
	for _, rows := range [][]int{order[:len(order)/2], order[len(order)/2:]} {
		half, _, err := f.learnColumns(f.base(everyFold), c, rows)
		if err != nil {
			return nil, err
		}
		halves = append(halves, half.metric)
	}
	out := &machine.Metric{Kind: c.Metric.Kind.String(), Rounds: c.Metric.Rounds, Scaling: c.Scaling, Rows: len(order),
		Alike: metric.Alike(halves[0], halves[1])}
	shares, at := metric.Shares(l.metric), 0
	for i := range s.Fields {
		f := &s.Fields[i]
		column := machine.MetricColumn{Name: f.Name}
		for range f.Width() {
			column.Value += shares[at]
			at++
		}
		out.Columns = append(out.Columns, column)
	}
	out.Columns = largest(out.Columns, shownColumns)
	if !c.Metric.Kind.Full() {
		return out, nil
	}
	all, err := metric.Directions(l.metric, shownDirections)
	if err != nil {
		return nil, err
	}
	var tops [2][]metric.Direction
	for i, m := range halves {
		if tops[i], err = metric.Directions(m, shownDirections); err != nil {
			return nil, err
		}
	}
	names := shownNames(s)
	for k, d := range all {
		shown := machine.MetricDirection{Share: d.Share,
			Alike: math.Abs(dense.Dot(tops[0][k].Vector, tops[1][k].Vector))}
		for j, v := range d.Vector {
			shown.Columns = append(shown.Columns, machine.MetricColumn{Name: names[j], Value: v})
		}
		shown.Columns = largest(shown.Columns, shownLoadings)
		out.Directions = append(out.Directions, shown)
	}
	return out, nil
}

// largest returns the columns with the largest absolute values.
func largest(all []machine.MetricColumn, most int) []machine.MetricColumn {
	slices.SortStableFunc(all, func(a, b machine.MetricColumn) int {
		return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value))
	})
	return slices.Clone(all[:min(most, len(all))])
}

// shownNames returns the names of the encoded columns for reports.
func shownNames(s *data.Schema) []string {
	var out []string
	for i := range s.Fields {
		f := &s.Fields[i]
		for j := range f.Width() {
			name := f.Name
			switch {
			case f.Missing && j == f.Width()-1:
				name += " missing"
			case f.Kind == data.Time:
				name += " " + timeParts[j]
			case f.Code == data.CodeHashed:
				name += fmt.Sprintf(" hash %d", j+1)
			case f.Code == data.CodeCounts, f.Code == data.CodeMeans && j == codeColumns(f)-1:
				name += " count"
			case f.Code == data.CodeMeans:
				name += fmt.Sprintf(" mean %d", j+1)
			case f.Kind == data.Words:
				name += fmt.Sprintf(" hash %d", j+1)
			case f.Kind == data.Categorical && j < len(f.Levels):
				name += "=" + f.Levels[j]
			case f.Kind == data.Categorical && j == len(f.Levels):
				name += "=other"
			}
			out = append(out, name)
		}
	}
	return out
}

// timeParts are the encoded columns of a time.
var timeParts = [...]string{"day", "sin year", "cos year", "sin week", "cos week", "sin day", "cos day"}

// codeColumns is the number of encoded columns of a field without that of missing values.
func codeColumns(f *data.Field) int {
	if f.Missing {
		return f.Width() - 1
	}
	return f.Width()
}
