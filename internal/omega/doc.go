// Package omega holds the deterministic halves of the couplings: what makes their rows, the randomness an argument, and
// the conformity of given rows. Package coupling draws and calls; the calculator and the golden cases call with numbers
// of their own. [Structured] describes HD products and [Transform] multiplies by them.
//
// The letters and the papers are those of package coupling.
package omega
