// Package parts fits the models of package machine/tabular to tables of many files, on as many processes and
// machines as there are. The model is byte-identical to that of one process.
//
// # Usage
//
// A [Run] is an ordered list of files, cut into units (data.Unit), with the options of the fit. It is read in steps:
//
//	Learn     what the columns are, and a sample of the rows      a pass over all units
//	Choose    scaling, kernel, bandwidth, λ, features: a [Plan]   the sample alone
//	Sum       what the rows of the model add up to                a pass over all units
//	Finish    the model, and its scores                           the sums, and rows of the sample that were held out
//	Evaluate  scores of any model on the files of a run           a pass over all units
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
// # What holds
//
// A pass is a [Step]. Consecutive units are leaves. The parts of the leaves merge along a tree that depends only on
// their number, so it does not matter who reads which leaves, in which order and how often. Repeat a step that
// failed. Parts name their run, plan and step, and those of another are refused. Sum compares the contents of the
// files with those that Learn has read. Parts also name the CPU kernels that computed them; Finish reports parts of
// machines of several kinds, which may round other last bits.
//
// # Differences from tabular.Fit
//
// Exact kernels, logistic regression, weights, groups and times of rows are refused: they need all rows in one
// place, or again and again. λ of classes is that of the sample. Scores, prediction intervals and probabilities come
// from rows held out of choices and sums (4096, or a fifth of fewer than 20480), not from fits without a fold; the
// columns are learned from these rows, too. If all choices are given and Folds is 1, both give the same model,
// except for a density.
package parts
