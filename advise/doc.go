// Package advise answers which estimator suits given queries and keys: which family, which coupling, how many features,
// what error, at what cost, and why.
//
// [Kernel] fits every sensible family with every coupling to a part of the rows, measures the error of the kernel on
// the
// rows that are left, in a race that gives its draws to those candidates that may still be the best, and sets the
// closed
// forms of theory beside what it measured. Where the squared error has so heavy a tail that its mean is not to be
// trusted, it says so and ranks by medians. [Attention] does the same for the outputs of attention, and chooses the
// method of every head: exact attention, centroids with exact neighbours, or features.
//
// Nothing is hidden: a [Report] is plain data with a JSON form, all draws come from Options.Seed, and the same rows and
// options give the same report at any GOMAXPROCS, except for times where they are asked for. [WriteHTML] makes a page
// of
// it. [Report.Regret] tells on fresh rows how good the recommendation was.
package advise
