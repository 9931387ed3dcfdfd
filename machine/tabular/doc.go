// Package tabular fits a model to a table. It makes every choice that the caller leaves open: which columns are used
// and how they are scaled, the kernel and its bandwidth, the penalty, the feature map with its family, coupling and
// size. The report says what was chosen and why, and how well the model predicts rows that it has not seen
// (docs/machines.md, "How choices are made" and "Scores").
//
// [Fit] does all of it in one process. [Choose] and [Plan.Finish] are its two ends for tables whose rows are summed
// elsewhere (package parts).
//
// # One fit, from top to bottom
//
// A fit runs through five stages. Each reads what the stages before it found and changes none of it:
//
//	learn columns   learn.go, job.go     pass 1: the schema. With the options it makes a job: what is known before
//	                                     any choice, such as the task, the kind of model, folds and weights of rows.
//	draw a sample   sample.go            pass 2: a random sample of the rows, in memory, ordered by fold.
//	choose          choose.go            searchAll tries settings on the sample and returns a decision, plain data.
//	fit             final.go             pass 3: the model of all rows with the settings of the decision, and its
//	                                     calibration by rows predicted out of fold (outoffold.go).
//	score           nested.go            the whole procedure again without each fold (foldfit.go), judged on that
//	                                     fold.
//
// fit.go calls the stages in this order. A checkpoint (checkpoint*.go) holds what they found, once a decision is made.
//
// # The search
//
// searchAll chooses the scaling of columns first (scaling.go, widths.go). A metric (metric*.go, floatfit.go)
// competes with what the rest of the search finds, and if it looks better the rest is searched again with it. An
// exact kernel of few rows is then searched by exact.go with kernels.go; of more rows far.go chooses again. Random
// features are searched one choice after the other: families.go, bandwidth.go, features.go, nystrom.go, penalty.go,
// logistic.go. Every search tries settings through one of the try files, each of which predicts rows by models that
// have not seen them, and compares them as trial.go says. Nothing in the search refers to the fit that asked for it,
// and none of its scores is reported as the model's.
//
// # Determinism
//
// Folds, sample and pairs of rows are hashes of the seed and of row numbers, never draws from a stream. So they do not
// depend on how rows are read or on what was drawn before. Sums are taken in blocks of rows of one fold; the borders of
// the blocks do not depend on the reader. Goroutines write to places of their own and share no sum.
//
// # Notation
//
// n rows, d encoded columns, F features, K folds, s the bandwidth of the kernel exp(−|x−y|²/(2s²)), λ the penalty.
package tabular
