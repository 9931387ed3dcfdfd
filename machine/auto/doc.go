// Package auto fits a model to a table and makes every choice that the caller leaves open: the columns, the bandwidth,
// the penalty, the number of features, the family and the coupling. It says what it chose, why, and how well the model
// predicts rows it has not seen.
//
// Legend: n rows, d encoded columns, F features, s the bandwidth of the kernel exp(−|x−y|²/(2s²)), λ the penalty.
package auto
