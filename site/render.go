package main

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is the target of links to files that are not pages.
const repository = "https://github.com/randfeat/randfeat/blob/main/"

// render returns the HTML of a page.
func (s *site) render(p page) ([]byte, error) {
	body := p.html
	if body == "" {
		source := p.markdown
		if source == nil {
			var err error
			if source, err = os.ReadFile(filepath.Join(s.root, p.source)); err != nil {
				return nil, err
			}
		}
		md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(
			parser.WithAutoHeadingID(), parser.WithASTTransformers(util.Prioritized(links{s, p}, 100))))
		var b bytes.Buffer
		ids := parser.NewContext(parser.WithIDs(headingIDs{}))
		if err := md.Convert(source, &b, parser.WithContext(ids)); err != nil {
			return nil, err
		}
		// Wide tables, code and figures scroll by themselves, so that the page does not; the keyboard reaches them.
		wide := strings.NewReplacer("<table>", `<div class="wide" tabindex="0"><table>`, "</table>", "</table></div>",
			"<pre>", `<pre tabindex="0">`, "<p><img", `<p tabindex="0"><img`)
		body = wide.Replace(b.String())
	}
	up := strings.Repeat("../", strings.Count(p.path, "/"))
	if p.frame != "" {
		body += fmt.Sprintf("<iframe src=\"%s%s\" title=\"%s\"></iframe>\n", up, p.frame, html.EscapeString(p.title))
	}
	var nav []navPart
	for _, name := range parts {
		part := navPart{Name: name, Open: p.part == name}
		for _, q := range s.pages {
			if q.part != name {
				continue
			}
			if n := len(part.Groups); n == 0 || part.Groups[n-1].Name != q.group {
				part.Groups = append(part.Groups, navGroup{Name: q.group, Open: q.group == "" || q.group == p.group})
			}
			g := &part.Groups[len(part.Groups)-1]
			g.Links = append(g.Links, navLink{Title: q.title, Href: up + q.path, Here: q.path == p.path})
		}
		nav = append(nav, part)
	}
	var before, after navLink // in the part
	var part []page
	for _, q := range s.pages {
		if q.part == p.part {
			part = append(part, q)
		}
	}
	for i, q := range part {
		if q.path == p.path && i > 0 {
			before = navLink{Title: part[i-1].title, Href: up + part[i-1].path}
		}
		if q.path == p.path && i+1 < len(part) {
			after = navLink{Title: part[i+1].title, Href: up + part[i+1].path}
		}
	}
	var within []navLink
	for _, h := range headings.FindAllStringSubmatch(body, -1) {
		if h[1] == "2" {
			within = append(within, navLink{Title: plain(h[3]), Href: "#" + html.UnescapeString(h[2])})
		}
	}
	if len(within) < 2 || p.part == "" {
		within = nil
	}
	var out bytes.Buffer
	err := layout.Execute(&out, map[string]any{"Title": p.title, "Up": template.URL(up), "Nav": nav, "Part": p.part,
		"Home": p.part == "", "Body": template.HTML(body), "Before": before, "After": after, "Within": within})
	return out.Bytes(), err
}

type (
	navPart struct {
		Name   string
		Open   bool
		Groups []navGroup
	}
	navGroup struct {
		Name  string
		Open  bool
		Links []navLink
	}
	navLink struct {
		Title, Href string
		Here        bool
	}
)

// links rewrites the links of a page for the site: links to sources of pages lead to the pages, links to other files
// of the repository to its public copy.
type links struct {
	s *site
	p page
}

func (l links) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(l.fit(string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(l.fit(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
}

func (l links) fit(to string) string {
	if strings.Contains(to, ":") || to == "" {
		return to
	}
	up := strings.Repeat("../", strings.Count(l.p.path, "/"))
	to, fragment, found := strings.Cut(to, "#")
	if found {
		fragment = "#" + fragment
	}
	source := path.Join(path.Dir(l.p.source), to)
	if to == "" {
		source = l.p.source
	}
	if page, ok := l.s.moved[source+unescaped(fragment)]; ok && page != l.p.path {
		return up + page + fragment
	}
	if to == "" {
		return fragment
	}
	if page, ok := l.s.target[source]; ok {
		return up + page + fragment
	}
	if img, ok := strings.CutPrefix(source, "docs/img/"); ok {
		return up + "img/" + img
	}
	if file, ok := strings.CutPrefix(source, "site/content/"); ok { // a page of the site by its own path
		if _, ok := l.s.files[file]; ok || strings.HasSuffix(file, ".html") {
			return up + file + fragment
		}
	}
	if _, err := os.Stat(filepath.Join(l.s.root, source)); err != nil {
		return "missing:" + source // checkLinks names it
	}
	return repository + source + fragment
}

// headingIDs gives the headings of a page the anchors that GitHub gives them, so that links work in both places. It
// counts how often each was used.
type headingIDs map[string]int

var notInID = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func (h headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := notInID.ReplaceAllString(strings.ToLower(string(value)), "")
	id = strings.ReplaceAll(strings.TrimSpace(id), " ", "-")
	n := h[id]
	h[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (headingIDs) Put([]byte) {}

var (
	link    = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchors = regexp.MustCompile(`(?:id|name)="([^"]*)"`)
)

// checkLinks finds links between files of the site that lead nowhere.
func checkLinks(files map[string][]byte) error {
	ids := map[string]map[string]bool{}
	for name, b := range files {
		if !strings.HasSuffix(name, ".html") || name == "explorer.html" {
			continue
		}
		ids[name] = map[string]bool{}
		for _, m := range anchors.FindAllSubmatch(b, -1) {
			ids[name][string(m[1])] = true
		}
	}
	var dead []string
	for name := range ids {
		for _, m := range link.FindAllSubmatch(files[name], -1) {
			to := html.UnescapeString(string(m[1]))
			if u, err := url.Parse(to); err == nil && u.Scheme != "" && u.Scheme != "missing" {
				continue
			}
			file, fragment, _ := strings.Cut(to, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if _, ok := files[at]; !ok {
				dead = append(dead, fmt.Sprintf("%s: no file %s", name, to))
			} else if fragment != "" && !ids[at][unescaped(fragment)] {
				dead = append(dead, fmt.Sprintf("%s: no heading %s", name, to))
			}
		}
	}
	if len(dead) > 0 {
		return fmt.Errorf("%d dead links:\n%s", len(dead), strings.Join(dead, "\n"))
	}
	return nil
}

// unescaped returns a fragment as the heading spells it.
func unescaped(fragment string) string {
	if u, err := url.PathUnescape(fragment); err == nil {
		return u
	}
	return fragment
}
