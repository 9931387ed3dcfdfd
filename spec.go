package randfeat

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// ErrSpec marks a spec that lacks something every map needs.
var ErrSpec = errors.New("invalid spec")

// Spec determines a feature map. It is plain data with a JSON form; fitted parameters live inside the family.
type Spec struct {
	Kernel   kernel.Kernel     // the zero value is the unit Gaussian
	Family   family.Family     // required: nobody gets an estimator by accident
	Coupling coupling.Coupling // nil means coupling.IID{}
	Dim      int               // input columns
	M        int               // number of projections ω; OutDim is the number of features, WithFeatures sets M by it
	Seed     uint64
}

// Target is the kernel that the map estimates: Kernel, except for families with a kernel of their own (DARK).
func (s Spec) Target() kernel.Kernel {
	if f, ok := s.Family.(interface {
		Target(kernel.Kernel) kernel.Kernel
	}); ok {
		return f.Target(s.Kernel)
	}
	return s.Kernel
}

// WithSeed returns the same spec with another seed. This is the only way to redraw projections.
func (s Spec) WithSeed(seed uint64) Spec {
	s.Seed = seed
	return s
}

func (s Spec) coupling() coupling.Coupling {
	if s.Coupling == nil {
		return coupling.IID{}
	}
	return s.Coupling
}

// draws validates the spec and lists the projections it needs.
func (s Spec) draws() ([]family.Draw, error) {
	if s.Family == nil {
		return nil, fmt.Errorf("no family: %w", ErrSpec)
	}
	if s.Dim < 1 {
		return nil, fmt.Errorf("dim = %d, want at least 1: %w", s.Dim, ErrSpec)
	}
	if err := s.Kernel.Validate(s.Dim); err != nil {
		return nil, err
	}
	return s.Family.Draws(s.Kernel.Kind, s.Kernel.Dim(s.Dim), s.M)
}

// maxElements bounds one set of projections: 2³² numbers are 32 GiB, so a larger request is a mistake.
const maxElements = 1 << 32

// Draw samples the projections of a spec, one set per draw of its family. Every set has its own stream of the seed, so
// it does not depend on the other sets.
func Draw(s Spec) ([]coupling.Omega, error) {
	draws, err := s.draws()
	if err != nil {
		return nil, err
	}
	omega := make([]coupling.Omega, len(draws))
	for i, d := range draws {
		if int64(d.Rows) > maxElements/int64(d.Dim) {
			return nil, tooMany(d)
		}
		c := s.coupling()
		if d.IID {
			c = coupling.IID{}
		}
		omega[i], err = c.Sample(d.Rows, d.Dim, d.Law, rng.Stream(s.Seed, uint64(i)))
		if err != nil {
			return nil, fmt.Errorf("family %s: %w", s.Family.Name(), err)
		}
	}
	return omega, nil
}

func tooMany(d family.Draw) error {
	return fmt.Errorf("%d projections of dimension %d are more than %d numbers: %w", d.Rows, d.Dim, int64(maxElements),
		ErrSpec)
}

// specWire is the JSON form of a Spec.
type specWire struct {
	Kernel   kernel.Kernel   `json:"kernel"`
	Family   json.RawMessage `json:"family"`
	Coupling json.RawMessage `json:"coupling"`
	Dim      int             `json:"dim"`
	M        int             `json:"m"`
	Seed     uint64          `json:"seed"`
}

// MarshalJSON writes {"kernel":…,"family":…,"coupling":…,"dim":…,"m":…,"seed":…}.
func (s Spec) MarshalJSON() ([]byte, error) {
	w := specWire{Kernel: s.Kernel, Dim: s.Dim, M: s.M, Seed: s.Seed}
	var err error
	if w.Family, err = family.Encode(s.Family); err != nil {
		return nil, err
	}
	if w.Coupling, err = coupling.Encode(s.coupling()); err != nil {
		return nil, err
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the output of MarshalJSON; unknown and repeated fields are errors.
func (s *Spec) UnmarshalJSON(b []byte) error {
	var w specWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("spec: %w: %w", err, ErrSpec)
	}
	if isNull(w.Family) {
		return fmt.Errorf("spec: no family: %w", ErrSpec)
	}
	f, err := family.Parse(string(w.Family))
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	out := Spec{Kernel: w.Kernel, Family: f, Dim: w.Dim, M: w.M, Seed: w.Seed}
	if !isNull(w.Coupling) {
		if out.Coupling, err = coupling.Parse(string(w.Coupling)); err != nil {
			return fmt.Errorf("spec: %w", err)
		}
	}
	*s = out
	return nil
}

// isNull reports whether a field is missing or null; both mean the default.
func isNull(b json.RawMessage) bool { return len(b) == 0 || string(b) == "null" }
