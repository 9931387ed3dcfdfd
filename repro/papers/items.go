// Package papers holds the items of the laboratory, one file each: what a paper did, with this library.
package papers

import "github.com/randfeat/randfeat/repro/lab"

// The papers.
const (
	chefs   = "Chefs' Random Tables (arXiv:2205.15317)"
	simplex = "Simplex Random Features (arXiv:2301.13856)"
)

// Items lists all items in the order of the site.
func Items() []*lab.Item {
	return []*lab.Item{
		chefsFig1,
		chefsFig2,
		chefsTable1,
		simplexFig4,
		simplexFig5,
		simplexFig6,
		simplexFig7,
	}
}

// Smallest is the item that tests run from end to end: it needs no data and no time.
const Smallest = "simplex-fig5"
