package buf_test

import (
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
)

func TestMemoryIsReused(t *testing.T) {
	b := buf.Sized([]int(nil), 5)
	b[1] = 7
	if c := buf.Sized(b, 3); len(c) != 3 || &c[0] != &b[0] || c[1] != 7 {
		t.Errorf("fewer elements: %v in other memory than %v", c, b)
	}
	if c := buf.Sized(b[:2], 5); len(c) != 5 || &c[0] != &b[0] {
		t.Error("the capacity was not used")
	}
	if c := buf.Sized(b, 6); len(c) != 6 || &c[0] == &b[0] {
		t.Error("more elements than there are")
	}
	if c := buf.Zeroed(b, 3); &c[0] != &b[0] || c[1] != 0 {
		t.Errorf("zeroed: %v", c)
	}
	m := dense.New[float32](4, 6)
	if v := buf.Shaped(m, 3, 7); v.Rows != 3 || v.Cols != 7 || v.Stride != 7 || len(v.Data) != 21 ||
		&v.Data[0] != &m.Data[0] {
		t.Errorf("a shape that fits: %d×%d with stride %d", v.Rows, v.Cols, v.Stride)
	}
	if v := buf.Shaped(m, 5, 5); len(v.Data) != 25 || v.Check() != nil {
		t.Error("a shape that does not fit")
	}
}
