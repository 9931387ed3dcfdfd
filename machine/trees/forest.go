package trees

import (
	"fmt"
	"math/bits"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// Forest is a fitted model. It is immutable; any number of goroutines may predict at the same time.
type Forest struct {
	classes int // 0: values
	start   []float64
	columns []column // of the table
	trees   []int32  // first node of each tree; round after round, one for each score
	nodes   []node
	sets    []set
	values  []float32      // of leaves; a tree has one more than nodes
	known   map[set]uint32 // while it grows: where a set is
}

// node is a split. The leaves of a tree are bits, from left to right. A row whose bin is not in the set goes right:
// only the leaves of Keep remain. After all nodes, in any order, the row is in the first leaf that remains. There is no
// path to follow and no branch to mispredict (Lucchese et al. 2015, QuickScorer).
type node struct {
	Keep   uint64
	Set    uint32 // of Forest.sets
	Column uint16
}

func newForest(b *Bins, l *loss, start []float64) *Forest {
	return &Forest{classes: l.Classes, start: start, columns: append([]column(nil), b.columns...),
		known: map[set]uint32{}}
}

// Trees returns the number of trees.
func (f *Forest) Trees() int { return len(f.trees) }

// Columns returns the number of columns of the tables that f predicts.
func (f *Forest) Columns() int { return len(f.columns) }

// Outputs returns the number of predictions per row: target columns or classes.
func (f *Forest) Outputs() int { return max(f.classes, len(f.start)) }

// Predict predicts the rows of x, which has the columns of the table of the fit: values, or a probability for each
// class. NaN is missing. dst has the rows of x and a column for each output; a wrong shape is an error that wraps
// dense.ErrShape. Up to 64 rows of up to 8192 values allocate nothing.
func (f *Forest) Predict(dst, x dense.Matrix[float64]) error {
	if x.Check() != nil || dst.Check() != nil || x.Cols != len(f.columns) || dst.Rows != x.Rows ||
		dst.Cols != f.Outputs() {
		return fmt.Errorf("trees: %d×%d predictions of %d×%d rows, want %d outputs of %d columns: %w", dst.Rows, dst.Cols,
			x.Rows, x.Cols, f.Outputs(), len(f.columns), dense.ErrShape)
	}
	if x.Rows <= len(numbers) {
		f.block(dst, x)
		return nil
	}
	par.For(x.Rows, len(numbers), func(lo, hi int) {
		for ; lo < hi; lo += len(numbers) {
			end := min(lo+len(numbers), hi)
			f.block(dst.RowRange(lo, end), x.RowRange(lo, end))
		}
	})
	return nil
}

// numbers of the rows that go through a tree together, while its nodes are in the cache.
var numbers = func() (rows [64]int32) {
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}()

// block predicts up to 64 rows.
func (f *Forest) block(dst, x dense.Matrix[float64]) {
	var stack [1 << 13]uint8
	bins := stack[:]
	if need := len(f.columns) * x.Rows; need > len(bins) {
		bins = make([]uint8, need)
	}
	for i := range x.Rows {
		for j, v := range x.Row(i) {
			if c := &f.columns[j]; c.used {
				bins[j*x.Rows+i] = c.bin(v)
			}
		}
	}
	f.predict(dst, bins, x.Rows, numbers[:x.Rows])
}

// predict sets the given rows of dst; bins has columns of so many rows.
func (f *Forest) predict(dst dense.Matrix[float64], bins []uint8, height int, rows []int32) {
	if len(rows) == 0 {
		return
	}
	for _, r := range rows {
		copy(dst.Row(int(r)), f.start)
	}
	for t := range f.trees {
		f.add(dst.Data[t%len(f.start):], dst.Stride, t, bins, height, rows)
	}
	for _, r := range rows {
		if p := dst.Row(int(r)); f.classes > 0 {
			link(p[:len(f.start)], p[:len(f.start)], f.classes)
			if f.classes == 2 {
				p[0], p[1] = 1-p[0], p[0]
			}
		}
	}
}

// add adds the values of tree t for rows to their scores, which are stride numbers apart.
func (f *Forest) add(scores []float64, stride, t int, bins []uint8, height int, rows []int32) {
	end := len(f.nodes)
	if t+1 < len(f.trees) {
		end = int(f.trees[t+1])
	}
	nodes, values, sets := f.nodes[f.trees[t]:end], f.values[int(f.trees[t])+t:], f.sets
	for _, r := range rows {
		kept := ^uint64(0)
		for i := range nodes {
			n := &nodes[i]
			kept &= n.Keep | -uint64(sets[n.Set].has(bins[int(n.Column)*height+int(r)]))
		}
		scores[int(r)*stride] += float64(values[bits.TrailingZeros64(kept)])
	}
}

// append adds a grown tree. One without splits gets a node that keeps all.
func (f *Forest) append(w *grower) {
	f.trees = append(f.trees, int32(len(f.nodes)))
	if len(w.nodes) == 0 {
		w.nodes, w.lefts = append(w.nodes, node{Keep: ^uint64(0)}), append(w.lefts, set{})
	}
	for i, n := range w.nodes {
		at, ok := f.known[w.lefts[i]]
		if !ok {
			at = uint32(len(f.sets))
			f.sets, f.known[w.lefts[i]] = append(f.sets, w.lefts[i]), at
		}
		n.Set = at
		f.nodes = append(f.nodes, n)
	}
	f.values = append(f.values, make([]float32, len(w.nodes)+1)...)
	for i := range w.leaves {
		f.values[len(f.values)-1-len(w.nodes)+w.leaves[i].place] = w.value(&w.leaves[i])
	}
}

// finish keeps the first trees and drops what predictions do not need.
func (f *Forest) finish(trees int) {
	if trees < len(f.trees) {
		f.nodes, f.values = f.nodes[:f.trees[trees]], f.values[:int(f.trees[trees])+trees]
		f.trees = f.trees[:trees]
	}
	used := make([]bool, len(f.columns))
	for _, n := range f.nodes {
		used[n.Column] = true
	}
	for j := range used {
		if f.columns[j].used = used[j]; !used[j] {
			f.columns[j].cuts = nil
		}
	}
	f.known = nil
}
