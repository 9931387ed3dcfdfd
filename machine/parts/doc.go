// Package parts fits the models of package tabular to tables of many files, a part of the rows at a time, on as many
// processes and machines as there are: the model is the same to the last byte as that of one process.
//
// A [Run] is an ordered list of files, cut into units (data.Unit), with the options of the fit. It is read in steps:
//
//	Learn     what the columns are, and a sample of the rows      a pass over all units
//	Choose    scaling, kernel, bandwidth, λ, features: a [Plan]   the sample alone
//	Sum       what the rows of the model add up to                a pass over all units
//	Finish    the model, and its scores                           the sums, and rows of the sample that were held out
//	Evaluate  scores of any model on the files of a run           a pass over all units
//
// A pass is a [Step]. Consecutive units are leaves; the parts that leaves give merge along a tree that depends on
// nothing but their number, so that it does not matter who reads which leaves, in what order and how often: a step that
// failed is repeated. Parts say what they are of, and those of another run, plan or step are refused. Sum compares the
// contents of the files with those that Learn has read. Parts name the kernels that computed them; Finish reports parts
// of machines of several kinds.
//
// The model has the same bytes for any number of workers and threads, on machines of the same kind: other processors
// may round other last bits.
//
// What differs from tabular.Fit is what needs all rows in one place, or again and again: exact kernels, logistic
// regression, weights, groups and times of rows are refused; λ of classes is that of the sample; and scores,
// prediction intervals and probabilities come from rows that are held out of choices and sums alike (4096, or a fifth
// of fewer than 20480), not from fits without a fold. The columns are learned from these, too. Where all choices are
// given and Folds is 1, both give the same model, but for a density.
package parts
