package sampling

import "errors"

// ErrRequest marks requests that cannot be met: too many distinct draws, unknown classes, a bound that rejects nearly
// every draw.
var ErrRequest = errors.New("cannot be drawn")

// Within is the law of a class inside its block.
type Within int

// The laws.
const (
	// ByScore draws inside a block from the exact softmax of its classes. That is cheaper than features and closer to
	// the softmax over all classes.
	ByScore Within = iota
	// ByFeatures draws inside a block by features too: p(c) ∝ φ(q)·φ(c), as in the papers. The features of the block
	// are computed on the fly.
	ByFeatures
)

// Options are the settings of a Sampler. The zero value is a good choice.
type Options struct {
	Within Within
	// Block is the number of classes per leaf of the tree; 0 means 64, with ByFeatures 16. The tree takes
	// 2·F·n/Block numbers; a draw computes the scores, or the features, of one block.
	Block int
	// Workers bounds the goroutines that build the tree; 0 means one per core.
	Workers int
}

func (o Options) block() int {
	switch {
	case o.Block > 0:
		return o.Block
	case o.Within == ByFeatures:
		return 16
	}
	return 64
}

// Request describes the draws for every query.
type Request struct {
	K        int  // draws per query
	Distinct bool // without replacement
	Seed     uint64
	// First is the number of the first query. A list that is drawn for in parts gets the same draws as in one call.
	First   int
	Workers int // 0 means one per core
	// Tries bounds the draws that Exact rejects for each one it accepts, on average; 0 means 1000.
	Tries int
}
