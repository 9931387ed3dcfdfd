package randfeat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

func TestBadSpecs(t *testing.T) {
	for name, c := range map[string]struct {
		s    randfeat.Spec
		want error
	}{
		"no family": {randfeat.Spec{Dim: 2, M: 3}, randfeat.ErrSpec},
		"dim 0":     {randfeat.Spec{Family: family.Trig{}, M: 3}, randfeat.ErrSpec},
		"m 0":       {randfeat.Spec{Family: family.Trig{}, Dim: 2}, coupling.ErrSize},
		"huge m":    {randfeat.Spec{Family: family.Trig{}, Dim: 2, M: math.MaxInt}, randfeat.ErrSpec},
		"bandwidth": {randfeat.Spec{Kernel: kernel.Kernel{Scale: -1}, Family: family.Trig{}, Dim: 2, M: 3},
			kernel.ErrKernel},
		"kernel matrix": {randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, M: dense.New[float64](2, 3)},
			Family: family.Trig{},
			Dim:    2,
			M:      3}, dense.ErrShape},
		"hollow matrix": {randfeat.Spec{Kernel: kernel.Kernel{M: dense.Matrix[float64]{Rows: 2, Cols: 2, Stride: 2}},
			Family: family.Trig{}, Dim: 2, M: 3}, dense.ErrShape},
		"bessel": {randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Family: family.Positive{}, Dim: 2, M: 3},
			family.ErrKernel},
		"law": {randfeat.Spec{Family: family.Poisson{Lambda: 1}, Coupling: coupling.Simplex{}, Dim: 2, M: 3},
			coupling.ErrLaw},
		"infinite error": {randfeat.Spec{Family: family.OPRF{A: 0.2}, Dim: 2, M: 3}, family.ErrParam},
	} {
		if _, err := randfeat.New[float64](c.s); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Given projections are checked as strictly as drawn ones: parameters, kernel, number, shape, values.
func TestBadOmega(t *testing.T) {
	good := coupling.Omega{Rows: dense.New[float64](3, 2)}
	fast, err := coupling.Hadamard{K: 3}.Sample(3, 4, coupling.Law{}, rand.NewPCG(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	mixed := coupling.Omega{Rows: good.Rows, Fast: fast.Fast}
	for name, c := range map[string]struct {
		s     randfeat.Spec
		omega []coupling.Omega
		want  error
	}{
		"none": {randfeat.Spec{Family: family.Trig{}, Dim: 2, M: 3}, nil, dense.ErrShape},
		"two":  {randfeat.Spec{Family: family.Trig{}, Dim: 2}, []coupling.Omega{good, good}, dense.ErrShape},
		"hollow": {randfeat.Spec{Family: family.Trig{}, Dim: 2}, []coupling.Omega{{Rows: dense.Matrix[float64]{Rows: 3,
			Cols: 2, Stride: 2}}}, dense.ErrShape},
		"other fast": {randfeat.Spec{Family: family.Trig{}, Dim: 2}, []coupling.Omega{mixed}, dense.ErrShape},
		"short shift": {randfeat.Spec{Family: family.PoissonPlus{Lambda: 1, Shift: []float64{0}}, Dim: 2},
			[]coupling.Omega{good}, family.ErrParam},
		"unfitted": {randfeat.Spec{Family: family.Poisson{}, Dim: 2}, []coupling.Omega{good}, family.ErrParam},
		"kernel": {randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Bessel}, Family: family.Positive{}, Dim: 2},
			[]coupling.Omega{good}, family.ErrKernel},
		"eps": {randfeat.Spec{Family: family.ReLU{Eps: -5}, Dim: 2}, []coupling.Omega{good}, family.ErrParam},
		"hybrid's rows": {randfeat.Spec{Family: family.Angular{N: 2}, Dim: 2}, []coupling.Omega{good, good, good},
			dense.ErrShape},
	} {
		if _, err := randfeat.NewWithOmega[float64](c.s, c.omega); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestSpecJSON(t *testing.T) {
	var s randfeat.Spec
	for text, says := range map[string]string{
		`{"family":null}`:                                  "no family",
		`{"kernel":{"kind":"gaussian"}}`:                   "no family",
		`{"family":{"name":"trig"},"sed":1}`:               "unknown field",
		`{"family":{"name":"trig"},"coupling":{"name":7}}`: "coupling",
		`{"family":{"name":"cubic"}}`:                      "cubic",
		`[]`:                                               "spec",
	} {
		if err := json.Unmarshal([]byte(text), &s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error with %q", text, err, says)
		}
	}
	if err := json.Unmarshal([]byte(`{"family":{"name":"trig"},"coupling":null,"dim":2,"m":3}`), &s); err != nil ||
		s.Coupling != nil {
		t.Errorf("null coupling: %+v, %v", s, err)
	}
}

// antithetic is a coupling that the library does not know: rows come in pairs ±ω.
type antithetic struct{}

func (antithetic) Name() string { return "antithetic" }

func (antithetic) Sample(m, dim int, l coupling.Law, src rand.Source) (coupling.Omega, error) {
	o, err := coupling.IID{}.Sample(m, dim, l, src)
	for i := 1; i < o.Rows.Rows; i += 2 {
		for j, v := range o.Rows.Row(i - 1) {
			o.Rows.Row(i)[j] = -v
		}
	}
	return o, err
}

// Callers may bring a coupling of their own; only the JSON form needs a known one.
func TestOwnCoupling(t *testing.T) {
	s := randfeat.Spec{Family: family.Positive{}, Coupling: antithetic{}, Dim: 2, M: 4, Seed: 1}
	m, err := randfeat.New[float64](s)
	if err != nil {
		t.Fatal(err)
	}
	s.Coupling = nil
	other, err := randfeat.New[float64](s)
	if err != nil || m.Fingerprint() == other.Fingerprint() {
		t.Errorf("same fingerprint as independent rows (%v)", err)
	}
	if _, err := json.Marshal(m.Spec()); err == nil {
		t.Error("an unknown coupling was encoded")
	}
}

// The sets of projections of one spec are independent: each has a stream of its own. A family that multiplies two sets
// is biased otherwise.
func TestSetsOfProjectionsAreIndependent(t *testing.T) {
	const m, dim, seed = 512, 4, 3
	type pair struct {
		name string
		z    float64
	}
	var pairs []pair
	for _, info := range family.List() {
		for _, e := range info.Examples(dim) {
			spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: e.Family, Dim: dim, M: m,
				Seed: seed}
			omega, err := randfeat.Draw(spec)
			if e.Fit || err != nil { // parameters are missing, or the family has another kernel
				continue
			}
			draws, err := e.Family.Draws(spec.Kernel.Kind, dim, m)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range omega {
				// The promise of a seed: set i comes from stream i.
				d := draws[i]
				want, err := (coupling.IID{}).Sample(d.Rows, d.Dim, d.Law, rng.Stream(seed, uint64(i)))
				if err != nil || !slices.Equal(a.Rows.Data, want.Rows.Data) {
					t.Errorf("%s: set %d is not the one of stream %d (%v)", e.Name, i, i, err)
				}
				for j, b := range omega[:i] {
					n := min(len(a.Rows.Data), len(b.Rows.Data))
					normal := draws[i].Law.Kind == coupling.Normal && draws[j].Law.Kind == coupling.Normal
					if !normal || n < 64 {
						continue
					}
					z := dense.Dot(a.Rows.Data[:n], b.Rows.Data[:n]) / math.Sqrt(float64(n))
					pairs = append(pairs, pair{fmt.Sprintf("%s, sets %d and %d", e.Name, j, i), z})
				}
			}
		}
	}
	if len(pairs) == 0 {
		t.Fatal("no family with two sets of normal projections")
	}
	for _, p := range pairs {
		if bound := stattest.Bound(1e-6, len(pairs)); math.Abs(p.z) > bound {
			t.Errorf("%s are correlated: z = %.1f (bound %.1f)", p.name, p.z, bound)
		}
	}
}
