package choose

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The errors to expect of one query over two keys, one of which has two thirds of the attention.
func TestPredictorOfOneRow(t *testing.T) {
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 2, M: 256}
	keys := rowKeys{
		Embedded:  dense.Matrix[float64]{Rows: 2, Cols: 2, Stride: 2, Data: []float64{0.5, 0.2, -0.4, 0.1}},
		Attention: []float64{2. / 3, 1. / 3},
		Exact:     make([]bool, 2),
		// of 1 and 0 from ⅔
		Deviations: dense.Matrix[float64]{Rows: 2, Cols: 1, Stride: 1, Data: []float64{1. / 3, -2. / 3}},
	}
	p := newPredictor(spec)
	row, err := p.row([]float64{0.7, -0.1}, keys)
	if err != nil {
		t.Fatal(err)
	}
	sum := p.sum()
	sum.add(row, 4./9, 5./9) // squared lengths of the output and of the attention
	total := sum.prediction()
	got := fmt.Sprintf("output %.3f, attention %.3f, denominator %.3f (%v)", total.Output, total.Row, total.Denominator,
		total.Basis)
	if want := "output 0.033, attention 0.041, denominator 0.080 (covariances)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// threeKeys is a query, three keys that differ much, their attention and deviations that sum to 0.
func threeKeys(t *testing.T) (x []float64, k rowKeys) {
	t.Helper()
	k = rowKeys{Embedded: dense.New[float64](3, 2), Attention: []float64{0.7, 0.2, 0.1}, Exact: make([]bool, 3),
		Deviations: dense.New[float64](3, 2)}
	copy(k.Embedded.Data, []float64{0.5, 0.2, -0.9, 0.4, 1.1, -1.3})
	copy(k.Deviations.Data, []float64{0.1, -0.2, -0.5, 0.3, 0.3, 0.8})
	return []float64{0.7, -0.4}, k
}

// With all keys the prediction is the double sums of prediction.
func TestPredictorIsTheDoubleSum(t *testing.T) {
	x, k := threeKeys(t)
	p := newPredictor(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 2,
		M: 8})
	got, err := p.row(x, k)
	must(t, err)
	cov := p.law.At(x, k.Embedded)
	var output, attention, den float64
	for i, a := range k.Attention {
		for j, b := range k.Attention {
			den += a * b * cov(i, j) / 8
			output += a * b * cov(i, j) / 8 * dense.Dot(k.Deviations.Row(i), k.Deviations.Row(j))
		}
	}
	for i, a := range k.Attention {
		mixed := 0.0
		for j, b := range k.Attention {
			mixed += b * cov(i, j) / 8
		}
		attention += a * a * (cov(i, i)/8 - 2*mixed + den)
	}
	for _, c := range [][2]float64{{got.Denominator, den}, {got.Output, output / (1 + den)},
		{got.Attention, attention / (1 + den)}} {
		if math.Abs(c[0]-c[1]) > 1e-12*math.Abs(c[1]) {
			t.Errorf("%v, want %v", c[0], c[1])
		}
	}
}

// The denominator of a sample of keys is unbiased: over all samples of two, with their probabilities, its mean is that
// of all keys.
func TestPredictorOfSampledKeysIsUnbiased(t *testing.T) {
	x, k := threeKeys(t)
	p := newPredictor(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 2,
		M: 8})
	all, err := p.row(x, k)
	must(t, err)
	mean := 0.0
	for i, a := range k.Attention {
		for j, b := range k.Attention {
			s := rowKeys{Embedded: dense.New[float64](2, 2), Attention: []float64{a, b}, Exact: make([]bool, 2),
				Deviations: dense.New[float64](2, 2), Sampled: true}
			for l, from := range []int{i, j} {
				copy(s.Embedded.Row(l), k.Embedded.Row(from))
				copy(s.Deviations.Row(l), k.Deviations.Row(from))
			}
			one, err := p.row(x, s)
			must(t, err)
			mean += a * b * one.Denominator
		}
	}
	if math.Abs(mean-all.Denominator) > 1e-12*all.Denominator {
		t.Errorf("mean %v, want %v", mean, all.Denominator)
	}
}

// The variances of a coupling count by the squares of the attention.
func TestPredictorRatioOfCoupling(t *testing.T) {
	x, k := threeKeys(t)
	p := newPredictor(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{},
		Coupling: coupling.Orthogonal{}, Dim: 2, M: 8})
	if p.basis != scaledCovariances {
		t.Fatalf("basis %v", p.basis)
	}
	got, err := p.ratio(x, k)
	must(t, err)
	var coupled, free float64
	for i, a := range k.Attention {
		c, err := p.moments(coupling.Orthogonal{}, x, k.Embedded.Row(i))
		must(t, err)
		f, err := p.moments(nil, x, k.Embedded.Row(i))
		must(t, err)
		coupled += a * a * math.Exp(c.LogRelVar())
		free += a * a * math.Exp(f.LogRelVar())
	}
	if want := coupled / free; math.Abs(got-want) > 1e-12 {
		t.Errorf("ratio %v, want %v", got, want)
	}
}
