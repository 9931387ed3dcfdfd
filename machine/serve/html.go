package serve

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"strconv"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/machine"
)

// pageView is the content of the page.
type pageView struct {
	Info    pageInfo
	Text    string // rows as typed
	Options []pageOption
	Problem *fault
	Columns []string // of the predictions, then of the rows themselves
	Given   int      // index of the first column of the rows
	Rows    [][]string
	Unlike  []data.Surprise
	Total   int
	Shown   int
	Inputs  []pageInput // fields for one row; none if there are too many
	Scores  []machine.Score
	Scored  string      // rows that the scores were measured on
	One     bool        // the row in the form fields was sent, not others
	Answer  *pageAnswer // to this row
	Fitted  string      // date and program
	Watch   string      // whether the newest rows are like those of the fit; empty: unknown
}

// pageInput is the form field for one column.
type pageInput struct {
	Name, Value, Hint string
	Low, High, Step   string   // of a slider; empty: none
	Choices           []string // options of a list; nil: free text
}

// missingChoice is the option of a list for an unknown value; in text fields it is an empty text.
const missingChoice = "(unknown)"

type pageInfo struct {
	Name, Kind, Task, SHA256, Loaded string
	Rows                             int64
	Fields                           []data.Field
	Targets                          []string
	IDs                              []string
}

type pageOption struct {
	Name string
	On   bool
}

// markup is trusted HTML. Only constants of this package convert to it without an explicit conversion, so no text of a
// client or a model can be mistaken for HTML. html/template would give the same guarantee, but its use of reflection
// keeps the linker from dropping unused exported methods of the whole program.
type markup string

// page collects HTML.
type page struct{ bytes.Buffer }

// raw writes trusted markup.
func (p *page) raw(m markup) { p.WriteString(string(m)) }

// text writes escaped text; it is also safe inside a quoted attribute.
func (p *page) text(s string) { p.WriteString(html.EscapeString(s)) }

// in writes escaped text between two pieces of markup.
func (p *page) in(before markup, text string, after markup) {
	p.raw(before)
	p.text(text)
	p.raw(after)
}

// list writes escaped texts separated by commas.
func (p *page) list(texts []string) {
	for i, t := range texts {
		if i > 0 {
			p.raw(", ")
		}
		p.text(t)
	}
}

// write writes the page.
func (v *pageView) write(p *page) {
	title := "randfeat"
	if v.Info.Name != "" {
		title += ": " + v.Info.Name
	}
	p.in(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>`, title, `</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script src="/script.js" defer></script>
</head>
<body>
<div class="page">
<header>
`)
	v.head(p)
	p.raw(`</header>
<main>
<form method="post" action="/" enctype="multipart/form-data" id="form">
`)
	if len(v.Inputs) > 0 {
		p.raw("<div class=\"try\">\n<section class=\"card\">\n<h2>One row</h2>\n")
		v.inputFields(p)
		p.raw("<p><button type=\"submit\" class=\"main\" name=\"answer\" value=\"one\">Predict</button></p>\n" +
			"</section>\n" +
			"<section class=\"card\" id=\"result\" aria-live=\"polite\">\n")
		if v.One {
			v.troubles(p)
		}
		if v.Answer != nil {
			v.Answer.write(p)
		}
		p.raw("</section>\n</div>\n")
	}
	v.manyRows(p)
	p.raw("</form>\n")
	v.scores(p)
	v.fields(p)
	p.in(`</main>
<footer><p>sha256 `, v.Info.SHA256, `</p></footer>
</div>
</body>
</html>
`)
}

// head describes the model.
func (v *pageView) head(p *page) {
	name := cmp.Or(v.Info.Name, "Model")
	p.in("<h1>", name, "</h1>\n")
	p.in("<p>", v.Info.Kind+" "+v.Info.Task, "")
	for i, t := range v.Info.Targets {
		if i == 0 {
			p.raw(" of ")
		} else {
			p.raw(", ")
		}
		p.in("<strong>", t, "</strong>")
	}
	p.in(",\nfitted on ", strconv.FormatInt(v.Info.Rows, 10), " rows, ")
	if len(v.Scores) > 0 {
		p.in("", v.Scores[0].Name+" "+short(v.Scores[0].Value)+", ", "")
	}
	p.in("loaded ", v.Info.Loaded, `. <a href="/v1/model">Details</a> · <a href="/openapi.json">OpenAPI</a></p>`+"\n")
	if v.Watch != "" {
		p.in("<p id=\"watch\">Newest rows: ", v.Watch, ` <a href="/watch">Details</a></p>`+"\n")
	}
}

// manyRows asks for many rows, and shows their predictions.
func (v *pageView) manyRows(p *page) {
	p.in(`<section class="card" id="rows-card">
<h2>Many rows</h2>
<p><label for="file">A file, chosen here or dropped on this card</label>
<input type="file" id="file" name="file" accept=".csv,.tsv,.txt,.json,.ndjson,.jsonl"></p>
<label for="rows">or rows as CSV with a line of names, or as JSON</label>
<textarea id="rows" name="rows" rows="5" spellcheck="false" autocomplete="off">
`, v.Text, "</textarea>\n")
	v.options(p)
	p.raw(`<p><button type="submit" name="answer" value="table">Predict the rows</button>
<button type="submit" name="answer" value="csv">Download as CSV</button></p>
<div id="table" aria-live="polite">
`)
	if !v.One {
		v.troubles(p)
		v.predictions(p)
	}
	p.raw("</div>\n</section>\n")
}

// options asks for more columns.
func (v *pageView) options(p *page) {
	if len(v.Options) == 0 {
		return
	}
	p.raw("<fieldset>\n<legend>Also show</legend>\n")
	for _, o := range v.Options {
		p.in(`<label><input type="checkbox" name="`, o.Name, `" value="true"`)
		if o.On {
			p.raw(" checked")
		}
		name := o.Name
		if name == "interval" {
			name = "lower and upper limit of 90 % of observations"
		}
		p.in("> ", name, "</label>\n")
	}
	p.raw("</fieldset>\n")
}

// inputFields writes the form fields for one row.
func (v *pageView) inputFields(p *page) {
	if len(v.Inputs) == 0 {
		return
	}
	p.raw("<div class=\"inputs\">\n")
	for i, in := range v.Inputs {
		id := "c" + strconv.Itoa(i)
		p.in(`<p><label for="`, id, `">`)
		p.in("", in.Name, "</label>\n")
		if in.Choices == nil {
			p.in(`<input type="text" id="`, id, `"`)
			p.in(` name="`, id, `"`)
			p.in(` value="`, in.Value, `"`)
			if in.Step != "" {
				p.in(` inputmode="decimal" data-low="`, in.Low, `"`)
				p.in(` data-high="`, in.High, `"`)
				p.in(` data-step="`, in.Step, `"`)
			}
			p.raw(` autocomplete="off" spellcheck="false">`)
		} else {
			p.in(`<select id="`, id, `"`)
			p.in(` name="`, id, `">`)
			for _, c := range in.Choices {
				p.raw("<option")
				if c == in.Value {
					p.raw(" selected")
				}
				p.in(">", c, "</option>")
			}
			p.raw("</select>")
		}
		if in.Hint != "" {
			p.in("\n<small>", in.Hint, "</small>")
		}
		p.raw("</p>\n")
	}
	p.raw("</div>\n")
}

// scores says how well the model predicted unseen rows.
func (v *pageView) scores(p *page) {
	if len(v.Scores) == 0 && v.Fitted == "" {
		return
	}
	p.raw("<details class=\"card\">\n<summary>How good it is")
	if len(v.Scores) > 0 {
		p.in(": ", v.Scores[0].Name+" "+short(v.Scores[0].Value), "")
	}
	p.raw("</summary>\n")
	if v.Fitted != "" {
		p.in("<p>Fitted ", v.Fitted, "</p>\n")
	}
	if len(v.Scores) > 0 {
		p.in("<p>On rows that the model has not seen (", v.Scored, `):</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">score</th><th scope="col">value</th><th scope="col">95 % interval</th></tr></thead>
<tbody>`)
		for _, s := range v.Scores {
			name := s.Name
			if s.Output > 0 && s.Output <= len(v.Info.Targets) {
				name += " of " + v.Info.Targets[s.Output-1]
			}
			p.in("\n<tr><td>", name, "</td>")
			p.in("<td>", short(s.Value), "</td><td>")
			if s.Low <= s.High { // false for NaN
				p.text(short(s.Low) + " to " + short(s.High))
			}
			p.raw("</td></tr>")
		}
		p.raw("\n</tbody></table></div>\n")
	}
	p.raw("</details>\n")
}

// readable writes a cell. A number with many digits is shortened; its title has all of them.
func (p *page) readable(text string) {
	v, err := strconv.ParseFloat(text, 64)
	if s := short(v); err == nil && len(s) < len(text) {
		p.in(`<td class="number" title="`, text, `">`)
		p.in("", s, "</td>")
		return
	}
	if err == nil {
		p.in(`<td class="number">`, text, "</td>")
		return
	}
	p.in("<td>", text, "</td>")
}

// troubles shows what is wrong or unusual with the rows that were sent.
func (v *pageView) troubles(p *page) {
	if q := v.Problem; q != nil {
		p.raw(`<p class="problem" role="alert">`)
		if q.Row != 0 && !v.One {
			p.in("Row ", strconv.FormatInt(q.Row, 10), ": ")
		}
		p.in("", q.Message, "</p>\n")
	}
	if len(v.Unlike) > 0 {
		p.raw("<div class=\"problem\">Unlike the rows that the model was fitted to, so the prediction may be far off:\n<ul>\n")
		for _, s := range v.Unlike {
			p.in("<li>", s.String(), "</li>\n")
		}
		p.raw("</ul></div>\n")
	}
}

// predictions shows the rows that were sent with their predictions.
func (v *pageView) predictions(p *page) {
	if len(v.Columns) == 0 {
		return
	}
	p.raw("<h3>Predictions</h3>\n")
	if v.Shown != v.Total {
		p.in("<p>The first ", fmt.Sprintf("%d of %d", v.Shown, v.Total), " rows; the CSV file has all.</p>\n")
	}
	p.raw(`<div class="scroll" tabindex="0"><table id="predictions">
<thead><tr><th scope="col">row</th>`)
	for j, c := range v.Columns {
		if v.Given == 0 || j < v.Given {
			p.in(`<th scope="col" class="answer">`, c, "</th>")
		} else {
			p.in(`<th scope="col">`, c, "</th>")
		}
	}
	p.raw("</tr></thead>\n<tbody>")
	for i, row := range v.Rows {
		p.in("\n<tr><td>", strconv.Itoa(i+1), "</td>")
		for _, cell := range row {
			p.readable(cell)
		}
		p.raw("</tr>")
	}
	p.raw("\n</tbody></table></div>\n")
}

// shownLevels is how many levels of a field are listed.
const shownLevels = 12

// fields lists the columns that the model reads.
func (v *pageView) fields(p *page) {
	p.in("<details class=\"card\">\n<summary>Columns that the model reads (",
		strconv.Itoa(len(v.Info.Fields)), `)</summary>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">name</th><th scope="col">kind</th><th scope="col">typical values</th></tr></thead>
<tbody>`)
	for i := range v.Info.Fields {
		f := &v.Info.Fields[i]
		p.in("\n<tr><td>", f.Name, "</td>")
		p.in("<td>", string(f.Kind), "</td><td>")
		switch n := len(f.Levels); {
		case n == 0:
			p.text(cmp.Or(inputOf(f).Hint, typical(f)))
		case n > shownLevels:
			p.list(f.Levels[:shownLevels])
			p.raw(", …")
		default:
			p.list(f.Levels)
		}
		p.raw("</td></tr>")
	}
	p.raw("\n</tbody></table></div>\n")
	if len(v.Info.IDs) > 0 {
		p.raw("<p>Identifiers, optional: ")
		p.list(v.Info.IDs)
		p.raw("</p>\n")
	}
	p.raw("</details>\n")
}

// inputOf returns the form field of a column, with a typical value.
func inputOf(f *data.Field) pageInput {
	in := pageInput{Name: f.Name, Value: typical(f)}
	switch {
	case f.Kind == data.Boolean:
		in.Choices = []string{"true", "false", missingChoice}
	case len(f.Levels) > 0:
		in.Choices = append(figure.InOrder(f.Levels), missingChoice)
		if f.Other {
			in.Hint = "other values: as a row below"
		}
	case f.Kind == data.Numeric && f.Range != nil:
		if step := stepOf(f); step > 0 && f.Format == "" {
			in.Low, in.High, in.Step = short(f.Range[0]), short(f.Range[1]), short(step)
		}
		in.Hint = short(f.Range[0]) + " to " + short(f.Range[1]) + ", mean " + short(f.Mean)
	case f.Kind == data.Numeric:
		in.Hint = short(f.Mean) + " ± " + short(f.Scale)
	case f.Kind == data.Time && f.Range != nil:
		in.Hint = dateText(f, f.Range[0]) + " to " + dateText(f, f.Range[1]) + ", " + f.Format
	case f.Kind == data.Time:
		in.Hint = "a date, " + f.Format
	case f.Kind == data.Words:
		in.Hint = "some words; empty: none"
	}
	return in
}

// dateText formats a time, in days since 1970, in the order of the field.
func dateText(f *data.Field, days float64) string {
	layout := map[string]string{"day-month-year": "02/01/2006", "month-day-year": "01/02/2006"}[f.Format]
	layout = cmp.Or(layout, time.DateOnly)
	if f.Clock {
		layout += " 15:04"
	}
	return time.Unix(int64(math.Round(days*86400)), 0).UTC().Format(layout)
}

// stepOf is the power of ten that divides the range of a numeric field into 200 to 2000 steps; 0 without a range.
func stepOf(f *data.Field) float64 {
	if f.Range == nil || f.Range[1] <= f.Range[0] {
		return 0
	}
	return math.Pow(10, math.Floor(math.Log10((f.Range[1]-f.Range[0])/200)))
}

// typical returns a value that many rows have.
func typical(f *data.Field) string {
	switch step := stepOf(f); {
	case f.Kind == data.Numeric && step > 0:
		return short(math.Round(f.Mean/step) * step)
	case f.Kind == data.Numeric:
		return short(f.Mean)
	case f.Kind == data.Boolean:
		return strconv.FormatBool(f.Mean >= 0.5)
	case f.Kind == data.Time:
		return dateText(f, f.Mean)
	case len(f.Levels) > 0:
		return f.Levels[0]
	}
	return ""
}
