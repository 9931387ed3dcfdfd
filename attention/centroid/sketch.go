package centroid

import (
	"math"
	"math/bits"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Decoding ([Sketch]). A step sees all clustered keys by their centroids, and corrects the keys that the centroid
// misjudges most, one by one: a key whose own weight and that of its centroid differ by at least Share of all weights
// of some query head of the group is exact. So what a step reads follows what the query looks for, and no key of weight
// is overlooked because its cluster has none.
//
// Exact logits of all keys would cost as much as exact attention. A sketch of a key, two bits per coordinate, gives
// them with a standard deviation of about one, which depends on the query and is known. Candidates are the keys whose
// logit may be large enough, within sketchSigmas deviations. A step reads the keys of the candidates, and the values of
// those that really differ from their centroid.
//
// Coordinate l of key j of a chunk with the mean m_l is near m_l + (code − 3/2)·step_l. A step of one standard
// deviation of the coordinate has the least squared error, 0.12 variances of a normal law. Steps are those of the
// chunks 0, 1, 4, 16, 64, …, so a query is rounded to integers once for each of them: ∑ code·q is then a sum of small
// integers (kern.Scan). Errors of different coordinates are independent, so that the logit of a query x has the
// variance Σ x_l² e_l, where e_l is their mean square over the keys of the chunk. A key far from all others of its
// chunk raises e_l, so that more keys become candidates.
//
// Invariant: all this is a function of the sorted keys of the chunks in their order; a saved state has only these.

// sketchSigmas is how far logits of sketches may be wrong, in standard deviations.
const sketchSigmas = 2

// sketches describe the keys of the clustered chunks of a head. They are in float32 whatever the keys are: codes are
// far less accurate.
type sketches struct {
	mean, noise kern.Panel[float32] // columns are chunks: means of coordinates, mean squares of their errors
	room        int                 // columns
	codes       [][]byte            // of every chunk; they never change
	units       []sketchUnit
}

// sketchUnit is the steps of the chunks from first on.
type sketchUnit struct {
	first int
	step  []float32
}

// addSketch appends the sketch of the next chunk.
func addSketch(s *sketches, tab *kern.Table[float32], k dense.Matrix[float32]) {
	wide := dense.New[float64](k.Rows, k.Cols)
	for j := range k.Rows {
		tab.Widen(wide.Row(j), k.Row(j), 1)
	}
	s.add(wide)
}

func (s *sketches) add(k dense.Matrix[float64]) {
	tab, i, d := kern.Best[float32](), len(s.codes), k.Cols
	if i == s.room {
		s.grow(tab, max(4, 2*s.room), d)
	}
	mean := means(k)
	if i == 0 || i&(i-1) == 0 && bits.Len(uint(i))%2 == 1 { // 0 or a power of four
		step := make([]float32, d)
		tab.Narrow(step, deviations(k, mean), 1)
		s.units = append(s.units, sketchUnit{i, step})
	}
	step := make([]float64, d)
	tab.Widen(step, s.units[len(s.units)-1].step, 1)
	codes, noise := encode(k, mean, step)
	s.codes = append(s.codes, codes)
	at := outputOf(&s.mean, i)
	for l := range mean {
		s.mean.Data[at], s.noise.Data[at] = float32(mean[l]), float32(noise[l])
		at += s.mean.Width
	}
}

// means are the means of the columns of k.
func means(k dense.Matrix[float64]) []float64 {
	mean := make([]float64, k.Cols)
	for j := range k.Rows {
		for l, y := range k.Row(j) {
			mean[l] += y / float64(k.Rows)
		}
	}
	return mean
}

// deviations are the standard deviations of the columns of k.
func deviations(k dense.Matrix[float64], mean []float64) []float64 {
	sum := make([]float64, k.Cols)
	for j := range k.Rows {
		for l, y := range k.Row(j) {
			sum[l] += (y - mean[l]) * (y - mean[l])
		}
	}
	for l, v := range sum {
		sum[l] = math.Sqrt(v / float64(max(1, k.Rows)))
	}
	return sum
}

// encode returns the codes of keys, and the mean squares of their errors.
func encode(k dense.Matrix[float64], mean, step []float64) (codes []byte, noise []float64) {
	codes, noise = make([]byte, kern.ScanSize(k.Rows, k.Cols)), make([]float64, k.Cols)
	stride := kern.ScanStride(k.Cols)
	for j := range k.Rows {
		for l, y := range k.Row(j) {
			x, code := y-mean[l], 0
			switch {
			case x >= step[l]:
				code = 3
			case x >= 0:
				code = 2
			case x >= -step[l]:
				code = 1
			}
			kern.PutCode(codes, stride, j, l, byte(code))
			e := x - (float64(code)-1.5)*step[l]
			noise[l] += e * e / float64(k.Rows)
		}
	}
	return codes, noise
}

// grow makes room for so many chunks.
func (s *sketches) grow(tab *kern.Table[float32], n, d int) {
	var mean, noise kern.Panel[float32]
	tab.Room(&mean, n, d)
	tab.Room(&noise, n, d)
	copy(mean.Data, s.mean.Data)
	copy(noise.Data, s.noise.Data)
	s.mean, s.noise, s.room = mean, noise, n
}

// clone is a copy that shares the codes.
func (s *sketches) clone() sketches {
	n := *s
	n.codes, n.units = slices.Clone(s.codes), slices.Clone(s.units)
	if s.room > 0 {
		n.grow(kern.Best[float32](), s.room, s.mean.Cols)
	}
	return n
}

// candidates are clustered keys that may differ from their centroids, chunk by chunk in their order.
type candidates struct {
	key   []int32 // of its chunk
	runs  []run   // in this order
	first []int32 // candidate of a chunk, and their number at the end
}

// run is the candidates of a cluster, up to the next run. Its centroid is in a column of the store.
type run struct{ first, column, size int32 }

// sketchReader computes rows. It is scratch memory of one goroutine.
type sketchReader struct {
	finder
	weights    dense.Matrix[float32] // of centroids
	shift      []float32             // their references
	inv, score []float32
	index      []int32
	tile       dense.Matrix[float32]
}

// finder finds candidates by sketches.
type finder struct {
	x, square   dense.Matrix[float32] // queries
	base, noise dense.Matrix[float32] // logits of the means of chunks, variances of the errors
	view        kern.Panel[float32]
	level       []float64 // logits of Share of all weights
	scaled      []float32
	q           []int8
	f           []float64
	sum         []int
	low         []int32
	mask        []uint16
	list        candidates
}

// read adds the first far chunks of a head and the recent keys to the sums of t. It returns the number of clustered
// keys that are exact.
func (r *sketchReader) read(t *tiles, h *chunkHead, far int, near *nearKeys, share float64) int {
	if far == 0 {
		t.addAll(near)
		return 0
	}
	if share < leastShare {
		t.addAll(near)
		return r.readAll(t, h.parts[:far])
	}
	panel, logSize, mean := h.store.view(far)
	t.view = panel
	t.far(&t.view, logSize)
	t.addAll(near)
	r.weights, r.shift = shapedRoomy(r.weights, t.x.Rows, panel.Rows), roomy(r.shift, t.x.Rows)
	copyRows(r.weights, t.wide)
	copy(r.shift, t.shift)
	t.finishFar(mean)
	t.wide = buf.Shaped(t.wide, t.x.Rows, 0) // nothing is left to be scaled
	r.pick(t, h, far, share)
	return r.correct(t, h, share)
}

// leastShare is the smallest Share for which keys are searched. All keys are exact for less: float32 would not
// show the difference.
const leastShare = 1e-9

// readAll adds the keys of chunks in place and returns their number.
func (r *sketchReader) readAll(t *tiles, parts []chunkPart) (exact int) {
	for i := range parts {
		k, v := parts[i].k, parts[i].v
		if k.Rows == 0 { // all of them are sinks
			continue
		}
		r.tile = shapedRoomy(r.tile, t.x.Rows, k.Rows)
		for g := range t.x.Rows {
			row := r.tile.Row(g)
			t.tab.MulV(row, k, t.x.Row(g))
			t.raise(g, t.tab.Max(row))
			t.sum[g] += float64(t.tab.ExpSum(row, t.shift[g]))
		}
		t.tab.Product(t.acc, r.tile, v, true)
		exact += k.Rows
	}
	return exact
}

// pick sets r.list to the candidates.
func (r *sketchReader) pick(t *tiles, h *chunkHead, far int, share float64) {
	rows := t.x.Rows
	r.x, r.level = buf.Shaped(r.x, rows, t.x.Cols), buf.Sized(r.level, rows)
	for i, v := range t.x.Data[:len(r.x.Data)] {
		r.x.Data[i] = float32(v)
	}
	for g := range rows {
		r.level[g] = float64(t.shift[g]) + math.Log(share*t.sum[g])
	}
	blocks := 0
	for i := range far {
		blocks += h.parts[i].blocks()
	}
	r.mask = roomy(r.mask, blocks)
	clear(r.mask)
	r.markHeavy(t, h, far, share)
	r.search(&h.sketch, far)
	r.collect(h, far)
}

// search marks the keys of the first far chunks whose logits may reach the levels.
func (r *finder) search(s *sketches, far int) {
	tab, rows, d := kern.Best[float32](), r.x.Rows, r.x.Cols
	r.square = buf.Shaped(r.square, rows, d)
	copy(r.square.Data, r.x.Data)
	tab.Mul(r.square.Data, r.x.Data)
	r.base, r.noise = shapedRoomy(r.base, rows, far), shapedRoomy(r.noise, rows, far)
	r.view = s.mean
	r.view.Rows = far
	tab.MulT(r.base, r.x, &r.view, nil)
	r.view = s.noise
	r.view.Rows = far
	tab.MulT(r.noise, r.square, &r.view, nil)
	stride := kern.ScanStride(d)
	block := kern.ScanSize(kern.ScanKeys, d)
	r.q, r.low, r.scaled = buf.Sized(r.q, rows*stride), buf.Sized(r.low, rows), buf.Sized(r.scaled, d)
	r.f, r.sum = buf.Sized(r.f, rows), buf.Sized(r.sum, rows)
	at := 0
	for u := range s.units {
		first, end := s.units[u].first, far
		if u+1 < len(s.units) {
			end = min(end, s.units[u+1].first)
		}
		if first >= end {
			break
		}
		for g := range rows {
			copy(r.scaled, r.x.Row(g))
			tab.Mul(r.scaled, s.units[u].step)
			r.f[g], r.sum[g] = kern.ScanQuery(r.q[g*stride:(g+1)*stride], r.scaled)
		}
		for i := first; i < end; i++ {
			for g := range rows {
				least := r.level[g] - float64(r.base.Row(g)[i]) - sketchSigmas*math.Sqrt(float64(r.noise.Row(g)[i]))
				r.low[g] = leastSumOf(least, r.f[g], r.sum[g])
			}
			n := len(s.codes[i]) / block
			tab.Scan(r.mask[at:at+n], s.codes[i], r.q, r.low)
			at += n
		}
	}
}

// blocks is the number of blocks of a sketch of the chunk.
func (p *chunkPart) blocks() int { return kern.ScanBlocks(p.k.Rows) }

// leastSumOf is the smallest sum of codes times integers for which a logit above that of the mean is at least least. A
// query that has no integers because a number is not finite finds all keys.
func leastSumOf(least, f float64, sum int) int32 {
	const most = 1 << 30
	low := math.Ceil(f*least + 1.5*float64(sum))
	switch {
	case !(low > -most): // NaN too
		return -most
	case low > most:
		return most
	}
	return int32(low)
}

// markHeavy makes the keys of clusters candidates whose centroid gives each of them at least share of all weights.
func (r *sketchReader) markHeavy(t *tiles, h *chunkHead, far int, share float64) {
	n, stride := r.weights.Cols, h.store.stride
	r.inv, r.score, r.index = buf.Sized(r.inv, r.weights.Rows), roomy(r.score, n), roomy(r.index, n)
	for g := range r.inv {
		r.inv[g] = 0
		f := math.Exp(float64(r.shift[g])-float64(t.shift[g])) / t.sum[g] // shifts may have grown
		if dense.IsFinite(f) {
			r.inv[g] = float32(f)
		}
	}
	t.tab.Product(view(r.score, 1, n), view(r.inv, 1, len(r.inv)), r.weights, false)
	at, chunk := 0, 0
	for _, c := range r.index[:t.tab.Above(r.index, r.score, float32(share))] {
		for ; chunk < int(c)/stride; chunk++ {
			at += h.parts[chunk].blocks()
		}
		start, x := h.parts[chunk].start, int(c)%stride
		if x+1 >= len(start) || float64(r.score[c]) < share*float64(start[x+1]-start[x]) {
			continue
		}
		for j := int(start[x]); j < int(start[x+1]); j++ {
			r.mask[at+j/kern.ScanKeys] |= 1 << (j % kern.ScanKeys)
		}
	}
}

// collect lists the keys of the mask.
func (r *sketchReader) collect(h *chunkHead, far int) {
	l := &r.list
	l.key, l.runs, l.first = l.key[:0], l.runs[:0], l.first[:0]
	at := 0
	for i := range far {
		n := h.parts[i].blocks()
		l.add(r.mask[at:at+n], h.parts[i].start, int32(i*h.store.stride))
		at += n
	}
	l.first = append(l.first, int32(len(l.key)))
	l.runs = append(l.runs, run{first: int32(len(l.key))})
}

// add appends the keys of a chunk, given where its clusters begin among its keys and the column of the first.
func (l *candidates) add(mask []uint16, start []int32, column int32) {
	n, x, next := start[len(start)-1], int32(-1), int32(0)
	l.first = append(l.first, int32(len(l.key)))
	for b, m := range mask {
		for ; m != 0; m &= m - 1 {
			j := int32(b*kern.ScanKeys + bits.TrailingZeros16(m))
			if j >= n { // the last block is not full
				break
			}
			if j >= next {
				for next <= j {
					x++
					next = start[x+1]
				}
				l.runs = append(l.runs, run{int32(len(l.key)), column + x, next - start[x]})
			}
			l.key = append(l.key, j)
		}
	}
}

// correct makes the candidates exact that differ from their centroids by at least share of all weights of a row, and
// returns their number.
func (r *sketchReader) correct(t *tiles, h *chunkHead, share float64) int {
	l, rows, tab := &r.list, t.x.Rows, t.tab
	n := len(l.key)
	if n == 0 {
		return 0
	}
	t.gather(n)
	for i := range len(l.first) - 1 {
		if a, b := int(l.first[i]), int(l.first[i+1]); a < b {
			tab.Gather(t.k.RowRange(a, b), h.parts[i].k, l.key[a:b])
		}
	}
	r.tile = shapedRoomy(r.tile, rows, n)
	r.score = roomy(r.score, n)
	clear(r.score)
	for g := range rows {
		row, of := r.tile.Row(g), r.weights.Row(g)
		tab.MulV(row, t.k, t.x.Row(g))
		t.raise(g, tab.Max(row))
		tab.Exp(row, t.shift[g])
		f, least := float32(math.Exp(float64(r.shift[g])-float64(t.shift[g]))), float32(share*t.sum[g])
		for i, run := range l.runs[:len(l.runs)-1] {
			w := of[run.column] * f / float32(run.size)
			part := row[run.first:l.runs[i+1].first]
			score := r.score[run.first:][:len(part)]
			for j, y := range part {
				d := y - w
				part[j] = d
				if d >= least || -d >= least {
					score[j] = 1
				}
			}
		}
	}
	// The values of the others are not read.
	exact := 0
	for i := range len(l.first) - 1 {
		from := exact
		for at := int(l.first[i]); at < int(l.first[i+1]); at++ {
			if r.score[at] == 0 {
				continue
			}
			for g := range rows {
				row := r.tile.Row(g)
				row[exact] = row[at]
				t.sum[g] += float64(row[at])
			}
			l.key[exact] = l.key[at]
			exact++
		}
		if from < exact {
			tab.Gather(t.v.RowRange(from, exact), h.parts[i].v, l.key[from:exact])
		}
	}
	if exact > 0 {
		tab.Product(t.acc, r.tile.ColRange(0, exact), t.v.RowRange(0, exact), true)
	}
	return exact
}

// shapedRoomy is [buf.Shaped] for matrices that grow a little at a time.
func shapedRoomy(m dense.Matrix[float32], rows, cols int) dense.Matrix[float32] {
	return view(roomy(m.Data, rows*cols), rows, cols)
}
