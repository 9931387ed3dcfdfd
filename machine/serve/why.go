package serve

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// pageAnswer is the prediction of one row, and what it rests on.
type pageAnswer struct {
	What, Value   string     // target and prediction
	Of            string     // the number that parts change, such as "probability of yes"
	Low, High     float64    // of 90 % of observations; NaN: unknown
	At            float64    // the predicted number; NaN for classes
	Spread        []float64  // predictions of rows of the fit, ascending
	Parts         []pagePart // columns that move the prediction most
	Classes       []pagePart // classes by probability
	Near          []machine.Neighbour
	NearColumns   []string
	Curl, Go, Pip string // the same prediction by other means
}

// pagePart is a bar: a column with what it moves, or a class with its probability.
type pagePart struct {
	Name, Value string
	By          float64
}

// Numbers of bars and of neighbours.
const (
	shownParts   = 3
	shownClasses = 6
	shownNear    = 3
	spreadRows   = 300 // kept rows whose predictions show the distribution
)

// answerOptions are the options of the answer to one row: everything that the model offers to people.
func (d *loaded) answerOptions() (o machine.TableOptions) {
	for _, name := range d.offers() {
		switch name {
		case "interval":
			o.Interval = 0.9
		case "probabilities":
			o.Probabilities = true
		}
	}
	return o
}

// explain says what the prediction of the row in the form fields rests on: how it changes if a column gets its typical
// value, and the rows of the fit that are nearest by the kernel.
func (d *loaded) explain(cells map[int]string, o machine.TableOptions) (*pageAnswer, error) {
	b, err := d.batcher(o)
	if err != nil {
		return nil, err
	}
	m := d.model
	rows := len(m.Schema.Fields) + 1 // row i+1 has the typical value of column i
	src := data.NewColumns("row")
	for i := range m.Schema.Fields {
		f := &m.Schema.Fields[i]
		values, missing := slices.Repeat([]string{known(cells[i])}, rows), make([]bool, rows)
		values[i+1] = typical(f)
		for j, v := range values {
			missing[j] = v == "" && f.Kind != data.Words
		}
		if err := src.Add(f.Name, data.Cells{Values: values, Missing: missing}); err != nil {
			return nil, err
		}
	}
	a := &pageAnswer{Low: math.NaN(), High: math.NaN(), At: math.NaN(), Spread: d.spread()}
	run, err := b.predictor.Open(src.Columns())
	if err != nil {
		return nil, err
	}
	names, kinds := b.predictor.Columns()
	err = run.Each(src, run.Kinds(), rows, func(out, _ *data.Block) error {
		a.read(m, names, kinds, out)
		return nil
	})
	if err != nil {
		return nil, err
	}
	encoded, err := machine.ModelRows(src, m, false, nil)
	if err != nil {
		return nil, err
	}
	return a, encoded.Each(rows, func(x, _ dense.Matrix[float64]) error {
		// A model that keeps no rows has no neighbours.
		a.Near, _ = m.Neighbours(x.Row(0), shownNear)
		for i := range m.Schema.Fields {
			if slices.ContainsFunc(a.Near, func(n machine.Neighbour) bool {
				_, ok := n.Values[m.Schema.Fields[i].Name]
				return ok
			}) {
				a.NearColumns = append(a.NearColumns, m.Schema.Fields[i].Name)
			}
		}
		return nil
	})
}

// read takes the answer and the parts from the predictions of the variants of a row.
func (a *pageAnswer) read(m *machine.Model, names []string, kinds []data.Kind, out *data.Block) {
	at := 0 // the number that parts explain
	column := func(name string) float64 {
		if j := slices.Index(names, name); j >= 0 {
			return out.Cols[j].Num[0]
		}
		return math.NaN()
	}
	switch m.Task {
	case machine.Classification:
		a.What, a.Value = m.Schema.Targets[0].Name, string(out.Cols[0].Text[0])
		if at = slices.Index(names, "p_"+a.Value); at < 0 {
			return // scores have no unit
		}
		a.Of = "probability of " + a.Value
		for j, name := range names {
			if class, ok := strings.CutPrefix(name, "p_"); ok && kinds[j] == data.Number {
				a.Classes = append(a.Classes, pagePart{Name: class, By: out.Cols[j].Num[0]})
			}
		}
		slices.SortStableFunc(a.Classes, func(x, y pagePart) int { return cmp.Compare(y.By, x.By) })
		a.Classes = a.Classes[:min(len(a.Classes), shownClasses)]
	default:
		a.What, a.Of = strings.ReplaceAll(names[0], "_", " "), names[0]
		if m.Task == machine.Regression {
			a.What, a.Of = m.Schema.Targets[0].Name, m.Schema.Targets[0].Name
			if m.Outputs == 1 {
				a.Low, a.High = column("lower"), column("upper")
			}
		}
		a.At = out.Cols[0].Num[0]
		a.Value = short(a.At)
	}
	v := out.Cols[at].Num
	for i := range m.Schema.Fields {
		a.Parts = append(a.Parts, pagePart{Name: m.Schema.Fields[i].Name, By: v[0] - v[i+1]})
	}
	slices.SortStableFunc(a.Parts, func(x, y pagePart) int { return cmp.Compare(math.Abs(y.By), math.Abs(x.By)) })
	a.Parts = a.Parts[:min(len(a.Parts), shownParts)]
}

// known is the value of a form field; the choice of an unknown value is empty.
func known(t string) string {
	if t == missingChoice {
		return ""
	}
	return t
}

// spread returns predictions of rows of the fit, for models that keep any: these rows lie in the space of the kernel,
// where the same weights predict with a kernel that has neither scale nor metric.
func (d *loaded) spread() []float64 {
	d.spreading.Do(func() {
		m := *d.model
		if m.Task != machine.Regression || m.Outputs != 1 || len(m.Omega) != 1 ||
			!family.InfoOf(m.Spec.Family).KernelColumns {
			return
		}
		rows := m.Omega[0].Rows
		m.Schema, m.Sketch, m.GroupResiduals, m.IntervalBy = nil, nil, dense.Matrix[float64]{}, ""
		m.Spec.Kernel.Scale, m.Spec.Kernel.M, m.Spec.Dim = 0, dense.Matrix[float64]{}, rows.Cols
		p, err := machine.NewPredictor[float64](&m)
		if err != nil {
			return // the page does without
		}
		n := min(rows.Rows, spreadRows)
		var some []int
		for i := range n {
			some = append(some, i*rows.Rows/n)
		}
		out := dense.New[float64](n, 1)
		if p.Predict(out, rows.Pick(some), nil) == nil {
			slices.Sort(out.Data)
			d.predicted = out.Data
		}
	})
	return d.predicted
}

// calls writes the prediction of the row as commands and code.
func (a *pageAnswer) calls(d *loaded, url string, secret bool, cells map[int]string) {
	var object, goRow, pyRow []string
	for i := range d.model.Schema.Fields {
		f := &d.model.Schema.Fields[i]
		name, text := strconv.Quote(f.Name), known(cells[i])
		value, none := strconv.Quote(text), text == "" && f.Kind != data.Words
		if v, err := strconv.ParseFloat(text, 64); err == nil && f.Kind == data.Numeric && f.Format == "" {
			value = strconv.FormatFloat(v, 'g', -1, 64)
		}
		if f.Kind == data.Boolean && (text == "true" || text == "false") {
			value = text
		}
		of := func(missing string) string {
			if none {
				return missing
			}
			return value
		}
		object = append(object, name+": "+of("null"))
		goRow = append(goRow, name+": "+of("nil"))
		python := of("None")
		if f.Kind == data.Boolean && len(python) > 1 && (text == "true" || text == "false") {
			python = strings.ToUpper(python[:1]) + python[1:]
		}
		pyRow = append(pyRow, name+": ["+python+"]")
	}
	file := strconv.Quote(cmp.Or(d.name, "model.rf"))
	token := ""
	if secret {
		token = "  -H \"Authorization: Bearer $TOKEN\" \\\n"
	}
	row := strings.ReplaceAll("[{"+strings.Join(object, ", ")+"}]", "'", `'\''`)
	a.Curl = "curl " + url + "/v1/predict \\\n" + token + "  -H 'Content-Type: application/json' \\\n  -d '" + row + "'"
	a.Go = "model, err := machine.Load(" + file + ") // github.com/randfeat/randfeat/machine\n" +
		"p, err := machine.NewTablePredictor(model, machine.TableOptions{})\n" +
		"answer, err := p.PredictRow(map[string]any{" + strings.Join(goRow, ", ") + "})"
	a.Pip = "import pandas, randfeat\n" +
		"model = randfeat.load(" + file + ")\n" +
		"model.predict(pandas.DataFrame({" + strings.Join(pyRow, ", ") + "}))"
}
