// Package rng derives independent random streams from one seed.
//
// Every draw of the library starts here: there is no global generator, and the stream of one part never
// depends on how much another part consumed.
package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// Stream returns the stream of a seed and a path of labels. Different paths give independent streams:
// the ChaCha8 key is the hash of the whole path.
func Stream(seed uint64, path ...uint64) *rand.ChaCha8 {
	h := sha256.New()
	h.Write([]byte("randfeat/1"))
	var b [8]byte
	write := func(v uint64) {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	write(seed)
	for _, v := range path {
		write(v)
	}
	var key [32]byte
	h.Sum(key[:0])
	return rand.NewChaCha8(key)
}

// Normals fills dst with independent N(0,1) values.
func Normals(dst []float64, src rand.Source) {
	r := rand.New(src)
	for i := range dst {
		dst[i] = r.NormFloat64()
	}
}

// Chi draws the norm of an N(0, I_d) vector without drawing the vector: sqrt(2·Gamma(d/2, 1)).
// It panics if d < 1.
func Chi(d int, src rand.Source) float64 {
	return math.Sqrt(2 * distuv.Gamma{Alpha: float64(d) / 2, Beta: 1, Src: src}.Rand())
}

// Uniform draws from the half-open interval [0,1).
func Uniform(src rand.Source) float64 { return rand.New(src).Float64() }

// Open draws from the open interval (0,1): the 2^52 odd multiples of 2^-53, equally likely. It is what a
// quantile function with infinite ends wants.
func Open(src rand.Source) float64 { return OpenFromBits(src.Uint64() >> 12) }

// OpenFromBits is the midpoint (k + 1/2)·2^-52 of the k-th of 2^52 equal cells of (0,1), exactly representable.
func OpenFromBits(k uint64) float64 { return (float64(k) + 0.5) * 0x1p-52 }

// Signs fills dst with independent Rademacher values ±1. It consumes one word per 64 signs.
func Signs(dst []float64, src rand.Source) {
	var word uint64
	for i := range dst {
		if i%64 == 0 {
			word = src.Uint64()
		}
		dst[i] = 1 - 2*float64(word&1)
		word >>= 1
	}
}

// Mix64 is the output function of SplitMix64 one step after state x (Steele, Lea and Flood 2014): a permutation of
// 64-bit words that turns counters into random bits.
func Mix64(x uint64) uint64 { return Finish64(x + Golden64) }

// Golden64 is 2⁶⁴ over the golden ratio, the step of SplitMix64.
const Golden64 = 0x9e3779b97f4a7c15

// Finish64 is the last stage of Mix64, for values that are hashes already.
func Finish64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
