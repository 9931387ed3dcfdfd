// Package machine fits models that are linear in random features, and predicts with them.
//
// Package machine/tabular fits a table and makes all choices. Use this package if your data are numbers and you want to
// choose yourself.
//
// # Usage
//
// Describe the model in a [Setup]: the spec of the features, the task and the number of outputs. Then add rows to sums,
// compare penalties, solve for one, and predict:
//
//	ridge, err := machine.NewRidge(machine.Setup{Spec: spec, Outputs: 1})
//	err = ridge.Add(x, y)                       // as often as you like; memory does not grow
//	path, err := ridge.Path([]float64{0.1, 1})  // generalised cross-validation and evidence of each λ
//	model, err := ridge.Model(0.1)
//	p, err := machine.NewPredictor[float64](model)
//	err = p.Predict(out, x, nil)
//
// Save the model with [Model.Save] and read it with [Load]. A [Predictor] runs it on encoded rows, a [TablePredictor]
// on tables. An [Evaluation] turns predictions into scores with intervals; [Losses.Differences] compares two models on
// the same rows.
//
// # Which fit
//
//   - [NewSums] makes the [Sums] of a kind: ridge regression ([Ridge]), a Gaussian process, a smoother (the
//     Nadaraya–Watson estimate) or a kernel density, whose quantiles a [Calibration] makes. Sums of shards merge and
//     can be saved, so the rows may live on many machines.
//   - [FitExact] is exact kernel ridge regression; [FitExactIterative] solves it by conjugate gradients for more rows.
//   - [FitIterative] is ridge regression with more features than an F×F matrix allows.
//   - [FitLogistic] is multinomial logistic regression.
//
// # Determinism
//
// Results do not depend on the number of goroutines. With the same Setup.Block they do not depend on whether rows come
// from memory or from a stream either.
//
// Notation: n rows, F features φ, Φ the n×F matrix of features, K outputs, Y the n×K targets.
//
// # Files
//
// Input and description:
//
//	setup.go                 Setup: validation, targets as columns, features of blocks
//	kinds.go                 the table of kinds; the interface Sums
//	rows.go, rows_table.go   Rows from matrices and tables; ahead.go reads the next block meanwhile
//	rowsketch.go             which rows a model was fitted to
//
// Fits:
//
//	ridge.go, solve.go, loo.go       sums of ridge regression, solutions, leave-one-out predictions
//	gp.go, smoother.go, density.go   the other sums; *codec.go, sumstream.go save and read sums
//	falkon.go                        ridge with many features by conjugate gradients
//	exact.go, exactiterative.go      the kernels of all rows
//	landmarks.go                     Nyström features: choice of landmarks, whitening
//	logistic.go, lbfgs.go            logistic regression, resumable
//
// Models and predictions:
//
//	model.go, file.go, history.go, metric.go   Model and its file format
//	predict.go, table.go, row.go               predictions of matrices, tables, single rows
//	calibrate.go                               scores of classes to probabilities
//	conformal.go, groupintervals.go            prediction intervals
//	quantiles.go                               quantiles of log densities
//
// Evaluation:
//
//	evaluation.go, evaluationcodec.go     sums over predicted rows, scores
//	interval.go, tally.go                 95 % intervals of scores; weighted counts
//	auc.go, classes.go, reliability.go    ROC areas, scores by class, reliability of probabilities
//	paired.go                             differences of two models
//	importance.go, explain.go             which columns matter
package machine
