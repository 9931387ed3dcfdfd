package centroid

import (
	"fmt"
	"math"
	"reflect"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
)

// specOf returns the spec of key/value head h.
func specOf[S any](specs []S, h int) *S {
	if len(specs) == 1 {
		return &specs[0]
	}
	return &specs[h]
}

// lower appends the settings of specs.
func lower(dst []settings, specs []Spec) []settings {
	for _, s := range specs {
		dst = append(dst, s.settings())
	}
	return dst
}

// checkSpecs returns an error unless there is one valid spec for all heads or one for each, of one method.
func checkSpecs(specs []Spec, heads int) error {
	if len(specs) != 1 && len(specs) != heads {
		return fmt.Errorf("%d specs, want 1 or one per key/value head, %d: %w", len(specs), heads, dense.ErrShape)
	}
	for h, s := range specs {
		if s == nil {
			return fmt.Errorf("head %d has no spec: %w", h, ErrSpec)
		}
		if reflect.TypeOf(s) != reflect.TypeOf(specs[0]) {
			return fmt.Errorf("head %d has a %T and head 0 a %T, use two attentions: %w", h, s, specs[0], ErrSpec)
		}
		if err := s.Validate(); err != nil {
			if len(specs) > 1 {
				return fmt.Errorf("head %d: %w", h, err)
			}
			return err
		}
	}
	return nil
}

// logitScale returns the scale of logits: scale, or 1/√d if it is 0.
func logitScale(scale float64, d int) (float64, error) {
	switch {
	case !dense.IsFinite(scale):
		return 0, fmt.Errorf("scale %v: %w", scale, dense.ErrNotFinite)
	case scale != 0:
		return scale, nil
	}
	return 1 / math.Sqrt(float64(max(1, d))), nil
}

// checkInputs validates the strides and the shapes of the arguments.
func checkInputs(vis *attention.Visibility, out attention.Shape, q, k, v attention.Seq[float32]) error {
	for _, s := range [...]struct {
		name string
		seq  attention.Seq[float32]
	}{{"q", q}, {"k", k}, {"v", v}} {
		if err := s.seq.Check(s.name); err != nil {
			return err
		}
	}
	return vis.CheckShapes(out, q.Shape, k.Shape, v.Shape)
}
