package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// flagLine is a flag of a usage text with its description.
var flagLine = regexp.MustCompile(`^( +(?:-\w, )?--[\w-]+(?: [^ ]+)? {2,})(.*)$`)

// flagColumns is the width of a usage text on a page.
const flagColumns = 100

// laidOut keeps the layout of help texts in Markdown. Indented lines become preformatted. Long descriptions of flags
// are wrapped in their column, because a page cannot wrap them as a terminal does.
func laidOut(markdown string) string {
	var out []string
	fenced, indented := false, false
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			out = append(out, line)
		case fenced:
			out = append(out, wrapFlag(line)...)
		case strings.HasPrefix(line, "  "):
			if !indented && len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "") // a preformatted block begins after an empty line
			}
			out = append(out, "    "+line[2:])
		default:
			if indented && line != "" {
				out = append(out, "")
			}
			if strings.HasPrefix(line, "##") {
				line = line[1:] // cobra begins a page with a heading of the second level
			}
			out = append(out, line)
		}
		indented = !fenced && strings.HasPrefix(line, "  ")
	}
	return strings.Join(out, "\n") + "\n"
}

// wrapFlag breaks a line of a usage text at spaces.
func wrapFlag(line string) []string {
	m := flagLine.FindStringSubmatch(line)
	if m == nil || utf8.RuneCountInString(line) <= flagColumns {
		return []string{line}
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(m[1]))
	var out []string
	at := m[1]
	empty := true
	for _, word := range strings.Fields(m[2]) {
		if !empty && utf8.RuneCountInString(at)+1+utf8.RuneCountInString(word) > flagColumns {
			out = append(out, at)
			at, empty = indent, true
		}
		if !empty {
			at += " "
		}
		at, empty = at+word, false
	}
	return append(out, at)
}
