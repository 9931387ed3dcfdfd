package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress shows how far a loop is, on a terminal only: logs and pipes stay clean.
type progress struct {
	a      *app
	what   string
	total  int // 0: unknown
	on     bool
	unit   string // of the rate; empty: none is shown
	approx bool   // total is an estimate
	start  time.Time
	last   time.Time
}

func (a *app) progress(what string, total int) *progress {
	f, isFile := a.stderr.(*os.File)
	now := time.Now()
	return &progress{a: a, what: what, total: total, on: isFile && term.IsTerminal(int(f.Fd())), start: now, last: now}
}

// withRate also shows how many units are done per second, and the time left where the total is known.
func (p *progress) withRate(unit string) *progress {
	p.unit = unit
	return p
}

// at reports that done of total are ready; it prints a few times a second at most.
func (p *progress) at(done int) {
	if !p.on || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.a.stderr, "\r\x1b[K%s", p.line(done, p.last.Sub(p.start)))
}

// line is what at prints after some time.
func (p *progress) line(done int, elapsed time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d", p.what, done)
	if p.total > 0 {
		sign := ""
		if p.approx {
			sign = "≈"
		}
		fmt.Fprintf(&b, "/%s%d", sign, max(p.total, done))
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
	// The first second says little about the last.
	if p.total > done && elapsed >= time.Second {
		fmt.Fprintf(&b, "  %v left", time.Duration(float64(p.total-done)/rate*float64(time.Second)).Round(time.Second))
	}
	return b.String()
}

// end clears the line.
func (p *progress) end() {
	if p.on {
		fmt.Fprint(p.a.stderr, "\r\x1b[K")
	}
}
