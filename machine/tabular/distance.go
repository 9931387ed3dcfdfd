package tabular

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// medianPairs is the number of pairs whose median distance starts the search for a bandwidth. The rank of the median
// then has a standard error of ½/√4096 = 0.8 %, far finer than the steps of the grid, at 4096·d operations.
const medianPairs = 4096

// medianDistance returns the median distance of random pairs of rows, the usual first guess of a bandwidth. Pairs of
// equal rows are skipped; otherwise a table with few distinct rows would get bandwidth 0. It returns 1 if all rows are
// equal.
//
// The distance is that of the kernel: the sum of absolute differences for the Laplace kernel.
func medianDistance(x matrix, kind kernel.Kind, seed uint64) float64 {
	n := uint64(x.Rows)
	far := make([]float64, 0, medianPairs)
	for i := range uint64(medianPairs) {
		a, b := rng.Mix64(seed^pairLabel^rng.Mix64(2*i))%n, rng.Mix64(seed^pairLabel^rng.Mix64(2*i+1))%n
		sum := 0.0
		y := x.Row(int(b))
		for j, v := range x.Row(int(a)) {
			if kind == kernel.Laplace {
				sum += math.Abs(v - y[j])
			} else {
				sum += float64((v - y[j]) * (v - y[j]))
			}
		}
		if kind != kernel.Laplace {
			sum = math.Sqrt(sum)
		}
		if sum > 0 {
			far = append(far, sum)
		}
	}
	if len(far) == 0 {
		return 1
	}
	return selected(far, len(far)/2)
}

// selected returns the value that sorting would put at index k. It reorders v.
func selected(v []float64, k int) float64 {
	for len(v) > selectedSort {
		n := len(v)
		a, b, c := v[0], v[n/2], v[n-1]
		pivot := max(min(a, b), min(max(a, b), c)) // their median
		lo, mid, hi := 0, 0, n                     // below the pivot, equal to it, above it
		for mid < hi {
			switch x := v[mid]; {
			case x < pivot:
				v[lo], v[mid] = x, v[lo]
				lo, mid = lo+1, mid+1
			case x > pivot:
				hi--
				v[mid], v[hi] = v[hi], x
			default:
				mid++
			}
		}
		switch {
		case k < lo:
			v = v[:lo]
		case k < hi:
			return pivot
		default:
			v, k = v[hi:], k-hi
		}
	}
	slices.Sort(v)
	return v[k]
}

// selectedSort is the length up to which selected sorts.
const selectedSort = 16
