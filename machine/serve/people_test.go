package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// withHistory is a model as fit makes it: with scores and prediction intervals.
func withHistory(t testing.TB) *machine.Model {
	m := *fitted(t, machine.KindRidge, 1)
	var r machine.Residuals
	rnd := rand.New(rand.NewPCG(1, 1))
	y, zero := dense.New[float64](500, m.Outputs), dense.New[float64](500, m.Outputs)
	for i := range y.Data {
		y.Data[i] = rnd.NormFloat64()
	}
	r.Add(y, zero, dense.Matrix[float64]{}, nil)
	m.Residuals = r.Quantiles()
	m.History = &machine.History{Created: "2026-01-31T12:00:00Z", Program: "randfeat 9.9",
		ScoredOn: "all rows in 5 folds",
		Scores: []machine.Score{{Name: "RMSE", Value: 1.23456789, Low: 1.1, High: 1.3, Rows: 200},
			{Name: "calibration error", Value: 0.5, Low: math.NaN(), High: math.NaN()}}}
	return &m
}

// An array of rows is as good as an object that holds it.
func TestArrayOfRows(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	a, b := `{"a":1,"b":2,"c":"red"}`, `{"c":null,"b":12,"a":0}`
	want := post(s, "/v1/predict", "application/json", `{"rows":[`+a+`,`+b+`]}`)
	got := post(s, "/v1/predict", "application/json", " [\n"+a+`,`+b+"] ")
	if got.Code != 200 || got.Body.String() != want.Body.String() {
		t.Errorf("%d %s, want %s", got.Code, got.Body, want.Body)
	}
	if w := post(s, "/v1/predict", "application/json", "[]"); w.Code != 200 || !strings.Contains(w.Body.String(),
		`"rows":[]`) {
		t.Errorf("no rows: %d %s", w.Code, w.Body)
	}
	if w := post(s, "/v1/predict", "application/json", `[`+a+`,{"a":1e101,"b":1,"c":"red"}]`); w.Code != 400 ||
		!strings.Contains(w.Body.String(), `"row":2,"column":"a"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Limits of observations by ?interval: the shares that are offered, for models that have them.
func TestIntervalParameter(t *testing.T) {
	m := withHistory(t)
	s := serverOf(t, m, Options{})
	width := func(query string) float64 {
		w := post(s, "/v1/predict?"+query, "application/json", oneRow)
		var answer struct {
			Rows []map[string]float64
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		r := answer.Rows[0]
		if _, ok := r["lower"]; !ok {
			return 0
		}
		if !(r["lower"] < r["prediction"] && r["prediction"] < r["upper"]) {
			t.Errorf("%s: %v", query, r)
		}
		return r["upper"] - r["lower"]
	}
	if a, b, c := width("interval"), width("interval=0.9"), width("interval=0.95"); a != b || !(c > b) {
		t.Errorf("widths %g, %g, %g", a, b, c)
	}
	if width("interval=false") != 0 || width("") != 0 {
		t.Error("an interval that was not asked for")
	}
	for _, v := range []string{"2", "0.91", "NaN", "yes"} {
		if w := post(s, "/v1/predict?interval="+v, "application/json", oneRow); w.Code != 400 {
			t.Errorf("%s: %d", v, w.Code)
		}
	}
	plain := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	if w := post(plain, "/v1/predict?interval", "application/json", oneRow); w.Code != 400 {
		t.Errorf("a model without: %d", w.Code)
	}
}

// The page has a field for every column with a typical value, and shows what was typed beside its prediction.
func TestPageOneRow(t *testing.T) {
	m := withHistory(t)
	s := serverOf(t, m, Options{})
	w := newRecorder()
	s.ServeHTTP(w, newGet("/"))
	page := w.Body.String()
	for _, want := range []string{`<label for="c0">a</label>`, `name="c1" value="`, `<select id="c2" name="c2">`,
		"<option",
		">(unknown)</option>", "How good it is: RMSE 1.2346", "2026-01-31T12:00:00Z by randfeat 9.9", "1.1 to 1.3",
		"all rows in 5 folds", "/openapi.json"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	form := func(c0, c2 string) string {
		w := post(s, "/", "application/x-www-form-urlencoded",
			"answer=one&interval=true&rows=none&c0="+c0+"&c1=12.5&c2="+c2)
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	page = form("0.25", "blue")
	var answer struct {
		Rows []map[string]json.Number
	}
	one := post(s, "/v1/predict", "application/json", `[{"a":0.25,"b":12.5,"c":"blue"}]`).Body.Bytes()
	if err := json.Unmarshal(one, &answer); err != nil {
		t.Fatal(err)
	}
	v, err := answer.Rows[0]["prediction"].Float64()
	check(t, err)
	for _, want := range []string{`<p class="value">` + short(v) + "</p>", "90 % of observations", "What moved it most",
		`<td class="name">a</td>`, `[{&#34;a&#34;: 0.25, &#34;b&#34;: 12.5, &#34;c&#34;: &#34;blue&#34;}]`, "p.PredictRow(", "randfeat.load(",
		`name="c0" value="0.25"`, `<option selected>blue</option>`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "Nearest rows") || strings.Contains(page, `class="spread"`) {
		t.Error("random features keep no rows")
	}
	page = form("", "(unknown)")
	if !strings.Contains(page, "{&#34;a&#34;: null, &#34;b&#34;: 12.5, &#34;c&#34;: null}") {
		t.Errorf("unknown values:\n%s", page)
	}
	if page := form("99", "blue"); !strings.Contains(page, "Unlike the rows") || !strings.Contains(page, "above") {
		t.Errorf("a value out of range:\n%s", page)
	}
	w = newRecorder()
	s.ServeHTTP(w, newGet("/"))
	if !strings.Contains(w.Body.String(), `data-low="-2.6684" data-high="2.9302" data-step="0.01"`) {
		t.Errorf("no slider:\n%s", w.Body)
	}
	if w := post(s, "/", "application/x-www-form-urlencoded", "answer=one&c0=x&c1=1&c2=red"); w.Code != 400 ||
		!strings.Contains(w.Body.String(), "want a number") || !strings.Contains(w.Body.String(),
		`name="c0" value="x"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -1.5: "-1.5", 56.24481646028255: "56.245",
		123456.7:    "123457",
		0.000123456: "0.00012346", 1e-7: "1e-07", 1.5e12: "1.5e+12", 99999.96: "100000", -0.0000001: "-1e-07",
		0.1: "0.1", 1000: "1000", math.Inf(1): "+Inf"} {
		if got := short(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}

// The document names every path and the columns of the model, and asks for the token where the server does.
func TestOpenAPI(t *testing.T) {
	m := withHistory(t)
	for _, token := range []string{"", "secret"} {
		s := serverOf(t, m, Options{Token: token})
		r := newGet("/openapi.json")
		r.Header.Set("Authorization", "Bearer secret")
		w := newRecorder()
		s.ServeHTTP(w, r)
		var doc struct {
			OpenAPI    string
			Paths      map[string]map[string]struct{ Security []any }
			Components struct {
				Schemas map[string]struct {
					Properties           map[string]any
					Required             []string
					AdditionalProperties *bool
				}
				SecuritySchemes map[string]any
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || doc.OpenAPI != "3.1.0" {
			t.Fatalf("%d %v %s", w.Code, err, w.Body)
		}
		described := 0
		for _, route := range s.routes() {
			if route.operation == nil {
				continue
			}
			path := route.Path
			for _, method := range route.Methods {
				described++
				o, ok := doc.Paths[path][strings.ToLower(method)]
				open := path == "/healthz" || path == "/readyz"
				if !ok || (len(o.Security) > 0) != (token != "" && !open) {
					t.Errorf("token %q: %s %+v", token, path, doc.Paths[path])
				}
				r := newGet(path)
				r.Header.Set("Authorization", "Bearer secret")
				w := newRecorder()
				if s.ServeHTTP(w, r); method == http.MethodGet && w.Code != 200 {
					t.Errorf("%s: %d", path, w.Code)
				}
			}
		}
		row := doc.Components.Schemas["Row"]
		if len(doc.Paths) != described || described < 6 || fmt.Sprint(row.Required) != "[a b c]" ||
			len(row.Properties) != 4 || *row.AdditionalProperties ||
			(doc.Components.SecuritySchemes != nil) != (token != "") {
			t.Errorf("%+v", doc.Components)
		}
		// A cell of a column of numbers may be any text that means a missing value.
		pattern := regexp.MustCompile(`"pattern": ("\^[^\n]*\$")`).FindStringSubmatch(w.Body.String())
		var text string
		if len(pattern) == 0 || json.Unmarshal([]byte(pattern[1]), &text) != nil {
			t.Fatalf("no pattern in %s", w.Body)
		}
		for _, missing := range data.DefaultMissing {
			if !regexp.MustCompile(text).MatchString(missing) {
				t.Errorf("the pattern %s excludes %q", text, missing)
			}
		}
		// All ways in which a value can differ: the words of the comment of data.Surprise.What.
		what, _, _ := strings.Cut(w.Body.String()[strings.Index(w.Body.String(), `"what"`):], "]")
		for _, way := range []string{"unseen", "missing", "below", "above", "changed", "unreadable", "decimal point"} {
			if !strings.Contains(what, `"`+way+`"`) {
				t.Errorf("no %q in %s", way, what)
			}
		}
		for _, ref := range strings.Split(w.Body.String(), `"$ref": "#/components/schemas/`)[1:] {
			if name, _, _ := strings.Cut(ref, `"`); doc.Components.Schemas[name].Required == nil {
				t.Errorf("no schema %s", name)
			}
		}
	}
}

// After it was told to stop the server goes on for Limits.Drain, while it says that it is not ready.
func TestDrain(t *testing.T) {
	noLeak(t)
	const drain = 2 * time.Second // for two requests, on a busy machine too
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Drain: drain}})
	url, stop := running(t, s)
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- stop() }()
	for !s.http.Stopping() {
		time.Sleep(time.Millisecond)
	}
	r, err := http.Get(url + "/readyz")
	check(t, err)
	r.Body.Close()
	if code, _, err := send(url); r.StatusCode != 503 || code != 200 || err != nil {
		t.Errorf("ready %d, a request %d %v", r.StatusCode, code, err)
	}
	check(t, <-stopped)
	if took := time.Since(began); took < drain {
		t.Errorf("stopped after %v", took)
	}
	if _, _, err := send(url); err == nil {
		t.Error("it still answers")
	}
}

// Connections beyond the limit are closed at once, and room is made when others close.
func TestConnectionLimit(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Connections: 2}})
	url, stop := running(t, s)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		t.Cleanup(func() { c.Close() })
		check(t, c.SetDeadline(time.Now().Add(time.Minute)))
		return c
	}
	ask := func(c net.Conn) string {
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		b := make([]byte, 15)
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		if err != nil {
			return "closed"
		}
		return string(b)
	}
	a, b := dial(), dial()
	for _, c := range []net.Conn{a, b} {
		if got := ask(c); got != "HTTP/1.1 200 OK" {
			t.Fatal(got)
		}
	}
	if got := ask(dial()); got != "closed" {
		t.Errorf("a third connection: %s", got)
	}
	if n := counted(t, s, `randfeat_rejected_total{reason="connections"}`); n != 1 {
		t.Errorf("%g refused", n)
	}
	a.Close()
	for end := time.Now().Add(time.Minute); s.http.Open() > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := ask(dial()); got != "HTTP/1.1 200 OK" {
		t.Errorf("after one was closed: %s", got)
	}
	b.Close()
	check(t, stop())
}

// The token can be replaced while the server runs.
func TestSetToken(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Token: "old"})
	status := func(token string) int {
		return post(s, "/v1/predict", "application/json", oneRow, "Authorization", "Bearer "+token).Code
	}
	if status("old") != 200 || status("new") != 401 {
		t.Fatal("the first token")
	}
	s.SetToken("new")
	if status("old") != 401 || status("new") != 200 {
		t.Error("the old token is still good, or the new one is not")
	}
}

// A model of another task, or of another target, is not taken for the one before.
func TestReloadOtherTarget(t *testing.T) {
	path := t.TempDir() + "/model.rf"
	m := fitted(t, machine.KindRidge, 1)
	check(t, m.Save(path))
	s, err := New(path, Options{})
	check(t, err)
	check(t, fitted(t, machine.KindLogistic, 1).Save(path))
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "predicts something else") {
		t.Errorf("classes for numbers: %v", err)
	}
	check(t, fitted(t, machine.KindRidge, 2).Save(path))
	check(t, s.Reload())
}

// A model that keeps its rows shows the nearest of them, and the prediction among those of its rows.
func TestPageOfKeptRows(t *testing.T) {
	s := serverOf(t, keeping(t), Options{})
	w := post(s, "/", "application/x-www-form-urlencoded", "answer=one&c0=1.5")
	for _, want := range []string{"Nearest rows of the fit", "<td class=\"number\">1.000</td>", `class="spread"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in\n%s", want, w.Body)
		}
	}
	d := s.current.Load()
	if len(d.predicted) != 40 || math.Abs(d.predicted[39]-7.8) > 0.05 {
		t.Errorf("predictions of kept rows %v", d.predicted)
	}
}

// keeping is a model with an exact kernel and a metric that has learned y = 2a at a = 0, 0.1, …, 3.9.
func keeping(t *testing.T) *machine.Model {
	x, y := dense.New[float64](40, 1), dense.New[float64](40, 1)
	for i := range 40 {
		x.Set(i, 0, float64(i)/10)
		y.Set(i, 0, float64(i)/5)
	}
	k := kernel.Kernel{Scale: 3, M: dense.MustFromRows([][]float64{{2}})}
	m, err := machine.FitExact(machine.Setup{Spec: randfeat.Spec{Kernel: k, Dim: 1, M: 40, Family: family.Landmarks{}},
		Task: machine.Regression, Outputs: 1}, x, y, 1e-6)
	check(t, err)
	m.Schema = &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Scale: 1}},
		Targets: []data.Target{{Name: "y", Scale: 1}}}
	return m
}
