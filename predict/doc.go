// Package predict says what errors linear attention with random features will have on given rows, before a map is
// drawn.
//
// Weights of different keys are estimated with the same projections: their errors are correlated, and the normaliser
// cancels most of what they share. [LawOf] has the covariances in closed form; a [Predictor] turns them into errors of
// outputs and attention rows to first order (the delta method, see [Prediction]), with the method it used and the
// reason where it knows less. Nothing here runs attention: package attention/compare sets predictions beside
// measurements.
package predict
