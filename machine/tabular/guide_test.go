package tabular

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// Kernels of stored distances are those of kernel.Gram.
func TestKernelValues(t *testing.T) {
	x, err := dense.FromRows([][]float64{{0, 1, 2}, {0.5, -1, 2.25}, {0, 1, 2}, {-3, 0.25, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Laplace, kernel.Matern12, kernel.Matern32,
		kernel.Matern52} {
		e := exactTries{kind: kernel.Gaussian, x: x}
		if err := e.distances(); err != nil {
			t.Fatal(err)
		}
		if err := e.take(kind); err != nil {
			t.Fatal(err)
		}
		const scale = 1.7
		want := dense.New[float64](x.Rows, x.Rows)
		if err := kernel.Gram(kernel.Kernel{Kind: kind, Scale: scale}, want, x, x); err != nil {
			t.Fatal(err)
		}
		var w quickWork
		e.smallKernels(&w, scale)
		for i := range x.Rows {
			for j := i; j < x.Rows; j++ {
				if got := float64(w.k.At(i, j)); math.Abs(got-want.At(i, j)) > 1e-6 {
					t.Errorf("%v: kernel of rows %d and %d is %g, want %g", kind, i, j, got, want.At(i, j))
				}
			}
		}
	}
}

// A guided search tries the kernel that the guide names and the Gaussian one, and moves to the bandwidth and λ of the
// guide only where they are better on its rows.
func TestGuide(t *testing.T) {
	c, order := searched(t, repeats(400, 1), Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Folds: 1})
	start := exactPoint{64, 10}
	for _, g := range []guide{{Kernel: kernel.Gaussian, Factor: 1, Lambda: 0.01},
		{Kernel: kernel.Gaussian, Factor: 1e-3, Lambda: 100}, {Kernel: kernel.Matern12, Factor: 1, Lambda: 0.01}} {
		c.f.guide = &g
		e := c.exactSearch(order)
		if err := e.rows(len(order)); err != nil {
			t.Fatal(err)
		}
		e.at = start
		if err := e.guided(); err != nil {
			t.Fatal(err)
		}
		if moved := e.at != start; moved != (g.Factor == 1 && g.Kernel == kernel.Gaussian) {
			t.Errorf("the search is at %v with the guide %+v", e.at, g)
		}
	}
	for _, kind := range []kernel.Kind{kernel.Gaussian, kernel.Matern12} {
		c.f.guide = &guide{Kernel: kind}
		e := c.exactSearch(order, len(order))
		e.at, e.final, e.open = exactPoint{4, 0.1}, true, true
		if err := e.search(); err != nil {
			t.Fatal(err)
		}
		want := slices.Compact([]string{"gaussian", kind.String()})
		var tried []string
		for _, k := range e.kinds {
			tried = append(tried, k.Label)
		}
		if !slices.Equal(tried, want) {
			t.Errorf("kernels tried: %v, want %v", tried, want)
		}
	}
}
