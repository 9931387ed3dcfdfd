package randfeat

import (
	"errors"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Underflow counts the entries of a Gram matrix that are 0, and how many of them are wrong.
type Underflow struct {
	Entries int // entries of the matrix
	Zeros   int // entries that are 0
	// Checked is the number of zeros in the rows that were checked. Below counts the checked zeros whose estimate is
	// not 0 in the log domain: it is below the smallest number of the precision. Estimates of gated features may really
	// be 0.
	Checked, Below int
	// Lost counts the checked zeros that are Below although the precision can hold the exact kernel: the matrix is
	// wrong there. Where the kernel itself is below the smallest number, 0 is right.
	Lost int
}

// Add adds the counts of another block of rows.
func (u *Underflow) Add(o Underflow) {
	u.Entries += o.Entries
	u.Zeros += o.Zeros
	u.Checked += o.Checked
	u.Below += o.Below
	u.Lost += o.Lost
}

// underflowRows bounds the rows whose zeros [Map.Underflow] checks.
const underflowRows = 16

// Underflow examines the zeros of gram, which [Map.Gram] has filled from x and y. Rows that are long for the map cause
// them: features of positive maps of the Gaussian kernel fall like exp(−|x|²), out of the range of T. [Map.LogGram] has
// no such limit. The cost is one pass over gram, and at most 16 rows of LogGram and of the exact kernel.
func (m *Map[T]) Underflow(gram, x, y dense.Matrix[T], ws *Workspace[T]) (Underflow, error) {
	if err := checkGram("gram", gram, x, y); err != nil {
		return Underflow{}, err
	}
	u := Underflow{Entries: gram.Rows * gram.Cols}
	var rows []int // rows that contain zeros
	for i := range gram.Rows {
		n := u.Zeros
		for _, v := range gram.Row(i) {
			if v == 0 {
				u.Zeros++
			}
		}
		if u.Zeros > n {
			rows = append(rows, i)
		}
	}
	if u.Zeros == 0 {
		return u, nil
	}
	_, tiny := smallest[T](1)
	log, sign, exact := dense.New[float64](1, y.Rows), dense.New[float64](1, y.Rows), dense.New[T](1, y.Rows)
	n := min(len(rows), underflowRows)
	for k := range n {
		i := rows[k*len(rows)/n]
		row := x.RowRange(i, i+1)
		if err := m.LogGram(log, sign, row, y, ws); err != nil {
			return u, err
		}
		err := kernel.LogGram(m.Spec().Target(), exact, row, y)
		if err != nil && !errors.Is(err, kernel.ErrKernel) { // the Bessel kernel has no logarithm
			return u, err
		}
		for j, v := range gram.Row(i) {
			if v != 0 {
				continue
			}
			u.Checked++
			if math.IsInf(log.At(0, j), -1) {
				continue
			}
			u.Below++
			if err == nil && float64(exact.At(0, j)) > tiny {
				u.Lost++
			}
		}
	}
	return u, nil
}
