package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// server is a hub with one model. Large files come from another host, as on the real one.
type server struct {
	files  map[string]string
	wrong  string // a file whose contents do not have their hash
	cut    int    // bytes after which the next connections break; 0: none
	cuts   int    // connections that break
	gets   []string
	ranges []string
	tokens []string // that the other host gets
}

func start(t *testing.T, s *server) {
	t.Setenv("RFM_MODELS", t.TempDir())
	pause = time.Millisecond
	send := func(w http.ResponseWriter, r *http.Request, name string) {
		text := s.files[name]
		if name == s.wrong {
			text = strings.ToUpper(text)
		}
		if s.cuts > 0 && len(text) > s.cut {
			s.cuts--
			at := 0
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &at)
			if w.Header().Set("Content-Length", fmt.Sprint(len(text)-at)); at > 0 {
				w.WriteHeader(http.StatusPartialContent)
			}
			w.Write([]byte(text[at:min(len(text)-1, at+s.cut)]))
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		s.ranges = append(s.ranges, r.Header.Get("Range"))
		send(w, r, strings.TrimPrefix(r.URL.Path, "/"))
	}))
	t.Cleanup(other.Close)
	main := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/api/models/o/m/revision/main" && r.URL.RawQuery == "blobs=true" {
			var list []map[string]any
			for name, text := range s.files {
				sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))
				f := map[string]any{"rfilename": name, "size": len(text), "blobId": hex.EncodeToString(sum[:])}
				if len(text) > 1000 {
					sum := sha256.Sum256([]byte(text))
					f["lfs"], f["blobId"] = map[string]any{"sha256": hex.EncodeToString(sum[:])}, "of a pointer"
				}
				list = append(list, f)
			}
			json.NewEncoder(w).Encode(map[string]any{"sha": "c0ffee", "siblings": list})
			return
		}
		name, ok := strings.CutPrefix(r.URL.Path, "/o/m/resolve/c0ffee/")
		if _, there := s.files[name]; !ok || !there {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.gets = append(s.gets, name)
		if len(s.files[name]) > 1000 {
			// 127.0.0.1 and localhost are different hosts.
			http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+"/"+name, http.StatusFound)
			return
		}
		send(w, r, name)
	}))
	t.Cleanup(main.Close)
	t.Setenv("HF_ENDPOINT", main.URL)
	t.Setenv("HF_TOKEN", "secret")
}

func folder() map[string]string {
	return map[string]string{"config.json": "{}", "tokenizer.json": "{ }", "1_Pooling/config.json": "{  }",
		"model.safetensors": strings.Repeat("weights ", 9000), "pytorch_model.bin": "pickled", "../evil.json": "{}",
		"onnx/model.onnx": "graph"}
}

func TestPull(t *testing.T) {
	s := &server{files: folder(), cut: 30_000, cuts: 2}
	start(t, s)
	var most int64
	path, err := Pull(t.Context(), "o/m", Options{Progress: func(name string, done, of int64) {
		if name == "model.safetensors" && of == 72_000 {
			most = max(most, done)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range s.files {
		b, err := os.ReadFile(filepath.Join(path, name))
		if used := needed.MatchString(name); used != (err == nil) || used && string(b) != want {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if most != 72_000 || s.gets[len(s.gets)-1] != "config.json" ||
		strings.Join(s.ranges, " ") != " bytes=30000- bytes=60000-" || strings.Join(s.tokens, "") != "" {
		t.Errorf("progress to %d; files %q, ranges %q, tokens %q", most, s.gets, s.ranges, s.tokens)
	}
	// Nothing has changed, then one file has.
	n := len(s.gets)
	if _, err := Pull(t.Context(), "o/m", Options{}); err != nil || len(s.gets) != n {
		t.Errorf("%q again (%v)", s.gets[n:], err)
	}
	s.files["tokenizer.json"] = "[ ]"
	if _, err := Pull(t.Context(), "o/m", Options{}); err != nil || strings.Join(s.gets[n:], " ") !=
		"tokenizer.json config.json" {
		t.Errorf("%q (%v)", s.gets[n:], err)
	}
	list, err := List()
	if err != nil || len(list) != 1 || list[0] != (Model{"o/m", 2 + 3 + 4 + 72_000}) {
		t.Errorf("%v, %v", list, err)
	}
	for _, name := range []string{"o/m", "m"} {
		if p, err := Path(name); err != nil || p != path {
			t.Errorf("%s: %s, %v", name, p, err)
		}
	}
	if err := Remove("m"); err != nil {
		t.Error(err)
	}
	if _, err := Path("m"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A download that was interrupted goes on where it ended, and a folder that is not complete holds no model.
func TestInterrupted(t *testing.T) {
	s := &server{files: folder()}
	s.files["model.safetensors"] = strings.Repeat("weights ", 1<<20)
	start(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Pull(ctx, "o/m", Options{Progress: func(name string, done, of int64) {
		if name == "model.safetensors" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if list, err := List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := Pull(t.Context(), "o/m", Options{}); err != nil || !strings.HasPrefix(s.ranges[1], "bytes=") {
		t.Errorf("%q, %v", s.ranges, err)
	}
}

func TestGGUF(t *testing.T) {
	s := &server{files: map[string]string{"a-q4.gguf": "GGUF 4", "a-q8.gguf": "GGUF 8", "README.md": "#"}}
	start(t, s)
	if _, err := Pull(t.Context(), "o/m", Options{}); err == nil || !strings.Contains(err.Error(), "o/m/a-q8.gguf") {
		t.Error(err)
	}
	path, err := Pull(t.Context(), "o/m/a-q4.gguf", Options{})
	if err != nil || len(s.gets) != 1 {
		t.Fatal(err)
	}
	if p, err := Path("a-q4.gguf"); err != nil || p != path {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := Pull(t.Context(), "o/m/a-q8.gguf", Options{}); err != nil {
		t.Error(err)
	}
	if list, err := List(); err != nil || len(list) != 2 || list[1] != (Model{"o/m/a-q8.gguf", 6}) {
		t.Errorf("%v, %v", list, err)
	}
}

func TestRefused(t *testing.T) {
	s := &server{files: folder(), wrong: "model.safetensors"}
	start(t, s)
	for name, says := range map[string]string{"o/m": "model.safetensors: the contents do not have the hash",
		"o/other": "o/other: status 404", "m": "want OWNER/NAME", "../m": "want OWNER/NAME", "o/m/x.gguf": "neither",
		"o/m/../../x.gguf": "want OWNER/NAME"} {
		if _, err := Pull(t.Context(), name, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "o", "m", "model*")); err != nil || len(left) != 0 {
		t.Errorf("%q is left (%v)", left, err)
	}
	if _, err := Pull(t.Context(), "o/m", Options{Token: "wrong"}); err == nil ||
		!strings.Contains(err.Error(), "HF_TOKEN") {
		t.Error(err)
	}
	s.wrong, s.cut, s.cuts = "", 5000, 1000
	if _, err := Pull(t.Context(), "o/m", Options{}); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("a server that breaks every connection: %v", err)
	}
}
