package lab

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/localfile"
)

//go:embed page.html
var pageHTML string

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"rich":     rich,
	"style":    func() template.CSS { return template.CSS(figure.Page) },
	"sections": Sections,
	"mark": func(v Verdict) string {
		return map[Verdict]string{Holds: " ✓", Misses: " ✗", TooNoisy: " ~"}[v]
	},
	"kinds": func(t Tally) (out [][2]string) { // title and counts of the kinds that occur
		for _, k := range Kinds {
			if line := t.Line(k); line != "" {
				out = append(out, [2]string{k.Title(), line})
			}
		}
		return out
	},
}).Parse(pageHTML))

// rich turns `code` into HTML code elements and escapes the rest.
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

// Site is a run: all its pages in order.
type Site struct {
	Pages    []*Page
	Contents []Paper // everything that the papers number, for the index
	Revision string
	Go       string
	Machine  string
	Explorer bool // the folder explorer/ has a page
}

// NewSite makes a site of pages that this program made on this machine.
func NewSite(p []*Page) *Site {
	return &Site{Pages: p, Revision: Revision(), Go: runtime.Version(),
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
}

// Count counts the verdicts of all pages.
func (s *Site) Count() Tally {
	t := Tally{}
	for _, p := range s.Pages {
		t.Count(p.Checks)
	}
	return t
}

// Skipped counts the items that were not run.
func (s *Site) Skipped() (n int) {
	for _, p := range s.Pages {
		if p.Skipped != "" {
			n++
		}
	}
	return n
}

// Verdicts describes the verdicts of all pages by kind.
func (s *Site) Verdicts() string {
	text := s.Count().String()
	if n := s.Skipped(); n > 0 {
		text += fmt.Sprintf("; %d items were not run", n)
	}
	return text
}

// Command returns the command that makes the page again.
func (p *Page) Command() string {
	full := ""
	if p.Mode == "full" {
		full = " -full"
	}
	return "go -C repro run . run " + p.Item.ID + full + " -out ../public/lab"
}

// Write writes the site into a folder: index.html, and a page and figures per item.
func (s *Site) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(dir, "explorer", "index.html"))
	s.Explorer = err == nil
	for _, p := range s.Pages {
		for _, f := range p.Figures {
			name := filepath.Join(dir, p.Item.ID+"-"+f.Name)
			if err := localfile.Write(name+".svg", f.SVG); err != nil {
				return err
			}
			if err := localfile.Write(name+"-narrow.svg", f.Narrow); err != nil {
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
	return localfile.Write(path, b.Bytes())
}

// Markdown returns the table of verdicts for RESULTS.md.
func (s *Site) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What the papers print, and what we measure\n\nWritten by `go -C repro run . run -results RESULTS.md`; "+
		"not edited by hand. Seed %d.\n\n", Seed)
	s.summary(&b)
	b.WriteString("\nThe column *source* says what our number is compared with: a number *printed* in the paper, a sentence " +
		"or theorem *stated* there, or a *formula* that this library evaluates; *unsaid*: the papers have nothing.\n\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "- *%s*: %s\n", r.Verdict, r.Text)
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	for _, paper := range s.Contents {
		fmt.Fprintf(&b, "\n## %s: all that is numbered\n\n| | what | state |\n|---|---|---|\n", paper.Name)
		for _, e := range s.States(paper) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Label, cell(e.What), cell(e.markdown()))
		}
	}
	paper := ""
	for _, p := range s.Pages {
		if p.Item.Paper != paper {
			paper = p.Item.Paper
			fmt.Fprintf(&b, "\n## %s\n", paper)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", heading(p))
		r := s.record(p)
		if r == nil {
			fmt.Fprintf(&b, "%s\n", p.Skipped)
			continue
		}
		fmt.Fprintf(&b, "%s mode, %s, %s", r.Mode, r.Go, r.Machine)
		if r.Seconds > 0 {
			fmt.Fprintf(&b, ", %.0f s", r.Seconds)
		}
		b.WriteString(".\n\n| what | source | reference | ours | interval | verdict |\n|---|---|---|---|---|---|\n")
		for _, c := range r.Checks {
			verdict := string(c.Verdict)
			if c.Why != "" {
				verdict += ": " + c.Why
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell(c.What), cell(c.Source.String()),
				cell(c.Reference), cell(c.Ours), cell(c.Interval), cell(verdict))
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "\n%s\n", n)
		}
	}
	return b.Bytes()
}

func heading(p *Page) string { return p.Item.ID + ": " + p.Item.Title }

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// rules explain the verdicts.
var rules = []struct {
	Verdict Verdict
	Text    string
}{
	{Holds, "the reference lies in the interval of our number, or the claim is true of our numbers."},
	{Misses, "it does not; the reason follows, as far as it was found."},
	{TooNoisy, "the interval is too wide to tell the claim from its negation: it contains the reference and also the value " +
		"that we would see if the claim were false (half or twice a formula's value, no gain, the accuracy of guessing the " +
		"most frequent class), or two values whose order is claimed differ by less than their interval."},
	{Shown, "not judged: the papers have no reference, or our setting differs from theirs."},
}

// Rules gives rules to the template.
func (*Site) Rules() any { return rules }

// summary writes the table of counts, including recorded results.
func (s *Site) summary(b *bytes.Buffer) {
	b.WriteString("| compared with | hold | miss | too noisy | shown |\n|---|---|---|---|---|\n")
	t, without, full, seconds := Tally{}, 0, 0, 0.0
	for _, p := range s.Pages {
		if r := s.record(p); r != nil {
			t.Count(r.Checks)
			if r.Mode == "full" {
				full, seconds = full+1, seconds+r.Seconds
			}
		} else {
			without++
		}
	}
	for _, k := range Kinds {
		fmt.Fprintf(b, "| %s |", k.Title())
		for _, v := range Verdicts {
			fmt.Fprintf(b, " %d |", t[k][v])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| printed values of | hold | miss | too noisy | shown |\n|---|---|---|---|---|\n")
	for _, paper := range s.Contents {
		t := Tally{}
		for _, p := range s.Pages {
			if r := s.record(p); r != nil && p.Item.Paper == paper.Name {
				t.Count(r.Checks)
			}
		}
		fmt.Fprintf(b, "| %s |", paper.Name)
		for _, v := range Verdicts {
			fmt.Fprintf(b, " %d |", t[Printed][v])
		}
		b.WriteString("\n")
	}
	if full > 0 {
		fmt.Fprintf(b, "\n%d of %d items were recorded in full mode, in %.0f s by their own clocks (two or three items at a time).\n",
			full, len(s.Pages), seconds)
	}
	if without > 0 {
		fmt.Fprintf(b, "\n%d items were never run.\n", without)
	}
}

// JSON returns the run as data: counts by kind and verdict, and every check. Figures are left out.
func (s *Site) JSON() ([]byte, error) {
	type item struct {
		ID      string  `json:"id"`
		Paper   string  `json:"paper"`
		Title   string  `json:"title"`
		Mode    string  `json:"mode"`
		Skipped string  `json:"skipped,omitempty"`
		Checks  []Check `json:"checks"`
	}
	out := struct {
		Seed     uint64 `json:"seed"`
		Revision string `json:"revision"`
		Go       string `json:"go"`
		Machine  string `json:"machine"`
		Counts   Tally  `json:"counts"`
		Items    []item `json:"items"`
	}{Seed: Seed, Revision: s.Revision, Go: s.Go, Machine: s.Machine, Counts: s.Count(), Items: []item{}}
	for _, p := range s.Pages {
		checks := p.Checks
		if checks == nil {
			checks = []Check{}
		}
		out.Items = append(out.Items, item{p.Item.ID, p.Item.Paper, p.Item.Title, p.Mode, p.Skipped, checks})
	}
	b, err := json.MarshalIndent(out, "", "\t")
	return append(b, '\n'), err
}

// WriteJSON writes JSON to a file.
func (s *Site) WriteJSON(path string) error {
	b, err := s.JSON()
	if err != nil {
		return err
	}
	return localfile.Write(path, b)
}

// WriteResults writes Markdown to a file.
func (s *Site) WriteResults(path string) error { return localfile.Write(path, s.Markdown()) }
