package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var description = regexp.MustCompile(`<desc id="desc">(.*)</desc>`)

// The errors in the committed figure are those that the library computes, and the README says the same.
func TestFigureIsCurrent(t *testing.T) {
	b, err := estimates()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/img/estimates.svg")
	if err != nil {
		t.Fatal(err)
	}
	got, want := description.FindSubmatch(b), description.FindSubmatch(committed)
	if got == nil || want == nil || string(got[1]) != string(want[1]) {
		t.Fatalf("the library draws %q, docs/img/estimates.svg is %q: run go -C site run ./figures", got, want)
	}
	errors := regexp.MustCompile(`(0\.[0-9]+); `).FindAllStringSubmatch(string(got[1]), -1)
	if len(errors) != len(panels) {
		t.Fatalf("%q has %d errors, want %d", got[1], len(errors), len(panels))
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintf("the error falls from %s to %s", errors[0][1], errors[len(errors)-1][1])
	if !strings.Contains(string(readme), says) {
		t.Errorf("README.md does not say %q", says)
	}
}

// Every committed figure has a background and colours for dark pages, and its letters stay legible at 340 pixels.
func TestFiguresSuitAllPages(t *testing.T) {
	width := regexp.MustCompile(`<svg [^>]*viewBox="0 0 ([0-9]+) `)
	found := 0
	for _, pattern := range []string{"../../docs/img/*.svg", "../../bench/*.svg"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			found++
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"prefers-color-scheme: dark", `class="back"`} {
				if !strings.Contains(string(b), want) {
					t.Errorf("%s has no %s", path, want)
				}
			}
			m := width.FindSubmatch(b)
			if m == nil {
				t.Errorf("%s has no width", path)
				continue
			}
			if w, err := strconv.Atoi(string(m[1])); err != nil || w > 480 { // 13 pixels become 9
				t.Errorf("%s is %s pixels wide, want at most 480", path, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no figures found")
	}
}
