package choose

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
)

// decodeGrid returns the candidates of Options.Decode for texts of length tokens: keys are exact from falling shares of
// all weights on.
func decodeGrid(seed uint64, length int) []Plan {
	var out []Plan
	for share := largestShare; share > largestShare*0x1p-11; share /= math.Sqrt2 {
		out = append(out, sharePlan(seed, length, share))
	}
	return out
}

// largestShare is the Spec.Share of the cheapest plan.
const largestShare = 0.1

// sharePlan is a plan for decoding. Half a chunk of recent keys and the centroids of all others are read at every
// token: their number is least for chunks of √(2·clusters·length) keys. Up to evenChunk keys, larger chunks are better,
// since recent keys matter most and lie side by side. Beyond, errors differ too much between the tokens that follow a
// new chunk, which see few recent keys, and those before the next one.
func sharePlan(seed uint64, length int, share float64) Plan {
	const clusters = 16
	chunk := 128
	for chunk < evenChunk && chunk*chunk < 8*clusters*length ||
		chunk < maxDecodeChunk && chunk*chunk < 2*clusters*length {
		chunk *= 2
	}
	return Plan{Method: Centroid, Centroid: centroid.Sketch{Chunk: chunk, Clusters: clusters, Window: 64,
		Sinks: decodeSinks, Seed: seed, Landmarks: fewLandmarks, Passes: 1, Share: share}}
}

const (
	decodeSinks    = 4 // the first tokens of a text matter
	evenChunk      = 512
	maxDecodeChunk = 1024 // a step sorts them now and then
)

// readAll returns the plan that reads all keys at every token: exact attention in the form of a decoding state.
func readAll(seed uint64, length int) Plan { return sharePlan(seed, length, 1e-30) }

// decodeRows bounds the rows that guide the search for a plan for decoding, over all texts, and the fresh rows that
// judge it; allRows has both.
const decodeRows = 2048

// NewChunks returns an empty decoding state for queries of shape q and values of shape v, whose lengths do not matter.
// A choice that was not made with Options.Decode is an error that wraps [ErrChoice].
func NewChunks(c *Choice, q, v attention.Shape) (*centroid.Chunks, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := &centroid.Attention{Scale: c.Scale}
	for h := range c.Heads {
		s, ok := c.Heads[h].Centroid.(centroid.Sketch)
		if !ok {
			return nil, fmt.Errorf("head %d has no plan for decoding, choose with Decode: %w", h, ErrChoice)
		}
		a.Specs = append(a.Specs, s)
	}
	if v.Heads != len(c.Heads) || q.Dim != c.Dim || v.Dim != c.ValueDim {
		return nil, fmt.Errorf("a choice for %d key/value heads of %d and %d columns, queries %v and values %v: %w",
			len(c.Heads), c.Dim, c.ValueDim, q, v, dense.ErrShape)
	}
	return centroid.NewChunks(a, q, v)
}
