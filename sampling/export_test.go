package sampling

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// CheckTree sums everything again with the same scales and compares bits.
func CheckTree[T dense.Float](s *Sampler[T]) error {
	crew := s.crews.Get()
	crew.Hire(1)
	want := append([]T(nil), s.tree.sums...)
	live := append([]int32(nil), s.tree.live...)
	for b := range s.tree.n {
		if err := s.sumBlocks(crew.Workers[0], b, b+1); err != nil {
			return err
		}
	}
	for i := s.tree.n - 1; i > 0; i-- {
		s.tree.join(i)
	}
	for i := s.tree.f; i < len(want); i++ {
		if want[i] != s.tree.sums[i] {
			return fmt.Errorf("feature %d of node %d is %v, built anew %v", i%s.tree.f, i/s.tree.f, want[i],
				s.tree.sums[i])
		}
	}
	for i := 1; i < len(live); i++ {
		if live[i] != s.tree.live[i] {
			return fmt.Errorf("node %d has %d classes, built anew %d", i, live[i], s.tree.live[i])
		}
	}
	return nil
}
