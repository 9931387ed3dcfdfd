// Package trees fits boosted regression trees on histograms: an additive model of small trees, each of which takes a
// Newton step on the loss of the trees before it (Friedman 2001, Annals of Statistics 29; Ke et al. 2017, LightGBM).
//
// # Usage
//
//	b, err := trees.Bin(x, levels)                       // NaN is missing; levels marks columns of codes
//	forest, err := trees.Fit(ctx, b, nil, target, trees.Options{Seed: 1})
//	forest.Predict(dst, rows)                            // values, or a probability for each class
//
// [OutOfFold] predicts every row by a forest that has not seen the row's fold. Folds share the bins, which are made
// without targets.
//
// # Method
//
// A column becomes at most 255 bins; bin 0 has missing values and rare or unknown levels. A tree grows leaf by leaf:
// the leaf whose best split lowers the loss most is split next. Missing values go to the side where they gain more,
// or with the larger side if the leaf has none. The levels of a column are ordered by mean gradient within the leaf,
// so the rows of the fit alone decide their order.
//
// Gradients and Hessians are rounded to 32 bits of a common unit for each tree, and one word holds both. Sums are then
// exact: a histogram minus that of one child is that of the other, in any order and on any number of goroutines.
//
// # Reading order
//
// options.go, bins.go, loss.go, histogram.go, split.go, grow.go, fit.go, folds.go, forest.go, codec.go.
package trees
