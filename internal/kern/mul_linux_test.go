package kern

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
)

// fenced returns n elements that end where readable memory does: one byte too far is a fault.
func fenced[T dense.Float](t *testing.T, n int) []T {
	page := syscall.Getpagesize()
	bytes := n * int(unsafe.Sizeof(T(0)))
	pages := (bytes + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, pages+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	if err := syscall.Mprotect(mem[pages:], syscall.PROT_NONE); err != nil {
		t.Skip(err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[pages-bytes])), n)
}

// Nothing is read or written past the last element of any operand, not even under a mask.
func TestProductsStayInMemory(t *testing.T) { each(t, checkMemory[float32], checkMemory[float64]) }

func checkMemory[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		n, d, m := 1+r.IntN(20), 1+r.IntN(20), 1+r.IntN(3*tab.Width)
		mat := func(rows, cols int) dense.Matrix[T] {
			return dense.Matrix[T]{Rows: rows, Cols: cols, Stride: cols, Data: fenced[T](t, rows*cols)}
		}
		var p Panel[T]
		tab.Pack(&p, dense.New[T](m, d))
		p.Data = fenced[T](t, len(p.Data))
		tab.MulT(mat(n, m), mat(n, d), &p, mat(1, m).Data)
		tab.MulTExp(mat(n, m), mat(n, d), &p, mat(1, m).Data, mat(1, n).Data)
		tab.TMul(mat(n, m), mat(d, n), mat(d, m))
		tab.Product(mat(n, m), mat(n, d), mat(d, m), n%2 == 0)
	}
}
