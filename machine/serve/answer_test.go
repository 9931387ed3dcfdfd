package serve

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat/data"
)

// An answer of one column has a line for every row, also where there is no value: an empty line would not count as one.
func TestAnswerOfOneColumn(t *testing.T) {
	for kind, block := range map[data.Kind]data.Block{
		data.Number: {Rows: 3, Cols: []data.Column{{Num: []float64{1, math.NaN(), 2e-7}}}},
		data.Text:   {Rows: 3, Cols: []data.Column{{Text: [][]byte{[]byte("1"), nil, []byte("2e-07")}}}},
	} {
		k := newWork()
		k.layout.begin(typeCSV, true, "", []column{newColumn("prediction", kind)}, nil)
		k.layout.block(&block)
		if got := k.answer.String(); got != "prediction\n1\n\"\"\n2e-07\n" {
			t.Errorf("%v: %q", kind, got)
		}
	}
}
