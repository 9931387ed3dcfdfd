package randfeat

import (
	"fmt"
	"math"
	"sync/atomic"

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

	exec       exec.Workspace[T]
	phiX, phiY []T
	packed     kern.Panel[T]
	sx, sy     []float64 // log scales of a block
	nx, ny     []float64 // squared norms of all rows
	group      par.Group
	product    product[T]
	block      []T // of LogGram, scaled
	rescue     rescue[T]
}

// gramRows bounds the rows of features held at a time by Gram.
const gramRows = 128

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
	ws.phiX, ws.phiY = buf.Sized(ws.phiX, gramRows*f), buf.Sized(ws.phiY, gramRows*f)
	ws.sx, ws.sy = buf.Sized(ws.sx, gramRows), buf.Sized(ws.sy, gramRows)
	if !log.IsEmpty() {
		ws.block = buf.Sized(ws.block, gramRows*gramRows)
	}
	for b := 0; b < y.Rows; b += gramRows {
		yb := y.RowRange(b, min(b+gramRows, y.Rows))
		phiY := dense.Matrix[T]{Rows: yb.Rows, Cols: f, Stride: f, Data: ws.phiY}
		m.key.Run(phiY, ws.sy[:yb.Rows], yb, ws.ny[b:], &ws.exec)
		m.tab.Pack(&ws.packed, phiY)
		for a := 0; a < x.Rows; a += gramRows {
			xb := x.RowRange(a, min(a+gramRows, x.Rows))
			phiX := dense.Matrix[T]{Rows: xb.Rows, Cols: f, Stride: f, Data: ws.phiX}
			m.query.Run(phiX, ws.sx[:xb.Rows], xb, ws.nx[a:], &ws.exec)
			p := product[T]{m: m, phiX: phiX, phiY: &ws.packed, sx: ws.sx, sy: ws.sy}
			if log.IsEmpty() {
				p.dst = dst.RowRange(a, a+xb.Rows).ColRange(b, b+yb.Rows)
			} else {
				p.dst = dense.Matrix[T]{Rows: xb.Rows, Cols: yb.Rows, Stride: yb.Rows, Data: ws.block}
				p.log = log.RowRange(a, a+xb.Rows).ColRange(b, b+yb.Rows)
				if !sign.IsEmpty() {
					p.sign = sign.RowRange(a, a+xb.Rows).ColRange(b, b+yb.Rows)
				}
			}
			ws.product = p
			workers := par.Workers(xb.Rows, 1+200_000/(f*yb.Rows))
			if ws.Workers > 0 {
				workers = min(workers, ws.Workers)
			}
			ws.group.Do(xb.Rows, workers, &ws.product)
			if ws.product.lost != 0 {
				ws.rescue.p = &ws.product
				ws.rescue.x.of(m.query, m.Signed(), xb, ws.nx[a:], &ws.exec)
				ws.rescue.y.of(m.key, m.Signed(), yb, ws.ny[b:], &ws.exec)
				ws.group.Do(xb.Rows, workers, &ws.rescue)
				ws.rescue.p = nil
			}
		}
	}
	ws.product = product[T]{}
	return nil
}

// product is the job that multiplies two blocks of features and restores their scales, in log if that is not empty.
type product[T dense.Float] struct {
	m         *Map[T]
	dst, phiX dense.Matrix[T]
	phiY      *kern.Panel[T]
	sx, sy    []float64
	log, sign dense.Matrix[float64]
	lost      int32 // not 0: some entry is NaN, its features underflowed
}

// Run computes rows lo to hi−1.
//
// Features are at most 1 and lose what is below the smallest number of T. Where a row and a column are large at
// different features, as those of x and −x are, the products that count are among the lost ones: then the sum of a
// positive map is too small for its size, and is marked by NaN.
func (p *product[T]) Run(_, lo, hi int) {
	dst := p.dst.RowRange(lo, hi)
	p.m.tab.MulT(dst, p.phiX.RowRange(lo, hi), p.phiY, nil)
	floor, tiny := smallest[T](p.phiX.Cols)
	logs := !p.log.IsEmpty()
	for i := range dst.Rows {
		row := dst.Row(i)
		for j, v := range row {
			scale := p.sx[lo+i] + p.sy[j]
			if v < floor && p.m.positive && (logs || math.Log(float64(floor))+scale > tiny) {
				atomic.StoreInt32(&p.lost, 1)
				row[j] = T(math.NaN())
				continue
			}
			switch {
			case logs:
				p.log.Row(lo + i)[j] = math.Log(math.Abs(float64(v))) + scale
				if !p.sign.IsEmpty() {
					p.sign.Row(lo + i)[j] = math.Copysign(1, float64(v))
				}
			case v != 0: // 0·Inf would be NaN
				row[j] = T(float64(v) * math.Exp(scale))
			}
		}
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

// rescue is the job that computes the entries that a product marked, from exponents that are added before they are
// exponentiated.
type rescue[T dense.Float] struct {
	p    *product[T]
	x, y exponents[T]
}

// Run computes the marked entries of rows lo to hi−1.
func (r *rescue[T]) Run(_, lo, hi int) {
	p := r.p
	for i := lo; i < hi; i++ {
		for j, v := range p.dst.Row(i) {
			if v == v {
				continue
			}
			log := r.entry(i, j)
			if !p.log.IsEmpty() {
				p.log.Row(i)[j] = log
			}
			if !p.sign.IsEmpty() {
				p.sign.Row(i)[j] = 1
			}
			p.dst.Row(i)[j] = T(math.Exp(log))
		}
	}
}

// entry is the logarithm of one entry, −Inf where no feature is above 0 on both sides: thresholds and gates make such
// zeros, and they must not cost exponentials.
func (r *rescue[T]) entry(i, j int) float64 {
	ex, ey := r.x.e.Row(i), r.y.e.Row(j)
	var vx, vy []T
	if !r.x.value.IsEmpty() {
		vx, vy = r.x.value.Row(i), r.y.value.Row(j)
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
	return math.Log(sum) + top + r.x.row[i] + r.y.row[j]
}
