package centroid

import (
	"runtime"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/buf"
)

// The jobs of bidirectional blocks that weigh keys. Every problem goes its own way:
//
//	keys, and the covariance of queries → coordinates of queries → their order → queries in this order → centres →
//	clusters of keys → order of keys → slopes and sorted keys → blocks
const (
	takeKeys uint8 = iota
	takeQueries
	makeAxes
	placeRows
	halveRows
	splitRows
	gatherTilted
	trainProblem
	assignProblem
	groupProblem
	slopeProblem // part lo
	sortProblem
	readRows
)

// orderLevels of halving are jobs of their own, then all that is left of a part is one.
const orderLevels = 3

// run prepares the problems, or computes their rows, or both.
func (c *call) run(prepare, outputs bool) attention.Report {
	f := &c.flow
	f.begin(outputs)
	c.balance()
	for i, p := range c.problems[:c.used] {
		if !prepare {
			c.pushRows(i)
			continue
		}
		p.rows.axes.Rows, p.ordered, p.left = 0, false, 2
		f.push(0, flowJob{kind: takeKeys, x: jobRange{problem: i}})
		f.push(0, flowJob{kind: takeQueries, x: jobRange{problem: i}})
	}
	// A job makes many others: as many workers as the work pays for.
	n := 0
	if f.open > 0 {
		n = min(runtime.GOMAXPROCS(0), 1+int(min(c.keyWork()/float64(c.tab.Grain), 1<<20)))
	}
	if err := c.crew.Do(n, n, (*tiltStep)(c)); err != nil { // arguments have been checked
		panic("centroid: " + err.Error())
	}
	return c.report()
}

// pushRows makes the jobs that compute the rows of problem i.
func (c *call) pushRows(i int) {
	p := c.problems[i]
	c.splitTilted(i, func(t jobRange) {
		c.flow.push(2, flowJob{kind: readRows, x: jobRange{i, t.lo, t.hi}, rank: c.balancer.rank(t)})
		p.left++
	})
}

// tiltStep is the loop of a worker over the jobs.
type tiltStep call

func (s *tiltStep) Item(w *worker, _ int) error {
	c := (*call)(s)
	next := c.next
	for {
		j, ok := c.flow.take()
		if !ok {
			return nil
		}
		c.doTilted(w, &j)
		c.flow.done(j, next)
	}
}

func (s *tiltStep) Release() { s.flow.release() }

func (c *call) doTilted(w *worker, j *flowJob) {
	x := j.x
	p := c.problems[x.problem]
	switch j.kind {
	case takeKeys:
		c.listKeys(w, p)
	case takeQueries:
		if (p.span.Q1-p.span.Q0)*c.group > p.spec.queries {
			c.queryMoments(w, &p.moments, p, p.span.Q0, p.span.Q1)
		}
	case makeAxes:
		c.makeAxes(w, &p.moments, &p.rows.axes)
	case placeRows:
		c.place(w, p, x.lo, x.hi)
	case halveRows:
		j.rank = p.rows.halve(&w.pick, orderPart{j.from, x.lo, x.hi}, p.spec.queries)
	case splitRows:
		p.rows.split(&w.pick, orderPart{j.from, x.lo, x.hi}, p.spec.queries)
	case gatherTilted:
		c.gatherRows(p, x.lo, x.hi)
	case trainProblem:
		c.trainTilted(w, p)
	case assignProblem:
		c.assignKeys(w, x)
	case groupProblem:
		c.groupKeys(p)
	case slopeProblem:
		c.slopes(w, &p.slope, p, len(p.keys), x.lo)
	case sortProblem:
		c.sortKeys(w, p, x.lo, x.hi)
	case readRows:
		c.tilted(w, jobRange{x.problem, x.lo, x.hi})
	}
}

// next makes the jobs ready that have waited for j. A stage of a problem waits for all jobs of the one before.
func (c *call) next(j flowJob) {
	f, i := &c.flow, j.x.problem
	p := c.problems[i]
	one := jobRange{problem: i}
	if mid := j.rank; j.kind == halveRows && mid > 0 {
		kind := halveRows
		if j.depth+1 == orderLevels {
			kind = splitRows
		}
		f.push(0, flowJob{kind: kind, x: jobRange{i, j.x.lo, mid}, from: 1 - j.from, depth: j.depth + 1})
		f.push(0, flowJob{kind: kind, x: jobRange{i, mid, j.x.hi}, from: 1 - j.from, depth: j.depth + 1})
		p.left += 2
	}
	if p.left--; p.left > 0 {
		return
	}
	rows := (p.span.Q1 - p.span.Q0) * c.group
	switch j.kind {
	case takeKeys, takeQueries:
		if !p.ordered {
			c.orderedRows(i)
			return
		}
		p.left = 1
		f.push(0, flowJob{kind: makeAxes, x: one})
	case makeAxes:
		p.left = f.pushRanges(placeRows, i, rows, groupChunk)
	case placeRows:
		p.left = 1
		f.push(0, flowJob{kind: halveRows, x: jobRange{i, 0, rows}})
	case halveRows, splitRows:
		c.orderedRows(i)
	case gatherTilted:
		p.left = 1
		f.push(0, flowJob{kind: trainProblem, x: one})
	case trainProblem:
		if p.left = 0; !p.single {
			p.left = f.pushRanges(assignProblem, i, len(p.keys), assignChunk)
		}
		if p.left == 0 {
			p.left = 1
			f.push(0, flowJob{kind: groupProblem, x: one})
		}
	case assignProblem:
		p.left = 1
		f.push(0, flowJob{kind: groupProblem, x: one})
	case groupProblem:
		p.slope.begin()
		p.left = f.pushRanges(sortProblem, i, len(p.keys), groupChunk) + f.pushRanges(slopeProblem, i, slopeParts, 1)
	case slopeProblem, sortProblem:
		if f.outputs {
			c.pushRows(i)
		}
	}
}

// orderedRows goes on after the queries of problem i are in order.
func (c *call) orderedRows(i int) {
	p := c.problems[i]
	p.x = buf.Shaped(p.x, len(p.rows.order), c.q.Dim)
	if p.left = c.flow.pushRanges(gatherTilted, i, p.x.Rows, groupChunk); p.left == 0 {
		p.left = 1
		c.flow.push(0, flowJob{kind: trainProblem, x: jobRange{problem: i}})
	}
}

// place computes the coordinates of the queries lo to hi−1 of p.
func (c *call) place(w *worker, p *problem, from, to int) {
	n := p.span.Q1 - p.span.Q0
	for lo, hi := from, 0; lo < to; lo = hi {
		g := lo / n
		hi = min(to, (g+1)*n)
		w.tile = buf.Shaped(w.tile, hi-lo, p.rows.axes.Rows)
		at := p.span.Q0 + lo - g*n
		c.tab.MulT(w.tile, c.q.Head(p.b, p.h*c.group+g).RowRange(at, at+hi-lo), &p.rows.axes, nil)
		p.rows.set(lo, w.tile)
	}
}
