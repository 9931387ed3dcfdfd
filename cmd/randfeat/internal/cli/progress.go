package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Progress shows how far a loop is, on a terminal only: logs and pipes stay clean.
type Progress struct {
	env    *Env
	What   string
	Total  int // 0: unknown
	On     bool
	unit   string // unit of the rate; empty: no rate is shown
	Approx bool   // Total is an estimate
	start  time.Time
	Last   time.Time
}

// Progress starts a display; it prints nothing until At. Call End before printing anything else to stderr.
func (env *Env) Progress(what string, total int) *Progress {
	f, isFile := env.Stderr.(*os.File)
	now := time.Now()
	return &Progress{env: env, What: what, Total: total, On: isFile && term.IsTerminal(int(f.Fd())), start: now,
		Last: now}
}

// WithRate also shows units per second and, if the total is known, the time left.
func (p *Progress) WithRate(unit string) *Progress {
	p.unit = unit
	return p
}

// At reports that done of Total are ready. It prints at most five times a second, so it may be called for every
// item.
func (p *Progress) At(done int) {
	if !p.On || time.Since(p.Last) < 200*time.Millisecond {
		return
	}
	p.Last = time.Now()
	fmt.Fprintf(p.env.Stderr, "\r\x1b[K%s", p.Line(done, p.Last.Sub(p.start)))
}

// Line is the text that At prints after some time.
func (p *Progress) Line(done int, elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", p.What, done)
	if p.Total > 0 {
		sign := ""
		if p.Approx {
			sign = "≈"
		}
		fmt.Fprintf(&b, "/%s%d", sign, max(p.Total, done))
	}
	if p.unit == "" || done == 0 || elapsed <= 0 {
		return b.String()
	}
	rate := float64(done) / elapsed.Seconds()
	digits := 0
	if rate < 10 {
		digits = 1
	}
	fmt.Fprintf(&b, "  %.*f %s/s", digits, rate, p.unit)
	// The rate of the first second says little about the rest.
	if p.Total > done && elapsed >= time.Second {
		fmt.Fprintf(&b, "  %v left", time.Duration(float64(p.Total-done)/rate*float64(time.Second)).Round(time.Second))
	}
	return b.String()
}

// End clears the line.
func (p *Progress) End() {
	if p.On {
		fmt.Fprint(p.env.Stderr, "\r\x1b[K")
	}
}
