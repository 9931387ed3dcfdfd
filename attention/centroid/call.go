package centroid

import (
	"math"
	"runtime"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// call is one bidirectional Forward, shared by its workers. With [PerQuery] the steps run one after the other, each
// with parallel items: fit every problem, assign the keys in chunks, group the keys of every problem by cluster,
// compute rows in tasks. With [Blocks] there are jobs instead, which begin as soon as the jobs that they need have
// ended; see tiltflow.go.
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
	used     int // of problems, whose memory is reused
	chunks   []keyChunk
	ranks    []keyChunk
	tasks    []rowTask
	wanted   []int // rows of At; nil: all

	flow     flow
	balancer balancer // of blocks that weigh keys
	crew     par.Crew[worker]
}

// rowTask are the queries [lo, hi) of a problem, for all heads of the group. The first is row at of the output.
type rowTask struct{ problem, lo, hi, at int }

const (
	// One item assigns assignChunk keys. One item sorts the keys of clusters with about groupChunk keys together.
	assignChunk = 256
	groupChunk  = 512
	// tileRows rows of weights are computed at a time; fewer if there are very many clusters.
	tileRows = 64
	// nearRows rows share a tile of neighbours.
	nearRows = 32
	// tileCells bounds a tile of weights of centroids.
	tileCells = 1 << 18
	// keyBlock keys of a cluster are packed at a time.
	keyBlock = 512
	// stretch positions share the packed keys of their windows.
	stretch = 256
	// A task has enough rows that clusterRows of them choose a cluster on average, within bounds: keys are read from
	// memory once per task. Where goroutines share the rows it has fewer, but no less than leastRows.
	clusterRows = 64
	fewestRows  = 512
	mostRows    = 1 << 14
	leastRows   = 128
)

// start takes the arguments of a call, which have been checked.
func (c *call) start(a *Attention, out, q, k, v attention.Seq[float32]) (err error) {
	c.specs = lower(c.specs[:0], a.Specs)
	return c.startWith(&a.Visibility, a.Scale, out, q, k, v, c.specs...)
}

// startWith is start with settings, one for all heads or one per head.
func (c *call) startWith(vis *attention.Visibility, scale float64, out, q, k, v attention.Seq[float32],
	specs ...settings) (err error) {
	if c.tab == nil {
		if c.tab, err = kern.Chosen[float32](); err != nil {
			return err
		}
	}
	if c.scale, err = logitScale(scale, q.Dim); err != nil {
		return err
	}
	c.vis, c.specs = vis, append(c.specs[:0], specs...)
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
	var empty dense.Matrix[float32]
	c.out, c.q, c.k, c.v = none, none, none, none
	for _, w := range c.crew.Workers {
		w.fit.q, w.fit.k, w.fit.spec = none, none, nil
		w.near.keys, w.near.values, w.sinks.keys, w.sinks.values = empty, empty, empty, empty
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

// do runs n items on as many goroutines as their work pays for.
func (c *call) do(n int, work float64, step par.Step[worker]) {
	workers := min(n, runtime.GOMAXPROCS(0), 1+int(min(work/float64(c.tab.Grain), 1<<20)))
	if err := c.crew.Do(n, workers, step); err != nil {
		panic("centroid: " + err.Error()) // no item fails: arguments have been checked
	}
}

// inBlocks tells whether queries choose in blocks; all heads have the same method.
func (c *call) inBlocks() bool { return c.specs[0].inBlocks() }

// prepare clusters the keys of all problems.
func (c *call) prepare() {
	if c.inBlocks() {
		c.runTilted(false)
		return
	}
	c.do(c.used, c.keyWork(), (*fitStep)(c))
	c.chunks = c.chunks[:0]
	for i, p := range c.problems[:c.used] {
		if p.single {
			continue
		}
		for lo := 0; lo < len(p.keys); lo += assignChunk {
			c.chunks = append(c.chunks, keyChunk{i, lo, min(lo+assignChunk, len(p.keys))})
		}
	}
	c.do(len(c.chunks), c.keyWork(), (*assignStep)(c))
	c.do(c.used, c.keyWork(), (*groupStep)(c))
	c.chunks, c.ranks = c.chunks[:0], c.ranks[:0]
	for i, p := range c.problems[:c.used] {
		for lo, hi := 0, 0; lo < p.clusters; lo = hi {
			for hi = lo + 1; hi < p.clusters && p.start[hi]-p.start[lo] < groupChunk; hi++ {
			}
			c.chunks = append(c.chunks, keyChunk{i, lo, hi})
		}
		for lo := 0; lo < p.clusters; lo += rankClusters {
			c.ranks = append(c.ranks, keyChunk{i, lo, min(lo+rankClusters, p.clusters)})
		}
	}
	c.do(len(c.chunks), c.keyWork(), (*meanStep)(c))
	c.do(len(c.ranks), c.keyWork(), (*rankStep)(c))
}

// keyWork is about the work of assigning all keys, times awake.
//
// The steps that cluster keys follow each other so closely that goroutines have not gone to sleep.
func (c *call) keyWork() (work float64) {
	for _, p := range c.problems[:c.used] {
		n := float64(p.span.K1 - p.span.K0)
		work += n * float64(c.k.Dim) * float64(p.spec.clusters+p.spec.landmarks)
	}
	return awake * work
}

// split makes the tasks of the rows. The bits of a row do not depend on the other rows of its task, so the number of
// tasks may follow the number of processors.
func (c *call) split() (work float64) {
	c.tasks = c.tasks[:0]
	left := c.q.Batch * c.k.Heads * c.q.Len
	procs := runtime.GOMAXPROCS(0)
	for i, p := range c.problems[:c.used] {
		s := p.span
		keys := p.rowWork()
		if p.spec.inBlocks() {
			both := float64(c.q.Dim + c.v.Dim)
			c.splitTilted(i, func(t rowTask) {
				c.tasks = append(c.tasks, t)
				work += float64(t.hi-t.lo) * both *
					(2*float64(len(p.keys)) + float64(p.spec.queries)*float64(p.clusters+p.spec.keys))
			})
			continue
		}
		if c.wanted != nil {
			for at, l := range c.wanted {
				if l >= s.Q0 && l < s.Q1 {
					c.tasks = append(c.tasks, rowTask{i, l - s.Q0, l - s.Q0 + 1, at})
					work += float64(c.group) * keys * float64(c.q.Dim+c.v.Dim)
				}
			}
			continue
		}
		n := s.Q1 - s.Q0
		rows := fewestRows
		if p.top > 0 {
			rows = min(max(rows, clusterRows*p.clusters/p.top), mostRows)
		}
		for lo, hi := 0, 0; lo < n; lo = hi {
			part := rows / c.group
			if procs > 1 { // smaller ones at the end, since all wait for the last
				part = min(part, max(left/(2*procs), leastRows))
			}
			hi = min(lo+max(part/tileRows, 1)*tileRows, n)
			left -= hi - lo
			c.tasks = append(c.tasks, rowTask{i, lo, hi, s.Q0 + lo})
		}
		work += float64(n*c.group) * keys * float64(c.q.Dim+c.v.Dim)
	}
	return work
}

// rowWork is about the number of keys and centroids that a row meets.
func (p *problem) rowWork() float64 {
	return float64(p.clusters) + float64(p.top)*float64(len(p.keys))/float64(max(1, p.clusters)) + 64
}

// run computes the outputs.
func (c *call) run() attention.Report {
	if c.inBlocks() {
		c.runTilted(true)
		return c.report()
	}
	c.prepare()
	return c.answer()
}

// answer computes the rows of prepared problems.
func (c *call) answer() attention.Report {
	if c.inBlocks() {
		c.balance()
	}
	work := c.split()
	c.do(len(c.tasks), work, (*rowStep)(c))
	return c.report()
}

// report returns the sum of the counts of all workers.
func (c *call) report() (total attention.Report) {
	for _, w := range c.crew.Workers {
		total.Add(w.report)
		w.report = attention.Report{}
	}
	return total
}

// The steps. The comment names the item of a step.
type (
	fitStep    call // a problem: weights of its keys and the centres that assign them
	assignStep call // the clusters of a chunk of keys
	groupStep  call // a problem: the order of its keys by cluster
	meanStep   call // some clusters: their keys side by side, and the centroids
	rankStep   call // some clusters: their ranks, and their centroids packed
	rowStep    call // the outputs of a task
)

func (s *fitStep) Item(w *worker, i int) error {
	(*call)(s).fit(w, s.problems[i])
	return nil
}

func (s *assignStep) Item(w *worker, i int) error {
	(*call)(s).assignKeys(w, s.chunks[i])
	return nil
}

// assignKeys assigns some keys of a problem to its centres.
func (c *call) assignKeys(w *worker, x keyChunk) {
	p := c.problems[x.problem]
	p.assign.assign(p.found[x.lo:x.hi], gathered(&w.gather, c.k.Head(p.b, p.h), p.keys[x.lo:x.hi]), &w.scores)
}

func (s *groupStep) Item(w *worker, i int) error {
	(*call)(s).groupKeys(w, s.problems[i])
	return nil
}

func (s *meanStep) Item(w *worker, i int) error {
	x := s.chunks[i]
	(*call)(s).centroids(w, s.problems[x.problem], x.lo, x.hi)
	return nil
}

func (s *rankStep) Item(w *worker, i int) error {
	x := s.ranks[i]
	p := s.problems[x.problem]
	s.tab.PackRows(&p.panel, p.centre, x.lo, x.hi)
	if p.top > 0 {
		(*call)(s).rank(w, p, x.lo, x.hi)
	}
	return nil
}

func (s *rowStep) Item(w *worker, i int) error {
	c, t := (*call)(s), s.tasks[i]
	if s.problems[t.problem].spec.inBlocks() {
		c.tilted(w, t)
	} else {
		c.rows(w, t)
	}
	return nil
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

	x, acc       dense.Matrix[float32] // scaled queries and sums of a task
	shift        []float32
	sum          []float64
	chosen       []int32 // Top clusters of every row
	stamp        []int32 // of a cluster: the last row that has chosen it
	far          dense.Matrix[float32]
	ranks        dense.Matrix[float32]
	peaks        []float32
	near         band
	sinks        band
	tile, values dense.Matrix[float32]
	tileX        dense.Matrix[float32]
	view         kern.Panel[float32]
	pick         selector // of sorting
	moments      moments
	tileMax      []float32
	tileSum      []float32
	choosers     []int32 // rows by the clusters that they have chosen
	report       attention.Report
	tiles        tiles
	tilt         tilt
}

// band are the exact keys [lo, hi) of a span, by position, that a stretch of queries shares.
type band struct {
	lo, hi  int
	panel   kern.Panel[float32]
	bias    []float32 // −∞ for masked keys
	masked  bool
	k, v    dense.Matrix[float32] // copies of masked ones
	keys    dense.Matrix[float32]
	values  dense.Matrix[float32]
	weights dense.Matrix[float32]
}

// problem is one packed sequence of one key/value head, with its keys grouped by cluster.
type problem struct {
	b, h int
	span attention.Span
	spec *settings

	single   bool                  // every key is a cluster of its own
	factor   dense.Matrix[float32] // of the metric, in any unit
	top      int                   // exact clusters per row
	keys     []int32               // the keys that count, by position in the sequence
	weights  []float32             // of them
	assign   assigner
	found    []int32 // cluster of every key that counts
	clusters int     // those that have keys
	start    []int32 // of a cluster among the sorted keys, and their number at the end
	order    []int32 // sorted keys: index in keys
	cluster  []int32 // of every key of the span, or hidden, or loose
	k, v     dense.Matrix[float32]
	share    []float32 // of a sorted key in its centroid

	centre  dense.Matrix[float32]
	panel   kern.Panel[float32]
	logSize []float32
	perKey  []float32 // 1/size

	risk []float32 // log(expected error) − log(mass) of a cluster, see rank
	mean dense.Matrix[float32]

	// of rows that choose together
	rows    rowOrder
	ordered bool // the rows are sorted
	moments moments
	left    int     // jobs that the next ones wait for
	place   []int32 // of At: where a row of the order goes, −1: nowhere

	packed kern.Panel[float32] // the sorted keys, where some clusters are exact; every cluster begins with a panel
	from   []int32             // the first output of a cluster there

	// of blocks that weigh the keys
	x      dense.Matrix[float32] // scaled queries in their order
	kv     dense.Matrix[float32] // sorted keys, each with its value beside it; packed has the keys
	blocks []int32               // the first rows of the wanted ones
	slope  slope
}

// Keys that are in no cluster.
const (
	hidden = -1 // masked
	loose  = -2 // a sink, or there are no clusters
)

// fitter returns the fitter of a worker, with the keys of p.
func (c *call) fitter(w *worker, p *problem) *fitter {
	f := &w.fit
	f.tab, f.workers = c.tab, runtime.GOMAXPROCS(0)/c.used
	f.reset(p.spec, c.scale, c.q, c.k, p.b, p.h, p.span)
	f.add(c.seen)
	return f
}

// fit weighs the keys of p and clusters them. Where queries choose in blocks it only lists the keys, and finds the
// coordinates that queries are sorted by.
func (c *call) fit(w *worker, p *problem) {
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
	if p.spec.inBlocks() {
		rows := (p.span.Q1 - p.span.Q0) * c.group
		if p.ordered = !p.single && rows > p.spec.queries; p.ordered {
			c.keyFactor(w, &p.moments, p, p.keys)
			p.rows.begin(rows)
		} else { // any order serves
			c.leaveRows(p)
		}
	}
	if p.single || p.spec.inBlocks() {
		return
	}
	p.factor = buf.Shaped(p.factor, c.k.Dim, c.k.Dim)
	f.train()
	f.assigner(&p.assign)
	copy(p.factor.Data, f.factor.Data)
	p.weights = append(p.weights[:0], f.weights...)
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

// groupKeys orders the keys of p by cluster and leaves out clusters without keys.
func (c *call) groupKeys(w *worker, p *problem) {
	n, most := len(p.keys), 0
	for _, x := range p.found {
		most = max(most, int(x)+1)
	}
	w.count = buf.Zeroed(w.count, most)
	for _, x := range p.found {
		w.count[x]++
	}
	p.start = append(p.start[:0], 0)
	for x, m := range w.count { // its new number and where its next key goes
		if m > 0 {
			w.count[x] = int32(len(p.start) - 1)
			p.start = append(p.start, p.start[len(p.start)-1]+m)
		}
	}
	p.clusters = len(p.start) - 1
	for i, x := range p.found {
		p.found[i] = w.count[x]
	}
	p.cluster = buf.Sized(p.cluster, p.span.K1-p.span.K0)
	for j := range p.cluster {
		p.cluster[j] = loose
		if c.seen != nil && !c.seen[p.b*c.k.Len+p.span.K0+j] {
			p.cluster[j] = hidden
		}
	}
	p.order = buf.Sized(p.order, n)
	w.count = append(w.count[:0], p.start...)
	for i, x := range p.found {
		p.order[w.count[x]] = int32(i)
		w.count[x]++
		p.cluster[int(p.keys[i])-p.span.K0] = x
	}
	p.setTop()
	if p.spec.inBlocks() {
		p.kv = buf.Shaped(p.kv, n, c.k.Dim+c.v.Dim)
		c.tab.Room(&p.packed, n, c.k.Dim)
		return
	}
	p.centre, p.mean = buf.Shaped(p.centre, p.clusters, c.k.Dim), buf.Shaped(p.mean, p.clusters, c.v.Dim)
	p.logSize = buf.Sized(p.logSize, p.clusters)
	p.k, p.v = buf.Shaped(p.k, n, c.k.Dim), buf.Shaped(p.v, n, c.v.Dim)
	p.share, p.perKey = buf.Sized(p.share, n), buf.Sized(p.perKey, p.clusters)
	c.tab.Room(&p.panel, p.clusters, c.k.Dim)
	if p.top == 0 {
		return
	}
	p.risk = buf.Sized(p.risk, p.clusters)
	// A cluster begins with a panel of its own: its keys are packed once, for all tasks.
	p.from = append(p.from[:0], 0)
	for x := range p.clusters {
		size, width := int(p.start[x+1]-p.start[x]), c.tab.Width
		p.from = append(p.from, p.from[x]+int32((size+width-1)/width*width))
	}
	c.tab.Room(&p.packed, int(p.from[p.clusters]), c.k.Dim)
}

// pack packs the keys of cluster x, which lie side by side.
func (p *problem) pack(tab *kern.Table[float32], x int) {
	lo, hi, width := int(p.start[x]), int(p.start[x+1]), tab.Width
	if tail := (hi - lo) % width; tail > 0 {
		end := int(p.from[x+1]) * p.packed.Cols
		clear(p.packed.Data[end-width*p.packed.Cols : end])
	}
	tab.PackAt(&p.packed, int(p.from[x]), p.k.RowRange(lo, hi))
}

// panelOf is a view of the packed keys [lo, hi) of cluster x; the keys before lo fill whole panels.
func (p *problem) panelOf(x, lo, hi int) kern.Panel[float32] {
	at := int(p.from[x]) + lo - int(p.start[x])
	return kern.Panel[float32]{Rows: hi - lo, Cols: p.packed.Cols, Width: p.packed.Width,
		Data: p.packed.Data[at*p.packed.Cols:]}
}

// setTop sets the number of exact clusters.
func (p *problem) setTop() {
	if p.top = min(p.spec.top, p.clusters); p.single {
		p.top = 0
	}
}

// centroids copies the keys of clusters [first, end) side by side and computes their centroids: means of keys by
// weight, and plain means of values.
func (c *call) centroids(w *worker, p *problem, first, end int) {
	k, v := c.k.Head(p.b, p.h), c.v.Head(p.b, p.h)
	for i := int(p.start[first]); i < int(p.start[end]); i++ {
		j := p.order[i]
		at := int(p.keys[j])
		copy(p.k.Row(i), k.Row(at))
		copy(p.v.Row(i), v.Row(at))
		p.share[i] = 1
		if !p.single {
			p.share[i] = p.weights[j]
		}
	}
	for x := first; x < end; x++ {
		lo, hi := int(p.start[x]), int(p.start[x+1])
		size := float64(hi - lo)
		p.logSize[x], p.perKey[x] = float32(math.Log(size)), float32(1/size)
		if p.top > 0 {
			p.pack(c.tab, x)
		}
		if hi-lo == 1 { // exactly the key
			p.share[lo] = 1
			copy(p.centre.Row(x), p.k.Row(lo))
			copy(p.mean.Row(x), p.v.Row(lo))
			continue
		}
		var total float64
		for _, s := range p.share[lo:hi] {
			total += float64(s)
		}
		c.tab.Scale(p.share[lo:hi], float32(1/total))
		c.average(w, p.centre.Row(x), p.k.RowRange(lo, hi), p.share[lo:hi])
		c.average(w, p.mean.Row(x), p.v.RowRange(lo, hi), nil)
	}
}

const (
	// rankMembers of a cluster, at equal distances, tell how much its keys and values differ.
	rankMembers = 16
	// rankRows of them are handled together, and rankClusters clusters by one item: whole panels.
	rankRows     = 256
	rankClusters = 64
)

// rank computes the term that is added to log n_c + x·c to rank clusters by the expected error of their centroid
// instead of their mass: log(ρ_c·ν_c/√n_c). ρ² is the mean of |R(y_j − c)|² over the members and ν² the mean of |v_j −
// v̄|², with v̄ the mean of all values. The term is −∞ for a cluster of equal keys, whose centroid is exact.
func (c *call) rank(w *worker, p *problem, from, to int) {
	d, dv := p.k.Cols, p.v.Cols
	p.meanValue(w)
	for x := from; x < to; {
		first, rows := x, 0
		for ; x < to && rows+rankMembers <= rankRows; x++ {
			rows += p.members(x)
		}
		w.diff, w.tile = buf.Shaped(w.diff, rows, d), buf.Shaped(w.tile, rows, dv)
		at := 0
		for y := first; y < x; y++ {
			lo, n := int(p.start[y]), int(p.start[y+1]-p.start[y])
			for i, m := 0, p.members(y); i < m; i++ {
				j := lo + (2*i+1)*n/(2*m)
				copy(w.diff.Row(at), p.k.Row(j))
				c.tab.MulAdd(w.diff.Row(at), p.centre.Row(y), -1)
				copy(w.tile.Row(at), p.v.Row(j))
				c.tab.MulAdd(w.tile.Row(at), w.one, -1)
				at++
			}
		}
		c.risks(w, p, first, x)
	}
}

// meanValue sets w.one to the mean of all values, from the means of clusters.
func (p *problem) meanValue(w *worker) {
	w.wide = buf.Zeroed(w.wide, p.mean.Cols)
	for x := range p.clusters {
		share := float64(p.start[x+1]-p.start[x]) / float64(len(p.keys))
		for l, v := range p.mean.Row(x) {
			w.wide[l] += share * float64(v)
		}
	}
	w.one = convert(w.one[:0], w.wide)
}

// members is the number of keys of a cluster that rank looks at.
func (p *problem) members(x int) int { return min(rankMembers, int(p.start[x+1]-p.start[x])) }

// risks sets the risks of the clusters [lo, hi). The differences of their keys and values are in w.diff and w.tile.
func (c *call) risks(w *worker, p *problem, lo, hi int) {
	rows := w.diff.Rows
	w.wide = buf.Sized(w.wide, 3*rows)
	size, rho, nu := w.wide[:rows], w.wide[rows:2*rows], w.wide[2*rows:]
	c.tab.Norms(size, w.diff)
	c.tab.Norms(nu, w.tile)
	for r := range rows { // the squares of the differences below might overflow
		if size[r] > 0 {
			c.tab.Scale(w.diff.Row(r), float32(1/math.Sqrt(size[r])))
		}
	}
	w.values = buf.Shaped(w.values, rows, p.k.Cols)
	c.tab.Product(w.values, w.diff, p.factor, false)
	c.tab.Norms(rho, w.values)
	const eps = 0x1p-20 // differences that are rounding errors of the centroid are none
	at := 0
	for x := lo; x < hi; x++ {
		m := p.members(x)
		var largest, key, value float64
		for r := at; r < at+m; r++ {
			largest = max(largest, size[r])
			key += rho[r] * size[r] / float64(m)
			value += nu[r] / float64(m)
		}
		at += m
		p.risk[x] = float32(math.Inf(-1))
		if m > 1 && largest > eps*eps*c.tab.Norm2(p.centre.Row(x)) {
			p.risk[x] = float32(0.5 * (math.Log(key) + math.Log(value) - math.Log(float64(p.start[x+1]-p.start[x]))))
		}
	}
}

// average sets dst to the sum of the rows of m with weights, or to their mean. Blocks are summed in float32 and the
// sums of the blocks in float64, so the rounding error does not grow with the size of the cluster.
func (c *call) average(w *worker, dst []float32, m dense.Matrix[float32], weights []float32) {
	w.wide = buf.Zeroed(w.wide, len(dst))
	w.part = buf.Sized(w.part, keyBlock)
	for lo := 0; lo < m.Rows; lo += keyBlock {
		hi := min(lo+keyBlock, m.Rows)
		part := w.part[:hi-lo]
		for i := range part {
			if weights != nil {
				part[i] = weights[lo+i]
			} else {
				part[i] = float32(1 / float64(m.Rows))
			}
		}
		c.tab.Product(view(dst, 1, len(dst)), view(part, 1, hi-lo), m.RowRange(lo, hi), false)
		for l, v := range dst {
			w.wide[l] += float64(v)
		}
	}
	for l, v := range w.wide {
		dst[l] = float32(v)
	}
}

// view is a packed view of the front of data.
func view(data []float32, rows, cols int) dense.Matrix[float32] {
	return dense.Matrix[float32]{Rows: rows, Cols: cols, Stride: cols, Data: data[:rows*cols]}
}
