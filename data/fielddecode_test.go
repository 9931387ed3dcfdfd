package data

import (
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// Decode inverts an encoder.
func TestDecode(t *testing.T) {
	fields := []Field{
		{Name: "n", Kind: Numeric, Mean: 3, Scale: 2, Missing: true, Weight: 4},
		{Name: "b", Kind: Boolean, Mean: 0.25, Scale: 0.5},
		{Name: "l", Kind: Categorical, Levels: []string{"x", "y"}, Weight: 0.5},
		{Name: "h", Kind: Categorical, Levels: []string{"x", "y"}, Code: CodeHashed, Weight: 3},
		{Name: "m", Kind: Categorical, Levels: []string{"x", "y"}, Code: CodeMeans, Table: []float64{1, 2, 3, 4},
			Prior: []float64{0, 0}, Missing: true},
	}
	for _, c := range []struct{ n, b, level string }{{"7.5", "true", "x"}, {"-2", "false", "y"}} {
		s := &Schema{Fields: fields}
		e, err := s.Encoder([]string{"n", "b", "l", "h", "m"}, false)
		if err != nil {
			t.Fatal(err)
		}
		blk := new(Block)
		blk.Reset(0, e.Kinds())
		v, _ := cell.ParseNumber([]byte(c.n))
		blk.Cols[0].Num = append(blk.Cols[0].Num, v)
		blk.AppendText(1, []byte(c.b))
		for j := 2; j < 5; j++ {
			blk.AppendText(j, []byte(c.level))
		}
		blk.Rows = 1
		x := dense.New[float64](1, s.Width())
		if err := e.Encode(x, dense.Matrix[float64]{}, blk, func(int) string { return "" }); err != nil {
			t.Fatal(err)
		}
		lo := 0
		for i, want := range []string{c.n, c.b, c.level, c.level, c.level} {
			hi := lo + fields[i].Width()
			if got, _, ok := fields[i].Decode(x.Row(0)[lo:hi]); got != want || !ok {
				t.Errorf("%s: %q, %v, want %q", fields[i].Name, got, ok, want)
			}
			lo = hi
		}
	}
	if got, _, ok := fields[0].Decode([]float64{0, 4}); got != "missing" || !ok {
		t.Errorf("missing is %q", got)
	}
	if got, _, ok := fields[2].Decode([]float64{0, 0, 0.5}); got != "other" || !ok {
		t.Errorf("other is %q", got)
	}
	if got, _, ok := fields[3].Decode(make([]float64, fields[3].Width())); ok {
		t.Errorf("an unknown level is %q", got)
	}
	if _, _, ok := fields[0].Decode([]float64{1}); ok {
		t.Error("one column of two")
	}
}
