package choose

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
)

// decodeGrid returns the candidates of Options.Decode: clusters of 8 keys on average that are opened from falling
// expected errors on.
func decodeGrid(seed uint64) []Plan {
	var out []Plan
	for open := largestOpen; open > largestOpen*0x1p-12; open /= math.Sqrt2 {
		out = append(out, openPlan(seed, open))
	}
	return out
}

// largestOpen is the Spec.Open of the cheapest plan.
const largestOpen = 0.32

// openPlan is a plan for decoding.
func openPlan(seed uint64, open float64) Plan {
	return Plan{Method: Centroid, Centroid: &centroid.Spec{Chunk: 256, Clusters: 32, Together: 1, Window: 64,
		Sinks: causalSinks, Seed: seed, Landmarks: fewLandmarks, Passes: 1, Open: open}}
}

// readAll returns the plan that reads all keys at every token: exact attention in the form of a decoding state.
func readAll(seed uint64) Plan { return openPlan(seed, 1e-30) }

const (
	// decodeRows bounds the rows that guide the search for a plan for decoding, over all texts, and the fresh rows that
	// judge it; allRows has both. One row of a thousand can make half of the error.
	decodeRows = 2048
	// decodeSpread is the assumed standard deviation of the error between texts, in logarithms.
	decodeSpread = 0.25
)

// NewChunks returns an empty decoding state for batch sequences with qHeads query heads each. A choice that was not
// made with Options.Decode is an error that wraps [ErrChoice].
func NewChunks[T dense.Float](c *Choice, batch, qHeads int) (*centroid.Chunks[T], error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := &centroid.Attention[T]{Scale: c.Scale}
	for h := range c.Heads {
		if p := &c.Heads[h].Plan; p.Method != Centroid || p.Centroid.Chunk == 0 || p.Centroid.Keys > 0 {
			return nil, fmt.Errorf("head %d has no plan for decoding, choose with Decode: %w", h, ErrChoice)
		}
		a.Specs = append(a.Specs, *c.Heads[h].Centroid)
	}
	return centroid.NewChunks(a, batch, qHeads, len(c.Heads), c.Dim, c.ValueDim)
}
