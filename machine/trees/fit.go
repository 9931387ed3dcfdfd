package trees

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// Labels of the random streams of a seed.
const (
	heldStream = iota
	rowStream
	columnStream
)

// Fit fits a forest to the given rows of the table, in ascending order; nil means all rows. The target has an entry for
// every row of the table. Rows of weight 0 are left out. The forest depends on the arguments alone, not on the number
// of goroutines. If ctx ends first, Fit returns its error.
func Fit(ctx context.Context, b *Bins, rows []int, t Target, o Options) (*Forest, error) {
	return fit(ctx, b, rows, t, o, func() int { return runtime.GOMAXPROCS(0) })
}

func fit(ctx context.Context, b *Bins, rows []int, t Target, o Options, workers func() int) (*Forest, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l, err := newLoss(t, b.rows)
	if err != nil {
		return nil, err
	}
	w := &boosting{loss: l}
	if w.rows, err = choose(rows, l); err != nil {
		return nil, err
	}
	if o.Patience > 0 {
		w.held, w.rows = draw(rng.Stream(o.Seed, heldStream), w.rows, max(1, int(o.Held*float64(len(w.rows)))))
	}
	sums := 0
	for j, c := range b.columns {
		if c.used {
			w.columns = append(w.columns, int32(j))
			sums += c.count()
		}
	}
	if o.Trees*l.scores > maxTotal/o.Leaves || sums > maxSums/o.Leaves || len(w.rows) == 0 {
		return nil, fmt.Errorf("trees: %d rounds of %d trees with %d leaves and %d bins for %d rows: too many, or no rows",
			o.Trees, l.scores, o.Leaves, sums, len(w.rows))
	}
	n := len(w.rows)
	w.grower = grower{Options: o, table: b, workers: workers, packed: make([]packed, b.rows), rows: make([]int32, 0, n),
		leaves: make([]leaf, 0, o.Leaves), nodes: make([]node, 0, o.Leaves), moved: make([]int32, n),
		gathered: make([]packed, n)}
	return w.run(ctx)
}

// choose returns the rows of positive weight.
func choose(rows []int, l *loss) (chosen []int32, err error) {
	for r, w := range l.Weights {
		if rows == nil && w > 0 {
			chosen = append(chosen, int32(r))
		}
	}
	for i, r := range rows {
		if r < 0 || r >= len(l.Weights) || i > 0 && r <= rows[i-1] {
			return nil, fmt.Errorf("trees: row %d at %d: want ascending numbers below %d: %w", r, i, len(l.Weights),
				dense.ErrShape)
		}
		if l.Weights[r] > 0 {
			chosen = append(chosen, int32(r))
		}
	}
	return chosen, nil
}

// draw splits items into k drawn ones and the others, both in their order (Knuth, The Art of Computer Programming 2,
// 3.4.2, algorithm S).
func draw(src *rand.ChaCha8, items []int32, k int) (drawn, others []int32) {
	drawn, others = make([]int32, 0, k), make([]int32, 0, max(0, len(items)-k))
	for i, item := range items {
		if src.Uint64()>>32*uint64(len(items)-i)>>32 < uint64(k-len(drawn)) {
			drawn = append(drawn, item)
		} else {
			others = append(others, item)
		}
	}
	return drawn, others
}

// boosting is a fit.
type boosting struct {
	grower
	loss        *loss
	rows, held  []int32   // to learn from, to stop by
	columns     []int32   // that have more than one bin
	scores      []float64 // of the trees so far, row after row of the table
	derivatives []derivative
	totals      []derivative // of blocks of rows
}

func (w *boosting) run(ctx context.Context) (*Forest, error) {
	k := w.loss.scores
	f := newForest(w.table, w.loss, w.loss.start(w.rows))
	w.scores = slices.Repeat(f.start, w.table.rows)
	best, bestTrees, since := math.Inf(1), 0, 0
	for round := range w.Trees {
		rows, others := draw(rng.Stream(w.Seed, rowStream, uint64(round)), w.rows, share(len(w.rows), w.Rows))
		others = append(others, w.held...)
		w.derive(rows)
		for c := range k {
			columns, _ := draw(rng.Stream(w.Seed, columnStream, uint64(round), uint64(c)), w.columns,
				share(len(w.columns), w.Columns))
			w.pack(rows, c)
			if err := w.grow(ctx, columns); err != nil {
				return nil, err
			}
			f.append(&w.grower)
			for i, l := range w.leaves {
				v := float64(w.value(&w.leaves[i]))
				for _, r := range w.grower.rows[l.lo:l.hi] {
					w.scores[int(r)*k+c] += v
				}
			}
			f.add(w.scores[c:], k, len(f.trees)-1, w.table.bins, w.table.rows, others)
		}
		if w.Patience == 0 {
			continue
		}
		if sum := w.heldLoss(); sum < best {
			best, bestTrees, since = sum, len(f.trees), 0
		} else if since++; since == w.Patience {
			break
		}
	}
	if w.Patience == 0 {
		bestTrees = len(f.trees)
	}
	f.finish(bestTrees)
	return f, nil
}

// share of n things, but at least one if there is one.
func share(n int, of float64) int { return min(n, max(1, int(math.Round(of*float64(n))))) }

// blockRows rows have a sum of their own. The number is part of the bits of a forest.
const blockRows = 2048

// blocks calls body for blocks of the rows.
func (w *boosting) blocks(rows []int32, body func(block int, rows []int32)) {
	n := (len(rows) + blockRows - 1) / blockRows
	par.Each(n, min(n, w.workers()), func(_, i int) { body(i, rows[i*blockRows:min(len(rows), (i+1)*blockRows)]) })
}

// derive finds the derivatives of the losses of the drawn rows with respect to all scores.
func (w *boosting) derive(rows []int32) {
	k := w.loss.scores
	w.derivatives = buf.Sized(w.derivatives, len(rows)*k)
	w.totals = buf.Zeroed(w.totals, (len(rows)/blockRows+1)*k)
	w.blocks(rows, func(block int, rows []int32) {
		p, totals, at := make([]float64, k), w.totals[block*k:], block*blockRows*k
		for i, r := range rows {
			link(p, w.scores[int(r)*k:int(r+1)*k], w.loss.Classes)
			for c, v := range p {
				d := w.loss.derivative(r, c, v)
				w.derivatives[at+i*k+c] = d
				totals[c].g += math.Abs(d.g)
				totals[c].h += d.h
			}
		}
	})
}

// pack gives the drawn rows to the grower, with their derivatives with respect to one score.
func (w *boosting) pack(rows []int32, score int) {
	k := w.loss.scores
	w.grower.rows = append(w.grower.rows[:0], rows...)
	var total derivative
	for i := score; i < len(w.totals); i += k {
		total.g += w.totals[i].g
		total.h += w.totals[i].h
	}
	w.unit = unitsFor(len(rows), total)
	w.blocks(rows, func(block int, rows []int32) {
		for i, r := range rows {
			w.packed[r] = pack(w.derivatives[(block*blockRows+i)*k+score], w.unit)
		}
	})
}

// heldLoss is the loss of the rows set aside.
func (w *boosting) heldLoss() (sum float64) {
	k := w.loss.scores
	p := make([]float64, k)
	for _, r := range w.held {
		link(p, w.scores[int(r)*k:int(r+1)*k], w.loss.Classes)
		sum += w.loss.of(r, p)
	}
	return sum
}
