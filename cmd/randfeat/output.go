package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// object prints one JSON object on a line of its own.
func (a *app) object(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if onObject != nil {
		onObject(v, b.Bytes())
	}
	_, err := a.stdout.Write(b.Bytes())
	return err
}

// onObject is told every object that is printed: tests hold them against their schemas.
var onObject func(v any, line []byte)

// note prints a line for people, on stderr.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, printableText(fmt.Sprintf(format, args...)))
}

// printable passes text for people on to a terminal, which control characters in names and values must not reach: they
// could move its cursor, or worse.
type printable struct{ io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, printableText(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// printableText spells control characters other than line ends and tabs as Go does.
func printableText(s string) string {
	control := func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }
	if strings.IndexFunc(s, control) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if control(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// warn prints a warning, if there is one, on stderr.
func (a *app) warn(text string) {
	if text != "" {
		a.note("warning: %s", text)
	}
}

// table aligns tab-separated lines.
func table(w io.Writer, fill func(w io.Writer)) error {
	t := tabwriter.NewWriter(printable{w}, 0, 0, 2, ' ', 0)
	fill(t)
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
