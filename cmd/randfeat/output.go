package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// object prints one JSON object on a line of its own.
func (a *app) object(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// note prints a line for people, on stderr.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// warn prints a warning, if there is one, on stderr.
func (a *app) warn(text string) {
	if text != "" {
		a.note("warning: %s", text)
	}
}

// table aligns tab-separated lines.
func table(w io.Writer, fill func(w io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fill(t)
	return t.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
