// Package model is what the explorer computes: JSON in, JSON out, the same code in a browser and in a test. It keeps no
// lists of its own: kernels, families and couplings are those of the registries.
package model

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/omega"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// State is what the page lets people choose.
type State struct {
	Kernel   string  `json:"kernel"`
	Family   string  `json:"family"`   // a name, or a JSON object with parameters
	Coupling string  `json:"coupling"` // likewise
	Dim      int     `json:"dim"`
	Features int     `json:"features"` // at most so many output features: every family has what gives these
	QueryLen float64 `json:"queryLen"` // |x|
	KeyLen   float64 `json:"keyLen"`   // |y|
	Angle    float64 `json:"angle"`    // between x and y, in degrees
	Seed     uint64  `json:"seed"`     // of what is drawn
}

// The ranges of the sliders.
const (
	MinDim, MaxDim           = 2, 256
	MinFeatures, MaxFeatures = 4, 4096
	MaxLen                   = 8
)

// setting is a state after parsing.
type setting struct {
	State
	kernel   kernel.Kernel
	coupling coupling.Coupling
	base     dense.Matrix[float64] // orthonormal rows; the first two are the plane of x and y
}

func (m *Model) parse(s State) (*setting, error) {
	out := &setting{State: s}
	kind, err := kernel.ParseKind(s.Kernel)
	if err != nil {
		return nil, err
	}
	out.kernel = kernel.Kernel{Kind: kind}
	if out.coupling, err = coupling.Parse(s.Coupling); err != nil {
		return nil, err
	}
	for _, v := range []struct {
		name        string
		value       float64
		least, most float64
	}{{"dim", float64(s.Dim), MinDim, MaxDim}, {"features", float64(s.Features), MinFeatures, MaxFeatures},
		{"queryLen", s.QueryLen, 0, MaxLen}, {"keyLen", s.KeyLen, 0, MaxLen}, {"angle", s.Angle, 0, 180}} {
		if !(v.value >= v.least && v.value <= v.most) {
			return nil, fmt.Errorf("%s is %v, want %v to %v", v.name, v.value, v.least, v.most)
		}
	}
	if m.base.Cols != s.Dim {
		g := dense.New[float64](s.Dim, s.Dim)
		rng.Normals(g.Data, rng.Stream(planeSeed, uint64(s.Dim)))
		m.base = omega.Orthonormalise(g)
	}
	out.base = m.base
	return out, nil
}

// planeSeed makes the directions of x and y: no axes, which would be special to families and couplings that see
// coordinates (Poisson, HD products), but always the same.
const planeSeed = 13

// pair is x and y at lengths and an angle in degrees.
func (s *setting) pair(queryLen, keyLen, angle float64) (x, y []float64) {
	sin, cos := math.Sincos(angle * math.Pi / 180)
	if angle == 180 {
		sin = 0
	}
	x, y = make([]float64, s.Dim), make([]float64, s.Dim)
	for l := range x {
		x[l] = queryLen * s.base.Row(0)[l]
		y[l] = keyLen * (float64(cos*s.base.Row(0)[l]) + float64(sin*s.base.Row(1)[l]))
	}
	return x, y
}

// isotropic is what families with parameters are fitted to: rows of one length along ± every axis of a rotation, whose
// mean is zero and whose covariance is a multiple of the identity.
func (s *setting) isotropic(length float64, side int) dense.Matrix[float64] {
	rows := dense.New[float64](2*s.Dim, s.Dim)
	for i := range s.Dim {
		axis := s.base.Row((i + side) % s.Dim)
		for l, v := range axis {
			rows.Row(2 * i)[l], rows.Row(2*i + 1)[l] = length*v, -length*v
		}
	}
	return rows
}

// chosen is the family of the state, and whether its parameters are to be fitted: those of a JSON object are as given.
func (s *setting) chosen() (f family.Family, fit bool, err error) {
	if f, err = family.Parse(s.Family); err != nil {
		return nil, false, err
	}
	if s.Family != f.Name() {
		return f, false, nil
	}
	f, fit = example(f.Name(), s.Dim)
	return f, fit, nil
}

// example is the plainest value of a family.
func example(name string, dim int) (family.Family, bool) {
	for _, i := range family.List() {
		if i.Name == name {
			e := i.Examples(dim)[0]
			return e.Family, e.Fit
		}
	}
	return nil, false
}
