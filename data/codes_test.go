package data

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/dense"
)

func codedSchema(code Code, other bool) *Schema {
	f := Field{Name: "a", Kind: Categorical, Levels: []string{"x", "2"}, Code: code, Other: other, Missing: true,
		Weight: 2}
	if code != CodeHashed {
		f.Table, f.Prior = []float64{1, 2, 3, 4}, []float64{5, 6}
	}
	return &Schema{Fields: []Field{f}}
}

// Rows get the code of their level, in any spelling. Unknown levels get the prior; missing ones also set their
// indicator.
func TestCodes(t *testing.T) {
	for _, code := range []Code{CodeHashed, CodeCounts, CodeMeans} {
		s := codedSchema(code, false)
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again := new(Schema)
		if err := json.Unmarshal(b, again); err != nil || again.Digest() != s.Digest() {
			t.Fatal(err)
		}
		if len(s.Names()) != s.Width() {
			t.Errorf("%s: %d names of %d columns", code, len(s.Names()), s.Width())
		}
		e, err := s.Encoder([]string{"a"}, false)
		if err != nil {
			t.Fatal(err)
		}
		var w Watch
		e.Watch(&w)
		blk := new(Block)
		blk.Reset(0, []Kind{Text})
		for _, content := range []string{"x", "2", "2.0", "new", "other"} {
			blk.AppendText(0, []byte(content))
		}
		blk.AppendText(0, nil)
		blk.Rows = 6
		x := dense.New[float64](6, s.Width())
		where := func(i int) string { return fmt.Sprint("row ", i) }
		if err := e.Encode(x, dense.Matrix[float64]{}, blk, where); err != nil {
			t.Fatal(err)
		}
		norm := func(i int) float64 {
			sum := 0.0
			for _, v := range x.Row(i) {
				sum += v * v
			}
			return math.Sqrt(sum)
		}
		if !slices.Equal(x.Row(1), x.Row(2)) || slices.Equal(x.Row(0), x.Row(1)) || !slices.Equal(x.Row(3), x.Row(4)) {
			t.Errorf("%s: codes %v", code, x)
		}
		if last := x.Cols - 1; x.At(5, last) != 2 || x.At(3, last) != 0 {
			t.Errorf("%s: indicator of missing values %g, %g", code, x.At(5, last), x.At(3, last))
		}
		if code == CodeHashed {
			if norm(0) != 2 || norm(3) != 0 || norm(5) != 2 {
				t.Errorf("lengths %g, %g, %g", norm(0), norm(3), norm(5))
			}
		} else if x.At(0, 0) != 2 || x.At(1, 1) != 8 || x.At(3, 0) != 10 || x.At(5, 1) != 12 {
			t.Errorf("%s: %v", code, x)
		}
		if got := w.Surprises(); len(got) != 2 || got[0].What != whatUnseen || got[0].Rows != 2 ||
			got[1].What != whatMissing {
			t.Errorf("%s: surprises %+v", code, got)
		}
	}
}

// Where levels are not listed, hashed codes tell them apart all the same, and two codes are about at right angles.
func TestHashedCodes(t *testing.T) {
	const n = 400
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, hashBlocks*hashBlock)
		hashCode(rows[i], fmt.Sprint("level ", i))
	}
	sum, squares, pairs := 0.0, 0.0, 0.0
	for i := range rows {
		for j := range i {
			dot := 0.0
			for k, v := range rows[i] {
				dot += v * rows[j][k]
			}
			if dot == 1 {
				t.Fatalf("levels %d and %d have one code", i, j)
			}
			sum, squares, pairs = sum+dot, squares+dot*dot, pairs+1
		}
	}
	// Each of 4 blocks agrees with a chance of 1/64, with either sign: products have mean 0 and variance 4·(1/64)/16.
	if mean, variance := sum/pairs, squares/pairs; math.Abs(mean) > 5e-3 || math.Abs(variance*256-1) > 0.1 {
		t.Errorf("mean %g, variance %g of products", mean, variance)
	}
	s := codedSchema(CodeHashed, true)
	e, err := s.Encoder([]string{"a"}, false)
	if err != nil {
		t.Fatal(err)
	}
	blk := new(Block)
	blk.Reset(0, []Kind{Text})
	for _, content := range []string{"7", "7.0", "8"} {
		blk.AppendText(0, []byte(content))
	}
	blk.Rows = 3
	x := dense.New[float64](3, s.Width())
	if err := e.Encode(x, dense.Matrix[float64]{}, blk, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x.Row(0), x.Row(1)) || slices.Equal(x.Row(0), x.Row(2)) {
		t.Error("codes of levels that are not listed")
	}
}

func TestCodesThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(f *Field){
		"unknown code":            func(f *Field) { f.Code = "odd" },
		"numbers in its table":    func(f *Field) { f.Table = f.Table[:3] },
		"its code does not use":   func(f *Field) { f.Code = CodeHashed },
		"want finite":             func(f *Field) { f.Prior[0] = math.Inf(1) },
		"has a code of levels":    func(f *Field) { f.Kind, f.Levels, f.Scale = Numeric, nil, 1 },
		"for 2 levels of 0 colum": func(f *Field) { f.Prior = nil },
	} {
		s := codedSchema(CodeMeans, false)
		change(&s.Fields[0])
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
