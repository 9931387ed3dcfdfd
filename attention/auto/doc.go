// Package auto chooses how every head of a model computes its attention, by errors that it measures, and runs the
// choice.
//
// Heads differ: some look at a few neighbours, some at a few keys anywhere, some at nearly all keys alike, and the
// method that serves one is useless for the next. No theory says beforehand which: a [Check] does, with the exact
// output of a few dozen query rows that no fit has seen. [Choose] tries the candidates of a grid in the order of their
// cost, head by head, until one is accurate enough, and says which error to expect on other data of the same kind.
// Exact attention is one of the answers.
//
// A [Choice] is plain data: save it as JSON, use it for as long as the model and the kind of its input stay the same.
// [Attention] runs it, each head by its own method, in one call.
//
// Costs are in units of one random feature, 2(d + d_v) multiply-adds per token: m random features cost m, exact
// attention over L keys L/2.
package auto
