package centroid

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/internal/kern"
)

// selector finds the largest of many numbers. It is scratch memory for one goroutine.
type selector struct {
	value  []float32
	index  []int32
	bucket []uint8
	edge   []int32
}

// roomy is [buf.Sized] for slices that grow a little at a time.
func roomy[E any](b []E, n int) []E {
	if cap(b) < n {
		return make([]E, n, n+n/2)
	}
	return b[:n]
}

const (
	// One number of sampleStep, or fewer if there are many, is in the sample that bounds the n-th largest.
	sampleStep = 8
	sampleMost = 512
	buckets    = 256
)

// top sets dst to the indices of the n largest numbers of x in ascending order; of equal numbers the first count. x has
// more than n ≥ 1 elements, none of them NaN.
//
// A sample gives a bound that the n-th largest number hardly falls below. The numbers above it are sorted into buckets
// of equal width, and only the bucket of the n-th largest is sorted fully. If too few numbers are above the bound, all
// of them go into buckets.
func (s *selector) top(dst []int32, x []float32, n int, tab *kern.Table[float32]) []int32 {
	hi := tab.Max(x)
	s.value, s.index = roomy(s.value, len(x)), roomy(s.index, len(x))
	if step := max(sampleStep, len(x)/sampleMost); len(x) >= 8*step {
		sample := s.value[:len(x)/step]
		low := x[0]
		for i := range sample {
			v := x[i*step]
			sample[i] = v
			low = min(low, v)
		}
		share := float64(n) / float64(step)
		rank := int(share+3*math.Sqrt(share)) + 3
		if rank < len(sample) {
			low = s.nth(sample, rank, low, hi)
			if got := tab.Above(s.index, x, low); got >= n {
				value := s.value[:got]
				for i, j := range s.index[:got] {
					value[i] = x[j]
				}
				s.divide(value, n, low, hi)
				return s.appendTaken(dst[:0], s.index[:got])
			}
		}
	}
	low := x[0]
	for i, v := range x {
		low = min(low, v)
		s.index[i] = int32(i)
	}
	s.divide(x, n, low, hi)
	return s.appendTaken(dst[:0], s.index)
}

// fall puts the numbers of x into buckets from hi down to low. It returns the bucket of the n-th largest and the count
// of numbers in the buckets before it. ok is false if the range is empty or too wide for T.
func (s *selector) fall(x []float32, n int, low, hi float32) (edge uint8, before int, ok bool) {
	s.bucket = roomy(s.bucket, len(x))
	f := (buckets - 1) / (hi - low)
	if !(f > 0 && f < float32(math.Inf(1)) && hi-low < float32(math.Inf(1))) {
		return 0, 0, false
	}
	var counts [buckets]int32
	bucket := s.bucket[:len(x)]
	for i, v := range x {
		b := uint8(int32((hi - v) * f))
		bucket[i] = b
		counts[b]++
	}
	for before+int(counts[edge]) < n {
		before += int(counts[edge])
		edge++
	}
	return edge, before, true
}

// nth returns a number near the n-th largest of x and not above it.
func (s *selector) nth(x []float32, n int, low, hi float32) float32 {
	edge, _, ok := s.fall(x, n, low, hi)
	if !ok {
		return low
	}
	best := hi
	for i, b := range s.bucket {
		if b == edge {
			best = min(best, x[i])
		}
	}
	return best
}

// divide sets s.bucket to 1 for the n largest numbers of x, of equal ones the first, and to 0 for all others.
func (s *selector) divide(x []float32, n int, low, hi float32) {
	edge, before, ok := s.fall(x, n, low, hi)
	if !ok {
		clear(s.bucket)
	}
	s.edge = s.edge[:0]
	for i, b := range s.bucket {
		if b == edge {
			s.edge = append(s.edge, int32(i))
		}
		taken := uint8(0)
		if b < edge {
			taken = 1
		}
		s.bucket[i] = taken
	}
	if len(s.edge) > n-before {
		slices.SortFunc(s.edge, func(i, j int32) int {
			switch {
			case x[i] > x[j]:
				return -1
			case x[i] < x[j]:
				return 1
			}
			return int(i - j)
		})
		s.edge = s.edge[:n-before]
	}
	for _, i := range s.edge {
		s.bucket[i] = 1
	}
}

// appendTaken appends the elements of index that divide has marked. It writes every element and advances only for
// marked ones, which avoids an unpredictable branch.
func (s *selector) appendTaken(dst, index []int32) []int32 {
	dst = slices.Grow(dst, len(index))
	all, n := dst[:cap(dst)], len(dst)
	for i, b := range s.bucket {
		all[n] = index[i]
		n += int(b)
	}
	return all[:n]
}
