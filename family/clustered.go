package family

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// Clusters are the query and key centres r_i, t_j of the clustered hybrids, each pair with its own diagonal matrix
// A_ij for complex exponential features (HRF H.2, eqs 85-88; docs/theory.md §2.8).
type Clusters struct {
	QueryCentres dense.Matrix[float64] `json:"query_centres,omitzero"`
	KeyCentres   dense.Matrix[float64] `json:"key_centres,omitzero"`
	// Complex allows imaginary entries, which make the loss at the centres zero but the features signed.
	Complex bool `json:"complex,omitempty"`
	// AMax bounds |a_k| to [1/AMax, AMax]; 0 means 10, negative means no bound.
	AMax float64 `json:"amax,omitempty"`
	// A overrides the rule: one diagonal per pair, query centre slow. Fit fills it from cluster spreads.
	A [][]Complex `json:"a,omitempty"`
	// Count is the number of centres per side that Fit looks for; 0 means 2.
	Count int `json:"count,omitempty"`
	// Pairs are the pairs (query centre, key centre) with a base of their own; all other pairs use the default base of
	// the hybrid (HRF §2.4, end). nil gives every pair its own base. Fit fills it if Heaviest is set.
	Pairs [][2]int `json:"pairs,omitempty"`
	// Heaviest is the number of pairs that Fit gives a base of their own: those that contain the most pairs of rows. 0
	// means all.
	Heaviest int `json:"heaviest,omitempty"`
}

// amax is the effective bound.
func (c Clusters) amax() float64 {
	switch {
	case c.AMax == 0:
		return 10
	case c.AMax < 0:
		return math.Inf(1)
	}
	return c.AMax
}

func (c Clusters) validate(f Family, dim int) error {
	if err := c.checkRule(f); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		m    dense.Matrix[float64]
	}{{"query_centres", c.QueryCentres}, {"key_centres", c.KeyCentres}} {
		if s.m.IsEmpty() {
			return paramError(f, "no %s (set them or fit them)", s.name)
		}
		if s.m.Cols != dim {
			return paramError(f, "%s have %d columns, the inputs %d", s.name, s.m.Cols, dim)
		}
		if err := s.m.CheckFinite(); err != nil {
			return paramError(f, "%s: %v", s.name, err)
		}
	}
	if c.A != nil && len(c.A) != c.QueryCentres.Rows*c.KeyCentres.Rows {
		return paramError(f, "%d diagonals a for %d×%d centres", len(c.A), c.QueryCentres.Rows, c.KeyCentres.Rows)
	}
	for n, p := range c.Pairs {
		if min(p[0], p[1]) < 0 || p[0] >= c.QueryCentres.Rows || p[1] >= c.KeyCentres.Rows ||
			slices.Contains(c.Pairs[:n], p) {
			return paramError(f, "pair %v is given twice, or not one of %d×%d centres", p, c.QueryCentres.Rows,
				c.KeyCentres.Rows)
		}
	}
	return nil
}

// own lists the pairs of centres that have a base of their own, with the query centre as the slow index.
func (c Clusters) own() [][2]int {
	if c.Pairs != nil {
		return c.Pairs
	}
	var all [][2]int
	for i := range c.QueryCentres.Rows {
		for j := range c.KeyCentres.Rows {
			all = append(all, [2]int{i, j})
		}
	}
	return all
}

// at is the index of a pair of centres in own, −1 if it uses the default base.
func (c Clusters) at(i, j int) int {
	if c.Pairs == nil {
		return i*c.KeyCentres.Rows + j
	}
	return slices.Index(c.Pairs, [2]int{i, j})
}

// heaviest returns the n pairs of clusters that contain the most pairs of rows, nil for all; xl and yl are the clusters
// of the rows. Ties keep the order of own.
func heaviest(n int, xl, yl []int, q, k int) [][2]int {
	if n == 0 || n >= q*k {
		return nil
	}
	x, y := make([]int, q), make([]int, k)
	for _, i := range xl {
		x[i]++
	}
	for _, j := range yl {
		y[j]++
	}
	all := Clusters{QueryCentres: dense.New[float64](q, 1), KeyCentres: dense.New[float64](k, 1)}.own()
	slices.SortStableFunc(all, func(a, b [2]int) int { return x[b[0]]*y[b[1]] - x[a[0]]*y[a[1]] })
	return all[:n:n]
}

// checkRule checks the settings that Fit uses.
func (c Clusters) checkRule(f Family) error {
	if !(c.amax() >= 1) {
		return paramError(f, "amax = %v, want at least 1", c.AMax)
	}
	if c.Count < 0 || c.Heaviest < 0 {
		return paramError(f, "count = %d centres, heaviest = %d pairs of them: want positive numbers", c.Count,
			c.Heaviest)
	}
	return nil
}

// Needs asks for a sample of rows, a larger one if there are many centres to find.
func (c Clusters) Needs() Options {
	return Options{Sample: max(defaultSample, 32*min(max(c.Count, 0), 1<<20))}
}

// Diagonal is the diagonal of A_ij: the entry of A if set, the rule of HRF H.2 for query centre i and key centre j
// otherwise.
func (c Clusters) Diagonal(i, j int) []Complex {
	if c.A != nil {
		return c.A[i*c.KeyCentres.Rows+j]
	}
	return diagonalA(c.QueryCentres.Row(i), c.KeyCentres.Row(j), c.Complex, c.amax())
}

// fit finds k-means centres in the sampled rows and, for real A, the diagonals a_k = (E y_k²/E x_k²)^{1/4} over the
// two clusters, which minimise E|Ax + A^{-1}y|² and need no special case at zero centres (docs/theory.md §2.8).
func (c Clusters) fit(f Family, s *Stats) (Clusters, error) {
	if err := c.checkRule(f); err != nil {
		return c, err
	}
	if err := s.ready(f); err != nil {
		return c, err
	}
	xs, ys := s.Query.sample.matrix(s.Query.Dim()), s.Key.sample.matrix(s.Key.Dim())
	if xs.IsEmpty() || ys.IsEmpty() {
		return c, statsError(f, "needs sampled rows (Options.Sample)")
	}
	k := cmp.Or(c.Count, 2)
	var xl, yl []int
	c.QueryCentres, xl = kMeans(xs, k)
	c.KeyCentres, yl = kMeans(ys, k)
	c.A = nil
	c.Pairs = heaviest(c.Heaviest, xl, yl, c.QueryCentres.Rows, c.KeyCentres.Rows)
	if c.Complex {
		return c, c.checkDiagonals(f, s.Query.Dim())
	}
	qx, ky := clusterSeconds(xs, xl, c.QueryCentres.Rows), clusterSeconds(ys, yl, c.KeyCentres.Rows)
	amax := c.amax()
	for i := range qx.Rows {
		for j := range ky.Rows {
			a := make([]Complex, qx.Cols)
			for l := range a {
				x2, y2 := qx.At(i, l), ky.At(j, l)
				v := 1.0
				if x2 > 0 || y2 > 0 {
					v = min(max(math.Sqrt(math.Sqrt(y2/x2)), 1/amax), amax)
				}
				a[l] = Complex(complex(v, 0))
			}
			c.A = append(c.A, a)
		}
	}
	return c, c.checkDiagonals(f, s.Query.Dim())
}

// checkDiagonals reports entries that are zero or not finite. Without a bound (negative AMax), a coordinate that is
// zero on one side only would need such an entry.
func (c Clusters) checkDiagonals(f Family, dim int) error {
	for i := range c.QueryCentres.Rows {
		for j := range c.KeyCentres.Rows {
			if _, err := (ComplexExp{Diag: c.Diagonal(i, j)}).factors(dim); err != nil {
				return fmt.Errorf("family %s: centres %d and %d (amax = %v): %w", f.Name(), i, j, c.AMax, err)
			}
		}
	}
	return nil
}

// clusterSeconds is the mean of x_l² in every cluster.
func clusterSeconds(x dense.Matrix[float64], label []int, k int) dense.Matrix[float64] {
	out, n := dense.New[float64](k, x.Cols), make([]float64, k)
	for i := range x.Rows {
		n[label[i]]++
		row := out.Row(label[i])
		for l, v := range x.Row(i) {
			row[l] += v * v
		}
	}
	for i := range out.Rows {
		for l := range out.Row(i) {
			out.Row(i)[l] /= max(n[i], 1)
		}
	}
	return out
}

// ZeroOne is the zero-one clustered hybrid (HRF Def H.2), F = q·k·m for q query and k key centres (twice that if
// Complex), nonnegative for real A. A pair in clusters (i, j) is estimated by complex exponential features with A_ij,
// so points near their centres have almost no error. Blocks are in row-major order of (i, j) and share ω.
//
// With Pairs, only h pairs of clusters have a base of their own and all others use positive features: HRF eq 8 with λ
// of 0 or 1, F = (1 + 2h)m. The map has the default base once and, for each of the h pairs, its own base and the
// default base with a minus sign. Both defaults share ω, so their difference is zero up to rounding; but features are
// signed.
type ZeroOne struct{ Clusters }

// Name is "zero-one".
func (ZeroOne) Name() string { return "zero-one" }

// Draws asks for N(0, I).
func (f ZeroOne) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := f.validate(f, dim); err != nil {
		return nil, err
	}
	return normalDraw(f, kind, dim, m)
}

// Lower implements Family.
func (f ZeroOne) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(f, dim); err != nil {
		return plan.Pair{}, err
	}
	if err := need(f, omega, dim); err != nil {
		return plan.Pair{}, err
	}
	p := plan.Pair{Query: plan.Side{Centres: f.QueryCentres}, Key: plan.Side{Centres: f.KeyCentres}}
	base := func(a factors) int {
		q, k := a.leaves(omega[0], dim)
		if f.Complex { // all blocks of a map must have the same width
			q.Fn, k.Fn, k.Conj = plan.Complex, plan.Complex, true
		}
		p.Query.Leaves, p.Key.Leaves = append(p.Query.Leaves, q), append(p.Key.Leaves, k)
		return len(p.Query.Leaves) - 1
	}
	block := func(sign float64, leaf, i, j int) {
		p.Query.Blocks = append(p.Query.Blocks, plan.Block{Coef: 1, Rho: plan.None, Base: leaf, Gate: i})
		p.Key.Blocks = append(p.Key.Blocks, plan.Block{Coef: sign, Rho: plan.None, Base: leaf, Gate: j})
	}
	usual := -1
	if f.Pairs != nil {
		a, err := ComplexExp{}.factors(dim)
		if err != nil {
			return plan.Pair{}, err
		}
		usual = base(a)
		block(1, usual, plan.None, plan.None)
	}
	for _, c := range f.own() {
		a, err := ComplexExp{Diag: f.Diagonal(c[0], c[1])}.factors(dim)
		if err != nil {
			return plan.Pair{}, err
		}
		block(1, base(a), c[0], c[1])
		if usual >= 0 {
			block(-1, usual, c[0], c[1])
		}
	}
	return finish(kind, p, dim), nil
}

// Form is the form of ComplexExp with the A of the pair's clusters, or of positive features if the clusters have no
// base of their own.
func (f ZeroOne) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if err := f.validate(f, len(x)); err != nil {
		return forms.Form{}, err
	}
	i, j := nearest(f.QueryCentres, x), nearest(f.KeyCentres, y)
	if f.at(i, j) < 0 {
		return Positive{}.Form(kind, x, y)
	}
	form, err := ComplexExp{Diag: f.Diagonal(i, j)}.Form(kind, x, y)
	if err == nil && f.Pairs != nil {
		form.LogMass = cancelled(form.LogMass)
	}
	return form, err
}

// cancelled is the log mass of a base together with the default base, of mass 1, added and subtracted.
func cancelled(logMass float64) float64 { return special.LogSumExp(logMass, math.Ln2) }

// Fit finds the centres by k-means.
func (f ZeroOne) Fit(s *Stats) (Family, error) {
	c, err := f.fit(f, s)
	if err != nil {
		return nil, err
	}
	return ZeroOne{c}, nil
}

// Mixture is the Gaussian-mixture clustered hybrid (HRF Def H.1), signed: complex exponential bases weighted by λ_ij
// = exp(-|A_ij x + A_ij^{-1} y|²/(2τ²)) with the Hermitian norm (the paper's bilinear form exceeds 1, an erratum),
// and the trigonometric map for the rest, also for pairs that are not in Pairs. With L = N coefficient features (2N
// if TrigRho) and q·k pairs of centres, of which c have a complex A_ij, F = m( (3qk + c)L + 2 ).
type Mixture struct {
	Clusters
	Bandwidth float64 `json:"bandwidth,omitempty"` // τ; 0 means 1
	N         int     `json:"n,omitempty"`         // projections of each coefficient; 0 means 8
	TrigRho   bool    `json:"trig_rho,omitempty"`  // trigonometric coefficient features instead of positive ones
}

// Name is "mixture".
func (Mixture) Name() string { return "mixture" }

// hybrid is the same map as a general Hybrid.
func (f Mixture) hybrid(dim int) (Hybrid, error) {
	if err := f.validate(f, dim); err != nil {
		return Hybrid{}, err
	}
	var h Hybrid
	for _, p := range f.own() {
		a := f.Diagonal(p[0], p[1])
		c := Coefficient{Rho: rhoPositive, N: cmp.Or(f.N, defaultRho), Bandwidth: f.Bandwidth}
		if f.TrigRho {
			c.Rho = rhoTrig
		}
		c.Query, c.Key = hermitianPair(a)
		h.Bases = append(h.Bases, ComplexExp{Diag: a})
		h.Coefficients = append(h.Coefficients, c)
	}
	h.Bases = append(h.Bases, Trig{})
	return h, nil
}

// hermitianPair linearises |Ax + A^{-1}y|² = |u - v|²: u = Re/Im of Ax and v = -Re/Im of A^{-1}y, one real coordinate
// for a real or imaginary entry, two for a general one.
func hermitianPair(a []Complex) (query, key dense.Matrix[float64]) {
	var q, k [][]float64
	add := func(l int, u, v float64) {
		qr, kr := make([]float64, len(a)), make([]float64, len(a))
		qr[l], kr[l] = u, v
		q, k = append(q, qr), append(k, kr)
	}
	for l, c := range a {
		z := complex128(c)
		inv := 1 / z
		if real(z) != 0 {
			add(l, real(z), -real(inv))
		}
		if imag(z) != 0 {
			add(l, imag(z), -imag(inv))
		}
	}
	return dense.MustFromRows(q), dense.MustFromRows(k)
}

// Draws asks for one set per pair of centres, one for the default base, then one per coefficient.
func (f Mixture) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	h, err := f.hybrid(dim)
	if err != nil {
		return nil, err
	}
	return h.Draws(kind, dim, m)
}

// Lower implements Family.
func (f Mixture) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	h, err := f.hybrid(dim)
	if err != nil {
		return plan.Pair{}, err
	}
	return h.Lower(kind, dim, omega)
}

// Form is the form of the general hybrid.
func (f Mixture) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	h, err := f.hybrid(len(x))
	if err != nil {
		return forms.Form{}, err
	}
	return h.Form(kind, x, y)
}

// Fit finds the centres by k-means.
func (f Mixture) Fit(s *Stats) (Family, error) {
	c, err := f.fit(f, s)
	if err != nil {
		return nil, err
	}
	f.Clusters = c
	return f, nil
}
