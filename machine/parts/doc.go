// Package parts fits the models of package machine/tabular to tables of many files, on as many processes and
// machines as there are. The model is byte-identical to that of one process.
//
// # Usage
//
// A [Run] is an ordered list of files, cut into units (data.Unit), with the options of the fit. It is read in steps:
//
//	step      result                                              reads
//	Learn     the types of the columns, a sample of the rows      all units
//	Choose    scaling, kernel, bandwidth, λ, features: a [Plan]   the sample
//	Sum       the sums over the rows that determine the model     all units
//	Finish    the model and its scores                            the sums, and the held-out rows of the sample
//	Evaluate  scores of any model on the files of a run           all units
//
// [Run.Fit] does all of them in one process. To share them, keep the run in a [Folder] that all processes see. Every
// worker calls [Folder.Do] for its [Span] of leaves; one process then calls [Folder.Whole], which merges the parts,
// and continues:
//
//	folder, err := parts.CreateFolder("run", run)
//	step, err := run.Learn()
//	written, err := folder.Do(ctx, step, span) // on every worker
//	whole, err := folder.Whole(ctx, step)      // once all parts are there
//	plan, err := run.Choose(ctx, whole)
//
// # Guarantees
//
// A pass over all units is a [Step]. Runs of consecutive units are leaves. The parts of the leaves merge along a tree
// that depends only on the number of leaves. The result is therefore byte-identical however the leaves are scheduled,
// and a failed step can simply be repeated. Parts carry the identity of their run, plan and step; parts of another are
// refused. Sum compares the contents of the files with those that Learn has read. Parts also name the CPU kernels that
// computed them. Finish reports parts from machines of several kinds, which may differ in the last bits.
//
// # Differences from tabular.Fit
//
// Exact kernels, logistic regression, weights, groups and times of rows are refused. They need repeated access to all
// rows. For classes, λ comes from the sample. Scores, prediction intervals and probabilities come from rows held out of
// choices and sums (4096, or a fifth of fewer than 20480), not from fits without a fold; the columns are learned from
// these rows, too. If all choices are given and Folds is 1, both give the same model, except for a density.
//
// # Files
//
//	run.go                        Run: files and options; which leaves a worker gets
//	step.go, part.go, span.go     Step, Part, and the tree along which parts merge
//	learn.go, sample.go           the step Learn, and the random sample of rows
//	plan.go                       Choose and Plan
//	sum.go                        the step Sum, Finish, Fit
//	evaluate.go                   the step Evaluate, predictions of units
//	folder.go                     Folder: run, plan and parts as files
//	kernels.go                    names of CPU kernels
package parts
