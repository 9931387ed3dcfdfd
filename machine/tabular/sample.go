package tabular

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// sample holds a part of the rows in memory, sorted by fold. Choices are tried on it, and a fold is a range of its
// rows, without a copy. Every row is in its fold of the whole table, so sums without a fold have not seen that fold's
// rows of the sample either. The inputs take at most 8·sampleCells bytes, twice that while the sample is
// drawn.
type sample struct {
	x dense.Matrix[float64]
	y dense.Matrix[float64] // as machine.Rows yields it
	t dense.Matrix[float64] // targets: standardised numbers, or 0 and 1 per class; none for a density
	// first[k] is the first row of fold k; the last entry is the number of rows.
	first []int
	// ordered says that folds follow each other in time. Models learn from earlier folds, and the first is not
	// scored.
	ordered bool
	// weighted says that the last column of y holds weights.
	weighted bool
	rows     []int64 // numbers in the table
	// places are the columns with codes by means, with the level of every row.
	places []crossedColumns
}

func (s *sample) len() int   { return s.x.Rows }
func (s *sample) folds() int { return len(s.first) - 1 }

// fold returns the range [lo, hi) of the rows of fold k.
func (s *sample) fold(k int) (lo, hi int) { return s.first[k], s.first[k+1] }

// weight returns the weight of row i.
func (s *sample) weight(i int) float64 {
	if !s.weighted {
		return 1
	}
	return s.y.At(i, s.y.Cols-1)
}

// reservoir keeps the rows with the smallest priorities. These depend only on row numbers and the seed. The result
// is a simple random sample in one pass, and priority tells later which rows are in it, without a list. A row that
// is taken costs O(log Sample).
type reservoir struct {
	seed uint64
	x, y dense.Matrix[float64]
	top  byPriority
	rows int64 // rows seen
}

type candidate struct {
	priority uint64
	row      int64
	slot     int
}

// byPriority is a heap with the largest priority first.
type byPriority []candidate

func (h byPriority) Len() int           { return len(h) }
func (h byPriority) Less(i, j int) bool { return h[i].priority > h[j].priority }
func (h byPriority) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byPriority) Push(v any)        { *h = append(*h, v.(candidate)) }
func (h *byPriority) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}

func (r *reservoir) add(x, y dense.Matrix[float64], most int) {
	for i := range x.Rows {
		c := candidate{priority: priority(r.seed, r.rows), row: r.rows, slot: len(r.top)}
		r.rows++
		switch {
		case len(r.top) < most:
			r.x, r.y = appendRow(r.x, x.Row(i)), appendRow(r.y, y.Row(i))
			heap.Push(&r.top, c)
		case c.priority < r.top[0].priority:
			c.slot = r.top[0].slot
			copy(r.x.Row(c.slot), x.Row(i))
			copy(r.y.Row(c.slot), y.Row(i))
			r.top[0] = c
			heap.Fix(&r.top, 0)
		}
	}
}

func appendRow(m dense.Matrix[float64], row []float64) dense.Matrix[float64] {
	return dense.Matrix[float64]{Rows: m.Rows + 1, Cols: len(row), Stride: len(row), Data: append(m.Data, row...)}
}

// take reads the table once. It counts rows and classes and draws the sample.
func (j *job) take(rows machine.Rows) (*sample, int64, error) {
	r := reservoir{seed: j.o.Seed}
	most := max(j.o.Sample, j.exactLimit())
	counts := make([]int64, j.outputs)
	err := rows.Each(j.o.Block, func(x, y dense.Matrix[float64]) error {
		if j.task == machine.Classification {
			for i := range y.Rows {
				counts[int(y.At(i, 0))]++
			}
		}
		r.add(x, y, most)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if err := j.checkRows(r.rows, counts); err != nil {
		return nil, 0, err
	}
	// The sample keeps all rows if the exact kernel will use them.
	if keep := j.kept(r.rows); keep < len(r.top) {
		slices.SortFunc(r.top, func(a, b candidate) int { return cmp.Compare(a.priority, b.priority) })
		r.top = r.top[:keep]
	}
	folds := j.innerFolds(r.rows)
	slices.SortFunc(r.top, func(a, b candidate) int {
		if k := j.deal.of(a.row, folds) - j.deal.of(b.row, folds); k != 0 {
			return k
		}
		return int(a.row - b.row)
	})
	s := &sample{x: dense.New[float64](len(r.top), r.x.Cols), y: dense.New[float64](len(r.top), r.y.Cols),
		ordered: j.deal.ordered(), weighted: j.weights != nil}
	at := -1
	for i, c := range r.top {
		copy(s.x.Row(i), r.x.Row(c.slot))
		copy(s.y.Row(i), r.y.Row(c.slot))
		s.rows = append(s.rows, c.row)
		for k := j.deal.of(c.row, folds); at < k; at++ {
			s.first = append(s.first, i)
		}
	}
	for len(s.first) <= folds {
		s.first = append(s.first, len(r.top))
	}
	s.t = indicators(j.task, j.outputs, s.y)
	return s, r.rows, nil
}

// kept returns the size of a sample of n rows.
func (j *job) kept(n int64) int {
	switch {
	case n <= int64(j.exactLimit()) || n <= int64(j.o.Sample):
		return int(n)
	case j.subsamples(n):
		return j.partRows()
	}
	return j.o.Sample
}

// innerFolds returns the number of parts for choices and calibration. They need rows held out even if the caller
// asked for no scores.
func (j *job) innerFolds(rows int64) int {
	folds := j.o.Folds
	if folds < 2 {
		folds = int(min(rows, defaultFolds))
		if j.deal.grouped() {
			folds = min(folds, j.deal.groups())
		}
	}
	return j.deal.parts(folds)
}

// checkRows refuses tables that cannot be divided into folds, and tables with only one class.
func (j *job) checkRows(n int64, counts []int64) error {
	if need := int64(max(j.o.Folds, 2)); n < need { // choices need rows held out even without scores
		return fmt.Errorf("%s: %d rows cannot be divided into %d folds: give more rows, or fewer folds: %w", j.src.Name(), n,
			need, machine.ErrNoRows)
	}
	if j.task != machine.Classification {
		return nil
	}
	present, last := 0, 0
	for c, n := range counts {
		if n > 0 {
			present, last = present+1, c
		}
	}
	if present < 2 {
		return fmt.Errorf("%s: target %q is %q in every row, one class cannot be told from another: %w", j.src.Name(),
			j.schema.Targets[0].Name, j.schema.Targets[0].Classes[last], machine.ErrClass)
	}
	return nil
}

// indicators returns the targets of the models: standardised numbers, or 0 and 1 per class.
func indicators(task machine.Task, outputs int, y dense.Matrix[float64]) dense.Matrix[float64] {
	switch task {
	case machine.Unsupervised:
		return dense.Matrix[float64]{}
	case machine.Regression:
		return y.ColRange(0, outputs)
	}
	t := dense.New[float64](y.Rows, outputs)
	for i := range y.Rows {
		t.Set(i, int(y.At(i, 0)), 1)
	}
	return t
}
