package lab

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/figure"
)

// Page is the result of an item.
type Page struct {
	Item             *Item
	Mode             string
	Skipped          string  // why it was not run
	Recorded         *Record // for items that were not run: the last recorded result, or nil
	Computed, Cached int     // cells
	Seconds          float64 // duration; 0 if some cells came from the cache

	Setting []string // paragraphs: what was done, and where it differs from the paper
	Checks  []Check
	Figures []Figure
	Tables  []Table
	Notes   []string // paragraphs: findings
}

// Kind says what a check compares our number with.
type Kind string

// Kinds are counted separately: a formula that holds means that measurement and closed form agree, not that a
// printed number was reproduced.
const (
	Printed Kind = "printed" // a number printed in the paper
	Stated  Kind = "stated"  // a sentence or a theorem of the paper that prints no number
	Formula Kind = "formula" // a closed form, the paper's or our own, evaluated by this library
	Unsaid  Kind = "unsaid"  // the papers say nothing
)

// Kinds lists the kinds in the order of summaries.
var Kinds = []Kind{Printed, Stated, Formula, Unsaid}

// Title names the kind in a summary.
func (k Kind) Title() string {
	return map[Kind]string{Printed: "printed values", Stated: "statements", Formula: "formulas",
		Unsaid: "not in the papers"}[k]
}

// Source says where a reference comes from: its kind, and its place in the paper or the name of the formula.
type Source struct {
	Kind  Kind   `json:"kind"`
	Place string `json:"place,omitempty"`
}

// String formats the source for tables.
func (s Source) String() string {
	if s.Place == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + ", " + s.Place
}

// PrintedIn is the source of a number printed in the paper.
func PrintedIn(place string) Source { return Source{Printed, place} }

// StatedIn is the source of a sentence or theorem of the paper.
func StatedIn(place string) Source { return Source{Stated, place} }

// FormulaOf is the source of a closed form.
func FormulaOf(name string) Source { return Source{Formula, name} }

// Verdict says whether our number agrees with the reference.
type Verdict string

// Verdicts.
const (
	Holds    Verdict = "holds"
	Misses   Verdict = "misses"
	TooNoisy Verdict = "too noisy" // the interval is too wide to tell the claim from its negation
	Shown    Verdict = "shown"     // not judged: there is no reference, or our setting differs from the paper's
)

// Verdicts lists the verdicts in the order of summaries.
var Verdicts = []Verdict{Holds, Misses, TooNoisy, Shown}

// Check compares one value or claim with its reference. A miss must say why, as far as it is known.
type Check struct {
	What      string   `json:"what"`
	Source    Source   `json:"source"`
	Reference string   `json:"reference"` // as printed or stated, or the value of the formula
	Ours      string   `json:"ours"`
	Interval  string   `json:"interval,omitempty"` // of ours, and how it was computed
	Verdict   Verdict  `json:"verdict"`
	Why       string   `json:"why,omitempty"`
	Numbers   *Numbers `json:"numbers,omitempty"` // what the verdict is based on, if it is numeric
	Spot      *Spot    `json:"spot,omitempty"`    // place in a table of the paper, if any
}

// Spot is the place of a check in a table with the layout of the paper's. All checks of a table must have the same
// kind of source.
type Spot struct {
	Table  string `json:"table"`
	Row    string `json:"row"`
	Column string `json:"column"`
}

// InTable puts the last check into a table.
func (p *Page) InTable(table, row, column string) {
	p.Checks[len(p.Checks)-1].Spot = &Spot{table, row, column}
}

// Numbers is what the verdict on a measured value is based on.
type Numbers struct {
	Reference float64 `json:"reference"`
	Ours      float64 `json:"ours"`
	Half      float64 `json:"half"` // half the width of the interval of the difference
	Rivals    []Rival `json:"rivals,omitempty"`
}

// Rival is the value that ours would have if the claim were false.
type Rival struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Unless returns the rival, or nothing if a printed value ± half cannot be told from it either: then the claim is that
// value, whatever gives it.
func (r Rival) Unless(printed, half float64) []Rival {
	if math.Abs(printed-r.Value) <= half {
		return nil
	}
	return []Rival{r}
}

// Factor2 are the rivals of a ratio that should be 1. A wrong formula is usually wrong by a factor of 2 or more.
var Factor2 = []Rival{{"half", .5}, {"twice", 2}}

// Judge returns the verdict on a measured value. If the reference is outside the interval ours ± half, the claim
// misses. If the interval contains both the reference and a rival, it cannot tell them apart: too noisy. Otherwise the
// claim holds.
func (n Numbers) Judge() (v Verdict, rival Rival) {
	inside := func(v float64) bool { return math.Abs(n.Ours-v) <= n.Half }
	if !inside(n.Reference) {
		return Misses, rival
	}
	for _, r := range n.Rivals {
		if inside(r.Value) {
			return TooNoisy, r
		}
	}
	return Holds, rival
}

// Order returns the verdict on the claim that a difference of two measured values is positive. half is half the width
// of its interval. An interval that contains zero is too noisy.
func Order(difference, half float64) Verdict {
	switch {
	case difference > half:
		return Holds
	case difference < -half:
		return Misses
	}
	return TooNoisy
}

// Worst returns the verdict on several claims together: Misses if one misses, else TooNoisy if one is, else Holds.
func Worst(verdicts ...Verdict) Verdict {
	for _, v := range []Verdict{Misses, TooNoisy} {
		if slices.Contains(verdicts, v) {
			return v
		}
	}
	return Holds
}

// Table has numbers that are shown but not judged.
type Table struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// Figure is an SVG image in two widths: for wide pages and for phones.
type Figure struct {
	Name    string // of the file, without the name of the page
	Caption string
	SVG     []byte
	Narrow  []byte
}

// narrow is the width of a figure on a phone, in pixels.
const narrow = 350

// Draw adds a figure.
func (p *Page) Draw(name, caption string, f *figure.Figure) error {
	var svg [2]bytes.Buffer
	for i, width := range []int{0, narrow} {
		f := *f
		if f.Width = width; width != 0 {
			f.X.Ticks = nil // they were given for the wide axis
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

// Measured adds a check whose verdict follows from numbers. why is the reason in case of a miss.
func (p *Page) Measured(c Check, n Numbers, why string) {
	var rival Rival
	c.Numbers = &n
	switch c.Verdict, rival = n.Judge(); c.Verdict {
	case Misses:
		c.Why = why
	case TooNoisy:
		c.Why = fmt.Sprintf("the interval also contains %.4g (%s)", rival.Value, rival.Name)
	}
	p.Add(c)
}

// Judge returns Holds if ok, else Misses, for claims without noise.
func Judge(ok bool) Verdict {
	if ok {
		return Holds
	}
	return Misses
}

// Claim adds a check of a sentence. why is the reason in case of a miss.
func (p *Page) Claim(what string, from Source, reference, ours string, v Verdict, why string) {
	c := Check{What: what, Source: from, Reference: reference, Ours: ours, Verdict: v}
	switch v {
	case Misses:
		c.Why = why
	case TooNoisy:
		c.Why = "the intervals overlap"
	}
	p.Add(c)
}

// Near adds a check of a measured value, ours ± half, against a value that is known exactly or up to tol.
func (p *Page) Near(what string, from Source, theirs, tol, ours, half float64, digits int, rivals []Rival, why string) {
	c := Check{What: what, Source: from, Reference: fmt.Sprintf("%.*f", digits, theirs),
		Ours: fmt.Sprintf("%.*f", digits, ours), Interval: fmt.Sprintf("± %.*f", digits, half)}
	if tol > 0 {
		c.Reference += fmt.Sprintf(" ± %.*f", digits, tol)
	}
	p.Measured(c, Numbers{Reference: theirs, Ours: ours, Half: tol + half, Rivals: rivals}, why)
}

// Tally counts verdicts by kind.
type Tally map[Kind]map[Verdict]int

// Count adds the verdicts of checks.
func (t Tally) Count(checks []Check) Tally {
	for _, c := range checks {
		if t[c.Source.Kind] == nil {
			t[c.Source.Kind] = map[Verdict]int{}
		}
		t[c.Source.Kind][c.Verdict]++
	}
	return t
}

// Line describes one kind: "3 hold, 1 too noisy".
func (t Tally) Line(k Kind) string {
	words := map[Verdict]string{Holds: "hold", Misses: "miss", TooNoisy: "too noisy", Shown: "shown, not judged"}
	var parts []string
	for _, v := range Verdicts {
		if n := t[k][v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words[v]))
		}
	}
	return strings.Join(parts, ", ")
}

// String describes all kinds.
func (t Tally) String() string {
	var parts []string
	for _, k := range Kinds {
		if line := t.Line(k); line != "" {
			parts = append(parts, k.Title()+": "+line)
		}
	}
	return strings.Join(parts, "; ")
}

// Count counts the page's verdicts.
func (p *Page) Count() Tally { return Tally{}.Count(p.Checks) }

// check rejects pages without a verdict, and checks that do not say what they compare with or why they miss.
func (p *Page) check() error {
	if p.Skipped == "" && len(p.Checks) == 0 {
		return fmt.Errorf("%s: the page has no verdict", p.Item.ID)
	}
	for _, c := range p.Checks {
		switch {
		case !slices.Contains(Kinds, c.Source.Kind) || !slices.Contains(Verdicts, c.Verdict):
			return fmt.Errorf("%s: %q has kind %q and verdict %q", p.Item.ID, c.What, c.Source.Kind, c.Verdict)
		case c.Source.Kind != Unsaid && c.Source.Place == "":
			return fmt.Errorf("%s: %q is %s, but the check does not say where", p.Item.ID, c.What, c.Source.Kind)
		case c.Source.Kind == Unsaid && c.Verdict != Shown:
			return fmt.Errorf("%s: %q %s, but the papers say nothing about it", p.Item.ID, c.What, c.Verdict)
		case c.Verdict == Misses && c.Why == "":
			return fmt.Errorf("%s: %q misses without a reason", p.Item.ID, c.What)
		}
	}
	return nil
}
