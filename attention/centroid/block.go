package centroid

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// near holds the keys that every query of a block sees exactly, up to its own position: sinks, then the window, by
// position.
type near[T dense.Float] struct {
	pos   []int32
	keys  kern.Panel[T]
	value dense.Matrix[T]
}

// reset removes all keys and makes room for the given number.
func (a *near[T]) reset(tab *kern.Table[T], keys, d, dv int) {
	a.pos = buf.Sized(a.pos, keys)[:0]
	if n := (keys + tab.Width - 1) / tab.Width * tab.Width * d; cap(a.keys.Data) < n {
		zeroPanel(tab, &a.keys, keys, d)
	} else {
		a.keys = kern.Panel[T]{Cols: d, Width: tab.Width, Data: a.keys.Data[:n]}
	}
	a.keys.Rows = 0
	a.value = buf.Shaped(a.value, keys, dv)
	a.value.Rows = 0
}

// add appends the key at position pos, which must be larger than all before; reset has made room for it.
func (a *near[T]) add(pos int, y, v []T) {
	at := outputOf(&a.keys, len(a.pos))
	for _, x := range y {
		a.keys.Data[at] = x
		at += a.keys.Width
	}
	a.pos = append(a.pos, int32(pos))
	a.keys.Rows++
	a.value.Rows++
	copy(a.value.Row(a.value.Rows-1), v)
}

// seen returns the number of keys at positions up to p.
func (a *near[T]) seen(p int) int {
	n, _ := slices.BinarySearch(a.pos, int32(p)+1)
	return n
}

// rows gives access to keys or values by position, in a matrix or in the pages of a cache.
type rows[T dense.Float] struct {
	pages  [][]T
	shift  uint // log₂ of the positions per page
	stride int
	column int // first column of a row: a cache keeps each value next to its key
}

func rowsOf[T dense.Float](m dense.Matrix[T]) (r rows[T]) {
	r.set(m)
	return r
}

// set makes r the rows of a matrix.
func (r *rows[T]) set(m dense.Matrix[T]) {
	r.pages, r.shift, r.stride, r.column = append(r.pages[:0], m.Data), 62, m.Stride, 0
}

// row returns memory that begins with the row of position p. It may be longer than the row.
func (r *rows[T]) row(p int) []T {
	return r.pages[p>>r.shift][(p&(1<<r.shift-1))*r.stride+r.column:]
}

// members lists the keys of every cluster in the order of their positions, with their residual numbers.
type members[T dense.Float] struct {
	pos [][]int32
	// The residual numbers of each cluster: as panels of r+1 inputs, the last of them 1, in a call (wide), or in 8 or 4
	// bits in the same order without the 1, in a cache (q).
	wide [][]T
	q    []quanta
}

// residuals returns the panel of the first n members of cluster c. It may use the memory of tmp.
func (m *members[T]) residuals(g *geometry[T], c, n int, tmp *[]T) kern.Panel[T] {
	p := kern.Panel[T]{Rows: n, Cols: g.r + 1, Width: g.tab.Width}
	if m.wide != nil {
		p.Data = m.wide[c]
		return p
	}
	w := p.Width
	*tmp = roomy(*tmp, (n+w-1)/w*w*p.Cols)
	p.Data = *tmp
	for i, at := 0, 0; i < len(p.Data); i, at = i+w*p.Cols, at+w*g.r {
		dst, ones := p.Data[i:i+w*g.r], p.Data[i+w*g.r:i+w*p.Cols]
		widen(dst, &m.q[c], at, g.spec.bits())
		for j := range ones {
			ones[j] = 1
		}
	}
	return p
}

// quanta holds the residual numbers of one cluster in the order of a panel, in one byte or half a byte each.
type quanta struct{ data []byte }

// put stores the numbers of member j. Members are put in order; the first of a panel makes room for the whole panel.
func (a *quanta) put(j, width, bits int, q []int8) {
	if j%width == 0 {
		n := len(a.data) + width*len(q)*bits/8
		a.data = slices.Grow(a.data, n-len(a.data))[:n]
		clear(a.data[n-width*len(q)*bits/8:])
	}
	at := j/width*width*len(q) + j%width
	for _, v := range q {
		if bits == 4 {
			a.data[at/2] |= byte(v+8) << (at % 2 * 4)
		} else {
			a.data[at] = byte(v)
		}
		at += width
	}
}

// get reads the numbers of member j.
func (a *quanta) get(q []int8, j, width, bits int) {
	at := j/width*width*len(q) + j%width
	for i := range q {
		if bits == 4 {
			q[i] = int8(a.data[at/2]>>(at%2*4)&15) - 8
		} else {
			q[i] = int8(a.data[at])
		}
		at += width
	}
}

// widen converts the numbers from index at on.
func widen[T dense.Float](dst []T, a *quanta, at, bits int) {
	if bits == 4 {
		src := a.data[at/2:][:len(dst)/2]
		for i, v := range src {
			dst[2*i], dst[2*i+1] = T(int8(v&15)-8), T(int8(v>>4)-8)
		}
		return
	}
	src := a.data[at:][:len(dst)]
	for i, v := range src {
		dst[i] = T(int8(v))
	}
}

const (
	// blockRows bounds the rows of queries that are handled together: three tiles of scores of 1024 clusters then stay
	// in a second-level cache.
	blockRows = 64
	// exactKeys is the number of keys of a cluster that are gathered at a time.
	exactKeys = 256
)

// reader computes the outputs of queries of one block of one head (see the rules at the top of causal.go). Forward, the
// states and Backward share it; that is why a Cache gives the bits of Forward. It is also the scratch memory of a
// worker.
//
// A row keeps acc = Σ weight·value and sum = Σ weight relative to e^shift, where shift is the largest logit so far.
// read first adds the near keys, then the clusters and the exact keys among them, and divides at the end.
type reader[T dense.Float] struct {
	g    *geometry[T]
	near *near[T]
	far  *far[T] // nil if no key is in a cluster
	m    *members[T]
	k, v rows[T] // by position

	group, n int             // query heads per key/value head, and positions
	x        dense.Matrix[T] // scaled queries, row h·n + i
	p0       int             // position of the first query

	s, raw, gain, rank dense.Matrix[T] // near logits; x·c; log weight of a key by its cluster, then weights; ranks
	a, a2              dense.Matrix[T] // residual coordinates of queries, and their squares
	acc                dense.Matrix[T]
	shift, shift0      []T // reference of each row's sums, and its value after the near keys
	sum                []float64
	logZ               []T

	unit    []int // rows that share a choice of clusters and keys
	best    []T   // scores of the chosen clusters
	chosen  []int32
	all     [][]int32 // chosen clusters of every row, or of every position if its rows share them
	allData []int32
	cand    []T
	tile    dense.Matrix[T]
	au      dense.Matrix[T]
	sel     []int32
	selPos  []int32
	selOf   []int32
	sorted  selector[T]
	keys    dense.Matrix[T]
	values  dense.Matrix[T]
	score   []T
	count   []T
	one     [1]T
	tmp     []T
	askers  []int // rows that have chosen the current cluster
	panel   kern.Panel[T]
	report  attention.Report
	weighed *causalGrad[T] // in Backward, receives the weights of chosen keys; nil otherwise
}

// read computes the outputs of the n positions from p0 on, all in one block, into acc. x holds the scaled queries, row
// h·n + i.
func (w *reader[T]) read() {
	g, tab := w.g, w.g.tab
	rows := w.group * w.n
	w.acc = buf.Shaped(w.acc, rows, g.dv)
	w.shift, w.shift0 = buf.Sized(w.shift, rows), buf.Sized(w.shift0, rows)
	w.sum = buf.Sized(w.sum, rows)
	w.readNear()
	if w.far != nil && w.far.total > 0 {
		w.readFar()
	}
	for l := range rows {
		w.report.Rows++
		if w.sum[l] == 0 {
			w.report.Empty++
			clear(w.acc.Row(l))
			continue
		}
		tab.Scale(w.acc.Row(l), T(1/w.sum[l]))
	}
}

// readNear starts the sums with the near keys.
func (w *reader[T]) readNear() {
	tab, n := w.g.tab, len(w.near.pos)
	w.s = buf.Shaped(w.s, w.x.Rows, n)
	tab.MulT(w.s, w.x, &w.near.keys, nil)
	for l := range w.x.Rows {
		row := w.s.Row(l)
		seen := w.near.seen(w.p0 + l%w.n)
		w.report.Exact += int64(seen)
		clear(row[seen:])
		w.shift[l], w.sum[l] = T(math.Inf(-1)), 0
		if seen > 0 {
			w.shift[l] = tab.Max(row[:seen])
			w.sum[l] = float64(tab.ExpSum(row[:seen], w.shift[l]))
		}
		w.shift0[l] = w.shift[l]
	}
	tab.Product(w.acc, w.s, w.near.value, false)
}

// received adds the attention that near keys and clusters received from the rows of the last read, position by
// position.
func (w *reader[T]) received(near, far []T) {
	for i := range w.n {
		for h := range w.group {
			l := h*w.n + i
			if w.sum[l] == 0 {
				continue
			}
			f := math.Exp(float64(w.shift0[l])-float64(w.shift[l])) / w.sum[l]
			w.g.tab.MulAdd(near, w.s.Row(l), T(f))
			if len(far) > 0 {
				w.g.tab.MulAdd(far, w.gain.Row(l), T(1/w.sum[l]))
			}
		}
	}
}

// raise makes m the reference of row l if it is larger, and rescales the sums.
func (w *reader[T]) raise(l int, m T) {
	if !(m > w.shift[l]) {
		return
	}
	if f := T(math.Exp(float64(w.shift[l]) - float64(m))); f != 0 {
		w.g.tab.Scale(w.acc.Row(l), f)
		w.sum[l] *= float64(f)
	} else {
		clear(w.acc.Row(l))
		w.sum[l] = 0
	}
	w.shift[l] = m
}

// readFar adds the clusters and the exact keys among them.
func (w *reader[T]) readFar() {
	g, f, tab := w.g, w.far, w.g.tab
	w.scoreClusters()
	shared := g.spec.Shared && w.group > 1
	top := min(g.spec.Top, g.k)
	if top > 0 {
		if shared {
			w.normalise()
		}
		w.chooseAll(top, shared)
	}
	w.count = buf.Sized(w.count, g.k)
	switch {
	case top == 0:
		for l := range w.x.Rows {
			w.weighClusters(l, f.count)
		}
	case g.spec.Keys > 0:
		units := w.x.Rows
		if shared {
			units = w.n
		}
		for u := range units {
			w.unit = append(w.unit[:0], u)
			if shared {
				for h := 1; h < w.group; h++ {
					w.unit = append(w.unit, h*w.n+u)
				}
			}
			w.exactKeys(w.all[u])
		}
	default:
		w.exactClusters()
		for l := range w.x.Rows {
			w.weighClusters(l, f.count)
		}
	}
	tab.Product(w.acc, w.gain, f.value, true)
}

// scoreClusters sets raw = x·c, gain = x·c + ½ min(σ², maxSpread) and rank = log n + x·c + ½σ²; −∞ for empty clusters.
func (w *reader[T]) scoreClusters() {
	g, f, tab := w.g, w.far, w.g.tab
	rows := w.x.Rows
	w.raw, w.rank = buf.Shaped(w.raw, rows, g.k), buf.Shaped(w.rank, rows, g.k)
	w.gain = buf.Shaped(w.gain, rows, g.k)
	tab.MulT(w.raw, w.x, &f.mean, nil)
	if g.r > 0 {
		w.a, w.a2 = buf.Shaped(w.a, rows, g.r), buf.Shaped(w.a2, rows, g.r)
		tab.MulT(w.a, w.x, &g.px, nil)
	}
	if g.spec.Spread {
		copy(w.a2.Data, w.a.Data)
		tab.Mul(w.a2.Data, w.a.Data)
		tab.MulT(w.gain, w.a2, &f.spread, nil)
	}
	for l := range rows {
		raw, gain, rank := w.raw.Row(l), w.gain.Row(l), w.rank.Row(l)
		gain, rank, logn := gain[:len(raw)], rank[:len(raw)], f.logn[:len(raw)]
		if !g.spec.Spread {
			for c, v := range raw {
				rank[c] = v + logn[c]
			}
			copy(gain, raw)
		} else {
			for c, v := range raw {
				s2 := gain[c]
				if !(s2 < hugeSpread) { // NaN too
					s2 = hugeSpread
				}
				gain[c] = v + min(s2, maxSpread)/2
				rank[c] = v + s2/2 + logn[c]
			}
		}
		if len(f.empty) > 0 {
			for _, c := range f.empty {
				gain[c], rank[c] = T(math.Inf(-1)), T(math.Inf(-1))
			}
		}
	}
}

// hugeSpread is larger than any σ² of use and far from overflow.
const hugeSpread = 1e6

// normalise sets logZ of every row to the logarithm of its estimated normaliser: near keys plus all clusters by rank.
// After subtracting it, the scores of several heads are comparable.
func (w *reader[T]) normalise() {
	tab := w.g.tab
	w.logZ = buf.Sized(w.logZ, w.x.Rows)
	w.tmp = buf.Sized(w.tmp, w.g.k)
	for l := range w.x.Rows {
		m := tab.Max(w.rank.Row(l))
		copy(w.tmp, w.rank.Row(l))
		z := math.Log(float64(tab.ExpSum(w.tmp, m))) + float64(m)
		if w.sum[l] > 0 {
			o := math.Log(w.sum[l]) + float64(w.shift[l])
			z = max(z, o) + math.Log1p(math.Exp(-math.Abs(z-o)))
		}
		w.logZ[l] = T(z)
	}
}

// chooseAll lists the top clusters of every row, or of every position if its rows share them, in the order of the
// clusters.
func (w *reader[T]) chooseAll(top int, shared bool) {
	units := w.x.Rows
	if shared {
		units = w.n
		w.tmp = buf.Sized(w.tmp, w.g.k)
	}
	w.allData = buf.Sized(w.allData, units*top)[:0]
	w.all = w.all[:0]
	for u := range units {
		score := w.rank.Row(u)
		if shared {
			score = w.tmp
			for c, v := range w.rank.Row(u) {
				score[c] = v - w.logZ[u]
			}
			for h := 1; h < w.group; h++ {
				l := h*w.n + u
				z := w.logZ[l]
				for c, v := range w.rank.Row(l)[:len(score)] {
					score[c] = max(score[c], v-z)
				}
			}
		}
		start := len(w.allData)
		w.chooseTop(score, top)
		w.allData = append(w.allData, w.chosen...)
		w.all = append(w.all, w.allData[start:len(w.allData):len(w.allData)])
	}
}

// chooseTop sets chosen to the top clusters with the largest scores, in ascending order of their numbers. Of equal
// scores the first counts; −∞ is never chosen.
func (w *reader[T]) chooseTop(score []T, top int) {
	w.best, w.chosen = buf.Sized(w.best, top)[:0], buf.Sized(w.chosen, top)[:0]
	least := T(math.Inf(-1))
	for c, v := range score {
		if !(v > least) {
			continue
		}
		if len(w.best) < top {
			w.best, w.chosen = append(w.best, 0), append(w.chosen, 0)
		}
		i := len(w.best) - 1
		for ; i > 0 && w.best[i-1] < v; i-- {
			w.best[i], w.chosen[i] = w.best[i-1], w.chosen[i-1]
		}
		w.best[i], w.chosen[i] = v, int32(c)
		if len(w.best) == top {
			least = w.best[top-1]
		}
	}
	slices.Sort(w.chosen)
}

// weighClusters turns the gains of row l into weights of clusters with count keys each, and adds them to the sum.
func (w *reader[T]) weighClusters(l int, count []T) {
	tab, f := w.g.tab, w.far
	gain := w.gain.Row(l)
	w.raise(l, tab.Max(gain))
	tab.Exp(gain, w.shift[l])
	tab.MulV(w.one[:], dense.Matrix[T]{Rows: 1, Cols: len(gain), Stride: len(gain), Data: gain}, count)
	w.sum[l] += float64(w.one[0])
	tab.Mul(gain, f.count)
}

// exactKeys chooses the best keys S of the chosen clusters for the rows of a unit and adds everything far. The gain g_c
// of a chosen cluster is computed again, for its remaining keys (tails). The sums are
//
//	Σ_{j∈S} (e^{x·y_j} − e^{g_c(j)}) v_j + Σ_c e^{g_c} n_c v̄_c  over  Σ_{j∈S} e^{x·y_j} + Σ_c e^{g_c} (n_c − n_c^S);
//
// clusters without remaining keys are in neither.
func (w *reader[T]) exactKeys(chosen []int32) {
	g, f, tab := w.g, w.far, w.g.tab
	shared := len(w.unit) > 1
	total := 0
	for _, c := range chosen {
		total += int(f.n[c])
	}
	w.selPos, w.selOf = w.selPos[:0], w.selOf[:0]
	filter := total > g.spec.Keys
	if filter {
		w.report.Scored += int64(len(w.unit) * total)
		w.tile.Data = roomy(w.tile.Data, len(w.unit)*total)
		w.tile = buf.Shaped(w.tile, len(w.unit), total)
		w.au = buf.Shaped(w.au, len(w.unit), g.r+1)
		for i, l := range w.unit {
			copy(w.au.Row(i), w.a.Row(l))
		}
		at := 0
		for _, c32 := range chosen {
			c := int(c32)
			n := int(f.n[c])
			middle := f.middle.Row(c)
			for i, l := range w.unit {
				base := w.raw.At(l, c) - dense.Dot(w.a.Row(l), middle)
				if shared {
					base -= w.logZ[l]
				}
				w.au.Row(i)[g.r] = base
			}
			w.panel = w.m.residuals(g, c, n, &w.tmp)
			tab.MulT(w.tile.ColRange(at, at+n), w.au, &w.panel, nil)
			at += n
		}
		w.sel = w.sorted.top(w.sel, w.merit(), g.spec.Keys, tab)
		at, i := 0, 0
		for _, c := range chosen {
			pos := w.m.pos[c]
			n := int(f.n[c])
			for ; i < len(w.sel) && int(w.sel[i]) < at+n; i++ {
				w.selPos, w.selOf = append(w.selPos, pos[int(w.sel[i])-at]), append(w.selOf, c)
			}
			at += n
		}
	} else {
		for _, c := range chosen {
			for _, p := range w.m.pos[c][:f.n[c]] {
				w.selPos, w.selOf = append(w.selPos, p), append(w.selOf, c)
			}
		}
	}
	copy(w.count, f.count)
	for _, c := range w.selOf {
		w.count[c]--
	}
	n := len(w.selPos)
	w.report.Exact += int64(n * len(w.unit))
	w.gather(w.selPos)
	w.score = buf.Sized(w.score, n)
	for i, l := range w.unit {
		gain := w.gain.Row(l)
		if filter {
			w.tails(i, l, chosen)
		}
		for _, c := range chosen {
			if w.count[c] == 0 {
				gain[c] = T(math.Inf(-1))
			}
		}
		tab.MulV(w.score, w.keys, w.x.Row(l))
		w.raise(l, tab.Max(w.score))
		w.raise(l, tab.Max(gain))
		w.sum[l] += float64(tab.ExpSum(w.score, w.shift[l]))
		tab.Exp(gain, w.shift[l])
		if w.weighed != nil {
			w.weighed.keys(w, i, l, chosen, filter)
		}
		for j, c := range w.selOf {
			w.score[j] -= gain[c]
		}
		tab.MulV(w.one[:], dense.Matrix[T]{Rows: 1, Cols: g.k, Stride: g.k, Data: gain}, w.count)
		w.sum[l] += float64(w.one[0])
		tab.Mul(gain, f.count)
		weight := dense.Matrix[T]{Rows: 1, Cols: n, Stride: n, Data: w.score}
		tab.Product(w.acc.RowRange(l, l+1), weight, w.values, true)
	}
}

// merit returns the scores by which the keys of a unit are chosen: their residual scores, maximised over the rows.
func (w *reader[T]) merit() []T {
	if w.tile.Rows == 1 {
		return w.tile.Row(0)
	}
	w.cand = append(w.cand[:0], w.tile.Row(0)...)
	for i := 1; i < w.tile.Rows; i++ {
		for j, v := range w.tile.Row(i)[:len(w.cand)] {
			w.cand[j] = max(w.cand[j], v)
		}
	}
	return w.cand
}

// tails sets the gain of every chosen cluster to the logarithm of the mean of e^{ŝ_j} over its keys that are not exact,
// for row l, which is row i of the unit. Once the best keys are exact, the mean of the whole cluster says little about
// the rest.
func (w *reader[T]) tails(i, l int, chosen []int32) {
	tab, score := w.g.tab, w.tile.Row(i)
	for _, j := range w.sel {
		score[j] = T(math.Inf(-1))
	}
	for _, c := range chosen {
		n := int(w.far.n[c])
		left := score[:n]
		score = score[n:]
		if w.count[c] == 0 {
			continue
		}
		m := tab.Max(left)
		z := float64(m) + math.Log(float64(tab.ExpSum(left, m))/float64(w.count[c]))
		if len(w.unit) > 1 {
			z += float64(w.logZ[l])
		}
		if dense.IsFinite(z) {
			w.gain.Row(l)[c] = T(z)
		}
	}
}

// gather copies the keys and the values at the given positions into matrices.
func (w *reader[T]) gather(pos []int32) {
	g := w.g
	w.keys, w.values = buf.Shaped(w.keys, len(pos), g.d), buf.Shaped(w.values, len(pos), g.dv)
	for i, p := range pos {
		copy(w.keys.Data[i*g.d:(i+1)*g.d], w.k.row(int(p)))
		copy(w.values.Data[i*g.dv:(i+1)*g.dv], w.v.row(int(p)))
	}
}

// exactClusters adds all keys of the chosen clusters, cluster by cluster in tiles of the rows that chose it, and takes
// these clusters out of the gains.
func (w *reader[T]) exactClusters() {
	g, f, tab := w.g, w.far, w.g.tab
	shared := len(w.all) < w.x.Rows
	for c := range g.k {
		w.askers = w.askers[:0]
		for l := range w.x.Rows {
			u := l
			if shared {
				u = l % w.n
			}
			if slices.Contains(w.all[u], int32(c)) {
				w.askers = append(w.askers, l)
			}
		}
		if len(w.askers) == 0 {
			continue
		}
		w.au = buf.Shaped(w.au, len(w.askers), g.d)
		for i, l := range w.askers {
			copy(w.au.Row(i), w.x.Row(l))
			w.gain.Row(l)[c] = T(math.Inf(-1))
		}
		pos := w.m.pos[c][:f.n[c]]
		w.report.Exact += int64(len(pos) * len(w.askers))
		for j := 0; j < len(pos); j += exactKeys {
			n := min(exactKeys, len(pos)-j)
			w.gather(pos[j : j+n])
			tab.Pack(&w.panel, w.keys)
			w.tile = buf.Shaped(w.tile, len(w.askers), n)
			tab.MulT(w.tile, w.au, &w.panel, nil)
			for i, l := range w.askers {
				row := w.tile.Row(i)
				w.raise(l, tab.Max(row))
				w.sum[l] += float64(tab.ExpSum(row, w.shift[l]))
				tab.Product(w.acc.RowRange(l, l+1), w.tile.RowRange(i, i+1), w.values, true)
			}
		}
	}
}
