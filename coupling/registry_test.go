package coupling_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
)

func TestRoundTrip(t *testing.T) {
	cases := map[string]coupling.Coupling{
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
	}
	each(func(name string, c coupling.Coupling, _ coupling.Info) { cases[name] = c })
	for want, c := range cases {
		text, err := coupling.Encode(c)
		if err != nil || string(text) != want {
			t.Errorf("%#v: %s, %v", c, text, err)
		}
		back, err := coupling.Parse(string(text))
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

// Every entry is complete, and its field names match the struct.
func TestList(t *testing.T) {
	infos := coupling.List()
	for _, i := range infos {
		if i.Name == "" || i.Summary == "" || i.Reference == "" || i.Cost == "" || len(i.Laws) == 0 ||
			len(i.Examples()) == 0 {
			t.Errorf("incomplete, or without examples: %+v", i)
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
	for _, k := range pairKinds() {
		plain := 0
		for _, i := range infos {
			if i.Plain && coupling.Pairs(i.Examples()[0], 5).Kind == k {
				plain++
			}
		}
		if k.Closed() && plain != 1 || !k.Closed() && plain > 0 {
			t.Errorf("%d couplings are Plain for the pair law %v: one is, if the law has a closed form", plain, k)
		}
	}
	if coupling.InfoOf(nil).Name != "iid" || coupling.InfoOf(foreign{}).Name != "" {
		t.Error("InfoOf")
	}
	infos[0].Laws[0] = 99
	if coupling.List()[0].Laws[0] == 99 {
		t.Error("List shares memory")
	}
}

func TestParseErrors(t *testing.T) {
	for text, c := range map[string]struct {
		says string
		want error
	}{
		"":                                   {"want one of iid, orthogonal", coupling.ErrName},
		"orthogonl":                          {"fastsimplex", coupling.ErrName},
		"Simplex":                            {"want one of", coupling.ErrName},
		`{"name":"nope"}`:                    {"want one of", coupling.ErrName},
		`{"k":2}`:                            {"no name", coupling.ErrName},
		`{"name":7}`:                         {"\"name\" is 7", coupling.ErrParam},
		`{"name":"hadamard","q":2}`:          {`unknown field "q"; valid fields: k`, coupling.ErrParam},
		`{"name":"hadamard","K":2}`:          {`unknown field "K"`, coupling.ErrParam},
		`{"Name":"hadamard"}`:                {"no name", coupling.ErrName},
		`{"name":"hadamard","k":2,"k":3}`:    {`field "k" is there twice`, coupling.ErrParam},
		`{"name":"hadamard","name":"iid"}`:   {`field "name" is there twice`, coupling.ErrParam},
		`{"name":"iid","k":2}`:               {"no fields", coupling.ErrParam},
		`{"name":"hadamard","k":-2}`:         {"K (", coupling.ErrParam},
		`{"name":"hadamard","k":1.5}`:        {"hadamard", coupling.ErrParam},
		`{"name":"fastsimplex","k":9999}`:    {"K (", coupling.ErrParam},
		`{"name":"givens","rotations":-1}`:   {"Rotations", coupling.ErrParam},
		`{"name":"simplexplus","sweeps":-1}`: {"Sweeps", coupling.ErrParam},
		`{"name":"optimised","v":-1}`:        {"V (", coupling.ErrParam},
		`{"name":"hadamard"} x`:              {"JSON", coupling.ErrParam},
		`{"name":"hadamard"`:                 {"JSON", coupling.ErrParam},
	} {
		got, err := coupling.Parse(text)
		if !errors.Is(err, c.want) || got != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %#v, %v; want %v with %q", text, got, err, c.want, c.says)
		}
	}
	if _, err := coupling.Parse("null"); err == nil {
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
	for _, c := range []coupling.Coupling{foreign{}, &coupling.Hadamard{}, coupling.Hadamard{K: -1},
		coupling.Optimised{V: math.NaN()}} {
		if text, err := coupling.Encode(c); err == nil {
			t.Errorf("%#v encoded as %s", c, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"iid"}`, `{"name":"hadamard","k":2}`, `{"name":"hadamard","K":2}`,
		`{"name":"iid","name":"iid"}`, `{"name":"optimised","v":1e300}`, `{}`, `[1]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := coupling.Parse(string(data))
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
		if back, err := coupling.Parse(string(text)); err != nil || back != c {
			t.Fatalf("%s: %#v, %v", text, back, err)
		}
	})
}

// pairKinds are the pair laws: those that have a name.
func pairKinds() (all []coupling.PairKind) {
	for k := coupling.PairKind(0); k.String() != fmt.Sprintf("PairKind(%d)", int(k)); k++ {
		all = append(all, k)
	}
	return all
}
