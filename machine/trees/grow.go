package trees

import (
	"context"
	"math"

	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
)

// leaf is a leaf of a growing tree.
type leaf struct {
	lo, hi int // its rows are grower.rows[lo:hi]
	sum    packed
	sums   []packed // its histograms, by drawn column
	split  split
	place  int // from left to right
}

func (l *leaf) rows() int { return l.hi - l.lo }

// grower grows trees, one after the other in the same memory.
type grower struct {
	Options
	table    *Bins
	workers  func() int
	rows     []int32  // drawn, leaf after leaf
	packed   []packed // derivatives by row of the table
	unit     derivative
	drawn    []int32 // columns
	offset   []int   // of each drawn column in the histograms of a leaf
	leaves   []leaf  // in the order of their making
	nodes    []node
	lefts    []set // of each node
	moved    []int32
	gathered []packed

	// A step searches one leaf or two siblings. The first is summed; the second has what remains of their parent.
	step  [2]*leaf
	gains [2][]float64 // of the best splits, by drawn column
	group par.Group
	each  []worker
}

// worker is the memory of a goroutine.
type worker struct {
	sums
	search
	columns [stripe][]uint8
}

// splits reports whether l has rows enough for two leaves.
func (w *grower) splits(l *leaf) bool { return l != nil && l.rows() >= 2*w.MinRows }

// grow grows a tree on the drawn rows and columns.
func (w *grower) grow(ctx context.Context, columns []int32) error {
	w.drawn, w.offset = columns, append(w.offset[:0], 0)
	for i, c := range columns {
		w.offset = append(w.offset, w.offset[i]+w.table.columns[c].count())
	}
	for i := range w.gains {
		w.gains[i] = buf.Sized(w.gains[i], len(columns))
	}
	w.nodes, w.lefts, w.leaves = w.nodes[:0], w.lefts[:0], w.leaves[:0]
	root := w.add(leaf{hi: len(w.rows)})
	for _, r := range w.rows {
		root.sum += w.packed[r]
	}
	for w.find(root, nil); len(w.leaves) < w.Leaves; {
		if err := ctx.Err(); err != nil {
			return err
		}
		l := root
		for i := range w.leaves {
			if w.leaves[i].split.gain > l.split.gain {
				l = &w.leaves[i]
			}
		}
		if l.split.gain == 0 {
			break
		}
		w.divide(l)
	}
	return nil
}

// add appends a leaf. The memory of its histograms is that of the leaf that was there in the last tree.
func (w *grower) add(l leaf) *leaf {
	n := len(w.leaves)
	w.leaves = w.leaves[:n+1]
	l.sums = buf.Sized(w.leaves[n].sums, w.offset[len(w.drawn)])
	w.leaves[n] = l
	return &w.leaves[n]
}

// divide makes l the left one of two leaves.
func (w *grower) divide(l *leaf) {
	for i := range w.leaves {
		if w.leaves[i].place > l.place {
			w.leaves[i].place++
		}
	}
	for i, n := range w.nodes { // a node keeps both new leaves, or none
		w.nodes[i].Keep = n.Keep&(2<<l.place-1) | n.Keep>>l.place<<(l.place+1)
	}
	w.nodes = append(w.nodes, node{Column: uint16(l.split.column), Keep: ^(1 << l.place)})
	w.lefts = append(w.lefts, l.split.left)
	middle, sum := w.partition(l)
	right := w.add(leaf{lo: middle, hi: l.hi, sum: l.sum - sum, place: l.place + 1})
	*l = leaf{lo: l.lo, hi: middle, sum: sum, sums: l.sums, place: l.place}
	if len(w.leaves) == w.Leaves {
		return
	}
	if l.rows() <= right.rows() {
		l.sums, right.sums = right.sums, l.sums // the larger one gets those of the parent
		w.find(l, right)
	} else {
		w.find(right, l)
	}
}

// partition moves the rows of l that go left before the others, both in their order. It returns where the right ones
// begin and the sum of the left ones.
func (w *grower) partition(l *leaf) (middle int, sum packed) {
	var isLeft [256]uint8
	for bin := range isLeft {
		isLeft[bin] = l.split.left.has(uint8(bin))
	}
	bins, rows := w.table.column(int(l.split.column)), w.rows[l.lo:l.hi]
	moved, left, right := w.moved[:len(rows)], 0, 0
	for _, r := range rows {
		// Write both and advance one: a branch would be mispredicted.
		rows[left], moved[right] = r, r
		is := isLeft[bins[r]]
		left += int(is)
		right += int(1 - is)
		sum += w.packed[r] & -packed(is)
	}
	copy(rows[left:], moved[:right])
	return l.lo + left, sum
}

// find finds the best splits of two siblings, the first of which has fewer rows, or of the root.
func (w *grower) find(small, large *leaf) {
	if len(w.drawn) == 0 || !w.splits(small) && !w.splits(large) {
		return
	}
	w.step = [2]*leaf{small, large}
	w.gathered = w.gathered[:small.rows()]
	for i, r := range w.rows[small.lo:small.hi] {
		w.gathered[i] = w.packed[r]
	}
	workers := max(1, min(w.workers(), len(w.drawn)*(small.rows()+4*maxBins)>>15))
	for len(w.each) < workers {
		w.each = append(w.each, worker{})
	}
	w.group.Do((len(w.drawn)+stripe-1)/stripe, workers, w)
	for i, l := range w.step {
		if !w.splits(l) {
			continue
		}
		at := 0
		for k, gain := range w.gains[i] {
			if gain > w.gains[i][at] {
				at = k
			}
		}
		if w.gains[i][at] > 0 {
			l.split.column = w.drawn[at]
			l.split.gain = w.search(&w.each[0].search, l, at, &l.split.left)
		}
	}
}

// Run implements par.Job on stripes of the drawn columns.
func (w *grower) Run(number, lo, hi int) {
	s := &w.each[number]
	for at := lo * stripe; at < min(hi*stripe, len(w.drawn)); at += stripe {
		drawn := w.drawn[at:min(at+stripe, len(w.drawn))]
		for k, c := range drawn {
			s.columns[k] = w.table.column(int(c))
			clear(s.sums[k][:w.table.columns[c].count()])
		}
		s.fill(s.columns[:len(drawn)], w.rows[w.step[0].lo:w.step[0].hi], w.gathered)
		for k := range drawn {
			from, to := w.offset[at+k], w.offset[at+k+1]
			small := s.sums[k][:to-from]
			copy(w.step[0].sums[from:to], small)
			if w.step[1] != nil {
				large := w.step[1].sums[from:to][:len(small)]
				for bin, v := range small {
					large[bin] -= v
				}
			}
			for i, l := range w.step {
				if w.splits(l) {
					w.gains[i][at+k] = w.search(&s.search, l, at+k, nil)
				}
			}
		}
	}
}

// search returns the gain of the best split of a leaf by a drawn column, and the bins on the left if they are wanted.
func (w *grower) search(s *search, l *leaf, drawn int, left *set) float64 {
	s.total, s.unit, s.lambda = l.sum, w.unit.h, w.Lambda*w.unit.h
	// The Hessian of MinRows rows, if all rows of the leaf have the same.
	s.least = uint32(max(1, math.Floor(float64(w.MinRows)*l.sum.h()/float64(l.rows()))))
	h := l.sums[w.offset[drawn]:w.offset[drawn+1]]
	if w.table.columns[w.drawn[drawn]].levels {
		return s.levels(h, left)
	}
	return s.numbers(h, left)
}

// value is the Newton step of a leaf, shrunken.
func (w *grower) value(l *leaf) float32 {
	return float32(-w.Rate * (l.sum.g() / w.unit.g) / (l.sum.h()/w.unit.h + w.Lambda))
}
