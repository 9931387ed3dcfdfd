package centroid

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// kmeans is weighted k-means in Euclidean coordinates, with memory that later calls reuse. Results do not depend on the
// number of goroutines: points are scored independently, and a centre is summed by one goroutine in the order of
// points.
type kmeans struct {
	tab     *kern.Table[float32]
	centres dense.Matrix[float32] // the result
	assign  []int32               // cluster of every point by the centres before the last pass
	picked  []int32               // the points that were the initial centres

	norm, near, draw []float32
	taken            []bool
	panel            kern.Panel[float32]
	bias, mass       []float32
	twice            dense.Matrix[float32]

	workers int // goroutines that may share the points; 0 means one
	spare   par.Pool[scoreMemory]
}

// scoreMemory is the scratch memory with which one goroutine compares points with centres.
type scoreMemory struct {
	score dense.Matrix[float32]
	best  []float32
}

// awake reduces the amount of work that justifies a goroutine in a fit. The steps of a fit follow each other so closely
// that the goroutines have not gone to sleep.
const awake = 4

// share returns the least number of n items for one goroutine, if grain items justify a goroutine and there are workers
// of them. n means that one goroutine handles all items.
func share(workers, n, grain int) int {
	if workers <= 1 || n < 2*grain {
		return n
	}
	return max(grain, (n+workers-1)/workers)
}

// The first round of seeding takes k/firstShare points by weight alone, every other round 3/10 of k. A round takes
// fewer points if one point has more than its share. After mostRounds rounds, all points that are not yet centres
// are equally likely.
const (
	firstShare = 8
	mostRounds = 6
)

// run clusters the rows of z with weights w into at most k clusters. The result has fewer if fewer points have a
// positive weight and distance.
func (m *kmeans) run(z dense.Matrix[float32], w []float32, k, passes int, seed uint64) {
	m.seed(z, w, min(k, z.Rows), seed)
	m.assign = buf.Sized(m.assign, z.Rows)
	for range passes {
		m.pass(z, w)
	}
}

// seed chooses points as initial centres in a few rounds, each by systematic sampling in proportion to w·D², where D is
// the distance to the nearest centre of earlier rounds. This is k-means‖ (Bahmani et al. 2012, arXiv:1203.6402) with a
// fixed number of points per round and without reclustering.
func (m *kmeans) seed(z dense.Matrix[float32], w []float32, k int, seed uint64) {
	n := z.Rows
	m.norm, m.near, m.draw = buf.Sized(m.norm, n), buf.Sized(m.near, n), buf.Sized(m.draw, n)
	m.taken = buf.Zeroed(m.taken, n)
	for j := range n {
		m.norm[j] = float32(m.tab.Norm2(z.Row(j)))
		m.near[j] = float32(math.Inf(1))
	}
	copy(m.draw, w[:n])
	m.picked = m.picked[:0]
	batch := max(1, k/firstShare)
	for round := 0; ; round++ {
		from := len(m.picked)
		if round >= mostRounds {
			m.level()
		}
		m.take(min(batch, k-from), uniform(seed, drawSeeds+uint64(round)))
		if len(m.picked) == k || len(m.picked) == from {
			break
		}
		m.update(z, w, m.picked[from:])
		batch = max(1, (3*k+9)/10)
	}
	m.centres = buf.Shaped(m.centres, len(m.picked), z.Cols)
	for i, j := range m.picked {
		copy(m.centres.Row(i), z.Row(int(j)))
	}
}

// take draws b points in proportion to draw by systematic sampling: one offset in (0, 1), then equal steps. A point
// that covers several steps is taken once. If all of draw is zero, nothing is taken.
func (m *kmeans) take(b int, offset float64) {
	var total float64
	for _, v := range m.draw {
		total += float64(v)
	}
	if !(total > 0) || !dense.IsFinite(total) {
		return
	}
	step := total / float64(b)
	next := step * offset
	var sum float64
	for j, v := range m.draw {
		if v == 0 {
			continue
		}
		if sum += float64(v); next < sum && !m.taken[j] {
			m.taken[j] = true
			m.picked = append(m.picked, int32(j))
			next += step * math.Ceil((sum-next)/step)
		}
	}
}

// level makes all points that may still be drawn equally likely.
func (m *kmeans) level() {
	for j, v := range m.draw {
		if v > 0 {
			m.draw[j] = 1
		}
	}
}

// scoreRows is the number of points that are compared with the centres at a time.
const scoreRows = 64

// load packs centres for the scores 2z·c − |c|², which are the largest for the nearest centre.
func (m *kmeans) load(centres dense.Matrix[float32]) {
	m.twice = buf.Shaped(m.twice, centres.Rows, centres.Cols)
	m.bias = buf.Sized(m.bias, centres.Rows)
	for i := range centres.Rows {
		row := m.twice.Row(i)
		copy(row, centres.Row(i))
		m.bias[i] = -float32(m.tab.Norm2(row))
		m.tab.Scale(row, 2)
	}
	m.tab.Pack(&m.panel, m.twice)
}

// eachScores compares all points with the loaded centres. It sets dst to the nearest ones, or, if dst is nil, updates
// the distances and the weights of the next draw.
func (m *kmeans) eachScores(z dense.Matrix[float32], w []float32, dst []int32) {
	blocks := (z.Rows + scoreRows - 1) / scoreRows
	each := share(m.workers, blocks, 1+m.tab.Grain/(awake+awake*scoreRows*z.Cols*m.panel.Rows))
	if each == blocks {
		m.scores(z, w, dst, 0, blocks)
		return
	}
	par.For(blocks, each, func(from, to int) { m.scores(z, w, dst, from, to) })
}

// scores is eachScores for blocks from to to−1 of scoreRows points.
func (m *kmeans) scores(z dense.Matrix[float32], w []float32, dst []int32, from, to int) {
	s := m.spare.Get()
	defer m.spare.Put(s)
	for ; from < to; from++ {
		lo, hi := from*scoreRows, min((from+1)*scoreRows, z.Rows)
		s.score = buf.Shaped(s.score, hi-lo, m.panel.Rows)
		m.tab.MulT(s.score, z.RowRange(lo, hi), &m.panel, m.bias)
		if dst != nil {
			s.best = argMaxRows(m.tab, dst[lo:hi], s.score, s.best)
			continue
		}
		s.best = buf.Sized(s.best, hi-lo)
		m.tab.RowMax(s.best, s.score)
		for j := lo; j < hi; j++ {
			m.near[j] = min(m.near[j], max(0, m.norm[j]-s.best[j-lo]))
			m.draw[j] = w[j] * m.near[j]
			if m.taken[j] || !(m.draw[j] > 0) {
				m.draw[j] = 0
			}
		}
	}
}

// update accounts for new centres in the distances.
func (m *kmeans) update(z dense.Matrix[float32], w []float32, added []int32) {
	m.centres = buf.Shaped(m.centres, len(added), z.Cols)
	for i, j := range added {
		copy(m.centres.Row(i), z.Row(int(j)))
	}
	m.load(m.centres)
	m.eachScores(z, w, nil)
}

// sumGrain is the number of elements of points whose summation justifies a goroutine.
const sumGrain = 1 << 16

// pass is one iteration of Lloyd's algorithm: every point goes to its nearest centre, every centre to the mean of its
// points. A centre without points stays.
func (m *kmeans) pass(z dense.Matrix[float32], w []float32) {
	m.load(m.centres)
	m.eachScores(z, w, m.assign)
	k := m.centres.Rows
	m.mass = buf.Zeroed(m.mass, k)
	each := share(m.workers, k, 1+k*sumGrain/(1+z.Rows*z.Cols))
	if each == k {
		m.means(z, w, 0, k)
		return
	}
	par.For(k, each, func(first, end int) { m.means(z, w, first, end) })
}

// means moves the centres first to end−1. Each centre adds its points in their order, so the sums do not depend on
// other goroutines.
func (m *kmeans) means(z dense.Matrix[float32], w []float32, first, end int) {
	for j, c := range m.assign {
		if int(c) < first || int(c) >= end || !(w[j] > 0) {
			continue
		}
		if m.mass[c] == 0 {
			clear(m.centres.Row(int(c)))
		}
		m.tab.MulAdd(m.centres.Row(int(c)), z.Row(j), w[j])
		m.mass[c] += w[j]
	}
	for c := first; c < end; c++ {
		if m.mass[c] > 0 {
			m.tab.Scale(m.centres.Row(c), 1/m.mass[c])
		}
	}
}

// Labels of the random numbers of a fit: one for the sample, and one for every round of seeding.
const (
	drawSample = 1
	drawSeeds  = 2 // plus the number of the round
)

// uniform returns the number in (0, 1) that belongs to a seed and a label.
func uniform(seed, label uint64) float64 {
	return rng.OpenFromBits(rng.Mix64(rng.Mix64(seed)+label*rng.Golden64) >> 12)
}
