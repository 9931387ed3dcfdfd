package linear

import (
	"math"
	"sync"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// Outputs are quotients, whose expectation is not that of exact attention. But beside one key of known weight κ, its
// own value (1, 0, 0) against (0, 1, v_j) of the others, an output tells its numerator and denominator at their true
// scale:
//
//	Σ_j ŵ_j = κ·out_1/out_0,   Σ_j ŵ_j v_j = κ·out_2/out_0
//
// A window of one key gives that. Both must be unbiased for every family, kernel and direction; most of the comparisons
// must refute weights off by 1 % (4 % without -full) with the same draws. Many features per draw give that power
// sooner than many draws.
func TestNumeratorAndDenominatorAreUnbiased(t *testing.T) {
	stattest.SkipRace(t)
	const d, length, m = 3, 6, 240 // few large maps: most of a small one is overhead
	draws, off := 25, 0.04
	if stattest.Full() {
		draws, off = 400, 0.01
	}
	q, k := attention.One(normalRows(length, d, 0.3, 0.1, 21)), attention.One(normalRows(length, d, 0.3, -0.1, 22))
	values := normalRows(length, 1, 1, 0.5, 23)
	families := kernelFamilies(t, d)
	type variant struct {
		causal bool
		row    int // whose own key is in the window
		kernel kernel.Kernel
	}
	variants := []variant{
		{true, length - 1, kernel.Kernel{Kind: kernel.Softmax}},
		{false, 2, kernel.Kernel{Kind: kernel.Softmax, Scale: 1.1}},
		{false, 3, kernel.Kernel{Kind: kernel.Gaussian}},
	}
	bound := stattest.Bound(1e-6, 2*len(variants)*len(families))
	var mu sync.Mutex
	largest, refuted, compared := 0.0, 0, 0
	t.Run("families", func(t *testing.T) {
		for name, f := range families {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for i, c := range variants {
					v, out := attention.NewSeq[float64](1, 1, length, 3), attention.NewSeq[float64](1, 1, length, 3)
					for j := range length {
						copy(v.Head(0, 0).Row(j), []float64{0, 1, values.At(j, 0)})
					}
					copy(v.Head(0, 0).Row(c.row), []float64{1, 0, 0})
					spec := randfeat.Spec{Kernel: c.kernel, Family: f, Dim: d, M: m}
					exact := func(k0 kernel.Kernel) (num, den float64) {
						for j := range length {
							if j != c.row && (j < c.row || !c.causal) {
								w := k0.Eval(q.Head(0, 0).Row(c.row), k.Head(0, 0).Row(j))
								num += w * values.At(j, 0)
								den += w
							}
						}
						return num, den
					}
					target := spec.Target()
					own := target.Eval(q.Head(0, 0).Row(c.row), k.Head(0, 0).Row(c.row))
					var num, den stattest.Moments
					a := Attention[float64]{Visibility: attention.Visibility{Causal: c.causal}, Window: 1}
					for seed := range uint64(draws) {
						mp, err := randfeat.New[float64](spec.WithSeed(seed + uint64(i)<<32))
						if err != nil {
							t.Fatal(err)
						}
						a.Maps = []randfeat.FeatureMap[float64]{mp}
						if _, err := a.Forward(out, q, k, v); err != nil {
							t.Fatal(err)
						}
						row := out.Head(0, 0).Row(c.row)
						den.Add(own * row[1] / row[0])
						num.Add(own * row[2] / row[0])
					}
					wantNum, wantDen := exact(target)
					for _, s := range []struct {
						name string
						got  *stattest.Moments
						want float64
					}{{"numerator", &num, wantNum}, {"denominator", &den, wantDen}} {
						sd := math.Sqrt(s.got.Var())
						z := stattest.Z(s.got.Mean(), s.want, sd, draws)
						mu.Lock()
						largest = max(largest, math.Abs(z))
						compared++
						if math.Abs(stattest.Z(s.got.Mean(), (1+off)*s.want, sd, draws)) > bound {
							refuted++
						}
						mu.Unlock()
						if math.Abs(z) > bound {
							t.Errorf("%v, causal = %v: %s %.5g, want %.5g, z = %.1f, bound %.1f", c.kernel.Kind,
								c.causal, s.name, s.got.Mean(), s.want, z, bound)
						}
					}
				}
			})
		}
	})
	t.Logf("%d comparisons, largest |z| %.2f, bound %.2f; %d refute weights off by %v", compared, largest, bound,
		refuted, off)
	if refuted < compared/2 {
		t.Errorf("only %d of %d comparisons can tell weights off by %v", refuted, compared, off)
	}
}

// Attention does not change under the rules of docs/theory.md §6.
func TestInvariances(t *testing.T) {
	stattest.SkipRace(t)
	const d, length, dv = 4, 40, 3
	q, k, v := randomSeq[float64](1, 1, length, d, 0.8, 0.1, 41), randomSeq[float64](1, 1, length, d, 0.8, -0.1, 42),
		randomSeq[float64](1, 1, length, dv, 1, 0, 43)
	run := func(mp randfeat.FeatureMap[float64], causal bool, k, v attention.Seq[float64]) attention.Seq[float64] {
		t.Helper()
		out := attention.NewSeq[float64](1, 1, q.Len, v.Dim)
		a := Attention[float64]{Visibility: attention.Visibility{Causal: causal},
			Maps: []randfeat.FeatureMap[float64]{mp}}
		if _, err := a.Forward(out, q, k, v); err != nil {
			t.Fatal(err)
		}
		return out
	}
	// differ is the largest difference relative to the values.
	differ := func(a, b attention.Seq[float64]) (worst float64) {
		for i, x := range a.Data {
			worst = max(worst, math.Abs(x-b.Data[i]))
		}
		return worst
	}
	shift := func(k attention.Seq[float64], by []float64) attention.Seq[float64] {
		out := attention.NewSeq[float64](1, 1, k.Len, d)
		for i, x := range k.Data {
			out.Data[i] = x + by[i%d]
		}
		return out
	}
	t.Run("shift of all keys", func(t *testing.T) {
		// A fit centres the keys, but for what the noise of n rows may have made of their mean, a share of 1/n: with
		// the same seed the estimates come to be the same, however far the keys move.
		for _, causal := range []bool{false, true} {
			moved := func(repeats int) (worst float64) {
				var outs []attention.Seq[float64]
				for _, by := range [][]float64{{0, 0, 0, 0}, {3, -1, 0.5, 2}, {-40, 30, 20, -50}} {
					keys := shift(k, by)
					s := headStats[float64](t, family.Adaptive{}, d, 1)
					for range repeats {
						if err := s.Add(q, keys, nil, nil); err != nil {
							t.Fatal(err)
						}
					}
					maps, err := NewMaps[float64](fitHeads(t, s))
					if err != nil {
						t.Fatal(err)
					}
					outs = append(outs, run(maps[0], causal, keys, v))
				}
				return max(differ(outs[0], outs[1]), differ(outs[0], outs[2]))
			}
			few, many := moved(10), moved(1000)
			t.Logf("causal = %v: keys moved by 4 and 70 change outputs by %.1g, with 100 times the rows by %.1g",
				causal, few, many)
			if many > 1e-3 || many > few/50 {
				t.Errorf("causal = %v: keys moved by 4 and 70 change outputs by %.1g, with 100 times the rows by %.1g",
					causal, few, many)
			}
			// Without centring the shift is free for exact attention only.
			mp := oneMap[float64](t, family.Positive{}, nil, d, 16, 7)
			if e := differ(run(mp, causal, k, v), run(mp, causal, shift(k, []float64{3, -1, 0.5, 2}), v)); e < 1e-3 {
				t.Errorf("no power: the positive map does not see a shift (%.1g)", e)
			}
		}
	})
	t.Run("values", func(t *testing.T) {
		// Weights sum to 1: αv + β gives α·out + β, with signed features too.
		for name, f := range kernelFamilies(t, d) {
			mp := oneMap[float64](t, f, nil, d, 16, 7)
			w := attention.NewSeq[float64](1, 1, length, dv)
			for i, x := range v.Data {
				w.Data[i] = -3*x + 2
			}
			a, b := run(mp, false, k, v), run(mp, false, k, w)
			for i, x := range a.Data {
				if want := -3*x + 2; math.Abs(b.Data[i]-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("%s: output %d is %v, want %v", name, i, b.Data[i], want)
				}
			}
		}
	})
	t.Run("factors", func(t *testing.T) {
		// Softmax and Gaussian weights differ by a factor per query, which is free, and one per key, which is not
		// unless all keys have one norm.
		unit := attention.NewSeq[float64](1, 1, length, d)
		for j := range length {
			r := k.Head(0, 0).Row(j)
			n := math.Sqrt(dense.Norm2(r))
			for l, x := range r {
				unit.Head(0, 0).Row(j)[l] = 1.5 * x / n
			}
		}
		for name, f := range kernelFamilies(t, d) {
			soft := kernel.Attention(d)
			gauss := soft
			gauss.Kind = kernel.Gaussian
			var maps [2]*randfeat.Map[float64]
			for i, kern := range []kernel.Kernel{soft, gauss} {
				var err error
				if maps[i], err = randfeat.New[float64](randfeat.Spec{Kernel: kern, Family: f, Dim: d, M: 16,
					Seed: 7}); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := f.(family.DARK); ok {
				continue // the norm of Mk is not fixed
			}
			if e := differ(run(maps[0], false, unit, v), run(maps[1], false, unit, v)); e > 1e-8 {
				t.Errorf("%s: keys of one norm: softmax and Gaussian outputs differ by %.1g", name, e)
			}
			if e := differ(run(maps[0], false, k, v), run(maps[1], false, k, v)); e < 1e-3 {
				t.Errorf("%s: no power: a factor per key changes outputs by %.1g", name, e)
			}
		}
	})
}
