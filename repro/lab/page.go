package lab

import (
	"bytes"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/internal/figure"
)

// Page is the outcome of an item.
type Page struct {
	Item             *Item
	Mode             string
	Skipped          string // why it was not run
	Computed, Cached int    // cells

	Setting []string // paragraphs: what was done, and where it differs from the paper
	Checks  []Check
	Figures []Figure
	Tables  []Table
	Notes   []string // paragraphs: what was found
}

// Verdict says whether a value is the paper's.
type Verdict string

// Verdicts. Shown is for what has no printed value to agree with.
const (
	Holds  Verdict = "holds"
	Misses Verdict = "misses"
	Shown  Verdict = "shown"
)

// Check compares one value or claim. A miss says why, as far as it was found.
type Check struct {
	What     string
	Paper    string // as printed, or what follows from its formula
	Ours     string
	Interval string // of ours, and how it was made
	Verdict  Verdict
	Why      string
}

// Table is numbers that are shown and not judged.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Figure is drawn as SVG, twice: for wide pages and for phones.
type Figure struct {
	Name    string // of its file, without the page's
	Caption string
	SVG     []byte
	Narrow  []byte
}

// narrow is the width of a figure on a phone.
const narrow = 350

// Draw adds a figure.
func (p *Page) Draw(name, caption string, f *figure.Figure) error {
	var svg [2]bytes.Buffer
	for i, width := range []int{0, narrow} {
		f := *f
		if f.Width = width; width != 0 {
			f.X.Ticks = nil // given for a wide axis
		}
		if err := f.WriteSVG(&svg[i]); err != nil {
			return fmt.Errorf("figure %s: %w", name, err)
		}
	}
	p.Figures = append(p.Figures, Figure{name, caption, svg[0].Bytes(), svg[1].Bytes()})
	return nil
}

// Add adds a check.
func (p *Page) Add(c Check) { p.Checks = append(p.Checks, c) }

// Judge is Holds if ok, else Misses.
func Judge(ok bool) Verdict {
	if ok {
		return Holds
	}
	return Misses
}

// Claim adds a check of a sentence.
func (p *Page) Claim(what, paper, ours string, ok bool, why string) {
	c := Check{What: what, Paper: paper, Ours: ours, Verdict: Judge(ok)}
	if !ok {
		c.Why = why
	}
	p.Add(c)
}

// Near adds a check of a value against one that is known exactly or to tol: they agree if the interval of ours (mean ±
// half) and that of theirs meet.
func (p *Page) Near(what string, theirs, tol, ours, half float64, digits int, why string) {
	c := Check{What: what, Paper: fmt.Sprintf("%.*f", digits, theirs), Ours: fmt.Sprintf("%.*f", digits, ours),
		Interval: fmt.Sprintf("± %.*f", digits, half)}
	if tol > 0 {
		c.Paper += fmt.Sprintf(" ± %.*f", digits, tol)
	}
	if c.Verdict = Judge(math.Abs(theirs-ours) <= tol+half); c.Verdict == Misses {
		c.Why = why
	}
	p.Add(c)
}

// Count counts the verdicts.
func (p *Page) Count() (holds, misses, shown int) {
	for _, c := range p.Checks {
		switch c.Verdict {
		case Holds:
			holds++
		case Misses:
			misses++
		default:
			shown++
		}
	}
	return
}

// check refuses a page that says nothing and misses that give no reason.
func (p *Page) check() error {
	if p.Skipped == "" && len(p.Checks) == 0 {
		return fmt.Errorf("%s: the page has no verdict", p.Item.ID)
	}
	for _, c := range p.Checks {
		if c.Verdict == Misses && c.Why == "" {
			return fmt.Errorf("%s: %q misses without a reason", p.Item.ID, c.What)
		}
	}
	return nil
}
