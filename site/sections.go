package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// section is a part of a Markdown file: what comes before the first heading of the second level, or such a heading with
// what follows.
type section struct {
	title string // empty: before the first heading
	text  string
	ids   []string // anchors of its headings
}

// sectionsOf cuts a Markdown file; lines in fenced code are no headings.
func sectionsOf(markdown string) []section {
	all := []section{{}}
	ids, fenced := headingIDs{}, false
	for line := range strings.Lines(markdown) {
		fenced = fenced != strings.HasPrefix(line, "```")
		if title, ok := strings.CutPrefix(line, "## "); ok && !fenced {
			all = append(all, section{title: strings.TrimSpace(title)})
		}
		last := &all[len(all)-1]
		last.text += line
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") && !fenced {
			last.ids = append(last.ids, string(ids.Generate([]byte(strings.TrimSpace(title)), ast.KindHeading)))
		}
	}
	return all
}

// cut gives every page of a file that several pages share its sections, and notes where the anchors went.
func (s *site) cut() error {
	s.moved = map[string]string{}
	for i := range s.pages {
		p := &s.pages[i]
		if p.source == "" || p.markdown != nil {
			continue
		}
		var taken []string // by other pages
		for _, q := range s.pages {
			if q.source == p.source && q.path != p.path {
				taken = append(taken, q.sections...)
			}
		}
		if len(taken)+len(p.sections) == 0 {
			continue
		}
		b, err := os.ReadFile(filepath.Join(s.root, p.source))
		if err != nil {
			return err
		}
		var text strings.Builder
		if len(p.sections) > 0 {
			fmt.Fprintf(&text, "# %s\n\n", p.title)
		}
		found := 0
		for _, part := range sectionsOf(string(b)) {
			own := slices.Contains(p.sections, part.title)
			if own {
				found++
			}
			if own || len(p.sections) == 0 && !slices.Contains(taken, part.title) {
				text.WriteString(part.text)
				for _, id := range part.ids {
					s.moved[p.source+"#"+id] = p.path
				}
			}
		}
		if found != len(p.sections) {
			return fmt.Errorf("%s: %s does not have all of the sections %q", p.path, p.source, p.sections)
		}
		p.markdown = []byte(text.String())
	}
	return nil
}
