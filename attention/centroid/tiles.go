package centroid

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

const (
	// tileRows rows of weights are computed at a time, with gatherKeys keys: a tile, its keys and its values stay in a
	// second-level cache.
	gatherKeys = 512
	// lag is how far logits may exceed the reference of a row, in nats, as in attention.Exact.
	lag = 20
	// leastSum of the first weights of a row is enough. Less would lose bits, as large logits make references that
	// differ from logits by rounding errors of some ten nats.
	leastSum = 0x1p-60
)

// tiles sums the outputs of a block of rows that share their exact keys. All products are dense: rows by centroids,
// rows by keys. It is the scratch memory of one worker.
//
// Call in this order: begin, then far and finishFar for centroids, and add for keys, then finish.
type tiles struct {
	tab   *kern.Table[float32]
	x     dense.Matrix[float32] // scaled queries
	acc   dense.Matrix[float32] // weighted sums of values
	shift []float32             // reference of the exponentials of a row
	sum   []float64             // of weights
	wide  dense.Matrix[float32] // weights of centroids
	guess dense.Matrix[float32] // logits of the first ones

	most  []float32
	sums  []float32
	ones  []float32
	tile  dense.Matrix[float32]
	k, v  dense.Matrix[float32] // gathered members
	view  kern.Panel[float32]   // of packed keys or centroids of others
	first kern.Panel[float32]   // of the first centroids
}

// begin makes room for rows of queries, which the caller writes to t.x.
func (t *tiles) begin(tab *kern.Table[float32], rows, d, dv int) {
	t.tab = tab
	t.x, t.acc = buf.Shaped(t.x, rows, d), buf.Shaped(t.acc, rows, dv)
	t.shift, t.sum = buf.Sized(t.shift, rows), buf.Zeroed(t.sum, rows)
	t.most, t.sums = buf.Sized(t.most, rows), buf.Sized(t.sums, rows)
	clear(t.acc.Data)
	for r := range t.shift {
		t.shift[r] = float32(math.Inf(-1))
	}
	t.wide = buf.Shaped(t.wide, rows, 0)
}

// far sets t.wide to the weights n·exp(x·c − shift) of the centroids of a panel. The shifts are the largest logarithms
// of the first of them, or of all where these are much larger. No other part has been added before.
func (t *tiles) far(panel *kern.Panel[float32], logSize []float32) {
	t.wide = buf.Shaped(t.wide, t.x.Rows, panel.Rows)
	if panel.Rows > 2*panel.Width && t.guessShifts(panel, logSize) {
		t.tab.MulTExp(t.wide, t.x, panel, logSize, t.shift)
		t.tab.RowMax(t.most, t.wide)
		far := float32(math.Exp(lag))
		for r, m := range t.most {
			if !(m <= far) {
				t.farRow(r, panel, logSize)
			}
		}
		return
	}
	t.tab.MulT(t.wide, t.x, panel, logSize)
	t.tab.RowMax(t.shift, t.wide)
	for r := range t.shift {
		t.most[r] = t.shift[r]
		if math.IsInf(float64(t.shift[r]), -1) { // no clusters
			t.most[r] = 0 // exp(−∞ − 0) = 0
		}
	}
	t.tab.ExpRows(t.sums, t.wide, t.most)
}

// farRow is far of one row, with the largest logarithm for its shift.
func (t *tiles) farRow(r int, panel *kern.Panel[float32], logSize []float32) {
	one := t.wide.RowRange(r, r+1)
	t.tab.MulT(one, t.x.RowRange(r, r+1), panel, logSize)
	row := one.Row(0)
	t.shift[r] = t.tab.Max(row)
	if math.IsInf(float64(t.shift[r]), -1) { // no clusters
		clear(row)
		return
	}
	t.tab.Exp(row, t.shift[r])
}

// guessShifts sets the shifts to the largest logits of the first keys or centroids of a panel. It reports whether all
// are finite.
func (t *tiles) guessShifts(panel *kern.Panel[float32], bias []float32) bool {
	t.first = *panel
	t.first.Rows = min(t.first.Width, panel.Rows)
	t.guess = buf.Shaped(t.guess, t.x.Rows, t.first.Rows)
	if bias != nil {
		bias = bias[:t.first.Rows]
	}
	t.tab.MulT(t.guess, t.x, &t.first, bias)
	t.tab.RowMax(t.shift, t.guess)
	for _, s := range t.shift {
		if !dense.IsFinite(float64(s)) {
			return false
		}
	}
	return true
}

// fillShifts gives references to the rows that have none, as guessShifts does. Other rows keep theirs, since the bits
// of a row must not depend on the rows that are computed with it.
func (t *tiles) fillShifts(panel *kern.Panel[float32], bias []float32) {
	if panel.Rows == 0 || !slices.Contains(t.shift, float32(math.Inf(-1))) {
		return
	}
	copy(t.most, t.shift)
	t.guessShifts(panel, bias)
	for r := range t.shift {
		if s := t.most[r]; !math.IsInf(float64(s), -1) {
			t.shift[r] = s
		}
	}
}

// add adds keys to the sums, with a bias or none: all of them, or for row r the first seen[r%len(seen)].
func (t *tiles) add(panel *kern.Panel[float32], values dense.Matrix[float32], bias []float32, seen []int) {
	if panel.Rows == 0 {
		return
	}
	for len(t.ones) < max(panel.Rows, t.wide.Cols) {
		t.ones = append(t.ones, 1)
	}
	for r := 0; r < t.x.Rows; r += tileRows {
		t.addTile(panel, values, bias, seen, r, min(r+tileRows, t.x.Rows))
	}
}

func (t *tiles) addTile(panel *kern.Panel[float32], values dense.Matrix[float32], bias []float32, seen []int, lo,
	hi int) {
	n := panel.Rows
	t.tile = buf.Shaped(t.tile, hi-lo, n)
	x, p := t.x.RowRange(lo, hi), t.tile
	fused := true
	for _, s := range t.shift[lo:hi] {
		fused = fused && !math.IsInf(float64(s), -1)
	}
	if fused {
		t.tab.MulTExp(p, x, panel, bias, t.shift[lo:hi])
		if seen != nil {
			for r := range p.Rows {
				clear(p.Row(r)[seen[(lo+r)%len(seen)]:])
			}
		}
		t.tab.MulV(t.sums[:hi-lo], p, t.ones[:n])
	}
	most := float32(math.Exp(lag))
	for r := range p.Rows {
		visible := n
		if seen != nil {
			visible = seen[(lo+r)%len(seen)]
		}
		underflow := fused && t.sums[r] < leastSum && t.sum[lo+r] == 0 && t.wide.Cols == 0 && visible > 0
		if fused && t.sums[r] <= most && !underflow {
			t.sum[lo+r] += float64(t.sums[r])
			continue
		}
		if underflow { // the reference is far above the first logits, and all sums are 0
			t.shift[lo+r] = float32(math.Inf(-1))
		}
		row := p.Row(r)
		t.tab.MulT(p.RowRange(r, r+1), x.RowRange(r, r+1), panel, bias)
		clear(row[visible:])
		row = row[:visible]
		t.raise(lo+r, t.tab.Max(row))
		if math.IsInf(float64(t.shift[lo+r]), -1) {
			clear(row)
			continue
		}
		t.sum[lo+r] += float64(t.tab.ExpSum(row, t.shift[lo+r]))
	}
	t.tab.Product(t.acc.RowRange(lo, hi), p, values, true)
}

// raise makes m the reference of row r if it is larger.
func (t *tiles) raise(r int, m float32) {
	if !(m > t.shift[r]) {
		return
	}
	f := float32(math.Exp(float64(t.shift[r]) - float64(m)))
	t.tab.Scale(t.acc.Row(r), f)
	t.tab.Scale(t.wide.Row(r), f)
	t.sum[r] *= float64(f)
	t.shift[r] = m
}

// finishFar adds the centroids of all clusters, with the means of their values.
func (t *tiles) finishFar(mean dense.Matrix[float32]) {
	k := t.wide.Cols
	if k == 0 {
		return
	}
	for len(t.ones) < k {
		t.ones = append(t.ones, 1)
	}
	t.tab.MulV(t.sums, t.wide, t.ones[:k])
	for r, s := range t.sums[:t.x.Rows] {
		t.sum[r] += float64(s)
	}
	t.tab.Product(t.acc, t.wide, mean, true)
}

// copyRows copies a matrix.
func copyRows(dst, src dense.Matrix[float32]) {
	if dst.Stride == dst.Cols && src.Stride == src.Cols {
		copy(dst.Data[:dst.Rows*dst.Cols], src.Data)
		return
	}
	for i := range src.Rows {
		copy(dst.Row(i), src.Row(i))
	}
}

// finish divides row r by its weights into dst. It reports whether the row has seen a key.
func (t *tiles) finish(dst []float32, r int) bool {
	if t.sum[r] == 0 {
		clear(dst)
		return false
	}
	f := float32(1 / t.sum[r])
	acc := t.acc.Row(r)[:len(dst)]
	for i, v := range acc {
		dst[i] = v * f
	}
	return true
}

// finishWith is finish of a row that also has the keys whose output is in dst and whose weights sum to e^log.
func (t *tiles) finishWith(dst []float32, r int, log float32) {
	f := float32(1)
	switch {
	case math.IsInf(float64(log), -1):
		t.finish(dst, r)
		return
	case log > t.shift[r]:
		t.raise(r, log)
	case log < t.shift[r]:
		f = float32(math.Exp(float64(log) - float64(t.shift[r])))
	}
	each := float32(1 / (t.sum[r] + float64(f)))
	acc := t.acc.Row(r)[:len(dst)]
	for i, v := range acc {
		dst[i] = (v + f*dst[i]) * each
	}
}
