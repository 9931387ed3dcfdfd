package auto

import "github.com/randfeat/randfeat/internal/rng"

// fold is the fold of row i. Every k consecutive rows are dealt to the k folds in an order of their own, so that folds
// have equal sizes, whatever the order of the rows means, and a row's fold depends on nothing but its number: a pass
// can be resumed, or cut into blocks, anywhere. Rows are taken to be exchangeable: neighbours that resemble each other,
// as in a time series, come to lie in different folds, and scores are then too good. O(k) per row. The remainder of 64
// bits by j+1 ≤ k is uneven by less than k·2⁻⁶⁴.
func fold(seed uint64, i int64, k int) int {
	group, at := uint64(i)/uint64(k), int(uint64(i)%uint64(k))
	// Fisher–Yates, followed for position at only: the element that ends there.
	state := rng.Mix64(seed ^ foldLabel ^ rng.Mix64(group))
	var small [16]int
	perm := small[:]
	if k > len(small) {
		perm = make([]int, k)
	}
	for j := range k {
		state += rng.Golden64
		r := int(rng.Mix64(state) % uint64(j+1))
		perm[j], perm[r] = perm[r], j
	}
	return perm[at]
}

// priority orders rows for the sample: those with the smallest values are taken. Mix64 is a permutation of words, so no
// two rows have the same, and one number, the largest priority taken, says of any row whether it is in the sample.
func priority(seed uint64, i int64) uint64 {
	return rng.Mix64(seed ^ sampleLabel ^ rng.Mix64(uint64(i)))
}

// Labels of the uses of one seed, which keep them apart: the ASCII of folds, sample, pairs and exact. To
// change one is to change every result.
const (
	foldLabel   = 0x666f6c6473
	sampleLabel = 0x73616d706c65
	pairLabel   = 0x7061697273
	exactLabel  = 0x6578616374
)
