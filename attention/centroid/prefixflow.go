package centroid

import (
	"runtime"
	"sync"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

// The jobs of a prefixCall. A job begins as soon as those that it needs have ended: levels do not wait for each other,
// and no step waits for the last job of another. Which worker runs a job, and when, changes no bit.
//
//	fit a level → assign its keys → group them → slopes, sorted keys, order of the queries of its chunks
//	the above, and the tasks inside of a chunk → its blocks
type prefixKind uint8

const (
	fitLevel prefixKind = iota
	assignKeys
	groupLevel
	addSlopes
	sortLevel
	sortChunk
	readChunk
	readBlocks
)

// prefixJob is a job of level, chunk or task x.problem. It uses the keys lo to hi−1 if it is about keys, and part lo of
// a slope.
type prefixJob struct {
	kind prefixKind
	x    keyChunk
}

// prefixFlow is the jobs that nothing keeps from beginning.
type prefixFlow struct {
	mu      sync.Mutex
	wake    *sync.Cond
	ready   [3][]prefixJob // of levels, inside of chunks, of blocks: the first ones are urgent
	open    int            // jobs that are ready or running
	ended   bool           // one has panicked
	outputs bool           // blocks follow
}

// run makes the levels, or the outputs, or both.
func (c *prefixCall[T]) run(levels, outputs bool) (report attention.Report) {
	f := &c.flow
	if f.wake == nil {
		f.wake = sync.NewCond(&f.mu)
	}
	f.open, f.ended, f.outputs = 0, false, outputs
	for u := range f.ready {
		f.ready[u] = f.ready[u][:0]
	}
	for i := range c.chunks {
		x := &c.chunks[i]
		if x.left = 0; outputs {
			x.left = x.inside
		}
		if levels {
			x.left++
		}
	}
	if levels {
		for i := range c.levels {
			f.push(0, prefixJob{fitLevel, keyChunk{problem: i}})
		}
	}
	if outputs {
		for i := range c.inside {
			f.push(1, prefixJob{readChunk, keyChunk{problem: i}})
		}
	}
	n := min(f.open, runtime.GOMAXPROCS(0))
	if err := c.crew.Do(n, n, (*prefixStep[T])(c)); err != nil { // arguments have been checked
		panic("centroid: " + err.Error())
	}
	for _, w := range c.crew.Workers {
		report.Add(w.report)
		w.report = attention.Report{}
	}
	return report
}

// prefixStep is the loop of a worker over the jobs.
type prefixStep[T dense.Float] prefixCall[T]

func (s *prefixStep[T]) Item(w *prefixWorker[T], _ int) error {
	c := (*prefixCall[T])(s)
	for {
		j, ok := c.take()
		if !ok {
			return nil
		}
		c.do(w, j)
		c.done(j)
	}
}

// Release ends all waits after a panic.
func (s *prefixStep[T]) Release() {
	s.flow.mu.Lock()
	defer s.flow.mu.Unlock()
	s.flow.ended = true
	s.flow.wake.Broadcast()
}

// push makes a job ready. The caller holds the lock, unless no worker has begun.
func (f *prefixFlow) push(urgency int, j prefixJob) {
	f.ready[urgency] = append(f.ready[urgency], j)
	f.open++
}

// take waits for a job. False: there is none left.
func (c *prefixCall[T]) take() (j prefixJob, ok bool) {
	f := &c.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.ended && f.open > 0 {
		for u, list := range f.ready {
			if len(list) == 0 {
				continue
			}
			at := len(list) - 1
			if u == 2 { // blocks with the longest prefix first
				for i, x := range list {
					if c.begins(x) > c.begins(list[at]) {
						at = i
					}
				}
			}
			j, list[at] = list[at], list[len(list)-1]
			f.ready[u] = list[:len(list)-1]
			return j, true
		}
		f.wake.Wait()
	}
	return j, false
}

// begins is the length of the prefix of a task of blocks.
func (c *prefixCall[T]) begins(j prefixJob) int { return c.chunks[c.tasks[j.x.problem].problem].begin }

func (c *prefixCall[T]) do(w *prefixWorker[T], j prefixJob) {
	i := j.x.problem
	switch j.kind {
	case fitLevel:
		c.fit(w, i)
	case assignKeys:
		c.keys.assignKeys(&w.worker, j.x)
	case groupLevel:
		c.keys.groupKeys(&w.worker, c.keys.problems[i])
	case addSlopes:
		c.addSlope(w, i, j.x.lo)
	case sortLevel:
		c.sortKeys(w, j.x)
	case sortChunk:
		x := &c.chunks[i]
		if !x.first { // the fit of its level has sorted the queries of the first
			c.sort(w, x)
		}
		c.count(x)
	case readChunk:
		c.readInside(w, i)
	case readBlocks:
		c.blocks(w, i)
	}
}

// done makes the jobs ready that have waited for j.
func (c *prefixCall[T]) done(j prefixJob) {
	f := &c.flow
	f.mu.Lock()
	defer f.mu.Unlock()
	was, i := f.open, j.x.problem
	switch j.kind {
	case fitLevel:
		level, p := &c.levels[i], c.keys.problems[i]
		if level.left = 0; !p.single {
			level.left = c.pushKeys(assignKeys, i, assignChunk)
		}
		if level.left == 0 {
			f.push(0, prefixJob{groupLevel, j.x})
		}
	case assignKeys:
		if level := &c.levels[i]; level.less() {
			f.push(0, prefixJob{groupLevel, j.x})
		}
	case groupLevel:
		level, p := &c.levels[i], c.keys.problems[i]
		p.slope.begin()
		level.spread = buf.Sized(level.spread, len(p.keys))
		level.left = c.pushKeys(sortLevel, i, groupChunk) + slopeParts
		for part := range slopeParts {
			f.push(0, prefixJob{addSlopes, keyChunk{problem: i, lo: part}})
		}
		for x := level.first; x < len(c.chunks) && c.chunks[x].level == i; x++ {
			f.push(0, prefixJob{sortChunk, keyChunk{problem: x}})
			level.left++
		}
	case sortChunk:
		c.prepared(c.chunks[i].level)
	case addSlopes, sortLevel:
		c.prepared(i)
	case readChunk:
		if at := c.inside[i].chunk; at >= 0 {
			c.freed(&c.chunks[at])
		}
	}
	f.open--
	if f.open == 0 || f.open > was {
		f.wake.Broadcast()
	} else if f.open == was {
		f.wake.Signal()
	}
}

// less counts a job that has ended, and tells whether it was the last.
func (l *prefixLevel[T]) less() bool {
	l.left--
	return l.left == 0
}

// pushKeys makes jobs of some keys of a level each, and returns their number.
func (c *prefixCall[T]) pushKeys(kind prefixKind, i, each int) (n int) {
	keys := len(c.keys.problems[i].keys)
	for lo := 0; lo < keys; lo += each {
		c.flow.push(0, prefixJob{kind, keyChunk{i, lo, min(lo+each, keys)}})
		n++
	}
	return n
}

// prepared counts a job before the blocks of a level.
func (c *prefixCall[T]) prepared(i int) {
	if level := &c.levels[i]; level.less() {
		for x := level.first; x < len(c.chunks) && c.chunks[x].level == i; x++ {
			c.freed(&c.chunks[x])
		}
	}
}

// freed counts what the blocks of a chunk have waited for.
func (c *prefixCall[T]) freed(x *prefixChunk) {
	if x.left--; x.left > 0 || !c.flow.outputs {
		return
	}
	for t := x.t0; t < x.t1; t++ {
		c.flow.push(2, prefixJob{readBlocks, keyChunk{problem: t}})
	}
}
