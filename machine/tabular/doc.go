// Package tabular fits a model to a table. It makes every choice that the caller leaves open: which columns are used
// and how they are scaled, the kernel and its bandwidth, the penalty, the feature map with its family, coupling and
// size. The report says what was chosen and why, and how well the model predicts rows that it has not seen
// (docs/machines.md, "How choices are made" and "Scores").
//
// # Usage
//
// Open a table, name the target, fit, save:
//
//	src, err := text.Open("load.csv", data.Options{})
//	o := tabular.Options{Learn: data.LearnOptions{Targets: []string{"load"}}, Seed: 1}
//	model, report, err := tabular.Fit(ctx, src, o)
//	err = model.Save("load.model")
//
// Set a field of [Options] to make a choice yourself. Predict with machine.NewTablePredictor.
//
// [Fit] needs all rows in one process. If the rows live on several machines, [Choose] makes the choices from a sample,
// the machines sum their rows, and [Plan.Finish] turns the total into a model (package parts).
//
// # One fit, from top to bottom
//
// A fit has five stages. Each stage is a function of the results of earlier stages, and changes none of them:
//
//	learn columns   learn.go     pass 1: learnTable returns a job, everything known before the first choice: the
//	                             columns, the task, the kind of model, folds and row weights.
//	draw a sample   sample.go    pass 2: job.take returns a random sample of the rows, in memory, ordered by fold.
//	choose          choose.go    searchAll tries settings on the sample and returns a decision, plain data.
//	fit             final.go     pass 3: fitAll returns the model of all rows with the settings of the decision,
//	                             calibrated on out-of-fold predictions (outoffold.go).
//	score           score.go     scoreFolds fits again without each fold, and returns scores and residuals on it.
//	                             These widen prediction intervals (intervals.go).
//
// fit.go calls the stages in this order and puts report and model together. The first three are begin (foldfit.go),
// which every fit without a fold calls, too. It returns a chosen: the job with the columns as chosen, and the decision.
// From there on a checkpoint (checkpoint*.go) stores the results. Notes and times go to a journal (report.go).
//
// # The search
//
// A chooser (chooser.go) holds the state of one search. searchAll chooses the scaling of columns first (scaling.go,
// widths.go). A learned metric (metric*.go, floatfit.go) competes with the result of the rest of the search; if it
// scores better, the rest is searched again with it. Then:
//
//   - The exact kernel of few rows is searched by exact.go with kernels.go (few.go below 200 rows). With more rows,
//     far.go chooses again. Beyond its limit, the exact kernel of a part of the rows competes with landmarks
//     (contest.go).
//   - Random features are searched one choice after the other: families.go, bandwidth.go, features.go, nystrom.go,
//     penalty.go, logistic.go.
//
// Every search tries settings through one of the try*.go files. Each of them predicts rows with models that have not
// seen those rows; trial.go compares the scores. None of these scores is reported as the score of the model. The
// search of a scored fold tries only what the search on all rows took, and the standard alternatives (guide.go).
//
// # Determinism
//
// Folds, sample and pairs of rows are hashes of the seed and the row number, never draws from a stream. They do not
// depend on how rows are read or on earlier draws. Sums are taken over blocks of rows of one fold, and the block
// borders do not depend on the reader. Each goroutine writes to its own memory; no sum is shared.
//
// # Notation
//
// n rows, d encoded columns, F features, K folds, s the bandwidth of the kernel exp(−|x−y|²/(2s²)), λ the penalty.
package tabular
