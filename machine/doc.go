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
// on tables. An [Evaluation] turns predictions into scores with intervals; [Differences] compares two models on the
// same rows.
//
// # Which fit
//
//   - [Ridge], [GP], [Smoother] and [Density] are [Sums]. Sums of shards merge and can be saved, so the rows may live
//     on many machines. A Smoother is the Nadaraya–Watson estimate, a Density a kernel density with calibrated
//     quantiles.
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
package machine
