package papers

import (
	"math"
	"slices"
	"testing"
)

// The permutations of NumPy 2.4.6 (any version since 1.17 has them):
//
//	python3 -c "import numpy as np
//	for n in (10, 1371, 28055):
//	    p = np.random.default_rng(42).permutation(n)
//	    print(n, p[:8], sum(int(v)*(i+1) for i, v in enumerate(p)) % 1000003)"
func TestNumpyOrder(t *testing.T) {
	for n, want := range map[int][]int{
		10:    {5, 6, 0, 7, 3, 2, 4, 9, 261},
		1371:  {140, 306, 866, 461, 45, 511, 20, 1097, 273669},
		28055: {3764, 2226, 18110, 9560, 9490, 7628, 17027, 9873, 17665},
	} {
		order := numpyOrder(n)
		sum := 0
		for i, v := range order {
			sum = (sum + v*(i+1)) % 1000003
		}
		if got := append(slices.Clone(order[:8]), sum); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// The draws of NumPy 2.4.6 and of the algorithm of SciPy 1.4.1, whose ortho_group.rvs takes normals in the same order:
//
//	python3 -c "import numpy as np; np.random.seed(1263)
//	print(np.random.uniform(-4, -3, 2), np.random.randint(2, size=8), np.random.normal(size=3))
//	from scipy.stats import ortho_group; np.random.seed(1265); print(ortho_group.rvs(3))"
func TestLegacy(t *testing.T) {
	r := newLegacy(1263)
	got := []float64{r.uniform(-4, -3), r.uniform(-4, -3)}
	for range 8 {
		got = append(got, float64(r.uint32()&1))
	}
	got = append(got, r.normal(), r.normal(), r.normal())
	got = append(got, newLegacy(1265).orthogonal(3).Data...)
	for i, want := range []float64{
		-3.8486606519417315, -3.51114502079516, 0, 1, 0, 1, 0, 0, 0, 1, 0.8862323302576073, -0.4247679397691342,
		0.6404492669008685, 0.5888406319412651, -0.606545471905628, 0.5341996824089201, -0.2566554185778525,
		-0.7670470520642723, -0.5880194010695035, -0.7664167967167989, -0.20914447262667324, 0.6073416528446506,
	} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("draw %d: %v, want %v", i, got[i], want)
		}
	}
}
