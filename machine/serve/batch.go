package serve

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// batcher predicts the rows of many requests with few calls. At most one call per processor runs at a time.
//
// Who waits for whom: a request that finds a processor idle is predicted at once, on its own goroutine. The
// others queue. Whoever finishes a call takes all jobs that have queued meanwhile as the next batch. Batches
// therefore grow with the load, and no request waits for a batch to fill.
//
// Invariants, under mu: running counts goroutines that predict or are about to; the queue is empty while
// running < workers; every job in the queue belongs to a request that waits on job.done.
type batcher struct {
	predictor *machine.TablePredictor
	columns   []string // columns of the rows
	kinds     []data.Kind
	out       []column // columns of job.out
	max       int      // most rows of a batch of several jobs
	workers   int
	observe   func(rows int)                                      // called with the rows of each call
	panicked  func(any)                                           // called with the value of a panic
	surprised func([]data.Surprise)                               // called with the counts of unusual values
	watched   func(in *data.Block, outputs dense.Matrix[float64]) // called with the rows of each call

	mu      sync.Mutex
	queue   []*job // empty while running < workers
	running int
	free    []*engine // engines not in use
}

// engine is the memory of one call. It belongs to one goroutine at a time; free engines wait in batcher.free.
type engine struct {
	run     *machine.TableRun
	in, out data.Block
	hits    [][2]int // unusual values of the call: row, index among the surprises
}

// job is a block of rows of one request. Until done, in and out belong to the call that took the job.
type job struct {
	in, out *data.Block // out: identifiers, then predictions
	row     int         // row of err, from 0; −1: unknown
	err     error
	watched bool          // the rows are compared with those of the fit
	done    chan struct{} // has room for one signal, so that serve never blocks

	surprises []surprise
}

// surprise counts values of a column that are unlike the training rows.
type surprise struct {
	data.Surprise
	row int // first such row, from 0
}

// maxSurprises bounds the surprises that a client is told of: one per column and kind could be many.
const maxSurprises = 100

var errPanicked = errors.New("the prediction panicked")

// newBatcher opens the predictor for rows with the given columns.
func newBatcher(p *machine.TablePredictor, columns []string, max int) (*batcher, error) {
	b := &batcher{predictor: p, columns: columns, max: max, workers: runtime.GOMAXPROCS(0), observe: func(int) {},
		panicked: func(any) {}, surprised: func([]data.Surprise) {},
		watched: func(*data.Block, dense.Matrix[float64]) {}}
	e, err := b.engine()
	if err != nil {
		return nil, err
	}
	b.kinds = e.run.Kinds()
	for _, name := range e.run.IDs() {
		b.out = append(b.out, newColumn(name, data.Text))
	}
	names, kinds := p.Columns()
	for i, name := range names {
		b.out = append(b.out, newColumn(name, kinds[i]))
	}
	b.free = append(b.free, e)
	return b, nil
}

// engine returns a free engine or opens a new one. There are at most workers of them.
func (b *batcher) engine() (*engine, error) {
	b.mu.Lock()
	if n := len(b.free); n > 0 {
		e := b.free[n-1]
		b.free = b.free[:n-1]
		b.mu.Unlock()
		return e, nil
	}
	b.mu.Unlock()
	run, err := b.predictor.Open(b.columns)
	if err != nil {
		return nil, err
	}
	e := &engine{run: run}
	run.OnSurprise(func(row, i int) { e.hits = append(e.hits, [2]int{row, i}) })
	return e, nil
}

// predict fills j.out. It returns early only if ctx ends while the job still queues; then nobody uses the
// blocks any more. If a call has already taken the job, predict waits for it, because the call writes to the
// blocks.
func (b *batcher) predict(ctx context.Context, j *job) error {
	b.mu.Lock()
	if b.running < b.workers {
		b.running++
		b.mu.Unlock()
		defer b.next()
		b.serve([]*job{j})
		<-j.done // already signalled by serve
		return j.err
	}
	b.queue = append(b.queue, j)
	b.mu.Unlock()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	if b.withdraw(j) {
		return ctx.Err()
	}
	<-j.done // a call has taken the job; it will not take long
	return j.err
}

// withdraw takes a job out of the queue. It reports false if a call has already taken the job.
func (b *batcher) withdraw(j *job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, q := range b.queue {
		if q == j {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			return true
		}
	}
	return false
}

// next ends the caller's turn. If jobs wait, it starts a goroutine for them: the caller must answer its own request
// first.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.running--
		return
	}
	go b.drain()
}

// drain predicts until the queue is empty.
func (b *batcher) drain() {
	for {
		b.mu.Lock()
		batch := b.take()
		if len(batch) == 0 {
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.serve(batch)
	}
}

// take removes the first jobs of the queue: as many as fit, at least one.
func (b *batcher) take() []*job {
	n, rows := 0, 0
	for n < len(b.queue) && (n == 0 || rows+b.queue[n].in.Rows <= b.max) {
		rows += b.queue[n].in.Rows
		n++
	}
	batch := append([]*job(nil), b.queue[:n]...)
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	return batch
}

// serve predicts a batch and wakes the requests that wait for it. A panic fails the requests of this batch only,
// because the process serves others. The engine is then dropped, since its state is unknown.
func (b *batcher) serve(batch []*job) {
	// Set first, so that a panic leaves this error in the jobs that were not reached.
	for _, j := range batch {
		j.err = errPanicked
	}
	defer func() {
		if v := recover(); v != nil {
			b.panicked(v)
		}
		for _, j := range batch {
			j.done <- struct{}{}
		}
	}()
	e, err := b.engine()
	if err != nil {
		for _, j := range batch {
			j.err = err
		}
		return
	}
	// One bad row fails the joint call; then each job is predicted alone.
	if len(batch) == 1 || !b.together(e, batch) {
		for _, j := range batch {
			b.observe(j.in.Rows)
			j.err = e.predict(j.out, j.in, &j.row)
			if s := e.take([]*job{j}); j.err == nil {
				b.surprised(s)
				b.watch(j, e.run.Outputs())
			}
		}
	} else {
		b.surprised(e.take(batch))
	}
	b.mu.Lock()
	b.free = append(b.free, e)
	b.mu.Unlock()
}

// watch passes the rows of a job on, unless a person tries the model out.
func (b *batcher) watch(j *job, outputs dense.Matrix[float64]) {
	if j.watched {
		b.watched(j.in, outputs)
	}
}

// take assigns the surprises of a call to the jobs whose rows they are in, and resets the counts.
func (e *engine) take(batch []*job) []data.Surprise {
	all := e.run.TakeSurprises()
	for _, j := range batch {
		j.surprises = j.surprises[:0]
	}
	if len(e.hits) == 0 {
		return all
	}
	at := map[[2]int]int{} // index into the job's surprises by job and surprise
	for _, h := range e.hits {
		row, k := h[0], 0
		for k < len(batch) && row >= batch[k].in.Rows {
			row -= batch[k].in.Rows
			k++
		}
		if k == len(batch) {
			break // rows of a failed joint call: the jobs are predicted again one by one, and counted then
		}
		j := batch[k]
		i, ok := at[[2]int{k, h[1]}]
		if !ok {
			if i = len(j.surprises); i == maxSurprises {
				continue
			}
			s := all[h[1]]
			told := data.Surprise{Column: s.Column, What: s.What, Known: s.Known}
			j.surprises = append(j.surprises, surprise{told, row})
			at[[2]int{k, h[1]}] = i
		}
		j.surprises[i].Rows++
	}
	e.hits = e.hits[:0]
	return all
}

// predict calls the model. row receives the row that an error is about: the model asks for its place only then.
func (e *engine) predict(out, in *data.Block, row *int) error {
	*row = -1
	return e.run.Predict(out, in, func(i int) string {
		*row = i
		return "row"
	})
}

// together predicts a batch in one call. It reports false if some row cannot be predicted: each job is then predicted
// alone, so that only the request with the bad row fails.
func (b *batcher) together(e *engine, batch []*job) bool {
	e.in.Reset(0, b.kinds)
	for _, j := range batch {
		for c := range e.in.Cols {
			dst, src := &e.in.Cols[c], &j.in.Cols[c]
			dst.Num = append(dst.Num, src.Num...)
			for i, t := range src.Text {
				dst.Text = append(dst.Text, t)
				dst.Bare = append(dst.Bare, src.IsBare(i))
			}
		}
		e.in.Rows += j.in.Rows
	}
	b.observe(e.in.Rows)
	var row int
	err := e.predict(&e.out, &e.in, &row)
	for c := range e.in.Cols {
		clear(e.in.Cols[c].Text) // the texts belong to the requests: keep no reference
	}
	if err != nil {
		e.take(nil) // each job is counted again when it is predicted alone
		return false
	}
	first := 0
	for _, j := range batch {
		part(j.out, &e.out, first, j.in.Rows)
		b.watch(j, e.run.Outputs().RowRange(first, first+j.in.Rows))
		first += j.in.Rows
		j.err = nil
	}
	return true
}

// part copies rows of a block. dst gets its own texts, because src is reused by the next call.
func part(dst, src *data.Block, first, rows int) {
	kinds := make([]data.Kind, len(src.Cols))
	for c := range src.Cols {
		kinds[c] = data.Number
		if src.Cols[c].Text != nil {
			kinds[c] = data.Text
		}
	}
	dst.Reset(0, kinds)
	dst.Rows = rows
	for c := range src.Cols {
		if kinds[c] == data.Number {
			dst.Cols[c].Num = append(dst.Cols[c].Num, src.Cols[c].Num[first:first+rows]...)
			continue
		}
		dst.AppendCells(c, &src.Cols[c], first, rows)
	}
}
