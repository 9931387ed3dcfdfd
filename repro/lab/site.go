package lab

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/randfeat/randfeat/data"
)

//go:embed page.html
var pageHTML string

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"rich": rich,
	"verdicts": func(p *Page) (v struct{ Holds, Misses, Shown int }) {
		v.Holds, v.Misses, v.Shown = p.Count()
		return v
	},
}).Parse(pageHTML))

// rich turns `code` into code and leaves the rest as text.
func rich(s string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// Site is a run: all its pages, in order.
type Site struct {
	Pages    []*Page
	Revision string
	Go       string
	Machine  string
	Explorer bool // the site's folder explorer/ has a page
}

// NewSite is a site of pages made by this program on this machine.
func NewSite(p []*Page) *Site {
	return &Site{Pages: p, Revision: Revision(), Go: runtime.Version(),
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
}

// Verdicts of all pages.
func (s *Site) Verdicts() string {
	var h, m, n, skipped int
	for _, p := range s.Pages {
		a, b, c := p.Count()
		h, m, n = h+a, m+b, n+c
		if p.Skipped != "" {
			skipped++
		}
	}
	text := fmt.Sprintf("%d hold, %d miss, %d are shown without a printed value", h, m, n)
	if skipped > 0 {
		text += fmt.Sprintf("; %d items were not run", skipped)
	}
	return text
}

// Command that makes the page again.
func (p *Page) Command() string {
	full := ""
	if p.Mode == "full" {
		full = " -full"
	}
	return "go -C repro run . run " + p.Item.ID + full + " -out ../site"
}

// Write writes the site into a folder: index.html, a page and figures per item.
func (s *Site) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(dir, "explorer", "index.html"))
	s.Explorer = err == nil
	for _, p := range s.Pages {
		for _, f := range p.Figures {
			name := filepath.Join(dir, p.Item.ID+"-"+f.Name)
			if err := data.WriteAtomic(name+".svg", f.SVG); err != nil {
				return err
			}
			if err := data.WriteAtomic(name+"-narrow.svg", f.Narrow); err != nil {
				return err
			}
		}
		if err := s.page(filepath.Join(dir, p.Item.ID+".html"), "item", p); err != nil {
			return err
		}
	}
	return s.page(filepath.Join(dir, "index.html"), "index", nil)
}

func (s *Site) page(path, name string, p *Page) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, struct {
		Site *Site
		Page *Page
	}{s, p}); err != nil {
		return err
	}
	return data.WriteAtomic(path, b.Bytes())
}

// Markdown is the table of verdicts, for RESULTS.md.
func (s *Site) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What the papers print, and what we measure\n\nWritten by `go -C repro run . run -results RESULTS.md`; "+
		"not edited by hand. Seed %d, %s, %s. %s.\n\nA value *holds* if its interval meets the paper's, or the claim is "+
		"true of our numbers; a *miss* says why; *shown* has no printed value to agree with.\n", Seed, s.Go, s.Machine,
		s.Verdicts())
	cell := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	paper := ""
	for _, p := range s.Pages {
		if p.Item.Paper != paper {
			paper = p.Item.Paper
			fmt.Fprintf(&b, "\n## %s\n", paper)
		}
		fmt.Fprintf(&b, "\n### %s: %s (%s)\n\n", p.Item.ID, p.Item.Title, p.Mode)
		if p.Skipped != "" {
			fmt.Fprintf(&b, "%s\n", p.Skipped)
			continue
		}
		b.WriteString("| what | paper | ours | interval | verdict |\n|---|---|---|---|---|\n")
		for _, c := range p.Checks {
			verdict := string(c.Verdict)
			if c.Why != "" {
				verdict += ": " + c.Why
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(c.What), cell(c.Paper), cell(c.Ours), cell(c.Interval),
				cell(verdict))
		}
		for _, n := range p.Notes {
			fmt.Fprintf(&b, "\n%s\n", n)
		}
	}
	return b.Bytes()
}

// WriteResults writes Markdown to a file.
func (s *Site) WriteResults(path string) error { return data.WriteAtomic(path, s.Markdown()) }
