package kern

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Generated assembly has a budget. A variant of a kernel earns its lines if it gains 5 % where it is used; loops that
// are rolled cost little.
func TestAssemblyLines(t *testing.T) {
	const most = 40_000
	files, err := filepath.Glob("*.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	lines := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte{'\n'})
	}
	if lines > most {
		t.Errorf("%d lines of assembly, at most %d are allowed", lines, most)
	}
}
