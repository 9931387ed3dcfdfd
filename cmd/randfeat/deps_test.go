package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The program stays small: packages that call methods by name at run time make the linker keep every exported method,
// and libraries that were left out for their weight must not come back through others.
func TestBinaryDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		for _, heavy := range []string{"html/template", "google.golang.org/protobuf/", "github.com/prometheus/",
			"gonum.org/v1/plot",
			"github.com/parquet-go/parquet-go/variant", "encoding/gob", "net/http/pprof", "image/png"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the program depends on %s", path)
			}
		}
		if path == "github.com/parquet-go/parquet-go" {
			t.Errorf("the program depends on the root of parquet-go, which brings protobuf")
		}
	}
}
