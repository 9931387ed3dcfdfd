// Package choose answers three questions about the attention of every head of a model: which method, with what error,
// in how many seconds?
//
// Heads differ. Some look at a few neighbours, some at a few keys anywhere, some at nearly all keys alike, and the
// method that serves one head is useless for the next. No theory tells beforehand, so this package measures: it
// computes the exact output of a few dozen query rows and compares the methods with it.
//
// # Usage
//
// Collect queries, keys and values of your model on texts like those that it will see. Several texts, one per batch
// entry, tell more than one. Then choose, with an error that you accept or a budget:
//
//	choice, err := choose.Choose(choose.Options{Tol: 0.1}, vis, 0, q, k, v)
//
// [Choose] tries the candidates of a grid in the order of their predicted time, head by head, until one is accurate
// enough. Exact attention is one of the answers. To impose a method instead, call [Use] with a [Plan].
//
// A [Choice] is plain data. Save it as JSON and use it for as long as the model and the kind of its input stay the
// same:
//
//	saved, err := json.Marshal(choice)
//
// [Attention] runs a choice, each head by its own method, in one call:
//
//	a, err := choose.New[float32](choice)
//	report, err := a.Forward(out, q, k, v)
//
// [Check] measures the error of any attention on any data, against exact outputs of a sample of query rows:
//
//	check, err := choose.NewCheck(vis, 0, q, k, v, 0, seed)
//	heads, all, err := check.Errors(a)
//
// # Random features
//
// For linear attention with random features, [Compare] sets measured errors beside the errors that theory predicts
// before a map is drawn. Weights of different keys are estimated with the same projections: their errors are
// correlated, and the normaliser cancels most of what they share. A [Prediction] takes the covariances in closed
// form and says what it is based on.
//
// # Costs and seconds
//
// Costs are in units of one random feature, 2(d + d_v) multiply-adds per token: m random features cost m, exact
// attention over L keys L/2. Cost is not time, so [Choose] ranks plans by predicted seconds: [MeasureRates] measures
// seconds per unit of cost on this machine. A choice then depends on the machine. Options.Rates, such as those of a
// saved choice, or Options.ByCost make it reproducible.
package choose
