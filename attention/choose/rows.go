package choose

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

const (
	// answerKeys is the number of keys that are packed at a time, for all rows of a piece that see them.
	answerKeys = 512
	// answerRows sampled rows are a piece, which one goroutine computes.
	answerRows = 64
)

// answerCausal computes the exact outputs of rows in ascending order, each over the keys up to its own position.
// attention.Exact would need one call per row, because its queries have neighbouring positions; here all rows share
// packed keys.
func (c *Check) answerCausal(scale float64) error {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return err
	}
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(c.q.Dim))
	}
	pieces := (len(c.rows) + answerRows - 1) / answerRows
	par.For(c.q.Batch*c.k.Heads*pieces, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			head, from := i/pieces, i%pieces*answerRows
			c.causalRows(tab, scale, head/c.k.Heads, head%c.k.Heads, from, min(from+answerRows, len(c.rows)))
		}
	})
	return nil
}

// causalRows computes the sampled rows begin to end−1 of one key/value head with a running maximum and rescaled sums,
// as attention.Exact does. Row r·group + g is sampled row begin + r of head g of the group. Rows before the current
// keys are skipped: first is the first row that sees any of them.
func (c *Check) causalRows(tab *kern.Table[float32], scale float64, b, h, begin, end int) {
	rows := c.rows[begin:end]
	group, n := c.q.Heads/c.k.Heads, len(rows)
	x, acc := dense.New[float32](n*group, c.q.Dim), dense.New[float32](n*group, c.v.Dim)
	top, sum := make([]float32, n*group), make([]float64, n*group)
	for r := range x.Rows {
		copy(x.Row(r), c.q.Head(b, h*group+r%group).Row(rows[r/group]))
		top[r] = float32(math.Inf(-1))
	}
	tab.Scale(x.Data, float32(scale))
	tile := dense.New[float32](n*group, answerKeys)
	var panel kern.Panel[float32]
	k, v := c.k.Head(b, h), c.v.Head(b, h)
	first := 0
	for lo := 0; lo <= rows[n-1]; lo += answerKeys {
		hi := min(lo+answerKeys, rows[n-1]+1)
		for rows[first] < lo {
			first++
		}
		tab.Pack(&panel, k.RowRange(lo, hi))
		p := dense.Matrix[float32]{Rows: (n - first) * group, Cols: hi - lo, Stride: hi - lo,
			Data: tile.Data[:(n-first)*group*(hi-lo)]}
		from := first * group
		tab.MulT(p, x.RowRange(from, x.Rows), &panel, nil)
		for i := range p.Rows {
			r := from + i
			row := p.Row(i)
			seen := min(hi-lo, rows[r/group]+1-lo)
			clear(row[seen:])
			if m := tab.Max(row[:seen]); m > top[r] {
				f := math.Exp(float64(top[r]) - float64(m))
				tab.Scale(acc.Row(r), float32(f))
				sum[r] *= f
				top[r] = m
			}
			sum[r] += float64(tab.ExpSum(row[:seen], top[r]))
		}
		tab.Product(acc.RowRange(from, acc.Rows), p, v.RowRange(lo, hi), true)
	}
	for r := range acc.Rows {
		out := c.exact.Head(b, h*group+r%group).Row(begin + r/group)
		copy(out, acc.Row(r))
		tab.Scale(out, float32(1/sum[r]))
	}
}
