package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// encodedNames names the encoded columns of a schema by their meaning. The names find the same columns in another
// schema of the table, even if a level has a different index there.
func encodedNames(s *data.Schema) []string {
	var out []string
	for i := range s.Fields {
		f := &s.Fields[i]
		n := f.Width()
		if f.Missing {
			n--
		}
		for j := range n {
			what := fmt.Sprintf("#%d", j)
			switch {
			case f.Kind == data.Categorical && j < len(f.Levels):
				what = "=" + f.Levels[j]
			case f.Kind == data.Categorical && j == len(f.Levels):
				what = "≠"
			}
			out = append(out, fmt.Sprintf("%s %s %s", f.Name, f.Kind, what))
		}
		if f.Missing {
			out = append(out, fmt.Sprintf("%s %s ?", f.Name, f.Kind))
		}
	}
	return out
}

// carried converts a metric of the columns of one schema to those of another. Common columns keep theirs; new ones
// get the mean of the diagonal.
func carried(m dense.Matrix[float64], from, to *data.Schema) dense.Matrix[float64] {
	if m.IsEmpty() {
		return m
	}
	at := map[string]int{}
	for j, name := range encodedNames(from) {
		at[name] = j
	}
	names := encodedNames(to)
	var fresh []int
	for j, name := range names {
		if _, ok := at[name]; !ok {
			fresh = append(fresh, j)
		}
	}
	out := dense.New[float64](m.Rows+len(fresh), len(names))
	sum := 0.0
	for i := range m.Rows {
		for j, name := range names {
			if k, ok := at[name]; ok {
				out.Set(i, j, m.At(i, k))
			}
		}
		sum += m.At(i, i%m.Cols)
	}
	for i, j := range fresh {
		out.Set(m.Rows+i, j, sum/float64(m.Rows))
	}
	return out
}
