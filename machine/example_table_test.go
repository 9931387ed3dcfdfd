package machine_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// plants is a small table: two kinds of plant by height and colour.
func plants() data.Source {
	var b strings.Builder
	b.WriteString("id,height,colour,kind\n")
	for i := range 60 {
		kind, colour := "moss", "green"
		if i%2 == 0 {
			kind, colour = "fern", []string{"green", "brown"}[i/2%2]
		}
		fmt.Fprintf(&b, "p%d,%d,%s,%s\n", i, 1+i%7+20*((i+1)%2), colour, kind)
	}
	src, err := text.OpenBytes("plants.csv", []byte(b.String()), data.Options{})
	if err != nil {
		panic(err)
	}
	return src
}

// fitPlants learns the columns and fits a logistic model to the rows of the table.
func fitPlants() *machine.Model {
	src := plants()
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"kind"}, IDs: []string{"id"}})
	if err != nil {
		panic(err)
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		panic(err)
	}
	model, _, err := machine.FitLogistic(machine.Setup{
		Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 2}, Family: family.Trig{}, Coupling: coupling.Orthogonal{},
			Dim: schema.Width(), M: 64, Seed: 1},
		Task: machine.Classification, Outputs: len(schema.Targets[0].Classes),
	}, rows, machine.LogisticOptions{Lambda: 0.1})
	if err != nil {
		panic(err)
	}
	model.Schema = schema
	return model
}

// Rows of a table are read by a schema: one column for the height, and one for each colour and for any other.
func ExampleTableRows() {
	src := plants()
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"kind"}, IDs: []string{"id"}})
	if err != nil {
		panic(err)
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		panic(err)
	}
	fmt.Println(rows.Dim(), "columns:", strings.Join(schema.Names(), ", "))
	// Output: 4 columns: height, colour=green, colour=brown, colour=other
}

// A model with a schema predicts other tables, by the names of their columns.
func ExampleTablePredictor() {
	p, err := machine.NewTablePredictor(fitPlants(), machine.TableOptions{})
	if err != nil {
		panic(err)
	}
	src, err := text.OpenBytes("new.csv", []byte("colour,height,id\nbrown,24,a\ngreen,3,b\n"), data.Options{})
	if err != nil {
		panic(err)
	}
	columns := src.Columns()
	run, err := p.Open(columns)
	if err != nil {
		panic(err)
	}
	names, kinds := p.Columns()
	for range run.IDs() {
		kinds = append([]data.Kind{data.Text}, kinds...)
	}
	w, err := files.NewWriter(os.Stdout, data.CSV, append(run.IDs(), names...), kinds)
	if err != nil {
		panic(err)
	}
	err = run.Each(src, run.Kinds(), 1000, func(predictions, _ *data.Block) error { return w.WriteBlock(predictions) })
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	// Output:
	// id,prediction
	// a,fern
	// b,moss
}
