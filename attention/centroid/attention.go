package centroid

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// Attention is attention over centroids and exact sets, an attention.Attention[attention.Seq[T]].
type Attention[T dense.Float] struct {
	attention.Visibility
	// Scale of the logits; 0: 1/√d.
	Scale float64
	// Specs has one entry for all key/value heads, or one per head.
	Specs []Spec
	// Centres, one per key/value head, assign the keys; nil: centres are fitted to the keys of the call, or, causal, to
	// keys already seen.
	Centres []*Centres
	// Unchecked leaves out the search for NaN and infinities.
	Unchecked bool
}

// Forward sets out, which has the heads and length of q and the dimension of v.
func (a *Attention[T]) Forward(out, q, k, v attention.Seq[T]) (attention.Report, error) {
	if err := a.check(out, q, k, v); err != nil {
		return attention.Report{}, err
	}
	if a.Causal {
		return a.forwardCausal(out, q, k, v)
	}
	return attention.Report{}, fmt.Errorf("bidirectional centroids: %w", errors.ErrUnsupported)
}

// check validates the arguments of Forward.
func (a *Attention[T]) check(out, q, k, v attention.Seq[T]) error {
	if err := out.Check("out"); err != nil {
		return err
	}
	if err := checkInputs(&a.Visibility, out.Shape, q, k, v); err != nil {
		return err
	}
	if err := checkSpecs(a.Specs, k.Heads); err != nil {
		return err
	}
	if _, err := logitScale(a.Scale, q.Dim); err != nil {
		return err
	}
	if a.Centres != nil && len(a.Centres) != k.Heads {
		return fmt.Errorf("centres of %d heads, k has %d: %w", len(a.Centres), k.Heads, dense.ErrShape)
	}
	for h, c := range a.Centres {
		switch {
		case c == nil:
			return fmt.Errorf("head %d has no centres: %w", h, dense.ErrShape)
		case c.Dim() != k.Dim:
			return fmt.Errorf("head %d: centres of dimension %d, keys of %d: %w", h, c.Dim(), k.Dim, dense.ErrShape)
		case c.ValueDim() != 0 && c.ValueDim() != v.Dim:
			return fmt.Errorf("head %d: centres of values of dimension %d, values of %d: %w", h, c.ValueDim(), v.Dim,
				dense.ErrShape)
		}
	}
	if a.Unchecked {
		return nil
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return err
	}
	return checkFinite(tab, q, k, v, a.SeenKeys(nil, q.Batch, q.Len, k.Len))
}
