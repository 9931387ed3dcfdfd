package main

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/models/internal/tiny"
)

// A name stands for the path of a model once it was downloaded, until it is removed.
func TestPullCommand(t *testing.T) {
	folder := tiny.Folder(t, "bert")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := strings.CutPrefix(r.URL.Path, "/o/m/resolve/c0/"); ok {
			http.ServeFile(w, r, filepath.Join(folder, name))
			return
		}
		var list []map[string]any
		for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
			b, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Error(err)
			}
			sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
			list = append(list, map[string]any{"rfilename": name, "size": len(b), "blobId": hex.EncodeToString(sum[:])})
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": "c0", "siblings": list})
	}))
	defer server.Close()
	dir := t.TempDir()
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("RFM_MODELS", dir)
	if code, _, errs := rfm(t, "a text\n", "embed", "m"); code != 1 || !strings.Contains(errs, "rfm pull OWNER/NAME") {
		t.Errorf("%d, %s", code, errs)
	}
	if out := done(t, "", "pull", "o/m"); out != filepath.Join(dir, "o", "m")+"\n" {
		t.Error(out)
	}
	want := done(t, "a text\n", "embed", folder)
	for _, name := range []string{"o/m", "m"} {
		if got := done(t, "a text\n", "embed", name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if out := done(t, "", "list"); !strings.HasSuffix(out, " MB  o/m\n") {
		t.Error(out)
	}
	done(t, "", "rm", "m")
	if out := done(t, "", "list"); out != "" {
		t.Error(out)
	}
	if code, _, errs := rfm(t, "", "pull", "m"); code != 2 || !strings.Contains(errs, "OWNER/NAME") {
		t.Errorf("%d, %s", code, errs)
	}
}
