package crossover

import (
	"fmt"
	"io"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/figure"
)

// WriteSVG writes the figure as SVG.
func (r *CrossoverResult) WriteSVG(w io.Writer) error {
	direction := "bidirectional"
	if r.Causal {
		direction = "causal"
	}
	f := figure.Figure{
		Title: "Exact and linear attention",
		Subtitle: fmt.Sprintf("%s, d = %d, %d %s features, %d head%s, %d thread%s; medians and quartiles of one call",
			direction, r.Dim, r.Features, r.Family, r.Heads, cli.Plural(r.Heads), r.Threads, cli.Plural(r.Threads)),
		X: figure.Axis{Label: "length", Log: true},
		Y: figure.Axis{Label: "ms", Log: true},
	}
	first, last := r.Points[0].Length, r.Points[len(r.Points)-1].Length
	for l := first; l <= last; l *= 2 {
		f.X.Ticks = append(f.X.Ticks, float64(l))
	}
	for _, c := range []struct {
		name string
		of   func(CrossoverPoint) Quartiles
	}{
		{"linear", func(p CrossoverPoint) Quartiles { return p.Linear }},
		{"exact", func(p CrossoverPoint) Quartiles { return p.Exact }},
	} {
		s := figure.Series{Name: c.name}
		for _, p := range r.Points {
			q := c.of(p)
			s.X, s.Y = append(s.X, float64(p.Length)), append(s.Y, 1e3*q.Median)
			s.Low, s.High = append(s.Low, 1e3*q.Low), append(s.High, 1e3*q.High)
		}
		f.Series = append(f.Series, s)
	}
	if r.Length != nil && !r.Extrapolated {
		f.Marks = []figure.Mark{{Name: fmt.Sprintf("crossing at %.0f (%.0f to %.0f)", *r.Length, *r.Low, *r.High),
			X: *r.Length, Low: *r.Low, High: *r.High}}
	}
	return f.WriteSVG(w)
}
