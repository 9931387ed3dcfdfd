package advise

import (
	"context"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// draw is the result of one draw of the projections of a candidate, over the pairs of one fold.
type draw struct {
	square  float64 // mean of the squared errors
	mean    float64 // mean of the errors
	typical float64 // relative errors: their median; absolute errors: their root mean square
}

// rowSums are the squared errors of a fold, summed over draws and over the pairs of every row of x and of y.
type rowSums struct{ x, y []float64 }

// histogram counts squared errors by their binary logarithm, in sixteenths of an octave.
type histogram [1 << 11]float64

const (
	octaves  = 16                // cells per octave
	lowest   = 1023 - (1<<11)/32 // exponent of the first cell
	topPart  = 0.005             // share of the largest errors that Hill's estimate uses, but not fewer than topLeast
	topLeast = 50
)

// cell is the upper 16 bits of v: sign, exponent and four bits of the mantissa.
func cell(v float64) int {
	b := int(math.Float64bits(v)>>48) - lowest*octaves
	return min(max(b, 0), len(histogram{})-1)
}

// index is the tail index of the squared errors, by Hill's estimate (Hill 1975) from the largest: moments of
// this order and above do not exist. It is +Inf if there is no tail.
func (h *histogram) index() float64 {
	var n float64
	for _, c := range h {
		n += c
	}
	top := max(topPart*n, min(topLeast, n/4))
	var above, logs float64
	for i := len(h) - 1; i >= 0; i-- {
		if above+h[i] > top {
			if above == 0 {
				return math.Inf(1)
			}
			// Cells are 1/16 octave wide: those above the threshold begin at its upper end.
			return above / (logs - above*float64(i+1)*math.Ln2/octaves)
		}
		above += h[i]
		logs += h[i] * (float64(i) + 0.5) * math.Ln2 / octaves
	}
	return math.Inf(1)
}

// pilot is the memory of a goroutine that measures.
type pilot struct {
	ws        randfeat.Workspace[float64]
	log, sign []float64
	square    []float64
	fine      []float64 // counts for medians
}

// measure makes draw number r of a candidate, on the fold whose turn it is. If perPair is not nil, the squared
// errors of the pairs are added to it. One goroutine at a time may measure an entrant.
func (s *study) measure(p *pilot, e *entrant, r int, perPair []dense.Matrix[float64]) (draw, error) {
	tab, err := kern.Chosen[float64]()
	if err != nil {
		return draw{}, err
	}
	p.ws.Workers = 1
	i := r % len(s.folds)
	f := s.folds[i]
	spec, err := e.drawn(s, r)
	if err != nil {
		return draw{}, err
	}
	m, err := randfeat.New[float64](spec)
	if err != nil {
		return draw{}, err
	}
	n := f.x.Rows * f.y.Rows
	p.log, p.sign = slices.Grow(p.log[:0], n)[:n], slices.Grow(p.sign[:0], n)[:n]
	log := dense.Matrix[float64]{Rows: f.x.Rows, Cols: f.y.Rows, Stride: f.y.Rows, Data: p.log}
	sign := log
	sign.Data = p.sign
	if err := m.LogGram(log, sign, f.x, f.y, &p.ws); err != nil {
		return draw{}, err
	}
	for a, l := range p.log {
		p.log[a] = min(l+f.shift.Data[a], 300) // bounded, so that squares stay finite
	}
	tab.Exp(p.log, 0)
	if e.sums == nil {
		e.sums = make([]rowSums, len(s.folds))
	}
	rows := &e.sums[i]
	if rows.x == nil {
		rows.x, rows.y = make([]float64, f.x.Rows), make([]float64, f.y.Rows)
	}
	var sum, signed float64
	p.square = p.square[:0]
	for a, v := range p.log {
		if !f.meets(a) {
			p.log[a] = 0
			continue
		}
		d := p.sign[a]*v - f.target.Data[a]
		signed += d
		d *= d
		p.log[a], p.square = d, append(p.square, d)
		sum += d
		rows.x[a/f.y.Rows] += d
		rows.y[a%f.y.Rows] += d
		e.tail[cell(d)]++
	}
	if perPair != nil {
		tab.MulAdd(perPair[i].Data, p.log, 1)
	}
	n = len(p.square)
	out := draw{square: sum / float64(n), mean: signed / float64(n)}
	if out.typical = math.Sqrt(out.square); s.Loss == lossRelative {
		out.typical = math.Sqrt(p.median(p.square))
	}
	return out, nil
}

// median returns the median of non-negative numbers to within 0.4 %, by counting instead of sorting.
func (p *pilot) median(v []float64) float64 {
	const shift, low, size = 44, (1023 - 64) << 8, 128 << 8 // 256 parts of an octave, 2^-64 to 2^64
	if p.fine == nil {
		p.fine = make([]float64, size)
	}
	clear(p.fine)
	for _, x := range v {
		p.fine[min(max(int(math.Float64bits(x)>>shift)-low, 0), size-1)]++
	}
	half, n := float64(len(v))/2, 0.0
	for i, c := range p.fine {
		if n+c >= half {
			at := uint64(i+low) << shift
			lo, hi := math.Float64frombits(at), math.Float64frombits(at+1<<shift)
			return lo + (hi-lo)*(half-n)/c
		}
		n += c
	}
	return math.Inf(1)
}

// more measures every entrant until it has the given number of draws. Goroutines share out entrants, not draws,
// so each entrant's sums are added in order and results do not depend on the number of threads.
func (s *study) more(ctx context.Context, entrants []*entrant, draws int) error {
	type item struct {
		e     *entrant
		first int
	}
	var items []item
	for _, e := range entrants {
		if n, all := len(e.draws), e.enough(s, draws); n < all {
			items = append(items, item{e, n})
			e.draws = slices.Grow(e.draws, all-n)[:all]
		}
	}
	err := s.crew.Do(len(items), par.Workers(len(items), 1), step(func(p *pilot, i int) error {
		it := items[i]
		for r := it.first; r < len(it.e.draws); r++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			d, err := s.measure(p, it.e, r, nil)
			if err != nil {
				return it.e.excuse(err, &it.e.refused)
			}
			it.e.draws[r] = d
		}
		return nil
	}))
	return err
}

// step adapts a function to par.Step.
type step func(p *pilot, i int) error

// Item makes it a par.Step.
func (f step) Item(p *pilot, i int) error { return f(p, i) }
