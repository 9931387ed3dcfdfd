package model

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Registry is what there is to choose from.
type Registry struct {
	Kernels   []string        `json:"kernels"`
	Families  []family.Info   `json:"families"`
	Couplings []coupling.Info `json:"couplings"`
	Ranges    Ranges          `json:"ranges"`
	// Start is the state of a page without one in its address, and Shown the families whose curves it draws.
	Start State    `json:"start"`
	Shown []string `json:"shown"`
}

// Ranges are those of the sliders.
type Ranges struct {
	Dim      [2]int  `json:"dim"`
	Features [2]int  `json:"features"`
	Len      float64 `json:"len"`
	Rows     int     `json:"rows"` // of drawn projections
}

func registry() *Registry {
	r := &Registry{Families: family.List(), Couplings: coupling.List(),
		Ranges: Ranges{[2]int{MinDim, MaxDim}, [2]int{MinFeatures, MaxFeatures}, MaxLen, maxDrawn},
		Start: State{Kernel: kernel.Softmax.String(), Family: family.OPRF{}.Name(),
			Coupling: coupling.Orthogonal{}.Name(),
			Dim:      64, Features: 256, QueryLen: 1, KeyLen: 1, Angle: 60, Seed: 1},
		Shown: []string{family.Trig{}.Name(), family.Positive{}.Name(), family.Hyperbolic{}.Name(),
			family.OPRF{}.Name(),
			family.Angular{}.Name(), family.Adaptive{}.Name()}}
	for _, k := range kernel.Kinds() {
		r.Kernels = append(r.Kernels, k.String())
	}
	return r
}
