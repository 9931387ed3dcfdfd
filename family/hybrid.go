package family

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/special"
	"github.com/randfeat/randfeat/kernel"
)

// Hybrid is the general hybrid composition (HRF eqs 8-11, Lemma 2.3): with p coefficients and p+1 bases,
//
//	Σ_k λ̂_k ŜM_k + (1 - Σ_k λ̂_k) ŜM_{p+1},   λ̂_k = a_k + σ_k g_k ρ_k(x)·ρ_k(y)
//
// as one real linear-time map of concatenated Kronecker blocks; it is unbiased if the bases are. Signed.
// F = Σ_k N_k(1+L_k) + N_{p+1}(1+Σ_k L_k) for bases of N_k and coefficients of L_k features; blocks with a_k = 0 are
// dropped. Bases are maps with one set of projections.
type Hybrid struct {
	Bases        []Family
	Coefficients []Coefficient
	// Groups names the set of projections of each base; bases with equal entries share it. Nil: all independent.
	Groups []int
}

// The coefficient maps, of u = Query·x/Bandwidth and v = Key·y/Bandwidth.
const (
	rhoSign     = "sign"     // mean sgn(τ·u) sgn(τ·v) = 1 - 2θ/π; n features
	rhoTrig     = "trig"     // Gaussian kernel of u, v by trigonometric features; 2n
	rhoPositive = "positive" // Gaussian kernel of u, v by positive features; n
)

// Coefficient is λ̂ = Const + Sign·Gain·ρ(u)·ρ(v).
type Coefficient struct {
	Const     float64               `json:"const,omitempty"`
	Sign      int                   `json:"sign,omitempty"` // ±1; 0 means +1
	Gain      float64               `json:"gain,omitempty"` // 0 means 1
	Rho       string                `json:"rho"`
	N         int                   `json:"n"` // projections τ, always independent
	Query     dense.Matrix[float64] `json:"query,omitzero"`
	Key       dense.Matrix[float64] `json:"key,omitzero"`
	Bandwidth float64               `json:"bandwidth,omitempty"` // 0 means 1
}

// Name is "hybrid".
func (Hybrid) Name() string { return "hybrid" }

func (c Coefficient) sign() float64 {
	if c.Sign < 0 {
		return -1
	}
	return 1
}

// maps are the linear maps from x to u and from y to v.
func (c Coefficient) maps() (query, key plan.Linear) {
	g := plan.Scalar(1 / cmp.Or(c.Bandwidth, 1))
	query, key = g, g
	if !c.Query.IsEmpty() {
		query = g.Compose(plan.Linear{Dense: c.Query}, c.Query.Cols)
	}
	if !c.Key.IsEmpty() {
		key = g.Compose(plan.Linear{Dense: c.Key}, c.Key.Cols)
	}
	return query, key
}

// dim is the dimension of u and v.
func (c Coefficient) dim(dim int) int {
	if c.Query.IsEmpty() {
		return dim
	}
	return c.Query.Rows
}

func (f Hybrid) validate(dim int) error {
	p := len(f.Coefficients)
	if p < 1 || len(f.Bases) != p+1 {
		return paramError(f, "%d coefficients and %d bases, want one base more than coefficients", p, len(f.Bases))
	}
	if f.Groups != nil && len(f.Groups) != len(f.Bases) {
		return paramError(f, "%d groups for %d bases", len(f.Groups), len(f.Bases))
	}
	for k, b := range f.Bases {
		if b == nil {
			return paramError(f, "base %d is missing", k)
		}
	}
	for k, c := range f.Coefficients {
		switch {
		case c.N < 1:
			return paramError(f, "coefficient %d has n = %d projections, want at least 1", k, c.N)
		case c.Rho != rhoSign && c.Rho != rhoTrig && c.Rho != rhoPositive:
			return paramError(f, "coefficient %d has rho = %q, want sign, trig or positive", k, c.Rho)
		case c.Sign < -1 || c.Sign > 1:
			return paramError(f, "coefficient %d has sign %d, want +1 or -1", k, c.Sign)
		case c.Bandwidth < 0 || !dense.IsFinite(c.Bandwidth) || c.Gain < 0 || !dense.IsFinite(c.Gain) ||
			!dense.IsFinite(c.Const):
			return paramError(f, "coefficient %d: bandwidth %v, gain %v and const %v must be finite, the first two positive", k, c.Bandwidth, c.Gain, c.Const)
		case !c.Query.IsEmpty() && c.Query.Cols != dim || !c.Key.IsEmpty() && c.Key.Cols != dim:
			return paramError(f, "coefficient %d: its matrices have %d and %d columns, the inputs %d", k, c.Query.Cols,
				c.Key.Cols, dim)
		case !c.Key.IsEmpty() && c.Key.Rows != c.dim(dim) || c.Key.IsEmpty() && c.dim(dim) != dim:
			return paramError(f, "coefficient %d: query and key matrices have different numbers of rows", k)
		}
		for _, m := range []dense.Matrix[float64]{c.Query, c.Key} {
			if err := m.CheckFinite(); err != nil {
				return paramError(f, "coefficient %d: %v", k, err)
			}
		}
	}
	return nil
}

// group is the index of the draw of base k: groups are numbered by first appearance.
func (f Hybrid) group(k int) int {
	if f.Groups == nil {
		return k
	}
	seen := map[int]int{}
	for _, g := range f.Groups[:k+1] {
		if _, ok := seen[g]; !ok {
			seen[g] = len(seen)
		}
	}
	return seen[f.Groups[k]]
}

// Draws asks for one set per group of bases, then one per coefficient.
func (f Hybrid) Draws(kind kernel.Kind, dim, m int) ([]Draw, error) {
	if err := checkSizes(f, kind, dim, m); err != nil {
		return nil, err
	}
	if err := f.validate(dim); err != nil {
		return nil, err
	}
	var draws []Draw
	for k, b := range f.Bases {
		d, err := b.Draws(kernel.Softmax, dim, m)
		if err != nil {
			return nil, fmt.Errorf("base %d: %w", k, err)
		}
		if len(d) != 1 {
			return nil, paramError(f, "base %d (%s) has %d sets of projections, want a map with one", k, b.Name(),
				len(d))
		}
		switch g := f.group(k); {
		case g == len(draws):
			draws = append(draws, d[0])
		case draws[g] != d[0]:
			return nil, paramError(f, "base %d (%s) cannot share projections with an earlier base: they need different ones", k, b.Name())
		}
	}
	for _, c := range f.Coefficients {
		draws = append(draws, Draw{Rows: c.N, Dim: c.dim(dim), IID: true})
	}
	return draws, nil
}

// Lower implements Family; the block layout is that of docs/theory.md §2.9.
func (f Hybrid) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	if err := f.validate(dim); err != nil {
		return plan.Pair{}, err
	}
	p := len(f.Coefficients)
	groups := 0
	for k := range f.Bases {
		groups = max(groups, f.group(k)+1)
	}
	if len(omega) != groups+p {
		return plan.Pair{}, fmt.Errorf("family hybrid: %d sets of projections, want %d: %w", len(omega), groups+p,
			dense.ErrShape)
	}
	// Leaves: bases 0…p, then coefficients p+1…2p.
	query := plan.Side{Leaves: make([]plan.Leaf, 0, len(f.Bases)+p)}
	key := plan.Side{Leaves: make([]plan.Leaf, 0, len(f.Bases)+p)}
	for k, b := range f.Bases {
		pair, err := b.Lower(kernel.Softmax, dim, omega[f.group(k):f.group(k)+1])
		if err != nil {
			return plan.Pair{}, fmt.Errorf("base %d: %w", k, err)
		}
		if len(pair.Query.Blocks) != 1 || !pair.Query.Outer.IsZero() || !pair.Key.Outer.IsZero() {
			return plan.Pair{}, paramError(f, "base %d (%s) is not a simple map", k, b.Name())
		}
		query.Leaves = append(query.Leaves, pair.Query.Leaves[0])
		key.Leaves = append(key.Leaves, pair.Key.Leaves[0])
	}
	for k, c := range f.Coefficients {
		o := omega[groups+k]
		if err := need(f, []coupling.Omega{o}, c.dim(dim)); err != nil {
			return plan.Pair{}, err
		}
		q, v := c.leaves(o)
		query.Leaves = append(query.Leaves, q)
		key.Leaves = append(key.Leaves, v)
	}
	query.Blocks, key.Blocks = f.blocks()
	return finish(kind, plan.Pair{Query: query, Key: key}, dim), nil
}

// blocks lists the Kronecker blocks; the paper's imaginary units become signs on the key side.
func (f Hybrid) blocks() (query, key []plan.Block) {
	p := len(f.Coefficients)
	add := func(weight float64, rho, base int) {
		r := math.Sqrt(math.Abs(weight))
		query = append(query, plan.Block{Coef: r, Rho: rho, Base: base, Gate: plan.None})
		key = append(key, plan.Block{Coef: math.Copysign(r, weight), Rho: rho, Base: base, Gate: plan.None})
	}
	a0 := 1.0
	for k, c := range f.Coefficients {
		a0 -= c.Const
		if c.Const != 0 {
			add(c.Const, plan.None, k)
		}
	}
	for k, c := range f.Coefficients {
		add(c.sign(), p+1+k, k)
	}
	if a0 != 0 {
		add(a0, plan.None, p)
	}
	for k, c := range f.Coefficients {
		add(-c.sign(), p+1+k, p)
	}
	return query, key
}

// leaves are the coefficient features of u and v, with √Gain on both sides. RhoPositive uses the Gaussian form of 2.2
// in docs/theory.md, hence −|u|².
func (c Coefficient) leaves(omega coupling.Omega) (query, key plan.Leaf) {
	l := plan.Leaf{Omega: omega}
	l.Row.Const = rootM(omega) + math.Log(cmp.Or(c.Gain, 1))/2
	switch c.Rho {
	case rhoSign:
		l.Fn, l.Mix = plan.Sign, plan.Scalar(1)
	case rhoTrig:
		l.Fn, l.MixIm = plan.SinCos, plan.Scalar(1)
	case rhoPositive:
		l.Fn, l.Mix = plan.Exp, plan.Scalar(1)
		l.Row.Quad = plan.Scalar(-1)
	}
	query, key = l, l
	query.Lin, key.Lin = c.maps()
	return query, key
}

// moments returns the mean of the coefficient λ̂ at a pair and the logarithm of its variance.
func (c Coefficient) moments(x, y []float64) (mean, logVar float64) {
	d := c.dim(len(x))
	u, v := make([]float64, d), make([]float64, d)
	q, k := c.maps()
	q.Apply(u, x)
	k.Apply(v, y)
	g := cmp.Or(c.Gain, 1)
	var rho float64
	if c.Rho == rhoSign {
		// ρ = 1-2θ/π and 1-ρ² = 4(θ/π)(1-θ/π), without cancellation at θ = 0.
		q := forms.Angle(u, v) / math.Pi
		rho, logVar = 1-2*q, math.Log(4*q*(1-q))
	} else {
		v2, z2 := sumNorm2(u, v)
		logRV := forms.LogRVTrig(z2)
		if c.Rho == rhoPositive {
			logRV = forms.LogRVPositive(v2)
		}
		rho, logVar = math.Exp(-z2/2), logRV-z2
	}
	return c.Const + c.sign()*g*rho, logVar + 2*math.Log(g) - math.Log(float64(c.N))
}

// Form: the error is Σ_k λ̂_k(ŜM_k - SM) + (1-Σλ̂)(ŜM_{p+1} - SM). With independent bases the MSE is therefore Σ
// E[λ̂_k²] MSE_k + E[(1-Σλ̂)²] MSE_{p+1}; bases that share projections add their covariance (HRF Thm 3.1, eq 23).
func (f Hybrid) Form(kind kernel.Kind, x, y []float64) (forms.Form, error) {
	if _, err := f.Draws(kernel.Softmax, len(x), 1); err != nil {
		return forms.Form{}, err
	}
	p := len(f.Coefficients)
	mean, logVar := make([]float64, p+1), make([]float64, p+1)
	mean[p] = 1
	for k, c := range f.Coefficients {
		mean[k], logVar[k] = c.moments(x, y)
		mean[p] -= mean[k]
	}
	logVar[p] = special.LogSumExp(logVar[:p]...)
	var out forms.Form
	mass := make([]float64, 0, p+1)
	for k, b := range f.Bases {
		form, err := b.Form(kind, x, y)
		if err != nil {
			return forms.Form{}, fmt.Errorf("base %d: %w", k, err)
		}
		if form.LogRatio != 0 || form.Cross.Sign != 0 {
			return forms.Form{}, forms.NoForm("hybrid of " + b.Name())
		}
		w := special.LogSumExp(2*math.Log(math.Abs(mean[k])), logVar[k]) // log E λ̂²
		for _, t := range form.Terms {
			t.LogWeight += w
			t.Mean *= mean[k]
			out.Terms = append(out.Terms, t)
		}
		mass = append(mass, math.Log(f.coefficientMass(k, x, y))+form.LogMass)
	}
	out.LogMass = special.LogSumExp(mass...)
	var cross []special.Signed
	for k := range f.Bases {
		for l := range k {
			if f.group(k) != f.group(l) {
				continue
			}
			cov, err := sharedCovariance(f.Bases[l], f.Bases[k], x, y)
			if err != nil {
				return forms.Form{}, err
			}
			weight := special.SignedOf(2 * mean[k] * mean[l]) // 2 E λ̂_k λ̂_l
			if k == p {
				weight = special.SumSigned(weight, special.Signed{Sign: -1, Log: math.Ln2 + logVar[l]})
			}
			if weight.Sign != 0 && cov.Sign != 0 {
				cross = append(cross, special.Signed{Sign: weight.Sign * cov.Sign, Log: weight.Log + cov.Log})
			}
		}
	}
	if cross != nil {
		out.Cross = special.SumSigned(cross...)
	}
	return out, nil
}

// coefficientMass is the sum of the moduli of the parts of λ̂_k, which the blocks of base k carry separately, or of 1 -
// Σ λ̂ for the last base. Signs and waves have modulus at most 1.
func (f Hybrid) coefficientMass(k int, x, y []float64) float64 {
	rho := func(c Coefficient) float64 {
		if c.Rho != rhoPositive {
			return cmp.Or(c.Gain, 1)
		}
		mean, _ := c.moments(x, y)
		return math.Abs(mean - c.Const)
	}
	if k < len(f.Coefficients) {
		c := f.Coefficients[k]
		return math.Abs(c.Const) + rho(c)
	}
	rest, mass := 1.0, 0.0
	for _, c := range f.Coefficients {
		rest -= c.Const
		mass += rho(c)
	}
	return math.Abs(rest) + mass
}

// sharedCovariance is the relative covariance, for one projection, of two bases on the same ω: E[cosh(ω·(x+y))
// cos(ω·(x-y))] = SM² cos(|x|²-|y|²) (HRF Thm 3.1), and cosh v² for the exponential with the cosh base. Other pairs
// have no closed form here.
func sharedCovariance(a, b Family, x, y []float64) (special.Signed, error) {
	v2, z2 := sumNorm2(x, y)
	log := func(v float64) (special.Signed, error) { return special.Signed{Sign: 1, Log: v}, nil }
	switch pair := [2]string{a.Name(), b.Name()}; pair {
	case [2]string{"trig", "positive"}, [2]string{"positive", "trig"}, [2]string{"trig", "hyperbolic"},
		[2]string{"hyperbolic", "trig"}:
		s := math.Sin((dense.Norm2(x) - dense.Norm2(y)) / 2)
		return special.SignedOf(-2 * s * s), nil
	case [2]string{"positive", "hyperbolic"}, [2]string{"hyperbolic", "positive"},
		[2]string{"hyperbolic", "hyperbolic"}:
		return log(forms.LogRVHyperbolic(v2))
	case [2]string{"trig", "trig"}:
		return log(forms.LogRVTrig(z2))
	case [2]string{"positive", "positive"}:
		return log(forms.LogRVPositive(v2))
	}
	return special.Signed{}, forms.NoForm(fmt.Sprintf("covariance of %s and %s on shared projections", a.Name(),
		b.Name()))
}

// hybridWire is the JSON form.
type hybridWire struct {
	Bases        []json.RawMessage `json:"bases"`
	Coefficients []Coefficient     `json:"coefficients"`
	Groups       []int             `json:"groups,omitempty"`
}

// MarshalJSON writes the bases as family objects.
func (f Hybrid) MarshalJSON() ([]byte, error) {
	w := hybridWire{Coefficients: f.Coefficients, Groups: f.Groups}
	var err error
	w.Bases, err = encodeAll(f.Bases)
	if err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (f *Hybrid) UnmarshalJSON(b []byte) error {
	var w hybridWire
	if err := namedjson.Decode(b, &w); err != nil {
		return err
	}
	bases, err := decodeAll(w.Bases)
	if err != nil {
		return err
	}
	*f = Hybrid{Bases: bases, Coefficients: w.Coefficients, Groups: w.Groups}
	return nil
}
