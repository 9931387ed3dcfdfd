package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

func TestCheckLinks(t *testing.T) {
	site := func(body string) map[string][]byte {
		return map[string][]byte{"a.html": []byte(body), "b/c.html": []byte(`<h2 id="here">c</h2>`), "style.css": nil}
	}
	for _, body := range []string{`<a href="b/c.html">`, `<a href="b/c.html#here">`, `<a href="https://example.com/x">`,
		`<img src="style.css">`, `<p id="x"><a href="#x">`, `<a href="b/../a.html">`, `<link href="data:,">`} {
		if err := checkLinks(site(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, body := range []string{`<a href="b/d.html">`, `<a href="b/c.html#there">`, `<a href="#x">`,
		`<img src="img/x.svg">`, `<a href="missing:docs/x.md">`} {
		if err := checkLinks(site(body)); err == nil {
			t.Errorf("%s passes", body)
		}
	}
}

// Links to sources of pages lead to the pages, those to other files of the repository to its public copy.
func TestFit(t *testing.T) {
	s := &site{root: "..", files: map[string][]byte{},
		target: map[string]string{"docs/theory.md": "background/theory.html",
			"docs/machines.md": "howto/machines.html"},
		moved: map[string]string{"docs/machines.md#serving": "howto/serving.html",
			"docs/machines.md#tables": "howto/machines.html"}}
	l := links{s, page{source: "docs/machines.md", path: "howto/machines.html"}}
	for to, want := range map[string]string{
		"theory.md":           "../background/theory.html",
		"theory.md#5-x":       "../background/theory.html#5-x",
		"../LICENSE":          repository + "LICENSE",
		"img/fit.svg":         "../img/fit.svg",
		"https://example.com": "https://example.com",
		"#here":               "#here",
		"#serving":            "../howto/serving.html#serving",
		"#tables":             "#tables",
		"machines.md#serving": "../howto/serving.html#serving",
		"no-such-page.md":     "missing:docs/no-such-page.md",
	} {
		if got := l.fit(to); got != want {
			t.Errorf("%s leads to %s, want %s", to, got, want)
		}
	}
}

// Headings have GitHub's anchors.
func TestHeadingIDs(t *testing.T) {
	h := headingIDs{}
	for _, c := range [][2]string{{"How choices are made", "how-choices-are-made"},
		{"`serve`, and more", "serve-and-more"}, {"2.18 Adaptive", "218-adaptive"},
		{"How choices are made", "how-choices-are-made-1"}} {
		if got := h.Generate([]byte(c[0]), ast.KindHeading); string(got) != c[1] {
			t.Errorf("%q has the anchor %q, want %q", c[0], got, c[1])
		}
	}
}

// Every page of docs is in the site.
func TestAllDocsAreListed(t *testing.T) {
	names, err := filepath.Glob("../docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	own, err := filepath.Glob("content/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, own...) {
		source := strings.TrimPrefix(filepath.ToSlash(name), "../")
		if strings.HasPrefix(source, "content/") {
			source = "site/" + source
		}
		found := false
		for _, p := range listed {
			found = found || p.source == source
		}
		if !found {
			t.Errorf("pages.go does not list %s", source)
		}
	}
	for _, p := range listed {
		if _, err := os.Stat(filepath.Join("..", p.source)); err != nil {
			t.Error(err)
		}
	}
}

// Tables inside help texts stay tables, and long descriptions of flags stay below each other.
func TestLaidOut(t *testing.T) {
	long := "      --flag file   " + strings.Repeat("word ", 20) + "end"
	got := laidOut("Kinds:\n  ridge  one\n  gp     two\nMore.\n\n```\n" + long + "\n  short\n```\n")
	want := "Kinds:\n\n    ridge  one\n    gp     two\n\nMore.\n\n```\n      --flag file   " +
		strings.TrimSpace(strings.Repeat("word ", 16)) + "\n                    word word word word end\n  short\n```\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A file that several pages share: each has its sections, the first the rest, and anchors lead to where they went.
func TestCut(t *testing.T) {
	root := t.TempDir()
	text := "# T\n\nintro\n\n## One\n\n### Deep\n\n```sh\n## no heading\n```\n\n## Two\n\ntwo\n"
	if err := os.WriteFile(filepath.Join(root, "a.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site{root: root, pages: []page{{source: "a.md", path: "a.html"},
		{title: "Second", source: "a.md", path: "b.html", sections: []string{"Two"}}}}
	if err := s.cut(); err != nil {
		t.Fatal(err)
	}
	if a, b := string(s.pages[0].markdown), string(s.pages[1].markdown); strings.Contains(a, "two") ||
		!strings.Contains(a, "no heading") || b != "# Second\n\n## Two\n\ntwo\n" {
		t.Errorf("%q and %q", a, b)
	}
	if s.moved["a.md#deep"] != "a.html" || s.moved["a.md#two"] != "b.html" {
		t.Error(s.moved)
	}
	s.pages[1].sections = []string{"Gone"}
	if s.pages[0].markdown, s.pages[1].markdown = nil, nil; s.cut() == nil {
		t.Error("a section that is not there")
	}
}

// The index finds sections by their headings and words, and holds no markup.
func TestIndex(t *testing.T) {
	s := &site{pages: []page{{title: "P", path: "p.html"}}, files: map[string][]byte{"p.html": []byte(
		`<nav>menu</nav><main id="main"><h1 id="p">P</h1><p>first &lt;b&gt;</p><h2 id="x-y">X <code>y</code></h2><p>second</p></main>`)}}
	got, err := s.index()
	want := `const sections = [{"p":"P","t":"P","h":"p.html","w":"P first \u003cb\u003e"},` +
		`{"p":"P","t":"X y","h":"p.html#x-y","w":"second"}];` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
}
