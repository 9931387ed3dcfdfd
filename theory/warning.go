package theory

import (
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/theory/forms"
)

// Warning says when a coupling is known to hurt a family at a pair, for instance simplex with trigonometric features;
// "" otherwise.
func Warning(k kernel.Kernel, f Estimator, c coupling.Coupling, x, y []float64) string {
	d := k.Dim(len(x))
	form, err := f.Form(k.Kind, k.Embed(make([]float64, d), x), k.Embed(make([]float64, d), y))
	if err != nil {
		return ""
	}
	for _, t := range form.Terms {
		if !t.Couples {
			continue
		}
		if w := warn(t.Shape, coupling.Pairs(c, t.Dim).Kind, t.Dim, t.T); w != "" {
			return w
		}
	}
	return ""
}

// warn is a sentence when the coupling is known to hurt this shape at t (v² or z²) in dimension d, and "" otherwise
// (docs/theory.md §5.2).
func warn(shape forms.Shape, law coupling.PairKind, d int, t float64) string {
	if d < 2 {
		return ""
	}
	switch sign, _, err := forms.Kappa(shape, law, d, t); {
	case err != nil:
	case law == coupling.PairSimplex && shape == forms.Hyperbolic:
		return "simplex coupling makes hyperbolic features worse than orthogonal coupling at every |x+y|; use orthogonal"
	case law == coupling.PairSimplex && shape == forms.Trigonometric:
		return "simplex coupling makes trigonometric features worse than orthogonal coupling for |x−y| below about " +
			"2 to 3, and of mixed effect beyond; use orthogonal"
	case law == coupling.PairOrthogonal && shape == forms.Trigonometric && sign > 0:
		return fmt.Sprintf("orthogonal coupling makes trigonometric features worse than independent ones at "+
			"|x−y|² = %.3g in dimension %d", t, d)
	}
	return ""
}
