package serve

import (
	"bytes"
	"fmt"
	"html"
	"strconv"
)

// markup is HTML of this file. Only constants become one without a conversion, so that no text of a client or of a
// model is taken for it; html/template would do as much, and keep every exported method in the program from being left
// out.
type markup string

// page collects HTML.
type page struct{ bytes.Buffer }

// raw writes markup.
func (p *page) raw(m markup) { p.WriteString(string(m)) }

// text writes text, also inside a quoted attribute.
func (p *page) text(s string) { p.WriteString(html.EscapeString(s)) }

// in writes text between two pieces of markup.
func (p *page) in(before markup, text string, after markup) {
	p.raw(before)
	p.text(text)
	p.raw(after)
}

// list writes texts with commas between.
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
<header>
`)
	v.head(p)
	p.raw(`</header>
<main>
`)
	v.form(p)
	p.raw(`<section id="result" aria-live="polite">
`)
	v.result(p)
	p.raw(`</section>
`)
	v.fields(p)
	p.in(`</main>
<footer><p>sha256 `, v.Info.SHA256, `</p></footer>
</body>
</html>
`)
}

// head says what the model is.
func (v *pageView) head(p *page) {
	name := v.Info.Name
	if name == "" {
		name = "Model"
	}
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
	p.in("loaded ", v.Info.Loaded, `. <a href="/v1/model">Details</a></p>`+"\n")
}

// form asks for rows.
func (v *pageView) form(p *page) {
	p.in(`<form method="post" action="/" enctype="multipart/form-data" id="form">
<label for="rows">Rows: CSV with a line of names, or JSON</label>
<textarea id="rows" name="rows" rows="8" spellcheck="false" autocomplete="off">
`, v.Text, `</textarea>
<p><label for="file">or a file, which goes before the text:</label>
<input type="file" id="file" name="file" accept=".csv,.tsv,.txt,.json,.ndjson,.jsonl"></p>
`)
	if len(v.Options) > 0 {
		p.raw("<fieldset>\n<legend>Also show</legend>\n")
		for _, o := range v.Options {
			p.in(`<label><input type="checkbox" name="`, o.Name, `" value="true"`)
			if o.On {
				p.raw(" checked")
			}
			p.in("> ", o.Name, "</label>\n")
		}
		p.raw("</fieldset>\n")
	}
	p.raw(`<p><button type="submit" name="answer" value="table">Predict</button>
<button type="submit" name="answer" value="csv">Download as CSV</button></p>
</form>
`)
}

// result is what came of the rows that were sent.
func (v *pageView) result(p *page) {
	if q := v.Problem; q != nil {
		p.raw(`<p class="problem" role="alert">`)
		if q.Row != 0 {
			p.in("Row ", strconv.FormatInt(q.Row, 10), ": ")
		}
		p.in("", q.Message, "</p>\n")
	}
	if len(v.Columns) == 0 {
		return
	}
	p.raw("<h2>Predictions</h2>\n")
	if v.Shown != v.Total {
		p.in("<p>The first ", fmt.Sprintf("%d of %d", v.Shown, v.Total), " rows; the CSV file has all.</p>\n")
	}
	p.raw(`<div class="scroll"><table id="predictions">
<thead><tr><th scope="col">row</th>`)
	for _, c := range v.Columns {
		p.in(`<th scope="col">`, c, "</th>")
	}
	p.raw("</tr></thead>\n<tbody>")
	for i, row := range v.Rows {
		p.in("\n<tr><td>", strconv.Itoa(i+1), "</td>")
		for _, cell := range row {
			p.in("<td>", cell, "</td>")
		}
		p.raw("</tr>")
	}
	p.raw("\n</tbody></table></div>\n")
}

// shownLevels of a field are named.
const shownLevels = 12

// fields lists what the model reads.
func (v *pageView) fields(p *page) {
	p.in("<details>\n<summary>Columns that the model reads (", strconv.Itoa(len(v.Info.Fields)), `)</summary>
<div class="scroll"><table>
<thead><tr><th scope="col">name</th><th scope="col">kind</th><th scope="col">typical values</th></tr></thead>
<tbody>`)
	for i := range v.Info.Fields {
		f := &v.Info.Fields[i]
		p.in("\n<tr><td>", f.Name, "</td>")
		p.in("<td>", string(f.Kind), "</td><td>")
		switch n := len(f.Levels); {
		case n == 0:
			p.text(fmt.Sprintf("%.4g ± %.3g", f.Mean, f.Scale))
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
