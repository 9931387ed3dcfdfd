package watch_test

import (
	"fmt"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine/watch"
)

// plants is a table of 200 plants; the sun moves all heights.
func plants(sun int) data.Source {
	var b strings.Builder
	b.WriteString("height,colour\n")
	for i := range 200 {
		fmt.Fprintf(&b, "%d,%s\n", (i*37)%100+sun, []string{"green", "brown", "red"}[i*i%7%3])
	}
	src, err := text.OpenBytes("plants.csv", []byte(b.String()), data.Options{})
	if err != nil {
		panic(err)
	}
	return src
}

// A reference of one table watches another.
func Example() {
	old := plants(0)
	schema, _, err := data.Learn(old, data.LearnOptions{})
	if err != nil {
		panic(err)
	}
	ref, err := watch.Table(old, schema, watch.Options{})
	if err != nil {
		panic(err)
	}
	for _, sun := range []int{0, 40} {
		m := ref.Monitor()
		if err := m.AddTable(plants(sun), watch.TableOptions{}); err != nil {
			panic(err)
		}
		report, err := m.Report(0)
		if err != nil {
			panic(err)
		}
		fmt.Println(report.Text)
		for _, c := range report.Columns {
			if c.Changed {
				fmt.Println(c.Name, c.Text)
			}
		}
	}
	// Output:
	// No change: 200 rows look like those of the fit (p = 1).
	// Changed: 200 rows differ from those of the fit (p = 1e-6 or less); the column `height`.
	// height +1.4 standard deviations; 40 % beyond the range of the fit
}
