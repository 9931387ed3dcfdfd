package backend_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/gomlx/backend"
)

// Without a plugin there is a backend at once, and a line that says which and what would be faster.
func TestGoWithoutPlugin(t *testing.T) {
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOMLX_BACKEND", "")
	b, line, err := backend.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	if !strings.Contains(line, "Go") || !strings.Contains(line, ";") {
		t.Errorf("it says %q", line)
	}
}

func TestUnknownBackendIsAnError(t *testing.T) {
	for _, config := range []string{"nosuch", "xla:nosuch"} {
		if b, _, err := backend.Open(config); err == nil || b != nil {
			t.Errorf("%s: %v, %v", config, b, err)
		} else if !strings.Contains(err.Error(), config) {
			t.Errorf("%s: %v does not name it", config, err)
		}
	}
}

// Standard output is for results.
func TestOpenPrintsNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdout
	os.Stdout = w
	b, _, err := backend.Open("go")
	os.Stdout = was
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	b.Finalize()
	if said, err := io.ReadAll(r); err != nil || len(said) > 0 {
		t.Errorf("it prints %q, %v", said, err)
	}
}
