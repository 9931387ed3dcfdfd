package family

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// bottomSample keeps the rows with the smallest hashes: a uniform sample of the distinct rows that does not depend on
// their order, so merged statistics equal those of one pass.
type bottomSample struct {
	size int
	rows []hashedRow // ascending by hash
}

// hashedRow is a row with its hash; the row is owned by the sample.
type hashedRow struct {
	hash uint64
	row  []float64
}

func (s *bottomSample) add(x []float64) {
	if s.size <= 0 {
		return
	}
	s.insert(hashedRow{hash: hashRow(x), row: x}, true)
}

// insert keeps a row if its hash is among the smallest. copyRow says that the row belongs to the caller.
func (s *bottomSample) insert(h hashedRow, copyRow bool) {
	if len(s.rows) == s.size && h.hash >= s.rows[s.size-1].hash {
		return
	}
	at, found := slices.BinarySearchFunc(s.rows, h, func(a, b hashedRow) int { return cmp.Compare(a.hash, b.hash) })
	if found {
		return
	}
	if copyRow {
		h.row = slices.Clone(h.row)
	}
	if len(s.rows) == s.size {
		s.rows = s.rows[:s.size-1]
	}
	s.rows = slices.Insert(s.rows, at, h)
}

func (s *bottomSample) merge(o *bottomSample) {
	for _, h := range o.rows {
		s.insert(h, false)
	}
}

// matrix returns the rows in the order of their hashes.
func (s *bottomSample) matrix(dim int) dense.Matrix[float64] {
	m := dense.New[float64](len(s.rows), dim)
	for i, h := range s.rows {
		copy(m.Row(i), h.row)
	}
	return m
}

// hashRow is FNV-1a over the bits, finished with the mixer of SplitMix64.
func hashRow(x []float64) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range x {
		b := math.Float64bits(v)
		for range 8 {
			h = (h ^ b&0xff) * 1099511628211
			b >>= 8
		}
	}
	return rng.Finish64(h)
}
