package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

func targetNames(m *machine.Model) []string {
	var out []string
	for _, t := range m.Schema.Targets {
		out = append(out, t.Name)
	}
	return out
}

// scoreText formats a score as cells of a table: name, value and interval.
func scoreText(s machine.Score, targets []string) string {
	name := s.Name
	if s.Output > 0 {
		name += " of " + targets[s.Output-1]
	}
	interval := fmt.Sprintf("%s to %s", digits(s.Low), digits(s.High))
	if !dense.IsFinite(s.Low) || !dense.IsFinite(s.High) {
		interval = "–"
	}
	if s.Note != "" {
		interval = "none: " + s.Note
	}
	return fmt.Sprintf("%s\t%s\t%s", name, digits(s.Value), interval)
}

// digits formats a score with four digits.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// className formats a class for a cell of a table.
func className(c string) string { return shorten(c, 24) }

// shorten cuts a text to one line of at most most characters.
func shorten(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// manyFiles is the paragraph about tables of several files in the help of commands.
const manyFiles = `Several files are read as one table, in the given order. A quoted pattern ('part-*.csv') or a folder stands for its
files, sorted by name. All files need the columns of the first one, in any order.`

// quoteNames lists at most most names for a message.
func quoteNames(names []string, most int) string {
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	quoted := slices.Clone(names)
	for i, n := range quoted {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ") + more
}

func whyOf(c tabular.Choice) string {
	why := c.Why
	if c.Given && why == "" {
		why = "given"
	}
	if len(c.Trials) > 1 {
		why += fmt.Sprintf(" (%d tried)", len(c.Trials))
	}
	return why
}

// shellWord quotes a path that a shell would take apart.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+=:@%,",
				r) || r > 127
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func secondsText(s float64) string {
	switch {
	case s < 0.1:
		return fmt.Sprintf("%.0f ms", 1e3*s)
	case s < 120:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
}

func bytesText(n int64) string {
	switch {
	case n < 10e3:
		return fmt.Sprintf("%d bytes", n)
	case n < 10e6:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}

// count formats a number of things.
func count[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
