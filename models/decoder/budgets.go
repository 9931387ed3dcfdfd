package decoder

import (
	"fmt"
	"math"
	"slices"
)

const (
	// leastSlots is the smallest budget of a compacted head.
	leastSlots = 8
	// mostShare is the largest budget of a head that does not keep all keys, as a share of the context. Beyond it,
	// keeping all keys is hardly larger and exact.
	mostShare = 0.75
)

// curve is log E of a head as a function of log t, the slots. It is linear between the measured points and never
// increases. Beyond its ends it continues with the slope there, kept within bounds.
type curve struct{ t, e []float64 }

// newCurve makes the errors monotone: more slots never count as worse than fewer.
func newCurve(t []int, e []float64) curve {
	var c curve
	low := math.Inf(1)
	for i, n := range t {
		low = min(low, e[i])
		c.t, c.e = append(c.t, math.Log(float64(n))), append(c.e, math.Log(low+1e-9))
	}
	return c
}

// at returns E for t slots.
func (c *curve) at(t float64) float64 {
	x, n := math.Log(t), len(c.t)
	slope := func(i, j int) float64 { return (c.e[j] - c.e[i]) / (c.t[j] - c.t[i]) }
	switch {
	case x <= c.t[0]:
		return math.Exp(c.e[0] + min(-0.2, max(-2, slope(0, 1)))*(x-c.t[0]))
	case x >= c.t[n-1]:
		return math.Exp(c.e[n-1] + min(-0.3, max(-4, slope(max(0, n-3), n-1)))*(x-c.t[n-1]))
	}
	i, _ := slices.BinarySearch(c.t, x)
	return math.Exp(c.e[i-1] + slope(i-1, i)*(x-c.t[i-1]))
}

// Check returns an error if the curves do not belong to a model of this shape. Files are read with it.
func (c *Curves) Check(layers, kvHeads int) error {
	bad := func(what string) error { return fmt.Errorf("budgets: %s", what) }
	if c.Context < 1 || c.Context > 1<<31 || len(c.Weight) != layers {
		return bad(fmt.Sprintf("a context of %d tokens, weights of %d layers, the model has %d", c.Context,
			len(c.Weight), layers))
	}
	if len(c.Compact) != layers || len(c.Slots) < 2 || !slices.IsSorted(c.Slots) || c.Slots[0] < 1 {
		return bad(fmt.Sprintf("errors of %d layers at %d numbers of slots, want %d layers and at least 2 ascending "+
			"numbers", len(c.Compact), len(c.Slots), layers))
	}
	for i := range c.Slots[1:] {
		if c.Slots[i] == c.Slots[i+1] {
			return bad(fmt.Sprintf("the number of slots %d occurs twice", c.Slots[i]))
		}
	}
	for l := range c.Compact {
		if len(c.Compact[l]) != kvHeads {
			return bad(fmt.Sprintf("layer %d has errors of %d heads, the model has %d", l, len(c.Compact[l]), kvHeads))
		}
		for h, e := range c.Compact[l] {
			if len(e) != len(c.Slots) || !(slices.Min(e) >= 0) || !(slices.Max(e) < 1e9) {
				return bad(fmt.Sprintf("layer %d, head %d: want %d errors between 0 and 1e9", l, h, len(c.Slots)))
			}
		}
	}
	if !(slices.Min(c.Weight) >= 0) || !(slices.Max(c.Weight) < 1e9) {
		return bad("the weight of a layer is not between 0 and 1e9")
	}
	return nil
}

// Budgets are the slots of the key/value heads, layer by layer, for [Session.Compact].
type Budgets struct {
	Slots [][]int
	// Loss is the expected Kullback-Leibler divergence of the next token's distribution from the one with the full
	// context, in nats. The perplexity is expected to grow by the factor e^Loss.
	Loss float64
}

// At returns the budget of a head.
func (b Budgets) At(layer, head int) int { return b.Slots[layer][head] }

// Compacted returns the budgets with the smallest expected loss for a context of so many tokens and mean slots per
// head. Heads that lose much keep all keys.
//
// It minimises Σ κ_l E[l,h](t·C₀/C) + μ Σ t over the budgets t of the heads. κ is Weight, C₀ the measured context and C
// the actual one: a share of the context is assumed to lose the same at any length. μ is the price of a slot. For a
// fixed price every head picks its best t on a grid, independently; bisection finds the price at which the mean of t is
// right. A head may keep all tokens, which costs t = tokens and loses nothing.
func (c *Curves) Compacted(tokens int, mean float64) Budgets {
	scale := float64(c.Context) / float64(tokens)
	var grid []int
	const points = 60
	most := max(leastSlots, mostShare*float64(tokens))
	for i := range points + 1 {
		t := int(math.Round(leastSlots * math.Pow(most/leastSlots, float64(i)/points)))
		if len(grid) == 0 || t > grid[len(grid)-1] {
			grid = append(grid, t)
		}
	}
	if tokens > grid[len(grid)-1] {
		grid = append(grid, tokens)
	}
	var loss [][]float64 // by head and grid
	curves := make([]curve, 0, len(c.Compact)*len(c.Compact[0]))
	for l := range c.Compact {
		for _, e := range c.Compact[l] {
			k := newCurve(c.Slots, e)
			f := make([]float64, len(grid))
			for i, t := range grid {
				if t < tokens {
					f[i] = c.Weight[l] * k.at(float64(t)*scale)
				}
			}
			loss, curves = append(loss, f), append(curves, k)
		}
	}
	pick := func(price float64) (list []int, sum float64) {
		for _, f := range loss {
			best := 0
			for i, t := range grid {
				if f[i]+price*float64(t) < f[best]+price*float64(grid[best]) {
					best = i
				}
			}
			list, sum = append(list, grid[best]), sum+float64(grid[best])
		}
		return list, sum / float64(len(loss))
	}
	lo, hi := 1e-16, 1e4 // at price lo the heads take too many slots, at price hi few enough
	for range 100 {
		mid := math.Sqrt(lo * hi)
		if _, m := pick(mid); m > mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	list, _ := pick(hi)
	// The grid is coarse, so the mean is still below the target: scale all budgets but the full ones up to it.
	var kept, some float64
	for _, t := range list {
		if t >= tokens {
			kept += float64(t)
		} else {
			some += float64(t)
		}
	}
	b := Budgets{}
	kv := len(c.Compact[0])
	for i, t := range list {
		if t < tokens {
			t = min(tokens, max(leastSlots, int(float64(t)*(mean*float64(len(list))-kept)/some)))
		}
		if i%kv == 0 {
			b.Slots = append(b.Slots, nil)
		}
		b.Slots[i/kv] = append(b.Slots[i/kv], t)
		if t < tokens {
			b.Loss += c.Weight[i/kv] * curves[i].at(float64(t)*scale)
		}
	}
	return b
}
