package hub

import (
	"os"
	"path/filepath"
	"testing"
)

// GGUF files beside the files of a model are models of their own: rm of the folder leaves them.
func TestRemoveKeepsOtherModels(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RFM_MODELS", dir)
	folder := filepath.Join(dir, "o", "m")
	if err := os.MkdirAll(filepath.Join(folder, "1_Pooling"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "1_Pooling/config.json", "small.gguf"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := List()
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := Remove("o/m"); err != nil {
		t.Fatal(err)
	}
	if list, err = List(); err != nil || len(list) != 1 || list[0].Name != "o/m/small.gguf" {
		t.Errorf("%v, %v", list, err)
	}
	if err := Remove("o/m/small.gguf"); err != nil {
		t.Fatal(err)
	}
	if list, err = List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// A revision is joined to addresses: it names no other one.
func TestRevisions(t *testing.T) {
	for name, want := range map[string]bool{"main": true, "v1.0": true, "refs/pr/1": true, "c0ffee": true, "": false,
		"..": false, "../../x": false, "a/../b": false, "/x": false, "a?b": false} {
		if validRevision.MatchString(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
