// Package papers holds the items of the laboratory, one file each: what a paper did, with this library.
package papers

import "github.com/randfeat/randfeat/repro/lab"

// The papers.
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
		chefsTable1,
		hybridFig1,
		hybridFig5,
		hybridTable1,
		hybridTable3,
		hybridTable4,
		hybridFig7,
		hybridFig8,
		hybridFig9,
		hybridFig10,
		orfFig1,
		orfFig2,
		orfFig4,
		simplexFig4,
		simplexFig5,
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

// Smallest is the item that tests run from end to end: it needs no data and no time.
const Smallest = "simplex-fig5"
