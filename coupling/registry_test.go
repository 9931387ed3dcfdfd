package coupling_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
)

func TestRoundTrip(t *testing.T) {
	for want, c := range map[string]coupling.Coupling{
		`{"name":"iid"}`:                     coupling.IID{},
		`{"name":"orthogonal"}`:              coupling.Orthogonal{},
		`{"name":"orfprime"}`:                coupling.ORFPrime{},
		`{"name":"orfprime","sqrtDim":true}`: coupling.ORFPrime{SqrtDim: true},
		`{"name":"hadamard"}`:                coupling.Hadamard{},
		`{"name":"hadamard","k":2}`:          coupling.Hadamard{K: 2},
		`{"name":"givens","rotations":7}`:    coupling.Givens{Rotations: 7},
		`{"name":"simplex"}`:                 coupling.Simplex{},
		`{"name":"fastsimplex","k":1}`:       coupling.FastSimplex{K: 1},
		`{"name":"simplexplus","sweeps":3}`:  coupling.SimplexPlus{Sweeps: 3},
		`{"name":"optimised","v":0.1}`:       coupling.Optimised{V: 0.1},
		`{"name":"halton"}`:                  coupling.Halton{},
		`{"name":"sobol"}`:                   coupling.Sobol{},
	} {
		text, err := coupling.Encode(c)
		if err != nil || string(text) != want {
			t.Errorf("%#v: %s, %v", c, text, err)
		}
		back, err := coupling.Decode(text)
		if err != nil || back != c {
			t.Errorf("%s: %#v, %v", text, back, err)
		}
		back, err = coupling.Parse("  " + string(text) + "\n")
		if err != nil || back != c {
			t.Errorf("Parse(%s): %#v, %v", text, back, err)
		}
	}
	if text, err := coupling.Encode(nil); err != nil || string(text) != `{"name":"iid"}` {
		t.Errorf("nil: %s, %v", text, err)
	}
}

// Every entry is complete, and its field names are those of the struct.
func TestList(t *testing.T) {
	infos := coupling.List()
	if len(infos) != 11 {
		t.Errorf("%d couplings", len(infos))
	}
	for _, i := range infos {
		if i.Name == "" || i.Summary == "" || i.Reference == "" || i.Cost == "" || len(i.Laws) == 0 {
			t.Errorf("incomplete: %+v", i)
		}
		c, err := coupling.Parse(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Name() != i.Name || !reflect.ValueOf(c).IsZero() {
			t.Errorf("%q parses to %#v", i.Name, c)
		}
		typ := reflect.TypeOf(c)
		if typ.NumField() != len(i.Fields) {
			t.Errorf("%s has %d fields, %d described", i.Name, typ.NumField(), len(i.Fields))
			continue
		}
		for k, f := range i.Fields {
			if tag, _, _ := strings.Cut(typ.Field(k).Tag.Get("json"), ","); tag != f.Name || f.Doc == "" {
				t.Errorf("%s: field %q described as %+v", i.Name, tag, f)
			}
		}
	}
	infos[0].Laws[0] = 99
	if coupling.List()[0].Laws[0] == 99 {
		t.Error("List shares memory")
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "valid names: iid, orthogonal",
		"orthogonl":                          "fastsimplex",
		"Simplex":                            "valid names",
		`{"name":"nope"}`:                    "valid names",
		`{"k":2}`:                            "valid names",
		`{"name":7}`:                         "name",
		`{"name":"hadamard","q":2}`:          `unknown field "q"; valid fields: k`,
		`{"name":"hadamard","K":2}`:          `unknown field "K"`,
		`{"name":"iid","k":2}`:               "no fields",
		`{"name":"hadamard","k":-2}`:         "K (",
		`{"name":"hadamard","k":1.5}`:        "hadamard",
		`{"name":"fastsimplex","k":9999}`:    "K (",
		`{"name":"givens","rotations":-1}`:   "Rotations",
		`{"name":"simplexplus","sweeps":-1}`: "Sweeps",
		`{"name":"optimised","v":-1}`:        "V (",
		`{"name":"hadamard"} x`:              "JSON",
		`{"name":"hadamard"`:                 "JSON",
	} {
		c, err := coupling.Parse(text)
		if err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %#v, %v; want an error with %q", text, c, err, want)
		}
	}
	if _, err := coupling.Decode([]byte("null")); err == nil {
		t.Error("null accepted")
	}
}

// foreign is a coupling of another package that borrows a name.
type foreign struct{}

func (foreign) Name() string { return "iid" }
func (foreign) Sample(int, int, coupling.Law, rand.Source) (coupling.Omega, error) {
	return coupling.Omega{}, nil
}

func TestEncodeErrors(t *testing.T) {
	for _, c := range []coupling.Coupling{foreign{}, &coupling.Hadamard{}, coupling.Hadamard{K: -1}, coupling.Optimised{V: math.NaN()}} {
		if text, err := coupling.Encode(c); err == nil {
			t.Errorf("%#v encoded as %s", c, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"iid"}`, `{"name":"hadamard","k":2}`, `{"name":"optimised","v":1e300}`, `{}`, `[1]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := coupling.Decode(data)
		if err != nil {
			return
		}
		text, err := coupling.Encode(c)
		if err != nil {
			t.Fatalf("%s decodes to %#v, which does not encode: %v", data, c, err)
		}
		if !json.Valid(text) {
			t.Fatalf("invalid JSON %s", text)
		}
		if back, err := coupling.Decode(text); err != nil || back != c {
			t.Fatalf("%s: %#v, %v", text, back, err)
		}
	})
}
