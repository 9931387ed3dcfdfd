package tabular

import (
	"cmp"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/machine"
)

type matrix = dense.Matrix[float64]

// frame holds the rows on which candidates are tried, with the fold of each.
type frame struct {
	*job
	s *sample
	// fold[r][i] is the fold of row i in deal r. Small tables are dealt several times.
	fold  [][]int
	folds int
	roots []float64 // of the weights of rows; nil: none
	cross *crossed  // codes that are learned from targets; nil: none
	// probe is the number of folds that are predicted if columns are learned; 0: all.
	probe int
}

// Rows of a frame are dealt to folds about repeatedDeals/n times, at most mostDeals: the folds of few rows move a score
// by more than most choices do.
const (
	repeatedDeals = 1200
	mostDeals     = 8
)

// newFrame makes a frame of a sample.
func newFrame(j *job, s *sample) *frame {
	f := &frame{job: j, s: s, folds: s.folds(), cross: j.crossed}
	first := make([]int, s.len())
	for k := range f.folds {
		lo, hi := s.fold(k)
		for i := lo; i < hi; i++ {
			first[i] = k
		}
	}
	f.fold = [][]int{first}
	if n := s.len(); n > 0 && j.plain() && f.cross == nil {
		for r := 1; r < min(mostDeals, repeatedDeals/n); r++ {
			again := make([]int, n)
			for at, i := range hashed(seq(n), j.o.Seed+uint64(r)) {
				again[i] = at % f.folds
			}
			f.fold = append(f.fold, again)
		}
	}
	if s.weighted {
		f.roots = make([]float64, s.len())
		for i := range f.roots {
			f.roots[i] = math.Sqrt(s.weight(i))
		}
	}
	return f
}

// plain reports whether rows have neither groups nor times.
func (j *job) plain() bool { return !j.deal.grouped() && !j.deal.ordered() }

func (j *job) classes() bool { return j.task == machine.Classification }

// part returns a frame of some rows of the frame.
func (f *frame) part(rows []int) *frame {
	slices.Sort(rows)
	s := &sample{ordered: f.s.ordered, weighted: f.s.weighted}
	s.x, s.y, s.t = f.s.picked(rows)
	for _, i := range rows {
		s.rows = append(s.rows, f.s.rows[i])
	}
	for _, p := range f.s.places {
		p.levels = pickValues(p.levels, rows, len(rows))
		s.places = append(s.places, p)
	}
	out := &frame{job: f.job, s: s, folds: f.folds, cross: f.cross}
	for _, fold := range f.fold[:1] {
		of := make([]int, len(rows))
		for at, i := range rows {
			of[at] = fold[i]
			for len(s.first) <= fold[i] {
				s.first = append(s.first, at)
			}
		}
		out.fold = append(out.fold, of)
	}
	for len(s.first) <= f.folds {
		s.first = append(s.first, len(rows))
	}
	if f.roots != nil {
		for _, i := range rows {
			out.roots = append(out.roots, f.roots[i])
		}
	}
	return out
}

// rows returns the rows of fold k of a deal, and the rows that a model which predicts them learns from.
func (f *frame) rows(deal, k int) (held, from []int) {
	for i, at := range f.fold[deal] {
		switch {
		case at == k:
			held = append(held, i)
		case f.s.ordered && (at > k || f.early(i, k)):
		default:
			from = append(from, i)
		}
	}
	return held, from
}

// early reports whether row i lies too close before period k.
func (f *frame) early(i, k int) bool {
	return f.deal.horizon > 0 && f.deal.near(f.s.rows[i], k, f.folds)
}

// few returns at most n rows in an order hashed from the seed. Of rows with class weights, each class has the share of
// its weight, as far as it has rows: choosing by 12 rows of a rare class would be luck.
func (f *frame) few(n int) []int {
	order := f.hashed(seq(f.s.len()))
	if f.o.ClassWeights != nil {
		count := make([]int, f.outputs)
		key := make([]float64, f.s.len())
		for _, i := range order {
			c := int(f.s.y.At(i, 0))
			count[c]++
			key[i] = float64(count[c]) / f.o.ClassWeights[c]
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key[a], key[b]) })
	}
	return order[:min(n, len(order))]
}

// hashed returns rows of the frame in an order hashed from the seed and their numbers in the table, so that the first
// rows of a part of the frame are among the first of the frame.
func (f *frame) hashed(rows []int) []int {
	key := func(i int) uint64 { return rng.Mix64(f.o.Seed ^ exactLabel ^ rng.Mix64(uint64(f.s.rows[i]))) }
	return slices.SortedFunc(slices.Values(rows), func(a, b int) int { return cmp.Compare(key(a), key(b)) })
}

// seq returns the numbers below n.
func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// hashed returns rows in an order hashed from the seed.
func hashed(rows []int, seed uint64) []int {
	return slices.SortedFunc(slices.Values(rows), func(a, b int) int {
		return cmp.Compare(rng.Mix64(seed^exactLabel^rng.Mix64(uint64(a))),
			rng.Mix64(seed^exactLabel^rng.Mix64(uint64(b))))
	})
}

// picked copies some rows of the sample.
func (s *sample) picked(rows []int) (x, y, t matrix) {
	return pick(s.x, rows), pick(s.y, rows), pick(s.t, rows)
}

// pickValues returns the values at the first places of an order.
func pickValues[T int | float64](v []T, order []int, most int) []T {
	out := make([]T, 0, min(most, len(v)))
	for _, i := range order[:min(most, len(order))] {
		out = append(out, v[i])
	}
	return out
}

// pick copies some rows.
func pick[T dense.Float](m dense.Matrix[T], rows []int) dense.Matrix[T] {
	out := dense.New[T](len(rows), m.Cols)
	for to, from := range rows {
		copy(out.Row(to), m.Row(from))
	}
	return out
}

// judge sets the losses of a trial from its predictions.
func (f *frame) judge(t *trial) error {
	n := f.s.len()
	t.loss, t.shown, t.rows = make([]float64, n), make([]float64, n), n
	for _, out := range t.out {
		loss, shown, err := f.losses(out, t.Loss == lossMargins)
		if err != nil {
			return err
		}
		for i := range n {
			w := f.s.weight(i) / float64(len(t.out))
			t.loss[i] += loss[i] * w
			t.shown[i] += shown[i] * w
		}
	}
	t.mean = mean(t.loss)
	return nil
}

// losses returns the losses of predictions of all rows. NaN are rows that were not predicted.
func (f *frame) losses(out matrix, margins bool) (loss, shown []float64, err error) {
	n := f.s.len()
	loss, shown = make([]float64, n), make([]float64, n)
	if f.shifts() {
		return f.logLosses(out)
	}
	for i := range n {
		p := out.Row(i)
		if math.IsNaN(p[0]) {
			loss[i], shown[i] = math.NaN(), math.NaN()
			continue
		}
		loss[i], shown[i] = lossOf(f.task, margins, p, f.s.t.Row(i), f.s.y.Row(i))
	}
	return loss, shown, nil
}

// logLosses judges predictions of weighted classes by log loss, after calibrating them on these rows as the model will
// be. Errors by the largest raw score are no guide: a model that nearly interpolates gives a rare class scores far
// below ½, however well it separates it.
func (f *frame) logLosses(out matrix) (loss, shown []float64, err error) {
	var rows, classes []int
	var weights []float64
	for i := range out.Rows {
		if !math.IsNaN(out.At(i, 0)) {
			rows, classes = append(rows, i), append(classes, int(f.s.y.At(i, 0)))
			weights = append(weights, f.s.weight(i))
		}
	}
	m := &machine.Model{}
	if m.Calibration, err = machine.FitCalibration(pick(out, rows), classes, weights, true); err != nil {
		return nil, nil, err
	}
	loss = make([]float64, out.Rows)
	for i := range loss {
		loss[i] = math.NaN()
	}
	p := make([]float64, out.Cols)
	for at, i := range rows {
		copy(p, out.Row(i))
		m.Calibrate(p)
		loss[i] = -math.Log(max(p[classes[at]], 1e-300))
	}
	return loss, loss, nil
}

// lossOf returns the loss of a prediction that decides, and the one that is shown.
func lossOf(task machine.Task, margins bool, p, t, y []float64) (loss, shown float64) {
	for c, v := range p {
		if margins { // beyond the target is no error
			v = max(v, t[c])
			if t[c] > 0 {
				v = min(p[c], t[c])
			}
		}
		loss += float64((v - t[c]) * (v - t[c]))
	}
	if task != machine.Classification {
		return loss, loss
	}
	if machine.Class(p) != int(y[0]) {
		shown = 1
	}
	return shown + loss/2, shown
}
