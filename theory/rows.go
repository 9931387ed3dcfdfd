package theory

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
	"github.com/randfeat/randfeat/internal/special"
)

// formRowRatio is logRowRatio for all terms of a form together.
func formRowRatio(f forms.Form, c coupling.Coupling, m int) (float64, error) {
	sum := special.Signed{}
	biased := false
	for _, t := range f.Terms {
		r, err := logRowRatio(t, c, m)
		if err != nil {
			return 0, err
		}
		biased = biased || r != 0
		sum = special.SumSigned(sum, special.SignedOf(t.Mean).Scale(r))
	}
	switch {
	case !biased:
		return 0, nil
	case sum.Sign <= 0:
		return 0, forms.NoForm(fmt.Sprintf("the mean under the %s coupling, whose rows are not uniform", c.Name()))
	}
	return sum.Log, nil
}

// maxRowRatio bounds the log ratios that are reported: beyond it the expansion is not reliable.
const maxRowRatio = 0.1

// logRowRatio is the log of the mean of a term relative to its mean with Haar directions: 0 for couplings whose rows
// have exactly their law, a small number for HD and Givens products (docs/theory.md §4.6).
func logRowRatio(t forms.Term, c coupling.Coupling, m int) (float64, error) {
	e, ok := coupling.Excess(c, t.Dim, m)
	switch {
	case ok && e.Fourth == 0 && e.Sixth == 0:
		return 0, nil
	case !ok || !t.Couples || t.Radial && e.Dim != t.Dim:
		return 0, forms.NoForm(fmt.Sprintf("the bias of this family under the %s coupling, whose rows are not uniform",
			c.Name()))
	}
	c4, c6 := forms.RowCumulants(e.Dim, e.Fourth, e.Sixth, t.V.Two, t.V.Four, t.V.Six)
	if !((math.Abs(c4)+math.Abs(c6)+forms.RowError(t, e.Dim, c6, rotates(c)))*rowScale(t) <= maxRowRatio) {
		return 0, forms.NoForm(fmt.Sprintf("the bias under the %s coupling at this pair, too large for its expansion", c.Name()))
	}
	if t.Shape == forms.Trigonometric {
		c6 = -c6
	}
	return max(-1, min(1, c4+c6)), nil
}

// rotates says that a coupling multiplies rotations of two coordinates.
func rotates(c coupling.Coupling) bool {
	_, ok := c.(coupling.Givens)
	return ok
}

// rowScale is 1, or for trigonometric features of pairs beyond |z| = 2 the kernel over its value at |z| = 2: relative
// to so small a kernel value, no error of these features is small.
func rowScale(t forms.Term) float64 {
	if t.Shape != forms.Trigonometric {
		return 1
	}
	return math.Exp(min(0, (4-t.V.Two)/2))
}
