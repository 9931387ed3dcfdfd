package fused

import (
	"fmt"
	"math/bits"

	"github.com/randfeat/randfeat/gomlx/triton"
)

// Shape says what a call computes.
type Shape struct {
	Batch, Heads, KVHeads int
	Queries, Keys         int
	Dim, Value            int
	Features              int // a power of two, at least 16: missing ones have the bias Off
	Maps                  int // 1, or KVHeads: one map for each of them
	Rows                  int // 0, 1 or KVHeads: terms of single keys [Batch, Rows, Keys]; Off masks a key
	Causal                bool
	Half                  bool // bfloat16, else float32
	Products              triton.Precision
}

// Off is the exponent of keys and features that do not count, and empty is that of an empty sum. Empty sums stay above
// masked keys, so that those weigh nothing.
const (
	Off   = -1e9
	empty = -5e8
)

// lift is the logarithm of the largest feature of a row inside a chunk. Above 0, fewer of the products of two small
// features underflow.
const lift = 23

func (s Shape) elem() triton.Elem {
	if s.Half {
		return triton.BF16
	}
	return triton.F32
}

func (s Shape) group() int { return s.Heads / s.KVHeads }

// Check returns an error if there are no kernels for a shape.
func (s Shape) Check() error {
	switch {
	case s.Heads%s.KVHeads != 0 || s.Maps != 1 && s.Maps != s.KVHeads ||
		s.Rows != 0 && s.Rows != 1 && s.Rows != s.KVHeads:
		return fmt.Errorf("fused: %d heads, %d key/value heads, %d maps, %d rows", s.Heads, s.KVHeads, s.Maps, s.Rows)
	case s.Causal && s.Queries != s.Keys:
		return fmt.Errorf("fused: %d queries and %d keys of causal attention", s.Queries, s.Keys)
	case s.Features < 16 || s.Features > 512 || s.Features&(s.Features-1) != 0:
		return fmt.Errorf("fused: %d features", s.Features)
	case s.Dim < 1 || s.Dim > 256 || s.Value < 1 || s.Value > 256 || s.Queries < 1 || s.Keys < 1:
		return fmt.Errorf("fused: %d queries, %d keys of %d columns, values of %d", s.Queries, s.Keys, s.Dim, s.Value)
	case s.matrices() > s.room():
		return fmt.Errorf("fused: %d features of %d columns and values of %d do not fit a program", s.Features,
			s.Dim, s.Value)
	case s.Batch*s.Heads > 65535:
		return fmt.Errorf("fused: %d heads in all", s.Batch*s.Heads)
	}
	return nil
}

// block is the number of features that one product takes: its sums are held in registers.
func (s Shape) block() int { return min(s.Features, 128, 16384/max(power(s.Value), power(s.Dim))) }

// blocks is the number of blocks of features.
func (s Shape) blocks() int { return s.Features / s.block() }

// power is the power of two from 16 on that holds n numbers.
func power(n int) int { return max(16, 1<<bits.Len(uint(n-1))) }

// ceil is n/d rounded up.
func ceil(n, d int) int { return (n + d - 1) / d }
