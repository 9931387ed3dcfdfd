package explorer

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/randfeat/randfeat/internal/packed"
)

var update = flag.Bool("update", false, "write page.json.gz")

// The embedded page is the folder page.
func TestPage(t *testing.T) {
	names, err := filepath.Glob("page/*")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	want := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want[filepath.Base(name)] = string(b)
	}
	if *update {
		if pages, err = packed.Encode(want); err == nil {
			err = os.WriteFile("page.json.gz", pages, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var got map[string]string
	if err := packed.Decode(&got, pages); err != nil || !maps.Equal(got, want) {
		t.Errorf("page.json.gz is not the folder page (%v): run go test ./web/explorer -run TestPage -update", err)
	}
}
