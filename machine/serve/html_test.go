package serve

import (
	"html"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
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
	v.One = false
	v.write(&b)
	text := b.String()
	if strings.Contains(text, "alert(1)</script>") || strings.Contains(text, odd) {
		t.Error("a text became HTML")
	}
	// The page of one row and that of many: whatever is shown is there.
	if n := strings.Count(text, html.EscapeString(odd)); n != 106 {
		t.Errorf("%d texts", n)
	}
	for _, says := range []string{"<td>1 ± 2</td>", "<td>a, b, c, d, e, f, g, h, i, j, k, l, …</td>", "Row 7: ",
		"reads (4)"} {
		if !strings.Contains(text, says) {
			t.Errorf("no %q", says)
		}
	}
}
