package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Every way to send rows gives the bits of a prediction without a server.
func TestFormatsAgree(t *testing.T) {
	for _, kind := range []machine.Kind{machine.KindRidge, machine.KindGP, machine.KindLogistic, machine.KindDensity} {
		t.Run(string(kind), func(t *testing.T) {
			m := fitted(t, kind, 1)
			rows := table(9, 40, false)
			var o machine.TableOptions
			query := ""
			switch kind {
			case machine.KindGP:
				o.Variance, query = true, "?variance=true"
			case machine.KindLogistic:
				o.Probabilities, query = true, "?probabilities"
			}
			want := direct(t, m, o, rows)
			s := serverOf(t, m, Options{Limits: Limits{Batch: 16}})

			arrays, err := json.Marshal(rows)
			check(t, err)
			names, err := json.Marshal(columns)
			check(t, err)
			var nd strings.Builder
			for _, r := range rows {
				nd.WriteString(object(r) + "\n")
			}
			tsv := strings.ReplaceAll(string(csvOf(rows)), ",", "\t")
			for _, c := range []struct{ name, content, body string }{
				{"objects", "application/json", objectsBody(rows)},
				{"arrays", "application/json; charset=utf-8", fmt.Sprintf(`{"columns":%s,"rows":%s}`, names, arrays)},
				{"arrays, columns last", "application/json", fmt.Sprintf(` { "rows" : %s , "columns":%s } `, arrays,
					names)},
				{"csv", "text/csv", string(csvOf(rows))},
				{"tsv", "text/tab-separated-values", tsv},
				{"ndjson", "application/x-ndjson", nd.String()},
			} {
				w := post(s, "/v1/predict"+query, c.content, c.body, "Accept", "application/json")
				if w.Code != http.StatusOK {
					t.Fatalf("%s: %d %s", c.name, w.Code, w.Body)
				}
				if got := w.Header().Get(modelHeader); got != s.SHA256() || len(got) != 64 {
					t.Errorf("%s: the model is %q", c.name, got)
				}
				var got [][]string
				if strings.HasPrefix(c.name, "arrays") {
					a := decode[struct {
						Model   string   `json:"model"`
						Columns []string `json:"columns"`
						Rows    [][]any  `json:"rows"`
					}](t, w.Body.Bytes())
					for _, r := range a.Rows {
						var cells []string
						for _, v := range r {
							cells = append(cells, fmt.Sprint(v))
						}
						got = append(got, cells)
					}
				} else {
					a := decode[Answer](t, w.Body.Bytes())
					for i := range a.Rows {
						got = append(got, a.cells(i))
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %v\nwant %v", c.name, got[:2], want[:2])
				}
				// The same in CSV and NDJSON.
				w = post(s, "/v1/predict"+query, c.content, c.body, "Accept", "text/csv")
				lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
				for i, line := range lines[1:] {
					if line != strings.Join(want[i], ",") {
						t.Fatalf("%s as CSV: %q, want %q", c.name, line, want[i])
					}
				}
				w = post(s, "/v1/predict"+query, c.content, c.body, "Accept", "application/x-ndjson")
				if n := strings.Count(w.Body.String(), "\n"); n != len(rows) {
					t.Errorf("%s as NDJSON: %d lines", c.name, n)
				}
			}
		})
	}
}

// A cell means the same as a number and as a string, and identifiers are optional.
func TestCellsFollowTheRulesOfCSV(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	ask := func(row string) Answer {
		t.Helper()
		w := post(s, "/v1/predict", "application/json", `{"rows":[`+row+`]}`)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %s", row, w.Body)
		}
		return decode[Answer](t, w.Body.Bytes())
	}
	want := ask(`{"a":1.5,"b":9,"c":"7"}`).Rows[0]["prediction"]
	missing := ask(`{"a":1.5,"b":null,"c":"7"}`).Rows[0]["prediction"]
	if want == missing {
		t.Fatal("a missing value does not matter")
	}
	for _, row := range []string{`{"a":"1.5","b":"9","c":7}`, `{"a":" 1.50 ","b":9e0,"c":7.0}`,
		`{"c":"7","b":9,"a":15e-1}`,
		`{"a":1.5,"b":9,"c":"7","note":{"any":[1,{}]},"y":"unknown"}`, `{"\u0061":1.5,"b":9,"c":"\u0037"}`} {
		if got := ask(row).Rows[0]["prediction"]; got != want {
			t.Errorf("%s: %v, want %v", row, got, want)
		}
	}
	for _, row := range []string{`{"a":1.5,"b":"","c":"7"}`, `{"a":1.5,"b":"NA","c":"7"}`} {
		if got := ask(row).Rows[0]["prediction"]; got != missing {
			t.Errorf("%s: %v, want %v", row, got, missing)
		}
	}
	if a := ask(`{"a":1.5,"b":9,"c":"7"}`); !slices.Equal(a.Columns, []string{"prediction"}) {
		t.Errorf("columns %v without an identifier", a.Columns)
	}
	a := ask(`{"a":1.5,"b":9,"c":"7","id":17},{"a":1.5,"b":9,"c":"7"}`)
	if !slices.Equal(a.Columns, []string{"id", "prediction"}) || fmt.Sprint(a.Rows[0]["id"]) != "17" ||
		a.Rows[1]["id"] != nil {
		t.Errorf("identifiers: %v", a)
	}
	if a := decode[Answer](t, post(s, "/v1/predict", "application/json",
		`{"rows":[]}`).Body.Bytes()); len(a.Rows) != 0 || len(a.Columns) != 1 {
		t.Errorf("no rows: %v", a)
	}
}

func TestBadRequests(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Rows: 3, Body: 2000}})
	good := `{"a":1,"b":2,"c":"red"}`
	js, csv := "application/json", "text/csv"
	for _, c := range []struct {
		content, body, query string
		status               int
		code, says           string
		row                  int64
		column               string
	}{
		{js, ``, "", 400, "bad_json", "want a JSON object", 0, ""},
		{js, `[1]`, "", 400, "bad_json", "want a JSON object", 1, ""},
		{js, `[] []`, "", 400, "bad_json", "something after the array", 0, ""},
		{js, `[{}`, "", 400, "bad_json", "", 0, ""},
		{js, `{}`, "", 400, "bad_json", `no key \"rows\"`, 0, ""},
		{js, `{"rows":[` + good + `]`, "", 400, "bad_json", "the end", 0, ""},
		{js, `{"rows":[` + good + `]} x`, "", 400, "bad_json", "after the object", 0, ""},
		{js, `{"rows":[` + good + `,]}`, "", 400, "bad_json", "", 0, ""},
		{js, `{"rows":[` + good + `],"rows":[]}`, "", 400, "bad_json", "twice", 0, ""},
		{js, `{"rows":[` + good + `],"x":1}`, "", 400, "bad_json", `\"x\"`, 0, ""},
		{js, `{"rows":{}}`, "", 400, "bad_json", "must be an array", 0, ""},
		{js, `{"rows":[` + good + `,[1,2,"red"]]}`, "", 400, "bad_json", `no \"columns\"`, 2, ""},
		{js, `{"rows":[` + good + `,7]}`, "", 400, "bad_json", "want a JSON object", 2, ""},
		{js, `{"rows":[{"a":1,"b":2}]}`, "", 400, "bad_value", "send null", 1, "c"},
		{js, `{"rows":[` + good + `,{"a":1,"b":2,"c":"red","d":3}]}`, "", 400, "bad_columns", "remove it", 2, "d"},
		{js, `{"rows":[{"a":1,"b":2,"C":"red"}]}`, "", 400, "bad_columns", `did you mean`, 1, "C"},
		{js, `{"rows":[{"a":1,"b":2,"c":"red","a":3}]}`, "", 400, "bad_value", "twice", 1, "a"},
		{js, `{"rows":[` + good + `,{"a":"one","b":2,"c":"red"}]}`, "", 400, "bad_value", "want a number", 2, "a"},
		{js, `{"rows":[{"a":true,"b":2,"c":"red"}]}`, "", 400, "bad_value", "want a number", 1, "a"},
		{js, `{"rows":[{"a":1e999,"b":2,"c":"red"}]}`, "", 400, "bad_value", "want a number", 1, "a"},
		{js, `{"rows":[{"a":"inf","b":2,"c":"red"}]}`, "", 400, "bad_value", "+Inf, want numbers", 1, "a"},
		{js, `{"rows":[` + good + `,{"a":1,"b":1e308,"c":"red"}]}`, "", 400, "bad_value", "", 2, "b"},
		{js, `{"rows":[{"a":[1],"b":2,"c":"red"}]}`, "", 400, "bad_json", "nested", 1, "a"},
		{js, `{"rows":[{"a":01,"b":2,"c":"red"}]}`, "", 400, "bad_json", "", 0, ""},
		{js, `{"rows":[{"a":1.,"b":2,"c":"red"}]}`, "", 400, "bad_json", "", 0, ""},
		{js, `{"rows":[{"a":NaN,"b":2,"c":"red"}]}`, "", 400, "bad_json", "", 0, ""},
		{js, `{"rows":[{"a":1,"b":2,"c":"re` + "\n" + `d"}]}`, "", 400, "bad_json", "control character", 0, ""},
		{js, `{"rows":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "", 400, "bad_json", "deeply", 0,
			""},
		{js, `{"columns":["a","b"],"rows":[]}`, "", 400, "bad_columns", "missing", 0, ""},
		{js, `{"columns":["a","b","c","d"],"rows":[]}`, "", 400, "bad_columns", "unknown", 0, ""},
		{js, `{"columns":["a","b","c","a"],"rows":[]}`, "", 400, "bad_columns", "twice", 0, ""},
		{js, `{"columns":["a","b","c"],"rows":[[1,2,"red"],[1,2]]}`, "", 400, "bad_json", "2 cells", 2, ""},
		{js, `{"columns":["a","b","c"],"rows":[[1,2,"red",4]]}`, "", 400, "bad_json", "more than the 3", 1, ""},
		{js, `{"columns":["a","b","c"],"rows":[` + good + `]}`, "", 400, "bad_json", "must be an array", 1, ""},
		{js, `{"columns":"a","rows":[]}`, "", 400, "bad_json", "array of names", 0, ""},
		{js, `{"rows":[` + good + `,` + good + `,` + good + `,` + good + `]}`, "", 413, "too_large", "more than 3 rows",
			0, ""},
		{js, `{"rows":[` + strings.Repeat(" ", 2000) + good + `]}`, "", 413, "too_large", "limit is 2000", 0, ""},
		{js, `{"rows":[` + good + `]}`, "?variance", 400, "not_available", "gp", 0, ""},
		{js, `{"rows":[` + good + `]}`, "?probabilities=1", 400, "not_available", "", 0, ""},
		{js, `{"rows":[` + good + `]}`, "?varianse=1", 400, "bad_option", "varianse", 0, ""},
		{js, `{"rows":[` + good + `]}`, "?variance=perhaps", 400, "bad_option", "perhaps", 0, ""},
		{js, `{"rows":[` + good + `]}`, "?%zz", 400, "bad_option", "", 0, ""},
		{csv, "", "", 400, "bad_rows", "empty", 0, ""},
		{csv, "a,b\n1,2\n", "", 400, "bad_columns", "missing", 0, ""},
		{csv, "a,b,c\n1,2,red\n1,2\n", "", 400, "bad_rows", ":3", 0, ""},
		{csv, "a,b,c\n1,2,red\n1,two,red\n", "", 400, "bad_value", "want a number", 2, "b"},
		{csv, "a,b,c\n1,2,red\n1,inf,red\n", "", 400, "bad_value", "infinite", 2, "b"},
		{csv, "a,b,c\n1,2,red\n1,2,red\n1,2,red\n1,2,red\n", "", 413, "too_large", "rows", 0, ""},
		{"application/x-ndjson", good + "\n{\"a\":1\n", "", 400, "bad_rows", "", 0, ""},
		{"application/xml", "<a/>", "", 415, "unsupported_media_type", "application/xml", 0, ""},
		{"", good, "", 415, "unsupported_media_type", "", 0, ""},
		{"text/csv; charset=utf-16", "a", "", 415, "unsupported_media_type", "utf-16", 0, ""},
	} {
		w := post(s, "/v1/predict"+c.query, c.content, c.body)
		name := fmt.Sprintf("%s %s%.80s", c.content, c.query, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s, want %d %q", name, w.Code, w.Body, c.status, c.says)
			continue
		}
		e := decode[struct {
			Error fault `json:"error"`
		}](t, w.Body.Bytes()).Error
		if e.Code != c.code || e.Row != c.row || e.Column != c.column {
			t.Errorf("%s: %+v, want code %s, row %d, column %q", name, e, c.code, c.row, c.column)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/predict", 405}, {"PUT", "/v1/model", 405}, {"DELETE", "/", 405}, {"POST", "/healthz", 405},
		{"POST", "/metrics", 405},
		{"GET", "/v1/nothing", 404}, {"GET", "/../etc/passwd", 404}, {"GET", "/page/index.html", 404},
	} {
		r := httptest.NewRequest(c.method, "http://host/", nil)
		r.URL.Path = c.path
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status && w.Code != http.StatusTemporaryRedirect { // the mux cleans paths
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.status)
		}
		if c.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

func TestAccept(t *testing.T) {
	for _, c := range []struct{ accept, content, want string }{
		{"", typeJSON, typeJSON}, {"", typeCSV, typeCSV}, {"*/*", typeTSV, typeCSV}, {"*/*", typeNDJSON, typeNDJSON},
		{"text/csv", typeJSON, typeCSV}, {"text/*", typeJSON, typeCSV}, {"application/json, text/csv;q=0.5", typeCSV,
			typeJSON},
		{"text/csv;q=0.5, */*;q=0.1", typeJSON, typeCSV}, {"application/json;q=0, */*", typeJSON, typeCSV},
		{"image/png", typeJSON, ""},
	} {
		var headers []string
		if c.accept != "" {
			headers = []string{c.accept}
		}
		got, ok := accepted(headers, c.content)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("Accept %q for %s: %q, %v; want %q", c.accept, c.content, got, ok, c.want)
		}
	}
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	if w := post(s, "/v1/predict", "text/csv", "a,b,c\n1,2,red\n", "Accept",
		"image/png"); w.Code != http.StatusNotAcceptable {
		t.Errorf("image/png: %d", w.Code)
	}
}

func gzipped(t testing.TB, b []byte) string {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	check(t, err)
	check(t, w.Close())
	return z.String()
}

func TestGzip(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Body: 1 << 20}})
	rows := csvOf(table(3, 50, false))
	plain := post(s, "/v1/predict", "text/csv", string(rows))
	small := post(s, "/v1/predict", "text/csv", gzipped(t, rows), "Content-Encoding", "gzip")
	if plain.Code != http.StatusOK || small.Code != http.StatusOK ||
		!bytes.Equal(plain.Body.Bytes(), small.Body.Bytes()) {
		t.Errorf("compressed rows: %d %s", small.Code, small.Body)
	}
	// 8 MiB of blank lines in 8 KiB: more than a body may have, and package data would skip them for long.
	bomb := gzipped(t, bytes.Repeat([]byte("\n"), 8<<20))
	if len(bomb) > 1<<20 {
		t.Fatal("the bomb is too large to be one")
	}
	for _, c := range []struct {
		body, encoding string
		status         int
	}{
		{bomb, "gzip", 413},
		{bomb, "", 415}, // package data would decompress it
		{string(rows), "gzip", 400},
		{gzipped(t, rows)[:200], "gzip", 400},
		{string(rows), "br", 415},
		{strings.Repeat("x", 1<<20+1), "", 413},
	} {
		w := post(s, "/v1/predict", "text/csv", c.body, "Content-Encoding", c.encoding)
		if w.Code != c.status {
			t.Errorf("%d bytes, encoding %q: %d %s, want %d", len(c.body), c.encoding, w.Code, w.Body, c.status)
		}
	}
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestTokenAndHost(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	get := func(s *Server, path string, header ...string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", path)
		}
		return w.Code
	}
	closed := serverOf(t, m, Options{Token: "secret"})
	open := serverOf(t, m, Options{Token: "secret", OpenMetrics: true})
	for _, path := range []string{"/", "/v1/model", "/metrics", "/script.js", "/nothing"} {
		want := map[bool]int{true: 404, false: 200}[path == "/nothing"]
		for header, status := range map[string]int{"": 401, "Bearer secret": want, "bearer secret": want,
			"Bearer secre": 401, "Bearer secrets": 401,
			"Bearer": 401, "secret": 401, "Basic OnNlY3JldA==": want, "Basic OnNlY3JlZA==": 401} {
			if got := get(closed, path, "Authorization", header); got != status {
				t.Errorf("%s with %q: %d, want %d", path, header, got, status)
			}
		}
	}
	if w := post(closed, "/v1/predict", "text/csv", "a,b,c\n1,2,red\n"); w.Code != http.StatusUnauthorized {
		t.Errorf("predict without a token: %d", w.Code)
	}
	if get(closed, "/healthz") != 200 || get(closed, "/readyz") != 200 || get(open, "/metrics") != 200 {
		t.Error("an open path asks for the token")
	}
	local := serverOf(t, m, Options{LoopbackHosts: true})
	for host, status := range map[string]int{"localhost:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200,
		"127.0.0.1": 200, "LOCALHOST": 200,
		"evil.example": 421, "127.0.0.1.evil.example:80": 421, "10.0.0.1": 421, "": 421} {
		r := httptest.NewRequest(http.MethodGet, "/v1/model", nil)
		r.Host = host
		w := httptest.NewRecorder()
		local.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("host %q: %d, want %d", host, w.Code, status)
		}
	}
}

func TestModelInfo(t *testing.T) {
	m := fitted(t, machine.KindGP, 1)
	path := saved(t, m)
	s, err := New(path, Options{})
	check(t, err)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/model", nil))
	info := decode[modelInfo](t, w.Body.Bytes())
	if info.Kind != machine.KindGP || info.SHA256 != s.SHA256() || info.Name != "model.rf" ||
		info.Bytes != len(readFile(t, path)) ||
		info.Features != 64 || !reflect.DeepEqual(info.Options, []string{"variance"}) ||
		!reflect.DeepEqual(info.Answers, []string{"prediction"}) ||
		!reflect.DeepEqual(info.Schema, m.Schema) || !reflect.DeepEqual(*info.Spec, m.Spec) {
		t.Errorf("%s", w.Body)
	}
}

// The column of an error is a field, whatever its name looks like in messages.
func TestProblemColumn(t *testing.T) {
	long := strings.Repeat("a long name ", 8)
	for _, err := range []error{
		&data.InputError{Place: "request:2", Column: long, Detail: "column \"a long n…\" is \"x\", want a number"},
		fmt.Errorf("batch: %w", &data.InputError{Column: long, Detail: "is infinite"}),
	} {
		if p := problemOf(err, 7); p.Column != long || p.Row != 7 || p.Code != "bad_value" {
			t.Errorf("%+v", p)
		}
	}
	if p := problemOf(&data.InputError{Detail: `column "a" ends early`}, 0); p.Column != "" {
		t.Errorf("a column was read out of a text: %+v", p)
	}
}

// Rows may be secret: logs have none of them, whatever goes wrong.
func TestLogsHoldNoRows(t *testing.T) {
	var log bytes.Buffer
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Log: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, body := range []string{`{"rows":[{"a":"SECRET","b":1,"c":"red"}]}`, `{"rows":[{"SECRET":1}]}`,
		`{"rows":[SECRET]}`, `{"rows":[{"a":1,"b":2,"c":"SECRET","id":"SECRET"}]}`} {
		post(s, "/v1/predict", "application/json", body)
		post(s, "/", "application/x-www-form-urlencoded", "rows="+body)
	}
	post(s, "/v1/predict?SECRET", "application/json", "")
	post(s, "/SECRET", "application/json", "")
	if strings.Contains(log.String(), "SECRET") || strings.Count(log.String(), "msg=request") != 10 {
		t.Errorf("logs:\n%s", log.String())
	}
}
