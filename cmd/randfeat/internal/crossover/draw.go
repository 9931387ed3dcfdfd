package crossover

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Size of the drawing in the terminal, without labels.
const (
	drawCols = 64
	drawRows = 16
)

// Draw prints both curves with logarithmic axes, in characters.
func (r *CrossoverResult) Draw(w io.Writer) {
	x0, x1 := math.Log(float64(r.Points[0].Length)), math.Log(float64(r.Points[len(r.Points)-1].Length))
	y0, y1 := math.Inf(1), math.Inf(-1)
	for _, p := range r.Points {
		for _, t := range []float64{p.Linear.Median, p.Exact.Median} {
			y0, y1 = math.Min(y0, math.Log(t)), math.Max(y1, math.Log(t))
		}
	}
	y1 = math.Max(y1, y0+1e-9)
	grid := make([][]rune, drawRows)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", drawCols))
	}
	col := func(x float64) int { return int(math.Round((x - x0) / (x1 - x0) * (drawCols - 1))) }
	row := func(y float64) int { return drawRows - 1 - int(math.Round((y-y0)/(y1-y0)*(drawRows-1))) }
	if r.Length != nil && !r.Extrapolated {
		for i := range grid {
			grid[i][col(math.Log(*r.Length))] = '┊'
		}
	}
	curve := func(mark rune, time func(CrossoverPoint) float64) {
		set := func(x, y float64, c rune) {
			at := &grid[row(y)][col(x)]
			switch {
			case c == '·':
				if *at == ' ' || *at == '┊' {
					*at = c
				}
			case *at == '●' || *at == '○':
				*at = '◉'
			default:
				*at = c
			}
		}
		for i := range len(r.Points) - 1 { // a dotted line between the points
			p, q := r.Points[i], r.Points[i+1]
			const dots = 2 * drawCols
			for s := range dots {
				t := float64(s) / dots
				set((1-t)*math.Log(float64(p.Length))+t*math.Log(float64(q.Length)),
					(1-t)*math.Log(time(p))+t*math.Log(time(q)), '·')
			}
		}
		for _, p := range r.Points {
			set(math.Log(float64(p.Length)), math.Log(time(p)), mark)
		}
	}
	curve('●', func(p CrossoverPoint) float64 { return p.Exact.Median })
	curve('○', func(p CrossoverPoint) float64 { return p.Linear.Median })
	for i, line := range grid {
		label := strings.Repeat(" ", 9)
		if i%5 == 0 {
			t := math.Exp(y0 + (y1-y0)*float64(drawRows-1-i)/(drawRows-1))
			label = fmt.Sprintf("%9s", fmt.Sprintf("%.3g ms", t*1e3))
		}
		fmt.Fprintf(w, "%s ┤%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(w, "%s └%s\n", strings.Repeat(" ", 9), strings.Repeat("─", drawCols))
	axis := []rune(strings.Repeat(" ", drawCols+8))
	label := func(length, from, to int) int { // prints the label if there is room; returns where the next may begin
		text := []rune(fmt.Sprint(length))
		at := max(0, col(math.Log(float64(length)))-len(text)/2)
		if at < from || at+len(text) > to {
			return from
		}
		return at + copy(axis[at:], text) + 2
	}
	last := r.Points[len(r.Points)-1].Length
	label(last, 0, len(axis))
	next := 0
	for i := 0; i < len(r.Points)-1; i += 2 { // the doublings
		next = label(r.Points[i].Length, next, col(math.Log(float64(last)))-len(fmt.Sprint(last))/2-1)
	}
	fmt.Fprintf(w, "%s  %s\n", strings.Repeat(" ", 9), strings.TrimRight(string(axis), " "))
	fmt.Fprintf(w, "%s  ● exact   ○ linear   ◉ both   (length, logarithmic)\n", strings.Repeat(" ", 9))
}
