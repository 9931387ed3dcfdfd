package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/linalg"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// Iterative says how [FitIterative] solves. Zero fields are defaults.
type Iterative struct {
	// Tolerance is the relative residual |b − (C+λI)w|/|b| of every output at which iterations end; 0 means 1e-6.
	Tolerance float64
	// Steps bounds the iterations, each of which reads all rows once; 0 means 200.
	Steps int
	// Sketch is the number r of rows in the preconditioner; 0 means 4096, fewer if r·F numbers exceed 1 GiB, and never
	// more than there are rows.
	Sketch int
	// Memory bounds the bytes of kernels and preconditioner of FitExactIterative and FitMarginsIterative; 0 means 2 GiB
	// of kernels. FitIterative does not use it.
	Memory int64
	// Progress is called after every iteration with its number and residual; an error ends the fit.
	Progress func(step int, residual float64) error
}

// Iterations reports how an iterative fit went.
type Iterations struct {
	Steps     int     // iterations; the rows were read once more than that
	Residual  float64 // largest relative residual of an output
	Converged bool    // the residual is within the tolerance
	Sketch    int     // rows of the preconditioner
	Bytes     int64   // memory of the preconditioner, the vectors and the blocks of features
}

const (
	defaultTolerance = 1e-6
	defaultSteps     = 200
	defaultSketch    = 4096
	sketchBytes      = 1 << 30 // largest size of the preconditioner's rows of features
	// Features are computed in blocks of iterativeBlock bytes, used twice while they are in the second-level cache, and
	// dropped. For rows of more than narrowRow columns the projections alone exceed that cache. Blocks then have
	// wideBlock bytes, so that the projections are not read from memory again for every 16 rows.
	iterativeBlock, wideBlock = 2 << 20, 64 << 20
	narrowRow                 = 24  // columns of x
	wideRows                  = 256 // largest number of rows of such a block
)

// FitIterative is kernel ridge regression with penalty λ > 0, as [Ridge], by conjugate gradients. It recomputes the
// features in every iteration and needs no F×F matrix, so F may be 100,000. An iteration takes n·(cost of a row of
// features + 2·F·outputs) multiply-adds. The number of iterations depends on λ and on the preconditioner
//
//	P = max(λ, τ)·I + (n/r) Σ_r (φ−μ)(φ−μ)ᵀ
//
// of r rows drawn by Spec.Seed (Rudi, Carratino & Rosasco 2017, FALKON, arXiv:1705.10958, eq. 13, whose rows are the
// landmarks). It takes r²·F multiply-adds once, and 8r(F + 2r) bytes. τ is the part of other rows that these r rows do
// not explain. Further memory is some F·outputs numbers and blocks of 2 MiB of features. For landmarks
// (family.Landmarks), K_mm = RᵀR is one more matrix, of 8m² bytes. R⁻¹ is applied only to vectors, so an iteration
// takes n·m products instead of n·m².
//
// The bits do not depend on GOMAXPROCS. Ending before the residual is small is not an error: see Iterations.Converged.
func FitIterative(s Setup, rows Rows, lambda float64, o Iterative) (*Model, Iterations, error) {
	return fitByRows(s, rows, lambda, o)
}

// fitByRows runs FitIterative in four steps: one pass for means, right-hand side and a sample of rows; the
// preconditioner from that sample; conjugate gradients; the model, with the intercept ȳ − μ·w.
func fitByRows(s Setup, rows Rows, lambda float64, o Iterative) (*Model, Iterations, error) {
	if s.Weighted {
		return nil, Iterations{}, fmt.Errorf("conjugate gradients of rows with weights: use Ridge, with fewer features: %w",
			ErrSetup)
	}
	var done Iterations
	if !(lambda > 0) || math.IsInf(lambda, 1) {
		return nil, done, fmt.Errorf("λ = %g, want a positive number: %w", lambda, ErrSetup)
	}
	if o.Tolerance < 0 || o.Steps < 0 || o.Sketch < 0 {
		return nil, done, fmt.Errorf("tolerance %g, %d steps, a sketch of %d rows, want none of them negative: %w",
			o.Tolerance, o.Steps, o.Sketch, ErrSetup)
	}
	o.Tolerance, o.Steps = cmp.Or(o.Tolerance, defaultTolerance), cmp.Or(o.Steps, defaultSteps)
	g, err := newGradients(s)
	if err != nil {
		return nil, done, err
	}
	if err := g.setup.checkRows(rows); err != nil {
		return nil, done, err
	}
	g.rows = rows
	if o.Sketch == 0 {
		o.Sketch = min(defaultSketch, max(1, sketchBytes/(8*g.features)))
	}
	picked, err := g.first(o.Sketch)
	if err != nil {
		return nil, done, err
	}
	p, err := g.precondition(picked, lambda)
	if err != nil {
		return nil, done, err
	}
	done.Sketch = picked.Rows
	done.Bytes = 8 * int64(len(p.psi.Data)+2*len(p.factor.Data)+len(g.root.Data)+7*g.features*g.setup.Outputs+
		3*g.block*g.features)
	w, err := g.solve(p, lambda, o, &done)
	if err != nil {
		return nil, done, err
	}
	if g.root.Rows > 0 {
		if err := linalg.Solve(g.root, w); err != nil {
			return nil, done, err
		}
	}
	m := ridgeModel(g.setup, g.n, lambda, w, slices.Clone(g.mean))
	for i, mu := range g.raw {
		for k := range m.Intercept {
			m.Intercept[k] -= float64(mu * w.At(i, k))
		}
	}
	return m, done, nil
}

// gradients provides products with C = Σ(φ−μ)(φ−μ)ᵀ by passes over the rows. C is never formed.
type gradients struct {
	setup    Setup
	rows     Rows
	f64      *mapper[float64]
	f32      *mapper[float32]
	tab      *kern.Table[float64]
	root     dense.Matrix[float64] // R of landmarks, φ = R⁻ᵀ·(kernel columns); empty for other families
	features int
	block    int // rows per block

	n       int64
	raw, mu []float64             // means of the features of the map, and of φ
	mean    []float64             // means of the targets
	b       dense.Matrix[float64] // Σ(φ−μ)(y−ȳ)

	wide, part, y dense.Matrix[float64] // scratch: features in float64, Φ·v, and targets of a block
}

func newGradients(s Setup) (*gradients, error) {
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	if s.Task == Unsupervised {
		return nil, fmt.Errorf("ridge without targets: %w", ErrSetup)
	}
	g := &gradients{setup: s, tab: kern.Best[float64]()}
	if g.root, err = s.landmarkRoot(); err != nil {
		return nil, err
	}
	symmetric := false
	if s.Float32 {
		m, err := randfeat.NewWithOmega[float32](s.Spec, s.Omega)
		if err != nil {
			return nil, err
		}
		g.f32, g.features, symmetric = &mapper[float32]{m: m}, m.OutDim(), m.Symmetric()
	} else {
		m, err := randfeat.NewWithOmega[float64](s.Spec, s.Omega)
		if err != nil {
			return nil, err
		}
		g.f64, g.features, symmetric = &mapper[float64]{m: m}, m.OutDim(), m.Symmetric()
	}
	if !symmetric {
		return nil, fmt.Errorf("family %s maps queries and keys differently, ridge needs φ·φ: use another family: %w",
			s.Spec.Family.Name(), ErrSetup)
	}
	g.block = min(s.Block, max(16, iterativeBlock/(8*g.features)))
	if s.Spec.Dim > narrowRow {
		g.block = min(s.Block, max(g.block, min(wideRows, wideBlock/(8*g.features))))
	}
	return g, nil
}

// phi returns the features that the map gives for a block (not whitened), in float64.
func (g *gradients) phi(x dense.Matrix[float64]) (dense.Matrix[float64], error) {
	if g.f64 != nil {
		return g.f64.queries(x)
	}
	phi, err := g.f32.queries(x)
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	g.wide = buf.Shaped(g.wide, phi.Rows, phi.Cols)
	tab := kern.Best[float32]()
	par.For(phi.Rows, 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			clear(g.wide.Row(i))
			tab.Widen(g.wide.Row(i), phi.Row(i), 1)
		}
	})
	return g.wide, nil
}

// first reads the rows once, for the means and the right-hand side, and returns at most r rows of x: those with the
// smallest hashes of their number. This sample does not depend on how the rows are divided into blocks. kept holds up
// to 2r candidates between prunings; its first r are sorted, so kept[r−1] is the threshold.
func (g *gradients) first(r int) (dense.Matrix[float64], error) {
	k := g.setup.Outputs
	cross := dense.New[float64](g.features, k+1)
	sum := make([]float64, k)
	type row struct {
		hash uint64
		x    []float64
	}
	var kept []row
	prune := func(to int) {
		slices.SortStableFunc(kept, func(a, b row) int { return cmp.Compare(a.hash, b.hash) })
		kept = kept[:min(to, len(kept))]
	}
	err := g.rows.Each(g.block, func(x, y dense.Matrix[float64]) error {
		if err := g.setup.checkBlock(x, y, g.n); err != nil {
			return err
		}
		phi, err := g.phi(x)
		if err != nil {
			return err
		}
		g.y = buf.Shaped(g.y, x.Rows, k+1)
		g.setup.targets(g.y, y)
		linalg.AddProduct(g.tab, cross, phi, g.y)
		for i := range x.Rows {
			addTo(sum, g.y.Row(i)[:k])
			h := rng.Mix64(g.setup.Spec.Seed ^ sketchLabel ^ rng.Mix64(uint64(g.n)+uint64(i)))
			if len(kept) < r || h < kept[r-1].hash { // kept[:r] are sorted
				kept = append(kept, row{h, slices.Clone(x.Row(i))})
				if len(kept) == r || len(kept) == 2*r {
					prune(r)
				}
			}
		}
		g.n += int64(x.Rows)
		return nil
	})
	if err != nil {
		return dense.Matrix[float64]{}, err
	}
	if g.n < 2 {
		return dense.Matrix[float64]{}, fmt.Errorf("%d rows, ridge by iterations needs at least 2: %w", g.n, ErrNoRows)
	}
	if err := cross.CheckFinite(); err != nil {
		return dense.Matrix[float64]{}, fmt.Errorf("features or their products with targets overflow; scale the inputs, "+
			"or use a bounded family such as trig: %w", dense.ErrNotFinite)
	}
	g.mean, g.raw = sum, make([]float64, g.features)
	for j := range g.mean {
		g.mean[j] /= float64(g.n)
	}
	means := dense.New[float64](g.features, 1)
	g.b = dense.New[float64](g.features, k)
	for i := range g.raw {
		g.raw[i] = cross.At(i, k) / float64(g.n)
		means.Set(i, 0, g.raw[i])
		for j := range k {
			// Σ(φ−μ)(y−ȳ) = Σφy − nμȳ. The conversion forbids a fused multiply-add, which only some targets use.
			g.b.Set(i, j, cross.At(i, j)-float64(cross.At(i, k)*g.mean[j]))
		}
	}
	if err := errors.Join(g.whiten(means), g.whiten(g.b)); err != nil {
		return dense.Matrix[float64]{}, err
	}
	g.mu = means.Data
	prune(r)
	picked := dense.New[float64](len(kept), g.setup.Spec.Dim)
	for i, row := range kept {
		copy(picked.Row(i), row.x)
	}
	return picked, nil
}

const sketchLabel = 0x736b65746368 // "sketch"

// whiten turns sums of kernel columns into sums of φ, by R⁻ᵀ; it does nothing without landmarks.
func (g *gradients) whiten(v dense.Matrix[float64]) error {
	if g.root.Rows == 0 {
		return nil
	}
	return linalg.SolveT(g.root, v)
}

// product writes (C + λI)v into dst, v and dst being F × outputs: one pass over the rows, which must be the rows of
// first. Blocks are added in order, so the bits do not depend on the number of goroutines.
func (g *gradients) product(dst, v dense.Matrix[float64], lambda float64) error {
	u := v
	if g.root.Rows > 0 {
		u = v.Clone()
		if err := linalg.Solve(g.root, u); err != nil {
			return err
		}
	}
	clear(dst.Data)
	seen := int64(0)
	if err := g.rows.Each(g.block, func(x, _ dense.Matrix[float64]) error {
		if seen += int64(x.Rows); seen > g.n {
			return fmt.Errorf("more rows than the %d read before: %w", g.n, ErrMismatch)
		}
		phi, err := g.phi(x)
		if err != nil {
			return err
		}
		g.part = buf.Shaped(g.part, x.Rows, v.Cols)
		multiply(g.tab, g.part, phi, u)
		addProduct(g.tab, dst, phi, g.part)
		return nil
	}); err != nil {
		return err
	}
	if seen != g.n {
		return fmt.Errorf("%d rows, %d were read before: %w", seen, g.n, ErrMismatch)
	}
	if err := g.whiten(dst); err != nil {
		return err
	}
	for k := range v.Cols { // C = ΦᵀΦ − n·μμᵀ
		along := 0.0
		for i, m := range g.mu {
			along += float64(m * v.At(i, k))
		}
		along *= float64(g.n)
		for i, m := range g.mu {
			dst.Set(i, k, dst.At(i, k)-float64(m*along)+float64(lambda*v.At(i, k)))
		}
	}
	return nil
}

// multiply sets dst = a·v. A single column takes a matrix-vector product, which runs at the speed of memory.
func multiply(tab *kern.Table[float64], dst, a, v dense.Matrix[float64]) {
	par.For(a.Rows, 1+tab.Grain/(a.Cols*v.Cols), func(lo, hi int) {
		if v.Cols == 1 && v.Stride == 1 && dst.Stride == 1 {
			tab.MulV(dst.Data[lo:hi], a.RowRange(lo, hi), v.Data)
			return
		}
		tab.Product(dst.RowRange(lo, hi), a.RowRange(lo, hi), v, false)
	})
}

// addProduct adds aᵀ·b to dst, every element in the order of rows: goroutines divide the elements, never the rows.
func addProduct(tab *kern.Table[float64], dst, a, b dense.Matrix[float64]) {
	if b.Cols != 1 || dst.Stride != 1 {
		linalg.AddProduct(tab, dst, a, b)
		return
	}
	par.For(a.Cols, 1+tab.Grain/a.Rows, func(lo, hi int) {
		for i := range a.Rows {
			tab.MulAdd(dst.Data[lo:hi], a.Row(i)[lo:hi], b.At(i, 0))
		}
	})
}

// preconditioner applies P⁻¹ for P = λI + ΨᵀΨ, where Ψ has r rows and λ is that of P. If r ≥ F it factors UᵀU = P.
// Otherwise it factors UᵀU = λI + ΨΨᵀ and uses P⁻¹ = (I − Ψᵀ(UᵀU)⁻¹Ψ)/λ (Woodbury).
type preconditioner struct {
	tab         *kern.Table[float64]
	lambda      float64
	psi, factor dense.Matrix[float64]
}

// precondition builds P from the sampled rows x: Ψ = √(n/r)·(φ − μ). If λ is smaller than the part that the sample does
// not explain, P is factored again with that part as its λ; see tail.
func (g *gradients) precondition(x dense.Matrix[float64], lambda float64) (*preconditioner, error) {
	r, f := x.Rows, g.features
	psi := dense.New[float64](r, f)
	for lo := 0; lo < r; lo += g.block {
		part := x.RowRange(lo, min(lo+g.block, r))
		phi, err := g.phi(part)
		if err != nil {
			return nil, err
		}
		for i := range part.Rows {
			copy(psi.Row(lo+i), phi.Row(i))
		}
	}
	if g.root.Rows > 0 { // rows times R⁻¹
		t := transposed(psi)
		if err := linalg.SolveT(g.root, t); err != nil {
			return nil, err
		}
		psi = transposed(t)
	}
	c := math.Sqrt(float64(g.n) / float64(r))
	par.For(r, 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row := psi.Row(i)
			for j, m := range g.mu {
				row[j] = c * (row[j] - m)
			}
		}
	})
	p := &preconditioner{tab: g.tab, lambda: lambda, psi: psi}
	if r >= f {
		p.factor = dense.New[float64](f, f)
		var gram linalg.Gram[float64]
		gram.Add(g.tab, p.factor, psi)
		p.psi = dense.Matrix[float64]{}
	} else {
		p.factor = products(g.tab, psi)
	}
	if r >= f {
		return p, p.decompose()
	}
	gram := p.factor.Clone()
	if err := p.decompose(); err != nil {
		return nil, err
	}
	if tail := p.tail(); tail > lambda {
		p.lambda, p.factor = tail, gram
		return p, p.decompose()
	}
	return p, nil
}

// decompose adds λI to the Gram matrix in factor and factors it in place.
func (p *preconditioner) decompose() error {
	for i := range p.factor.Rows {
		p.factor.Row(i)[i] += p.lambda
	}
	if err := linalg.Cholesky(p.factor); err != nil {
		return fmt.Errorf("λ = %g: preconditioner: %w (%w): use a larger λ", p.lambda, ErrSingular, err)
	}
	return nil
}

// tail is the size of C in directions that no row of the sketch shows: the mean of the last pivots of ΨΨᵀ, which is
// what further rows would add. If λ is smaller, a preconditioner with λ treats these directions as empty, and the
// iterations are spent on them. Using the tail as the λ of P avoids this (Frangella, Tropp & Udell 2021,
// arXiv:2110.02820, eq. 1.3).
func (p *preconditioner) tail() float64 {
	n := p.factor.Rows
	from, sum := n-max(1, n/8), 0.0
	for i := from; i < n; i++ {
		pivot := p.factor.At(i, i)
		sum += float64(pivot*pivot) - p.lambda
	}
	return sum / float64(n-from)
}

// productRows is the number of rows packed at a time.
const productRows = 256

// products is a·aᵀ; only its upper triangle is complete.
func products(tab *kern.Table[float64], a dense.Matrix[float64]) dense.Matrix[float64] {
	out := dense.New[float64](a.Rows, a.Rows)
	var panel kern.Panel[float64]
	for lo := 0; lo < a.Rows; lo += productRows {
		hi := min(lo+productRows, a.Rows)
		tab.Pack(&panel, a.RowRange(lo, hi))
		par.For(hi, 16, func(i, iEnd int) { // the strict lower triangle is never read
			tab.MulT(out.RowRange(i, iEnd).ColRange(lo, hi), a.RowRange(i, iEnd), &panel, nil)
		})
	}
	return out
}

// transposed is aᵀ.
func transposed(a dense.Matrix[float64]) dense.Matrix[float64] {
	t := dense.New[float64](a.Cols, a.Rows)
	par.For(a.Cols, 64, func(lo, hi int) {
		for i := range a.Rows {
			row := a.Row(i)
			for j := lo; j < hi; j++ {
				t.Set(j, i, row[j])
			}
		}
	})
	return t
}

// apply writes P⁻¹v into dst, both F × outputs.
func (p *preconditioner) apply(dst, v dense.Matrix[float64]) error {
	copy(dst.Data, v.Data)
	if p.psi.Rows == 0 {
		return errors.Join(linalg.SolveT(p.factor, dst), linalg.Solve(p.factor, dst))
	}
	t := dense.New[float64](p.psi.Rows, v.Cols)
	multiply(p.tab, t, p.psi, v)
	if err := errors.Join(linalg.SolveT(p.factor, t), linalg.Solve(p.factor, t)); err != nil {
		return err
	}
	for i := range t.Data {
		t.Data[i] = -t.Data[i]
	}
	addProduct(p.tab, dst, p.psi, t)
	for i := range dst.Data {
		dst.Data[i] /= p.lambda
	}
	return nil
}

// solve solves (C + λI)w = b by preconditioned conjugate gradients, each output by itself but all in one pass over the
// rows per iteration. The preconditioner has relative rounding errors of σ_max/λ. β therefore has the form of flexible
// conjugate gradients, z·(r − r_old)/(z·r)_old (Golub & Ye 1999), which tolerates an inexact P.
func (g *gradients) solve(p *preconditioner, lambda float64, o Iterative, done *Iterations) (dense.Matrix[float64],
	error) {
	f, k := g.features, g.setup.Outputs
	w, ap := dense.New[float64](f, k), dense.New[float64](f, k)
	r, old, z := g.b.Clone(), dense.New[float64](f, k), dense.New[float64](f, k)
	norms := dots(r, r)
	if err := p.apply(z, r); err != nil {
		return w, err
	}
	d, rz := z.Clone(), dots(r, z)
	for {
		done.Residual = 0
		for c, v := range dots(r, r) {
			if norms[c] > 0 {
				done.Residual = max(done.Residual, math.Sqrt(v/norms[c]))
			}
		}
		if done.Steps > 0 && o.Progress != nil {
			if err := o.Progress(done.Steps, done.Residual); err != nil {
				return w, err
			}
		}
		done.Converged = done.Residual <= o.Tolerance
		if done.Converged || done.Steps == o.Steps {
			break
		}
		if err := g.product(ap, d, lambda); err != nil {
			return w, err
		}
		done.Steps++
		alpha := dots(d, ap)
		for c := range alpha {
			if alpha[c] > 0 { // an output that has converged exactly has direction 0: it stays
				alpha[c] = rz[c] / alpha[c]
			}
		}
		copy(old.Data, r.Data)
		for i := range f {
			wi, ri, di, ai := w.Row(i), r.Row(i), d.Row(i), ap.Row(i)
			for c, a := range alpha {
				wi[c] += float64(a * di[c])
				ri[c] -= float64(a * ai[c])
			}
		}
		if err := p.apply(z, r); err != nil {
			return w, err
		}
		next, cross := dots(r, z), dots(old, z)
		for c := range next {
			beta := 0.0
			if rz[c] > 0 {
				beta = (next[c] - cross[c]) / rz[c]
			}
			for i := range f {
				d.Set(i, c, z.At(i, c)+float64(beta*d.At(i, c)))
			}
		}
		rz = next
	}
	if err := w.CheckFinite(); err != nil {
		return w, fmt.Errorf("λ = %g: %w: use a larger λ", lambda, ErrSingular)
	}
	return w, nil
}

// dots are the inner products of the columns of a and b, summed in the order of rows on one goroutine.
func dots(a, b dense.Matrix[float64]) []float64 {
	out := make([]float64, a.Cols)
	for i := range a.Rows {
		bi := b.Row(i)
		for c, v := range a.Row(i) {
			out[c] += float64(v * bi[c])
		}
	}
	return out
}
