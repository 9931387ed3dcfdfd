// Package machine fits models that are linear in random features, and predicts with them.
//
// [Ridge] sums ΦᵀΦ and ΦᵀY over any number of rows in bounded memory; sums of shards merge and can be saved. From the
// sums alone come kernel ridge regression and classification for any λ, its generalised cross-validation and evidence
// ([Ridge.Path]), and Gaussian-process regression ([Ridge.GP]). [Smoother] is the Nadaraya–Watson estimate, [Density] a
// kernel density with calibrated quantiles, [FitLogistic] multinomial logistic regression. All give a [Model], which is
// plain data with a file format; a [Predictor] runs it.
//
// Results do not depend on the number of goroutines, nor, with the same Setup.Block, on whether rows come from memory
// or from a stream.
//
// Legend: n rows, F features φ, Φ the n×F matrix of features, K outputs, Y the n×K targets.
package machine
