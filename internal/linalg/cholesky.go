// Package linalg factors symmetric positive definite matrices and solves with the factors, in blocks on the product
// kernels of package kern. It also holds the sums and solvers of least squares with a penalty.
//
// Matrices are row-major. A factor is the upper triangle U of A = UᵀU, whose row blocks the kernels read in place.
// Elements below the diagonal are ignored and may be overwritten.
//
// Every element is computed by one chain of operations that does not depend on the number of goroutines, so neither do
// its bits. Explicit conversions such as float64(a*b) keep compilers from fusing a product with a sum.
//
// # Files
//
//	cholesky.go   Cholesky, triangular solves, inverses, log determinants
//	gram.go       aᵀ·a and aᵀ·b, summed in the order of rows
//	normal.go     Normal: sums of least squares in features; Solution: the fit for one λ
//	blocks.go     Blocks: adds rows to a Normal, features of the next block beside products of this one
//	dual.go       Dual: least squares by the kernels of all rows, leave-one-out predictions
//	mixed.go      the same by a float32 factor with float64 refinement
//	margin.go     squared hinge losses by repeated least squares
//	active.go     squared hinge losses by Newton's method on the violating rows
package linalg

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// ErrNotPositive marks a matrix that is not positive definite up to rounding.
var ErrNotPositive = errors.New("matrix is not positive definite")

const (
	// panel is the number of rows of the factor that are computed before the rest of the matrix is updated; each panel
	// costs one pass over memory.
	panel = 256
	// inner is the number of rows that are solved by substitution, row by row; everything larger is matrix products.
	inner = 16
	// stripe columns, or a square tile of tile rows and columns, are one unit of parallel work. The grid is fixed, so
	// the bits do not depend on the number of goroutines.
	stripe, tile = 64, 128
)

// Cholesky overwrites the upper triangle of a with U, A = UᵀU (Golub & Van Loan, Matrix Computations, §4.2.5–4.2.6,
// right-looking). A matrix that is not positive definite up to rounding is ErrNotPositive; a is then undefined.
func Cholesky[T dense.Float](a dense.Matrix[T]) error {
	if err := square(a); err != nil {
		return err
	}
	tab := kern.Best[T]()
	par.For(a.Rows, 64, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			tab.Scale(a.Row(i)[i:], -1)
		}
	})
	return choleskyMinus(tab, a)
}

// choleskyMinus is Cholesky of −a. Kernels can only add products, so everything from which products must be subtracted
// has the opposite sign until it is solved for.
func choleskyMinus[T dense.Float](tab *kern.Table[T], a dense.Matrix[T]) error {
	n := a.Rows
	if n == 0 {
		return nil
	}
	s := choleskyStep[T]{tab: tab, a: a, leaves: make([]T, n*inner)}
	s.bad.Store(-1)
	s.plan()
	cubes := min(float64(n)*float64(n)*float64(n)/6, 1<<50)
	workers := max(1, min(runtime.GOMAXPROCS(0), int(cubes)/tab.Grain))
	var crew par.Crew[struct{}]
	if err := crew.Do(len(s.items), workers, &s); err != nil {
		panic("linalg: " + err.Error()) // no item fails
	}
	if bad := s.bad.Load(); bad >= 0 {
		return fmt.Errorf("pivot %d of %d is not positive: %w", bad, n, ErrNotPositive)
	}
	return nil
}

// choleskyStep is the Step of choleskyMinus. For every panel its items factor the triangle, solve for the stripes to
// its right, and add their products to the tiles below. The triangle of the next panel comes right after its own tiles,
// long before it is needed.
//
// Who waits for whom: a triangle waits for its tiles, a stripe for its triangle and tiles, a tile for the two groups of
// stripes that it multiplies and for its own previous update. All of these have smaller numbers, so there is no
// deadlock.
type choleskyStep[T dense.Float] struct {
	tab *kern.Table[T]
	a   dense.Matrix[T]
	// leaves holds −U⁻ᵀ of every triangle of inner rows.
	leaves []T
	items  []choleskyItem
	tiles  int // along the diagonal
	// turns counts panels: how many triangles are factored (counter 0), for how many each stripe is solved, and how
	// many have been added to each tile.
	turns par.Turns
	bad   atomic.Int64 // first pivot that is not positive, −1 for none; later items then do nothing but count
}

// choleskyItem is a unit of work for the panel that begins in row k: a tile (row, col), a stripe of columns col if row
// < 0, or the triangle if col < 0.
type choleskyItem struct{ k, row, col int32 }

// plan lists the items in the order in which they are handed out.
func (s *choleskyStep[T]) plan() {
	n := s.a.Rows
	s.tiles = (n + tile - 1) / tile
	add := func(k, row, col int) { s.items = append(s.items, choleskyItem{int32(k), int32(row), int32(col)}) }
	add(0, -1, -1)
	for k := 0; k+panel < n; k += panel {
		end := k + panel
		for j := end; j < n; j += stripe {
			add(k, -1, j/stripe)
		}
		next := min(end+panel, n) // end of the next panel, whose tiles come first
		for c := end / tile; c < s.tiles; c++ {
			for r := end / tile; r <= c; r++ {
				add(k, r, c)
			}
			if (c+1)*tile >= next && c*tile < next {
				add(end, -1, -1)
			}
		}
	}
	s.turns.Reset(s.tileTurn(s.tiles, 0))
}

// Indices of the counters of turns; counter 0 counts factored triangles.
func (s *choleskyStep[T]) stripeTurn(j int) int { return 1 + j }
func (s *choleskyStep[T]) tileTurn(r, c int) int {
	return s.stripeTurn((s.a.Rows+stripe-1)/stripe) + r*s.tiles + c
}

// Release implements par.Waiter: it ends waits after a panic.
func (s *choleskyStep[T]) Release() { s.turns.Release() }

// Item implements par.Step. Every item counts itself done even if an earlier pivot was bad, so that nobody waits in
// vain.
func (s *choleskyStep[T]) Item(_ *struct{}, i int) error {
	it := s.items[i]
	k, n := int(it.k), s.a.Rows
	end, nth := min(k+panel, n), k/panel
	switch {
	case it.col < 0:
		for c := k / tile; c*tile < end; c++ {
			for r := k / tile; r <= c; r++ {
				s.turns.Await(s.tileTurn(r, c), nth)
			}
		}
		if s.bad.Load() < 0 {
			if at := factorMinus(s.tab, block(s.a, k, end, k, end), s.leaves[k*inner:]); at >= 0 {
				s.bad.Store(int64(k + at))
			}
		}
		s.turns.Done(0)
	case it.row < 0:
		j := int(it.col) * stripe
		for r := k / tile; r*tile < end; r++ {
			s.turns.Await(s.tileTurn(r, j/tile), nth)
		}
		s.turns.Await(0, nth+1)
		if s.bad.Load() < 0 {
			forwardMinus(s.tab, block(s.a, k, end, k, end), block(s.a, k, end, j, min(j+stripe, n)), s.leaves[k*inner:])
		}
		s.turns.Done(s.stripeTurn(int(it.col)))
	default:
		r, c := int(it.row), int(it.col)
		for _, t := range [2]int{r, c} {
			for j := t * tile; j < min((t+1)*tile, n); j += stripe {
				s.turns.Await(s.stripeTurn(j/stripe), nth+1)
			}
		}
		s.turns.Await(s.tileTurn(r, c), nth)
		if s.bad.Load() < 0 {
			i, iEnd, j, jEnd := r*tile, min((r+1)*tile, n), c*tile, min((c+1)*tile, n)
			s.tab.TMul(block(s.a, i, iEnd, j, jEnd), block(s.a, k, end, i, iEnd), block(s.a, k, end, j, jEnd))
		}
		s.turns.Done(s.tileTurn(r, c))
	}
	return nil
}

// factorMinus is Cholesky of one panel of −A, recursively by halves. It returns the index of the first pivot that is
// not positive, or −1, and sets leaves to −U⁻ᵀ of the triangles of inner rows.
func factorMinus[T dense.Float](tab *kern.Table[T], a dense.Matrix[T], leaves []T) int {
	n := a.Rows
	if n <= inner {
		at := factorSmall(a)
		if at < 0 {
			invertLeaf(leaves, a, true)
		}
		return at
	}
	h := half(n)
	u, b, c := block(a, 0, h, 0, h), block(a, 0, h, h, n), block(a, h, n, h, n)
	if at := factorMinus(tab, u, leaves); at >= 0 {
		return at
	}
	forwardMinus(tab, u, b, leaves)
	tab.TMul(c, b, b)
	if at := factorMinus(tab, c, leaves[h*inner:]); at >= 0 {
		return h + at
	}
	return -1
}

// factorSmall is factorMinus element by element.
func factorSmall[T dense.Float](a dense.Matrix[T]) int {
	for i := range a.Rows {
		d := a.Row(i)
		if !(d[i] < 0) || math.IsInf(float64(d[i]), -1) {
			return i
		}
		p := T(math.Sqrt(-float64(d[i])))
		d[i] = p
		for j := i + 1; j < len(d); j++ {
			d[j] /= -p
		}
		for r := i + 1; r < a.Rows; r++ {
			row, f := a.Row(r)[r:], d[r]
			for j, v := range d[r:] {
				row[j] += T(f * v)
			}
		}
	}
	return -1
}

// SolveT overwrites b with U⁻ᵀ·b: forward substitution.
func SolveT[T dense.Float](u, b dense.Matrix[T]) error { return solve(u, b, forwardAll[T]) }

// Solve overwrites b with U⁻¹·b: backward substitution.
func Solve[T dense.Float](u, b dense.Matrix[T]) error { return solve(u, b, backwardAll[T]) }

func solve[T dense.Float](u, b dense.Matrix[T], side func(*kern.Table[T], dense.Matrix[T], dense.Matrix[T])) error {
	if err := square(u); err != nil {
		return err
	}
	if b.Rows != u.Rows {
		return fmt.Errorf("%d rows for a factor of %d: %w", b.Rows, u.Rows, dense.ErrShape)
	}
	if err := b.Check(); err != nil {
		return err
	}
	side(kern.Best[T](), u, b)
	return nil
}

// few is the number of columns of a right-hand side up to which all are solved for together, panel by panel with the
// remaining rows in parallel. Dividing so few columns among goroutines would leave one core to read the factor from
// memory.
const few = stripe

// forwardAll is forward on all cores: stripes of columns in parallel or, for few columns, rows.
func forwardAll[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T]) {
	n := u.Rows
	if b.Cols > few || n <= panel {
		eachStripe(0, b.Cols, func(j, jEnd int) { forward(tab, u, b.ColRange(j, jEnd)) })
		return
	}
	negate(tab, b)
	for k := 0; k < n; k += panel {
		end := min(k+panel, n)
		top := b.RowRange(k, end)
		forwardMinus(tab, block(u, k, end, k, end), top, nil)
		eachRows(end, n, func(i, iEnd int) { tab.TMul(b.RowRange(i, iEnd), block(u, k, end, i, iEnd), top) })
	}
}

// backwardAll is backward on all cores.
func backwardAll[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T]) {
	n := u.Rows
	if b.Cols > few || n <= panel {
		eachStripe(0, b.Cols, func(j, jEnd int) { backward(tab, u, b.ColRange(j, jEnd)) })
		return
	}
	negate(tab, b)
	for end := n; end > 0; {
		k := (end - 1) / panel * panel
		low := b.RowRange(k, end)
		backwardMinus(tab, block(u, k, end, k, end), low, nil)
		eachRows(0, k, func(i, iEnd int) { tab.Product(b.RowRange(i, iEnd), block(u, i, iEnd, k, end), low, true) })
		end = k
	}
}

// eachRows runs body for parts of the rows lo to hi−1, on a fixed grid. At least four parts pay for a goroutine.
func eachRows(lo, hi int, body func(i, iEnd int)) {
	par.For((hi-lo+stripe-1)/stripe, 4, func(a, b int) {
		for ; a < b; a++ {
			i := lo + a*stripe
			body(i, min(i+stripe, hi))
		}
	})
}

// forward is b = U⁻ᵀ·b.
func forward[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T]) {
	negate(tab, b)
	forwardMinus(tab, u, b, nil)
}

// forwardMinus computes b = −U⁻ᵀ·b by halves. Kernels can only add products, so a part from which products must be
// subtracted has the opposite sign until it is solved for. No half is negated twice. leaves holds −U⁻ᵀ of the triangles
// of inner rows; nil: not known.
func forwardMinus[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T], leaves []T) {
	n := u.Rows
	if n > inner {
		h := half(n)
		top, low := b.RowRange(0, h), b.RowRange(h, n)
		forwardMinus(tab, block(u, 0, h, 0, h), top, leaves)
		tab.TMul(low, block(u, 0, h, h, n), top)
		forwardMinus(tab, block(u, h, n, h, n), low, below(leaves, h))
		return
	}
	if b.Cols >= leafCols {
		leafMinus(tab, u, b, leaves, true)
		return
	}
	for i := range n {
		bi := b.Row(i)
		for l := range i {
			f := u.At(l, i)
			for j, v := range b.Row(l) {
				bi[j] += T(f * v)
			}
		}
		f := -1 / u.At(i, i)
		for j := range bi {
			bi[j] *= f
		}
	}
}

// backward is b = U⁻¹·b.
func backward[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T]) {
	negate(tab, b)
	backwardMinus(tab, u, b, nil)
}

// backwardMinus computes b = −U⁻¹·b by halves. leaves holds −U⁻¹ of the triangles of inner rows; nil: not known.
func backwardMinus[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T], leaves []T) {
	n := u.Rows
	if n > inner {
		h := half(n)
		top, low := b.RowRange(0, h), b.RowRange(h, n)
		backwardMinus(tab, block(u, h, n, h, n), low, below(leaves, h))
		tab.Product(top, block(u, 0, h, h, n), low, true)
		backwardMinus(tab, block(u, 0, h, 0, h), top, leaves)
		return
	}
	if b.Cols >= leafCols {
		leafMinus(tab, u, b, leaves, false)
		return
	}
	for i := n - 1; i >= 0; i-- {
		bi := b.Row(i)
		for l := i + 1; l < n; l++ {
			f := u.At(i, l)
			for j, v := range b.Row(l) {
				bi[j] += T(f * v)
			}
		}
		f := -1 / u.At(i, i)
		for j := range bi {
			bi[j] *= f
		}
	}
}

// leafCols is the number of columns from which a triangle of at most inner rows is inverted and multiplied. Fewer
// columns are solved for element by element.
const leafCols = 8

// leaf is scratch memory of leafMinus: too large for every stack frame of the recursion.
type leaf[T dense.Float] struct {
	inverse [inner * inner]T
	b       [inner * stripe]T
}

var leaves32, leaves64 = sync.Pool{New: func() any { return new(leaf[float32]) }},
	sync.Pool{New: func() any { return new(leaf[float64]) }}

func leavesOf[T dense.Float]() *sync.Pool {
	if _, ok := any(T(0)).(float32); ok {
		return &leaves32
	}
	return &leaves64
}

// below returns the leaves of the rows from h on.
func below[T dense.Float](leaves []T, h int) []T {
	if leaves == nil {
		return nil
	}
	return leaves[h*inner:]
}

// leafMinus computes b = −U⁻ᵀ·b if transposed, otherwise −U⁻¹·b, for at most inner rows, by the inverse of U: the
// first of leaves, or computed here if there are none.
func leafMinus[T dense.Float](tab *kern.Table[T], u, b dense.Matrix[T], leaves []T, transposed bool) {
	pool := leavesOf[T]()
	w := pool.Get().(*leaf[T])
	defer pool.Put(w)
	n := u.Rows
	if leaves == nil {
		leaves = w.inverse[:]
		invertLeaf(leaves, u, transposed)
	}
	inverse := dense.Matrix[T]{Rows: n, Cols: n, Stride: n, Data: leaves[:n*n]}
	for c := 0; c < b.Cols; c += stripe {
		part := b.ColRange(c, min(c+stripe, b.Cols))
		old := dense.Matrix[T]{Rows: n, Cols: part.Cols, Stride: part.Cols, Data: w.b[:n*part.Cols]}
		for i := range n {
			copy(old.Row(i), part.Row(i))
		}
		tab.Product(part, inverse, old, false)
	}
}

// invertLeaf sets the first n² elements of dst to −U⁻ᵀ if transposed, otherwise −U⁻¹, for n ≤ inner rows.
func invertLeaf[T dense.Float](dst []T, u dense.Matrix[T], transposed bool) {
	n := u.Rows
	// Row i of x is that of −U⁻ᵀ: −(e_i − Σ_{l<i} U_li·(row l of U⁻ᵀ))/U_ii.
	var x [inner][inner]T
	for i := range n {
		row := &x[i]
		for l := range i {
			f := u.At(l, i)
			for j, v := range x[l][:l+1] {
				row[j] += T(f * v)
			}
		}
		row[i] = 1
		f := -1 / u.At(i, i)
		for j := range row[:i+1] {
			row[j] *= f
		}
	}
	for i := range n {
		for j := range n {
			if transposed {
				dst[i*n+j] = x[i][j]
			} else {
				dst[i*n+j] = x[j][i]
			}
		}
	}
}

// Inverse sets the upper triangle of dst to U⁻¹ and the rest to zero. dst must not share memory with u.
func Inverse[T dense.Float](dst, u dense.Matrix[T]) error {
	if err := square(u); err != nil {
		return err
	}
	if dst.Rows != u.Rows || dst.Cols != u.Cols {
		return fmt.Errorf("dst is %d×%d for a factor of %d: %w", dst.Rows, dst.Cols, u.Rows, dense.ErrShape)
	}
	if err := dst.Check(); err != nil {
		return fmt.Errorf("dst: %w", err)
	}
	tab := kern.Best[T]()
	leaves := invertLeaves(u)
	eachStripe(0, u.Rows, func(j, jEnd int) {
		for i := jEnd; i < dst.Rows; i++ {
			clear(dst.Row(i)[j:jEnd])
		}
		inverseStripe(tab, block(dst, 0, jEnd, j, jEnd), u, leaves, j)
	})
	return nil
}

// inverseStripe sets x to columns j, j+1, … of U⁻¹, as many as x has, down to the row of the last of them; all rows
// below are zero. leaves are those of invertLeaves.
func inverseStripe[T dense.Float](tab *kern.Table[T], x, u dense.Matrix[T], leaves []T, j int) {
	for i := range x.Rows {
		clear(x.Row(i))
		if i >= j {
			x.Row(i)[i-j] = -1
		}
	}
	backwardMinus(tab, block(u, 0, x.Rows, 0, x.Rows), x, leaves)
}

// invertLeaves returns −U⁻¹ of the triangles of inner rows.
func invertLeaves[T dense.Float](u dense.Matrix[T]) []T {
	leaves := make([]T, u.Rows*inner)
	for k := 0; k < u.Rows; k += inner {
		end := min(k+inner, u.Rows)
		invertLeaf(leaves[k*inner:], block(u, k, end, k, end), false)
	}
	return leaves
}

// InverseProduct sets the upper triangle of dst to A⁻¹ = U⁻¹U⁻ᵀ, given U⁻¹, which it transposes in place. Element ij is
// a sum from column max(i, j) on: n³/6 multiply-adds. dst must not share memory with inverse.
func InverseProduct[T dense.Float](dst, inverse dense.Matrix[T]) {
	tab := kern.Best[T]()
	n := inverse.Rows
	for i := range n {
		for j := range i {
			inverse.Row(i)[j], inverse.Row(j)[i] = inverse.At(j, i), 0
		}
		clear(dst.Row(i)[i:])
	}
	eachTile(0, n, func(i, iEnd, j, jEnd int) {
		tab.TMul(block(dst, i, iEnd, j, jEnd), block(inverse, j, n, i, iEnd), block(inverse, j, n, j, jEnd))
	})
}

// TraceInverse is tr A⁻¹ = ‖U⁻¹‖² for A = UᵀU. Stripes are summed in order.
func TraceInverse(u dense.Matrix[float64]) (float64, error) {
	if err := square(u); err != nil {
		return 0, err
	}
	tab, leaves := kern.Best[float64](), invertLeaves(u)
	part := make([]float64, (u.Rows+stripe-1)/stripe)
	eachStripe(0, u.Rows, func(j, jEnd int) {
		x := dense.New[float64](jEnd, jEnd-j)
		inverseStripe(tab, x, u, leaves, j)
		part[j/stripe] = tab.Norm2(x.Data)
	})
	sum := 0.0
	for _, v := range part {
		sum += v
	}
	return sum, nil
}

// LogDet is log det A = 2 Σ log U_ii for A = UᵀU.
func LogDet[T dense.Float](u dense.Matrix[T]) float64 {
	sum := 0.0
	for i := range u.Rows {
		sum += math.Log(float64(u.At(i, i)))
	}
	return 2 * sum
}

// eachStripe runs body for the stripes of the columns lo to hi−1, on a fixed grid.
func eachStripe(lo, hi int, body func(j, jEnd int)) {
	par.For((hi-lo+stripe-1)/stripe, 1, func(a, b int) {
		for ; a < b; a++ {
			j := lo + a*stripe
			body(j, min(j+stripe, hi))
		}
	})
}

// eachTile runs body for the square tiles that touch the upper triangle of rows and columns lo to hi−1.
func eachTile(lo, hi int, body func(i, iEnd, j, jEnd int)) {
	eachUpper((hi-lo+tile-1)/tile, 1, func(r, c int) {
		i, j := lo+r*tile, lo+c*tile
		body(i, min(i+tile, hi), j, min(j+tile, hi))
	})
}

// eachUpper runs body for the pairs r ≤ c < n, column by column; at least grain pairs pay for a goroutine.
func eachUpper(n, grain int, body func(r, c int)) {
	par.For(n*(n+1)/2, grain, func(a, b int) {
		for ; a < b; a++ {
			body(upperPair(a))
		}
	})
}

// upperPair is pair number a in the enumeration of pairs r ≤ c, column by column.
func upperPair(a int) (r, c int) {
	c = int((math.Sqrt(float64(8*a+1)) - 1) / 2) // c(c+1)/2 pairs come before column c
	return a - c*(c+1)/2, c
}

// half splits n into two parts, the first a multiple of inner.
func half(n int) int { return max(inner, n/2/inner*inner) }

// block is the view of rows i to iEnd−1 and columns j to jEnd−1.
func block[T dense.Float](a dense.Matrix[T], i, iEnd, j, jEnd int) dense.Matrix[T] {
	return a.RowRange(i, iEnd).ColRange(j, jEnd)
}

func negate[T dense.Float](tab *kern.Table[T], a dense.Matrix[T]) {
	for i := range a.Rows {
		tab.Scale(a.Row(i), -1)
	}
}

func square[T dense.Float](a dense.Matrix[T]) error {
	if a.Rows != a.Cols {
		return fmt.Errorf("%d×%d matrix, want a square one: %w", a.Rows, a.Cols, dense.ErrShape)
	}
	return a.Check()
}
