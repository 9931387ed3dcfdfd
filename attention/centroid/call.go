package centroid

import (
	"runtime"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// call is one bidirectional Forward with [Blocks], shared by its workers. A job begins as soon as the jobs that it
// needs have ended; see tiltflow.go.
type call struct {
	tab   *kern.Table[float32]
	vis   *attention.Visibility
	specs []settings
	scale float64
	group int

	out, q, k, v attention.Seq[float32]
	seen         []bool
	memory       []bool // of seen
	spans        []attention.Span

	problems []*problem
	used     int   // of problems, whose memory is reused
	wanted   []int // rows of At; nil: all

	flow     flow
	balancer balancer
	crew     par.Crew[worker]
}

const (
	// One job assigns assignChunk keys, one sorts or gathers groupChunk keys or queries.
	assignChunk = 256
	groupChunk  = 512
	// tileRows rows of weights are computed at a time.
	tileRows = 64
	// keyBlock keys of a cluster are summed in float32.
	keyBlock = 512
)

// start takes the arguments of a call, which have been checked.
func (c *call) start(a *Attention, out, q, k, v attention.Seq[float32]) (err error) {
	vis := &a.Visibility
	c.vis, c.specs = vis, lower(c.specs[:0], a.Specs)
	if c.tab == nil {
		if c.tab, err = kern.Chosen[float32](); err != nil {
			return err
		}
	}
	if c.scale, err = logitScale(a.Scale, q.Dim); err != nil {
		return err
	}
	c.out, c.q, c.k, c.v = out, q, k, v
	c.group = q.Heads / max(1, k.Heads)
	if c.seen = vis.SeenKeys(c.memory, q.Batch, q.Len, k.Len); vis.KeySegments != nil {
		c.memory = c.seen
	}
	c.used = 0
	for b := range q.Batch {
		c.spans = vis.Spans(c.spans[:0], b, q.Len, k.Len)
		for h := range k.Heads {
			for _, s := range c.spans {
				c.add(b, h, s)
			}
		}
	}
	return nil
}

// forget drops the data of the caller.
func (c *call) forget() {
	c.vis, c.seen, c.wanted = nil, nil, nil
	var none attention.Seq[float32]
	c.out, c.q, c.k, c.v = none, none, none, none
	for _, w := range c.crew.Workers {
		w.fit.q, w.fit.k, w.fit.spec = none, none, nil
	}
	for _, p := range c.problems {
		p.spec = nil
	}
}

// add makes a problem of one packed sequence of a head.
func (c *call) add(b, h int, s attention.Span) {
	if c.used == len(c.problems) {
		c.problems = append(c.problems, new(problem))
	}
	p := c.problems[c.used]
	c.used++
	p.b, p.h, p.span, p.spec = b, h, s, specOf(c.specs, h)
}

// keyWork is about the work of assigning all keys, times awake: the jobs that cluster keys follow each other so closely
// that goroutines have not gone to sleep.
func (c *call) keyWork() (work float64) {
	for _, p := range c.problems[:c.used] {
		n := float64(p.span.K1 - p.span.K0)
		work += n * float64(c.k.Dim) * float64(p.spec.clusters+p.spec.landmarks)
	}
	return awake * work
}

// report returns the sum of the counts of all workers.
func (c *call) report() (total attention.Report) {
	for _, w := range c.crew.Workers {
		total.Add(w.report)
		w.report = attention.Report{}
	}
	return total
}

// assignKeys assigns some keys of a problem to its centres.
func (c *call) assignKeys(w *worker, x jobRange) {
	p := c.problems[x.problem]
	p.assign.assign(p.found[x.lo:x.hi], gathered(&w.gather, c.k.Head(p.b, p.h), p.keys[x.lo:x.hi]), &w.scores)
}

// worker is the scratch memory of one goroutine.
type worker struct {
	fit       fitter
	scores    assignScratch
	gather    dense.Matrix[float32]
	count     []int32
	wide      []float64
	one, part []float32
	diff      dense.Matrix[float32]

	x, acc       dense.Matrix[float32]
	tile, values dense.Matrix[float32]
	pick         selector // of sorting
	moments      moments
	report       attention.Report
	tiles        tiles
	tilt         tilt
}

// problem is one packed sequence of one key/value head, with its keys grouped by cluster.
type problem struct {
	b, h int
	span attention.Span
	spec *settings

	single bool    // every key is a cluster of its own
	keys   []int32 // the keys that count, by position in the sequence
	assign assigner
	groups // of these keys

	rows    rowOrder
	ordered bool // the rows are sorted
	moments moments
	left    int     // jobs that the next ones wait for
	place   []int32 // of At: where a row of the order goes, −1: nowhere

	x      dense.Matrix[float32] // scaled queries in their order
	kv     dense.Matrix[float32] // sorted keys, each with its value beside it
	packed kern.Panel[float32]   // sorted keys
	blocks []int32               // the first rows of the wanted blocks
	slope  slope
}

// fitter returns the fitter of a worker, with the keys of p.
func (c *call) fitter(w *worker, p *problem) *fitter {
	f := &w.fit
	f.tab, f.workers = c.tab, runtime.GOMAXPROCS(0)/c.used
	f.reset(p.spec, c.scale, c.q, c.k, p.b, p.h, p.span)
	f.add(c.seen)
	return f
}

// listKeys lists the keys of p, and finds the coordinates that its queries are sorted by.
func (c *call) listKeys(w *worker, p *problem) {
	f := c.fitter(w, p)
	n := len(f.keys)
	p.keys = append(p.keys[:0], f.keys...)
	p.single = n <= p.spec.clusters
	p.found = buf.Sized(p.found, n)
	if p.single {
		for j := range p.found {
			p.found[j] = int32(j)
		}
	}
	rows := (p.span.Q1 - p.span.Q0) * c.group
	if p.ordered = !p.single && rows > p.spec.queries; p.ordered {
		c.keyFactor(w, &p.moments, p, p.keys)
		p.rows.begin(rows)
	} else { // any order serves
		c.leaveRows(p)
	}
}

// gathered are rows of m, as they lie or copied to the memory of spare.
func gathered(spare *dense.Matrix[float32], m dense.Matrix[float32], rows []int32) dense.Matrix[float32] {
	n := len(rows)
	if n == 0 {
		return dense.Matrix[float32]{Cols: m.Cols, Stride: m.Cols}
	}
	if int(rows[n-1])-int(rows[0]) == n-1 {
		return m.RowRange(int(rows[0]), int(rows[0])+n)
	}
	*spare = buf.Shaped(*spare, n, m.Cols)
	for i, j := range rows {
		copy(spare.Row(i), m.Row(int(j)))
	}
	return *spare
}

// groupKeys orders the keys of p by cluster and makes room for the sorted ones.
func (c *call) groupKeys(p *problem) {
	p.sort()
	p.kv = buf.Shaped(p.kv, len(p.keys), c.k.Dim+c.v.Dim)
	c.tab.Room(&p.packed, len(p.keys), c.k.Dim)
}

// view is a packed view of the front of data.
func view(data []float32, rows, cols int) dense.Matrix[float32] {
	return dense.Matrix[float32]{Rows: rows, Cols: cols, Stride: cols, Data: data[:rows*cols]}
}
