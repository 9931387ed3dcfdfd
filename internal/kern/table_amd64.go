//go:build amd64 && !noasm

package kern

import (
	"golang.org/x/sys/cpu"

	"github.com/randfeat/randfeat/dense"
)

const (
	nameAVX512 = "avx512"
	nameAVX2   = "avx2"
)

// targets lists the tables of this CPU, fastest first. Each starts as the reference and replaces the entries that it
// improves.
func targets() tables {
	var t tables
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL {
		t32, t64 := Reference[float32](), Reference[float64]()
		products(t32, nameAVX512, shapeAVX512F32)
		products(t64, nameAVX512, shapeAVX512F64)
		mathAVX512(t32, t64)
		vectorAVX512(t32, t64)
		fusedExp(t32, shapeAVX512F32)
		fusedExp(t64, shapeAVX512F64)
		fusedSinCos(t32, shapeAVX512F32)
		fusedSinCos(t64, shapeAVX512F64)
		t32.Scan = scanWith(scan1AVX2, scan2AVX2)
		if cpu.X86.HasAVX512VNNI {
			t32.Scan = scanWith(scan1AVX512, scan2AVX512, scan3AVX512, scan4AVX512)
		}
		t64.Scan = t32.Scan
		t32.Structured, t64.Structured = 200, 200
		t.f32, t.f64 = append(t.f32, t32), append(t.f64, t64)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2 {
		t32, t64 := Reference[float32](), Reference[float64]()
		products(t32, nameAVX2, shapeAVX2F32)
		products(t64, nameAVX2, shapeAVX2F64)
		mathAVX2(t32, t64)
		vectorAVX2(t32, t64)
		fusedExp(t32, shapeAVX2F32)
		fusedExp(t64, shapeAVX2F64)
		fusedSinCos(t32, shapeAVX2F32)
		fusedSinCos(t64, shapeAVX2F64)
		t32.Scan = scanWith(scan1AVX2, scan2AVX2)
		t64.Scan = t32.Scan
		t32.Structured, t64.Structured = 110, 110
		t.f32, t.f64 = append(t.f32, t32), append(t.f64, t64)
	}
	return t
}

// products sets the entries of the matrix products.
func products[T dense.Float](t *Table[T], name string, s shape) {
	t.Name, t.Width = name, s.width()
	t.MulT = func(dst, x dense.Matrix[T], w *Panel[T], bias []T) { mulTTiled(s, dst, x, w, bias) }
	t.TMul = func(dst, a, b dense.Matrix[T]) { tMulTiled(s, dst, a, b) }
	t.Product = func(dst, x, y dense.Matrix[T], add bool) { productTiled(s, dst, x, y, add) }
	t.columnRows = s.height()
	t.gramTiles = func(dst dense.Matrix[T], c *Columns[T], i, iEnd, j, jEnd int) {
		addGramTiled(s, dst, c, i, iEnd, j, jEnd)
	}
	t.Grain = 400_000 * s.lanes // 100 µs of two vectors per clock at 2.8 GHz, 70 % used
}

// fusedExp sets MulTExp.
func fusedExp[T dense.Float](t *Table[T], s shape) {
	t.MulTExp = func(dst, x dense.Matrix[T], w *Panel[T], bias, shift []T) {
		mulTExpTiled(s, t.Exp, dst, x, w, bias, shift)
	}
}
