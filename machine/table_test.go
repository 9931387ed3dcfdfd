package machine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// tableModels are models of one table: what each predicts is known from the matrix of its encoded rows.
func tableModels(t testing.TB) (map[string]*Model, data.Source) {
	t.Helper()
	src := openText(t, tableText(1, 300))
	must := func(m *Model, err error) *Model {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	fit := func(o data.LearnOptions, fit func(dim, outputs int, rows Rows) (*Model, error)) *Model {
		t.Helper()
		o.IDs = []string{"id"}
		s := learn(t, src, o)
		rows, err := TableRows(src, s, len(s.Targets) > 0)
		if err != nil {
			t.Fatal(err)
		}
		outputs := len(s.Targets)
		if outputs == 1 && len(s.Targets[0].Classes) > 0 {
			outputs = len(s.Targets[0].Classes)
		}
		m := must(fit(s.Width(), outputs, rows))
		m.Schema = s
		return m
	}
	ridge := func(task Task) func(dim, outputs int, rows Rows) (*Model, error) {
		return func(dim, outputs int, rows Rows) (*Model, error) {
			r, err := NewRidge(Setup{Spec: trigSpec(dim, 32), Outputs: outputs, Task: task})
			if err == nil {
				err = r.AddRows(rows)
			}
			if err != nil {
				return nil, err
			}
			return r.Model(0.1)
		}
	}
	gp := func(dim, outputs int, rows Rows) (*Model, error) {
		r, err := NewRidge(Setup{Spec: trigSpec(dim, 16), Outputs: outputs})
		if err == nil {
			err = r.AddRows(rows)
		}
		if err != nil {
			return nil, err
		}
		return r.GP(1, nil)
	}
	logistic := func(dim, outputs int, rows Rows) (*Model, error) {
		m, _, err := FitLogistic(Setup{Spec: trigSpec(dim, 16), Outputs: outputs}, rows, LogisticOptions{Lambda: 1})
		return m, err
	}
	smoother := func(positive bool) func(dim, outputs int, rows Rows) (*Model, error) {
		return func(dim, outputs int, rows Rows) (*Model, error) {
			spec := trigSpec(dim, 16)
			if positive {
				spec = positiveSpec(dim, 16)
			}
			s, err := newSmoother(Setup{Spec: spec, Outputs: outputs, Task: Classification})
			if err == nil {
				err = s.AddRows(rows)
			}
			if err != nil {
				return nil, err
			}
			return s.Model(0)
		}
	}
	density := func(dim, _ int, rows Rows) (*Model, error) {
		d, err := newDensity(Setup{Spec: positiveSpec(dim, 16)})
		if err == nil {
			err = rows.Each(defaultBlock, d.Add)
		}
		if err != nil {
			return nil, err
		}
		return calibrated(d, rows)
	}
	class := data.LearnOptions{Targets: []string{"class"}, Skip: []string{"y", "z"}}
	y := data.LearnOptions{Targets: []string{"y"}, Skip: []string{"z", "class"}}
	return map[string]*Model{
		"ridge":    fit(y, ridge(Regression)),
		"two":      fit(data.LearnOptions{Targets: []string{"y", "z"}, Skip: []string{"class"}}, gp),
		"classes":  fit(class, ridge(Classification)),
		"gp":       fit(y, gp),
		"logistic": fit(class, logistic),
		"smoother": fit(class, smoother(true)),
		"signed":   fit(class, smoother(false)),
		"density":  fit(data.LearnOptions{Skip: []string{"y", "z", "class"}}, density),
	}, src
}

// predicted is a whole table of predictions, in blocks of n rows.
func predicted(t *testing.T, p *TablePredictor, src data.Source, n int) (columns []string, cells [][]string) {
	t.Helper()
	names := src.Columns()
	run, err := p.Open(names)
	if err != nil {
		t.Fatal(err)
	}
	r, err := src.Open(run.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	columns, kinds := p.Columns()
	columns = append(run.IDs(), columns...)
	for range run.IDs() {
		kinds = slices.Insert(kinds, 0, data.Text)
	}
	var b, dst data.Block
	for r.Read(&b, n) == nil {
		if err := run.Predict(&dst, &b, r.Where); err != nil {
			t.Fatal(err)
		}
		b.Reset(0, nil) // dst must not need it
		if err := dst.Check(kinds); err != nil {
			t.Fatal(err)
		}
		cells = append(cells, texts(&dst)...)
	}
	return columns, cells
}

// texts are the cells of a block; numbers keep their bits.
func texts(b *data.Block) [][]string {
	var out [][]string
	for i := range b.Rows {
		var row []string
		for _, c := range b.Cols {
			if c.Num != nil {
				row = append(row, fmt.Sprint(c.Num[i]))
			} else {
				row = append(row, string(c.Text[i]))
			}
		}
		out = append(out, row)
	}
	return out
}

// Predictions of a table are those of the matrix of its encoded rows, bit by bit, whatever the blocks.
func TestTablePredictor(t *testing.T) {
	models, src := tableModels(t)
	for _, c := range []struct {
		model   string
		o       TableOptions
		columns string
	}{
		{"ridge", TableOptions{}, "id prediction"},
		{"ridge", TableOptions{NoIDs: true, Float32: true}, "prediction"},
		{"two", TableOptions{Variance: true}, "id prediction_y prediction_z variance_y variance_z"},
		{"gp", TableOptions{Variance: true, NoIDs: true, Workers: 1}, "prediction variance"},
		{"classes", TableOptions{Scores: true}, "id prediction score_high score_low"},
		{"logistic", TableOptions{Probabilities: true}, "id prediction p_high p_low"},
		{"logistic", TableOptions{}, "id prediction"},
		{"smoother", TableOptions{Probabilities: true, Scores: true, NoIDs: true},
			"prediction p_high p_low score_high score_low"},
		{"density", TableOptions{}, "id log_density anomaly"},
	} {
		m := models[c.model]
		p, err := NewTablePredictor(m, c.o)
		if err != nil {
			t.Fatal(err)
		}
		columns, cells := predicted(t, p, src, 300)
		if got := strings.Join(columns, " "); got != c.columns {
			t.Errorf("%s %+v: columns %s, want %s", c.model, c.o, got, c.columns)
		}
		x, _ := encodedTable(t, src, m.Schema, false)
		var y, v dense.Matrix[float64]
		if c.o.Float32 {
			y = inPrecision[float32](t, m, x, false)
		} else if y = inPrecision[float64](t, m, x, false); c.o.Variance {
			v = inPrecision[float64](t, m, x, true)
		}
		for i, row := range cells {
			var want []string
			if !c.o.NoIDs {
				want = append(want, fmt.Sprintf("r%d", i))
			}
			switch m.Task {
			case Classification:
				class := "high"
				if y.At(i, 1) > y.At(i, 0) {
					class = "low"
				}
				want = append(want, class)
				for _, on := range []bool{c.o.Probabilities, c.o.Scores} {
					if on {
						want = append(want, fmt.Sprint(y.At(i, 0)), fmt.Sprint(y.At(i, 1)))
					}
				}
			case Regression:
				for _, a := range []dense.Matrix[float64]{y, v} {
					for k := range a.Cols {
						want = append(want, fmt.Sprint(a.At(i, k)))
					}
				}
			default:
				want = append(want, fmt.Sprint(m.LogDensity(y.At(i, 0))), fmt.Sprint(m.Anomaly(y.At(i, 0))))
			}
			if !slices.Equal(row, want) {
				t.Fatalf("%s %+v: row %d is %v, want %v", c.model, c.o, i, row, want)
			}
		}
		if len(cells) != 300 {
			t.Errorf("%d rows", len(cells))
		}
		for _, n := range []int{1, 77} {
			if _, again := predicted(t, p, src, n); !slices.EqualFunc(again, cells, slices.Equal[[]string]) {
				t.Errorf("%s: other predictions in blocks of %d rows", c.model, n)
			}
		}
	}
	// Without calibration there is no anomaly.
	m := *models["density"]
	m.Quantiles = nil
	p, err := NewTablePredictor(&m, TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if columns, _ := p.Columns(); len(columns) != 1 {
		t.Errorf("columns %v of a density without quantiles", columns)
	}
}

func inPrecision[T dense.Float](t *testing.T, m *Model, x dense.Matrix[float64], variance bool) dense.Matrix[float64] {
	t.Helper()
	p, err := NewPredictor[T](m)
	if err != nil {
		t.Fatal(err)
	}
	out := dense.New[T](x.Rows, m.Outputs)
	call := p.Predict
	if variance {
		call = p.Variance
	}
	if err := call(out, dense.Convert[T](x), nil); err != nil {
		t.Fatal(err)
	}
	return dense.Convert[float64](out)
}

// Each gives the predictions beside the cells, of further columns too.
func TestTableRunEach(t *testing.T) {
	models, src := tableModels(t)
	p, err := NewTablePredictor(models["logistic"], TableOptions{Probabilities: true})
	if err != nil {
		t.Fatal(err)
	}
	_, want := predicted(t, p, src, 300)
	columns := src.Columns()
	open := 0
	run, err := p.Open(columns)
	if err != nil {
		t.Fatal(err)
	}
	kinds := run.Kinds()
	kinds[3] = data.Text // y
	var got [][]string
	ys := 0
	each := func(f func(dst, cells *data.Block) error) error { return run.Each(stingy{src, &open}, kinds, 64, f) }
	if err := each(func(dst, cells *data.Block) error {
		if dst.First != int64(len(got)) || cells.Rows != dst.Rows {
			t.Errorf("a block of %d and %d rows from %d on", dst.Rows, cells.Rows, dst.First)
		}
		got = append(got, texts(dst)...)
		for _, y := range cells.Cols[3].Text {
			if _, ok := cell.ParseNumber(y); ok {
				ys++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) || ys != 300 {
		t.Errorf("%d rows with other predictions, %d targets", len(got), ys)
	}
	stop := errors.New("stop")
	if err := each(func(dst, cells *data.Block) error { return stop }); err != stop {
		t.Errorf("stopped: %v", err)
	}
	if open != 0 {
		t.Errorf("%d readers left open", open)
	}
	if err := run.Each(src, kinds, 0, nil); !errors.Is(err, dense.ErrShape) {
		t.Errorf("blocks of no rows: %v", err)
	}
}

func TestTablePredictorErrors(t *testing.T) {
	models, _ := tableModels(t)
	for _, c := range []struct {
		model, says string
		o           TableOptions
	}{
		{"ridge", "only a classification", TableOptions{Probabilities: true}},
		{"ridge", "only a classification", TableOptions{Scores: true}},
		{"ridge", "fit with gp", TableOptions{Variance: true}},
		{"classes", "or with logistic", TableOptions{Probabilities: true}},
		{"signed", "oprf", TableOptions{Probabilities: true}},
		{"density", "only a classification", TableOptions{Scores: true}},
	} {
		if _, err := NewTablePredictor(models[c.model], c.o); !errors.Is(err, ErrSetup) ||
			!strings.Contains(err.Error(),
				c.says) {
			t.Errorf("%s %+v: %v, want %s", c.model, c.o, err, c.says)
		}
	}
	bare := *models["ridge"]
	bare.Schema = nil
	if _, err := NewTablePredictor(&bare, TableOptions{}); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(),
		"no schema") {
		t.Errorf("without a schema: %v", err)
	}
	p, err := NewTablePredictor(models["gp"], TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		columns []string
		says    string
	}{
		{[]string{"size"}, `columns missing: "colour"`},
		{[]string{"size", "colour", "more"}, `"more"`},
		{[]string{"size", "size", "colour"}, "twice"},
	} {
		if _, err := p.Open(c.columns); !errors.Is(err, data.ErrSchema) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %s", c.columns, err, c.says)
		}
	}
	// Targets and ids need not be there; an id may not look like a prediction.
	run, err := p.Open([]string{"colour", "size"})
	if err != nil || len(run.IDs()) != 0 {
		t.Fatalf("%v, ids %v", err, run.IDs())
	}
	clash := *models["ridge"]
	schema := *clash.Schema
	schema.IDs = []string{"prediction"}
	clash.Schema = &schema
	pc, err := NewTablePredictor(&clash, TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pc.Open([]string{"colour", "size", "prediction"}); !errors.Is(err, ErrSetup) {
		t.Errorf("an id named prediction: %v", err)
	}
	// Unseen levels are "other", missing ones too where none was missing; infinite numbers and text are errors of a
	// place.
	read := func(text string) (*data.Block, error) {
		r, err := openText(t, "colour,size\n"+text).Open(run.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var b, dst data.Block
		if err := r.Read(&b, 10); err != nil {
			return nil, err
		}
		return &dst, run.Predict(&dst, &b, r.Where)
	}
	dst, err := read("red,1\nviolet,1\npink,1\n,1\nred,\n")
	if err != nil {
		t.Fatal(err)
	}
	v := dst.Cols[0].Num
	if v[1] != v[2] || v[1] != v[3] || v[0] == v[1] || v[0] == v[4] {
		t.Errorf("predictions %v: unseen levels are not one level", v)
	}
	for _, c := range []struct{ text, says string }{
		{"red,1\nred,inf\n", `table.csv:3: column "size" is infinite`},
		{"red,1\nred,1e300\n", "table.csv:3: the encoded row has |x|² = "},
	} {
		if _, err := read(c.text); !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %s", c.text, err, c.says)
		}
	}
	var b, out data.Block
	b.Reset(0, []data.Kind{data.Skip, data.Number})
	b.Rows = 1
	b.Cols[1].Num = append(b.Cols[1].Num, math.Pi)
	if err := run.Predict(&out, &b, func(int) string { return "here" }); !errors.Is(err, dense.ErrShape) {
		t.Errorf("a column that was not read: %v", err)
	}
}

func BenchmarkTablePredict(b *testing.B) {
	models, src := tableModels(b)
	p, err := NewTablePredictor(models["logistic"], TableOptions{Probabilities: true})
	if err != nil {
		b.Fatal(err)
	}
	columns := src.Columns()
	run, err := p.Open(columns)
	if err != nil {
		b.Fatal(err)
	}
	r, err := src.Open(run.Kinds())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var cells, dst data.Block
	if err := r.Read(&cells, 1); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := run.Predict(&dst, &cells, r.Where); err != nil {
			b.Fatal(err)
		}
	}
}

// A number beyond the range of the fit is predicted, and evaluated, as its end; not by a GP, nor by a density.
func TestBeyondTheRange(t *testing.T) {
	models, _ := tableModels(t)
	for name, m := range models {
		var field data.Field
		for _, f := range m.Schema.Fields {
			if f.Name == "size" {
				field = f
			}
		}
		text := "id,size,colour,y,z,class\n"
		low, high := field.Range[0], field.Range[1]
		for _, size := range []float64{high, high + 1.5, 1e300, low, low - 1.5} {
			if size > 1e3 && !m.Limits() {
				size = 9 // 1e300 is an error there
			}
			text += fmt.Sprintf("a,%g,red,0,0,low\n", size)
		}
		src := openText(t, text)
		p, err := NewTablePredictor(m, TableOptions{NoIDs: true, Scores: m.Task == Classification})
		if err != nil {
			t.Fatal(err)
		}
		_, cells := predicted(t, p, src, 10)
		rows, err := ModelRows(src, m, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Each(10, func(x, _ dense.Matrix[float64]) error {
			for _, c := range [][2]int{{1, 0}, {2, 0}, {4, 3}} {
				same := slices.Equal(x.Row(c[0]), x.Row(c[1]))
				if want := name != "gp" && name != "two" && name != "density"; same != want {
					t.Errorf("%s: row %d encoded as row %d: %v, want %v", name, c[0], c[1], same, want)
				} else if same && !slices.Equal(cells[c[0]], cells[c[1]]) {
					t.Errorf("%s: row %d is predicted as %v, the end of the range as %v", name, c[0], cells[c[0]],
						cells[c[1]])
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		watch := data.Watch{}
		if rows, err = ModelRows(src, m, false, &watch); err == nil {
			err = rows.Each(10, func(_, _ dense.Matrix[float64]) error { return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(watch.Surprises())
		if !strings.Contains(said, "the end of the training range") ||
			strings.Contains(said, "range, count") != m.Limits() {
			t.Errorf("%s: %s", name, said)
		}
	}
}
