package model

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/coupling"
)

// TheoryRequest asks what the closed forms say.
type TheoryRequest struct {
	State
	// Quick leaves out families whose fit takes long, unless it was done before: for sliders on the move.
	Quick bool `json:"quick"`
}

// Theory is what the closed forms say at the pair of a state.
type Theory struct {
	LogKernel Number `json:"logKernel"` // log10 |κ(x, y)|
	Kernel    Number `json:"kernel"`
	Dot       Number `json:"dot"`
	Distance  Number `json:"distance"`
	Chosen    Row    `json:"chosen"`
	// Families are all of the registry under the coupling of the state, the least error first, then those with a kernel
	// of their own and those without closed forms.
	Families []Row `json:"families"`
	// Couplings are all of the registry under the family of the state, in its order.
	Couplings []Row `json:"couplings"`
	Pending   bool  `json:"pending,omitempty"` // some rows are: ask again without Quick
}

func (m *Model) theory(r TheoryRequest) (*Theory, error) {
	set, err := m.parse(r.State)
	if err != nil {
		return nil, err
	}
	x, y := set.pair(r.QueryLen, r.KeyLen, r.Angle)
	all, err := m.all(set, nil, r.Quick)
	if err != nil {
		return nil, err
	}
	var dot, dist float64
	for l := range x {
		dot += x[l] * y[l]
		dist += (x[l] - y[l]) * (x[l] - y[l])
	}
	out := &Theory{LogKernel: Number(set.kernel.Log(x, y) / math.Ln10), Kernel: Number(set.kernel.Eval(x, y)),
		Dot: Number(dot), Distance: Number(math.Sqrt(dist))}
	f, _, err := set.chosen()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		row := e.warned(x, y)
		out.Families = append(out.Families, row)
		out.Pending = out.Pending || row.Pending
		if row.Family != f.Name() {
			continue
		}
		out.Chosen = row
		for _, i := range coupling.List() {
			c := i.Examples()[0]
			if i.Name == set.coupling.Name() {
				c = set.coupling
			}
			out.Couplings = append(out.Couplings, e.under(c).warned(x, y))
		}
	}
	slices.SortStableFunc(out.Families, func(a, b Row) int {
		switch {
		case a.group() != b.group():
			return a.group() - b.group()
		case !a.Known || a.key() == b.key():
			return 0
		case a.key() < b.key():
			return -1
		}
		return 1
	})
	return out, nil
}
