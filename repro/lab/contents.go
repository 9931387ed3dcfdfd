package lab

import (
	"fmt"
	"strings"
)

// Paper is a paper with everything it numbers, in its own order.
type Paper struct {
	Name    string
	Entries []Entry
}

// Entry is one figure, table, theorem or application of a paper, and where it is repeated: by items of the
// laboratory, by tests of the library, or by a command of another module. If it is not repeated, Why gives the
// reason and what was run instead.
type Entry struct {
	Label string // as in the paper: "Fig 1 left", "Theorem 3.2", "§2.4"
	What  string
	Items []string // of the laboratory
	Tests []string // "folder.TestName", "randfeat.TestName" of the root
	Run   *Run
	Why   string // one line: what is not repeated, why, and what was run instead
}

// Run is a run of the program training.
type Run struct {
	Command string
	Results string // heading in training/RESULTS.md
}

// State is the state of an entry in a run.
type State struct {
	Entry
	Pages []*Page  // pages of its items in this run
	Other []string // items that are not in this run
}

// States returns the states of a paper's entries in this run.
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

// Beyond returns the pages that belong to no paper.
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

// State describes the page in a line of the index.
func (p *Page) State() string {
	switch {
	case p.Skipped == "":
		return p.Count().String() + " · " + p.Mode
	case p.Recorded != nil:
		return Tally{}.Count(p.Recorded.Checks).String() + " · " + p.Recorded.Mode
	}
	return "not run: data missing"
}

// markdown describes the state in RESULTS.md.
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
		parts = append(parts, fmt.Sprintf("trained: `%s`, [%s](training/RESULTS.md)", s.Run.Command, s.Run.Results))
	}
	if s.Why != "" {
		parts = append(parts, s.Why)
	}
	return strings.Join(parts, ". ")
}

// anchor returns the anchor that Markdown renderers give to the heading of a page in RESULTS.md.
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
