package tabular

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

// dealer assigns rows to folds, for any number of folds k:
//
//	plain rows     by their numbers alone (fold)
//	groups         all rows of a group in one fold; fold sizes are as equal as that allows
//	times          k+1 periods of about equally many rows; equal times share a period. A model of the rows before a
//	               period predicts it, so the first period is never scored.
type dealer struct {
	seed  uint64
	marks *data.Marks // nil: none
	known map[int]deal
	// horizon is the least time between the rows that a model learns from and the rows that it is scored on.
	horizon float64
}

// deal is the result for one number of folds: the fold of every group, or the first time of every period but the
// first.
type deal struct {
	group []uint8
	from  []float64
}

func newDealer(seed uint64, m *data.Marks) *dealer {
	return &dealer{seed: seed, marks: m, known: map[int]deal{}}
}

func (d *dealer) grouped() bool { return d.marks != nil && d.marks.Group != nil }
func (d *dealer) ordered() bool { return d.marks != nil && d.marks.Time != nil }

// parts returns the number of parts that the rows are divided into for k folds.
func (d *dealer) parts(k int) int {
	if d.ordered() && k > 1 {
		return k + 1
	}
	return k
}

// of returns the part of row i; parts is a result of the method parts. It fills the cache of deals, so only one
// goroutine may call it at a time.
func (d *dealer) of(i int64, parts int) int {
	switch {
	case parts == 1:
		return 0
	case d.grouped():
		return int(d.deal(parts).group[d.marks.Group[i]])
	case d.ordered():
		at, found := slices.BinarySearch(d.deal(parts).from, d.marks.Time[i])
		if found {
			at++
		}
		return at
	}
	return fold(d.seed, i, parts)
}

// near reports whether row i lies less than the horizon before period k. A model that predicts a horizon ahead
// cannot know such a row.
func (d *dealer) near(i int64, k, parts int) bool {
	from := d.deal(parts).from
	return d.horizon > 0 && k >= 1 && k <= len(from) && d.marks.Time[i] > from[k-1]-d.horizon
}

// learns reports whether a model that predicts part k may learn from part j.
func (d *dealer) learns(j, k int) bool {
	if d.ordered() {
		return j < k
	}
	return j != k
}

func (d *dealer) deal(parts int) deal {
	out, ok := d.known[parts]
	if ok {
		return out
	}
	if d.grouped() {
		out.group = d.dealGroups(parts)
	} else {
		times := slices.Clone(d.marks.Time)
		slices.Sort(times)
		for k := 1; k < parts; k++ {
			at := max(len(times)*k/parts, 1)
			for at < len(times) && times[at-1] == times[at] { // equal times stay in one period
				at++
			}
			if at < len(times) && (len(out.from) == 0 || times[at] > out.from[len(out.from)-1]) {
				out.from = append(out.from, times[at])
			}
		}
	}
	d.known[parts] = out
	return out
}

// dealGroups gives the groups, largest first, each to the fold that has the fewest rows so far. Groups of equal size
// are ordered by a hash of the seed.
func (d *dealer) dealGroups(parts int) []uint8 {
	rows := make([]int64, d.marks.Groups)
	for _, g := range d.marks.Group {
		rows[g]++
	}
	order := make([]int, len(rows))
	for g := range order {
		order[g] = g
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[b], rows[a]), cmp.Compare(rng.Mix64(d.seed^foldLabel^rng.Mix64(uint64(a))),
			rng.Mix64(d.seed^foldLabel^rng.Mix64(uint64(b)))))
	})
	out, sum := make([]uint8, len(rows)), make([]int64, parts)
	for _, g := range order {
		least := 0
		for k, n := range sum {
			if n < sum[least] {
				least = k
			}
		}
		out[g] = uint8(least)
		sum[least] += rows[g]
	}
	return out
}

// groups returns the number of groups that occur in the rows. A part of a table may lack some.
func (d *dealer) groups() int {
	seen := make([]bool, d.marks.Groups)
	n := 0
	for _, g := range d.marks.Group {
		if !seen[g] {
			seen[g] = true
			n++
		}
	}
	return n
}

// settle checks the groups or times before any fold is dealt.
func (d *dealer) settle(name string, o *Options) error {
	few := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", name, fmt.Sprintf(format, args...), machine.ErrNoRows)
	}
	switch {
	case d.grouped():
		n := d.groups()
		switch {
		case n < 2:
			return few("column %q has one group: there is none to hold out", o.Marks.Group)
		case n < o.Folds:
			return few("%d groups in column %q cannot be divided into %d folds: ask for at most %d", n, o.Marks.Group, o.Folds, n)
		}
	case d.ordered():
		n := len(d.deal(d.parts(max(o.Folds, 2))).from)
		if n < 1 {
			return few("column %q has the same time in nearly all rows: nothing comes after it", o.Marks.Time)
		}
	}
	return nil
}

// fold returns the fold of row i. Every k consecutive rows are dealt to the k folds in a random order of their own.
// Fold sizes are therefore equal, and the fold of a row depends only on its number: a pass can be resumed or cut into
// blocks anywhere. Rows are assumed exchangeable. If neighbours resemble each other, as in a time series, they land in
// different folds and scores are too optimistic. The cost is O(k) per row. The bias of the remainder of 64 bits by j+1
// ≤ k is below k·2⁻⁶⁴.
func fold(seed uint64, i int64, k int) int {
	group, at := uint64(i)/uint64(k), int(uint64(i)%uint64(k))
	// Fisher–Yates, followed for position at only: the element that ends there.
	state := rng.Mix64(seed ^ foldLabel ^ rng.Mix64(group))
	var small [16]int
	perm := small[:]
	if k > len(small) {
		perm = make([]int, k)
	}
	for j := range k {
		state += rng.Golden64
		r := int(rng.Mix64(state) % uint64(j+1))
		perm[j], perm[r] = perm[r], j
	}
	return perm[at]
}

// priority orders rows for the sample: the smallest values are taken. Mix64 is a permutation of words, so no two rows
// have the same priority, and the largest priority taken decides for any row whether it is in the sample.
func priority(seed uint64, i int64) uint64 {
	return rng.Mix64(seed ^ sampleLabel ^ rng.Mix64(uint64(i)))
}

// Labels separate the uses of one seed: the ASCII of folds, sample, pairs and exact. Changing a label
// changes every result.
const (
	foldLabel   = 0x666f6c6473
	sampleLabel = 0x73616d706c65
	pairLabel   = 0x7061697273
	exactLabel  = 0x6578616374
)
