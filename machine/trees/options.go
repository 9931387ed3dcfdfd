package trees

import (
	"cmp"
	"fmt"
)

// Options are the settings of a fit. A zero field means the default in brackets.
type Options struct {
	Trees    int     // rounds of boosting; each adds a tree for every output, or one for two classes [250]
	Leaves   int     // of a tree, at most [15]
	MinRows  int     // of a leaf, at least; estimated from Hessians [10]
	Rate     float64 // factor of each leaf value, at most 1 [0.04]
	Lambda   float64 // quadratic penalty of leaf values, in rows of Hessian 1 [0.001]
	Rows     float64 // share of the rows drawn for each round [0.8]
	Columns  float64 // share of the columns drawn for each tree [0.6]
	Patience int     // stop after so many rounds without a lower loss of rows set aside [0: never]
	Held     float64 // share of the rows set aside if Patience is set [0.15]
	Seed     uint64  // of all draws
}

const (
	maxRows   = 1 << 24 // a row then has 2⁷ units of gradient on average; see histogram.go
	maxWidth  = 1 << 16 // columns
	maxLeaves = 64      // of a tree: bits of node.Keep
	maxTotal  = 1 << 26 // leaves of a forest
	maxSums   = 1 << 27 // bins of the histograms of a growing tree: 1 GiB
)

// complete replaces zero fields by defaults and checks all fields.
func (o Options) complete() (Options, error) {
	o.Trees, o.Leaves, o.MinRows = cmp.Or(o.Trees, 250), cmp.Or(o.Leaves, 15), cmp.Or(o.MinRows, 10)
	o.Rate, o.Lambda = cmp.Or(o.Rate, 0.04), cmp.Or(o.Lambda, 0.001)
	o.Rows, o.Columns, o.Held = cmp.Or(o.Rows, 0.8), cmp.Or(o.Columns, 0.6), cmp.Or(o.Held, 0.15)
	for _, f := range []struct {
		name           string
		v, least, most float64
	}{
		{"Trees", float64(o.Trees), 1, maxTotal},
		{"Leaves", float64(o.Leaves), 2, maxLeaves},
		{"MinRows", float64(o.MinRows), 1, maxRows},
		{"Rate", o.Rate, 1e-6, 1},
		{"Lambda", o.Lambda, 0, 1e9},
		{"Rows", o.Rows, 1e-6, 1},
		{"Columns", o.Columns, 1e-6, 1},
		{"Patience", float64(o.Patience), 0, maxTotal},
		{"Held", o.Held, 1e-6, 0.9},
	} {
		if !(f.v >= f.least && f.v <= f.most) {
			return o, fmt.Errorf("trees: %s is %v, not between %v and %v", f.name, f.v, f.least, f.most)
		}
	}
	return o, nil
}
