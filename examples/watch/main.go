// Command watch watches a stream of rows: it makes a reference of a first table, then reads windows of the stream, one
// after the other, and prints a line whenever the verdict changes. Half way through, a sensor is recalibrated.
package main

import (
	"bytes"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine/watch"
)

// table is n rows of two related sensors and a place.
func table(r *rand.Rand, n int, offset float64) (data.Source, error) {
	var b bytes.Buffer
	b.WriteString("inside,outside,place\n")
	for range n {
		outside := 15 + 8*r.NormFloat64()
		inside := 20 + outside/4 + r.NormFloat64()
		fmt.Fprintf(&b, "%.2f,%.2f,%s\n", inside+offset, outside, []string{"hall", "roof", "yard"}[r.IntN(3)])
	}
	return text.OpenBytes("sensors", b.Bytes(), data.Options{})
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	r := rand.New(rand.NewPCG(1, 1))
	old, err := table(r, 2000, 0)
	if err != nil {
		return err
	}
	schema, _, err := data.Learn(old, data.LearnOptions{})
	if err != nil {
		return err
	}
	ref, err := watch.Table(old, schema, watch.Options{})
	if err != nil {
		return err
	}
	window := ref.Monitor()
	var looks watch.Sequence // the level of a look falls, so that all of them together keep theirs
	changed := false
	for k := range 20 {
		offset := 0.0
		if k >= 10 {
			offset = 0.8
		}
		rows, err := table(r, 300, offset)
		if err != nil {
			return err
		}
		window.Reset()
		if err := window.AddTable(rows, watch.TableOptions{}); err != nil {
			return err
		}
		report, err := looks.Report(window)
		if err != nil {
			return err
		}
		if k == 0 || report.Changed != changed {
			changed = report.Changed
			fmt.Printf("window %d: %s\n", k+1, report.Text)
			for _, c := range report.Columns {
				if c.Changed {
					fmt.Printf("  %s: %s\n", c.Name, c.Text)
				}
			}
		}
	}
	return nil
}
