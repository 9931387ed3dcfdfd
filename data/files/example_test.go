package files_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
)

// Two files are read as one table, here and, by its manifest, by workers that share the directory: each learns a unit,
// and the merged learners give the schema of the whole.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"part-1.csv": "x,y\n1,a\n2,b\n", "part-2.csv": "y,x\na,3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	paths, err := files.Expand(filepath.Join(dir, "part-*.csv"))
	if err != nil {
		log.Fatal(err)
	}
	table, err := files.Open(paths, data.Options{})
	if err != nil {
		log.Fatal(err)
	}
	o := data.LearnOptions{Targets: []string{"y"}}
	whole, _, err := data.Learn(table, o)
	if err != nil {
		log.Fatal(err)
	}
	var all *data.Learner
	for i := range table.Units() { // on any machine, in any order; merged in this one
		unit, err := table.Unit(i)
		if err != nil {
			log.Fatal(err)
		}
		l, err := data.NewLearner(table.Name(), table.Columns(), o)
		if err != nil {
			log.Fatal(err)
		}
		if err := l.AddSource(unit); err != nil {
			log.Fatal(err)
		}
		if all == nil {
			all = l
		} else if err := all.Merge(l); err != nil {
			log.Fatal(err)
		}
	}
	merged, summary, err := all.Schema()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Rows, "rows, x has mean", merged.Fields[0].Mean, "and y the classes", merged.Targets[0].Classes)
	fmt.Println("the same bytes:", merged.Digest() == whole.Digest())
	// Output:
	// 3 rows, x has mean 2 and y the classes [a b]
	// the same bytes: true
}
