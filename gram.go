package randfeat

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Workspace keeps the scratch memory of a map between calls, so that steady use allocates nothing. The zero value is
// ready. A Workspace serves one call at a time.
type Workspace[T dense.Float] struct {
	// Workers bounds the goroutines of a call; 0 means GOMAXPROCS. Callers that run many maps at once set 1.
	Workers int

	exec   exec.Workspace[T]
	nx, ny []float64 // squared norms of all rows
	gram   any       // *gramMemory[T] after the first Gram; its type would make all users of Map compile Gram
}

// gramMemory is the scratch memory of Gram.
type gramMemory[T dense.Float] struct {
	crew par.Crew[gramWorker[T]]
	step gramStep[T]
}

// Gram holds the packed features of gramBlocks blocks of gramCols rows of y and, per goroutine, the features of
// gramRows rows of x. Features of x are computed again for every block of y, which is little work beside the products.
const gramRows, gramCols, gramBlocks = 64, 512, 3

// Gram fills dst (x.Rows × y.Rows) with the estimates φ1(x_i)·φ2(y_j). Features are held for blocks of rows only.
func (m *Map[T]) Gram(dst, x, y dense.Matrix[T], ws *Workspace[T]) error {
	return m.gram(false, dst, dense.Matrix[float64]{}, dense.Matrix[float64]{}, x, y, ws)
}

// LogGram is Gram for estimates outside the range of T. It fills log with the logarithms of their moduli, -Inf for
// zeros, and sign with their signs, ±1. For a Positive map sign may be the empty matrix.
func (m *Map[T]) LogGram(log, sign dense.Matrix[float64], x, y dense.Matrix[T], ws *Workspace[T]) error {
	return m.gram(true, dense.Matrix[T]{}, log, sign, x, y, ws)
}

func checkGram[E, T dense.Float](name string, dst dense.Matrix[E], x, y dense.Matrix[T]) error {
	if dst.Rows != x.Rows || dst.Cols != y.Rows {
		return fmt.Errorf("%s is %d×%d, want %d×%d: %w", name, dst.Rows, dst.Cols, x.Rows, y.Rows, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// gram fills dst, or log and sign if logs.
//
// Blocks of y follow each other without a barrier: the features of a block are computed beside the products with the
// block before. For a set with itself and a symmetric map, only blocks on one side of the diagonal are computed, and
// copied to the other side.
func (m *Map[T]) gram(logs bool, dst dense.Matrix[T], log, sign dense.Matrix[float64], x, y dense.Matrix[T],
	ws *Workspace[T]) error {
	if logs {
		if err := checkGram("log", log, x, y); err != nil {
			return err
		}
		if !sign.IsEmpty() || !m.positive {
			if err := checkGram("sign", sign, x, y); err != nil {
				return err
			}
		}
	} else if err := checkGram("dst", dst, x, y); err != nil {
		return err
	}
	ws, err := begin(m, x, ws)
	if err != nil {
		return err
	}
	same := m.symmetric && x.Rows > 0 && x.Rows == y.Rows && x.Cols == y.Cols && x.Stride == y.Stride &&
		unsafe.SliceData(x.Data) == unsafe.SliceData(y.Data)
	ny := ws.nx
	if !same {
		if ws.ny, err = checkInput(m, "y", y, ws.ny); err != nil {
			return err
		}
		ny = ws.ny
	}
	if dst.IsEmpty() && log.IsEmpty() {
		return nil
	}
	memory, ok := ws.gram.(*gramMemory[T])
	if !ok {
		memory = new(gramMemory[T])
		ws.gram = memory
	}
	g := &memory.step
	g.m, g.x, g.y, g.nx, g.ny, g.same, g.positive = m, x, y, ws.nx, ny, same, m.positive
	g.dst, g.log, g.sign = dst, log, sign
	g.floor, g.tiny = smallest[T](m.OutDim())
	g.plan()
	workers := par.Workers(x.Rows*y.Rows*m.OutDim(), m.tab.Grain)
	if ws.Workers > 0 {
		workers = min(workers, ws.Workers)
	}
	err = memory.crew.Do(g.starts[len(g.starts)-1], workers, g)
	g.m, g.x, g.y, g.nx, g.ny = nil, dense.Matrix[T]{}, dense.Matrix[T]{}, nil, nil
	g.dst, g.log, g.sign = dense.Matrix[T]{}, dense.Matrix[float64]{}, dense.Matrix[float64]{}
	return err
}

// gramStep is the Step that multiplies the features of rows of x by those of blocks of y and restores their scales: in
// dst, or in log and sign if log is not empty. Its items are the features of the first block and then, for every block,
// the features of the next block and the products with this one.
type gramStep[T dense.Float] struct {
	m         *Map[T]
	positive  bool
	same      bool // x and y are the same memory, and the map is symmetric
	x, y      dense.Matrix[T]
	nx, ny    []float64
	dst       dense.Matrix[T]
	log, sign dense.Matrix[float64]
	floor     T       // sums of a positive map below it may have lost products, see rows
	tiny      float64 // log of the smallest positive number of T

	starts []int     // first item of each block; the last element is the number of items
	turns  par.Turns // finished items of features and of products, per block
	memory [gramBlocks]gramBlock[T]
}

// Indices of the counters of turns, which count the finished items of block b. Products wait for the features of their
// block. Features wait for the products with the block whose memory they take over. An item waits only for items with
// smaller numbers, which have begun, so there is no deadlock.
func featureTurn(b int) int { return 2 * b }
func productTurn(b int) int { return 2*b + 1 }

// gramBlock holds the features of a block of y.
type gramBlock[T dense.Float] struct {
	packed kern.Panel[T]
	sy     []float64

	mu        sync.Mutex
	block     int // number of the block it holds; −1 for none
	known     bool
	exponents exponents[T] // log form of the rows of y, if known
}

// plan numbers the items.
func (g *gramStep[T]) plan() {
	n := (g.y.Rows + gramCols - 1) / gramCols
	g.starts = append(g.starts[:0], g.featureItems(0))
	for b := range n {
		last := g.starts[b]
		if b+1 < n {
			last += g.featureItems(b + 1)
		}
		g.starts = append(g.starts, last+g.rowItems(b))
	}
	g.turns.Reset(2 * n)
	for i := range g.memory {
		g.memory[i].block = -1
	}
}

// cols is the range of rows of y that block b contains.
func (g *gramStep[T]) cols(b int) (lo, hi int) { return b * gramCols, min((b+1)*gramCols, g.y.Rows) }

// featureItems and rowItems are the numbers of items of block b; rowsOf is the number of rows of x per item. All
// workers wait for the last block, so its items are a quarter as large.
func (g *gramStep[T]) featureItems(b int) int {
	lo, hi := g.cols(b)
	return (hi - lo + gramRows - 1) / gramRows
}

func (g *gramStep[T]) rowItems(b int) int {
	size := g.rowsOf(b)
	return (g.x.Rows - g.first(b) + size - 1) / size
}

func (g *gramStep[T]) rowsOf(b int) int {
	if (b+1)*gramCols >= g.y.Rows {
		return gramRows / 4
	}
	return gramRows
}

// first is the first row of x that is multiplied with block b.
func (g *gramStep[T]) first(b int) int {
	if g.same {
		return b * gramCols
	}
	return 0
}

// block is the memory of block b.
func (g *gramStep[T]) block(b int) *gramBlock[T] { return &g.memory[b%gramBlocks] }

// room returns the memory of block b once nobody needs its previous contents.
func (g *gramStep[T]) room(b int) *gramBlock[T] {
	if b >= gramBlocks {
		g.turns.Await(productTurn(b-gramBlocks), g.rowItems(b-gramBlocks))
	}
	k := g.block(b)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.block != b {
		lo, hi := g.cols(b)
		g.m.tab.Room(&k.packed, hi-lo, g.m.OutDim())
		k.sy, k.known, k.block = buf.Sized(k.sy, hi-lo), false, b
	}
	return k
}

// gramWorker is the scratch memory of one goroutine.
type gramWorker[T dense.Float] struct {
	exec       exec.Workspace[T]
	phi, block dense.Matrix[T]
	sx         []float64
	factors    []float64 // exp(sx + sy) for one row
	exponents  exponents[T]
}

// Release implements par.Waiter: it ends waits after a panic.
func (g *gramStep[T]) Release() { g.turns.Release() }

// Item implements par.Step: it computes features of y, or rows of products with them.
func (g *gramStep[T]) Item(w *gramWorker[T], item int) error {
	w.exec.Workers = 1
	if item < g.starts[0] {
		g.features(w, 0, item)
		return nil
	}
	b, found := slices.BinarySearch(g.starts, item)
	if !found {
		b--
	}
	item -= g.starts[b]
	if next := b + 1; next < len(g.starts)-1 {
		n := g.featureItems(next)
		if item < n {
			g.features(w, next, item)
			return nil
		}
		item -= n
	}
	lo := g.first(b) + item*g.rowsOf(b)
	g.rows(w, b, lo, min(lo+g.rowsOf(b), g.x.Rows))
	return nil
}

// features packs the features of some rows of block b.
func (g *gramStep[T]) features(w *gramWorker[T], b, item int) {
	k := g.room(b)
	first, end := g.cols(b)
	lo := first + item*gramRows
	hi := min(lo+gramRows, end)
	w.phi = buf.Shaped(w.phi, hi-lo, g.m.OutDim())
	g.m.key.Run(w.phi, k.sy[lo-first:hi-first], g.y.RowRange(lo, hi), g.ny[lo:hi], &w.exec)
	g.m.tab.PackAt(&k.packed, lo-first, w.phi)
	g.turns.Done(featureTurn(b))
}

// rows computes rows lo to hi−1 of the products with block b.
//
// Features are at most 1 and lose everything below the smallest number of T. If a row and a column are large at
// different features, as for x and −x, the products that matter are among the lost ones. The sum of a positive map is
// then too small for its size, and it is computed again from exponents.
func (g *gramStep[T]) rows(w *gramWorker[T], b, lo, hi int) {
	k := g.block(b)
	first, end := g.cols(b)
	x, n := g.x.RowRange(lo, hi), end-first
	w.phi, w.sx = buf.Shaped(w.phi, hi-lo, g.m.OutDim()), buf.Sized(w.sx, hi-lo)
	g.m.query.Run(w.phi, w.sx, x, g.nx[lo:hi], &w.exec)
	logs := !g.log.IsEmpty()
	var dst dense.Matrix[T]
	if logs {
		w.block = buf.Shaped(w.block, hi-lo, n)
		dst = w.block
	} else {
		dst = g.dst.RowRange(lo, hi).ColRange(first, end)
	}
	g.turns.Await(featureTurn(b), g.featureItems(b))
	g.m.tab.MulT(dst, w.phi, &k.packed, nil)
	least := math.Log(float64(g.floor))
	lost := false
	for i := range dst.Rows {
		row := dst.Row(i)
		if !logs && !w.scales(w.sx[i], k.sy) && !g.positive {
			continue
		}
		for j, v := range row {
			scale := w.sx[i] + k.sy[j]
			if v < g.floor && g.positive && (logs || least+scale > g.tiny) {
				row[j], lost = T(math.NaN()), true
				continue
			}
			switch {
			case logs:
				g.log.Row(lo + i)[first+j] = math.Log(math.Abs(float64(v))) + scale
				if !g.sign.IsEmpty() {
					g.sign.Row(lo + i)[first+j] = math.Copysign(1, float64(v))
				}
			case v != 0 && scale != 0: // 0·Inf would be NaN
				row[j] = T(float64(v) * w.factors[j])
			}
		}
	}
	if lost {
		w.exponents.of(g.m.query, g.m.Signed(), x, g.nx[lo:hi], &w.exec)
		g.rescue(w, k, dst, lo, first)
	}
	g.turns.Done(productTurn(b))
	if g.same && lo >= end {
		mirror(g.dst, lo, hi, first, end)
		mirror(g.log, lo, hi, first, end)
		mirror(g.sign, lo, hi, first, end)
	}
}

// mirror copies rows lo to hi−1 of columns first to end−1 to the other side of the diagonal, in squares whose lines
// stay in the first-level cache.
func mirror[E dense.Float](m dense.Matrix[E], lo, hi, first, end int) {
	const side = 16
	if m.IsEmpty() {
		return
	}
	for j0 := first; j0 < end; j0 += side {
		for i0 := lo; i0 < hi; i0 += side {
			i1 := min(i0+side, hi)
			for j := j0; j < min(j0+side, end); j++ {
				row, from := m.Row(j)[i0:i1], m.Data[i0*m.Stride+j:]
				for i := range row {
					row[i] = from[i*m.Stride]
				}
			}
		}
	}
}

// scales sets factors to exp(sx + sy) and reports whether some factor is not 1.
func (w *gramWorker[T]) scales(sx float64, sy []float64) bool {
	w.factors = buf.Sized(w.factors, len(sy))
	scaled := false
	for j, v := range sy {
		w.factors[j] = sx + v
		scaled = scaled || w.factors[j] != 0
	}
	if scaled {
		kern.Best[float64]().Exp(w.factors, 0)
	}
	return scaled
}

// smallest returns floor, the sum of products of f features below which lost products may matter (f·2^24 or f·2^53
// times the smallest normal number), and the logarithm of the smallest positive number.
func smallest[T dense.Float](f int) (floor T, tiny float64) {
	if _, ok := any(T(0)).(float32); ok {
		return T(float64(f) * 0x1p-126 * 0x1p24), math.Log(math.SmallestNonzeroFloat32)
	}
	return T(float64(f) * 0x1p-1022 * 0x1p53), math.Log(math.SmallestNonzeroFloat64)
}

// exponents are the features of a block in the log domain, value·exp(e + row).
type exponents[T dense.Float] struct {
	e, value dense.Matrix[T] // value is empty unless the map is Signed
	row      []float64
}

// of computes the log form of the rows of x.
func (l *exponents[T]) of(s side[T], signed bool, x dense.Matrix[T], norms []float64, ws *exec.Workspace[T]) {
	l.e, l.row = buf.Shaped(l.e, x.Rows, s.OutDim()), buf.Sized(l.row, x.Rows)
	if signed {
		l.value = buf.Shaped(l.value, x.Rows, s.OutDim())
	} else {
		l.value = dense.Matrix[T]{}
	}
	s.Log(l.e, l.value, l.row, x, norms, ws)
}

// rescue recomputes the entries of dst that rows has marked by NaN, from exponents that are added before they are
// exponentiated. lo and first are the numbers of the first row and column of dst.
func (g *gramStep[T]) rescue(w *gramWorker[T], k *gramBlock[T], dst dense.Matrix[T], lo, first int) {
	g.know(w, k, first, first+dst.Cols)
	for i := range dst.Rows {
		for j, v := range dst.Row(i) {
			if v == v {
				continue
			}
			log := entry(&w.exponents, &k.exponents, i, j)
			if !g.log.IsEmpty() {
				g.log.Row(lo + i)[first+j] = log
			}
			if !g.sign.IsEmpty() {
				g.sign.Row(lo + i)[first+j] = 1
			}
			dst.Row(i)[j] = T(math.Exp(log))
		}
	}
}

// know computes the exponents of rows first to end−1 of y, which belong to block k, unless another goroutine has done
// so.
func (g *gramStep[T]) know(w *gramWorker[T], k *gramBlock[T], first, end int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		k.exponents.of(g.m.key, g.m.Signed(), g.y.RowRange(first, end), g.ny[first:end], &w.exec)
		k.known = true
	}
}

// entry is the logarithm of one entry, −Inf if no feature is above 0 on both sides. Thresholds and gates cause such
// zeros, which must not cost exponentials.
func entry[T dense.Float](x, y *exponents[T], i, j int) float64 {
	ex, ey := x.e.Row(i), y.e.Row(j)
	var vx, vy []T
	if !x.value.IsEmpty() {
		vx, vy = x.value.Row(i), y.value.Row(j)
	}
	top := math.Inf(-1)
	for k, e := range ex {
		if vx == nil || vx[k] != 0 && vy[k] != 0 {
			top = math.Max(top, float64(e)+float64(ey[k]))
		}
	}
	if math.IsInf(top, -1) {
		return top
	}
	var sum float64
	for k, e := range ex {
		switch {
		case vx == nil:
			sum += math.Exp(float64(e) + float64(ey[k]) - top)
		case vx[k] != 0 && vy[k] != 0:
			sum += float64(vx[k]) * float64(vy[k]) * math.Exp(float64(e)+float64(ey[k])-top)
		}
	}
	return math.Log(sum) + top + (x.row[i] + y.row[j]) // this order gives the same bits for (i, j) and (j, i)
}
