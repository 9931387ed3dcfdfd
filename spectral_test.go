package randfeat_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory"
)

// spectralKinds are the kernels that no quadratic exponential is: what is not among them every family estimates.
func spectralKinds() []kernel.Kind {
	return slices.DeleteFunc(kernel.Kinds(), kernel.Kind.Exponential)
}

// accepting are the families of a list that have a map for a kernel; the others must say so.
func accepting(t testing.TB, families []cases.Family, kind kernel.Kind, d int) (out []cases.Family) {
	t.Helper()
	for _, f := range families {
		switch _, err := f.Family.Draws(kind, d, 9); {
		case err == nil:
			out = append(out, f)
		case !errors.Is(err, family.ErrKernel) || !strings.Contains(err.Error(), kind.String()):
			t.Errorf("%s with the %v kernel: %v", f.Name, kind, err)
		}
	}
	return out
}

// Every kernel of a spectrum, with every family that has it and every coupling: mean and variance against the exact
// kernel and the closed form, by the code that tests all families.
func TestEveryKernelWithEveryCoupling(t *testing.T) {
	sizes := []size{{d: 2, m: 5, draws: 500}, {d: 5, m: 13, draws: 250}, {d: 64, m: 130, draws: 20}}
	if !stattest.Full() {
		sizes = []size{{d: 5, m: 13, draws: 100}}
	}
	compared, variances := 0, 0
	for _, kind := range spectralKinds() {
		for _, s := range sizes {
			s.other = kind
			families := accepting(t, testFamilies(t, s.d), kind, s.d)
			if len(families) == 0 {
				t.Errorf("no family has the %v kernel", kind)
			}
			for _, c := range cases.Couplings(t) {
				for _, s := range couplingSizes(c, []size{s}) {
					got, _, err := compare(families, c, s)
					if err != nil {
						t.Errorf("%v × %s, d = %d: %v", kind, c.Name, s.d, err)
					}
					for _, bad := range failures(got, c, s) {
						t.Errorf("%v: %s", kind, bad)
					}
					for _, g := range got {
						compared++
						if g.variance {
							variances++
						}
					}
				}
			}
		}
	}
	t.Logf("%d comparisons of means, %d of variances", compared, variances)
}

// smoother draws the spectrum of the next smoother Matérn kernel.
type smoother struct{ family.Trig }

func (f smoother) Draws(kind kernel.Kind, dim, m int) ([]family.Draw, error) {
	d, err := f.Trig.Draws(kind, dim, m)
	if err == nil {
		d[0].Law.Param += 2
	}
	return d, err
}

// A spectrum of two more degrees of freedom must be refused by that code.
func TestWrongSpectrumIsRefused(t *testing.T) {
	mutant := cases.Family{Example: family.Example{Name: "smoother", Family: smoother{}},
		Info: family.Info{Name: "smoother", Unbiased: true}}
	iid := slices.DeleteFunc(cases.Couplings(t), func(c cases.Coupling) bool { return c.Name != "iid" })
	for _, kind := range []kernel.Kind{kernel.Matern12, kernel.Matern32} {
		s := size{d: 5, m: 13, draws: 600, other: kind}
		got, _, err := compare([]cases.Family{mutant}, iid[0], s)
		if err != nil {
			t.Fatal(err)
		}
		if bad := failures(got, iid[0], s); len(bad) == 0 {
			t.Errorf("%v: the spectrum of a smoother kernel passes", kind)
		}
	}
}

// The closed form of the variance is ½(1 + κ(2z)) − κ(z)², to the last digits also where that cancels.
func TestSpectralVariance(t *testing.T) {
	for _, kind := range spectralKinds() {
		if kind == kernel.Bessel {
			continue // TestORFPrime
		}
		k := kernel.Kernel{Kind: kind}
		for _, z := range []float64{0.05, 0.3, 1, 4, 20} {
			x, y := []float64{0.6 * z, 0, -0.3 * z}, []float64{0, 0.5 * z, 0.4 * z}
			twice := []float64{1.2 * z, -z, -1.4 * z}
			m, err := theory.Of(k, family.Trig{}, nil, 7, x, y)
			if err != nil {
				t.Fatal(err)
			}
			value := k.Eval(x, y)
			want := ((1+k.Eval(twice, make([]float64, 3)))/2 - value*value) / 7
			if got := math.Exp(m.LogVar); math.Abs(got-want) > 1e-13 {
				t.Errorf("%v, z = %v: variance %v, want %v", kind, z, got, want)
			}
			if !math.IsInf(m.LogBias, -1) {
				t.Errorf("%v: bias %v", kind, m.LogBias)
			}
		}
		// Near x = y the variance vanishes as a power: |z| for ν = 1/2, where paths are rough, |z|³ and |z|⁴ beyond.
		tiny := []float64{1e-9, 0, 0}
		m, err := theory.Of(k, family.Trig{}, nil, 1, tiny, make([]float64, 3))
		power := map[kernel.Kind]float64{kernel.Laplace: 1, kernel.Matern12: 1, kernel.Matern32: 3, kernel.Matern52: 4}
		if err != nil || math.Abs(m.LogVar/math.Log(1e-9)-power[kind]) > 0.25 {
			t.Errorf("%v: log variance %v at |z| = 1e-9, want a power %v of |z| (%v)", kind, m.LogVar, power[kind], err)
		}
		for name, c := range map[string]struct {
			f family.Family
			c coupling.Coupling
		}{"other family": {family.Positive{}, nil}, "coupled": {family.Trig{}, randfeatCoupling(kind)}} {
			if m, err := theory.Of(k, c.f, c.c, 4, tiny, tiny); !errors.Is(err, theory.ErrNoClosedForm) {
				t.Errorf("%v, %s: %+v, %v", kind, name, m, err)
			}
		}
	}
}

// randfeatCoupling is a coupling that the spectrum of a kernel has.
func randfeatCoupling(kind kernel.Kind) coupling.Coupling {
	if kind == kernel.Laplace {
		return coupling.Sobol{}
	}
	return coupling.Orthogonal{}
}

// A sum of squares sees the estimate and its exact kernel agree at large m, through Gram.
func TestSpectralGram(t *testing.T) {
	for _, kind := range spectralKinds() {
		const d, m, n = 3, 20000, 6
		s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kind, Scale: 1.5}, Family: family.Trig{},
			Coupling: randfeatCoupling(kind), Dim: d, M: m, Seed: 4}
		mp, err := randfeat.New[float64](s)
		if err != nil {
			t.Fatal(err)
		}
		x := cases.Rows(n, d, 0, 1, 8)
		got, want := cases.Rows(n, n, 0, 0, 1), cases.Rows(n, n, 0, 0, 1)
		if err := errors.Join(mp.Gram(got, x, x, nil), kernel.Gram(s.Kernel, want, x, x)); err != nil {
			t.Fatal(err)
		}
		bound := stattest.Bound(1e-6, n*n*4) * math.Sqrt(0.5/m)
		for i, v := range got.Data {
			if math.Abs(v-want.Data[i]) > bound {
				t.Errorf("%v: entry %d is %v, want %v within %.4f", kind, i, v, want.Data[i], bound)
			}
		}
	}
}
