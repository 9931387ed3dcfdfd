package serve

import (
	"html"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// fillTexts puts a text into every string that can be reached, and two elements into every slice.
func fillTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTexts(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillTexts(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fillTexts(v.Field(i), text)
			}
		}
	}
}

// Whatever text the page shows, none becomes HTML: names of models, columns, levels and targets, cells, messages.
func TestPageEscapes(t *testing.T) {
	const odd = `</textarea></title>"'><script>alert(1)</script>&`
	var v pageView
	fillTexts(reflect.ValueOf(&v).Elem(), odd)
	v.Info.Fields = append(v.Info.Fields, data.Field{Name: "x", Kind: data.Numeric, Mean: 1, Scale: 2},
		data.Field{Name: "many", Levels: strings.Split("abcdefghijklmnop", "")})
	var b page
	v.write(&b)
	text := b.String()
	if strings.Contains(text, "alert(1)</script>") || strings.Contains(text, odd) {
		t.Error("a text became HTML")
	}
	// Title, heading, kind and task, 2 targets, rows, 2 × 2 for options, message, 2 columns, 4 cells, 2 × (name, kind,
	// 2 levels), 2 identifiers, loaded, sha256; 2 × (name, hint, 2 choices) of fields, name of the first score, 2 of
	// scores, what they are of, when it was fitted; 2 places of surprises, whose other texts are quoted; the kind of
	// metric. Names of its columns are cut.
	if n := strings.Count(text, html.EscapeString(odd)); n != 1+1+2+2+1+4+1+2+4+8+2+1+1+8+1+2+1+1+2+1 {
		t.Errorf("%d texts", n)
	}
	for _, says := range []string{"<td>1 ± 2</td>", "<td>a, b, c, d, e, f, g, h, i, j, k, l, …</td>", "Row 7: ",
		"reads (4)"} {
		if !strings.Contains(text, says) {
			t.Errorf("no %q", says)
		}
	}
}

// The figure has a bar for every column, the longest for the first, and says what it shows.
func TestMetricFigure(t *testing.T) {
	v := pageView{Metric: &machine.Metric{Kind: "full½", Rounds: 2, Rows: 500, Alike: 0.97,
		Columns: []machine.MetricColumn{{Name: "temperature", Value: 0.6}, {Name: strings.Repeat("n", 40), Value: 0.15},
			{Name: "<b>", Value: 0}}}}
	var p page
	v.metric(&p)
	text := p.String()
	for _, says := range []string{"2 rounds from 500 rows (full½)", "have a cosine of 0.97 (1: equal)",
		">temperature</text>",
		`width="240.0"`, `width="60.0"`, `width="0.0"`, "60.0 %", strings.Repeat("n", 23) + "…<", "&lt;b&gt;",
		`height="66"`} {
		if !strings.Contains(text, says) {
			t.Errorf("no %q in %s", says, text)
		}
	}
	p.Reset()
	v.Metric = nil
	if v.metric(&p); p.Len() > 0 {
		t.Errorf("%s without a metric", p.String())
	}
}
