// Package rfx builds the random features and the linear attention of randfeat as GoMLX graphs. The same spec gives the
// same projections and, up to rounding, the same outputs as packages randfeat and attention. Gradients come from the
// graph, and every GoMLX backend can run it.
//
// # Usage
//
// Draw a map from specs, then use it inside a graph function. Queries, keys and values are nodes [batch, heads, length,
// dim]:
//
//	m, err := rfx.NewMap(specs...)                // one spec for all heads, or one per key/value head
//	a := rfx.Attention{Map: m, Causal: true}
//	out := a.Forward(q, k, v, rfx.Visible{})
//
// To decode token by token, start with [Attention.Empty] and call [Attention.Extend]. [Centroids] is the corresponding
// centroid attention. With [Map.With], projections are inputs of the graph and can change without recompiling.
//
// # Numerics
//
// Features stay in the log domain until they are summed: a feature is Value·exp(Log). Every sum over keys has one
// reference per feature, which a key of that sum attains (docs/theory.md §6). So nothing overflows, nothing is added to
// features or denominators, and no later key influences the normaliser of an earlier query.
//
// # Errors
//
// NewMap and Check return errors for shapes that do not fit. Inside a graph, GoMLX reports them by panics, which its
// Exec turns into errors.
package rfx
