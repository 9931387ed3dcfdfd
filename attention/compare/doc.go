// Package compare measures the errors of linear attention against exact attention with the kernel that its map
// estimates, on a sample of rows, beside the errors that package predict expects.
//
// [Run] needs no L×L matrix and no second pass over everything: the sampled rows see all of their keys, in float64, by
// definition rather than through the sums of attention. So it also tells the error of the estimate from the rounding of
// the implementation.
package compare
