package serve

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// wide is a model of 62 columns with 1024 projections.
func wide(b *testing.B) *machine.Model {
	const d, n = 62, 200
	x, y := dense.New[float64](n, d), dense.New[float64](n, 1)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x.Data {
		x.Data[i] = r.NormFloat64()
	}
	for i := range y.Data {
		y.Data[i] = r.NormFloat64()
	}
	ridge, err := machine.NewRidge(machine.Setup{Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 8},
		Family:   family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: d, M: 1024, Seed: 1}})
	check(b, err)
	check(b, ridge.Add(x, y))
	m, err := ridge.Model(1)
	check(b, err)
	m.Schema = &data.Schema{Targets: []data.Target{{Name: "y", Scale: 1}}}
	for j := range d {
		m.Schema.Fields = append(m.Schema.Fields, data.Field{Name: fmt.Sprintf("column_%d", j), Kind: data.Numeric,
			Scale: 1})
	}
	return m
}

// BenchmarkPredict is a request of one row without the network.
func BenchmarkPredict(b *testing.B) {
	s := serverOf(b, wide(b), Options{})
	var cells []string
	for j := range 62 {
		cells = append(cells, fmt.Sprintf(`"column_%d":%.5f`, j, float64(j)/31-1))
	}
	body := `{"rows":[{` + strings.Join(cells, ",") + `}]}`
	b.ReportAllocs()
	for b.Loop() {
		if w := post(s, "/v1/predict", "application/json", body); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

func BenchmarkReload(b *testing.B) {
	s, err := New(saved(b, wide(b)), Options{})
	check(b, err)
	b.ReportAllocs()
	for b.Loop() {
		check(b, s.Reload())
	}
}
