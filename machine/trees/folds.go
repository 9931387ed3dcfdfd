package trees

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// OutOfFold predicts every row by a forest of the rows of all other folds, with the same options and seed. fold has the
// fold of each row, from 0. A row with a negative fold is left out of all, and its predictions are NaN.
func OutOfFold(ctx context.Context, b *Bins, fold []int, t Target, o Options) (dense.Matrix[float64], error) {
	count := 1 + slices.Max(append([]int{0}, fold...))
	if len(fold) != b.rows || count < 2 || count > b.rows {
		return dense.Matrix[float64]{}, fmt.Errorf("trees: %d folds of %d rows, the table has %d rows: %w", count,
			len(fold), b.rows, dense.ErrShape)
	}
	l, err := newLoss(t, b.rows)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	out := dense.New[float64](b.rows, l.outputs())
	for i := range out.Data {
		out.Data[i] = math.NaN()
	}
	errs := make([]error, count)
	// Folds share the cores: those that run last have more of them.
	var unfinished atomic.Int64
	unfinished.Store(int64(count))
	threads := runtime.GOMAXPROCS(0)
	workers := func() int { return max(1, threads/max(1, int(unfinished.Load()))) }
	par.Each(count, threads, func(_, k int) {
		var train []int
		var held []int32
		for i, of := range fold {
			if of == k {
				held = append(held, int32(i))
			} else if of >= 0 {
				train = append(train, i)
			}
		}
		if f, err := fit(ctx, b, train, t, o, workers); err != nil {
			errs[k] = fmt.Errorf("fold %d: %w", k, err)
		} else {
			f.predict(out, b.bins, b.rows, held)
		}
		unfinished.Add(-1)
	})
	return out, errors.Join(errs...)
}
