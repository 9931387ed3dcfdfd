package tables

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/machine"
)

// page collects a self-contained HTML file in the design of all pages.
type page struct {
	bytes.Buffer
	err error
}

// bar has a value with its interval.
type bar struct {
	name             string
	value, low, high float64
}

func newPage(title, about string) *page {
	b := new(page)
	fmt.Fprintf(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>%s</title>\n"+
		"<style>\n%s</style></head>\n"+
		"<body><main class=\"page\">\n", figure.Escape(title), figure.Page)
	b.text("h1", title)
	b.text("p", about)
	return b
}

// text writes an element with escaped text.
func (b *page) text(element, s string) {
	fmt.Fprintf(b, "<%s>%s</%s>\n", element, figure.Escape(s), element)
}

// card begins a part of the page; end ends it.
func (b *page) card(title, about string) {
	b.WriteString("<section class=\"card\">\n")
	b.text("h2", title)
	b.text("p", about)
}

func (b *page) end() { b.WriteString("</section>\n") }

func (b *page) write(w io.Writer) error {
	b.WriteString("</main></body></html>\n")
	if b.err != nil {
		return b.err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// table writes rows of cells below their names; the first column holds texts, the others numbers.
func (b *page) table(names []string, rows [][]string) {
	b.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n")
	for i, row := range append([][]string{names}, rows...) {
		b.WriteString("<tr>")
		for j, cell := range row {
			element, class := "td", ""
			if i == 0 {
				element = "th"
			}
			if j > 0 {
				class = " class=\"number\""
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", element, class, figure.Escape(cell), element)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table></div>\n")
}

// bars draws values on one scale, with their intervals as lines.
func (b *page) bars(list []bar) {
	low, high := 0.0, 1e-300
	for _, x := range list {
		low, high = min(low, x.low, x.value), max(high, x.high, x.value)
	}
	at := func(v float64) float64 { return 100 * (v - low) / (high - low) }
	b.WriteString("<table class=\"bars\">\n")
	for _, x := range list {
		class := "up"
		if x.value < 0 {
			class = "down"
		}
		fmt.Fprintf(b, "<tr><td>%s</td><td class=\"number\">%s</td><td>"+
			"<svg viewBox=\"0 0 100 14\" preserveAspectRatio=\"none\" "+
			"role=\"img\" aria-label=\"%s to %s\"><rect class=\"%s\" x=\"%.2f\" y=\"2\" width=\"%.2f\" height=\"10\"/>"+
			"<path d=\"M%.2f,7H%.2fM%.2f,4v6M%.2f,4v6M%.2f,0v14\"/></svg></td></tr>\n",
			figure.Escape(x.name), digits(x.value), digits(x.low), digits(x.high), class, at(min(x.value, 0)),
			at(math.Abs(x.value)+low), at(x.low), at(x.high), at(x.low), at(x.high), at(0))
	}
	b.WriteString("</table>\n")
}

func (b *page) importance(list []machine.Importance) {
	var bars []bar
	for _, c := range list {
		bars = append(bars, bar{c.Column, c.Drop.Value, c.Drop.Low, c.Drop.High})
	}
	b.bars(bars)
}

// figures draws figures beside each other; all cover the values on their y axes.
func (b *page) figures(figs []figure.Figure, over []float64) {
	b.WriteString("<div class=\"figures\">\n")
	for _, f := range figs {
		f.Y.Over = over
		b.WriteString("<figure>")
		if err := f.WriteSVG(b); err != nil && b.err == nil {
			b.err = err
		}
		b.WriteString("</figure>\n")
	}
	b.WriteString("</div>\n")
}

func (b *page) neighbours(list []machine.Neighbour, columns []string) {
	b.text("h3", "Nearest rows of the fit, by the kernel")
	var rows [][]string
	for _, n := range list {
		row := []string{fmt.Sprintf("%.3f", n.Similarity)}
		for _, c := range columns {
			row = append(row, n.Values[c])
		}
		rows = append(rows, row)
	}
	b.table(append([]string{"similarity"}, columns...), rows)
}
