package randfeat

import (
	"fmt"
	"math"
	"sync"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Workspace keeps the scratch memory of a map between calls, so that steady use allocates nothing. The zero value is
// ready. A Workspace serves one call at a time.
type Workspace[T dense.Float] struct {
	// Workers bounds the goroutines of a call; 0: GOMAXPROCS. Callers that run many maps at once set 1.
	Workers int

	exec   exec.Workspace[T]
	nx, ny []float64 // squared norms of all rows
	crew   par.Crew[gramWorker[T]]
	gram   gramStep[T]
}

// Gram holds the features of gramCols rows of y, packed for products, and on every goroutine those of gramRows rows of
// x: features of x are computed again for every block of y, a small part of its products.
const gramRows, gramCols = 64, 512

// Gram fills dst (x.Rows × y.Rows) with the estimates φ1(x_i)·φ2(y_j). Features are held for blocks of rows only.
func (m *Map[T]) Gram(dst, x, y dense.Matrix[T], ws *Workspace[T]) error {
	if err := checkGram("dst", dst, x, y); err != nil {
		return err
	}
	return m.gram(dst, dense.Matrix[float64]{}, dense.Matrix[float64]{}, x, y, ws)
}

// LogGram is Gram for estimates outside the range of T: it fills log with the logarithms of their moduli, -Inf for
// zeros, and sign with their signs, ±1. The sign of a Positive map may be the empty matrix.
func (m *Map[T]) LogGram(log, sign dense.Matrix[float64], x, y dense.Matrix[T], ws *Workspace[T]) error {
	if err := checkGram("log", log, x, y); err != nil {
		return err
	}
	if !sign.IsEmpty() || !m.positive {
		if err := checkGram("sign", sign, x, y); err != nil {
			return err
		}
	}
	return m.gram(dense.Matrix[T]{}, log, sign, x, y, ws)
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

// gram fills dst, or log and sign if log is not empty.
func (m *Map[T]) gram(dst dense.Matrix[T], log, sign dense.Matrix[float64], x, y dense.Matrix[T],
	ws *Workspace[T]) error {
	if ws == nil {
		ws = new(Workspace[T])
	}
	var err error
	if ws.nx, err = m.checkInput("x", x, ws.nx); err != nil {
		return err
	}
	if ws.ny, err = m.checkInput("y", y, ws.ny); err != nil {
		return err
	}
	ws.exec.Workers = ws.Workers
	f := m.OutDim()
	g := &ws.gram
	g.m, g.x, g.nx, g.positive = m, x, ws.nx, m.positive
	g.floor, g.tiny = smallest[T](f)
	for b := 0; b < y.Rows; b += gramCols {
		end := min(b+gramCols, y.Rows)
		g.y, g.ny, g.known = y.RowRange(b, end), ws.ny[b:end], false
		g.phiY, g.sy = buf.Shaped(g.phiY, end-b, f), buf.Sized(g.sy, end-b)
		m.key.Run(g.phiY, g.sy, g.y, g.ny, &ws.exec)
		m.tab.Pack(&g.packed, g.phiY)
		g.dst, g.log, g.sign = columnsOf(dst, b, end), columnsOf(log, b, end), columnsOf(sign, b, end)
		workers := par.Workers(x.Rows*(end-b)*f, m.tab.Grain)
		if ws.Workers > 0 {
			workers = min(workers, ws.Workers)
		}
		if err := ws.crew.Do((x.Rows+gramRows-1)/gramRows, workers, g); err != nil {
			return err
		}
	}
	*g = gramStep[T]{phiY: g.phiY, packed: g.packed, sy: g.sy, exponents: g.exponents}
	return nil
}

// columnsOf is columns lo to hi−1, of an empty matrix nothing.
func columnsOf[E dense.Float](m dense.Matrix[E], lo, hi int) dense.Matrix[E] {
	if m.IsEmpty() {
		return dense.Matrix[E]{}
	}
	return m.ColRange(lo, hi)
}

// gramStep is the Step that multiplies the features of rows of x by those of a block of y and restores their scales: in
// dst, or in log and sign if log is not empty.
type gramStep[T dense.Float] struct {
	m         *Map[T]
	positive  bool
	x, y      dense.Matrix[T]
	nx, ny    []float64
	dst       dense.Matrix[T]
	log, sign dense.Matrix[float64]
	floor     T
	tiny      float64

	phiY   dense.Matrix[T]
	packed kern.Panel[T]
	sy     []float64

	mu        sync.Mutex
	known     bool
	exponents exponents[T] // of y, if known
}

type gramWorker[T dense.Float] struct {
	exec       exec.Workspace[T]
	phi, block dense.Matrix[T]
	sx         []float64
	factors    []float64 // of a row
	exponents  exponents[T]
}

// Item computes gramRows rows.
//
// Features are at most 1 and lose what is below the smallest number of T. Where a row and a column are large at
// different features, as those of x and −x are, the products that count are among the lost ones: then the sum of a
// positive map is too small for its size, and it is computed again from exponents.
func (g *gramStep[T]) Item(w *gramWorker[T], item int) error {
	lo := item * gramRows
	hi := min(lo+gramRows, g.x.Rows)
	x, n := g.x.RowRange(lo, hi), g.y.Rows
	w.exec.Workers = 1
	w.phi, w.sx = buf.Shaped(w.phi, hi-lo, g.phiY.Cols), buf.Sized(w.sx, hi-lo)
	g.m.query.Run(w.phi, w.sx, x, g.nx[lo:hi], &w.exec)
	logs := !g.log.IsEmpty()
	var dst dense.Matrix[T]
	if logs {
		w.block = buf.Shaped(w.block, hi-lo, n)
		dst = w.block
	} else {
		dst = g.dst.RowRange(lo, hi)
	}
	g.m.tab.MulT(dst, w.phi, &g.packed, nil)
	least := math.Log(float64(g.floor))
	lost := false
	for i := range dst.Rows {
		row := dst.Row(i)
		if !logs {
			w.scales(w.sx[i], g.sy)
		}
		for j, v := range row {
			scale := w.sx[i] + g.sy[j]
			if v < g.floor && g.positive && (logs || least+scale > g.tiny) {
				row[j], lost = T(math.NaN()), true
				continue
			}
			switch {
			case logs:
				g.log.Row(lo + i)[j] = math.Log(math.Abs(float64(v))) + scale
				if !g.sign.IsEmpty() {
					g.sign.Row(lo + i)[j] = math.Copysign(1, float64(v))
				}
			case v != 0 && scale != 0: // 0·Inf would be NaN
				row[j] = T(float64(v) * w.factors[j])
			}
		}
	}
	if lost {
		w.exponents.of(g.m.query, g.m.Signed(), x, g.nx[lo:hi], &w.exec)
		g.rescue(w, dst, lo)
	}
	return nil
}

// scales sets factors to exp(sx + sy).
func (w *gramWorker[T]) scales(sx float64, sy []float64) {
	w.factors = buf.Sized(w.factors, len(sy))
	scaled := false
	for j, v := range sy {
		w.factors[j] = sx + v
		scaled = scaled || w.factors[j] != 0
	}
	if scaled {
		kern.Best[float64]().Exp(w.factors, 0)
	}
}

// smallest is the sum of products of f features below which the lost ones may count, f·2^24 or f·2^53 times the
// smallest normal number, and the logarithm of the smallest number above 0.
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

func (l *exponents[T]) of(s *exec.Side[T], signed bool, x dense.Matrix[T], norms []float64, ws *exec.Workspace[T]) {
	l.e, l.row = buf.Shaped(l.e, x.Rows, s.OutDim()), buf.Sized(l.row, x.Rows)
	if signed {
		l.value = buf.Shaped(l.value, x.Rows, s.OutDim())
	} else {
		l.value = dense.Matrix[T]{}
	}
	s.Log(l.e, l.value, l.row, x, norms, ws)
}

// rescue computes the entries of dst that are marked by NaN, from exponents that are added before they are
// exponentiated. Its first row has number lo.
func (g *gramStep[T]) rescue(w *gramWorker[T], dst dense.Matrix[T], lo int) {
	g.mu.Lock()
	if !g.known {
		g.exponents.of(g.m.key, g.m.Signed(), g.y, g.ny, &w.exec)
		g.known = true
	}
	g.mu.Unlock()
	for i := range dst.Rows {
		for j, v := range dst.Row(i) {
			if v == v {
				continue
			}
			log := entry(&w.exponents, &g.exponents, i, j)
			if !g.log.IsEmpty() {
				g.log.Row(lo + i)[j] = log
			}
			if !g.sign.IsEmpty() {
				g.sign.Row(lo + i)[j] = 1
			}
			dst.Row(i)[j] = T(math.Exp(log))
		}
	}
}

// entry is the logarithm of one entry, −Inf where no feature is above 0 on both sides: thresholds and gates make such
// zeros, and they must not cost exponentials.
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
	return math.Log(sum) + top + x.row[i] + y.row[j]
}
