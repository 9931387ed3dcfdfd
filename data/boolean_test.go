package data_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
)

type truthRow struct {
	Flag  bool    `parquet:"flag"`
	Maybe *bool   `parquet:"maybe,optional"`
	Const bool    `parquet:"const"`
	X     float64 `parquet:"x"`
	Class bool    `parquet:"class"`
}

// truthTables is one table in three formats.
func truthTables(t *testing.T) map[string]data.Source {
	t.Helper()
	var rows []truthRow
	csv, json := "flag,maybe,const,x,class\n", ""
	title := func(b bool) string { return map[bool]string{false: "False", true: "True"}[b] }
	for i := range 40 {
		r := truthRow{i%3 == 0, nil, true, float64(i) / 4, i%5 < 2}
		maybe, upper := "null", ""
		if i%4 > 0 {
			b := i%7 < 3
			r.Maybe, maybe, upper = &b, fmt.Sprint(b), strings.ToUpper(fmt.Sprint(b))
		}
		rows = append(rows, r)
		csv += fmt.Sprintf("%s,%s,TRUE,%g,%s\n", title(r.Flag), upper, r.X, title(r.Class))
		json += fmt.Sprintf(`{"flag":%v,"maybe":%s,"const":true,"x":%g,"class":%v}`+"\n", r.Flag, maybe, r.X, r.Class)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	out := map[string]data.Source{}
	var err error
	if out["parquet"], err = parquet.Open(path, data.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"csv": csv, "ndjson": json} {
		if out[name], err = text.OpenBytes("x."+name, []byte(content), data.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Truth values are one type, whatever the format of the fit and of later tables.
func TestBooleansAcrossFormats(t *testing.T) {
	tables := truthTables(t)
	var fields []data.Field
	var x, y any
	for name, src := range tables {
		s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"class"}})
		if err != nil {
			t.Fatal(err)
		}
		if fields == nil {
			fields = s.Fields
			if len(fields) != 3 || fields[0].Kind != data.Boolean || fields[1].Kind != data.Boolean ||
				!fields[1].Missing || s.Width() != 4 {
				t.Fatalf("%+v", fields)
			}
		}
		if !reflect.DeepEqual(s.Fields, fields) || !reflect.DeepEqual(s.Ignored, []string{"const"}) {
			t.Errorf("%s: %+v, %q; %+v", name, s.Fields, s.Ignored, sum)
		}
		if got := strings.ToLower(strings.Join(s.Targets[0].Classes, " ")); got != "false true" {
			t.Errorf("%s: classes %q", name, s.Targets[0].Classes)
		}
		for other, src := range tables {
			gx, gy, err := encodeSource(src, s, true, 7)
			if err != nil {
				t.Fatalf("%s by the schema of %s: %v", other, name, err)
			}
			if x == nil {
				x, y = gx.Data, gy.Data
			}
			if !reflect.DeepEqual(gx.Data, x) || !reflect.DeepEqual(gy.Data, y) {
				t.Errorf("%s by the schema of %s differs", other, name)
			}
		}
	}
	s, _, err := data.Learn(tables["csv"], data.LearnOptions{Targets: []string{"class"}, Categorical: []string{"flag"}})
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := encodeSource(tables["csv"], s, true, 100)
	for name, src := range tables { // levels too
		if got, _, err := encodeSource(src, s, true, 100); err != nil || !reflect.DeepEqual(got.Data, want.Data) {
			t.Errorf("levels of %s differ, %v", name, err)
		}
	}
	src, err := text.OpenBytes("n.csv", []byte("flag,maybe,x\n1,0,3\nfalse,,4\n"), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	learned, _, _ := data.Learn(tables["parquet"], data.LearnOptions{Targets: []string{"class"}})
	if got, _, err := encodeSource(src, learned, false, 10); err != nil || got.At(0, 0) <= 0 || got.At(1, 0) >= 0 {
		t.Errorf("0 and 1: %v, %v", got, err)
	}
	for _, content := range []string{"flag,maybe,x\nyes,true,3\n", "flag,maybe,x\n2,true,3\n"} {
		src, _ := text.OpenBytes("n.csv", []byte(content), data.Options{})
		_, _, err := encodeSource(src, learned, false, 10)
		if err == nil || !strings.Contains(err.Error(), "want true or false") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Keys of more digits than float64 holds stay apart.
func TestLongIntegers(t *testing.T) {
	content := "key,y\n"
	for i := range 40 {
		content += fmt.Sprintf("%d,%d\n", 9007199254740992+i%2, i%2)
	}
	src, err := text.OpenBytes("x.csv", []byte(content), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Categorical: []string{"key"}})
	if err != nil || len(s.Fields[0].Levels) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	x, _, err := encodeSource(src, s, true, 100)
	if err != nil || x.At(0, 0) == x.At(1, 0) {
		t.Errorf("%v, %v", x.Data[:6], err)
	}
}
