package centroid

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// ErrSpec marks every error about the fields of a Spec.
var ErrSpec = errors.New("invalid centroid spec")

// Spec says how the keys of one head are summarised and which of them a query meets exactly. It is plain data; a field
// that is 0 means none or a default, as its comment says.
type Spec struct {
	// Clusters is k, the number of centroids. A multiple of 32 makes full use of vector kernels; in proportion to √L
	// long sequences take O(L^1.5). 0: keys outside of the window and the sinks do not count at all.
	Clusters int `json:"clusters"`
	// Top is s: the members of the s clusters that promise the largest error of a query are exact; 0: none.
	Top int `json:"top,omitempty"`
	// Keys is t: of the members of the Top clusters only the t with the best residual scores are exact; 0: all. It is
	// for causal attention: without order whole clusters are dense tiles, which take less time than chosen keys.
	Keys int `json:"keys,omitempty"`
	// Residual is r, the number of residual directions of Spread and Keys; 0: 16.
	Residual int `json:"residual,omitempty"`
	// Bits of one residual number that a streaming state keeps per key: 8 or 4; 0: 8.
	Bits int `json:"bits,omitempty"`
	// Spread puts the variance inside of a cluster into its weight: for causal attention, whose centroids are plain
	// means of the keys so far.
	Spread bool `json:"spread,omitempty"`
	// Together is the number of queries that choose their exact clusters together, so that all products are dense tiles,
	// as those of exact attention; 0: every query chooses by itself. Rows of all query heads of a group take part. Top
	// is then of such a block. Bidirectional queries are sorted first, and there is no window; causal blocks are of
	// neighbours and need a Chunk.
	Together int `json:"together,omitempty"`
	// Chunk is the number of keys that are clustered by themselves, into Clusters each, once all of them have left the
	// window: for causal attention, which then needs no calibrated centres. 0: all keys have the same centres.
	Chunk int `json:"chunk,omitempty"`
	// Shared makes one choice of clusters and keys for all query heads of a group.
	Shared bool `json:"shared,omitempty"`
	// Sinks is the number of first keys that are always exact.
	Sinks int `json:"sinks,omitempty"`
	// Window and Block say which neighbours are exact: a query at position p of the block [b, b+Block) meets the keys
	// [b−Window, b+Block+Window), or [b−Window, p] if causal. Block 1 is a sliding window. Block 0 is 64 if causal;
	// else 16 with a window, and without one there are no exact neighbours.
	Window int `json:"window,omitempty"`
	Block  int `json:"block,omitempty"`
	// Landmarks is the number of queries, per head, whose attention weighs the keys for the fit; 0: 32, or 128 if
	// causal. A causal fit is made once, for other text; a bidirectional one for every sequence.
	Landmarks int `json:"landmarks,omitempty"`
	// Passes of Lloyd's algorithm after seeding; 0: 2, or 4 if causal.
	Passes int `json:"passes,omitempty"`
	// Sample bounds the keys that the clustering is trained on; 0: 16 per cluster, at least 1024, or 65536 if causal.
	Sample int `json:"sample,omitempty"`
	// Values is the weight of the values in the clustering: a distance of their standard deviation counts as much as
	// Values in a logit; 0: keys alone.
	Values float64 `json:"values,omitempty"`
	// Seed of the seeding and of the sample.
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
	most               = 1 << 30 // of every other count, for the same reason
)

// Validate reports the first field that makes no sense.
func (s *Spec) Validate() error {
	if s.Clusters < 0 || s.Clusters > mostClusters {
		return fmt.Errorf("%d clusters, want 0 to %d: %w", s.Clusters, mostClusters, ErrSpec)
	}
	for _, f := range [...]struct {
		name string
		n    int
	}{{"top", s.Top}, {"keys", s.Keys}, {"residual", s.Residual}, {"sinks", s.Sinks}, {"window", s.Window},
		{"block", s.Block}, {"together", s.Together}, {"chunk", s.Chunk}, {"landmarks", s.Landmarks}, {"passes", s.Passes}, {"sample", s.Sample}} {
		if f.n < 0 || f.n > most {
			return fmt.Errorf("%s %d, want 0 to %d: %w", f.name, f.n, most, ErrSpec)
		}
	}
	switch {
	case s.Clusters == 0 && s.Sinks == 0 && s.Window == 0 && s.Block == 0:
		return fmt.Errorf("neither clusters nor sinks nor a window, set clusters: %w", ErrSpec)
	case s.Clusters == 0 && s.Top > 0:
		return fmt.Errorf("top %d of no clusters, set clusters: %w", s.Top, ErrSpec)
	case s.Keys > 0 && s.Top == 0:
		return fmt.Errorf("keys %d without top clusters to choose them from, set top: %w", s.Keys, ErrSpec)
	case s.Together > mostTogether:
		return fmt.Errorf("together %d, want at most %d: %w", s.Together, mostTogether, ErrSpec)
	case s.Chunk > mostChunk:
		return fmt.Errorf("chunk %d, want at most %d: %w", s.Chunk, mostChunk, ErrSpec)
	case s.Together > 0 && (s.Keys > 0 || s.Shared):
		return fmt.Errorf("together %d goes with whole clusters of all heads of a group, leave out keys and shared: %w",
			s.Together, ErrSpec)
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

func orDefault(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

func (s *Spec) landmarks(causal bool) int {
	return orDefault(s.Landmarks, either(causal, causalLandmarks, defaultLandmarks))
}

func (s *Spec) passes(causal bool) int {
	return orDefault(s.Passes, either(causal, causalPasses, defaultPasses))
}

func either(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}

func (s *Spec) bits() int { return orDefault(s.Bits, 8) }

// residual is the number of residual directions of keys of dimension d.
func (s *Spec) residual(d int) int { return min(d, orDefault(s.Residual, defaultResidual)) }

// filters tells whether residual directions have a use.
func (s *Spec) filters() bool { return s.Keys > 0 || s.Spread }

func (s *Spec) sample(causal bool) int {
	return orDefault(s.Sample, max(either(causal, causalSample, defaultSample), samplePerCluster*s.Clusters))
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

// Cost is the work of one token, a query and a key, of bidirectional attention over lenK keys in units of one random
// feature, 2(d + d_v) multiply-adds: exact attention has lenK/2. The weights of keys and their assignment count,
// training the clusters does not: for long sequences it sees a sample.
func (s Spec) Cost(lenK, dim, valueDim int) float64 {
	d, both, n := float64(dim), float64(dim+valueDim), float64(lenK)
	k := min(float64(s.Clusters), n)
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

// specWire is a Spec without methods.
type specWire Spec

// UnmarshalJSON reads the fields strictly: unknown and repeated ones are errors, and so is a spec that is not valid.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var w specWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("%w: %w", err, ErrSpec)
	}
	out := Spec(w)
	if err := out.Validate(); err != nil {
		return err
	}
	*s = out
	return nil
}
