package tables

import (
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// inspect names the map of a model as fit --map does.
func TestInspectNamesMap(t *testing.T) {
	for _, c := range []struct {
		family     family.Family
		m          int
		name, line string
	}{
		{family.Landmarks{}, 50, "exact", "exact kernel with all 50 rows"},
		{family.Landmarks{}, 20, "nystrom", "20 Nyström features from as many landmarks, seed 3"},
		{family.Positive{}, 20, "random", "20 random features: positive × iid, 20 projections, seed 3"},
		{family.Positive{}, 50, "random", "50 random features: positive × iid, 50 projections, seed 3"},
	} {
		spec := randfeat.Spec{Family: c.family, Coupling: coupling.IID{}, Dim: 2, M: c.m, Seed: 3}
		m := &machine.Model{Rows: 50, Spec: spec}
		r := InspectResult{Map: mapOf(m), Features: c.m, Spec: spec, Tensors: []machine.TensorInfo{{Name: "weights"}}}
		var b strings.Builder
		if err := r.print(&b, 0); err != nil {
			t.Fatal(err)
		}
		if r.Map != c.name || !strings.Contains(b.String(), c.line) || strings.Contains(b.String(), "landmarks ×") {
			t.Errorf("%s, want %s:\n%s", r.Map, c.name, b.String())
		}
	}
}
