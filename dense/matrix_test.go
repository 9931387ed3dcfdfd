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
