package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// source serves one file in the ways that servers have.
type source struct {
	content  []byte
	cut      int  // end every answer after so many bytes; 0: never
	noRange  bool // answer 200 to everything
	status   int  // answer this
	failures int  // to so many requests with 503 first
	hang     bool // send a part, then nothing
	endless  bool // send more than is taken
	shift    int  // answer ranges from another offset
	requests atomic.Int32
	ranges   atomic.Int32
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(s.requests.Add(1))
	switch {
	case n <= s.failures:
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	case s.status != 0:
		http.Error(w, "no", s.status)
		return
	case s.endless:
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && !s.noRange {
		s.ranges.Add(1)
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		if from >= len(s.content) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		from += s.shift
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.content)-1, len(s.content)))
	}
	rest := s.content[from:]
	w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if s.cut > 0 && s.cut < len(rest) {
		w.Write(rest[:s.cut])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if s.hang {
		w.Write(rest[:len(rest)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	w.Write(rest)
}

// table is content of n bytes, and a file that is made of it.
func table(n int) ([]byte, File) {
	content := make([]byte, 0, n+16)
	for i := 0; len(content) < n; i++ {
		content = fmt.Appendf(content, "%d,%d\n", i, i*i%1009)
	}
	return content, File{Path: "set/table.csv", SHA256: sum(content), Bytes: int64(len(content))}
}

func fetcher() *Fetcher { return &Fetcher{Tries: 3, Pause: time.Millisecond, Stall: 5 * time.Second} }

// left lists the folder of the file after a fetch.
func left(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "set"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestFetch(t *testing.T) {
	content, file := table(100_000)
	cases := []struct {
		name     string
		source   *source
		wants    string // part of the error; "": success
		requests int32
	}{
		{"plain", &source{}, "", 1},
		{"cut", &source{cut: 30_000}, "", 4},
		{"cut-without-ranges", &source{cut: 30_000, noRange: true}, "EOF", 4}, // one that came further, three in vain
		{"busy", &source{failures: 2}, "", 3},
		{"always-busy", &source{failures: 99}, "503", 3},
		{"absent", &source{status: http.StatusNotFound}, "404", 1},
		{"denied", &source{status: http.StatusForbidden}, "403", 1},
		{"other-content", &source{content: content[1:]}, "the checksum is wrong", 1},
		{"endless", &source{endless: true}, "more than", 1},
		{"stalls", &source{hang: true}, "no byte for", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.source.content == nil {
				c.source.content = content
			}
			server := httptest.NewServer(c.source)
			defer server.Close()
			dir, f, fetch := t.TempDir(), file, fetcher()
			if c.source.hang {
				fetch.Stall = 20 * time.Millisecond
			}
			f.URLs = []string{server.URL + "/table.csv"}
			_, err := fetch.Fetch(context.Background(), dir, f)
			if n := c.source.requests.Load(); c.requests != 0 && n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if c.wants != "" {
				if err == nil || !strings.Contains(err.Error(), c.wants) || !strings.Contains(err.Error(), f.Path) {
					t.Errorf("%v, want %q", err, c.wants)
				}
				if state, err := f.Verify(dir); state != Missing || err != nil {
					t.Errorf("after a failure the file is %s (%v)", state, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(f.In(dir)); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes (%v)", len(got), err)
			}
			if names := left(t, dir); len(names) != 1 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// The next process continues an interrupted download, or discards it if it belongs to another file.
func TestFetchContinues(t *testing.T) {
	content, f := table(100_000)
	for _, c := range []struct {
		name     string
		spoil    func(part []byte) []byte
		change   func(*source)
		requests int32
		bytes    int
	}{
		{name: "part", requests: 1, bytes: len(content) - 40_000},
		{name: "no-ranges", change: func(s *source) { s.noRange = true }, requests: 1, bytes: len(content)},
		{name: "other", spoil: func(b []byte) []byte { b[7]++; return b }, requests: 2, bytes: 2*len(content) - 40_000},
		{name: "complete", spoil: func([]byte) []byte { return content }, requests: 2, bytes: len(content)},
		{name: "other-range", change: func(s *source) { s.shift = 5 }, requests: 2, bytes: len(content)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &source{content: content, cut: 40_000}
			server := httptest.NewServer(s)
			defer server.Close()
			dir := t.TempDir()
			f.URLs = []string{server.URL + "/table.csv"}
			ctx, cancel := context.WithCancel(context.Background())
			fetch := fetcher()
			fetch.Progress = func(_ File, n int64) {
				if n == 40_000 {
					cancel()
				}
			}
			if _, err := fetch.Fetch(ctx, dir, f); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, want a cancellation", err)
			}
			names := left(t, dir)
			if len(names) != 1 || !strings.HasSuffix(names[0], ".part") {
				t.Fatalf("left: %v", names)
			}
			path := filepath.Join(dir, "set", names[0])
			part, err := os.ReadFile(path)
			if err != nil || len(part) != 40_000 {
				t.Fatalf("the part has %d bytes (%v)", len(part), err)
			}
			if c.spoil != nil {
				if err := os.WriteFile(path, c.spoil(part), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			s.cut = 0
			s.requests.Store(0)
			if c.change != nil {
				c.change(s)
			}
			n, err := fetcher().Fetch(context.Background(), dir, f)
			if err != nil || n != int64(c.bytes) || s.requests.Load() != c.requests {
				t.Errorf("%d bytes in %d requests (%v), want %d in %d", n, s.requests.Load(), err, c.bytes, c.requests)
			}
			if state, err := f.Verify(dir); state != OK || err != nil {
				t.Errorf("the file is %s (%v)", state, err)
			}
			if names := left(t, dir); len(names) != 1 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

func TestFetchLeavesOtherFilesAlone(t *testing.T) {
	content, f := table(1000)
	s := &source{content: content}
	server := httptest.NewServer(s)
	defer server.Close()
	f.URLs = []string{server.URL}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "set"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.In(dir), []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := fetcher().Fetch(context.Background(), dir, f); err == nil ||
		!strings.Contains(err.Error(), "move it away") {
		t.Errorf("a file that differs: %v", err)
	}
	if err := os.WriteFile(f.In(dir), content, 0o666); err != nil {
		t.Fatal(err)
	}
	if n, err := fetcher().Fetch(context.Background(), dir, f); err != nil || n != 0 || s.requests.Load() != 0 {
		t.Errorf("a file that is there: %d bytes, %d requests (%v)", n, s.requests.Load(), err)
	}
}

// Redirects are followed, but not for ever, and not out of https.
func TestFetchRedirects(t *testing.T) {
	content, f := table(1000)
	plain := httptest.NewServer(&source{content: content})
	defer plain.Close()
	mux := http.NewServeMux()
	mux.Handle("/file", &source{content: content})
	mux.Handle("/once", http.RedirectHandler("/file", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/down", http.RedirectHandler(plain.URL, http.StatusFound))
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	for path, wants := range map[string]string{"/once": "", "/loop": "redirected more than",
		"/down": "redirected from https to http"} {
		fetch := fetcher()
		fetch.Client = server.Client()
		fetch.Client.CheckRedirect = defaultClient.CheckRedirect
		f.URLs = []string{server.URL + path}
		_, err := fetch.Fetch(context.Background(), t.TempDir(), f)
		if wants == "" && err != nil || wants != "" && (err == nil || !strings.Contains(err.Error(), wants)) {
			t.Errorf("%s: %v, want %q", path, err, wants)
		}
	}
}

// A second address is tried where the first fails, other forms are converted, and folders of files need no conversion.
func TestFetchForms(t *testing.T) {
	content, _ := table(1000)
	mux := http.NewServeMux()
	mux.Handle("/gone", &source{status: http.StatusGone})
	mux.Handle("/named.csv", &source{content: append([]byte("a,b\n"), content...)})
	mux.Handle("/folder/set/table.csv.gz", &source{content: zipped(t, content, 1)})
	server := httptest.NewServer(mux)
	defer server.Close()
	f := File{Path: "set/table.csv.gz", SHA256: sum([]byte("compressed otherwise")), Content: sum(content),
		URLs: []string{server.URL + "/gone", server.URL + "/named.csv"}, convert: headless}
	for _, from := range []string{"", server.URL + "/folder"} {
		fetch, dir := fetcher(), t.TempDir()
		fetch.From = from
		if _, err := fetch.Fetch(context.Background(), dir, f); err != nil {
			t.Errorf("from %q: %v", from, err)
		}
		if state, err := f.Verify(dir); state != OK || err != nil {
			t.Errorf("from %q: %s %v", from, state, err)
		}
	}
	f.URLs, f.Why = nil, "for some reason"
	if _, err := fetcher().Fetch(context.Background(), t.TempDir(), f); !errors.Is(err, ErrNoSource) ||
		!strings.Contains(err.Error(), "for some reason") {
		t.Errorf("without a source: %v", err)
	}
}

func TestConvert(t *testing.T) {
	for _, c := range []struct {
		name     string
		convert  func([]byte) ([]byte, error)
		in, want string
	}{
		{"ended", ended, "1,2\n3,4", "1,2\n3,4\n"},
		{"ended twice", ended, "1,2\n\n", "1,2\n"},
		{"headless", headless, "a,b\n1,2\n\n", "1,2\n"},
		{"unindented", unindented, "  a b\n  1  2 \n 3  4", "1  2\n3  4\n"},
		{"lastFirst", lastFirst, "1,2,x\n3,4,y\n", "x,1,2\ny,3,4\n"},
	} {
		if got, err := c.convert([]byte(c.in)); err != nil || string(got) != c.want {
			t.Errorf("%s: %q %v, want %q", c.name, got, err, c.want)
		}
	}
	for name, convert := range map[string]func([]byte) ([]byte, error){"headless": headless, "unindented": unindented,
		"lastFirst": lastFirst, "tableOfXY": tableOfXY} {
		if got, err := convert([]byte("no table")); err == nil {
			t.Errorf("%s makes %q of what is no table", name, got)
		}
	}
}

// The conversions give the files of the list, byte for byte, where a folder of the downloads is at hand: each under the
// path of its address without https://.
func TestConvertOriginals(t *testing.T) {
	dir := os.Getenv("RANDFEAT_DOWNLOADS")
	if dir == "" {
		t.Skip("RANDFEAT_DOWNLOADS is not set: it names a folder with what the addresses of the list serve")
	}
	for _, s := range List() {
		for _, f := range s.Files {
			for _, u := range f.URLs {
				in, err := os.Open(filepath.Join(dir, strings.TrimPrefix(u, "https://")))
				if err != nil {
					t.Logf("%s: not at hand", u)
					continue
				}
				b, err := io.ReadAll(in)
				in.Close()
				if err != nil {
					t.Fatal(err)
				}
				temp := t.TempDir()
				part := filepath.Join(temp, "part")
				if err := os.WriteFile(part, b, 0o666); err != nil {
					t.Fatal(err)
				}
				f.Path = filepath.Base(f.Path)
				if err := install(part, f.In(temp), f); err != nil {
					t.Errorf("%s: %v", u, err)
				} else {
					t.Logf("%s: ok", u)
				}
			}
		}
	}
}
