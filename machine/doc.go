// Package machine fits models that are linear in random features, and predicts with them.
//
// Package machine/tabular fits a table and makes all choices; use this package if you have numbers and want to
// choose yourself.
//
// # Usage
//
// A [Setup] holds the spec of the features, the task and the number of outputs. Add rows to sums, solve for a
// penalty, and predict:
//
//	ridge, err := machine.NewRidge(machine.Setup{Spec: spec, Outputs: 1})
//	err = ridge.Add(x, y)                       // as often as you like; memory does not grow
//	path, err := ridge.Path([]float64{0.1, 1})  // generalised cross-validation and evidence of each λ
//	model, err := ridge.Model(0.1)
//	p, err := machine.NewPredictor[float64](model)
//	err = p.Predict(out, x, nil)
//
// [Ridge], [GP], [Smoother] and [Density] are [Sums]: sums of shards merge and can be saved, so rows may live on
// many machines. A [Smoother] is the Nadaraya–Watson estimate, a [Density] a kernel density with calibrated
// quantiles. [FitExact] is exact kernel ridge regression, [FitExactIterative] the same by conjugate gradients,
// [FitLogistic] multinomial logistic regression.
//
// A [Model] is plain data with a file format ([Model.Save], [Load]). A [Predictor] runs it on encoded rows, a
// [TablePredictor] on tables. An [Evaluation] turns predictions into scores with intervals; [Differences] compares
// two models on the same rows.
//
// Results do not depend on the number of goroutines, nor, with the same Setup.Block, on whether rows come from
// memory or from a stream.
//
// Legend: n rows, F features φ, Φ the n×F matrix of features, K outputs, Y the n×K targets.
package machine
