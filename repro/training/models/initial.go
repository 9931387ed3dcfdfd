package models

import (
	"hash/fnv"
	"math"
	"path"
	"strings"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Group returns the group of a parameter, by its path.
func (c Config) Group(name string) train.Group {
	switch {
	case path.Base(name) == "dark":
		return train.Kernel
	case path.Base(name) == "lfk":
		return train.Features
	case strings.Contains(name, "/MultiHeadAttention/") && !strings.Contains(name, "/output/"):
		return train.Projections
	}
	return train.Body
}

// String names the model and its attention.
func (c Config) String() string {
	attention := c.Attention
	if attention == "" {
		attention = "exact"
	}
	if c.Dark {
		attention += " (with M)"
	}
	return string(c.Kind) + ", " + attention + " attention"
}

// Initial returns the initial values of a parameter. They depend only on its path and the seed, so they are the same
// on every backend and in models with other parts. Matrices have rows of norm about 1, less at the end of a residual
// branch; embeddings have a deviation of 0.02.
func (c Config) Initial(name string, dims []int, seed uint64) []float32 {
	size := 1
	for _, n := range dims {
		size *= n
	}
	x := make([]float32, size)
	scale := 0.0
	switch last := path.Base(name); {
	case last == "gain":
		for i := range x {
			x[i] = 1
		}
	case last == "embeddings":
		scale = 0.02
	case last == "weights":
		scale = 1 / math.Sqrt(float64(dims[0]))
		if strings.Contains(name, "/output/") || strings.Contains(name, "/down/") {
			scale /= math.Sqrt(2 * float64(c.Layers))
		}
	}
	if scale == 0 {
		scale = recurrentScale(path.Base(name), dims)
	}
	if scale == 0 {
		return x
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	v := make([]float64, size)
	rng.Normals(v, rng.Stream(seed, h.Sum64()))
	for i := range x {
		x[i] = float32(scale * v[i])
	}
	return x
}
