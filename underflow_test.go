package randfeat_test

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
)

func TestUnderflow(t *testing.T) {
	x := exampleSet(40, 4, 1)
	for i := range x.Rows { // long rows first, then rows of length 1
		row := x.Row(i)
		length := 1.0
		if i < 20 {
			length = 100
		}
		f := length / math.Sqrt(dense.Norm2(row))
		for c := range row {
			row[c] *= f
		}
	}
	count := func(f family.Family, x dense.Matrix[float64]) randfeat.Underflow {
		t.Helper()
		m, err := randfeat.New[float64](randfeat.Spec{Family: f, Coupling: coupling.IID{}, Dim: 4, M: 32, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		gram := dense.New[float64](x.Rows, x.Rows)
		if err := m.Gram(gram, x, x, nil); err != nil {
			t.Fatal(err)
		}
		u, err := m.Underflow(gram, x, x, nil)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	// κ(x, x) = 1 for all rows, also for those whose estimates underflow; most other pairs are far, and 0 is right.
	long, short := x.RowRange(0, 20), x.RowRange(20, 40)
	if u := count(family.Positive{}, long); u.Entries != 400 || u.Zeros != 400 || u.Checked != 320 || u.Below != 320 ||
		u.Lost < 16 {
		t.Errorf("rows of length 100: %+v", u)
	}
	if u := count(family.Positive{}, x); u.Zeros != 1200 || u.Lost == 0 {
		t.Errorf("rows of both lengths: %+v", u)
	}
	if u := count(family.Positive{}, short); u != (randfeat.Underflow{Entries: 400}) {
		t.Errorf("rows of length 1: %+v", u)
	}
	if u := count(family.Trig{}, long); u.Zeros != 0 {
		t.Errorf("trigonometric features of rows of length 100: %+v", u)
	}
	var sum randfeat.Underflow
	sum.Add(randfeat.Underflow{Entries: 5, Zeros: 4, Checked: 3, Below: 2, Lost: 1})
	sum.Add(randfeat.Underflow{Entries: 5, Zeros: 4, Checked: 3, Below: 2, Lost: 1})
	if sum != (randfeat.Underflow{Entries: 10, Zeros: 8, Checked: 6, Below: 4, Lost: 2}) {
		t.Errorf("sum %+v", sum)
	}
	m, err := randfeat.New[float64](randfeat.Spec{Family: family.Trig{}, Dim: 4, M: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Underflow(dense.New[float64](3, 3), x, x, nil); err == nil {
		t.Error("a matrix of another shape is accepted")
	}
}
