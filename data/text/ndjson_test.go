package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

func openJSON(text string) (data.Source, error) {
	return OpenBytes("x.ndjson", []byte(text), data.Options{})
}

func TestNDJSON(t *testing.T) {
	src, err := openJSON(`{"a": 1.5, "b": "x \"y\" \u00e9", "c": true}` + "\r\n\n" + `{"b":null,"a":-2e3}` + "\n" +
		`{"d":"","c":false,"b":"é"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range []int{1, 2, 100} {
		columns, rows, err := datatest.Table(src, nil, block)
		want := [][]string{{"1.5", `x "y" é`, "true", "∅"}, {"-2e3", "∅", "∅", "∅"}, {"∅", "é", "false", "∅"}}
		if err != nil || strings.Join(columns, "") != "abcd" || !reflect.DeepEqual(rows, want) {
			t.Errorf("%q %q, %v", columns, rows, err)
		}
	}
	_, rows, err := datatest.Table(src, []data.Kind{data.Number, data.Skip, data.Text, data.Skip}, 5)
	if err != nil || fmt.Sprint(rows) != "[[1.5 skipped true skipped] [-2000 skipped ∅ skipped] [NaN skipped false skipped]]" {
		t.Errorf("%v, %v", rows, err)
	}
	if src, err := OpenBytes("no name", []byte(`{"a":1}`), data.Options{}); err != nil {
		t.Error(err)
	} else if columns := src.Columns(); len(columns) != 1 || columns[0] != "a" {
		t.Errorf("by its first byte: %q", columns)
	}
}

func TestNDJSONErrors(t *testing.T) {
	long := strings.Repeat(`{"a":1}`+"\n", 40_000) // beyond the sample
	for _, c := range []struct{ text, want string }{
		{`{"a":[1]}`, `x.ndjson:1:6: column "a" is nested: leave it out`},
		{`{"a":{"b":1}}`, `x.ndjson:1:6: column "a" is nested: leave it out`},
		{`{"a":1,"a":2}`, `x.ndjson:1:8: the key "a" comes twice`},
		{`{"a":1}` + "\n" + `{"a":01}`, `x.ndjson:2:6: "01}", want a number`},
		{`{"a":1} x`, `x.ndjson:1:9: "x", want the end of the line`},
		{`[1,2]`, "want a JSON object"},
		{`{"a":"x`, "x.ndjson:1:6: the string is not closed"},
		{`{"a":1,}`, "want a string"},
		{`{"a" 1}`, "want a colon"},
		{`{"a":1 "b":2}`, "want a comma"},
		{`{"a":`, "the end of the line, want a value"},
		{`{}`, "without keys"},
		{" \n", "no rows"},
		{long + `{"b":1}`, `x.ndjson:40001:2: the key "b" is not in the first rows`},
	} {
		src, err := openJSON(c.text)
		if err == nil {
			_, _, err = datatest.Table(src, nil, 1000)
		}
		if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.text, err, c.want)
		}
	}
	src, err := OpenBytes("x.ndjson", []byte(`{"a":1}`+"\n"+`{"a":"one"}`), data.Options{Strict: true})
	if err == nil {
		_, _, err = datatest.Table(src, []data.Kind{data.Number}, 10)
	}
	if err == nil || err.Error() != `x.ndjson:2:6: column "a" is "one", want a number` {
		t.Errorf("%v", err)
	}
}

// FuzzNDJSON: any bytes give a table or an error; encoding/json reads an accepted row alike.
func FuzzNDJSON(f *testing.F) {
	f.Add([]byte(`{"a": 1.5, "b": "x \"y\" \u00e9"}` + "\n" + `{"b":null,"a":-2e3}`))
	f.Add([]byte("{\"a\":\"\xff\"}\r\n{\"a\":true}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		src, err := OpenBytes("f", b, data.Options{Format: data.NDJSON, Missing: []string{}, MaxLine: 1 << 16,
			Encoding: "utf-8"})
		if err != nil {
			return
		}
		columns, rows, err := datatest.Table(src, nil, 3)
		if err != nil || bytes.HasPrefix(b, []byte("\x1f\x8b")) {
			return
		}
		i := 0
		for line := range bytes.SplitSeq(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), []byte("\n")) {
			if len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal(line, &want); err != nil {
				t.Fatalf("%q was accepted: %v", line, err)
			}
			for j, c := range columns {
				expect := "∅"
				if raw, ok := want[c]; ok && string(raw) != "null" {
					expect = string(raw)
					if raw[0] == '"' {
						json.Unmarshal(raw, &expect)
					}
				}
				if rows[i][j] != expect {
					t.Fatalf("%q, key %q: %q, want %q", line, c, rows[i][j], expect)
				}
			}
			i++
		}
		if i != len(rows) {
			t.Fatalf("%d rows, want %d", len(rows), i)
		}
	})
}
