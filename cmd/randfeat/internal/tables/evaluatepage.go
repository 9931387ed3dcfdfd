package tables

import (
	"fmt"
	"io"
	"strconv"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/machine"
)

// writePage writes the scores as one self-contained HTML file, with figures of the kept rows.
func (f *evaluateFlags) writePage(w io.Writer, r *EvaluateResult, m *machine.Model) error {
	b := newPage("Scores of "+r.Model,
		fmt.Sprintf("On %d rows of %s, a %s model for %s.", r.Rows, r.Data, r.Kind, r.Task))
	b.card("Scores", "With 95 % intervals, for independent rows.")
	var rows [][]string
	for _, s := range r.Scores {
		name := s.Name
		if s.Output > 0 && s.Output <= len(r.Targets) {
			name += " of " + r.Targets[s.Output-1]
		}
		interval := ""
		if s.Low <= s.High {
			interval = digits(s.Low) + " to " + digits(s.High)
		}
		rows = append(rows, []string{name, digits(s.Value), interval})
	}
	b.table([]string{"score", "value", "95 % interval"}, rows)
	b.end()
	if len(r.Importance) > 0 {
		b.card("What matters", r.Importance[0].Drop.Name+" falls by this if the column is shuffled among rows, with 95 % intervals.")
		b.importance(r.Importance)
		b.end()
	}
	if m.Task == machine.Regression {
		if err := f.errors(b, m); err != nil {
			return err
		}
	}
	if len(r.Confusion) > 0 {
		b.confusion(r)
	}
	if c := r.Reliability; c != nil && len(c.Bins) > 0 {
		s := figure.Series{Name: "share of right predictions"}
		for _, bin := range c.Bins {
			s.X, s.Y = append(s.X, bin.Said), append(s.Y, bin.Right.Value)
			s.Low, s.High = append(s.Low, bin.Right.Low), append(s.High, bin.Right.High)
		}
		b.card("Calibration", fmt.Sprintf("Of rows predicted with a probability of 0.8, 80 %% should be right. The mean difference is "+
			"%.3f; right probabilities would have about %.3f.", c.Error, c.Chance))
		b.figures([]figure.Figure{{Title: "Probabilities and frequencies", Width: 420, Height: 400,
			X: figure.Axis{Label: "predicted probability", Over: []float64{0, 1}}, Y: figure.Axis{Label: "right"},
			Series: []figure.Series{s, {Name: "perfect", X: []float64{0, 1}, Y: []float64{0, 1}}}}}, []float64{0, 1})
		b.end()
	}
	return b.write(w)
}

// errors draws predictions against targets, and residuals against predictions, of up to 1000 random rows.
func (f *evaluateFlags) errors(b *page, m *machine.Model) error {
	predict, err := predictor(m, f.single)
	if err != nil {
		return err
	}
	x, y := f.keep.X, f.keep.Y
	pred := dense.New[float64](x.Rows, m.Outputs)
	if err := predict(pred, x, false); err != nil {
		return err
	}
	var figs []figure.Figure
	for k := range m.Outputs {
		name := m.OutputName(k)
		both := figure.Series{Name: "rows", Loose: true}
		rest := both
		for i := range x.Rows {
			p, t := pred.At(i, k), y.At(i, k)
			both.X, both.Y = append(both.X, p), append(both.Y, t)
			rest.X, rest.Y = append(rest.X, p), append(rest.Y, t-p)
		}
		low, high := ends(both.X)
		figs = append(figs, figure.Figure{Title: name + ", true and predicted", Width: 420, Height: 400,
			X: figure.Axis{Label: "predicted"}, Y: figure.Axis{Label: "true"},
			Series: []figure.Series{both, {Name: "perfect", X: []float64{low, high}, Y: []float64{low, high}}}},
			figure.Figure{Title: "Residuals of " + name, Width: 420, Height: 400, X: figure.Axis{Label: "predicted"},
				Y: figure.Axis{Label: "true − predicted"}, Series: []figure.Series{rest,
					{Name: "no error", X: []float64{low, high}, Y: []float64{0, 0}}}})
	}
	b.card("Errors", fmt.Sprintf("%d random rows. Residuals without a pattern mean that little is left to learn from these columns.", x.Rows))
	b.figures(figs, nil)
	b.end()
	return nil
}

func ends(v []float64) (low, high float64) {
	low, high = v[0], v[0]
	for _, x := range v {
		low, high = min(low, x), max(high, x)
	}
	return low, high
}

// confusion writes rows by true and predicted class.
func (b *page) confusion(r *EvaluateResult) {
	b.card("Confusion", "Rows by true class (lines) and predicted class (columns).")
	var rows [][]string
	for i, line := range r.Confusion {
		row := []string{r.Classes[i]}
		for _, n := range line {
			row = append(row, strconv.FormatInt(n, 10))
		}
		rows = append(rows, row)
	}
	b.table(append([]string{"true"}, r.Classes...), rows)
	b.end()
}
