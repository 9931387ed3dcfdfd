//go:build amd64 && !noasm

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// The generated code finds the fields of tile by number.
func TestTileLayout(t *testing.T) {
	var x tile
	for i, off := range []uintptr{
		unsafe.Offsetof(x.a), unsafe.Offsetof(x.b), unsafe.Offsetof(x.c), unsafe.Offsetof(x.init),
		unsafe.Offsetof(x.aRow), unsafe.Offsetof(x.aK), unsafe.Offsetof(x.bK), unsafe.Offsetof(x.bPanel),
		unsafe.Offsetof(x.cRow), unsafe.Offsetof(x.initRow), unsafe.Offsetof(x.initPanel),
		unsafe.Offsetof(x.k), unsafe.Offsetof(x.panels), unsafe.Offsetof(x.tiles), unsafe.Offsetof(x.rows),
		unsafe.Offsetof(x.kind), unsafe.Offsetof(x.mask), unsafe.Offsetof(x.ahead), unsafe.Offsetof(x.scratch),
	} {
		if off != uintptr(8*i) {
			t.Errorf("field %d is at %d", i, off)
		}
	}
}

// AVX-512 and AVX2 have the same operations for sine and cosine: where both run, so do their bits.
func TestMulTSinCosSameOnAVX2(t *testing.T) {
	checkSameOnAVX2[float32](t)
	checkSameOnAVX2[float64](t)
}

func checkSameOnAVX2[T dense.Float](t *testing.T) {
	all := Available[T]()
	if all[0].Name != nameAVX512 {
		t.Skip("no AVX-512")
	}
	r := rand.New(rand.NewPCG(33, 34))
	special := []float64{math.Inf(1), math.NaN(), 1e5, -100001, 1e30, 0, tiny[T](), -math.Pi / 2}
	for _, c := range [][3]int{{1, 3, 77}, {7, 3, 77}, {16, 64, 100}, {3, 600, 40}} {
		n, d, m := c[0], c[1], c[2]
		x, w, bias := dense.New[T](n, d), dense.New[T](m, d), make([]T, m)
		fillNormal(x, r)
		fillNormal(w, r)
		for j := range bias {
			bias[j] = T(1000 * r.NormFloat64())
			if r.IntN(10) == 0 {
				bias[j] = T(special[r.IntN(len(special))])
			}
		}
		var got [2][2]dense.Matrix[T]
		for i, tab := range all[:2] {
			var p Panel[T]
			tab.Pack(&p, w)
			got[i] = [2]dense.Matrix[T]{dense.New[T](n, m), dense.New[T](n, m)}
			tab.MulTSinCos(got[i][0], got[i][1], x, &p, bias, T(1/math.Sqrt(3)))
		}
		for k, name := range []string{"sin", "cos"} {
			checkSame(t, fmt.Sprintf("%v: %s", c, name), got[1][k], got[0][k])
		}
	}
}
