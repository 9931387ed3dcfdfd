package train

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is a progress bar on a terminal.
type progress struct {
	w            io.Writer
	unit         string // unit of the counts of the source
	total, first int
	from, shown  time.Time
	width        int // of the last line, to overwrite it
}

func (p *progress) show(n int, loss float64, held *float64, speed float64) {
	now := time.Now()
	if p.w == nil || now.Sub(p.shown) < 100*time.Millisecond && n < p.total {
		return
	}
	p.shown = now
	const cells = 24
	full := n * cells / p.total
	each := now.Sub(p.from) / time.Duration(max(1, n-p.first))
	left := (each * time.Duration(p.total-n)).Round(time.Second)
	bar := strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	line := fmt.Sprintf("%s %d/%d  loss %.4f", bar, n, p.total, loss)
	if held != nil {
		line += fmt.Sprintf("  held-out %.4f", *held)
	}
	line += fmt.Sprintf("  %s %s/s  %s left", thousands(speed), p.unit, left)
	width := len([]rune(line))
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-width)))
	p.width = width
}

func (p *progress) end() {
	if p.w != nil && p.width > 0 {
		fmt.Fprintln(p.w)
	}
}

func thousands(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.1fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}
