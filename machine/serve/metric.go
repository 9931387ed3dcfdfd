package serve

import (
	"fmt"
	"strconv"

	"github.com/randfeat/randfeat/machine"
)

// Sizes of the figure of a metric, in pixels.
const (
	barRow   = 22  // height of a row
	barNames = 180 // width of names
	barWidth = 240 // width of the largest share
)

// metric draws the shares of the columns in the learned metric of the kernel.
func (v *pageView) metric(p *page) {
	m := v.Metric
	if m == nil || len(m.Columns) == 0 {
		return
	}
	p.raw("<section>\n<h2>What the metric learned</h2>\n")
	p.in("<p>", metricText(m), "</p>\n")
	height := strconv.Itoa(barRow * len(m.Columns))
	p.in(`<svg class="shares" role="img" aria-label="Shares of columns" width="520" height="`, height, `" `)
	p.in(`viewBox="0 0 520 `, height, `">`+"\n")
	top := max(m.Columns[0].Value, 1e-12)
	for i, c := range m.Columns {
		middle := strconv.Itoa(barRow*i + barRow*2/3)
		p.in(`<text x="`, strconv.Itoa(barNames-8), `" `)
		p.in(`y="`, middle, `" text-anchor="end">`)
		p.in("", shortened(c.Name, 24), "</text>\n")
		width := barWidth * min(max(c.Value/top, 0), 1)
		p.in(`<rect x="`, strconv.Itoa(barNames), `" `)
		p.in(`y="`, strconv.Itoa(barRow*i+4), `" `)
		p.in(`width="`, strconv.FormatFloat(width, 'f', 1, 64), `" height="14"/>`)
		p.in(`<text x="`, strconv.FormatFloat(barNames+8+width, 'f', 1, 64), `" `)
		p.in(`y="`, middle, `">`)
		p.in("", fmt.Sprintf("%.1f %%", 100*c.Value), "</text>\n")
	}
	p.raw("</svg>\n</section>\n")
}

// metricText explains the figure.
func metricText(m *machine.Metric) string {
	return fmt.Sprintf("Shares of the columns in the distances of the kernel, learned in %s from %d rows (%s). "+
		"Metrics of two halves of the rows have a cosine of %.2f (1: equal).", rounds(m.Rounds), m.Rows, m.Kind,
		m.Alike)
}

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// shortened returns at most n letters of a name.
func shortened(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
