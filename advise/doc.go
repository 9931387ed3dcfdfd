// Package advise finds the feature map that suits given rows: which family, which coupling, how many features, what
// error, at what cost, and why.
//
// [Kernel] fits every family with every coupling to a part of the rows and measures the error of the kernel on the
// rest. A race gives most draws to the candidates that may still be the best. Candidates are ranked by root mean square
// error, beside their tail, their cost and the error that theory expects. Intervals cover rows and draws. Within one
// set Nyström features take part, marked as biased. [Attention] ranks features by the error of attention outputs and
// chooses the method of every head: exact attention, centroids with exact neighbours, or features.
//
// A [Report] is plain data with a JSON form. All draws come from Options.Seed: the same rows and options give the same
// report at any GOMAXPROCS, except for measured times. [WriteHTML] writes it as a page. [Report.Regret] and
// [Report.Fresh] measure on fresh rows how good the recommendation was and whether its interval holds.
package advise
