package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows how far a loop is, on a terminal only: logs and pipes stay clean.
type progress struct {
	a     *app
	what  string
	total int
	on    bool
	last  time.Time
}

func (a *app) progress(what string, total int) *progress {
	f, isFile := a.stderr.(*os.File)
	return &progress{a: a, what: what, total: total, on: isFile && term.IsTerminal(int(f.Fd())), last: time.Now()}
}

// at reports that done of total are ready; it prints a few times a second at most.
func (p *progress) at(done int) {
	if !p.on || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.a.stderr, "\r\x1b[K%s %d/%d", p.what, done, p.total)
}

// end clears the line.
func (p *progress) end() {
	if p.on {
		fmt.Fprint(p.a.stderr, "\r\x1b[K")
	}
}
