package advise

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/kernel"
)

// WriteHTML writes a report as one self-contained page: no network, no scripts. It follows the reader's light
// or dark scheme, fits a phone and prints well.
func (r *Report) WriteHTML(w io.Writer) error {
	var b bytes.Buffer
	p := page{b: &b, r: r}
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>%[1]s</title><link rel="icon" href="data:,">
<style>
%[2]s%[3]s</style></head>
<body><main class="page">
<h1>%[1]s</h1>
<p class="soft">%[4]s</p>
`, figure.Escape(p.title()), figure.Page, pageStyle, figure.Escape(r.About()))
	p.answer()
	p.ranking()
	if err := p.figures(); err != nil {
		return err
	}
	p.heads()
	p.facts()
	if err := p.code(); err != nil {
		return err
	}
	p.refused()
	fmt.Fprintf(&b, "<footer>randfeat advise, seed %d. The same rows, options and seed give the same report.</footer>\n</main>\n</body>\n</html>\n",
		r.Seed)
	_, err := w.Write(b.Bytes())
	return err
}

// pageStyle is what this page adds to the style of all pages.
const pageStyle = `.big { font-size: 1.25rem; font-weight: 600 }
.card > p { margin: .2rem 0 }
table { width: 100% }
tr.best td { font-weight: 600 }
td.number, th.number { white-space: nowrap; text-align: right }
figure { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; break-inside: avoid }
figure img { display: block; width: 100%; height: auto }
@media print {
	body { font-size: 11pt }
	.page { max-width: none; padding: 0 }
	pre { white-space: pre-wrap; word-break: break-word }
	.scroll { overflow: visible }
	tr { break-inside: avoid }
}
`

// page writes one report.
type page struct {
	b *bytes.Buffer
	r *Report
}

func (p *page) title() string {
	if p.r.Attention != nil {
		return "Which attention for these heads?"
	}
	return "Which random features for these rows?"
}

// About describes the input of a report in a line.
func (r *Report) About() string {
	k := fmt.Sprintf("%v kernel", r.Kernel.Kind)
	if s := r.Kernel.Scale; s != 0 && s != 1 {
		k += fmt.Sprintf(" with inputs divided by %.4g", s)
	}
	switch {
	case r.Attention != nil:
		return fmt.Sprintf("%d heads, %d queries and %d keys of %d columns", len(r.Attention.Heads), r.Queries, r.Keys,
			r.Dim)
	case r.OneSet:
		return fmt.Sprintf("%d rows of %d columns, %s", r.Queries, r.Dim, k)
	}
	return fmt.Sprintf("%d queries and %d keys of %d columns, %s", r.Queries, r.Keys, r.Dim, k)
}

// ErrorName describes the errors of the ranking.
func (r *Report) ErrorName() string {
	over := "relative to each kernel value"
	if r.Loss == lossAbsolute {
		over = "relative to the root mean square of the kernel"
	}
	switch r.Measure {
	case measureOutput:
		return "error of attention outputs, |ô−o|/|o|"
	case measureTypical:
		return "typical error (median over draws), " + over
	}
	return "root mean square error, " + over
}

func (p *page) answer() {
	r := p.r
	if len(r.Ranking) == 0 {
		fmt.Fprintf(p.b, `<div class="card"><p class="big">No candidate can be used here.</p></div>`+"\n")
		return
	}
	best := r.Ranking[r.Best]
	p.b.WriteString(`<div class="card">` + "\n")
	fmt.Fprintf(p.b, `<p class="big">%s</p>`+"\n", figure.Escape(r.Verdict))
	if a := r.Attention; a != nil {
		chosen := a.Rows[len(a.Rows)-1]
		fmt.Fprintf(p.b, `<p>Chosen per head: median error %.2g at a cost of %.0f features per token</p>`+"\n"+`<p>Exact attention costs %.0f here. The best random features: %s, median error %.2g at a cost of %d.</p>`+"\n",
			chosen.Median, chosen.Cost, a.Rows[0].Cost, figure.Escape(best.Name), a.Rows[2].Median, r.Features)
	} else {
		fmt.Fprintf(p.b, `<p>%s, %d features. %s: %.3g (%s)</p>`+"\n",
			figure.Escape(best.label()), r.Features, figure.Escape(capital(r.ErrorName())), best.Error, best.Spread())
	}
	p.b.WriteString("</div>\n<h2>Why</h2>\n<ul>\n")
	for _, s := range r.Reasons {
		fmt.Fprintf(p.b, "<li>%s</li>\n", figure.Escape(s))
	}
	p.b.WriteString("</ul>\n")
}

// tableRows bounds the candidates that a table shows.
const tableRows = 20

func (p *page) ranking() {
	r := p.r
	if len(r.Ranking) == 0 {
		return
	}
	fmt.Fprintf(p.b, `<h2>Ranking</h2>`+"\n"+`<p class="soft">%s. Cost in nanoseconds per row on one core (%s).</p>`+"\n"+`<div class="scroll" tabindex="0"><table>`+"\n"+`<tr><th class="number">#</th><th>candidate</th><th class="number">features</th><th class="number">error</th><th class="number">%s</th>`,
		figure.Escape(capital(r.ErrorName())), r.Costs,
		map[bool]string{true: "over heads", false: "90 % interval, or quantiles of errors"}[r.Attention != nil])
	if r.Attention == nil {
		p.b.WriteString(`<th class="number">rms</th><th class="number">predicted rms</th><th class="number">typical</th><th class="number">tail</th><th class="number">at equal time</th>`)
	}
	p.b.WriteString(`<th class="number">cost</th><th>positive</th></tr>` + "\n")
	for i, c := range r.Ranking[:min(len(r.Ranking), tableRows)] {
		class := ""
		if i == r.Best && !r.Useless {
			class = ` class="best"`
		}
		fmt.Fprintf(p.b, `<tr%s><td class="number">%d</td><td>%s</td><td class="number">%d</td><td class="number">%s</td><td class="number">%s</td>`,
			class, i+1, figure.Escape(c.label()), c.Features, short(c.Error), figure.Escape(c.Spread()))
		if r.Attention == nil {
			equal := "–"
			if t := c.EqualTime; t != nil {
				equal = fmt.Sprintf("%s with %d", short(t.Error), t.Features)
			}
			fmt.Fprintf(p.b, `<td class="number">%s</td><td class="number">%s</td><td class="number">%s</td><td class="number">%s</td><td class="number">%s</td>`,
				short(c.RMS), shortOr(c.Predicted), short(c.Typical), shortOr(c.Tail), equal)
		}
		fmt.Fprintf(p.b, `<td class="number">%.0f</td><td>%s</td></tr>`+"\n", c.Cost, map[bool]string{true: "yes",
			false: "no"}[c.Positive])
	}
	p.b.WriteString("</table></div>\n")
	if more := len(r.Ranking) - tableRows; more > 0 {
		fmt.Fprintf(p.b, `<p class="soft">%d more are in the JSON report.</p>`+"\n", more)
	}
	if a := r.Attention; a != nil {
		p.b.WriteString(`<h2>Methods</h2>` + "\n" + `<div class="scroll" tabindex="0"><table>` + "\n" + `<tr><th>method</th><th class="number">cost in features</th><th class="number">median error of the heads</th><th class="number">90 % have less than</th></tr>` + "\n")
		for _, m := range a.Rows {
			fmt.Fprintf(p.b, `<tr><td>%s</td><td class="number">%.0f</td><td class="number">%s</td><td class="number">%s</td></tr>`+"\n",
				figure.Escape(m.Method), m.Cost, short(m.Median), short(m.Most))
		}
		p.b.WriteString("</table></div>\n")
	}
}

// label is the name of a candidate, marked if it is biased.
func (c Candidate) label() string {
	if c.Biased {
		return c.Name + " (biased, fitted to rows)"
	}
	return c.Name
}

// Spread says in words what the pilot knows of the error beside its value: the interval, or quantiles of the errors if
// the root mean square has none.
func (c Candidate) Spread() string {
	switch {
	case c.Error == 0:
		return "exact"
	case c.High > 0:
		return fmt.Sprintf("%.2g to %.2g", c.Low, c.High)
	case c.P95 > 0:
		return fmt.Sprintf("half < %.2g, 95 %% < %.2g", c.Median, c.P95)
	}
	return "–"
}

func short(v float64) string {
	switch {
	case v >= 1e300:
		return "∞"
	case v != 0 && (math.Abs(v) >= 1e4 || math.Abs(v) < 1e-4):
		return fmt.Sprintf("%.1e", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func shortOr(v *float64) string {
	if v == nil {
		return "–"
	}
	return short(*v)
}

func (p *page) figures() error {
	p.b.WriteString(`<h2>Figures</h2>` + "\n" + `<div class="figures">` + "\n")
	for _, f := range p.r.drawings() {
		if err := p.figure(f); err != nil {
			return err
		}
	}
	p.b.WriteString("</div>\n")
	return nil
}

// drawn keeps errors within the range of an axis.
func drawn(v float64) float64 { return min(max(v, 1e-9), 1e9) }

// drawings returns the figures of a report.
func (r *Report) drawings() (out []figure.Figure) {
	add := func(f figure.Figure) {
		f.Series = slices.DeleteFunc(f.Series, func(s figure.Series) bool { return len(s.X) == 0 })
		if len(f.Series) > 0 {
			f.Series = f.Series[:min(len(f.Series), figure.MaxSeries)]
			out = append(out, f)
		}
	}
	lines := func(curves []Curve) (s []figure.Series) {
		for _, c := range curves {
			line := figure.Series{Name: c.Name}
			for _, p := range c.Points {
				line.X, line.Y = append(line.X, p.X), append(line.Y, drawn(p.Error))
				if p.High == 0 { // a bar of no length
					p.Low, p.High = p.Error, p.Error
				}
				line.Low, line.High = append(line.Low, drawn(p.Low)), append(line.High, drawn(p.High))
			}
			s = append(s, line)
		}
		return s
	}
	subtitle := "bars: 90 % intervals over rows and draws, where the tail allows one"
	if r.Attention != nil {
		subtitle = "error of attention outputs, geometric means over heads"
	}
	add(figure.Figure{Title: "Error against the number of features", Subtitle: subtitle,
		X: figure.Axis{Label: "features", Log: true}, Y: figure.Axis{Label: "error", Log: true},
		Series: lines(r.Curves)})
	both := figure.Series{Name: "candidates", Loose: true}
	for _, c := range r.Ranking {
		if c.Predicted != nil && c.RMS > 0 {
			both.X, both.Y = append(both.X, drawn(*c.Predicted)), append(both.Y, drawn(c.RMS))
		}
	}
	if len(both.X) > 0 {
		all := slices.Concat(both.X, both.Y)
		ends := []float64{slices.Min(all) / 1.2, slices.Max(all) * 1.2}
		add(figure.Figure{Title: "Predicted and measured error", Subtitle: "root mean squares; below the line: most of the error lies in rare draws",
			X: figure.Axis{Label: "predicted by theory", Log: true}, Y: figure.Axis{Label: "measured", Log: true},
			Series: []figure.Series{both, {Name: "equal", X: ends, Y: ends}}})
	}
	label := "logarithm of the kernel"
	if r.Kernel.Kind == kernel.Softmax {
		label = "logarithm of the kernel, x·y"
	}
	add(figure.Figure{Title: "Error against the kernel", Subtitle: "eighths of the pairs", X: figure.Axis{Label: label},
		Y: figure.Axis{Label: "error", Log: true}, Series: lines(r.ByKernel)})
	add(figure.Figure{Title: "Error against the angle", Subtitle: "eighths of the pairs",
		X: figure.Axis{Label: "angle of query and key in degrees"}, Y: figure.Axis{Label: "error", Log: true},
		Series: lines(r.ByAngle)})
	spectra := figure.Figure{Title: "Spectra", Subtitle: "variances along principal directions",
		X: figure.Axis{Label: "direction"}, Y: figure.Axis{Label: "variance", Log: true}}
	for i, s := range []Side{r.Facts.Query, r.Facts.Key} {
		if i == 1 && r.OneSet {
			break
		}
		name := []string{"queries", "keys"}[i]
		if r.OneSet {
			name = "rows"
		}
		line := figure.Series{Name: name}
		for j, v := range s.Spectrum {
			if v > 1e-12*s.Spectrum[0] && v < 1e300 {
				line.X, line.Y = append(line.X, float64(j+1)), append(line.Y, v)
			}
		}
		spectra.Series = append(spectra.Series, line)
	}
	add(spectra)
	if c := r.Crossover; c != nil {
		linear, exact := figure.Series{Name: "features"}, figure.Series{Name: "exact"}
		for l := 64.0; l <= max(16384, 4*float64(c.Length)); l *= 2 {
			linear.X, linear.Y = append(linear.X, l), append(linear.Y, c.Linear/1e3)
			exact.X, exact.Y = append(exact.X, l), append(exact.Y, c.Exact*l/1e3)
		}
		at := float64(c.Length)
		add(figure.Figure{Title: "Time of a token of attention", Subtitle: fmt.Sprintf("costs: %s", r.Costs),
			X: figure.Axis{Label: "length", Log: true},
			Y: figure.Axis{Label: "µs per token and head", Log: true}, Series: []figure.Series{linear, exact},
			Marks: []figure.Mark{{Name: fmt.Sprintf("equal at %d", c.Length), X: at, Low: at, High: at}}})
	}
	if a := r.Attention; a != nil {
		chosen, features := figure.Series{Name: "chosen", Loose: true}, figure.Series{Name: fmt.Sprintf("%d features",
			r.Features), Loose: true}
		for _, h := range a.Heads {
			x := float64(h.Head)
			features.X, features.Y = append(features.X, x), append(features.Y, drawn(h.Features))
			if h.Error > 0 {
				chosen.X, chosen.Y = append(chosen.X, x), append(chosen.Y, drawn(h.Error))
			}
		}
		add(figure.Figure{Title: "Error of every head", Subtitle: "heads that are exact have no point",
			X: figure.Axis{Label: "head"},
			Y: figure.Axis{Label: "error of the output", Log: true}, Series: []figure.Series{chosen, features}})
	}
	return out
}

// narrow is the width of figures on a phone, in pixels.
const narrow = 400

// figure writes a figure in two widths; the browser shows the one that fits.
func (p *page) figure(f figure.Figure) error {
	var at [2]string
	for i, width := range []int{0, narrow} {
		f.Width = width
		var svg bytes.Buffer
		if err := f.WriteSVG(&svg); err != nil {
			return err
		}
		at[i] = "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(svg.Bytes())
	}
	fmt.Fprintf(p.b, `<figure><picture><source media="(max-width: 640px)" srcset="%s"><img alt="%s" src="%s"></picture></figure>`+"\n",
		at[1], figure.Escape(f.Title+": "+f.Y.Label+" by "+f.X.Label), at[0])
	return nil
}

func (p *page) heads() {
	a := p.r.Attention
	if a == nil {
		return
	}
	p.b.WriteString(`<h2>Heads</h2>` + "\n" + `<div class="scroll" tabindex="0"><table>` + "\n" + `<tr><th class="number">head</th><th>method</th><th class="number">cost</th><th class="number">expected error</th><th>why</th></tr>` + "\n")
	for _, h := range a.Heads {
		fmt.Fprintf(p.b, `<tr><td class="number">%d</td><td>%s</td><td class="number">%.0f</td><td class="number">%s</td><td>%s</td></tr>`+"\n",
			h.Head, figure.Escape(h.Method), h.Cost, short(h.Error), figure.Escape(h.Why))
	}
	p.b.WriteString("</table></div>\n")
}

func (p *page) facts() {
	r := p.r
	p.b.WriteString("<h2>Facts</h2>\n")
	if r.FactsHead != nil {
		fmt.Fprintf(p.b, `<p class="soft">Of head %d, the one in the middle.</p>`+"\n", *r.FactsHead)
	}
	p.b.WriteString(`<div class="scroll" tabindex="0"><table>` + "\n" + `<tr><th>set</th><th class="number">rows</th><th class="number">rms length</th><th class="number">longest² / median²</th><th class="number">share of the mean</th><th class="number">directions for 80 %</th><th class="number">effective rank</th></tr>` + "\n")
	for i, s := range []Side{r.Facts.Query, r.Facts.Key} {
		name := []string{"queries", "keys"}[i]
		if r.OneSet {
			if name = "rows"; i == 1 {
				break
			}
		}
		fmt.Fprintf(p.b, `<tr><td>%s</td><td class="number">%d</td><td class="number">%s</td><td class="number">%s</td><td class="number">%.0f %%</td><td class="number">%d of %d</td><td class="number">%.1f</td></tr>`+"\n",
			name, s.Rows, short(s.Norm), short(s.Far), 100*s.Mean, s.In80, len(s.Spectrum), s.Rank)
	}
	f := r.Facts
	fmt.Fprintf(p.b, `</table></div>`+"\n"+`<p class="soft">After the embedding of the kernel. Log kernel at 5, 50 and 95 %% of the pairs: %s, %s, %s. Mean |x+y|² %s, mean |x−y|² %s.</p>`+"\n",
		short(f.LogKernel[0]), short(f.LogKernel[1]), short(f.LogKernel[2]), short(f.Sum2), short(f.Diff2))
}

func (p *page) code() error {
	r := p.r
	if r.Spec == nil {
		return nil
	}
	fmt.Fprintf(p.b, "<h2>Go</h2>\n<pre tabindex=\"0\">%s</pre>\n", figure.Escape(r.Code))
	var doc any = r.Spec
	name := "Spec as JSON"
	if r.Attention != nil {
		doc, name = r.Attention.Choice, "Choice per head as JSON, for randfeat attend"
	}
	j, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if len(j) <= maxShown {
		fmt.Fprintf(p.b, "<details><summary>%s</summary><pre tabindex=\"0\">%s</pre></details>\n", name,
			figure.Escape(wrapJSON(string(j))))
	}
	return nil
}

// maxShown bounds the JSON of a page, in bytes.
const maxShown = 200_000

// wrapJSON breaks a line of JSON after commas.
func wrapJSON(s string) string {
	var b strings.Builder
	n := 0
	for _, part := range strings.SplitAfter(s, ",") {
		if n += len(part); n > 100 {
			b.WriteByte('\n')
			n = len(part)
		}
		b.WriteString(part)
	}
	return b.String()
}

func (p *page) refused() {
	if len(p.r.Refused) == 0 {
		return
	}
	fmt.Fprintf(p.b, `<details><summary>%d candidates did not take part</summary><div class="scroll" tabindex="0"><table>`+"\n", len(p.r.Refused))
	for _, c := range p.r.Refused {
		fmt.Fprintf(p.b, "<tr><td>%s</td><td>%s</td></tr>\n", figure.Escape(c.Name), figure.Escape(c.Refused))
	}
	p.b.WriteString("</table></div></details>\n")
}
