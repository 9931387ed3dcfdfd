package main

import (
	"fmt"
	"os"
	"regexp"
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
