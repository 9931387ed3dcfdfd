package main

import (
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

type (
	matrix = dense.Matrix[float32]
	seq    = attention.Seq[float32]
)

// attend is one layer's attention, with all of its heads.
type attend func(layer int, out, q, k, v seq) error

var tab = kern.Best[float32]()

// rowBlock rows of a product are one item of work.
const rowBlock = 64

// linear is x·Wᵀ + b.
type linear struct {
	w    kern.Panel[float32]
	bias []float32
}

func newLinear(w matrix, bias []float32) *linear {
	l := &linear{bias: bias}
	tab.Pack(&l.w, w)
	return l
}

func (l *linear) apply(x matrix) matrix {
	y := dense.New[float32](x.Rows, l.w.Rows)
	rows(x.Rows, func(lo, hi int) { tab.MulT(y.RowRange(lo, hi), x.RowRange(lo, hi), &l.w, l.bias) })
	return y
}

// rows splits n rows among the cores.
func rows(n int, f func(lo, hi int)) {
	par.For((n+rowBlock-1)/rowBlock, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i*rowBlock, min(n, (i+1)*rowBlock))
		}
	})
}

func add(x, y matrix) {
	for i := range x.Rows {
		tab.MulAdd(x.Row(i), y.Row(i), 1)
	}
}

// layerNorm normalises rows in place.
func layerNorm(x matrix, weight, bias []float32, eps float64) {
	rows(x.Rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			r := x.Row(i)
			var sum, sum2 float64
			for _, v := range r {
				sum += float64(v)
			}
			mean := sum / float64(len(r))
			for _, v := range r {
				sum2 += (float64(v) - mean) * (float64(v) - mean)
			}
			f := 1 / math.Sqrt(sum2/float64(len(r))+eps)
			for j, v := range r {
				r[j] = float32((float64(v)-mean)*f)*weight[j] + bias[j]
			}
		}
	})
}

// rmsNorm returns normalised rows.
func rmsNorm(x matrix, weight []float32, eps float64) matrix {
	y := dense.New[float32](x.Rows, x.Cols)
	rows(x.Rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f := float32(1 / math.Sqrt(tab.Norm2(x.Row(i))/float64(x.Cols)+eps))
			for j, v := range x.Row(i) {
				y.Row(i)[j] = v * f * weight[j]
			}
		}
	})
	return y
}

// each maps the elements of x in place.
func each(x matrix, f func(v float32) float32) {
	rows(x.Rows, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for j, v := range x.Row(i) {
				x.Row(i)[j] = f(v)
			}
		}
	})
}

func gelu(v float32) float32 {
	return float32(0.5 * float64(v) * (1 + math.Erf(float64(v)/math.Sqrt2)))
}

func silu(v float32) float32 { return float32(float64(v) / (1 + math.Exp(-float64(v)))) }

// headsOf sees the rows of a projection, heads side by side, as a sequence.
func headsOf(x matrix, heads int) seq {
	d := x.Cols / heads
	return seq{Shape: attention.Shape{Batch: 1, Heads: heads, Len: x.Rows, Dim: d}, Data: x.Data,
		StrideB: x.Rows * x.Stride, StrideH: d, StrideL: x.Stride}
}
