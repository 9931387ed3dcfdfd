package choose

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention/centroid"
)

// ErrChoice is wrapped by every error about the contents of a [Plan] or a [Choice].
var ErrChoice = errors.New("invalid choice of attention")

// Method is the algorithm of a head.
type Method string

// The methods.
const (
	Exact    Method = "exact"    // attention.Exact
	Centroid Method = "centroid" // centroid.Attention
	Features Method = "features" // linear.Attention
)

// Plan is the method of one key/value head with its parameters.
type Plan struct {
	Method Method `json:"method"`
	// Centroid is set for the method Centroid. Centres is set if the centres are calibrated; otherwise every call fits
	// centres to its keys.
	Centroid *centroid.Spec    `json:"centroid,omitempty"`
	Centres  *centroid.Centres `json:"centres,omitempty"`
	// Features is set for the method Features.
	Features *FeatureSpec `json:"features,omitempty"`
}

// FeatureSpec is linear attention with random features: the map, and the exact keys as in linear.Attention.
type FeatureSpec struct {
	Spec   randfeat.Spec `json:"spec"`
	Window int           `json:"window,omitempty"`
	Sinks  int           `json:"sinks,omitempty"`
}

// String returns the method with its main parameters.
func (p Plan) String() string {
	switch {
	case p.Method == Centroid && p.Centroid != nil:
		return "centroid, " + describe(*p.Centroid)
	case p.Method == Features && p.Features != nil:
		f := p.Features
		s := "features"
		if n, err := f.Spec.OutDim(); err == nil && f.Spec.Family != nil {
			s = fmt.Sprintf("%d %s features", n, f.Spec.Family.Name())
		}
		if f.Window > 0 {
			s += fmt.Sprintf(", window %d", f.Window)
		}
		if f.Sinks > 0 {
			s += fmt.Sprintf(", sinks %d", f.Sinks)
		}
		return s
	}
	return string(p.Method)
}

// describe lists the settings of s that are not zero.
func describe(s centroid.Spec) string {
	out := fmt.Sprintf("%d clusters", s.Clusters)
	for _, part := range []struct {
		name string
		n    int
	}{{"top", s.Top}, {"keys", s.Keys}, {"sinks", s.Sinks}, {"window", s.Window}, {"block", s.Block},
		{"together", s.Together}, {"chunk", s.Chunk}, {"start", s.Start}} {
		if part.n > 0 {
			out += fmt.Sprintf(", %s %d", part.name, part.n)
		}
	}
	if s.Share > 0 {
		out += fmt.Sprintf(", share %.2g", s.Share)
	}
	if s.Spread {
		out += ", spread"
	}
	return out
}

// Cost returns the cost of a token over lenK keys, in features (see the package comment). For causal attention it is
// the cost of the last of lenK positions.
func (p Plan) Cost(causal bool, lenK, dim, valueDim int) float64 {
	switch p.Method {
	case Centroid:
		return centroidCost(*p.Centroid, causal, lenK, dim, valueDim)
	case Features:
		n, err := p.Features.Spec.OutDim()
		if err != nil {
			return exactCost(lenK)
		}
		near := p.Features.Window
		if !causal {
			near = max(0, 2*near-1)
		}
		return float64(n) + float64(min(near+p.Features.Sinks, lenK))/2
	}
	return exactCost(lenK)
}

// centroidCost returns the cost of a token. Causal plans without chunks differ from Spec.Cost in two ways: a block ends
// at its query, half-way on average, and keys are not weighed, because centres are calibrated.
func centroidCost(s centroid.Spec, causal bool, lenK, dim, valueDim int) float64 {
	if causal && s.Chunk > 0 {
		return chunkCost(s, float64(lenK), dim, valueDim)
	}
	if causal {
		block := s.Block
		if block == 0 {
			block = causalBlock
		}
		s.Block, s.Window, s.Landmarks = s.Window+(block+1)/2, 0, 1
	}
	return s.Cost(lenK, dim, valueDim)
}

// chunkCost returns the cost of a query at position n of causal attention with chunks, including that of clustering one
// key. On average, half a chunk and half a block of keys are not in clusters yet.
func chunkCost(s centroid.Spec, n float64, dim, valueDim int) float64 {
	d, both := float64(dim), float64(dim+valueDim)
	if s.Keys > 0 && n <= float64(max(s.Start, s.Chunk)) { // the query sees all keys
		return n / 2
	}
	if s.Keys > 0 {
		return prefixCost(s, n, d, both)
	}
	near := min(n, float64(s.Sinks+s.Window)+float64(s.Chunk+s.Together)/2)
	if s.Share > 0 {
		return (float64(s.Clusters+s.Landmarks)*d + min(n, s.Reads(int(n)))*both) / (2 * both)
	}
	clusters := (n - near) * float64(s.Clusters) / float64(s.Chunk)
	members := min(n-near, float64(s.Top)*float64(s.Chunk)/float64(s.Clusters))
	landmarks := s.Landmarks
	if landmarks == 0 {
		landmarks = 32
	}
	return (float64(s.Clusters+landmarks)*d + (near+clusters+members)*both) / (2 * both)
}

// prefixCost is chunkCost for plans whose blocks weigh the keys before their chunk. A key is assigned, and measured by
// the queries, at two trainings on average. A block weighs a third more keys than it sees; it searches and sums those
// that it sees. A row moves the values of centroids, for the work of d keys.
func prefixCost(s centroid.Spec, n, d, both float64) float64 {
	const searching = 64 // multiply-adds that take as long as looking at a weight
	near := min(n, float64(s.Chunk)/2+float64(s.Window))
	far := min(n-near, float64(s.Keys)) + min(n-near, float64(s.Clusters))
	block := (n - near) * (d*4/3 + both + searching) / float64(s.Together)
	return (2*(float64(s.Clusters)+d)*d + (near+far+min(n-near, d))*both + block) / (2 * both)
}

// causalBlock is the block of a causal centroid.Spec whose Block is 0.
const causalBlock = 64

// exactCost returns the cost of exact attention over lenK keys in features: lenK·(d + d_v) multiply-adds.
func exactCost(lenK int) float64 { return float64(lenK) / 2 }

// check returns an error unless exactly the fields of the method are set and they suit heads of the given dimension.
func (p *Plan) check(dim int) error {
	switch {
	case p.Method != Exact && p.Method != Centroid && p.Method != Features:
		return fmt.Errorf("method %q, want %s, %s or %s: %w", p.Method, Exact, Centroid, Features, ErrChoice)
	case (p.Method == Centroid) != (p.Centroid != nil):
		return fmt.Errorf("method %s and a centroid spec do not go together: %w", p.Method, ErrChoice)
	case (p.Method == Features) != (p.Features != nil):
		return fmt.Errorf("method %s and a feature spec do not go together: %w", p.Method, ErrChoice)
	case p.Centres != nil && p.Method != Centroid:
		return fmt.Errorf("method %s has no use for centres: %w", p.Method, ErrChoice)
	case p.Centres != nil && p.Centres.Dim() != dim:
		return fmt.Errorf("centres of dimension %d, want %d: %w", p.Centres.Dim(), dim, ErrChoice)
	}
	switch p.Method {
	case Centroid:
		return p.Centroid.Validate()
	case Features:
		if f := p.Features; f.Window < 0 || f.Sinks < 0 || f.Spec.Dim != dim {
			return fmt.Errorf("features of dimension %d with window %d and %d sinks, want dimension %d: %w", f.Spec.Dim,
				f.Window, f.Sinks, dim, ErrChoice)
		}
	}
	return nil
}
