package models

import (
	"hash/fnv"
	"math"
	"path"
	"strings"

	"github.com/randfeat/randfeat/internal/rng"
)

// Initial are the first values of a parameter, by its path alone: the same on every backend, whatever else the model
// has. Matrices have rows of norm about 1, those that end a residual branch less, embeddings 0.02.
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
