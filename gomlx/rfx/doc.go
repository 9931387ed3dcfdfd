// Package rfx has the random features and the linear attention of randfeat as GoMLX graphs: the same spec, the same
// projections and, up to rounding, the same outputs as packages randfeat and attention, with gradients by the graph and
// on every backend that GoMLX has.
//
// Queries, keys and values are nodes [batch, heads, length, dim]. Features stay in the log domain until sums are taken:
// a feature is Value·exp(Log), and every sum over keys has a reference per feature which keys of that sum attain
// (docs/theory.md §6), so nothing overflows, nothing is added to features or denominators, and no later key takes
// part in what an earlier query is divided by.
//
// Shapes that do not fit are errors of NewMap and Check; inside a graph GoMLX reports them by panics, which its Exec
// turns into errors.
package rfx
