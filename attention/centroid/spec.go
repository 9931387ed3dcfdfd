package centroid

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// ErrSpec marks every error about the fields of a Spec.
var ErrSpec = errors.New("invalid centroid spec")

// Spec describes how the keys of one head are summarised and which keys a query sees exactly. It is plain data. In most
// fields 0 means none or a default, as the field's comment says.
type Spec struct {
	// Clusters is the number of centroids k. Multiples of 32 fill the vector kernels. In proportion to √L, attention
	// takes O(L^1.5) time. With 0, keys outside the window and the sinks are ignored.
	Clusters int `json:"clusters"`
	// Top is the number of clusters whose members are exact for a query: those with the largest expected error; 0:
	// none.
	Top int `json:"top,omitempty"`
	// Keys is the number of keys that are chosen one by one. In causal attention it limits the exact members of the Top
	// clusters to those with the best residual scores; 0: all members. In bidirectional attention it goes with
	// Together, without Top: the keys with the largest weight for the mean query of a block are exact for the block,
	// and the others are in centroids that are made for it. Causal attention with Chunk does the same with the keys
	// before a chunk.
	Keys int `json:"keys,omitempty"`
	// Residual is the number of residual directions that Spread and Keys use; 0: 16.
	Residual int `json:"residual,omitempty"`
	// Bits is the size of one residual number of a key in a streaming state: 8 or 4; 0: 8.
	Bits int `json:"bits,omitempty"`
	// Spread adds the variance inside a cluster to its weight. It is for causal attention, whose centroids are plain
	// means of the keys so far.
	Spread bool `json:"spread,omitempty"`
	// Together is the number of queries that choose their exact clusters together; Top then counts clusters per block
	// of queries, over all query heads of a group, and Keys counts keys per block. All products become dense tiles, as
	// in exact attention. 0: every query chooses for itself. Bidirectional queries are sorted first, need Keys, and
	// there is no window. Causal blocks need Chunk: they are sorted queries of a chunk with Keys, and neighbours
	// without.
	Together int `json:"together,omitempty"`
	// Chunk is the number of consecutive keys that are clustered on their own, into Clusters each, once all of them
	// have left the window. It is for causal attention, which then needs no fitted centres. 0: all keys share the same
	// centres. With Keys, queries see the keys of their own chunk and the Window keys before it exactly; a block
	// of Together queries of a chunk, which are sorted, chooses Keys exact keys among those before, and Clusters
	// centroids stand for the others.
	Chunk int `json:"chunk,omitempty"`
	// Share is for causal attention with Chunk and Together 1, instead of Top: a key is exact if its weight differs
	// from the weight that its centroid gives it by at least this share of all weights of a query; see sketch.go. All
	// keys are exact for less than 1e-9. Masked keys take no position: rows equal the rows of the visible keys alone.
	// 0: Top clusters are exact.
	Share float64 `json:"share,omitempty"`
	// Start is for causal attention with Chunk and Keys: queries of chunks that begin before this position see all keys
	// exactly, and centres are trained when Start, 2·Start, 4·Start, … keys are there. 0: Chunk.
	Start int `json:"start,omitempty"`
	// Shared makes one choice of clusters and keys for all query heads of a group.
	Shared bool `json:"shared,omitempty"`
	// Sinks is the number of first keys that are always exact.
	Sinks int `json:"sinks,omitempty"`
	// Window and Block define the exact neighbours. A query at position p of the block [b, b+Block) sees the keys
	// [b−Window, b+Block+Window), or [b−Window, p] if causal. Block 1 is a sliding window. Block 0 means 64 if causal
	// and 16 otherwise; bidirectional attention with Window 0 and Block 0 has no exact neighbours.
	Window int `json:"window,omitempty"`
	Block  int `json:"block,omitempty"`
	// Landmarks is the number of queries per head whose attention weights the keys in the fit; 0: 32, or 128 if causal.
	// A causal fit is made once, on other text, and can afford more.
	Landmarks int `json:"landmarks,omitempty"`
	// Passes is the number of iterations of Lloyd's algorithm after seeding; 0: 2, or 4 if causal.
	Passes int `json:"passes,omitempty"`
	// Sample limits the number of keys that train the clusters; 0: 16 per cluster, at least 1024, or 65536 if causal.
	Sample int `json:"sample,omitempty"`
	// Values is the weight of the values in the clustering: one standard deviation of the values counts like a
	// difference of Values in a logit; 0: keys alone.
	Values float64 `json:"values,omitempty"`
	// Seed of the k-means seeding and of the sample.
	Seed uint64 `json:"seed,omitempty"`
}

const (
	defaultResidual    = 16
	defaultLandmarks   = 32
	defaultPasses      = 2
	defaultSample      = 1024
	samplePerCluster   = 16
	causalLandmarks    = 128
	causalPasses       = 4
	causalSample       = 1 << 16
	defaultBlock       = 16
	defaultCausalBlock = 64
	mostClusters       = 1 << 24 // cluster numbers and their products with dimensions stay far from overflow
	mostTogether       = 1 << 14 // rows of one tile of weights
	mostChunk          = 1 << 20
	searchCost         = 320     // multiply-adds that take as long as a block's search among its weights, per key
	most               = 1 << 30 // of every other count, for the same reason
)

// Validate reports the first field that is out of range.
func (s *Spec) Validate() error {
	if s.Clusters < 0 || s.Clusters > mostClusters {
		return fmt.Errorf("%d clusters, want 0 to %d: %w", s.Clusters, mostClusters, ErrSpec)
	}
	for _, f := range [...]struct {
		name string
		n    int
	}{{"top", s.Top}, {"keys", s.Keys}, {"residual", s.Residual}, {"sinks", s.Sinks}, {"window", s.Window},
		{"block", s.Block}, {"together", s.Together}, {"chunk", s.Chunk}, {"start", s.Start},
		{"landmarks", s.Landmarks}, {"passes", s.Passes}, {"sample", s.Sample}} {
		if f.n < 0 || f.n > most {
			return fmt.Errorf("%s %d, want 0 to %d: %w", f.name, f.n, most, ErrSpec)
		}
	}
	switch {
	case s.Clusters == 0 && s.Sinks == 0 && s.Window == 0 && s.Block == 0:
		return fmt.Errorf("neither clusters nor sinks nor a window, set clusters: %w", ErrSpec)
	case s.Clusters == 0 && s.Top > 0:
		return fmt.Errorf("top %d of no clusters, set clusters: %w", s.Top, ErrSpec)
	case s.Keys > 0 && s.Top == 0 && s.Together == 0:
		return fmt.Errorf("keys %d without top clusters to choose them from, set top: %w", s.Keys, ErrSpec)
	case s.Together > mostTogether:
		return fmt.Errorf("together %d, want at most %d: %w", s.Together, mostTogether, ErrSpec)
	case s.Chunk > mostChunk:
		return fmt.Errorf("chunk %d, want at most %d: %w", s.Chunk, mostChunk, ErrSpec)
	case s.Together > 0 && s.Keys > 0 && (s.Top > 0 || s.Clusters == 0):
		return fmt.Errorf("keys %d with together %d are of all clusters, set clusters, leave out top: %w",
			s.Keys, s.Together, ErrSpec)
	case s.Together > 0 && s.prefixed() && s.Sinks > 0:
		return fmt.Errorf("keys %d with chunk %d are of all positions before a chunk, leave out sinks: %w", s.Keys,
			s.Chunk, ErrSpec)
	case s.prefixed() && s.Window > s.Chunk:
		return fmt.Errorf("a window of %d before chunks of %d, want at most as many: %w", s.Window, s.Chunk, ErrSpec)
	case s.Start > 0 && !s.prefixed():
		return fmt.Errorf("start %d is for chunk with keys, set both: %w", s.Start, ErrSpec)
	case s.Together > 0 && s.Shared:
		return fmt.Errorf("together %d chooses for all heads of a group, leave out shared: %w", s.Together, ErrSpec)
	case !dense.IsFinite(s.Share) || s.Share < 0:
		return fmt.Errorf("share %v, want a finite share of at least 0: %w", s.Share, ErrSpec)
	case s.Share > 0 && (s.Chunk == 0 || s.Together != 1 || s.Top > 0 || s.Keys > 0):
		return fmt.Errorf("share %v is for chunks with together 1, set both, leave out top and keys: %w", s.Share, ErrSpec)
	case s.Chunk > 0 && s.Together == 0:
		return fmt.Errorf("chunk %d without together, set it: %w", s.Chunk, ErrSpec)
	case s.Chunk > 0 && (s.Clusters == 0 || s.Clusters > s.Chunk):
		return fmt.Errorf("%d clusters of chunks of %d keys, want 1 to as many: %w", s.Clusters, s.Chunk, ErrSpec)
	case s.Chunk > 0 && s.Sinks > s.Chunk:
		return fmt.Errorf("%d sinks, want at most the keys of a chunk, %d: %w", s.Sinks, s.Chunk, ErrSpec)
	case s.Chunk > 0 && (s.Spread || s.Block > 0):
		return fmt.Errorf("spread and block have no use with chunk %d, leave them out: %w", s.Chunk, ErrSpec)
	case s.Bits != 0 && s.Bits != 4 && s.Bits != 8:
		return fmt.Errorf("bits %d, want 4 or 8: %w", s.Bits, ErrSpec)
	case !dense.IsFinite(s.Values) || s.Values < 0:
		return fmt.Errorf("values %v, want a finite weight of at least 0: %w", s.Values, ErrSpec)
	}
	return nil
}

func (s *Spec) landmarks(causal bool) int {
	return cmp.Or(s.Landmarks, either(causal, causalLandmarks, defaultLandmarks))
}

func (s *Spec) passes(causal bool) int {
	return cmp.Or(s.Passes, either(causal, causalPasses, defaultPasses))
}

func either(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}

func (s *Spec) bits() int { return cmp.Or(s.Bits, 8) }

// residual is the number of residual directions of keys of dimension d.
func (s *Spec) residual(d int) int { return min(d, cmp.Or(s.Residual, defaultResidual)) }

// filters tells whether residual directions have a use.
func (s *Spec) filters() bool { return s.Keys > 0 || s.Spread }

func (s *Spec) sample(causal bool) int {
	return cmp.Or(s.Sample, max(either(causal, causalSample, defaultSample), samplePerCluster*s.Clusters))
}

// block is B; 0: no exact neighbours.
func (s *Spec) block(causal bool) int {
	switch {
	case s.Block > 0:
		return s.Block
	case causal:
		return defaultCausalBlock
	case s.Window > 0:
		return defaultBlock
	}
	return 0
}

// tilted tells whether blocks of bidirectional queries weigh the keys themselves.
func (s *Spec) tilted() bool { return s.Together > 0 && s.Keys > 0 }

// prefixed tells whether causal blocks weigh the keys of earlier chunks themselves.
func (s *Spec) prefixed() bool { return s.Chunk > 0 && s.Keys > 0 }

// start is the position of the first chunk with a prefix. Its prefix may be empty.
func (s *Spec) start() int { return max(s.Start, s.Chunk) }

// Cost estimates the work of one token (a query and a key) of bidirectional attention over lenK keys. The unit is one
// random feature, 2(d + d_v) multiply-adds; exact attention costs lenK/2. Weighting and assigning keys is included.
// Training the clusters is not: on long sequences it uses a sample of bounded size.
func (s Spec) Cost(lenK, dim, valueDim int) float64 {
	d, both, n := float64(dim), float64(dim+valueDim), float64(lenK)
	k := min(float64(s.Clusters), n)
	if s.tilted() && both > 0 {
		keys := min(float64(s.Keys), n) + min(float64(s.Sinks), n)
		// The keys are weighed, searched for the largest and summed for every block. A row moves the values of
		// centroids.
		block := n * (d + both + searchCost) / float64(s.Together)
		return (k*d + (k+keys+d)*both + block) / (2 * both)
	}
	exact, extra := 0.0, 0.0
	if b := s.block(false); b > 0 {
		exact = float64(b + 2*s.Window)
	}
	exact += float64(s.Sinks)
	if k > 0 {
		members := min(float64(s.Top), k) * n / k
		if t := float64(s.Keys); t > 0 && t < members {
			r := float64(s.residual(dim))
			extra = members*r + 2*r*d // scores, and the projections of a query and a key
			members = t
		}
		exact += members
	}
	key := 0.0
	if k > 0 {
		key = (k + float64(s.landmarks(false))) * d
	}
	if s.Values > 0 {
		key += k * float64(valueDim)
	}
	if both == 0 {
		return 0
	}
	return (key + extra + (k+min(exact, n))*both) / (2 * both)
}

// Reads is the time of a decoding step (Chunks) after n tokens, in units of the time to read a key that lies beside the
// last one. On average half a chunk of recent keys is not in clusters. Chosen keys lie in many places of memory. With
// Share, their number is of the order of what heads of SmolLM2 have; plans for decoding are only ranked by it.
func (s Spec) Reads(n int) float64 {
	const scattered = 3     // keys side by side that are read in the time of one elsewhere
	const sharedKeys = 0.25 // times 1/Share
	near := min(n, s.Sinks+s.Window+s.Chunk/2)
	far := float64(n - near)
	nodes, members := far, 0.0
	if s.Chunk > 0 && s.Clusters > 0 {
		nodes *= float64(s.Clusters) / float64(s.Chunk)
		members = min(far, float64(s.Top)*float64(s.Chunk)/float64(s.Clusters))
	}
	switch {
	case s.Share >= leastShare:
		nodes += far / scanShare
		members = min(far, sharedKeys/s.Share)
	case s.Share > 0: // all keys, in their order
		return float64(n)
	}
	return float64(near) + nodes + scattered*members
}

// specWire is a Spec without methods.
type specWire Spec

// UnmarshalJSON reads the fields strictly. Unknown fields, repeated fields and an invalid spec are errors.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var w specWire
	if err := namedjson.Decode(b, &w); err != nil {
		if bytes.Contains(b, []byte(`"open"`)) {
			return fmt.Errorf("open is a field of development versions, choose the plan for decoding again: %w", ErrSpec)
		}
		return fmt.Errorf("%w: %w", err, ErrSpec)
	}
	out := Spec(w)
	if err := out.Validate(); err != nil {
		return err
	}
	*s = out
	return nil
}
