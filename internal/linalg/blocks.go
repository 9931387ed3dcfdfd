package linalg

import (
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Blocks adds rows to the sums of a Normal in T, block by block. While the products of one block are added, features of
// the next are computed and packed on the same goroutines: they wait for each other once in a block, and what is bound
// by memory runs beside what is not. The zero value is ready and serves one call at a time. Between calls it keeps four
// times the features of a block, and some rows for every goroutine.
type Blocks[T dense.Float] struct {
	crew par.Crew[blockWorker[T]]
	wave blockWave[T]
}

// Rows computes features and targets.
type Rows[T dense.Float] interface {
	// Rows sets the features and targets of the rows from first on; the targets are followed by 1, or √v. It is called
	// for different rows at the same time.
	Rows(first int, phi dense.Matrix[T], y dense.Matrix[float64]) error
}

// FlushRows bounds the rows summed in float32: the error stays that of a short sum, however many rows there are.
const FlushRows = 4096

// Add adds n rows in blocks of at most most. The bits do not depend on the blocks, nor on how rows are divided among
// calls. After an error of rows, all blocks before theirs have been added.
//
// Products of float32 are added to sums.Part, which is added to sums.Gram on a grid of FlushRows rows.
func (b *Blocks[T]) Add(sums *Normal, rows Rows[T], n, most int) error {
	w := &b.wave
	w.sums, w.rows = sums, rows
	w.tab, w.tab64 = kern.Best[T](), kern.Best[float64]()
	w.gram, _ = any(sums.Gram).(dense.Matrix[T])
	if part, ok := any(sums.Part).(dense.Matrix[T]); ok {
		w.gram = part
	}
	features := sums.Cross.Rows
	w.chunk = min(max(16, chunkElements/max(1, features)/16*16), 1024)
	defer func() { w.sums, w.rows = nil, nil }()
	now, next := &w.blocks[0], &w.blocks[1]
	now.rows, now.first = 0, 0
	for {
		next.first = now.first + now.rows
		next.rows = min(n-next.first, most)
		if sums.Part.Rows > 0 { // no block is on both sides of the grid
			next.rows = min(next.rows, FlushRows-(sums.PartRows+now.rows)%FlushRows)
		}
		if now.rows == 0 && next.rows == 0 {
			return nil
		}
		if err := b.run(now, next, features); err != nil {
			return err
		}
		now, next = next, now
	}
}

// chunkElements features are computed and packed at a time: they stay in the second-level cache. featureWork is a guess
// of the multiply-adds for one of them.
const chunkElements, featureWork = 1 << 17, 64

// run adds now and prepares next.
func (b *Blocks[T]) run(now, next *rowBlock[T], features int) error {
	w := &b.wave
	w.now, w.next = now, next
	next.columns.Reset(w.tab, next.rows, features)
	next.y = buf.Shaped(next.y, next.rows, w.sums.Cross.Cols)
	w.chunks = (next.rows + w.chunk - 1) / w.chunk
	w.errs = buf.Zeroed(w.errs, w.chunks)
	work := features * (next.rows*featureWork + now.rows*(features/2+w.sums.Cross.Cols))
	workers := max(1, min(runtime.GOMAXPROCS(0), work/w.tab.Grain))
	items := w.chunks
	if now.rows > 0 {
		w.deal = dealGram(features, workers)
		items += 1 + now.columns.Stripes() + w.deal.items()
	}
	w.flush = w.sums.Part.Rows > 0 && w.sums.PartRows+now.rows == FlushRows
	_ = b.crew.Do(items, workers, w) // there are only errors of next, and now must be added whatever they are
	w.sums.N += int64(now.rows)
	switch {
	case w.flush:
		w.sums.PartRows = 0
	case w.sums.Part.Rows > 0:
		w.sums.PartRows += now.rows
	}
	for _, err := range w.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// rowBlock is a block of rows.
type rowBlock[T dense.Float] struct {
	first, rows int
	columns     kern.Columns[T]
	y           dense.Matrix[float64]
}

type blockWorker[T dense.Float] struct {
	phi  dense.Matrix[T]
	wide []float64
}

// blockWave is the Step: chunks of rows of next, which take longest, then targets, products with targets, and products
// of features of now.
type blockWave[T dense.Float] struct {
	tab       *kern.Table[T]
	tab64     *kern.Table[float64]
	sums      *Normal
	gram      dense.Matrix[T]
	rows      Rows[T]
	blocks    [2]rowBlock[T]
	now, next *rowBlock[T]

	deal          gramDeal
	flush         bool    // now is the last block before a line of the grid
	chunk, chunks int     // rows of a chunk, and their number
	errs          []error // of chunks
}

func (w *blockWave[T]) Item(k *blockWorker[T], i int) error {
	if i < w.chunks {
		w.errs[i] = w.prepare(k, i*w.chunk, min((i+1)*w.chunk, w.next.rows))
		return nil
	}
	i -= w.chunks
	if i == 0 {
		w.sums.AddTargets(w.now.y)
		return nil
	}
	i--
	if n := w.now.columns.Stripes(); i >= n {
		p, end := w.deal.parts(i - n)
		rows, cols := gramPart(p, end, w.gram.Rows)
		if rows[0] < rows[1] {
			w.tab.AddGram(w.gram, &w.now.columns, rows[0], rows[1], cols[0], cols[1])
		}
		if w.flush {
			w.flushPart(rows, cols)
		}
		return nil
	}
	w.cross(k, i)
	return nil
}

// flushPart adds a part of sums.Part to sums.Gram and clears it, while it is in the caches.
func (w *blockWave[T]) flushPart(rows, cols [2]int) {
	for i := rows[0]; i < rows[1]; i++ {
		from := min(max(i, cols[0]), cols[1])
		w.tab.Widen(w.sums.Gram.Row(i)[from:cols[1]], w.gram.Row(i)[from:cols[1]], 1)
		clear(w.gram.Row(i)[cols[0]:cols[1]])
	}
}

// prepare packs rows lo to hi−1 of next.
func (w *blockWave[T]) prepare(k *blockWorker[T], lo, hi int) error {
	k.phi = buf.Shaped(k.phi, hi-lo, w.sums.Cross.Rows)
	if err := w.rows.Rows(w.next.first+lo, k.phi, w.next.y.RowRange(lo, hi)); err != nil {
		return err
	}
	w.next.columns.Pack(lo, k.phi)
	return nil
}

// crossRows rows of a stripe are converted to float64 at a time.
const crossRows = 128

// cross adds the products of a stripe of features with targets.
func (w *blockWave[T]) cross(k *blockWorker[T], stripe int) {
	for first := 0; ; {
		lo, a := w.now.columns.Stripe(stripe, first, crossRows)
		if a.Rows == 0 {
			return
		}
		dst, y := w.sums.Cross.RowRange(lo, lo+a.Cols), w.now.y.RowRange(first, first+a.Rows)
		wide, same := any(a).(dense.Matrix[float64])
		if !same {
			k.wide = buf.Zeroed(k.wide, a.Rows*a.Cols)
			wide = dense.Matrix[float64]{Rows: a.Rows, Cols: a.Cols, Stride: a.Cols, Data: k.wide}
			if a.Stride == a.Cols {
				w.tab.Widen(k.wide, a.Data, 1)
			} else {
				for i := range a.Rows {
					w.tab.Widen(wide.Row(i), a.Row(i), 1)
				}
			}
		}
		w.tab64.TMul(dst, wide, y)
		first += a.Rows
	}
}
