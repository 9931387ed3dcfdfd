// Package randfeat builds random feature maps: φ1, φ2 with E φ1(x)·φ2(y) = κ(x, y) for the Gaussian kernel
// exp(-|x-y|²/2) or the softmax kernel exp(x·y). They turn kernel machines and attention from quadratic into linear
// cost.
//
// # Usage
//
// A map is the product of three choices, all plain values:
//
//	kernel    what is estimated          package kernel
//	family    which nonlinearity         package family
//	coupling  joint law of projections   package coupling
//
// First put them together in a [Spec]:
//
//	spec := randfeat.Spec{
//		Kernel:   kernel.Attention(64), // exp(q·k/√64)
//		Family:   family.Adaptive{},
//		Coupling: coupling.Simplex{},
//		Dim:      64, M: 256, Seed: 7,
//	}
//
// [Fit] chooses the family's parameters from data and returns a new spec; [HeldOut] estimates the error of that fit
// on rows it has not seen. [Spec.WithFeatures] sets M by the number of features. theory.Of predicts the error before
// anything is drawn:
//
//	spec, err := randfeat.Fit(spec, queries, keys)
//
// Then [New] draws the projections from the seed and returns an immutable [Map], which serves any number of
// goroutines:
//
//	m, err := randfeat.New[float32](spec)
//	phi, logScale := dense.New[float32](q.Rows, m.OutDim()), make([]float64, q.Rows)
//	err = m.Queries(phi, logScale, q, nil)
//
// Pass a [Workspace] in place of nil to allocate nothing; a workspace serves one goroutine at a time. [Map.Gram]
// estimates a whole kernel matrix.
//
// To choose among families and couplings, let package advise measure them. To use features, see packages
// attention/linear, machine and sampling. They take any [FeatureMap], so a map of your own, or one on a device, can
// stand in for a Map; check it with [CheckMap] and package randfeattest.
//
// # Log scales
//
// Features are exponentials and would overflow for inputs of moderate norm. [Map.Queries] and [Map.Keys] therefore
// return rows divided by exp(logScale[i]), with the scales beside them. Nothing overflows in float32 for |x|² up to
// 10⁴ and beyond. Pass nil for plain features.
//
// # Determinism
//
// The same Spec gives the same projections, and the same build and CPU the same bits, at any GOMAXPROCS. There is no
// global random state and no hidden draw.
//
// Symbols follow the papers: d is the input dimension, m the number of projections ω, F the number of features.
//
// # Files
//
//	spec.go, size.go, lower.go   Spec, its size, and its plan
//	map.go, log.go               Map: features with scales, log form, features at given scales
//	vjp.go                       derivatives by inputs and parameters
//	gram.go, underflow.go        estimated kernel matrices
//	fit.go, heldout.go           parameters from data, and their error on other rows
//	featuremap.go, funcmap.go    the interface for maps of other implementations, and maps from functions
package randfeat
