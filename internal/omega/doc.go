// Package omega holds the deterministic parts of the couplings: it makes rows from given random numbers, and evaluates
// the conformity of given rows. Package coupling draws the numbers and calls it; the calculator and the golden cases
// call it with numbers of their own. [Structured] describes HD products and [Transform] multiplies by them.
//
// The letters and the papers are those of package coupling.
package omega
