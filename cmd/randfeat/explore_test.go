package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/serving"
)

// The explorer serves one page on loopback, nothing else, and ends when told to.
func TestExplore(t *testing.T) {
	fails(t, exitMisuse, "not on loopback", "explore", "--addr", "0.0.0.0:0", "--no-open")
	fails(t, exitMisuse, "exclude", "explore", "-o", "x.html", "--no-open")
	fails(t, exitFailed, "does not exist", "explore", "--page", filepath.Join(t.TempDir(), "none.html"), "--no-open")
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, []byte("<!doctype html><title>x</title>"), 0o666); err != nil {
		t.Fatal(err)
	}
	at, stop := explore(t, "--page", page)
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "", 200}, {"HEAD", "", 200}, {"GET", "page.html", 404}, {"GET", "../", 404}, {"POST", "", 405}} {
		q, err := http.NewRequest(c.method, at.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.URL.Path = "/" + c.path
		a, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != c.status && !(c.path == "../" && a.StatusCode/100 == 3) {
			t.Errorf("%s /%s: %s", c.method, c.path, a.Status)
		}
		if c.status != 200 {
			continue
		}
		h := a.Header
		if h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors") ||
			c.method == "GET" && !strings.Contains(string(body), "<title>x") {
			t.Errorf("%s: %v %q", c.method, h, body)
		}
	}
	stop()
}

// explore starts the command on a free port; stop ends it.
func explore(t *testing.T, args ...string) (at serving.Exploring, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- runChecked(ctx, append([]string{"explore", "--addr", "127.0.0.1:0", "--no-open", "--json"}, args...),
			strings.NewReader(""), w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &at)
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return at, func() {
		cancel()
		if got := <-code; got != exitDone {
			t.Errorf("exit %d", got)
		}
	}
}

// An installed program needs nothing beside it: no page, no checkout, no go tool.
func TestExploreAnswers(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	at, stop := explore(t)
	defer stop()
	a, err := http.Get(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(a.Body)
	a.Body.Close()
	if a.StatusCode != 200 || !strings.Contains(string(page), "<title>randfeat explorer") ||
		!strings.Contains(string(page), "connect-src 'self'") {
		t.Errorf("%s %.300s", a.Status, page)
	}
	var form strings.Builder
	w := multipart.NewWriter(&form)
	w.WriteField("request", "{}")
	w.Close()
	a, err = http.Post(at.URL+"call/registry", w.FormDataContentType(), strings.NewReader(form.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if b, _ := io.ReadAll(a.Body); a.StatusCode != 200 || !strings.Contains(string(b), `"simplex"`) {
		t.Errorf("%s %.300s", a.Status, b)
	}
}

// A copy of the page is a file.
func TestExploreWrites(t *testing.T) {
	dir := t.TempDir()
	page, out := filepath.Join(dir, "page.html"), filepath.Join(dir, "out.html")
	if err := os.WriteFile(page, []byte("page"), 0o666); err != nil {
		t.Fatal(err)
	}
	ok(t, "explore", "--page", page, "-o", out)
	if b, err := os.ReadFile(out); err != nil || string(b) != "page" {
		t.Errorf("%q %v", b, err)
	}
}
