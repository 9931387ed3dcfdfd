package namedjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Deep int `json:"deep"`
}

// own decodes itself, through Decode.
type own struct{ V inner }

func (o *own) UnmarshalJSON(b []byte) error { return Decode(b, &o.V) }
func (o own) MarshalJSON() ([]byte, error)  { return json.Marshal(o.V) }

type embedded struct {
	E float64 `json:"e"`
}

type value struct {
	embedded
	K     int     `json:"k,omitempty"`
	List  []inner `json:"list,omitempty"`
	Own   own     `json:"own,omitzero"`
	Bare  []int
	Other *inner `json:"other,omitempty"`
	Not   int    `json:"-"`
}

func TestDecode(t *testing.T) {
	var v value
	text := `{"k":2,"e":1.5,"list":[{"deep":1},{"deep":2}],"own":{"deep":3},"Bare":[4],"other":{"deep":5}} `
	if err := Decode([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	want := value{embedded{1.5}, 2, []inner{{1}, {2}}, own{inner{3}}, []int{4}, &inner{5}, 0}
	if !reflect.DeepEqual(v, want) {
		t.Errorf("%+v", v)
	}
	for text, says := range map[string]string{
		`{"K":2}`:                          `unknown field "K"; valid fields: e, k, list, own, Bare, other`,
		`{"q":2}`:                          `unknown field "q"`,
		`{"E":2}`:                          `unknown field "E"`,
		`{"bare":[1]}`:                     `unknown field "bare"`,
		`{"Not":2}`:                        `unknown field "Not"`,
		`{"embedded":{}}`:                  `unknown field "embedded"`,
		`{"list":[{"deep":1},{"Deep":1}]}`: `unknown field "Deep"; valid fields: deep`,
		`{"own":{"Deep":1}}`:               `unknown field "Deep"`,
		`{"other":{"DEEP":1}}`:             `unknown field "DEEP"`,
		`{"k":1,"k":2}`:                    `field "k" is there twice`,
		`{"list":[{"deep":1,"deep":1}]}`:   `field "deep" is there twice`,
		`{"own":{"deep":1,"deep":1}}`:      `field "deep" is there twice`,
		`{"k":1} 2`:                        "more after",
		`{"k":1}}`:                         "more after",
		`{"k":1`:                           "unexpected EOF",
		``:                                 "unexpected EOF",
		`{"k":1.5}`:                        "cannot unmarshal",
		`[1]`:                              "cannot unmarshal",
		`{"k" 1}`:                          "invalid character",
	} {
		var v value
		if err := Decode([]byte(text), &v); !errors.Is(err, ErrFields) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrFields and %q", text, err, says)
		}
	}
}

func TestSplitAndEncode(t *testing.T) {
	name, body, err := Split([]byte(`{"k":1,"name":"a\"b","list":[{"name":"inner"}]}`))
	if err != nil || name != `a"b` || string(body) != `{"k":1,"list":[{"name":"inner"}]}` {
		t.Errorf("%q, %s, %v", name, body, err)
	}
	if name, body, err := Split([]byte(`{}`)); name != "" || string(body) != "{}" || err != nil {
		t.Errorf("no fields: %q, %s, %v", name, body, err)
	}
	for _, text := range []string{`null`, `[]`, `3`, `{"name":1}`, `{"name":"a","name":"b"}`, `{"name":"a"} {}`, `{`,
		``} {
		if _, _, err := Split([]byte(text)); !errors.Is(err, ErrFields) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for want, v := range map[string]any{`{"name":"x"}`: struct{}{}, `{"name":"x","deep":4}`: inner{4}} {
		if got, err := Encode("x", v); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// Whatever is accepted is one object without repeated fields, and means the same to encoding/json.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"k":2,"own":{"deep":1}}`, `{"K":2}`, `{"k":1,"k":2}`,
		`{"list":[{"deep":1}],"Bare":[]}`,
		`{"k":1} x`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v, loose value
		if Decode(data, &v) != nil {
			return
		}
		if err := json.Unmarshal(data, &loose); err != nil || !reflect.DeepEqual(v, loose) {
			t.Fatalf("%s: %+v, encoding/json says %+v, %v", data, v, loose, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(again, new(value)); err != nil {
			t.Fatalf("%s was written as %s: %v", data, again, err)
		}
	})
}
