// Package nn holds the layers that encoders and decoders share: products with float32 or quantised weights, divided
// among the processors by rows or by outputs, and loops over rows.
//
// A [Loader] takes tensors from a file, [NewLinear] packs them, and [Mul.Do] multiplies activations by them. A
// [Linear] is immutable and shared. A [Mul] holds scratch memory and must not be used by concurrent calls.
package nn

import (
	"fmt"
	"math"
	"runtime"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/weights"
)

// Matrix holds activations, one row per token.
type Matrix = dense.Matrix[float32]

// Precision says how weights are kept in memory.
type Precision int

const (
	// Float32 computes in float32, whatever the file holds.
	Float32 Precision = iota
	// Quantised keeps 4-bit weights in 4 bits and all others in 8 bits. It multiplies them by activations that are
	// rounded to 8 bits in blocks of 32.
	Quantised
)

// Kernels are the inner loops chosen for this machine.
type Kernels struct {
	Table *kern.Table[float32]
	Model *kern.Model
}

// Chosen returns the fastest kernels, or those that the environment variable RANDFEAT_KERNEL names.
func Chosen() (Kernels, error) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return Kernels{}, err
	}
	mod, err := kern.ChosenModel()
	return Kernels{tab, mod}, err
}

// Linear is y = x·Wᵀ + b. It is immutable and safe for concurrent use.
type Linear struct {
	Rows, Cols int // outputs and inputs
	bias       []float32
	panel      kern.Panel[float32]   // weights if Float32
	views      []kern.Panel[float32] // parts of panel with viewPanels panels each, sharing its memory
	parts      []part                // weights if Quantised, one per stacked tensor
	groups     int                   // groups of outputs of all parts
}

// part is one stacked tensor. Its outputs begin at first, its groups of outputs at group.
type part struct {
	w            *kern.Blocks
	first, group int
}

// viewPanels panels of outputs are one item of work if there are too few rows to divide.
const viewPanels = 2

// loadRows rows of a tensor are converted by one goroutine at a time.
const loadRows = 64

// NewLinear stacks the outputs of the tensors, which must have the same number of columns. A nil bias is zero.
func NewLinear(k Kernels, p Precision, bias []float32, list ...weights.Tensor) *Linear {
	l := &Linear{Cols: list[0].Cols(), bias: bias}
	for _, t := range list {
		l.Rows += t.Rows()
	}
	if p == Float32 {
		k.Table.Room(&l.panel, l.Rows, l.Cols)
		all := func(i int) (weights.Tensor, int) {
			for _, t := range list {
				if i < t.Rows() {
					return t, i
				}
				i -= t.Rows()
			}
			panic("nn: row out of range")
		}
		par.For((l.Rows+loadRows-1)/loadRows, 1, func(lo, hi int) {
			rows := dense.New[float32](loadRows, l.Cols)
			for b := lo; b < hi; b++ {
				n := min(loadRows, l.Rows-b*loadRows)
				for r := range n {
					t, i := all(b*loadRows + r)
					t.Row(rows.Row(r), i)
				}
				k.Table.PackAt(&l.panel, b*loadRows, rows.RowRange(0, n))
			}
		})
		unit := viewPanels * l.panel.Width
		for i := 0; i < l.Rows; i += unit {
			v := l.panel
			v.Rows = min(unit, l.Rows-i)
			v.Data = v.Data[i*l.Cols : min(len(v.Data), (i+unit)*l.Cols)]
			l.views = append(l.views, v)
		}
		return l
	}
	first := 0
	for _, t := range list {
		w := Repack(t)
		l.parts = append(l.parts, part{w, first, l.groups})
		first += t.Rows()
		l.groups += w.Groups()
	}
	return l
}

// Bytes is the memory of the weights. One token reads all of it.
func (l *Linear) Bytes() int {
	n := 4 * len(l.panel.Data)
	for _, p := range l.parts {
		n += p.w.Size()
	}
	return n
}

// Mul holds the scratch memory of a product. The zero value is ready. After the first calls a product allocates
// nothing. It must not be used by concurrent calls.
type Mul struct {
	k    Kernels
	acts kern.Acts
	l    *Linear
	x, y Matrix
	// The loops of a product: methods bound once, which take their arguments from the fields above.
	quantise, groups, rows, columns func(lo, hi int)
}

const (
	// rowBlock rows of a float32 product are one item of work.
	rowBlock = 64
	// quantiseRows is the number of rows that pays for another goroutine.
	quantiseRows = 16
	// mulShare is the cost of one more goroutine, in multiply-adds, even if the goroutines of the previous loop are
	// still awake. work/n + n·mulShare is smallest at n = √(work/mulShare) goroutines.
	mulShare = 14_000
)

// Do sets y = x·Wᵀ + b on all processors. Quantised products first quantise the rows of x, then divide the outputs.
// Float32 products divide the rows if there are enough of them, and the outputs otherwise.
func (m *Mul) Do(k Kernels, y, x Matrix, l *Linear) {
	if y.Rows != x.Rows || y.Cols != l.Rows || x.Cols != l.Cols {
		panic(fmt.Sprintf("nn: product of %d×%d by %d×%d into %d×%d", x.Rows, x.Cols, l.Rows, l.Cols, y.Rows, y.Cols))
	}
	if m.quantise == nil {
		m.quantise, m.groups, m.rows, m.columns = m.doQuantise, m.doGroups, m.doRows, m.doColumns
	}
	m.k, m.l, m.x, m.y = k, l, x, y
	if x.Rows == 0 {
		return
	}
	work := x.Rows * l.Rows * l.Cols
	switch {
	case l.parts != nil:
		m.acts.Resize(x.Rows, x.Cols)
		if x.Cols%kern.BlockCols == 0 {
			par.For(x.Rows, quantiseRows, m.quantise)
		} else {
			m.doQuantise(0, x.Rows)
		}
		workers := 1 + int(math.Sqrt(float64(work)/mulShare))
		par.For(l.groups, (l.groups+workers-1)/workers, m.groups)
	case x.Rows >= rowBlock*runtime.GOMAXPROCS(0):
		par.For((x.Rows+rowBlock-1)/rowBlock, 1, m.rows)
	default:
		par.For(len(l.views), max(1, k.Table.Grain/4*len(l.views)/max(1, work)), m.columns)
	}
	m.l, m.x, m.y = nil, Matrix{}, Matrix{}
}

// Own is Do on the calling goroutine alone, for callers that divide the rows themselves.
func (m *Mul) Own(k Kernels, y, x Matrix, l *Linear) {
	if l.parts == nil {
		k.Table.MulT(y, x, &l.panel, l.bias)
		return
	}
	m.k, m.l, m.x, m.y = k, l, x, y
	m.acts.Resize(x.Rows, x.Cols)
	m.doQuantise(0, x.Rows)
	m.doGroups(0, l.groups)
	m.l, m.x, m.y = nil, Matrix{}, Matrix{}
}

func (m *Mul) doQuantise(lo, hi int) {
	for i := lo; i < hi; i++ {
		m.k.Model.QuantiseRow(&m.acts, i, m.x.Row(i))
	}
}

// doGroups computes groups lo to hi−1 of outputs, which may span several parts.
func (m *Mul) doGroups(lo, hi int) {
	for _, p := range m.l.parts {
		from, to := max(lo-p.group, 0), min(hi-p.group, p.w.Groups())
		if from >= to {
			continue
		}
		m.k.Model.MulBlocks(m.y.ColRange(p.first, p.first+p.w.Rows), &m.acts, p.w, from, to)
		if m.l.bias == nil {
			continue
		}
		a, b := p.first+from*kern.BlockRows, p.first+min(to*kern.BlockRows, p.w.Rows)
		for i := range m.y.Rows {
			m.k.Table.MulAdd(m.y.Row(i)[a:b], m.l.bias[a:b], 1)
		}
	}
}

func (m *Mul) doRows(lo, hi int) {
	for i := lo * rowBlock; i < min(hi*rowBlock, m.x.Rows); i += rowBlock {
		end := min(i+rowBlock, m.x.Rows)
		m.k.Table.MulT(m.y.RowRange(i, end), m.x.RowRange(i, end), &m.l.panel, m.l.bias)
	}
}

func (m *Mul) doColumns(lo, hi int) {
	for i := lo; i < hi; i++ {
		v, first := &m.l.views[i], i*viewPanels*m.l.panel.Width
		var bias []float32
		if m.l.bias != nil {
			bias = m.l.bias[first : first+v.Rows]
		}
		m.k.Table.MulT(m.y.ColRange(first, first+v.Rows), m.x, v, bias)
	}
}

// Rows runs f on parts of n rows in parallel. A part has at least grain rows, so that it pays for a goroutine.
func Rows(n, grain int, f func(lo, hi int)) { par.For(n, grain, f) }
