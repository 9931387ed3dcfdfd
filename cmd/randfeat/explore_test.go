package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
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
	fails(t, exitFailed, "no such", "explore", "--page", filepath.Join(t.TempDir(), "none.html"), "--no-open")
	page := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(page, []byte("<!doctype html><title>x</title>"), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- runChecked(ctx, []string{"explore", "--page", page, "--addr", "127.0.0.1:0", "--no-open", "--json"},
			strings.NewReader(""), w, io.Discard)
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at serving.Exploring
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
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
	cancel()
	if got := <-code; got != exitDone {
		t.Errorf("exit %d", got)
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
