package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"html/template"
	"io"
	"path/filepath"
	"strings"
)

const module = "github.com/randfeat/randfeat"

// public reports whether a package of this module has a page.
func public(importPath string) bool {
	within := strings.TrimPrefix(importPath, module) + "/"
	return !strings.Contains(within, "/internal/") && !strings.HasPrefix(within, "/web/") &&
		!strings.HasPrefix(within, "/cmd/")
}

// addPackages adds one page per package that others can import, from its documentation comments.
func (s *site) addPackages() error {
	b, err := s.command("go", "list", "-json=ImportPath,Dir,GoFiles,Name", "./...")
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(b)); ; {
		var p struct {
			ImportPath, Dir, Name string
			GoFiles               []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Name == "main" || !public(p.ImportPath) || len(p.GoFiles) == 0 {
			continue
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		d, err := doc.NewFromFiles(fset, files, p.ImportPath)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" {
			name = p.Name
		}
		html, err := packageHTML(fset, d)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		s.pages = append(s.pages, page{part: reference, group: "Go packages", title: name,
			path: "reference/packages/" + strings.ReplaceAll(name, "/", "_") + ".html", html: html})
	}
}

// packageHTML returns the documentation of a package: its comment, then every exported declaration with its comment.
func packageHTML(fset *token.FileSet, d *doc.Package) (string, error) {
	var b strings.Builder
	esc := template.HTMLEscapeString
	printer := d.Printer()
	printer.HeadingLevel = 2
	printer.DocLinkURL = func(l *comment.DocLink) string {
		name := l.Name
		if l.Recv != "" {
			name = l.Recv + "." + name
		}
		if l.ImportPath == "" {
			return "#" + name
		}
		if within, ok := strings.CutPrefix(l.ImportPath, module); ok && public(l.ImportPath) {
			file := strings.ReplaceAll(cmp.Or(strings.TrimPrefix(within, "/"), "randfeat"), "/", "_") + ".html"
			if name != "" {
				file += "#" + name
			}
			return file
		}
		return l.DefaultURL("https://pkg.go.dev")
	}
	say := func(text string) {
		html := string(printer.HTML(d.Parser().Parse(text)))
		b.WriteString(strings.ReplaceAll(html, "<pre>", `<pre tabindex="0">`)) // the keyboard scrolls it
	}
	declare := func(decl ast.Node) error {
		var out bytes.Buffer
		if err := format.Node(&out, fset, decl); err != nil {
			return err
		}
		fmt.Fprintf(&b, "<pre tabindex=\"0\"><code>%s</code></pre>\n", esc(out.String()))
		return nil
	}
	function := func(f *doc.Func, prefix string) error {
		fmt.Fprintf(&b, "<h3 id=\"%s\">func %s</h3>\n", esc(prefix+f.Name), esc(prefix+f.Name))
		f.Decl.Body, f.Decl.Doc = nil, nil
		if err := declare(f.Decl); err != nil {
			return err
		}
		say(f.Doc)
		return nil
	}
	values := func(vs []*doc.Value) error {
		for _, v := range vs {
			for _, name := range v.Names {
				fmt.Fprintf(&b, "<span id=\"%s\"></span>", esc(name))
			}
			v.Decl.Doc = nil
			if err := declare(v.Decl); err != nil {
				return err
			}
			say(v.Doc)
		}
		return nil
	}
	fmt.Fprintf(&b, "<h1>package %s</h1>\n<pre tabindex=\"0\"><code>import \"%s\"</code></pre>\n", esc(d.Name),
		esc(d.ImportPath))
	say(d.Doc)
	if len(d.Consts)+len(d.Vars) > 0 {
		b.WriteString("<h2 id=\"values\">Constants and variables</h2>\n")
		if err := errors.Join(values(d.Consts), values(d.Vars)); err != nil {
			return "", err
		}
	}
	if len(d.Funcs) > 0 {
		b.WriteString("<h2 id=\"functions\">Functions</h2>\n")
		for _, f := range d.Funcs {
			if err := function(f, ""); err != nil {
				return "", err
			}
		}
	}
	for i, t := range d.Types {
		if i == 0 {
			b.WriteString("<h2 id=\"types\">Types</h2>\n")
		}
		fmt.Fprintf(&b, "<h3 id=\"%s\">type %s</h3>\n", esc(t.Name), esc(t.Name))
		ast.Inspect(t.Decl, func(n ast.Node) bool { // anchors for links to fields
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					if name.IsExported() {
						fmt.Fprintf(&b, "<span id=\"%s.%s\"></span>", esc(t.Name), esc(name.Name))
					}
				}
			}
			_, function := n.(*ast.FuncType) // parameters of functions are not fields
			return !function
		})
		t.Decl.Doc = nil
		if err := declare(t.Decl); err != nil {
			return "", err
		}
		say(t.Doc)
		if err := errors.Join(values(t.Consts), values(t.Vars)); err != nil {
			return "", err
		}
		for _, f := range t.Funcs {
			if err := function(f, ""); err != nil {
				return "", err
			}
		}
		for _, f := range t.Methods {
			if err := function(f, t.Name+"."); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}
