package watch

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// A reference of one column has no pairs, whatever a file says about their largest statistic.
func TestReferenceWithoutPairs(t *testing.T) {
	s := &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Scale: 1}}}
	ws := Schema(s)
	x, r := dense.New[float64](500, ws.Width()), rand.New(rand.NewPCG(1, 2))
	for i := range x.Rows {
		x.Set(i, 0, r.NormFloat64())
	}
	ref, err := New(ws, x, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := ref.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["maximum"], fields["tests"] = map[string]any{"Mode": -1e3, "Scale": 1, "From": -1e3, "Excess": 1}, 1
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if ref, err = Read(text, s); err != nil {
		t.Fatal(err)
	}
	m := ref.Monitor()
	if err := m.Add(x, dense.Matrix[float64]{}); err != nil {
		t.Fatal(err)
	}
	if out, err := m.Report(0); err != nil || out.Relation != "" {
		t.Errorf("%+v, %v", out, err)
	}
}
