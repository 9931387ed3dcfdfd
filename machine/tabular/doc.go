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
// A fit is a pipeline of values. Each is a function of the values before it, and changes none of them:
//
//	columns   learn.go                 pass 1: learnTable returns a job, everything known before the first choice: the
//	                                   columns, the task, the kind of model, how rows are dealt, and their weights.
//	frame     frame.go, sample.go      pass 2: rows in memory, all or a sample, with the fold of each.
//	trials    candidate.go,            one out-of-fold prediction of every row for every [Candidate]
//	          evaluate.go, columns.go
//	choice    search.go, beyond.go,    the best candidates and the rules that decided, with their figures
//	          features.go, choose.go
//	model     exact.go, final.go       pass 3: fitted to all rows
//	stated    state.go, unseen.go      scores, probabilities and intervals from rows predicted by models that have not
//	                                   seen them
//
// fit.go calls them in this order. A checkpoint (checkpoint*.go) stores columns, choice and sums. Notes and times go to
// a journal (report.go).
//
// # Trials
//
// A Candidate is plain data. evaluator.evaluate is the only way to judge one: squared loss predicts all folds from one
// factorisation (kernelfit.go), everything that is learned from targets is learned again in every fold. A search
// applies rules (search.go); each proposes alternatives to the best candidate so far, and states the figures by which
// it decided. Candidates are tried on few rows first. Features are tried by sums of folds (sumtrial.go).
//
// Groups and times only change how rows are dealt to folds (folds.go).
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
