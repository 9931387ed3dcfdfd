package dense

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

func TestViews(t *testing.T) {
	m := MustFromRows([][]float64{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}})
	v := m.RowRange(1, 3).ColRange(1, 3)
	if v.At(0, 0) != 5 || v.At(1, 1) != 9 || v.Stride != 3 {
		t.Errorf("view %+v", v)
	}
	v.Set(0, 1, 60)
	if m.At(1, 2) != 60 {
		t.Error("a view must share memory")
	}
	c := v.Clone()
	c.Set(0, 0, -1)
	if m.At(1, 1) != 5 || c.Stride != 2 {
		t.Error("a clone must be packed and its own memory")
	}
	if e := m.RowRange(2, 2); e.Rows != 0 || e.Check() != nil {
		t.Errorf("empty view %+v", e)
	}
	if got := Convert[float32](v).At(0, 1); got != 60 {
		t.Errorf("converted %v", got)
	}
}

// A view of no columns keeps its stride and has no data: its rows and views of them are empty.
func TestNoColumns(t *testing.T) {
	for name, m := range map[string]Matrix[float64]{
		"range of columns": New[float64](3, 5).ColRange(2, 2),
		"no data":          {Rows: 3, Stride: 512},
		"packed":           New[float64](3, 0),
	} {
		if err := m.Check(); err != nil || !m.IsEmpty() {
			t.Errorf("%s: %v", name, err)
		}
		for i := range m.Rows {
			if row := m.Row(i); len(row) != 0 || cap(row) != 0 {
				t.Errorf("%s: row %d is %v", name, i, row)
			}
		}
		for lo := range m.Rows + 1 {
			for hi := lo; hi <= m.Rows; hi++ {
				if v := m.RowRange(lo, hi).ColRange(0, 0); v.Rows != hi-lo || v.Cols != 0 || v.Data != nil {
					t.Errorf("%s: rows %d to %d are %+v", name, lo, hi-1, v)
				}
			}
		}
		if c := m.Clone(); c.Rows != 3 || c.Cols != 0 || len(m.ToRows()) != 3 || m.Pick([]int{2, 0}).Rows != 2 {
			t.Errorf("%s: cloned as %+v", name, c)
		}
		if err := m.CheckFinite(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, m := range []Matrix[float64]{{Rows: -1, Cols: 2}, {Rows: 2, Cols: 3, Stride: 2, Data: make([]float64, 9)},
		{Rows: 2, Cols: 3, Stride: 3, Data: make([]float64, 5)}} {
		if err := m.Check(); !errors.Is(err, ErrShape) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if err := (Matrix[float64]{Rows: 2, Cols: 3, Stride: 4, Data: make([]float64, 7)}).Check(); err != nil {
		t.Errorf("the last row needs no padding: %v", err)
	}
	if _, err := FromRows([][]float64{{1, 2}, {3}}); !errors.Is(err, ErrShape) {
		t.Errorf("ragged rows: %v", err)
	}
}

func TestCheckFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		// padding is not looked at
		m := Matrix[float64]{Rows: 2, Cols: 2, Stride: 3, Data: []float64{1, 2, math.NaN(), 3, bad}}
		var e *NotFiniteError
		if err := m.CheckFinite(); !errors.As(err, &e) || e.Row != 1 || e.Col != 1 || !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := New[float32](2, 2).CheckFinite(); err != nil {
		t.Error(err)
	}
}

func TestMatrixJSON(t *testing.T) {
	b, err := json.Marshal(MustFromRows([][]float64{{1, 2.5}, {-3, 1e-300}}))
	if err != nil || string(b) != "[[1,2.5],[-3,1e-300]]" {
		t.Fatalf("%s, %v", b, err)
	}
	var m Matrix[float64]
	if err := json.Unmarshal(b, &m); err != nil || m.At(1, 1) != 1e-300 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := json.Unmarshal([]byte("[[1],[2,3]]"), &m); !errors.Is(err, ErrShape) {
		t.Errorf("ragged: %v", err)
	}
}
