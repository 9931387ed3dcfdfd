// Package auto fits a model to a table and makes every choice that the caller leaves open: the columns, the bandwidth,
// the penalty, the scaling, the map with its number of features, family and coupling. It says what it chose, why, and
// how well the model predicts rows it has not seen (docs/machines.md, "How choices are made" and "Scores").
//
// Legend: n rows, d encoded columns, F features, K folds, s the bandwidth of the kernel exp(−|x−y|²/(2s²)), λ the
// penalty.
//
// The way of a fit, by file:
//
//	options, defaults    what the caller asks for; what is refused before any row is read
//	fit                  the stages in order, and what is known after each
//	learn                pass 1: the schema
//	scaled               the rows of all later passes: targets standardised, reading cancellable
//	sample, folds        pass 2: the sample, and which fold a row is in
//	scaling, widths      how much every column counts in distances
//	exact, tryexact      s and λ of an exact kernel, and its fit: ridge of few rows
//	choose               the choices of random features, one after the other:
//	  families           family and coupling; the memory of trials
//	  distance           where the search of s begins
//	  bandwidth          s, and λ with it
//	  features           F, and s once more
//	  nystrom            landmarks instead, or as asked
//	  penalty, logistic  λ
//	trial                what a setting reached, and which of two is better
//	tryridge, trysums    how it is tried: least squares, and any other kind whose rows add up
//	sums                 pass 3: sums of all rows, by fold where folds are asked for λ (logistic: L-BFGS instead)
//	score                λ of classes by the models of the other folds; calibration of densities
//	nested, foldsource   the score: rows of a fold by a whole fit of the others
//	report               what is said of it
//	checkpoint*          what of this survives a kill
//
// Determinism: folds, sample and pairs are hashes of the seed and row numbers, never draws from a stream, so that they
// do not depend on how rows are read or on what was drawn before; sums are taken in blocks of rows of one fold, whose
// borders do not depend on the reader; goroutines write places of their own and share no sum.
package auto
