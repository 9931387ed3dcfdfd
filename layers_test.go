package randfeat_test

import (
	"os/exec"
	"strings"
	"testing"
)

// layers orders the packages: a package may import only packages of lower layers. Nested modules are not listed.
var layers = map[string]float64{
	"dense":               0,
	"internal/kern":       1,
	"internal/par":        1,
	"internal/rng":        1,
	"internal/special":    1,
	"internal/stattest":   1,
	"internal/tensorfile": 1,
	"coupling":            2,
	"data":                2,
	"internal/linalg":     2,
	"data/parquet":        3,
	"kernel":              2,
	"internal/plan":       3,
	"theory/forms":        2.5, // reads the pair laws of coupling, serves theory
	"theory":              3,
	"family":              4,
	"internal/exec":       4,
	"":                    5,
	"randfeattest":        6,
	"attention":           6,
	"internal/calc":       7,
	"machine":             7,
	"machine/auto":        8,
	"machine/serve":       8,
	"cmd/randfeat":        9,
}

func TestImportsPointDownward(t *testing.T) {
	const module = "github.com/randfeat/randfeat"
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(strings.TrimPrefix(fields[0], module), "/")
		layer, ok := layers[name]
		if !ok {
			t.Errorf("package %q has no layer: add it to the list in this test", name)
		}
		seen++
		for _, imp := range fields[1:] {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			below := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			if layers[below] >= layer {
				t.Errorf("%s (layer %v) imports %s (layer %v)", name, layer, below, layers[below])
			}
		}
	}
	if seen < len(layers)-1 {
		t.Errorf("go list named %d packages, the list has %d", seen, len(layers))
	}
}
