package centroid

import (
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/attention"
)

// forwardCausal is Forward for causal attention; the arguments have been checked.
func (a *Attention[T]) forwardCausal(_, _, _, _ attention.Seq[T]) (attention.Report, error) {
	return attention.Report{}, fmt.Errorf("causal centroids: %w", errors.ErrUnsupported)
}
