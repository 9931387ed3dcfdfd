package centroid

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/internal/namedjson"
)

// ErrSpec marks every error about the settings of a method.
var ErrSpec = errors.New("invalid centroid spec")

// Spec is a method with its settings: [Blocks] for bidirectional attention, a [Prefix] for causal attention of whole
// sequences, or a [Sketch] for decoding. A Spec is plain data and can be compared with ==.
type Spec interface {
	// Validate reports the first setting that is out of range.
	Validate() error
	// Cost estimates the work of one token, a query and a key, over lenK keys. The unit is one random feature, 2(d +
	// d_v) multiply-adds; exact attention costs lenK/2. Causal methods report the cost of the last position. Training
	// the clusters is not included unless it grows with the sequence.
	Cost(lenK, dim, valueDim int) float64
	// Causal tells whether the method is for causal attention.
	Causal() bool
	// settings is what the algorithms read.
	settings() settings
}

// Blocks is bidirectional attention in which blocks of sorted queries choose their exact keys together: all products
// are dense tiles.
type Blocks struct {
	// Clusters is the number of centroids that are made for every block. Multiples of 32 fill the vector kernels.
	Clusters int `json:"clusters"`
	// Keys is the number of keys that are exact for a block: those with the largest weights for its mean query.
	Keys int `json:"keys"`
	// Queries is the number of queries of a block, over all query heads of a group.
	Queries int `json:"together"`
	// Passes is the number of iterations of Lloyd's algorithm after seeding; 0: 2.
	Passes int `json:"passes,omitempty"`
	// Sample limits the number of keys that train the clusters; 0: 16 per cluster, at least 1024.
	Sample int `json:"sample,omitempty"`
	// Seed of the seeding of clusters.
	Seed uint64 `json:"seed,omitempty"`
}

// Prefix is causal attention of whole sequences. Queries see the keys of their chunk and the Window keys before it
// exactly. Blocks of sorted queries of a chunk see all keys before these as Blocks do. It needs no fitted centres.
type Prefix struct {
	Clusters int `json:"clusters"` // number of centroids that are made for every block
	Keys     int `json:"keys"`     // exact keys of a block among those before the window
	// Queries is the number of queries of a block, over all query heads of a group.
	Queries int `json:"together"`
	Chunk   int `json:"chunk"` // consecutive positions of a chunk
	Window  int `json:"window,omitempty"`
	// Start is a position: queries of chunks that begin before it see all keys exactly, and centres are trained when
	// Start, 2·Start, 4·Start, … keys are there. 0: Chunk.
	Start  int    `json:"start,omitempty"`
	Passes int    `json:"passes,omitempty"` // as in Blocks, like Sample and Seed
	Sample int    `json:"sample,omitempty"`
	Seed   uint64 `json:"seed,omitempty"`
}

// Sketch is causal attention for decoding ([Chunks]). The keys of a chunk are clustered once all of them have left the
// window. A step sees them by their centroids, and single keys exactly, which it finds by sketches.
type Sketch struct {
	Clusters int `json:"clusters"` // clusters of a chunk
	Chunk    int `json:"chunk"`    // consecutive keys that are clustered on their own
	// Share says which keys are exact: those whose weight differs from the weight that their centroid gives them by at
	// least this share of all weights of a query. All keys are exact for less than 1e-9. Masked keys take no position:
	// rows equal the rows of the visible keys alone.
	Share  float64 `json:"share"`
	Sinks  int     `json:"sinks,omitempty"`  // first keys that are always exact
	Window int     `json:"window,omitempty"` // last keys that are always exact
	// Landmarks is the number of queries per head of a chunk whose attention weighs its keys; 0: 32.
	Landmarks int    `json:"landmarks,omitempty"`
	Passes    int    `json:"passes,omitempty"` // as in Blocks, like Seed
	Seed      uint64 `json:"seed,omitempty"`
}

// settings are the settings of any method, with defaults filled in. A setting that the method does not have is 0.
type settings struct {
	clusters, landmarks, passes, sample int
	seed                                uint64
	sinks, window                       int
	keys, queries                       int // Blocks and Prefix
	chunk, start                        int // Prefix; Sketch has chunks alone
	share                               float64
}

const (
	defaultLandmarks = 32
	defaultPasses    = 2
	defaultSample    = 1024
	samplePerCluster = 16

	maxClusters = 1 << 24 // cluster numbers and their products with dimensions stay far from overflow
	maxQueries  = 1 << 14 // rows of one tile of weights
	maxChunk    = 1 << 20
	maxCount    = 1 << 30 // of every other count
)

// count is a setting with its range.
type count struct {
	name      string
	n, lo, hi int
}

func validate(counts ...count) error {
	for _, c := range counts {
		if c.n < c.lo || c.n > c.hi {
			return fmt.Errorf("%s %d, want %d to %d: %w", c.name, c.n, c.lo, c.hi, ErrSpec)
		}
	}
	return nil
}

// Validate implements [Spec].
func (s Blocks) Validate() error {
	return validate(count{"clusters", s.Clusters, 1, maxClusters}, count{"keys", s.Keys, 1, maxCount},
		count{"queries of a block", s.Queries, 1, maxQueries}, count{"passes", s.Passes, 0, maxCount},
		count{"sample", s.Sample, 0, maxCount})
}

// Validate implements [Spec].
func (s Prefix) Validate() error {
	return validate(count{"chunk", s.Chunk, 1, maxChunk}, count{"clusters of a chunk", s.Clusters, 1, s.Chunk},
		count{"keys", s.Keys, 1, maxCount}, count{"queries of a block", s.Queries, 1, maxQueries},
		count{"window before a chunk", s.Window, 0, s.Chunk}, count{"start", s.Start, 0, maxCount},
		count{"passes", s.Passes, 0, maxCount}, count{"sample", s.Sample, 0, maxCount})
}

// Validate implements [Spec].
func (s Sketch) Validate() error {
	if !(s.Share > 0) || math.IsInf(s.Share, 1) {
		return fmt.Errorf("share %v, want a positive number: %w", s.Share, ErrSpec)
	}
	return validate(count{"chunk", s.Chunk, 1, maxChunk}, count{"clusters of a chunk", s.Clusters, 1, s.Chunk},
		count{"sinks in a chunk", s.Sinks, 0, s.Chunk}, count{"window", s.Window, 0, maxNear},
		count{"landmarks", s.Landmarks, 0, maxCount}, count{"passes", s.Passes, 0, maxCount})
}

// clustering returns the settings of the clustering, with their defaults.
func clustering(clusters, landmarks, passes, sample int, seed uint64) settings {
	return settings{clusters: clusters, landmarks: cmp.Or(landmarks, defaultLandmarks),
		passes: cmp.Or(passes, defaultPasses),
		sample: cmp.Or(sample, max(defaultSample, samplePerCluster*clusters)), seed: seed}
}

func (s Blocks) settings() settings {
	o := clustering(s.Clusters, 0, s.Passes, s.Sample, s.Seed)
	o.keys, o.queries = s.Keys, s.Queries
	return o
}

func (s Prefix) settings() settings {
	o := clustering(s.Clusters, 0, s.Passes, s.Sample, s.Seed)
	o.keys, o.queries, o.chunk, o.window = s.Keys, s.Queries, s.Chunk, s.Window
	o.start = max(s.Start, s.Chunk)
	return o
}

func (s Sketch) settings() settings {
	o := clustering(s.Clusters, s.Landmarks, s.Passes, 0, s.Seed)
	o.chunk, o.share, o.sinks, o.window = s.Chunk, s.Share, s.Sinks, s.Window
	return o
}

// Causal implements [Spec].
func (Blocks) Causal() bool { return false }

// Causal implements [Spec].
func (Prefix) Causal() bool { return true }

// Causal implements [Spec].
func (Sketch) Causal() bool { return true }

func either(yes bool, a, b int) int {
	if yes {
		return a
	}
	return b
}

// blockSearch is the number of multiply-adds that take as long as a block's search among its weights, per key.
const blockSearch = 320

// Cost implements [Spec]. The keys are assigned once, and weighed, searched and summed for every block. A row moves the
// values of centroids.
func (s Blocks) Cost(lenK, dim, valueDim int) float64 {
	d, both, n := float64(dim), float64(dim+valueDim), float64(lenK)
	if both == 0 {
		return 0
	}
	k, keys := min(float64(s.Clusters), n), min(float64(s.Keys), n)
	block := n * (d + both + blockSearch) / float64(s.Queries)
	return (k*d + (k+keys+d)*both + block) / (2 * both)
}

// Cost implements [Spec]. On average half a chunk of keys is exact besides the window. A key is assigned, and measured
// by the queries, at two trainings on average. A block weighs a third more keys than it sees; it searches and sums
// those that it sees. A row moves the values of centroids, for the work of d keys.
func (s Prefix) Cost(lenK, dim, valueDim int) float64 {
	const search = 64 // multiply-adds that take as long as looking at a weight
	d, both, n := float64(dim), float64(dim+valueDim), float64(lenK)
	if n <= float64(max(s.Start, s.Chunk)) || both == 0 { // the query sees all keys
		return n / 2
	}
	near := min(n, float64(s.Chunk)/2+float64(s.Window))
	far := min(n-near, float64(s.Keys)) + min(n-near, float64(s.Clusters))
	block := (n - near) * (d*4/3 + both + search) / float64(s.Queries)
	return (2*(float64(s.Clusters)+d)*d + (near+far+min(n-near, d))*both + block) / (2 * both)
}

// Cost implements [Spec]. The clustering of one key is included.
func (s Sketch) Cost(lenK, dim, valueDim int) float64 {
	both := float64(dim + valueDim)
	if both == 0 {
		return 0
	}
	return (float64(s.Clusters+s.settings().landmarks)*float64(dim) + min(float64(lenK), s.StepCost(lenK))*both) /
		(2 * both)
}

// StepCost estimates the time of a decoding step after n tokens, in units of the time to read a key that lies beside
// the last one. On average half a chunk of recent keys is not in clusters, and chosen keys lie in many places of
// memory. Their number is of the order of what heads of SmolLM2 have; settings are only ranked by it.
func (s Sketch) StepCost(n int) float64 {
	const scattered = 3 // keys side by side that are read in the time of one elsewhere
	const chosen = 0.25 // keys, times 1/Share
	if s.Share < leastShare {
		return float64(n) // all keys, in their order
	}
	near := min(n, s.Sinks+s.Window+s.Chunk/2)
	far := float64(n - near)
	return float64(near) + far*float64(s.Clusters)/float64(s.Chunk) + far/scanShare +
		scattered*min(far, chosen/s.Share)
}

// specWire has the fields of all methods in their saved form, and those of methods that have been removed.
type specWire struct {
	Clusters  int     `json:"clusters"`
	Top       int     `json:"top"`
	Keys      int     `json:"keys"`
	Together  int     `json:"together"`
	Chunk     int     `json:"chunk"`
	Share     float64 `json:"share"`
	Start     int     `json:"start"`
	Sinks     int     `json:"sinks"`
	Window    int     `json:"window"`
	Block     int     `json:"block"`
	Landmarks int     `json:"landmarks"`
	Passes    int     `json:"passes"`
	Sample    int     `json:"sample"`
	Seed      uint64  `json:"seed"`

	Residual int     `json:"residual"`
	Bits     int     `json:"bits"`
	Spread   bool    `json:"spread"`
	Shared   bool    `json:"shared"`
	Values   float64 `json:"values"`
	Open     any     `json:"open"`
}

// ErrRemoved marks settings of a method that has been removed.
var ErrRemoved = fmt.Errorf("clusters that every query chooses for itself (top, block), causal attention with fitted centres, and values in clusters were removed, choose a method again: %w",
	ErrSpec)

// UnmarshalSpec reads the JSON form of a [Spec]; its fields tell which method it is. Unknown and repeated fields,
// fields of other methods and settings out of range are errors. Methods that have been removed are [ErrRemoved].
func UnmarshalSpec(b []byte) (Spec, error) {
	var w specWire
	if err := namedjson.Decode(b, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrSpec)
	}
	var s Spec
	rest := w
	rest.Clusters, rest.Passes, rest.Sample, rest.Seed, rest.Landmarks = 0, 0, 0, 0, 0
	switch {
	case w.Residual != 0 || w.Bits != 0 || w.Spread || w.Shared || w.Values != 0 || w.Open != nil ||
		w.Share == 0 && (w.Keys == 0 || w.Together == 0):
		return nil, ErrRemoved
	case w.Share > 0:
		s = Sketch{w.Clusters, w.Chunk, w.Share, w.Sinks, w.Window, w.Landmarks, w.Passes, w.Seed}
		rest.Chunk, rest.Share, rest.Sinks, rest.Window = 0, 0, 0, 0
		if w.Together == 1 { // earlier versions wrote it
			rest.Together = 0
		}
	case w.Chunk > 0:
		s = Prefix{w.Clusters, w.Keys, w.Together, w.Chunk, w.Window, w.Start, w.Passes, w.Sample, w.Seed}
		rest.Keys, rest.Together, rest.Chunk, rest.Window, rest.Start = 0, 0, 0, 0, 0
	default:
		s = Blocks{w.Clusters, w.Keys, w.Together, w.Passes, w.Sample, w.Seed}
		rest.Keys, rest.Together = 0, 0
	}
	if rest != (specWire{}) {
		return nil, fmt.Errorf("%s has fields that do not belong together: %w", bytes.TrimSpace(b), ErrSpec)
	}
	return s, s.Validate()
}
