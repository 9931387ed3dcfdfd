package lab

import (
	"fmt"
	"strings"
)

// Paper is a paper with all that it numbers, in its own order.
type Paper struct {
	Name    string
	Entries []Entry
}

// Entry is one figure, table, theorem or application of a paper, with the places where it is repeated: items of the
// laboratory, tests of the library, or a command of another module. If it is not repeated, Why says why and what was
// run instead.
type Entry struct {
	Label string // as the paper has it: "Fig 1 left", "Theorem 3.2", "§2.4"
	What  string
	Items []string // of the laboratory
	Tests []string // "folder.TestName", "randfeat.TestName" of the root
	Run   *Run
	Why   string // one line: what is not repeated, why, and what was run in its place
}

// Run is a training run of module gomlx.
type Run struct {
	Command string
	Results string // heading in gomlx/RESULTS.md
}

// State is an entry in the index.
type State struct {
	Entry
	Pages []*Page  // of its items that are in this run
	Other []string // items that are not
}

// States of a paper's entries in this run.
func (s *Site) States(p Paper) (out []State) {
	for _, e := range p.Entries {
		st := State{Entry: e}
		for _, id := range e.Items {
			if page := s.find(id); page != nil {
				st.Pages = append(st.Pages, page)
			} else {
				st.Other = append(st.Other, id)
			}
		}
		out = append(out, st)
	}
	return out
}

func (s *Site) find(id string) *Page {
	for _, p := range s.Pages {
		if p.Item.ID == id {
			return p
		}
	}
	return nil
}

// Beyond are the pages of no paper.
func (s *Site) Beyond() (out []*Page) {
	for _, p := range s.Pages {
		of := false
		for _, paper := range s.Contents {
			of = of || paper.Name == p.Item.Paper
		}
		if !of {
			out = append(out, p)
		}
	}
	return out
}

// State is the page in a line of the index.
func (p *Page) State() string {
	switch {
	case p.Skipped == "":
		return p.Count().String() + " · " + p.Mode
	case p.Recorded != nil:
		return "not run here; recorded: " + Tally{}.Count(p.Recorded.Checks).String() + " · " +
			p.Recorded.Mode
	}
	return "not run: data missing"
}

// markdown is the state in RESULTS.md.
func (s State) markdown() string {
	var parts []string
	for _, p := range s.Pages {
		parts = append(parts, fmt.Sprintf("[%s](#%s): %s", p.Item.ID, anchor(p), p.State()))
	}
	for _, id := range s.Other {
		parts = append(parts, id+": not in this run")
	}
	if len(s.Tests) > 0 {
		parts = append(parts, "tests: `"+strings.Join(s.Tests, "`, `")+"`")
	}
	if s.Run != nil {
		parts = append(parts, fmt.Sprintf("trained: `%s`, [%s](../gomlx/RESULTS.md)", s.Run.Command, s.Run.Results))
	}
	if s.Why != "" {
		parts = append(parts, s.Why)
	}
	return strings.Join(parts, ". ")
}

// anchor is the heading of a page in RESULTS.md as Markdown renderers name it: letters, digits and hyphens.
func anchor(p *Page) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading(p)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || isLetter(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}
