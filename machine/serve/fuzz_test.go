package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/machine"
)

// FuzzJSONRows: what the reader takes is JSON, with the cells that encoding/json finds; what it refuses is a problem of
// the client.
func FuzzJSONRows(f *testing.F) {
	for _, seed := range []string{
		`{"rows":[{"a":1,"b":2.5e-1,"c":"red"}]}`,
		`{"rows":[{"a":"1","b":null,"c":"7","id":"x","note":[{}],"y":0}]}`,
		`{"rows":[[1,2,"\u00e9\n"],[-0.5,"",true]],"columns":["a","b","c"]}`,
		`{"columns":["c","b","a","id"],"rows":[]}`, `{"rows":[{"a":01}]}`, `{"rows":[{"a":1,"b":2,"c":"\ud800"}]}`,
		"{\"rows\":[{\"a\":1,\"b\":2,\"c\":\"\xff\"}]}",
		`{"rows":[[[[[[[[]]]]]]]]}`, ` { "rows" : [ ] } `, `{"rows":[{"a":1,"b":2,"c":"red"},]}`,
	} {
		f.Add([]byte(seed))
	}
	d := serverOf(f, fitted(f, machine.KindRidge, 1), Options{}).current.Load()
	b, err := d.batcher(machine.TableOptions{})
	check(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := newJSONRows(body, d, b.kinds)
		var in data.Block
		row := 0
		var parsed struct {
			Columns []string
			Rows    []json.RawMessage
		}
		if err == nil {
			if err := json.Unmarshal(body, &parsed); err != nil {
				t.Fatalf("%q was taken: %v", body, err)
			}
		}
		for err == nil {
			if err = r.read(&in, 2); err != nil {
				break
			}
			for i := range in.Rows {
				compareRow(t, d, b.kinds, &in, i, parsed.Columns, parsed.Rows[row])
				row++
			}
		}
		if err == io.EOF {
			if row != len(parsed.Rows) {
				t.Fatalf("%q: %d rows, want %d", body, row, len(parsed.Rows))
			}
			return
		}
		var p *fault
		if !errors.As(err, &p) {
			p = problemOf(err, 0)
		}
		if p.status != http.StatusBadRequest || p.Message == "" {
			t.Fatalf("%q: %+v", body, p)
		}
	})
}

// compareRow checks a row of a block against encoding/json.
func compareRow(t *testing.T, d *loaded, kinds []data.Kind, in *data.Block, i int, columns []string,
	raw json.RawMessage) {
	t.Helper()
	cells := map[string]json.RawMessage{}
	if columns == nil {
		if err := json.Unmarshal(raw, &cells); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	} else {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != len(columns) {
			t.Fatalf("%s: %v", raw, err)
		}
		for j, c := range columns {
			cells[c] = list[j]
		}
	}
	for j, name := range d.columns {
		value, ok := cells[name]
		if !ok && j < d.fields {
			t.Fatalf("%s has no %s", raw, name)
		}
		var text []byte
		if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '"' {
			var s string
			if err := json.Unmarshal(value, &s); err != nil {
				t.Fatal(err)
			}
			text = []byte(s)
		} else if ok && string(value) != "null" {
			text = value
		}
		if text != nil && (missing.Has(text) || j >= d.ids && (value[0] == '[' || value[0] == '{')) {
			text = nil
		}
		if kinds[j] == data.Text {
			if got := in.Cols[j].Text[i]; !bytes.Equal(got, text) || (got == nil) != (text == nil) {
				t.Fatalf("%s: %s is %q, want %q", raw, name, got, text)
			}
			continue
		}
		got, want := in.Cols[j].Num[i], math.NaN()
		if text != nil {
			want, _ = cell.ParseNumber(bytes.Trim(text, " \t"))
		}
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%s: %s is %v, want %v", raw, name, got, want)
		}
	}
}

// FuzzPredict: no body makes the server fail.
func FuzzPredict(f *testing.F) {
	f.Add([]byte(`{"rows":[{"a":1,"b":2,"c":"red"}]}`), byte(0))
	f.Add([]byte("a,b,c\n1,2,red\n"), byte(1))
	f.Add([]byte(`{"a":1,"b":2,"c":"red"}`+"\n"), byte(2))
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"rows\"\r\n\r\na,b,c\n1,2,red\n\r\n--x--\r\n"), byte(3))
	f.Add([]byte("rows=a,b,c%0A1,2,<b>&answer=csv"), byte(4))
	s := serverOf(f, fitted(f, machine.KindRidge, 1), Options{Limits: Limits{Body: 1 << 16, Rows: 50}})
	f.Fuzz(func(t *testing.T, body []byte, kind byte) {
		content := []string{typeJSON, typeCSV, typeNDJSON, "multipart/form-data; boundary=x",
			"application/x-www-form-urlencoded"}[kind%5]
		path := "/v1/predict"
		if kind%5 > 2 {
			path = "/"
		}
		w := post(s, path, content, string(body))
		if w.Code >= 500 {
			t.Fatalf("%s %q: %d %s", content, body, w.Code, w.Body)
		}
		if path != "/" && w.Code != 200 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q: %s", content, body, w.Body)
		}
	})
}
