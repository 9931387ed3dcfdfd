package main

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Two colours that stay apart for the colour blind (Okabe and Ito).
var (
	exactColour  = color.RGBA{R: 213, G: 94, A: 255}
	linearColour = color.RGBA{G: 114, B: 178, A: 255}
)

// plot writes the picture as SVG or PNG.
func (r *CrossoverResult) plot(w io.Writer, ext string) error {
	const width, height = 16 * vg.Centimeter, 11 * vg.Centimeter
	p, err := r.picture()
	if err != nil {
		return err
	}
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if ext == ".png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(160))}
	} else {
		canvas = vgsvg.New(width, height)
	}
	const margin = 4 * vg.Millimeter // labels at the ends of an axis stand out
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	_, err = canvas.WriteTo(w)
	return err
}

func (r *CrossoverResult) picture() (*plot.Plot, error) {
	p := plot.New()
	direction := "bidirectional"
	if r.Causal {
		direction = "causal"
	}
	p.Title.Text = fmt.Sprintf("Exact and linear attention, %s, d = %d, %d features, %d head%s, %d thread%s", direction, r.Dim, r.Features, r.Heads, plural(r.Heads), r.Threads, plural(r.Threads))
	p.Title.TextStyle.Font.Size = font.Points(11)
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text, p.Y.Label.Text = "length", "ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = doublings{r.Points[0].Length, r.Points[len(r.Points)-1].Length}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for _, c := range []struct {
		name   string
		colour color.Color
		of     func(CrossoverPoint) Quartiles
	}{
		{"exact", exactColour, func(p CrossoverPoint) Quartiles { return p.Exact }},
		{"linear", linearColour, func(p CrossoverPoint) Quartiles { return p.Linear }},
	} {
		s := quartileSeries{r.Points, c.of}
		line, points, err := plotter.NewLinePoints(s)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return nil, err
		}
		line.Color, points.Color, bars.Color = c.colour, c.colour, c.colour
		line.Width, points.Radius, points.Shape = vg.Points(1.4), vg.Points(2.4), draw.CircleGlyph{}
		p.Add(line, points, bars)
		p.Legend.Add(c.name, line, points)
	}
	if r.Length != nil && !r.Extrapolated {
		at, err := plotter.NewLine(plotter.XYs{{X: *r.Length, Y: p.Y.Min}, {X: *r.Length, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		at.Dashes, at.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{Y: 90}
		p.Add(at)
		p.Legend.Add(fmt.Sprintf("crossing at %.0f (%.0f to %.0f)", *r.Length, *r.Low, *r.High), at)
	}
	return p, nil
}

// quartileSeries is a curve of medians in milliseconds with the quartiles as error bars.
type quartileSeries struct {
	points []CrossoverPoint
	of     func(CrossoverPoint) Quartiles
}

func (s quartileSeries) Len() int { return len(s.points) }

func (s quartileSeries) XY(i int) (x, y float64) {
	return float64(s.points[i].Length), 1e3 * s.of(s.points[i]).Median
}

func (s quartileSeries) YError(i int) (low, high float64) {
	q := s.of(s.points[i])
	return 1e3 * (q.Median - q.Low), 1e3 * (q.High - q.Median)
}

// doublings ticks the first length and its doubles up to the last.
type doublings struct{ first, last int }

func (d doublings) Ticks(_, _ float64) []plot.Tick {
	var out []plot.Tick
	for l := d.first; l <= d.last; l *= 2 {
		out = append(out, plot.Tick{Value: float64(l), Label: fmt.Sprint(l)})
	}
	return out
}
