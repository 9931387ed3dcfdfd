// Package watch says when the rows that a model predicts are no longer like the rows that it was fitted to.
//
// # Usage
//
// Make a reference at the end of a fit and store it in the model file. Later, add new rows to a monitor and ask for a
// report:
//
//	ref, err := watch.Model(src, model, watch.Options{})
//	err = watch.Attach(model, ref)              // saved with the model
//
//	ref, err = watch.Of(model)
//	m := ref.Monitor()
//	err = m.Add(x, probabilities)               // rows encoded by ref.Encoder
//	report, err := m.Report(0)
//	fmt.Println(report.Text)
//
// Two tables without a model: [Table] makes the reference. A stream that is read again and again: [Sequence] corrects
// for the number of looks. Monitors of several machines merge.
//
// # How it works
//
// Every statistic is a sum over rows: random features, products of two columns, counts of bins and levels. So a monitor
// has constant memory and merges, and a reference is the monitor of the rows of the fit. The difference of mean random
// features of two samples is the kernel two-sample test (maximum mean discrepancy; Gretton et al. 2012, JMLR 13).
// docs/watch.md describes the tests and what they detect; docs/theory.md §8 has their law.
//
// # Files
//
//	schema.go, layout.go        which statistics a row has
//	reference.go, table.go      references of rows, tables, models; the law of the statistics without a change
//	monitor.go                  sums over new rows
//	tests.go, compare.go        the tests
//	report.go, outputs.go       the verdict, the columns, the scores to expect
//	sequence.go                 repeated looks
//	codec.go                    references in model files; saved monitors
package watch
