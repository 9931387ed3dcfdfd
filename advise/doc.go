// Package advise finds the feature map that suits given rows: which family, which coupling, how many features, what
// error, at what cost, and why.
//
// # Usage
//
// Call [Kernel] for a kernel between queries and keys, or within one set of rows (pass a zero matrix for the keys), and
// [Attention] for attention:
//
//	report, err := advise.Kernel(ctx, queries, keys, advise.Options{Kernel: kernel.Attention(64), Features: 128,
//		Positive: true})
//	m, err := randfeat.New[float32](*report.Spec)
//
// Give a budget in [Options]: a number of features, an error to reach, or a time per row. Read the [Report]:
// Ranking[Best] is the recommendation, Reasons are sentences, Refused lists the candidates that could not take part.
// WriteHTML writes it as a page.
//
// # Measurements
//
// Kernel fits every family with every coupling to a part of the rows and measures the error of the kernel on the
// rest. A race gives most draws to the candidates that may still be the best. Candidates are ranked by root mean
// square error, beside their tail, their cost and the error that theory expects. Intervals cover rows and draws.
// Within one set Nyström features take part, marked as biased. Attention ranks features by the error of attention
// outputs and chooses the method of every head: exact attention, centroids with exact neighbours, or features.
//
// All draws come from Options.Seed: the same rows and options give the same report at any GOMAXPROCS, except for
// measured times. [Report.Regret] and [Report.Fresh] measure on fresh rows how good the recommendation was and
// whether its interval holds. docs/advise.md has the rules and the measured coverage.
//
// # Map of the files
//
//   - kernel.go and attention.go are the two entry points; options.go has their options, report.go the result.
//   - folds.go divides the rows, candidate.go and landmarks.go list and fit candidates, pilot.go measures one draw,
//     race.go decides who gets more draws, interval.go turns draws and rows into an interval.
//   - predicted.go asks theory, cost.go counts or times, facts.go describes the rows, draw.go measures curves.
//   - explain.go writes sentences, code.go writes Go code, html.go writes the page.
package advise
