package linalg

import (
	"math"
	"runtime"
	"sort"
	"sync"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Blocks adds rows to the sums of a Normal in T, block by block.
//
// Who waits for whom: a goroutine waits only for the data that it needs, never for all others. While the products of
// one block are added, the features of the next block are computed and packed, so that memory-bound work runs beside
// compute-bound work.
//
// The zero value is ready and serves one call at a time. Between calls it keeps the memory for four times the features
// of a block, and some rows per goroutine.
type Blocks[T dense.Float] struct {
	crew par.Crew[blockWorker[T]]
	step blockStep[T]
}

// Rows computes features and targets of rows, for Blocks.
type Rows[T dense.Float] interface {
	// Rows sets the features phi and targets y of the phi.Rows rows from first on. The last column of y is 1, or √v for
	// a row of weight v. It is called for different rows at the same time.
	Rows(first int, phi dense.Matrix[T], y dense.Matrix[float64]) error
}

// FlushRows bounds the rows summed in float32 before they move to float64, so the rounding error does not grow with the
// number of rows.
const FlushRows = 4096

// Add adds n rows in blocks of at most most rows. The bits depend neither on the blocks nor on how rows are divided
// among calls. After an error of rows, exactly the blocks before the one that failed have been added.
//
// Products of float32 are added to sums.Part, which moves to sums.Gram on a grid of FlushRows rows. The grid counts
// rows ever added, so it does not depend on calls either.
func (b *Blocks[T]) Add(sums *Normal, rows Rows[T], n, most int) error {
	w := &b.step
	w.sums, w.rows = sums, rows
	defer func() { w.sums, w.rows = nil, nil }()
	w.tab, w.tab64 = kern.Best[T](), kern.Best[float64]()
	w.gram, _ = any(sums.Gram).(dense.Matrix[T])
	if part, ok := any(sums.Part).(dense.Matrix[T]); ok {
		w.gram = part
	}
	features := sums.Cross.Rows
	work := min(float64(features)*float64(n)*float64(featureWork+features/2+sums.Cross.Cols), 1<<50)
	workers := max(1, min(runtime.GOMAXPROCS(0), int(work)/w.tab.Grain))
	w.plan(n, most, workers)
	if len(w.blocks) == 0 {
		return nil
	}
	if err := b.crew.Do(w.items, workers, w); err != nil {
		panic("linalg: " + err.Error()) // items record errors in w.err and return nil
	}
	for i := range min(w.failed, len(w.blocks)) {
		sums.N += int64(w.blocks[i].rows)
		if sums.Part.Rows > 0 {
			sums.PartRows = (sums.PartRows + w.blocks[i].rows) % FlushRows
		}
	}
	return w.err
}

// chunkElements is the number of features computed and packed at a time, so that they stay in the second-level cache.
// featureWork is an estimate of the multiply-adds per feature.
const chunkElements, featureWork = 1 << 17, 64

// rowBlock is a block of rows with its place in the list of items.
type rowBlock struct {
	first, rows int
	flush       bool // it ends on a line of the grid of FlushRows
	start       int  // its first item; items of block b > 0 begin with products of block b−1
	chunks      int  // number of chunks of features
	deal        gramDeal
}

// blockMemory holds features and targets of every second block.
type blockMemory[T dense.Float] struct {
	mu      sync.Mutex
	block   int // number of the block it holds; −1 for none
	columns kern.Columns[T]
	y       dense.Matrix[float64]
}

// blockWorker is the scratch memory of one goroutine.
type blockWorker[T dense.Float] struct {
	phi  dense.Matrix[T]
	wide []float64
}

// blockStep is the Step of Blocks. After the features of the first block come, for every block: some tiles of its
// products, the features of the next block, its targets, its products with targets, and the other tiles. With this
// order an item rarely waits:
//
//   - features find the memory of the block before the last one free,
//   - products find the features, and the sums to which the block before has been added.
//
// Items wait only for items of smaller number, so there is no deadlock.
type blockStep[T dense.Float] struct {
	tab    *kern.Table[T]
	tab64  *kern.Table[float64]
	sums   *Normal
	gram   dense.Matrix[T] // the products are added here: sums.Gram, or sums.Part for float32
	rows   Rows[T]
	blocks []rowBlock
	items  int
	memory [2]blockMemory[T]

	chunk   int // rows whose features are computed together
	stripes int // number of stripes of features for products with targets
	lead    int // tiles that come before the features of the next block
	// turns counts the blocks that have been added to the targets (counter 0), to each stripe and to each tile, and the
	// finished items of features and of products of each block.
	turns par.Turns

	mu     sync.Mutex
	failed int   // first block with an error; MaxInt for none
	at     int   // chunk of that error
	err    error // that error
}

// plan cuts rows into blocks and numbers the items.
func (w *blockStep[T]) plan(n, most, workers int) {
	features := w.sums.Cross.Rows
	w.chunk = min(max(16, chunkElements/max(1, features)/16*16), 1024)
	w.blocks, w.failed, w.at, w.err = w.blocks[:0], math.MaxInt, 0, nil
	part := w.sums.PartRows
	for first := 0; first < n; {
		b := rowBlock{first: first, rows: min(n-first, most), deal: dealGram(features, 1)}
		if w.sums.Part.Rows > 0 { // no block is on both sides of the grid
			b.rows = min(b.rows, FlushRows-part)
			part = (part + b.rows) % FlushRows
			b.flush = part == 0
		}
		b.chunks = (b.rows + w.chunk - 1) / w.chunk
		first += b.rows
		if first == n {
			b.deal = dealGram(features, workers) // all wait for its last tiles
		}
		w.blocks = append(w.blocks, b)
	}
	tiles := gramParts(features) / gramSteps
	w.lead = tiles / 3
	for i := range w.memory {
		w.memory[i].block = -1
	}
	var c kern.Columns[T]
	c.Reset(w.tab, 0, features)
	w.stripes = c.Stripes()
	w.turns.Reset(1 + w.stripes + tiles + 2*len(w.blocks))
	w.items = 0
	for i := range w.blocks {
		b := &w.blocks[i]
		b.start = w.items
		if w.items += b.chunks; i > 0 {
			w.items += w.products(i - 1)
		}
	}
	if last := len(w.blocks) - 1; last >= 0 {
		w.items += w.products(last)
	}
}

// products is the number of items that add block b.
func (w *blockStep[T]) products(b int) int { return 1 + w.stripes + w.blocks[b].deal.items() }

// Indices of the counters of turns.
func (w *blockStep[T]) stripeTurn(s int) int { return 1 + s }
func (w *blockStep[T]) tileTurn(t int) int   { return 1 + w.stripes + t }
func (w *blockStep[T]) featureTurn(b int) int {
	return w.tileTurn(w.blocks[b].deal.tiles) + 2*b
}
func (w *blockStep[T]) productTurn(b int) int { return w.featureTurn(b) + 1 }

// Item implements par.Step.
func (w *blockStep[T]) Item(k *blockWorker[T], i int) error {
	// Items of block b+1 begin with products of block b.
	b := sort.Search(len(w.blocks), func(b int) bool { return w.blocks[b].start > i }) - 1
	i -= w.blocks[b].start
	if b == 0 {
		if i < w.blocks[0].chunks {
			w.features(k, 0, i)
			return nil
		}
		if i -= w.blocks[0].chunks; len(w.blocks) > 1 {
			panic("linalg: item of no block")
		}
		w.product(k, 0, i)
		return nil
	}
	before := w.products(b - 1)
	switch chunks := w.blocks[b].chunks; {
	case i < w.lead:
		w.product(k, b-1, i)
	case i < w.lead+chunks:
		w.features(k, b, i-w.lead)
	case i < before+chunks:
		w.product(k, b-1, i-chunks)
	default:
		w.product(k, b, i-before-chunks)
	}
	return nil
}

// features computes and packs chunk i of block b. It waits until the products of block b−2, which used the same memory,
// have been added.
func (w *blockStep[T]) features(k *blockWorker[T], b, i int) {
	if b > 1 {
		w.turns.Await(w.productTurn(b-2), w.products(b-2))
	}
	block, m := &w.blocks[b], &w.memory[b%2]
	w.room(m, b)
	if !w.fails(b - 1) {
		lo, hi := i*w.chunk, min((i+1)*w.chunk, block.rows)
		k.phi = buf.Shaped(k.phi, hi-lo, w.sums.Cross.Rows)
		if err := w.rows.Rows(block.first+lo, k.phi, m.y.RowRange(lo, hi)); err != nil {
			w.fail(b, i, err)
		} else {
			m.columns.Pack(lo, k.phi)
		}
	}
	w.turns.Done(w.featureTurn(b))
}

// room gives m to block b, unless it has it already. The first chunk of a block does it for all.
func (w *blockStep[T]) room(m *blockMemory[T], b int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rows := w.blocks[b].rows; m.block != b {
		m.columns.Reset(w.tab, rows, w.sums.Cross.Rows)
		m.y, m.block = buf.Shaped(m.y, rows, w.sums.Cross.Cols), b
	}
}

// Release implements par.Waiter: it ends waits after a panic.
func (w *blockStep[T]) Release() { w.turns.Release() }

// fails reports whether block b or an earlier one is known to have an error.
func (w *blockStep[T]) fails(b int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed <= b
}

// fail records the error of the first chunk that failed, in the order of rows.
func (w *blockStep[T]) fail(b, chunk int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b < w.failed || b == w.failed && chunk < w.at {
		w.failed, w.at, w.err = b, chunk, err
	}
}

// product is item i of those that add block b: first tiles, targets, stripes of products with targets, other tiles. It
// waits for all features of the block, and until block b−1 has been added to the same sums; the errors of earlier
// blocks are then known, so a failed block is added nowhere.
func (w *blockStep[T]) product(k *blockWorker[T], b, i int) {
	block, m := &w.blocks[b], &w.memory[b%2]
	turn, p, end := 0, 0, 0
	switch {
	case i < w.lead:
		p, end = block.deal.parts(i)
		turn = w.tileTurn(p / gramSteps)
	case i == w.lead:
	case i <= w.lead+w.stripes:
		turn = w.stripeTurn(i - w.lead - 1)
	default:
		p, end = block.deal.parts(i - 1 - w.stripes)
		turn = w.tileTurn(p / gramSteps)
	}
	w.turns.Await(w.featureTurn(b), block.chunks)
	w.turns.Await(turn, b) // the sums of this tile or stripe contain the blocks before b
	switch {
	case w.fails(b):
	case end > p:
		rows, cols := gramPart(p, end, w.gram.Rows)
		if rows[0] < rows[1] {
			w.tab.AddGram(w.gram, &m.columns, rows[0], rows[1], cols[0], cols[1])
		}
		if block.flush {
			w.flushPart(rows, cols)
		}
	case turn == 0:
		w.sums.AddTargets(m.y)
	default:
		w.cross(k, m, turn-1)
	}
	w.turns.Done(turn)
	w.turns.Done(w.productTurn(b))
}

// flushPart moves a part of sums.Part to sums.Gram while it is in the caches.
func (w *blockStep[T]) flushPart(rows, cols [2]int) {
	for i := rows[0]; i < rows[1]; i++ {
		from := min(max(i, cols[0]), cols[1])
		w.tab.Widen(w.sums.Gram.Row(i)[from:cols[1]], w.gram.Row(i)[from:cols[1]], 1)
		clear(w.gram.Row(i)[cols[0]:cols[1]])
	}
}

// crossRows is the number of rows of a stripe converted to float64 at a time.
const crossRows = 128

// cross adds the products of a stripe of features with targets, in float64.
func (w *blockStep[T]) cross(k *blockWorker[T], m *blockMemory[T], stripe int) {
	for first := 0; ; {
		lo, a := m.columns.Stripe(stripe, first, crossRows)
		if a.Rows == 0 {
			return
		}
		dst, y := w.sums.Cross.RowRange(lo, lo+a.Cols), m.y.RowRange(first, first+a.Rows)
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
