// Package special holds the special functions and log-space helpers behind the
// closed forms of package theory: confluent hypergeometric functions of the
// conformities, the normalised Bessel kernel, log I0, and quadrature of peaked
// integrands.
//
// Values that may leave the range of float64 are returned as logarithms, with a
// sign where they need one. As in package math, an argument outside a function's
// domain gives NaN.
package special
