package serve

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/machine"
)

var (
	//go:embed page/style.css
	styleSheet string
	//go:embed page/script.js
	scriptFile string
)

// pagePolicy lets the page load its own files and nothing else: an injected script could not run.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pageRows is the number of rows that the page shows; the CSV file has all of them.
const pageRows = 1000

// pageInputs is the largest number of columns for which the page has a form field each.
const pageInputs = 100

// asset serves a file of the page.
func asset(text, kind string) func(http.ResponseWriter, *http.Request) *fault {
	return func(w http.ResponseWriter, _ *http.Request) *fault {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		io.WriteString(w, text)
		return nil
	}
}

// servePage shows the form, and the predictions for the rows sent with it. A problem with the rows is shown on
// the page, with its status.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) *fault {
	if err := s.cross.Check(r); err != nil {
		return problem(http.StatusForbidden, "cross_origin", "forms of other sites are not answered")
	}
	d := s.current.Load()
	v := &pageView{Text: example(d.model.Schema), Watch: d.watchOf()}
	var one map[int]string // texts typed into the form fields
	o := machine.TableOptions{}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		body, e := s.http.ReadBody(w, r, s.o.Limits.Body, s.memory)
		var k *work
		if e == nil {
			defer body.Free()
			var p *fault
			if k, p = s.enter(body); p != nil {
				return p
			}
			defer s.leave(k)
			e = body.Hold(3 * len(body.Bytes)) // the form is parsed into fields, and the rows are copied again
		}
		p := bodyFault(e)
		var f form
		if p == nil {
			f, p = readForm(r.Header.Get("Content-Type"), body.Bytes)
			if o = f.options; f.text != "" {
				v.Text = f.text
			}
			if one, v.One = f.cells, f.one; f.one {
				f.text, f.file, f.options = d.oneRow(one), nil, d.answerOptions()
			}
		}
		if p == nil {
			p = s.predictForm(w, r, d, f, v, k)
		}
		if p == nil && f.csv {
			return nil // the CSV file has been sent
		}
		if p == nil && f.one {
			a, err := d.explain(one, f.options)
			if err != nil {
				return internal(fmt.Errorf("the prediction cannot be explained: %w", err))
			}
			scheme := "http://"
			if r.TLS != nil {
				scheme = "https://"
			}
			a.calls(d, scheme+r.Host, s.token.Load() != nil, one)
			v.Answer = a
		}
		if p != nil {
			if p.status == http.StatusInternalServerError {
				return p // logged by answer
			}
			p.header(w, r)
			v.Problem, status = p, p.status
			s.metrics.rejected.with(p.Code).add(1)
		}
	}
	v.describe(d, o, one)
	var buf page
	v.write(&buf)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(modelHeader, d.sha256)
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	w.Write(buf.Bytes())
	return nil
}

// describe fills in the description of the model.
func (v *pageView) describe(d *loaded, o machine.TableOptions, typed map[int]string) {
	m := d.model
	if h := m.History; h != nil {
		v.Scores, v.Scored = h.Scores, h.ScoredOn
		v.Fitted = strings.TrimSpace(h.Created + " by " + cmp.Or(h.Program, "an unknown program"))
		if h.Created+h.Program == "" {
			v.Fitted = ""
		}
	}
	for i := 0; len(m.Schema.Fields) <= pageInputs && i < len(m.Schema.Fields); i++ {
		in := inputOf(&m.Schema.Fields[i])
		if t, ok := typed[i]; ok {
			in.Value = t
		}
		v.Inputs = append(v.Inputs, in)
	}
	v.Info = pageInfo{Name: d.name, Kind: string(m.Kind), Task: string(m.Task), SHA256: d.sha256,
		Loaded: d.at.Format("2006-01-02 15:04:05 MST"), Rows: m.Rows, Fields: m.Schema.Fields, IDs: m.Schema.IDs}
	for _, t := range m.Schema.Targets {
		v.Info.Targets = append(v.Info.Targets, t.Name)
	}
	for _, name := range d.offers() {
		on := name == "interval" && o.Interval > 0
		if field := optionNamed(&o, name); field != nil {
			on = *field
		}
		v.Options = append(v.Options, pageOption{name, on})
	}
}

// form is the content of a submitted form.
type form struct {
	text    string
	file    []byte
	csv     bool           // a CSV file is wanted, not the page
	one     bool           // predict the row in the form fields, not the text
	cells   map[int]string // form fields by their place in the schema
	options machine.TableOptions
}

// readForm reads a form, with or without a file. The body has already been bounded.
func readForm(header string, body []byte) (f form, p *fault) {
	kind, params, err := mime.ParseMediaType(header)
	if err != nil {
		return f, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type %s, want a form",
			show(header))
	}
	set := func(name, value string) {
		switch {
		case name == "rows":
			f.text = value
		case name == "answer":
			f.csv, f.one = value == "csv", value == "one"
		case strings.HasPrefix(name, "c"):
			if i, err := strconv.Atoi(name[1:]); err == nil && i >= 0 && i < pageInputs {
				if f.cells == nil {
					f.cells = map[int]string{}
				}
				f.cells[i] = value
			}
		case slices.Contains(optionNames, name):
			_ = setOption(&f.options, name, "") // a box that is checked
		}
	}
	switch kind {
	case "application/x-www-form-urlencoded":
		q, err := url.ParseQuery(string(body))
		if err != nil {
			return f, problem(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
		}
		for name, values := range q {
			set(name, values[0])
		}
		return f, nil
	case "multipart/form-data":
		r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
		for {
			part, err := r.NextPart()
			if err == io.EOF {
				return f, nil
			}
			var b []byte
			if err == nil {
				b, err = io.ReadAll(part) // part of the body, which is bounded
			}
			if err != nil {
				return f, problem(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
			}
			if part.FormName() == "file" {
				f.file = b
			} else {
				set(part.FormName(), string(b))
			}
		}
	}
	return f, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type %s, want a form",
		show(kind))
}

// predictForm answers a form: with rows in v, or with a file to w.
func (s *Server) predictForm(w http.ResponseWriter, r *http.Request, d *loaded, f form, v *pageView, k *work) *fault {
	rows := []byte(f.text)
	if len(f.file) > 0 {
		rows = f.file
	}
	content := sniff(rows)
	ctx, cancel := context.WithTimeout(r.Context(), s.o.Limits.Time)
	defer cancel()
	k.job.watched = false
	if p := s.predict(ctx, d, f.options, content, rows, typeCSV, k); p != nil {
		return p
	}
	if f.csv {
		h := w.Header()
		h.Set("Content-Type", csvHeader)
		h.Set("Content-Disposition", `attachment; filename="predictions.csv"`)
		h.Set(modelHeader, d.sha256)
		h.Set("Content-Length", strconv.Itoa(k.answer.Len()))
		w.Write(k.answer.Bytes())
		return nil
	}
	if err := v.table(k.answer.Bytes()); err != nil {
		return internal(fmt.Errorf("the table cannot be shown: %w", err))
	}
	if err := v.inputs(d, f.options, content, rows); err != nil {
		return internal(fmt.Errorf("the rows cannot be shown: %w", err))
	}
	v.Unlike = k.surprises
	return nil
}

// inputs puts the rows beside their predictions. It reads them again, because answers do not contain them.
func (v *pageView) inputs(d *loaded, o machine.TableOptions, content string, body []byte) error {
	b, err := d.batcher(o)
	if err != nil {
		return err
	}
	rows, _, err := openRows(body, content, d, b.kinds)
	if err != nil {
		return err
	}
	v.Given = len(v.Columns)
	v.Columns = append(v.Columns, d.columns[:d.fields]...)
	var in data.Block
	for at := 0; at < len(v.Rows); {
		err := rows.read(&in, min(256, len(v.Rows)-at))
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for i := range in.Rows {
			for j := range d.fields {
				text := ""
				if c := &in.Cols[j]; c.Num != nil {
					if v := c.Num[i]; v == v {
						text = strconv.FormatFloat(v, 'g', -1, 64)
					}
				} else {
					text = string(c.Text[i])
				}
				v.Rows[at] = append(v.Rows[at], text)
			}
			at++
		}
	}
	return nil
}

// oneRow returns the row in the form fields as a CSV table.
func (d *loaded) oneRow(cells map[int]string) string {
	var names, values []string
	for i := range d.model.Schema.Fields {
		names = append(names, quoted(d.model.Schema.Fields[i].Name))
		values = append(values, quoted(known(cells[i])))
	}
	return strings.Join(names, ",") + "\n" + strings.Join(values, ",") + "\n"
}

// table takes the first rows of a CSV answer.
func (v *pageView) table(csv []byte) error {
	header := true
	src, err := text.OpenBytes("answer", csv, data.Options{Format: data.CSV, Delimiter: ',', Header: &header,
		Missing: []string{}})
	if err != nil {
		return err
	}
	r, err := src.Open(nil)
	if err != nil {
		return err
	}
	defer r.Close()
	v.Columns = r.Columns()
	var b data.Block
	for {
		err := r.Read(&b, 256)
		if err == io.EOF {
			v.Shown = len(v.Rows)
			return nil
		}
		if err != nil {
			return err
		}
		for i := range b.Rows {
			if v.Total++; v.Total > pageRows {
				continue
			}
			row := make([]string, len(b.Cols))
			for j := range row {
				row[j] = string(b.Cols[j].Text[i])
			}
			v.Rows = append(v.Rows, row)
		}
	}
}

// sniff distinguishes JSON and NDJSON from CSV.
func sniff(rows []byte) string {
	t := bytes.TrimLeft(rows, " \t\r\n")
	if len(t) > 0 && t[0] == '[' {
		return typeJSON
	}
	if len(t) == 0 || t[0] != '{' {
		return typeCSV
	}
	p := cell.JSONScanner{Data: t, Pos: 1}
	p.Skip()
	if key, err := p.Key(); err == nil && (string(key) == "rows" || string(key) == "columns") {
		if p.Eat(':') && p.Eat('[') {
			return typeJSON
		}
	}
	return typeNDJSON
}

// example returns a CSV table with one typical row.
func example(s *data.Schema) string {
	var names, values []string
	for i := range s.Fields {
		f := &s.Fields[i]
		names = append(names, quoted(f.Name))
		values = append(values, quoted(typical(f)))
	}
	return strings.Join(names, ",") + "\n" + strings.Join(values, ",") + "\n"
}

func quoted(t string) string { return string(cell.AppendCSV(nil, []byte(t), ',', false)) }
