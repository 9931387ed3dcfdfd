// Package randfeat builds random feature maps: φ1, φ2 with E φ1(x)·φ2(y) = κ(x, y) for the Gaussian kernel
// exp(-|x-y|²/2) or the softmax kernel exp(x·y). They turn kernel machines and attention from quadratic into linear
// cost.
//
// A map is the product of three choices, all plain values:
//
//	kernel    what is estimated          package kernel
//	family    which nonlinearity         package family
//	coupling  joint law of projections   package coupling
//
// put together in a [Spec]. [Fit] chooses the family's parameters from data, [Spec.WithFeatures] the number of
// projections; theory.Of says what error to expect before anything is drawn. [New] draws the projections from the seed
// and returns an immutable [Map].
//
// # Log scales
//
// Features are exponentials and would overflow for inputs of moderate norm. [Map.Queries] and [Map.Keys] therefore
// return rows divided by exp(logScale[i]), with the scales beside them: nothing overflows in float32 for |x|² up to
// 10⁴ and beyond. Pass nil for plain features.
//
// # Determinism
//
// The same Spec gives the same projections, and the same build and CPU the same bits, at any GOMAXPROCS. There is no
// global random state and no draw hidden in a call.
//
// Symbols follow the papers: d is the input dimension, m the number of projections ω, F the number of features.
package randfeat
