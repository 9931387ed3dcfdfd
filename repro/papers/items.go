// Package papers holds the items of the laboratory. Every file repeats one table, figure or theorem of a paper with
// this library: it computes cells, draws figures and compares with the paper. items.go lists the items, contents.go
// what the papers number. measure.go, stat.go, classify.go and the readers of data sets (csv.go, uci.go, mnist.go,
// words.go) are shared.
package papers

import "github.com/randfeat/randfeat/repro/lab"

// Papers.
const (
	chefs   = "Chefs' Random Tables (arXiv:2205.15317)"
	hybrid  = "Hybrid Random Features (arXiv:2110.04367)"
	orf     = "Orthogonal Random Features: Explicit Forms and Sharp Inequalities"
	simplex = "Simplex Random Features (arXiv:2301.13856)"
	dark    = "Data-Aware Random Feature Kernel for Transformers (DARKFormer)"
	beyond  = "Beyond the papers"
)

// Items lists all items in the order of the site.
func Items() []*lab.Item {
	return []*lab.Item{
		chefsFig1,
		chefsFig2,
		chefsTheorem43,
		chefsTable1,
		hybridFig1,
		hybridPairs,
		hybridFig4,
		hybridFig5,
		hybridTable1,
		hybridTable3,
		hybridTable4,
		hybridFig7,
		hybridFig8,
		hybridFig9,
		orfFig1,
		orfFig2,
		orfFig4,
		simplexFig4,
		simplexFig5,
		simplexTable1,
		simplexFig6,
		simplexFig7,
		simplexFig8,
		simplexFig10,
		simplexTable3,
		darkTheorem,
		darkVariance,
		league,
	}
}

// Smallest is the item that tests run from end to end: it needs no data and little time.
const Smallest = "simplex-fig5"
