package centroid

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// selector finds the largest of many numbers; it is scratch memory.
type selector[T dense.Float] struct {
	value  []T
	index  []int32
	bucket []uint8
	edge   []int32
}

// roomy is [buf.Sized] for what grows a little at a time.
func roomy[E any](b []E, n int) []E {
	if cap(b) < n {
		return make([]E, n, n+n/2)
	}
	return b[:n]
}

const (
	// sampleStep numbers have one in the sample that bounds the n-th largest.
	sampleStep = 8
	buckets    = 256
)

// top sets dst to the indices of the n largest of x, ascending; of equal ones the first. x has more than n ≥ 1
// elements, none of them NaN.
//
// A sample tells a bound below which the n-th largest hardly lies; what passes it falls into buckets of equal width,
// and only those in the bucket of the n-th are sorted.
func (s *selector[T]) top(dst []int32, x []T, n int, tab *kern.Table[T]) []int32 {
	hi := tab.Max(x)
	s.value, s.index = roomy(s.value, len(x)), roomy(s.index, len(x))
	if len(x) >= 4*n && len(x) >= 8*sampleStep {
		m := len(x) / sampleStep
		for i := range m {
			s.value[i] = x[i*sampleStep]
		}
		share := float64(n) / sampleStep
		rank := int(share+3*math.Sqrt(share)) + 3
		if rank < m {
			low := s.nth(s.value[:m], rank, hi)
			if got := s.pass(x, low); got >= n {
				return s.choose(dst, s.value[:got], s.index[:got], n, low, hi)
			}
		}
	}
	low := x[0]
	for i, v := range x {
		low = min(low, v)
		s.index[i] = int32(i)
	}
	return s.choose(dst, x, s.index[:len(x)], n, low, hi)
}

// pass keeps the numbers that are at least low, with their indices.
func (s *selector[T]) pass(x []T, low T) int {
	n := 0
	value, index := s.value[:len(x)], s.index[:len(x)]
	for i, v := range x {
		if v >= low {
			value[n], index[n] = v, int32(i)
			n++
		}
	}
	return n
}

// fall puts x into buckets between hi and low and returns the one that holds the n-th largest, and how many are in
// those before it. False: the range is empty, or too wide for T.
func (s *selector[T]) fall(x []T, n int, low, hi T) (edge uint8, before int, ok bool) {
	s.bucket = roomy(s.bucket, len(x))
	f := (buckets - 1) / (hi - low)
	if !(f > 0 && f < T(math.Inf(1)) && hi-low < T(math.Inf(1))) {
		return 0, 0, false
	}
	var counts [buckets]int32
	bucket := s.bucket[:len(x)]
	for i, v := range x {
		b := uint8((hi - v) * f)
		bucket[i] = b
		counts[b]++
	}
	for before+int(counts[edge]) < n {
		before += int(counts[edge])
		edge++
	}
	return edge, before, true
}

// nth is a number near the n-th largest of x, not above it.
func (s *selector[T]) nth(x []T, n int, hi T) T {
	low := slices.Min(x)
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

// choose appends the indices of the n largest of x.
func (s *selector[T]) choose(dst []int32, x []T, index []int32, n int, low, hi T) []int32 {
	dst = dst[:0]
	edge, before, ok := s.fall(x, n, low, hi)
	if !ok {
		clear(s.bucket)
	}
	s.edge = s.edge[:0]
	for i, b := range s.bucket {
		if b == edge {
			s.edge = append(s.edge, int32(i))
		}
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
		slices.Sort(s.edge)
	}
	next := 0
	for i, b := range s.bucket {
		if b < edge {
			dst = append(dst, index[i])
		} else if next < len(s.edge) && int(s.edge[next]) == i {
			dst = append(dst, index[i])
			next++
		}
	}
	return dst
}
