package kern

import (
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// Panel is a matrix packed for MulT: Rows outputs of Cols inputs as [⌈Rows/Width⌉][Cols][Width], the last panel padded
// with zeros. The data start at a multiple of 64 bytes.
type Panel[T dense.Float] struct {
	Rows, Cols, Width int
	Data              []T
}

// packer transposes a vector of rows of a matrix into half a panel.
type packer[T dense.Float] struct {
	// rows is the number of rows that kernel takes, half the width of a panel; 0 means that there is no kernel. cols is
	// the number of columns of a block.
	rows, cols int
	// kernel transposes blocks blocks of w.
	kernel func(dst []T, w dense.Matrix[T], blocks int)
}

// Pack packs w, whose rows are the outputs, into p, whose memory is reused.
func (t *Table[T]) Pack(p *Panel[T], w dense.Matrix[T]) {
	if err := w.Check(); err != nil {
		panic("kern: Pack: " + err.Error())
	}
	t.Room(p, w.Rows, w.Cols)
	t.PackRows(p, w, 0, w.Rows)
}

// Room gives p memory for the given number of outputs and inputs, with undefined contents. PackRows fills it.
func (t *Table[T]) Room(p *Panel[T], rows, cols int) { p.reset(rows, cols, t.Width) }

// PackRows packs rows lo to hi−1 of w into a panel that has room for all rows (see Room). lo must be a multiple of 16.
// Goroutines can share the work.
func (t *Table[T]) PackRows(p *Panel[T], w dense.Matrix[T], lo, hi int) {
	t.PackAt(p, lo, w.RowRange(lo, hi))
}

// packAt is PackAt for the width of t.
func packAt[T dense.Float](t *Table[T], p *Panel[T], first int, w dense.Matrix[T]) {
	i, hi := 0, w.Rows
	if k := t.pack; k.rows > 0 && w.Cols >= k.cols {
		blocks := w.Cols / k.cols
		for ; i+k.rows <= hi; i += k.rows {
			rows := w.RowRange(i, i+k.rows)
			k.kernel(p.Data[p.output(first+i):], rows, blocks)
			for c := blocks * k.cols; c < w.Cols; c++ {
				out := p.Data[p.output(first+i)+c*t.Width:][:k.rows]
				for r := range out {
					out[r] = rows.At(r, c)
				}
			}
		}
	}
	if t.Width%4 == 0 {
		// Four rows at a time: their elements are neighbours in the panel.
		for ; i+4 <= hi; i += 4 {
			w0, w1, w2, w3 := w.Row(i), w.Row(i+1), w.Row(i+2), w.Row(i+3)
			w1, w2, w3 = w1[:len(w0)], w2[:len(w0)], w3[:len(w0)]
			at := p.output(first + i)
			for k, v := range w0 {
				q := p.Data[at : at+4 : at+4]
				q[0], q[1], q[2], q[3] = v, w1[k], w2[k], w3[k]
				at += t.Width
			}
		}
	}
	for ; i < hi; i++ {
		at := p.output(first + i)
		for _, v := range w.Row(i) {
			p.Data[at] = v
			at += t.Width
		}
	}
}

// packT is PackT for the width of t.
func packT[T dense.Float](t *Table[T], p *Panel[T], w dense.Matrix[T]) {
	p.reset(w.Cols, w.Rows, t.Width)
	// Panel by panel: rows side by side would write to places a power of two apart.
	for j := 0; j < w.Cols; j += t.Width {
		n := min(t.Width, w.Cols-j)
		for k := range w.Rows {
			copy(p.Data[j*w.Rows+k*t.Width:][:n], w.Row(k)[j:])
		}
	}
}

// output is the index of the first input of output j.
func (p *Panel[T]) output(j int) int { return j/p.Width*p.Cols*p.Width + j%p.Width }

// reset makes room and clears the padding.
func (p *Panel[T]) reset(rows, cols, width int) {
	p.Rows, p.Cols, p.Width = rows, cols, width
	n := (rows + width - 1) / width * width * cols
	if cap(p.Data) < n {
		p.Data = aligned[T](n)
	}
	p.Data = p.Data[:n]
	if rows%width != 0 {
		clear(p.Data[rows/width*width*cols:])
	}
}

// aligned returns n zeros that start at a multiple of 64 bytes: vector loads then never cross a cache line.
func aligned[T dense.Float](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	buf := make([]T, n+64/size)
	off := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % 64); r != 0 {
		off = (64 - r) / size
	}
	return buf[off : off+n : off+n]
}
