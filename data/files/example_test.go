package files_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path"
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

// bucket is a store in memory, by the full names of its objects.
type bucket map[string][]byte

func (b bucket) List(pattern string) ([]string, error) {
	var names []string
	for name := range b {
		if ok, err := path.Match(pattern, name); err != nil {
			return nil, err
		} else if ok {
			names = append(names, name)
		}
	}
	return names, nil
}

func (b bucket) Size(name string) (int64, error) { return int64(len(b[name])), nil }

func (b bucket) Open(name string) (data.File, error) { return object{bytes.NewReader(b[name])}, nil }

type object struct{ *bytes.Reader }

func (object) Close() error { return nil }

// Tables are read from any store that can list, measure and open objects.
func ExampleRegisterStore() {
	var store files.Store = bucket{"mem://load/2023.csv": []byte("day,load\n1,51\n2,49\n"),
		"mem://load/2024.csv": []byte("day,load\n1,53\n"), "mem://load/notes.txt": []byte("from the meter")}
	files.RegisterStore("mem", store)
	paths, err := files.Expand("mem://load/*.csv")
	if err != nil {
		log.Fatal(err)
	}
	table, err := files.Open(paths, data.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, summary, err := data.Learn(table, data.LearnOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(paths, summary.Rows, "rows")
	// Output:
	// [mem://load/2023.csv mem://load/2024.csv] 3 rows
}
