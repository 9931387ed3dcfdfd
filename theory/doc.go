// Package theory predicts the error of an estimate before anything is drawn. It works on plain numbers and never
// samples.
//
// # Usage
//
// [Of] returns the moments of kernel × family × coupling with m projections at one pair of rows, as logarithms:
//
//	m, err := theory.Of(spec.Kernel, spec.Family, spec.Coupling, spec.M, x, y)
//	if errors.Is(err, theory.ErrNoClosedForm) {
//		// nobody knows it: measure instead, as package advise does
//	}
//
// Average over pairs of your rows for the error on your data. Where most of the variance lies in rare draws
// (positive features and |x+y|² above 4 or so), few draws show less than the prediction: the tail is heavy, not the
// theory wrong.
//
// [Warning] says when a combination is known to hurt. The formulas are in internal/forms and in
// docs/theory.md, which also lists the corrections to the papers (§7).
package theory
