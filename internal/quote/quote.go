// Package quote quotes names and cells for messages.
package quote

import (
	"fmt"
	"strings"
)

// Short quotes a cell for a message, cut to a readable length.
func Short[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}

// List joins names for a message, cut to a readable number.
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
