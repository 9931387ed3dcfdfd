package cell

import (
	"fmt"
	"strings"
)

// Quote quotes a cell for a message, cut to 40 bytes.
func Quote[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

// QuoteList joins names for a message, at most ten.
func QuoteList(names []string) string {
	const most = 10
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(Quote(n))
	}
	return b.String()
}
