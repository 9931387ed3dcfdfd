package krr

import (
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// A product with kernels that are held, and with those that are computed again; a step of the preconditioner.
func BenchmarkProduct(b *testing.B) {
	const n = 8192
	x, _ := table(n, 24, 1)
	for _, outs := range []int{2, 18} {
		v, dst := dense.New[float64](n, outs), dense.New[float64](n, outs)
		for i := range v.Data {
			v.Data[i] = float64(i%13) - 6
		}
		for _, c := range []struct {
			name string
			kind kernel.Kind
			hold int64
		}{{"held", kernel.Gaussian, 1 << 30}, {"gaussian", kernel.Gaussian, 0}, {"laplace", kernel.Laplace, 0},
			{"matern32", kernel.Matern32, 0}} {
			b.Run(c.name, func(b *testing.B) {
				s, err := NewKernels(kernel.Kernel{Kind: c.kind, Scale: 4}, x, c.hold)
				if err != nil {
					b.Fatal(err)
				}
				s.Product(dst, v)
				for b.Loop() {
					s.Product(dst, v)
				}
			})
		}
		b.Run("precondition", func(b *testing.B) {
			s, _ := NewKernels(kernel.Kernel{Scale: 4}, x, 0)
			sk, err := NewSketch(s, 1024, 1)
			if err != nil {
				b.Fatal(err)
			}
			p, err := sk.with(0.1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := p.apply(dst, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
