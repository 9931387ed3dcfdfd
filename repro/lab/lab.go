// Package lab is the engine of the laboratory: items made of cells, a cache of cells on disk, verdicts, and a static
// site.
//
// An [Item] repeats one table or figure of a paper. Its Run function computes numbers with [Cells], compares them with
// the paper, and returns a [Page]:
//
//	values, err := lab.Cells(l, "errors", keys, func(k key, seed uint64) (float64, error) { … })
//	page.Near("mean error", lab.PrintedIn("Table 2"), theirs, tol, ours, half, 3, lab.Factor2, "")
//
// [Lab.Do] runs an item, and a [Site] writes all pages. A cell is a pure function of its key and seed. Cells run on all
// cores and are stored on disk, so a killed run continues where it stopped. Raise Item.Version when the meaning of a
// cell changes; old cells are then ignored.
package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/internal/datasets"
)

// Item is one table or figure.
type Item struct {
	ID    string // names its page and its cells
	Paper string
	Title string
	Data  []string // files below the data folder that it needs
	// Version is part of the key of its cells. Raise it when the meaning of a cell changes.
	Version int
	Run     func(*Lab) (*Page, error)
}

// Seed is the seed of all draws. Cells derive their own from it and from their keys.
const Seed = 20260413

// Lab is the environment in which items run.
type Lab struct {
	Context context.Context
	Full    bool   // the paper's settings instead of quick ones
	DataDir string // folder of data sets, or ""
	Cache   string // folder of cells; "" keeps none
	Fresh   bool   // compute cells again even if they are in the cache
	Workers int    // 0: one per core
	Log     io.Writer
	// Recorded has the last recorded results by item. An item without its data shows its own.
	Recorded map[string]*Record
	// Progress is called after every cell, if it is not nil.
	Progress func(item string, done, total, cached int)

	item           *Item
	computed, held int // cells of this item
}

// Pick returns quick or full, by the mode.
func Pick[T any](l *Lab, quick, full T) T {
	if l.Full {
		return full
	}
	return quick
}

// Mode names the mode.
func (l *Lab) Mode() string { return Pick(l, "quick", "full") }

// Path returns the path of a data file.
func (l *Lab) Path(name string) string { return filepath.Join(l.DataDir, filepath.FromSlash(name)) }

// Missing returns the files that an item lacks.
func (l *Lab) Missing(it *Item) (missing []string) {
	for _, name := range it.Data {
		if l.DataDir == "" {
			missing = append(missing, name)
		} else if _, err := os.Stat(l.Path(name)); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

// Do runs one item. An item without its data is not an error: its page says what is missing.
func (l *Lab) Do(it *Item) (*Page, error) {
	at := *l
	at.item = it
	var p *Page
	if missing := l.Missing(it); len(missing) > 0 {
		p = &Page{Skipped: notRun(missing), Recorded: l.Recorded[it.ID]}
	} else {
		var err error
		from := time.Now()
		if p, err = it.Run(&at); err != nil {
			return nil, fmt.Errorf("%s: %w", it.ID, err)
		}
		if at.held == 0 {
			p.Seconds = time.Since(from).Seconds()
		}
	}
	p.Item, p.Mode = it, l.Mode()
	p.Computed, p.Cached = at.computed, at.held
	return p, p.check()
}

// notRun says which files are missing and how to get them.
func notRun(missing []string) string {
	var sets []string
	for _, path := range missing {
		if set, _, err := datasets.Lookup(path); err == nil && !slices.Contains(sets, set.Name) {
			sets = append(sets, set.Name)
		}
	}
	text := "Not run: no " + strings.Join(missing, ", no ") + " below the data folder (-data or $" +
		datasets.Variable + ")."
	if len(sets) > 0 {
		text += " `go run ./cmd/randfeat data fetch " + strings.Join(sets, " ") + " --data DIR` gets what can be had."
	}
	return text
}
