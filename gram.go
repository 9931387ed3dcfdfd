package randfeat

import (
	"fmt"
	"math"

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
}

// gramRows bounds the rows of features held at a time by Gram.
const gramRows = 128

// Gram fills dst (x.Rows × y.Rows) with the estimates φ1(x_i)·φ2(y_j). Features are held for blocks of rows only.
func (m *Map[T]) Gram(dst, x, y dense.Matrix[T], ws *Workspace[T]) error {
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
	if dst.Rows != x.Rows || dst.Cols != y.Rows {
		return fmt.Errorf("dst is %d×%d, want %d×%d: %w", dst.Rows, dst.Cols, x.Rows, y.Rows, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	ws.exec.Workers = ws.Workers
	f := m.OutDim()
	ws.phiX, ws.phiY = buf.Sized(ws.phiX, gramRows*f), buf.Sized(ws.phiY, gramRows*f)
	ws.sx, ws.sy = buf.Sized(ws.sx, gramRows), buf.Sized(ws.sy, gramRows)
	for b := 0; b < y.Rows; b += gramRows {
		yb := y.RowRange(b, min(b+gramRows, y.Rows))
		phiY := dense.Matrix[T]{Rows: yb.Rows, Cols: f, Stride: f, Data: ws.phiY}
		m.key.Run(phiY, ws.sy[:yb.Rows], yb, ws.ny[b:], &ws.exec)
		m.tab.Pack(&ws.packed, phiY)
		for a := 0; a < x.Rows; a += gramRows {
			xb := x.RowRange(a, min(a+gramRows, x.Rows))
			phiX := dense.Matrix[T]{Rows: xb.Rows, Cols: f, Stride: f, Data: ws.phiX}
			m.query.Run(phiX, ws.sx[:xb.Rows], xb, ws.nx[a:], &ws.exec)
			out := dst.RowRange(a, a+xb.Rows).ColRange(b, b+yb.Rows)
			ws.product = product[T]{m: m, dst: out, phiX: phiX, phiY: &ws.packed, sx: ws.sx, sy: ws.sy}
			workers := par.Workers(xb.Rows, 1+200_000/(f*yb.Rows))
			if ws.Workers > 0 {
				workers = min(workers, ws.Workers)
			}
			ws.group.Do(xb.Rows, workers, &ws.product)
		}
	}
	ws.product = product[T]{}
	return nil
}

// product is the job that multiplies two blocks of features and restores their scales.
type product[T dense.Float] struct {
	m         *Map[T]
	dst, phiX dense.Matrix[T]
	phiY      *kern.Panel[T]
	sx, sy    []float64
}

// Run computes rows lo to hi−1.
func (p *product[T]) Run(_, lo, hi int) {
	dst := p.dst.RowRange(lo, hi)
	p.m.tab.MulT(dst, p.phiX.RowRange(lo, hi), p.phiY, nil)
	for i := range dst.Rows {
		row := dst.Row(i)
		for j, v := range row {
			if v != 0 { // 0·Inf would be NaN
				row[j] = T(float64(v) * math.Exp(p.sx[lo+i]+p.sy[j]))
			}
		}
	}
}
