package centroid

import (
	"runtime"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/buf"
)

// The jobs of a prefixCall:
//
//	fit a level → assign its keys → group them → slopes, sorted keys, order of the queries of its chunks
//	the above, and the tasks inside of a chunk → its blocks
const (
	fitLevel uint8 = iota
	assignLevel
	groupLevel
	slopeLevel // part lo
	sortLevel
	sortChunk
	readChunk
	readBlocks
)

// run makes the levels, or the outputs, or both.
func (c *prefixCall) run(levels, outputs bool) (report attention.Report) {
	f := &c.flow
	f.begin(outputs)
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
			f.push(0, flowJob{kind: fitLevel, x: jobRange{problem: i}})
		}
	}
	if outputs {
		for i := range c.inside {
			f.push(1, flowJob{kind: readChunk, x: jobRange{problem: i}})
		}
	}
	n := min(f.open, runtime.GOMAXPROCS(0))
	if err := c.crew.Do(n, n, (*prefixStep)(c)); err != nil { // arguments have been checked
		panic("centroid: " + err.Error())
	}
	for _, w := range c.crew.Workers {
		report.Add(w.report)
		w.report = attention.Report{}
	}
	return report
}

// prefixStep is the loop of a worker over the jobs.
type prefixStep prefixCall

func (s *prefixStep) Item(w *prefixWorker, _ int) error {
	c := (*prefixCall)(s)
	next := c.next
	for {
		j, ok := c.flow.take()
		if !ok {
			return nil
		}
		c.do(w, j)
		c.flow.done(j, next)
	}
}

func (s *prefixStep) Release() { s.flow.release() }

func (c *prefixCall) do(w *prefixWorker, j flowJob) {
	i := j.x.problem
	switch j.kind {
	case fitLevel:
		c.fit(w, i)
	case assignLevel:
		c.keys.assignKeys(&w.worker, j.x)
	case groupLevel:
		c.keys.groupKeys(c.keys.problems[i])
	case slopeLevel:
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

// next makes the jobs ready that have waited for j.
func (c *prefixCall) next(j flowJob) {
	f, i := &c.flow, j.x.problem
	switch j.kind {
	case fitLevel:
		level, p := &c.levels[i], c.keys.problems[i]
		if level.left = 0; !p.single {
			level.left = f.pushRanges(assignLevel, i, len(p.keys), assignChunk)
		}
		if level.left == 0 {
			f.push(0, flowJob{kind: groupLevel, x: j.x})
		}
	case assignLevel:
		if level := &c.levels[i]; level.less() {
			f.push(0, flowJob{kind: groupLevel, x: j.x})
		}
	case groupLevel:
		level, p := &c.levels[i], c.keys.problems[i]
		p.slope.begin()
		level.spread = buf.Sized(level.spread, len(p.keys))
		level.left = f.pushRanges(sortLevel, i, len(p.keys), groupChunk) + f.pushRanges(slopeLevel, i, slopeParts, 1)
		for x := level.first; x < len(c.chunks) && c.chunks[x].level == i; x++ {
			f.push(0, flowJob{kind: sortChunk, x: jobRange{problem: x}})
			level.left++
		}
	case sortChunk:
		c.prepared(c.chunks[i].level)
	case slopeLevel, sortLevel:
		c.prepared(i)
	case readChunk:
		if at := c.inside[i].chunk; at >= 0 {
			c.freed(&c.chunks[at])
		}
	}
}

// less counts a job that has ended, and tells whether it was the last.
func (l *prefixLevel) less() bool {
	l.left--
	return l.left == 0
}

// prepared counts a job before the blocks of a level.
func (c *prefixCall) prepared(i int) {
	if level := &c.levels[i]; level.less() {
		for x := level.first; x < len(c.chunks) && c.chunks[x].level == i; x++ {
			c.freed(&c.chunks[x])
		}
	}
}

// freed counts a finished job that the blocks of a chunk wait for, and makes tasks ready after the last one of all
// their chunks. Blocks with the longest prefixes come first.
func (c *prefixCall) freed(x *prefixChunk) {
	if x.left--; x.left > 0 || !c.flow.outputs {
		return
	}
	for i := x.t0; i < x.t1; i++ {
		t := &c.tasks[i]
		if t.left--; t.left == 0 {
			c.flow.push(2, flowJob{kind: readBlocks, x: jobRange{problem: i}, rank: c.chunks[t.last].begin})
		}
	}
}
