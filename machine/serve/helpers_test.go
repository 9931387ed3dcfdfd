package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// columns of the tables of these tests: a and b are numbers, c has the levels red, green, blue and 7, note is constant
// and so ignored, id is an identifier.
var columns = []string{"id", "a", "b", "c", "note", "y"}

// table is n rows as text; b is missing in some.
func table(seed uint64, n int, classes bool) [][]string {
	r := rand.New(rand.NewPCG(seed, 1))
	levels := []string{"red", "green", "blue", "7"}
	rows := make([][]string, n)
	for i := range rows {
		a, b := r.NormFloat64(), 10+3*r.NormFloat64()
		text := fmt.Sprintf("%.4f", b)
		if r.IntN(8) == 0 {
			text = ""
		}
		y := fmt.Sprintf("%.5f", 3*a+float64(seed)+b*b/50+r.NormFloat64()/10)
		if classes {
			y = []string{"no", "<b>yes</b>", "maybe"}[int(a*a+b)%3]
		}
		rows[i] = []string{fmt.Sprintf("k%d", i), fmt.Sprintf("%.6f", a), text, levels[r.IntN(4)], "same", y}
	}
	return rows
}

func csvOf(rows [][]string) []byte {
	var b bytes.Buffer
	b.WriteString(strings.Join(columns, ",") + "\n")
	for _, r := range rows {
		b.WriteString(strings.Join(r, ",") + "\n")
	}
	return b.Bytes()
}

// fitted is a model of 200 rows. Other seeds give other predictions.
func fitted(t testing.TB, kind machine.Kind, seed uint64) *machine.Model {
	t.Helper()
	classes := kind == machine.KindLogistic
	src, err := text.OpenBytes("rows.csv", csvOf(table(seed, 200, classes)), data.Options{})
	check(t, err)
	o := data.LearnOptions{Targets: []string{"y"}, IDs: []string{"id"}, Task: data.Regression}
	if classes {
		o.Task = data.Classification
	}
	if kind == machine.KindDensity {
		o.Targets, o.Skip = nil, []string{"y"}
	}
	schema, _, err := data.Learn(src, o)
	check(t, err)
	rows, err := machine.TableRows(src, schema, kind != machine.KindDensity)
	check(t, err)
	setup := machine.Setup{Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 2}, Family: family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: schema.Width(), M: 32, Seed: seed}}
	var m *machine.Model
	switch kind {
	case machine.KindLogistic:
		setup.Task, setup.Outputs = machine.Classification, 3
		m, _, err = machine.FitLogistic(setup, rows, machine.LogisticOptions{MaxIterations: 20})
	case machine.KindDensity:
		setup.Task, setup.Outputs, setup.Spec.Family = machine.Unsupervised, 0, family.OPRF{}
		d, e := machine.NewSums(kind, setup)
		check(t, e)
		check(t, rows.Each(1024, d.Add))
		m, err = d.Model(0)
		check(t, err)
		p, e := machine.NewPredictor[float64](m)
		check(t, e)
		var scores machine.Calibration
		err = rows.Each(1024, func(x, _ dense.Matrix[float64]) error {
			out := dense.New[float64](x.Rows, 1)
			err := p.Predict(out, x, nil)
			for _, v := range out.Data {
				scores.Add(v)
			}
			return err
		})
		m.Quantiles = scores.Quantiles()
	default:
		var r *machine.Ridge
		r, err = machine.NewRidge(setup)
		check(t, err)
		check(t, r.AddRows(rows))
		if kind == machine.KindGP {
			m, err = r.GP(0.5, nil)
		} else {
			m, err = r.Model(0.5)
		}
	}
	check(t, err)
	m.Schema = schema
	return m
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// saved writes a model to a file of the test.
func saved(t testing.TB, m *machine.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.rf")
	check(t, m.Save(path))
	return path
}

func serverOf(t testing.TB, m *machine.Model, o Options) *Server {
	t.Helper()
	s, err := newModel(m, o)
	check(t, err)
	return s
}

// direct predicts rows as the command does, without a server: one text per prediction.
func direct(t testing.TB, m *machine.Model, o machine.TableOptions, rows [][]string) [][]string {
	t.Helper()
	p, err := machine.NewTablePredictor(m, o)
	check(t, err)
	run, err := p.Open(columns)
	check(t, err)
	src, err := text.OpenBytes("rows.csv", csvOf(rows), data.Options{})
	check(t, err)
	r, err := src.Open(run.Kinds())
	check(t, err)
	defer r.Close()
	var in, out data.Block
	var all [][]string
	for {
		err := r.Read(&in, 1) // one by one: batches must not matter
		if err == io.EOF {
			return all
		}
		check(t, err)
		check(t, run.Predict(&out, &in, r.Where))
		var cells []string
		for _, c := range out.Cols {
			if c.Text != nil {
				cells = append(cells, string(c.Text[0]))
			} else {
				cells = append(cells, fmt.Sprint(c.Num[0]))
			}
		}
		all = append(all, cells)
	}
}

// Answer is the JSON of predictions.
type Answer struct {
	Model   string           `json:"model"`
	Columns []string         `json:"columns"`
	Rows    []map[string]any `json:"rows"`
}

// cells are those of row i in the order of the columns, numbers as fmt prints them.
func (a Answer) cells(i int) []string {
	var out []string
	for _, c := range a.Columns {
		out = append(out, fmt.Sprint(a.Rows[i][c]))
	}
	return out
}

// post asks a handler.
func post(h http.Handler, path, content, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", content)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t testing.TB, b []byte) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// object is a row as a JSON object; null is missing, numbers are numbers.
func object(row []string) string {
	cells := map[string]any{}
	for j, c := range columns {
		switch {
		case c == "y": // not known when predicting
		case row[j] == "":
			cells[c] = nil
		case c == "a" || c == "b":
			cells[c] = json.Number(row[j])
		default:
			cells[c] = row[j]
		}
	}
	b, err := json.Marshal(cells)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func objectsBody(rows [][]string) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, object(r))
	}
	return `{"rows":[` + strings.Join(parts, ",") + `]}`
}

// noLeak fails if goroutines are left when the test ends.
func noLeak(t *testing.T) {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		for range 1000 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		b := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
	})
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	return b
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
func newGet(path string) *http.Request        { return httptest.NewRequest(http.MethodGet, path, nil) }

func newLocal(path string) *http.Request {
	r := newGet(path)
	r.Host = "localhost"
	return r
}

// counted is a line of /metrics.
func counted(t testing.TB, s *Server, name string) float64 {
	t.Helper()
	w := newRecorder()
	s.ServeHTTP(w, newLocal("/metrics"))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			check(t, err)
			return v
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
