package choose_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

func normals(heads, length, dim int, scale float64, seed uint64) attention.Seq[float32] {
	s := attention.NewSeq[float32](1, heads, length, dim)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range s.Data {
		s.Data[i] = float32(scale * r.NormFloat64() / math.Sqrt(float64(1+i%dim)))
	}
	return s
}

// What to expect of a map, and what it gives, on a sample of rows.
func ExampleCompare() {
	const d, length = 32, 1000
	q, k, v := normals(1, length, d, 0.7, 1), normals(1, length, d, 0.7, 2), normals(1, length, d, 1, 3)
	for _, f := range []family.Family{family.Positive{}, family.Trig{}, family.ReLU{}} {
		m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Dim: d, M: 256, Seed: 7})
		if err != nil {
			fmt.Println(err)
			return
		}
		c, err := choose.Compare(&linear.Attention[float32]{Maps: []randfeat.FeatureMap[float32]{m}}, q, k, v,
			choose.CompareOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		p := c.Predicted
		fmt.Printf("%s: output error %.2f, predicted %.2f (%v)\n", f.Name(), c.Output, p.Output, p.Basis)
	}
	// Output:
	// positive: output error 0.05, predicted 0.06 (covariances)
	// trig: output error 0.03, predicted 0.03 (covariances)
	// relu: output error 0.38, predicted NaN (no prediction)
}
