package randfeat_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/exec"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/plan"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// A pair of moderate norms and angle: every term of the closed forms matters and no tail is too heavy to sample.
func testPair(d int) (x, y []float64) {
	x, y = make([]float64, d), make([]float64, d)
	src := rng.Stream(11, uint64(d))
	rng.Normals(x, src)
	rng.Normals(y, src)
	rescale(x, 0.55)
	rescale(y, 0.4)
	return x, y
}

func rescale(x []float64, norm float64) {
	s := norm / math.Sqrt(dense.Norm2(x))
	for i := range x {
		x[i] *= s
	}
}

// testPairs are testPair and more pairs of the same norms and angle, each in a plane of its own: the planes are
// orthogonal. Projections of such pairs on a normal vector are independent, so one draw is worth nearly as many
// replicates as it has pairs.
func testPairs(d int) (xs, ys dense.Matrix[float64]) {
	x, y := testPair(d)
	n := max(1, min(d/2, 24))
	basis := dense.New[float64](2*n, d)
	rng.Normals(basis.Data, rng.Stream(12, uint64(d)))
	copy(basis.Row(0), x)
	copy(basis.Row(1), y)
	for i := range basis.Rows {
		for range 2 { // Gram–Schmidt, twice for accuracy
			for j := range i {
				a := dense.Dot(basis.Row(i), basis.Row(j))
				for l, v := range basis.Row(j) {
					basis.Row(i)[l] -= a * v
				}
			}
		}
		rescale(basis.Row(i), 1)
	}
	along, across := dense.Dot(y, basis.Row(0)), dense.Dot(y, basis.Row(1))
	xs, ys = dense.New[float64](n, d), dense.New[float64](n, d)
	for i := range n {
		for l, v := range basis.Row(2 * i) {
			xs.Row(i)[l] = v * math.Sqrt(dense.Norm2(x))
			ys.Row(i)[l] = v*along + basis.Row(2*i + 1)[l]*across
		}
	}
	return xs, ys
}

// testData is an anisotropic set around a point, for fitting.
func testData(centre []float64, rows int, seed uint64) dense.Matrix[float64] {
	d := len(centre)
	m := dense.New[float64](rows, d)
	rng.Normals(m.Data, rng.Stream(seed, uint64(d)))
	for i := range rows {
		for l, v := range m.Row(i) {
			m.Row(i)[l] = centre[l]/2 + v*0.45/math.Sqrt(float64(d))*(0.3+1.4*float64(l)/float64(d))
		}
	}
	return m
}

// testFamilies are the examples of all families that estimate a kernel, fitted to data around testPair.
func testFamilies(t testing.TB, d int) []cases.Family {
	t.Helper()
	x, y := testPair(d)
	return cases.Estimators(t, testData(x, 400, 1), testData(y, 400, 2))
}

// allFamilies are testFamilies and the baselines.
func allFamilies(t testing.TB, d int) []cases.Family {
	t.Helper()
	x, y := testPair(d)
	return cases.Families(t, testData(x, 400, 1), testData(y, 400, 2))
}

// pool draws the projections of one replicate once for all families: set i of a law always has the same stream.
type pool struct {
	c    coupling.Coupling
	seed uint64
	sets map[string][]coupling.Omega
}

var errUndefined = errors.New("undefined combination")

func (p *pool) take(draws []family.Draw) ([]coupling.Omega, error) {
	used := map[string]int{}
	out := make([]coupling.Omega, len(draws))
	for i, d := range draws {
		c := p.c
		if d.IID {
			c = coupling.IID{}
		}
		key := fmt.Sprint(c.Name(), d.Law, d.Rows, d.Dim)
		n := used[key]
		used[key]++
		if n == len(p.sets[key]) {
			h := uint64(14695981039346656037)
			for _, b := range []byte(key) {
				h = (h ^ uint64(b)) * 1099511628211
			}
			o, err := c.Sample(d.Rows, d.Dim, d.Law, rng.Stream(p.seed, h, uint64(n)))
			if errors.Is(err, coupling.ErrLaw) {
				return nil, errUndefined
			}
			if err != nil {
				return nil, err
			}
			p.sets[key] = append(p.sets[key], o)
		}
		out[i] = p.sets[key][n]
	}
	return out, nil
}

// runner estimates at pairs of rows with lowered maps, through the same code as Map: compiled once for both sides of a
// symmetric map. A single pair in two dimensions is cheaper by plan.Eval, which TestMapsAgreeWithEval holds to be the
// same. It keeps its memory: there are millions of maps.
type runner struct {
	ws       exec.Workspace[float64]
	phi, psi []float64
	scales   []float64
	norms    []float64
}

// features writes the features of the rows of v into data, and their scales.
func (r *runner) features(c *exec.Side[float64], v dense.Matrix[float64], data *[]float64,
	scale []float64) dense.Matrix[float64] {
	*data = buf.Sized(*data, v.Rows*c.OutDim())
	out := dense.Matrix[float64]{Rows: v.Rows, Cols: c.OutDim(), Stride: c.OutDim(), Data: *data}
	for i := range r.norms {
		r.norms[i] = dense.Norm2(v.Row(i))
	}
	c.Run(out, scale, v, r.norms, &r.ws)
	return out
}

// pairs are the estimates at the pairs of rows of xs and ys; symmetric says that both sides of the map are the same.
func (r *runner) pairs(p plan.Pair, symmetric bool, xs, ys dense.Matrix[float64]) []float64 {
	n, d := xs.Rows, xs.Cols
	out := make([]float64, n)
	if d <= 2 {
		for i := range out {
			out[i] = dense.Dot(p.Query.Eval(xs.Row(i)), p.Key.Eval(ys.Row(i)))
		}
		return out
	}
	r.ws.Workers = 1
	r.norms, r.scales = buf.Sized(r.norms, n), buf.Sized(r.scales, 2*n)
	query := exec.Compile(p.Query, d, kern.Best[float64]())
	key := query
	if !symmetric {
		key = exec.Compile(p.Key, d, kern.Best[float64]())
	}
	a := r.features(query, xs, &r.phi, r.scales[:n])
	b := r.features(key, ys, &r.psi, r.scales[n:])
	for i := range out {
		out[i] = dense.Dot(a.Row(i), b.Row(i)) * math.Exp(r.scales[i]+r.scales[n+i])
	}
	return out
}

// size is a dimension, a number of projections and numbers of draws: for all families, and for the plain ones. Odd m
// estimate the Gaussian kernel, even m the softmax kernel, unless another is named.
type size struct {
	d, m, draws, plain int
	other              kernel.Kind
}

func (s size) kind() kernel.Kind {
	switch {
	case s.other != 0:
		return s.other
	case s.m%2 == 0:
		return kernel.Softmax
	}
	return kernel.Gaussian
}

// testSizes have m below, equal to and above d, off the block size. At the largest m of each d the draws of the plain
// families are enough to refute a variance wrong by 1.5.
func testSizes() []size {
	return []size{
		{d: 2, m: 1, draws: 600, plain: 1200}, {d: 2, m: 2, draws: 600, plain: 1200},
		{d: 2, m: 5, draws: 1500, plain: 16000},
		{d: 5, m: 3, draws: 450, plain: 700}, {d: 5, m: 5, draws: 450, plain: 700},
		{d: 5, m: 13, draws: 700, plain: 3500},
		{d: 16, m: 7, draws: 110, plain: 150}, {d: 16, m: 16, draws: 110, plain: 150},
		{d: 16, m: 37, draws: 160, plain: 600},
		{d: 64, m: 20, draws: 35, plain: 100}, {d: 64, m: 64, draws: 35, plain: 100},
		{d: 64, m: 130, draws: 50, plain: 250},
	}
}

// largest says that s is the size with most projections of its dimension.
func (s size) largest() bool { return s.m > 2*s.d }

// plain says which families are cheap and light-tailed enough to be sampled until their variance is known to some per
// cent. In high dimensions |ω|² varies the weights of the others, in the same way for all pairs of a draw.
func plain(name string, d int) bool {
	switch name {
	case "trig", "positive", "hyperbolic":
		return true
	case "oprf", "gerf-plus", "poisson", "geometric":
		return d <= 16
	}
	return false
}

// distinct are the plain families and one of each kind of draws: a coupling sees nothing else of a family.
func distinct(t testing.TB, families []cases.Family, s size) (out []cases.Family) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range families {
		draws, err := f.Family.Draws(s.kind(), s.d, s.m)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if key := fmt.Sprint(draws); plain(f.Name, s.d) || !seen[key] {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// comparison is the outcome of one family × coupling × size.
type comparison struct {
	clusters stattest.Clusters
	// perMean is the mean of mean/sd over pairs: a relative bias b moves the mean deviation by b·perMean.
	perMean float64
	// variance says that the deviations are relative to the standard deviation of the theory; otherwise to that of the
	// sample, and only their mean means something.
	variance bool
	// largest is what the largest draw adds to the ratio of variances.
	largest float64
}

// compare samples estimates at testPairs and standardises them by the closed form. Combinations that are not defined
// are left out, and those that are biased by design where no closed form says by how much.
func compare(families []cases.Family, c cases.Coupling, s size) (out map[string]comparison, undefined int,
	err error) {
	xs, ys := testPairs(s.d)
	k := kernel.Kernel{Kind: s.kind()}
	type job struct {
		cases.Family
		draws     []family.Draw
		got       [][]float64
		form      bool // it has a closed form
		symmetric bool
	}
	var jobs []*job
	for _, f := range families {
		draws, err := f.Family.Draws(k.Kind, s.d, s.m)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", f.Name, err)
		}
		_, err = theory.Of(k, f.Family, c.Value, s.m, xs.Row(0), ys.Row(0))
		if errors.Is(err, theory.ErrNoClosedForm) && (f.Biased || c.Info.Replaces) {
			continue
		}
		jobs = append(jobs, &job{Family: f, draws: draws, form: err == nil})
	}
	active := slices.Clone(jobs)
	var run runner
	for r := range max(s.draws, s.plain) {
		p := &pool{c: c.Value, seed: uint64(1000*s.d+s.m)<<32 + uint64(r), sets: map[string][]coupling.Omega{}}
		if r == s.draws {
			active = slices.DeleteFunc(active, func(j *job) bool { return !j.form || !plain(j.Name, s.d) })
		}
		for i, j := range active {
			omega, err := p.take(j.draws)
			if errors.Is(err, errUndefined) {
				undefined++
				active[i] = nil
				continue
			}
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", j.Name, err)
			}
			pair, err := j.Family.Family.Lower(k.Kind, s.d, omega)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", j.Name, err)
			}
			if r == 0 {
				j.symmetric = reflect.DeepEqual(pair.Query, pair.Key)
			}
			j.got = append(j.got, run.pairs(pair, j.symmetric, xs, ys))
		}
		active = slices.DeleteFunc(active, func(j *job) bool { return j == nil })
	}
	out = map[string]comparison{}
	for _, j := range jobs {
		if j.got == nil {
			continue
		}
		cmp := comparison{variance: true}
		for i := range xs.Rows {
			x, y := xs.Row(i), ys.Row(i)
			var mean, sd float64
			switch want, err := theory.Of(k, j.Family.Family, c.Value, s.m, x, y); {
			case err == nil:
				mean, sd = math.Exp(want.LogMean), math.Exp(want.LogVar/2)
			case errors.Is(err, theory.ErrNoClosedForm):
				cmp.variance = false
				mean = randfeat.Spec{Kernel: k, Family: j.Family.Family, Dim: s.d}.Target().Eval(x, y)
				var g stattest.Moments
				for _, e := range j.got {
					g.Add(e[i])
				}
				sd = math.Sqrt(g.Var())
			default:
				return nil, 0, fmt.Errorf("%s: %w", j.Name, err)
			}
			cmp.perMean += mean / sd / float64(xs.Rows)
			for _, e := range j.got {
				e[i] = (e[i] - mean) / sd
			}
		}
		for _, e := range j.got {
			cmp.clusters.Add(e)
			cmp.largest = max(cmp.largest, dense.Norm2(e)/float64(len(e)*len(j.got)))
		}
		out[j.Name] = cmp
	}
	return out, undefined, nil
}

// zScores of a comparison, by what they compare.
func (g comparison) zScores(name string) map[string]float64 {
	mean, se := g.clusters.Mean()
	z := map[string]float64{"mean": mean / (se + 1e-13*g.perMean)}
	// residual: fourth powers of exponentials; TestResidualVariance samples them enough
	if g.variance && !strings.HasPrefix(name, "residual") {
		ratio, se := g.clusters.Variance()
		z["variance"] = stattest.VarianceZ(ratio, se)
	}
	return z
}

// failures lists what refutes the theory in the comparisons of one coupling and size.
func failures(got map[string]comparison, c cases.Coupling, s size) (bad []string) {
	bound := varianceBound()
	for name, g := range got {
		label := fmt.Sprintf("%s × %s, d = %d, m = %d", name, c.Name, s.d, s.m)
		for what, z := range g.zScores(name) {
			if !(math.Abs(z) <= bound) {
				bad = append(bad, fmt.Sprintf("%s: %s: z = %.1f (bound %.1f)", label, what, z, bound))
			}
			// Heavy tails widen the standard error, but may not excuse anything: one draw may stand out, not more.
			if ratio, _ := g.clusters.Variance(); what == "variance" &&
				!(ratio > 1.0/guard && ratio-g.largest < guard) {
				bad = append(bad, fmt.Sprintf("%s: the variance is %.2f times that of the theory", label, ratio))
			}
		}
	}
	return bad
}

// couplingSizes are the sizes at which a coupling is tested: all for the first example of an entry, small ones for the
// others, whose mean is that of the kernel or of a closed form.
func couplingSizes(c cases.Coupling, sizes []size) []size {
	_, slow := c.Value.(coupling.Optimised)
	first := c.Name == c.Info.Name
	if !first && !c.Info.Exact && !c.Info.Replaces {
		return nil // rows that are even less uniform: the marginal tests of package coupling
	}
	var out []size
	for _, s := range sizes {
		if slow { // benchmark only: minutes of optimisation per draw set
			s.draws, s.plain = s.draws/20, 0
		}
		if (slow || !first) && s.d > 5 || !first && !s.largest() {
			continue
		}
		if !first {
			s.draws, s.plain = min(s.draws, 300), 0
		}
		if !coupling.InfoOf(c.Value).Plain {
			s.plain = 0 // only the powerful couplings promise to see small errors of the variance
		}
		out = append(out, s)
	}
	return out
}

// TestEveryFamilyWithEveryCoupling compares the mean and the variance of every defined combination of the examples of
// both registries with the exact kernel and the closed form. Its power: with the same draws the plain families refute,
// at the largest size of every dimension, variances 1.5 times the predicted ones and 1/1.5 of them; how many of all
// comparisons do so is logged. The other couplings meet all families at one size, and at the other sizes those that
// draw differently: nothing else of a family reaches a coupling.
func TestEveryFamilyWithEveryCoupling(t *testing.T) {
	sizes := testSizes()
	if !stattest.Full() {
		sizes = []size{{d: 2, m: 2, draws: 300}, {d: 5, m: 13, draws: 120}}
	}
	families := map[int][]cases.Family{}
	for _, s := range sizes {
		if families[s.d] != nil {
			continue
		}
		families[s.d] = testFamilies(t, s.d)
		if s.d > 16 { // the costliest dimension does without variants, whose code runs in the others
			families[s.d] = slices.DeleteFunc(families[s.d],
				func(f cases.Family) bool { return f.Name != f.Info.Name })
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // millions of tiny maps: let them pile up
	var mu sync.Mutex
	var total tally
	t.Run("coupling", func(t *testing.T) {
		for _, c := range cases.Couplings(t) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				for _, s := range couplingSizes(c, sizes) {
					tested := families[s.d]
					if (!s.largest() || s.d != 5) && !coupling.InfoOf(c.Value).Plain {
						tested = distinct(t, tested, s)
					}
					got, undefined, err := compare(tested, c, s)
					if err != nil {
						t.Errorf("d = %d, m = %d: %v", s.d, s.m, err)
					}
					for _, bad := range failures(got, c, s) {
						t.Error(bad)
					}
					for name, g := range got {
						if plain(name, s.d) && s.plain > s.draws && s.largest() && coupling.InfoOf(c.Value).Plain &&
							g.variance &&
							!refuted(g.clusters,
								1.5) {
							t.Errorf("%s, d = %d, m = %d: a variance wrong by 1.5 would not be seen", name, s.d, s.m)
						}
					}
					mu.Lock()
					total.undefined += undefined
					total.add(got, c, s)
					mu.Unlock()
				}
			})
		}
	})
	total.log(t)
	if total.checked > comparisons {
		t.Errorf("%d comparisons, the bound counts %d", total.checked, comparisons)
	}
}

// tally sums up comparisons for the log.
type tally struct {
	checked, undefined, noForm int
	worst                      map[string]float64
	worstName                  map[string]string
	lowest, highest            float64
	tested, by15, by3          map[int]int
}

func (a *tally) add(got map[string]comparison, c cases.Coupling, s size) {
	if a.worst == nil {
		*a = tally{undefined: a.undefined, worst: map[string]float64{}, worstName: map[string]string{},
			lowest: math.Inf(1),
			tested: map[int]int{}, by15: map[int]int{}, by3: map[int]int{}}
	}
	for name, g := range got {
		if !g.variance {
			a.noForm++
		}
		for what, z := range g.zScores(name) {
			a.checked++
			if math.Abs(z) > math.Abs(a.worst[what]) {
				a.worst[what], a.worstName[what] = z, fmt.Sprintf("%s × %s, d = %d, m = %d", name, c.Name, s.d, s.m)
			}
			if what != "variance" {
				continue
			}
			ratio, _ := g.clusters.Variance()
			a.lowest, a.highest = min(a.lowest, ratio), max(a.highest, ratio)
			a.tested[s.d]++
			if refuted(g.clusters, 1.5) {
				a.by15[s.d]++
			}
			if refuted(g.clusters, 3) {
				a.by3[s.d]++
			}
		}
	}
}

func (a *tally) log(t *testing.T) {
	t.Logf("%d comparisons, bound %.2f; %d without closed form, %d undefined", a.checked, varianceBound(), a.noForm,
		a.undefined)
	for _, what := range slices.Sorted(maps.Keys(a.worst)) {
		t.Logf("%s: largest |z| %.2f (%s)", what, math.Abs(a.worst[what]), a.worstName[what])
	}
	for _, d := range slices.Sorted(maps.Keys(a.tested)) {
		t.Logf("d = %d: of %d variance comparisons %d would refute a variance wrong by 1.5 either way, %d by 3",
			d, a.tested[d], a.by15[d], a.by3[d])
	}
	t.Logf("sample variances are %.2f to %.2f times those of the theory", a.lowest, a.highest)
}

// biased is a family like any new one, but wrong by 22 %.
type biased struct{ family.Positive }

func (biased) Name() string { return "biased" }

func (f biased) Lower(kind kernel.Kind, dim int, omega []coupling.Omega) (plan.Pair, error) {
	p, err := f.Positive.Lower(kind, dim, omega)
	p.Query.Outer.Const += math.Log(1.22)
	return p, err
}

// A family that is registered is tested by that: this one, with an entry and an example of its own, must be refused by
// the same code under every coupling.
func TestBiasedFamilyIsRefused(t *testing.T) {
	mutant := cases.Family{Example: family.Example{Name: "biased", Family: biased{}},
		Info: family.Info{Name: "biased", Unbiased: true}}
	right := mutant
	right.Name, right.Family = "positive", family.Positive{}
	for _, c := range cases.Couplings(t) {
		if c.Info.Replaces {
			continue // no family but trig has a closed form there
		}
		for _, s := range couplingSizes(c, []size{{d: 5, m: 13, draws: 200}}) {
			s.draws = max(s.draws, 50)
			got, _, err := compare([]cases.Family{right, mutant}, c, s)
			if err != nil {
				t.Fatal(err)
			}
			bad := failures(got, c, s)
			if len(bad) != 1 && len(bad) != 2 || !strings.HasPrefix(bad[0], "biased") ||
				!strings.HasPrefix(bad[len(bad)-1],
					"biased") {
				t.Errorf("%s: a bias of 22 %% gives %q", c.Name, bad)
			}
		}
	}
}

// comparisons is at least the number of comparisons of TestEveryFamilyWithEveryCoupling, which its bound counts.
const comparisons = 8000

// varianceBound is the bound of TestEveryFamilyWithEveryCoupling.
func varianceBound() float64 { return stattest.Bound(1e-6, comparisons) }

// guard bounds the ratio of the sample variance to that of the theory for every combination, whatever its tails.
const guard = 4

// refuted says whether the replicates refute predictions of the variance too large and too small by a factor.
func refuted(c stattest.Clusters, factor float64) bool {
	ratio, se := c.Variance()
	bound := varianceBound()
	return stattest.VarianceZ(ratio/factor, se) < -bound && stattest.VarianceZ(ratio*factor, se) > bound
}
