package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Object prints one JSON object on a line of its own.
func (env *Env) Object(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if env.OnObject != nil {
		env.OnObject(v, b.Bytes())
	}
	_, err := env.Stdout.Write(b.Bytes())
	return err
}

// Note prints a line for people on stderr.
func (env *Env) Note(format string, args ...any) {
	fmt.Fprintln(env.Stderr, PrintableText(fmt.Sprintf(format, args...)))
}

// Printable passes text for people to a terminal. Control characters in names and values from files are
// escaped, because they could move the cursor or change the terminal's state.
type Printable struct{ io.Writer }

func (p Printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, PrintableText(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// PrintableText escapes control characters other than line ends and tabs, as Go does.
func PrintableText(s string) string {
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

// Warn prints a warning on stderr, unless it is empty.
func (env *Env) Warn(text string) {
	if text != "" {
		env.Note("warning: %s", text)
	}
}

// Table aligns tab-separated lines.
func Table(w io.Writer, fill func(w io.Writer)) error {
	t := tabwriter.NewWriter(Printable{w}, 0, 0, 2, ' ', 0)
	fill(t)
	return t.Flush()
}

func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Number returns v, or nil if JSON has no number for it (NaN, infinities).
func Number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Plural is the plural ending for n things.
func Plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
