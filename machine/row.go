package machine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/randfeat/randfeat/data"
)

// PredictRow predicts one row, given by the names of its columns, and returns the columns of [TablePredictor.Columns]:
// numbers as float64, classes as string. Values are numbers, strings, bools, [time.Time], or nil for a missing one, as
// encoding/json makes them. A column that the model does not know is an error. It serves many goroutines at a time. For
// many rows, [TablePredictor.Open] is faster.
func (p *TablePredictor) PredictRow(row map[string]any) (map[string]any, error) {
	t := data.NewColumns("row")
	for _, name := range slices.Sorted(maps.Keys(row)) {
		c, err := cellOf(row[name])
		if err != nil {
			return nil, &data.InputError{Place: "row", Column: name, Detail: fmt.Sprintf("column %q: %v", name, err)}
		}
		if err := t.Add(name, c); err != nil {
			return nil, err
		}
	}
	r, err := p.Open(t.Columns())
	if err != nil {
		return nil, err
	}
	reader, err := t.Open(r.kinds)
	if err != nil {
		return nil, err
	}
	var in, out data.Block
	if err := reader.Read(&in, 1); err != nil {
		return nil, err
	}
	if err := r.Predict(&out, &in, reader.Where); err != nil {
		return nil, err
	}
	result := make(map[string]any, len(p.columns))
	for j, name := range p.columns {
		c := &out.Cols[len(r.ids)+j]
		if p.kinds[j] == data.Number {
			result[name] = c.Num[0]
		} else {
			result[name] = string(c.Text[0])
		}
	}
	return result, nil
}

// cellOf is a value as a column of one row.
func cellOf(v any) (data.Cells, error) {
	switch v := v.(type) {
	case nil:
		return data.Cells{Values: []string{""}, Missing: []bool{true}}, nil
	case float64:
		return data.Cells{Values: []float64{v}}, nil
	case float32:
		return data.Cells{Values: []float32{v}}, nil
	case int:
		return data.Cells{Values: []int{v}}, nil
	case int64:
		return data.Cells{Values: []int64{v}}, nil
	case int32:
		return data.Cells{Values: []int32{v}}, nil
	case string:
		return data.Cells{Values: []string{v}}, nil
	case bool:
		return data.Cells{Values: []bool{v}}, nil
	case time.Time:
		return data.Cells{Values: []time.Time{v}}, nil
	case fmt.Stringer: // json.Number, and types with a text of their own
		return data.Cells{Values: []string{v.String()}}, nil
	}
	return data.Cells{}, fmt.Errorf("a value of type %T: want a number, a string, a bool, a time or nil", v)
}
