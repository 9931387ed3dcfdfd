package main

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
)

var (
	headings = regexp.MustCompile(`<h([1-6]) id="([^"]*)">(.*?)</h[1-6]>`)
	tags     = regexp.MustCompile(`(?s)<[^>]*>`)
	spaces   = regexp.MustCompile(`\s+`)
	mainOf   = regexp.MustCompile(`(?s)<main id="main">(.*?)</main>`)
)

// indexed is a section of a page that can be found: its page, heading, address, and words.
type indexed struct {
	Page  string `json:"p"`
	Title string `json:"t"`
	Href  string `json:"h"`
	Words string `json:"w"`
}

// sectionWords bounds the text of a section in the index; most have less.
const sectionWords = 2000

// index is a script with all sections of all pages: a static site is searched in the browser, also from a folder.
func (s *site) index() ([]byte, error) {
	var all []indexed
	for _, p := range s.pages {
		body := string(s.files[p.path])
		if m := mainOf.FindStringSubmatch(body); m != nil {
			body = m[1]
		}
		title, href, from := p.title, p.path, 0
		add := func(to int) {
			words := plain(body[from:to])
			if len(words) > sectionWords {
				words = strings.ToValidUTF8(words[:sectionWords], "")
			}
			all = append(all, indexed{p.title, title, href, words})
		}
		for _, m := range headings.FindAllStringSubmatchIndex(body, -1) {
			if level := body[m[2]:m[3]]; level != "2" && level != "3" {
				continue
			}
			add(m[0])
			title, href, from = plain(body[m[6]:m[7]]), p.path+"#"+html.UnescapeString(body[m[4]:m[5]]), m[1]
		}
		add(len(body))
	}
	b, err := json.Marshal(all)
	return append(append([]byte("const sections = "), b...), ";\n"...), err
}

// plain is HTML without its markup.
func plain(s string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(s, " ")), " "))
}
