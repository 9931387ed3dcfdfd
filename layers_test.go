package randfeat_test

import (
	"os/exec"
	"strings"
	"testing"
)

// layers orders the packages from the bottom: a package may import only packages of the lines above its own. Nested
// modules are not listed.
var layers = []string{
	"dense",
	"internal/buf internal/cell internal/figure internal/httpd/httpdtest " +
		"internal/localfile internal/namedjson internal/par " +
		"internal/rng internal/seal internal/special internal/stattest internal/suggest/similar " +
		"internal/tensorfile",
	"internal/httpd internal/kern internal/suggest",
	"data/internal/charset internal/npy internal/omega",
	"coupling data internal/linalg kernel",
	"data/internal/raw data/parquet internal/datasets internal/forms internal/plan",
	"data/internal/array data/internal/datatest data/text internal/krr machine/internal/metric theory",
	"data/internal/sheet family internal/exec",
	"data/files .",
	"attention internal/stattest/cases randfeattest",
	"attention/centroid attention/linear internal/heads machine machine/trees sampling",
	"attention/choose internal/calc machine/tabular machine/watch",
	"machine/serve",
	"advise machine/parts",
	"web/explorer/internal/model",
	"web/explorer",
	"cmd/randfeat/internal/cli",
	"cmd/randfeat/internal/crossover cmd/randfeat/internal/mapflags cmd/randfeat/internal/qkv " +
		"cmd/randfeat/internal/tableflags",
	"cmd/randfeat/internal/attend cmd/randfeat/internal/catalog cmd/randfeat/internal/kernels cmd/randfeat/internal/samples " +
		"cmd/randfeat/internal/serving cmd/randfeat/internal/tables",
	"cmd/randfeat/internal/advising",
	"cmd/randfeat web/explorer/build",
}

func TestImportsPointDownward(t *testing.T) {
	const module = "github.com/randfeat/randfeat"
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}",
		"./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	layer := map[string]int{}
	for i, names := range layers {
		for _, name := range strings.Fields(names) {
			layer[name] = i
		}
	}
	name := func(path string) string {
		if path == module {
			return "."
		}
		return strings.TrimPrefix(path, module+"/")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		at := name(fields[0])
		here, ok := layer[at]
		if !ok {
			t.Errorf("package %q has no layer: add it to the list in this test", at)
		}
		seen[at] = true
		for _, imp := range fields[1:] {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if below := layer[name(imp)]; below >= here {
				t.Errorf("%s (layer %d) imports %s (layer %d)", at, here, name(imp), below)
			}
		}
	}
	for at := range layer {
		if !seen[at] {
			t.Errorf("the list has %q, go list does not", at)
		}
	}
}
