package parts

import (
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// With all choices given and no rows held out, the model of tabular.Fit has the bytes of one by parts: over one file,
// many files, and many files that are cut. A density differs, since tabular.Fit calibrates it by folds.
func TestSameAsTabular(t *testing.T) {
	paths := regressionFiles(t, 9, 60)
	for name, src := range map[string]struct {
		paths []string
		size  int64
		units int
	}{"one file": {paths[:1], 0, 1}, "files": {paths, 0, 9}, "units": {paths, 700, 50}} {
		table, err := files.Open(src.paths, data.Options{UnitBytes: src.size})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(table.Units()); n < src.units {
			t.Fatalf("%s: %d units", name, n)
		}
		all := cases()
		for _, c := range []string{"regression", "multi-output", "classification", "gp", "smoother", "float32"} {
			o, ok := all[c]
			if !ok {
				t.Fatalf("no case %q", c)
			}
			o.Folds, o.Scaling, o.Map = 1, "standard", tabular.MapRandom
			if o.Kind == machine.KindSmoother {
				o.Map, o.Family = "", family.OPRF{A: -0.1}
			}
			m, _, err := tabular.Fit(t.Context(), table, o)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, c, err)
			}
			m.History = nil
			r, err := NewRun(table.Manifest(), Options{Options: o})
			if err != nil {
				t.Fatal(err)
			}
			byParts, _, err := r.Fit(t.Context())
			if err != nil {
				t.Fatalf("%s, %s: %v", name, c, err)
			}
			if digest(t, m) != digest(t, byParts) {
				t.Errorf("%s, %s: tabular.Fit gives another model", name, c)
			}
		}
	}
}
