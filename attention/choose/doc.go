// Package choose finds the attention method for every head of a model, with its expected error and its predicted time.
//
// Heads differ. Some attend to a few neighbours, some to a few keys anywhere, some to nearly all keys equally. A method
// that suits one head can be useless for the next, and theory does not tell them apart beforehand. So this package
// measures: it computes the exact output of a few dozen query rows and compares the candidate methods with it.
//
// # Usage
//
// First collect queries, keys and values of your model on typical texts, one text per batch entry. Several texts give
// better estimates than one, because errors differ from text to text.
//
// Then choose, with an error that you accept (Options.Tol) or a cost (Options.Budget):
//
//	choice, err := choose.Choose(choose.Options{Tol: 0.1}, vis, 0, q, k, v)
//
// For each head, [Choose] looks for the candidate with the shortest predicted time that is accurate enough. Exact
// attention is always among the candidates. To use a given method instead, call [Use] with a [Plan].
//
// A [Choice] is plain data. Save it as JSON. It is valid as long as the model and the kind of input stay the same:
//
//	saved, err := json.Marshal(choice)
//
// Run the choice. [Attention] computes each head with its own method, in one call:
//
//	a, err := choose.New(choice)
//	report, err := a.Forward(out, q, k, v)
//
// For decoding token by token, choose with Options.Decode and make the state with [NewChunks].
//
// Finally, [Check] measures the error of any attention on any data, on a sample of query rows:
//
//	check, err := choose.NewCheck(vis, 0, q, k, v, 0, seed)
//	heads, all, err := check.Errors(a)
//
// # Random features
//
// For linear attention, [Compare] reports measured errors next to the errors that theory predicts before a map is
// drawn. The weights of different keys are estimated with the same projections, so their errors are correlated, and the
// normaliser cancels most of the common part. A prediction uses the covariances in closed form where they exist, and
// its [Basis] says which approximation it made.
//
// # Costs and seconds
//
// The unit of cost is one random feature: 2(d + d_v) multiply-adds per token. m random features cost m; exact attention
// over L keys costs L/2. Cost is not time, so [Choose] ranks plans by predicted seconds, from the rates that
// [MeasureRates] measures on this machine.
//
// # Limits
//
// A choice by measured rates depends on the machine. Set Options.Rates, for example to the rates of a saved choice, or
// Options.ByCost to make it reproducible. Errors and costs are those at the length of the sample. The intervals assume
// texts of the same kind.
//
// # Files
//
//   - choose.go: the options and the search. judge.go: the errors of candidates. dense.go, decode.go and grid.go: the
//     search among plans of blocks and for decoding, and the candidates. trace.go: what a search did.
//   - plan.go, choice.go: the method of one head, and the choice for all heads with its file form.
//   - attention.go: running a choice.
//   - check.go, rows.go: measured errors and their intervals, on sampled rows.
//   - rates.go: seconds per unit of cost.
//   - compare.go: [Compare]. prediction.go, predictor.go, basis.go: predicted errors of linear attention. law.go,
//     law_exponential.go, law_discrete.go: covariances of estimated weights.
package choose
