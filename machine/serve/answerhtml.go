package serve

import (
	"math"
	"strconv"
)

// write shows the answer: the number, its interval among predictions of rows of the fit, what moved it, and neighbours.
func (a *pageAnswer) write(p *page) {
	p.in("<p class=\"what\">", a.What, "</p>\n")
	p.in("<p class=\"value\">", a.Value, "</p>\n")
	if a.Low <= a.High {
		p.in("<p>90 % of observations of such rows lie between <strong>", short(a.Low), "</strong> ")
		p.in("and <strong>", short(a.High), "</strong>.</p>\n")
	}
	if len(a.Spread) > 1 && a.At == a.At {
		a.distribution(p)
	}
	if len(a.Classes) > 0 {
		p.raw("<h3>Probabilities</h3>\n")
		bars(p, a.Classes, 0, func(v float64) string { return short(100*v) + " %" })
	}
	if len(a.Parts) > 0 {
		p.raw("<h3>What moved it most</h3>\n")
		if a.Parts[0].By == 0 {
			p.raw("<p class=\"soft\">Nothing: every column has its typical value, which is the mean or the most frequent level.</p>\n")
		} else {
			p.in("<p class=\"soft\">Difference of the ", a.Of, " to that of the same row with the typical value of the column, which is "+
				"the mean or the most frequent level.</p>\n")
			bars(p, a.Parts, 1, signed)
		}
	}
	if len(a.Near) > 0 {
		p.raw("<details id=\"near\">\n<summary>Nearest rows of the fit</summary>\n<div class=\"scroll\" tabindex=\"0\"><table>\n" +
			"<thead><tr><th scope=\"col\">similarity</th>")
		for _, c := range a.NearColumns {
			p.in("<th scope=\"col\">", c, "</th>")
		}
		p.raw("</tr></thead>\n<tbody>")
		for _, n := range a.Near {
			p.in("\n<tr><td class=\"number\">", strconv.FormatFloat(n.Similarity, 'f', 3, 64), "</td>")
			for _, c := range a.NearColumns {
				p.readable(n.Values[c])
			}
			p.raw("</tr>")
		}
		p.raw("\n</tbody></table></div>\n</details>\n")
	}
	p.raw("<details id=\"call\">\n<summary>The same by curl, Go and Python</summary>\n")
	for _, code := range []string{a.Curl, a.Go, a.Pip} {
		p.in("<pre tabindex=\"0\"><code>", code, "</code></pre>\n")
	}
	p.raw("</details>\n")
}

func signed(v float64) string {
	if v > 0 {
		return "+" + short(v)
	}
	return short(v)
}

// bars draws a table of bars from the middle if they have signs, else from the left.
func bars(p *page, list []pagePart, sign int, text func(float64) string) {
	most := 1e-300
	for _, x := range list {
		most = math.Max(most, math.Abs(x.By))
	}
	from, unit := "0", 100.0 // probabilities
	if sign != 0 {
		from, unit = "50", 50/most
	}
	p.raw("<table class=\"bars\">")
	for _, x := range list {
		p.in("\n<tr><td class=\"name\">", x.Name, "</td>")
		p.in("<td class=\"number\">", text(x.By), "</td>")
		p.raw(`<td><svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true"><rect y="2" height="10"`)
		left := 0.0
		if sign != 0 {
			left = 50
		}
		if x.By < 0 {
			left += unit * x.By
			p.raw(` class="down"`)
		}
		p.in(` x="`, pixels(left), `"`)
		p.in(` width="`, pixels(unit*math.Abs(x.By)), `"/>`)
		p.in(`<path d="M`, from, `,0v14"/></svg></td></tr>`)
	}
	p.raw("\n</table>\n")
}

func pixels(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// distribution draws a histogram of predictions of rows of the fit, with the prediction and its interval.
func (a *pageAnswer) distribution(p *page) {
	low, high := math.Min(a.Spread[0], a.At), math.Max(a.Spread[len(a.Spread)-1], a.At)
	if a.Low <= a.High {
		low, high = math.Min(low, a.Low), math.Max(high, a.High)
	}
	if !(low < high) {
		return
	}
	at := func(v float64) float64 { return 100 * (v - low) / (high - low) }
	var bins [50]float64
	most := 0.0
	for _, v := range a.Spread {
		i := min(int(at(v)/2), len(bins)-1)
		bins[i]++
		most = math.Max(most, bins[i])
	}
	p.in(`<svg class="spread" viewBox="0 0 100 80" preserveAspectRatio="none" role="img" aria-label="`, a.What+
		": predictions of rows of the fit from "+short(low)+" to "+short(high)+
		", the prediction and its interval", `">`)
	for i, n := range bins {
		p.in(`<rect class="rows" width="1.8" x="`, strconv.Itoa(2*i), `"`)
		p.in(` y="`, pixels(80-72*n/most), `"`)
		p.in(` height="`, pixels(72*n/most), `"/>`)
	}
	if a.Low <= a.High {
		p.in(`<rect class="interval" height="80" x="`, pixels(at(a.Low)), `"`)
		p.in(` width="`, pixels(at(a.High)-at(a.Low)), `"/>`)
	}
	p.in(`<path class="at" d="M`, pixels(at(a.At)), `,0v80"/></svg>`)
	p.in("\n<p class=\"ends soft\"><span>", short(low), "</span> <span>predictions of rows of the fit</span> ")
	p.in("<span>", short(high), "</span></p>\n")
}
