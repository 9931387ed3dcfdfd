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

// rowSums are squares summed over the pairs of every row of x and of y, and over draws. In one set x and y are the same
// slice: a pair belongs to both of its rows.
type rowSums struct {
	x, y []float64
	// Sums, over rows and draws, of the square of what a draw adds to a row.
	x2, y2 float64
}

// pair adds the square of pair number i of a fold.
func (s *rowSums) pair(f *fold, i int, square float64) {
	s.x[i/f.y.Rows] += square
	s.y[i%f.y.Rows] += square
}

// add adds the sums of a draw.
func (s *rowSums) add(d rowSums, same bool) {
	for i, v := range d.x {
		s.x[i] += v
		s.x2 += v * v
	}
	if same {
		return
	}
	for i, v := range d.y {
		s.y[i] += v
		s.y2 += v * v
	}
}

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

// rowIndex is the tail index of the rows' parts in the squared errors: the mean over the variance of the logarithms'
// excess in the upper fifth. Both are those of an exponential law if the tail is a power. A tail that grows heavier
// further out, of which few rows show little, has a larger variance. It is +Inf if there is no tail.
func (e *entrant) rowIndex() float64 {
	var logs []float64
	side := func(sums []float64) {
		all := sum(sums)
		for _, v := range sums {
			if v > 0 {
				logs = append(logs, math.Log(v/all*float64(len(sums))))
			}
		}
	}
	for _, s := range e.sums {
		side(s.x)
		if len(s.x) > 0 && &s.x[0] != &s.y[0] {
			side(s.y)
		}
	}
	slices.Sort(logs)
	top := logs[len(logs)-max(min(len(logs), 4), len(logs)/5):]
	if len(top) < 2 {
		return math.Inf(1)
	}
	m := mean(top) - top[0]
	var square float64
	for _, v := range top[1:] {
		square += (v - top[0] - m) * (v - top[0] - m) / float64(len(top)-1)
	}
	return m / square
}

// quantile returns the root of the p-quantile of the squared errors, to within 2 %.
func (h *histogram) quantile(p float64) float64 {
	var n, below float64
	for _, c := range h {
		n += c
	}
	for i, c := range h {
		if c > 0 && below+c >= p*n {
			edge := func(i int) float64 { return math.Float64frombits(uint64(i+lowest*octaves) << 48) }
			lo, hi := edge(i), edge(i+1)
			return math.Sqrt(lo + (hi-lo)*(p*n-below)/c)
		}
		below += c
	}
	return 0
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
		*rows = f.newSums()
	}
	own := f.newSums()
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
		own.pair(f, a, d)
		e.tail[cell(d)]++
	}
	rows.add(own, f.same)
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
