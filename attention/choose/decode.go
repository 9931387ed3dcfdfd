package choose

import (
	"fmt"

	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
)

// decodeGrid returns the candidates of Options.Decode: clusters of 16 or 8 keys on average, and increasing numbers of
// keys that a token reads exactly.
func decodeGrid(seed uint64, length int) []Plan {
	var out []Plan
	for _, size := range []int{16, 8} {
		for keys := 0; keys <= length/2; keys = max(32, keys*3/2/16*16) {
			s := decodeSpec(seed)
			s.Clusters, s.Top = s.Chunk/size, keys/size
			out = append(out, Plan{Method: Centroid, Centroid: &s})
		}
	}
	return out
}

// decodeSpec returns the settings that all plans for decoding share.
func decodeSpec(seed uint64) centroid.Spec {
	return centroid.Spec{Chunk: 256, Together: 1, Window: 64, Sinks: causalSinks, Seed: seed, Landmarks: fewLandmarks,
		Passes: 1}
}

// readAll returns the plan that reads all keys at every token: exact attention in the form of a decoding state.
func readAll(seed uint64) Plan {
	s := decodeSpec(seed)
	s.Clusters, s.Top = s.Chunk/16, allClusters
	return Plan{Method: Centroid, Centroid: &s}
}

// allClusters is a Top that exceeds the number of clusters of any sequence.
const allClusters = 1 << 28

// reads returns the time of a token after n others, in units of the time to read a centroid. On average half a chunk of
// recent keys is not in clusters yet. The keys of chosen clusters lie in many places of memory.
func reads(s centroid.Spec, n int) float64 {
	const scattered = 3 // centroids that are read in the time of one such key
	near := min(n, s.Sinks+s.Window+s.Chunk/2)
	clusters := float64(n-near) * float64(s.Clusters) / float64(s.Chunk)
	members := min(float64(n-near), float64(s.Top)*float64(s.Chunk)/float64(s.Clusters))
	return float64(near) + clusters + scattered*members
}

// decodeRows is the least number of rows, over all texts, that judge a plan for decoding: a few rows make most of its
// error.
const decodeRows = 512

// NewChunks returns an empty decoding state for batch sequences with qHeads query heads each. The choice must have been
// made with Options.Decode; errors wrap [ErrChoice].
func NewChunks[T dense.Float](c *Choice, batch, qHeads int) (*centroid.Chunks[T], error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := centroid.Attention[T]{Scale: c.Scale}
	for h := range c.Heads {
		if p := &c.Heads[h].Plan; p.Method != Centroid || p.Centroid.Chunk == 0 {
			return nil, fmt.Errorf("head %d has no plan for decoding, choose with Decode: %w", h, ErrChoice)
		}
		a.Specs = append(a.Specs, *c.Heads[h].Centroid)
	}
	return a.NewChunks(batch, qHeads, len(c.Heads), c.Dim, c.ValueDim)
}
