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
	// Centroid is set for the method Centroid.
	Centroid centroid.Spec `json:"centroid,omitempty"`
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
		return "centroid, " + describe(p.Centroid)
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
	type setting struct {
		name string
		n    int
	}
	var clusters int
	var list []setting
	end := ""
	switch s := s.(type) {
	case centroid.Blocks:
		clusters, list = s.Clusters, []setting{{"keys", s.Keys}, {"blocks of", s.Queries}}
	case centroid.Prefix:
		clusters, list = s.Clusters, []setting{{"keys", s.Keys}, {"window", s.Window}, {"blocks of", s.Queries},
			{"chunk", s.Chunk}, {"start", s.Start}}
	case centroid.Sketch:
		clusters, list = s.Clusters, []setting{{"sinks", s.Sinks}, {"window", s.Window}, {"chunk", s.Chunk}}
		end = fmt.Sprintf(", share %.2g", s.Share)
	}
	out := fmt.Sprintf("%d clusters", clusters)
	for _, part := range list {
		if part.n > 0 {
			out += fmt.Sprintf(", %s %d", part.name, part.n)
		}
	}
	return out + end
}

// Cost returns the cost of a token over lenK keys, in features (see the package comment). For causal attention it is
// the cost of the last of lenK positions.
func (p Plan) Cost(causal bool, lenK, dim, valueDim int) float64 {
	switch p.Method {
	case Centroid:
		return p.Centroid.Cost(lenK, dim, valueDim)
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

// exactCost returns the cost of exact attention over lenK keys in features: lenK·(d + d_v) multiply-adds.
func exactCost(lenK int) float64 { return float64(lenK) / 2 }

// check returns an error unless exactly the fields of the method are set and they suit heads of the given dimension.
func (p *Plan) check(causal bool, dim int) error {
	switch {
	case p.Method != Exact && p.Method != Centroid && p.Method != Features:
		return fmt.Errorf("method %q, want %s, %s or %s: %w", p.Method, Exact, Centroid, Features, ErrChoice)
	case (p.Method == Centroid) != (p.Centroid != nil):
		return fmt.Errorf("method %s and a centroid spec do not go together: %w", p.Method, ErrChoice)
	case (p.Method == Features) != (p.Features != nil):
		return fmt.Errorf("method %s and a feature spec do not go together: %w", p.Method, ErrChoice)
	}
	switch p.Method {
	case Centroid:
		if p.Centroid.Causal() != causal {
			return fmt.Errorf("%T is for attention with causal %t, not %t: %w", p.Centroid, p.Centroid.Causal(), causal,
				ErrChoice)
		}
		return p.Centroid.Validate()
	case Features:
		if f := p.Features; f.Window < 0 || f.Sinks < 0 || f.Spec.Dim != dim {
			return fmt.Errorf("features of dimension %d with window %d and %d sinks, want dimension %d: %w", f.Spec.Dim,
				f.Window, f.Sinks, dim, ErrChoice)
		}
	}
	return nil
}
