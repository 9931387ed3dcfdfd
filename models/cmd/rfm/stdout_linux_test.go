package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/models/internal/tiny"
)

// Embeddings are not lost in silence if stdout was closed when the program began: Go then has /dev/null for reading and
// writing. A shell's >/dev/null is a wish, and so is a file.
func TestClosedStdout(t *testing.T) {
	model, out := tiny.Folder(t, "bert"), t.TempDir()+"/out.npy"
	for _, c := range []struct {
		flag int
		args []string
		code int
	}{
		{os.O_RDWR, []string{"embed", model}, exitFailed},
		{os.O_RDWR, []string{"embed", model, "-o", out}, exitDone},
		{os.O_WRONLY, []string{"embed", model}, exitDone},
	} {
		f, err := os.OpenFile(os.DevNull, c.flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var errs strings.Builder
		code := run(context.Background(), strings.NewReader("a text\n"), f, &errs, c.args)
		lost := strings.Contains(errs.String(), "would be lost; name a file with -o")
		if code != c.code || lost != (code == exitFailed) {
			t.Errorf("rfm %q: exit %d, want %d: %s", c.args, code, c.code, &errs)
		}
	}
}
