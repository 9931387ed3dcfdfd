package fused

// Sizes are the numbers that a search may choose freely: they change times, not results.
type Sizes struct {
	Chunk int // rows of one sum
	Step  int // rows that one step of a sum takes
	Tile  int // queries of one program; with gradients also keys
	Pairs int // keys of a chunk that meet a tile of queries at once
	Turns int // tiles of one program, if not causal

	StateWarps, StateStages, QueryWarps, QueryStages, CausalWarps, CausalStages int
}

// turns is the number of tiles of one program: one, if not all programs would have Turns whole tiles.
func (z Sizes) turns(length int) int {
	if length%(z.Tile*z.Turns) == 0 {
		return z.Turns
	}
	return 1
}

// Sizes returns the sizes for a shape.
func (s Shape) Sizes() Sizes {
	z := Sizes{Chunk: 128, Step: 64, Tile: 64, Pairs: 64, Turns: 1, StateWarps: 4, StateStages: 3, QueryWarps: 4,
		QueryStages: 3, CausalWarps: 4, CausalStages: 3}
	return z
}
