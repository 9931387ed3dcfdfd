// Package quote quotes names and cells for messages, so that control characters and long texts do not spoil
// them.
package quote

import (
	"fmt"
	"strings"
)

// Short quotes a cell for a message, cut to 40 bytes.
func Short[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

// List joins names for a message, at most ten.
func List(names []string) string {
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
		b.WriteString(Short(n))
	}
	return b.String()
}
