package kernel

import (
	"encoding/json"
	"fmt"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// wire is the JSON form: {"kind":"softmax","scale":2.5,"m":[[…],…]}.
type wire struct {
	Kind  string                `json:"kind"`
	Scale float64               `json:"scale,omitzero"`
	M     dense.Matrix[float64] `json:"m,omitzero"`
}

// MarshalJSON writes {"kind":…,"scale":…,"m":…}; defaults are left out.
func (k Kernel) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{Kind: k.Kind.String(), Scale: k.Scale, M: k.M})
}

// UnmarshalJSON reads the output of MarshalJSON; unknown and repeated fields are errors.
func (k *Kernel) UnmarshalJSON(b []byte) error {
	var w wire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	kind, err := ParseKind(w.Kind)
	if err != nil {
		return err
	}
	*k = Kernel{Kind: kind, Scale: w.Scale, M: w.M}
	return nil
}
