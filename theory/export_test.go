package theory

import (
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/internal/forms"
)

// RowError is the declared error of the bias under a coupling, relative to the kernel.
func RowError(t forms.Term, c coupling.Coupling, m int) float64 {
	e, _ := coupling.Excess(c, t.Dim, m)
	if e.Fourth == 0 && e.Sixth == 0 {
		return 0
	}
	_, c6 := forms.RowCumulants(e.Dim, e.Fourth, e.Sixth, t.V.Two, t.V.Four, t.V.Six)
	return rowError(t, c, e.Dim, c6)
}
