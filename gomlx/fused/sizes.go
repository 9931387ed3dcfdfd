package fused

import "math"

// Sizes are the numbers that a search may choose freely: they change times, not results.
type Sizes struct {
	Chunk int // rows of one sum
	// State is for the sums of keys, Query for the attention of queries; then the same of the backward pass, and its
	// gradients of keys.
	State, Query, DState, DQuery, DKey Tiling
}

// Tiling is how one kernel divides its work.
type Tiling struct {
	Rows   int // rows of a tile: of a step of a sum, or of a program
	Inner  int // causal: rows of the chunk that meet a tile at once; else: tiles of one program
	Warps  int
	Stages int
}

// turns is the number of tiles of one program: one, if not all programs would have Inner whole tiles.
func (t Tiling) turns(length int) int {
	if length%(t.Rows*t.Inner) == 0 {
		return t.Inner
	}
	return 1
}

// Fits reports whether sizes divide each other as the kernels of a shape need it.
func (s Shape) Fits(z Sizes) bool {
	fits := z.Chunk%z.State.Rows == 0 && z.Chunk%z.DState.Rows == 0
	for _, t := range []Tiling{z.Query, z.DQuery, z.DKey} {
		fits = fits && (!s.Causal || z.Chunk%t.Rows == 0 && t.Rows%t.Inner == 0)
	}
	return fits
}

// tuned are sizes for lengths up to a number, in order; `rfx tune` finds them.
type tuned struct {
	causal bool
	length int
	sizes  Sizes
}

// table was searched on an H200 with 8 heads, 64 columns, 128 features and bfloat16. The order of numbers is that of
// Sizes and Tiling.
var table = []tuned{
	{false, 4096, Sizes{256, Tiling{128, 1, 8, 4}, Tiling{64, 1, 4, 3}, Tiling{128, 1, 4, 3}, Tiling{64, 1, 4, 3},
		Tiling{64, 2, 4, 1}}},
	{false, 32768, Sizes{1024, Tiling{64, 1, 4, 3}, Tiling{64, 8, 4, 2}, Tiling{64, 1, 4, 4}, Tiling{64, 4, 4, 3},
		Tiling{64, 2, 4, 4}}},
	{false, math.MaxInt, Sizes{2048, Tiling{64, 1, 4, 3}, Tiling{64, 4, 4, 3}, Tiling{64, 1, 4, 3}, Tiling{64, 8, 4, 3},
		Tiling{64, 1, 4, 3}}},
	{true, 4096, Sizes{64, Tiling{64, 1, 8, 3}, Tiling{64, 64, 4, 3}, Tiling{64, 1, 4, 3}, Tiling{64, 64, 4, 1},
		Tiling{64, 32, 4, 1}}},
	{true, 32768, Sizes{128, Tiling{64, 1, 8, 3}, Tiling{64, 64, 4, 3}, Tiling{64, 1, 4, 3}, Tiling{64, 64, 4, 1},
		Tiling{64, 32, 4, 1}}},
	{true, math.MaxInt, Sizes{128, Tiling{32, 1, 4, 3}, Tiling{64, 64, 4, 3}, Tiling{64, 1, 4, 3}, Tiling{64, 64, 4, 1},
		Tiling{64, 32, 4, 1}}},
}

// room is the shared memory that the matrices of a program may take, in bytes: what was measured to be faster than a
// graph. Causal gradients with larger matrices were not measured.
func (s Shape) room() int {
	if s.Causal {
		return 48 << 10
	}
	return 160 << 10
}

// matrices are the bytes of projections and sums that a program holds.
func (s Shape) matrices() int {
	n := s.Features * (power(s.Dim) + power(s.Value))
	if s.Causal {
		n += s.Features * power(s.Dim)
	}
	if s.Half {
		return 2 * n
	}
	return 4 * n
}

// Sizes returns the sizes for a shape.
func (s Shape) Sizes() Sizes {
	var z Sizes
	for _, t := range table {
		if t.causal == s.Causal && max(s.Queries, s.Keys) <= t.length {
			z = t.sizes
			break
		}
	}
	if s.matrices() <= 48<<10 {
		return z
	}
	// Beside large matrices there is room for smaller tiles.
	for _, t := range []*Tiling{&z.State, &z.Query, &z.DState, &z.DQuery, &z.DKey} {
		t.Rows, t.Stages = 32, 1
		if s.Causal {
			t.Inner = 32
		}
	}
	return z
}
