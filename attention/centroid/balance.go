package centroid

import (
	"cmp"
	"math"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat/internal/buf"
)

// Blocks that weigh keys are grouped into tasks. The blocks of a task share a pass over the keys, so large tasks need
// fewer passes. Small tasks keep all processors busy until the end. Heads may have plans of different price, so tasks
// are compared by time, not by their number of blocks. No bit depends on the tasks.

// blockList is the blocks of one problem, with times in multiply-adds.
type blockList struct {
	blocks int
	block  float64 // the time of a block
	pass   float64 // the time of a pass over the keys
	each   int     // blocks of a task, the answer
}

// time is the time of a task of so many blocks.
func (l *blockList) time(blocks int) float64 { return float64(blocks)*l.block + l.pass }

// passWork is the time of a pass over the keys, for each number of a key and of its value. It is large because
// processors share their memory.
const passWork = 16

// rank orders tasks by time.
func (b *balancer) rank(t jobRange) int {
	return int(min(b.lists[t.problem].time(t.hi-t.lo)/1024, math.MaxInt32))
}

// balancer has the lists of a call and scratch memory.
type balancer struct {
	lists []blockList
	order []int
	loads []float64
}

// balance lists the blocks of all problems and finds their tasks.
func (c *call) balance() {
	b := &c.balancer
	b.lists = b.lists[:0]
	both := float64(c.q.Dim + c.v.Dim)
	for _, p := range c.problems[:c.used] {
		rows, keys := (p.span.Q1-p.span.Q0)*c.group, float64(p.span.K1-p.span.K0)
		l := blockList{pass: passWork * both * keys}
		size := p.spec.queries
		l.blocks = (rows + size - 1) / size
		l.block = both * (2*keys + float64(min(size, rows))*float64(p.spec.clusters+p.spec.keys))
		b.lists = append(b.lists, l)
	}
	b.run(runtime.GOMAXPROCS(0), tiltBlocks)
}

// shares are the numbers of tasks per processor that run tries.
var shares = [...]float64{1, 1.5, 2, 3, 4, 6, 8, 12}

// run finds the tasks with which the last of the processors ends first, of at most most blocks.
func (b *balancer) run(procs, most int) {
	all := 0.0
	for i := range b.lists {
		l := &b.lists[i]
		l.each = min(max(l.blocks, 1), most)
		all += float64((l.blocks+l.each-1)/l.each)*l.pass + float64(l.blocks)*l.block
	}
	if procs == 1 || len(b.lists) >= 4*procs { // the last tasks are small anyway
		return
	}
	b.order, b.loads = buf.Sized(b.order, len(b.lists)), buf.Sized(b.loads, procs)
	best, least := 0.0, math.Inf(1)
	for _, share := range shares {
		task := all / (float64(procs) * share)
		b.cut(task, most)
		if end := b.end(); end < least {
			best, least = task, end
		}
	}
	b.cut(best, most)
}

// cut makes tasks of at most the given time, if their pass leaves some, and of equal numbers of blocks.
func (b *balancer) cut(task float64, most int) {
	for i := range b.lists {
		if l := &b.lists[i]; l.blocks > 0 {
			each := min(max(int((task-l.pass)/l.block), 1), most)
			tasks := (l.blocks + each - 1) / each
			l.each = (l.blocks + tasks - 1) / tasks
		}
	}
}

// end is the time at which the last processor ends, if each takes the longest task that is left.
func (b *balancer) end() float64 {
	for i := range b.order {
		b.order[i] = i
	}
	slices.SortStableFunc(b.order, func(x, y int) int {
		return cmp.Compare(b.lists[y].time(b.lists[y].each), b.lists[x].time(b.lists[x].each))
	})
	clear(b.loads)
	for _, i := range b.order {
		l := &b.lists[i]
		for lo := 0; lo < l.blocks; lo += l.each {
			first := 0
			for p, load := range b.loads {
				if load < b.loads[first] {
					first = p
				}
			}
			b.loads[first] += l.time(min(l.each, l.blocks-lo))
		}
	}
	return slices.Max(b.loads)
}
