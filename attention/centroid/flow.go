package centroid

import "sync"

// flow holds the jobs of a call that are ready to begin. A job becomes ready when the last job that it needs has ended,
// so no worker waits for the end of a whole step. Which worker runs a job, and when, changes no bit.
type flow struct {
	mu      sync.Mutex
	wake    *sync.Cond
	ready   [3][]flowJob // the first list is the most urgent; the last is a heap by rank
	open    int          // jobs that are ready or running
	ended   bool         // one has panicked
	outputs bool         // rows follow
}

// flowJob is a job of problem, chunk or task x.problem. x.lo and x.hi are its keys or rows if it has only some of them.
type flowJob struct {
	kind  uint8
	x     jobRange
	from  int // of a part of an order: its place
	depth int // of such a part
	rank  int // the largest of the least urgent jobs come first
}

// jobRange are keys, rows or blocks of a problem, or chunks.
type jobRange struct{ problem, lo, hi int }

// begin makes f empty.
func (f *flow) begin(outputs bool) {
	if f.wake == nil {
		f.wake = sync.NewCond(&f.mu)
	}
	f.open, f.ended, f.outputs = 0, false, outputs
	for u := range f.ready {
		f.ready[u] = f.ready[u][:0]
	}
}

// push makes a job ready. The caller holds the lock, unless no worker has begun.
func (f *flow) push(urgency int, j flowJob) {
	list := append(f.ready[urgency], j)
	f.ready[urgency] = list
	f.open++
	if urgency < len(f.ready)-1 {
		return
	}
	for at := len(list) - 1; at > 0; {
		parent := (at - 1) / 2
		if list[parent].rank >= list[at].rank {
			return
		}
		list[parent], list[at] = list[at], list[parent]
		at = parent
	}
}

// pop removes the job of the largest rank from a heap that is not empty.
func pop(list []flowJob) (j flowJob, rest []flowJob) {
	j, rest = list[0], list[:len(list)-1]
	if len(rest) > 0 {
		rest[0] = list[len(rest)]
	}
	for at := 0; ; {
		most := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(rest); child++ {
			if rest[child].rank > rest[most].rank {
				most = child
			}
		}
		if most == at {
			return j, rest
		}
		rest[at], rest[most] = rest[most], rest[at]
		at = most
	}
}

// pushRanges makes jobs of each keys or rows of problem i, and returns their number.
func (f *flow) pushRanges(kind uint8, i, n, each int) (jobs int) {
	for lo := 0; lo < n; lo += each {
		f.push(0, flowJob{kind: kind, x: jobRange{i, lo, min(lo+each, n)}})
		jobs++
	}
	return jobs
}

// take waits for a job. False: there is none left.
func (f *flow) take() (j flowJob, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.ended && f.open > 0 {
		for u, list := range f.ready {
			if len(list) == 0 {
				continue
			}
			if u == len(f.ready)-1 {
				j, f.ready[u] = pop(list)
			} else {
				j, f.ready[u] = list[len(list)-1], list[:len(list)-1]
			}
			return j, true
		}
		f.wake.Wait()
	}
	return j, false
}

// done ends a job. next makes those ready that have waited for it.
func (f *flow) done(j flowJob, next func(j flowJob)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.open
	next(j)
	f.open--
	switch {
	case f.open == 0 || f.open > was:
		f.wake.Broadcast()
	case f.open == was:
		f.wake.Signal()
	}
}

// release ends all waits after a panic.
func (f *flow) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.wake.Broadcast()
}
