package parts_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/machine/parts"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Three workers and one process fit the same model.
func Example() {
	dir, err := os.MkdirTemp("", "parts")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for i := range 6 {
		var b bytes.Buffer
		fmt.Fprintln(&b, "x,y")
		for j := range 50 {
			x := float64(i) + float64(j)/50
			fmt.Fprintf(&b, "%g,%g\n", x, math.Sin(x))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%d.csv", i)), b.Bytes(), 0o666); err != nil {
			log.Fatal(err)
		}
	}
	paths, err := files.Expand(dir)
	if err != nil {
		log.Fatal(err)
	}
	table, err := files.Open(paths, data.Options{})
	if err != nil {
		log.Fatal(err)
	}
	run, err := parts.NewRun(table.Manifest(), parts.Options{Options: tabular.Options{
		Learn: data.LearnOptions{Targets: []string{"y"}}, Features: 64, Bandwidth: 0.5, Lambda: 1e-4, Seed: 1}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	// A pass over the files: each worker has its leaves, and hands bytes on.
	pass := func(step *parts.Step) *parts.Part {
		var all []*parts.Part
		for worker := range 3 {
			leaves, err := run.Range(worker, 3)
			if err != nil {
				log.Fatal(err)
			}
			err = step.Do(ctx, leaves, func(p *parts.Part) error {
				b, err := p.MarshalBinary()
				if err != nil {
					return err
				}
				p, err = step.Unmarshal(b)
				all = append(all, p)
				return err
			})
			if err != nil {
				log.Fatal(err)
			}
		}
		whole, err := step.Whole(all)
		if err != nil {
			log.Fatal(err)
		}
		return whole
	}
	learn, err := run.Learn()
	if err != nil {
		log.Fatal(err)
	}
	plan, err := run.Choose(ctx, pass(learn))
	if err != nil {
		log.Fatal(err)
	}
	sum, err := run.Sum(plan)
	if err != nil {
		log.Fatal(err)
	}
	model, report, err := run.Finish(ctx, plan, pass(sum))
	if err != nil {
		log.Fatal(err)
	}

	alone, _, err := run.Fit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var a, b bytes.Buffer
	if _, err := model.WriteTo(&a); err != nil {
		log.Fatal(err)
	}
	if _, err := alone.WriteTo(&b); err != nil {
		log.Fatal(err)
	}
	fmt.Println("rows summed and held out:", plan.Rows, plan.Held())
	fmt.Println("R² above 0.99:", report.Scores[1].Low > 0.99)
	fmt.Println("the same bytes:", bytes.Equal(a.Bytes(), b.Bytes()))
	// Output:
	// rows summed and held out: 240 60
	// R² above 0.99: true
	// the same bytes: true
}
