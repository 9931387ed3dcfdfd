package rfx

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/rng"
)

// FitCentres clusters the keys of every key/value head of some passages, the batch of q and k, with the queries of its
// group. The metric R measures distances, and keys are weighted by the attention that a few landmark queries r_t give
// them,
//
//	w_j = mean_t softmax_j(r_t·y_j) + 0.1/L.
//
// If causal, a query weighs only keys that it would meet in a cluster: no later keys, none in its window, no sinks.
// Scale 0 means 1/√d.
func FitCentres(s Clusters, causal bool, scale float64, q, k attention.Seq[float32]) ([]*Centres, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Clusters == 0 || q.Batch != k.Batch || q.Len != k.Len || q.Dim != k.Dim || k.Heads == 0 ||
		q.Heads%max(1, k.Heads) != 0 {
		return nil, fmt.Errorf("%d clusters of q %v and k %v: %w", s.Clusters, q.Shape, k.Shape, dense.ErrShape)
	}
	for name, x := range map[string]attention.Seq[float32]{"q": q, "k": k} {
		if err := x.CheckFinite(name); err != nil {
			return nil, err
		}
	}
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dim))
	}
	centres, errs := make([]*Centres, k.Heads), make([]error, k.Heads)
	par.For(k.Heads, 1, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			f := fit{Clusters: s, causal: causal, scale: scale, d: q.Dim}
			f.read(q, k, h)
			centres[h], errs[h] = f.run()
		}
	})
	for h, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("head %d: %w", h, err)
		}
	}
	return centres, nil
}

// fit clusters the keys of one head.
type fit struct {
	Clusters
	causal bool
	scale  float64
	d      int
	keys   [][]float64 // those that count, passage by passage
	weight []float64   // of keys; they sum to 1.1
	x      [][]float64 // some scaled queries, for the metric
	metric *mat.SymDense

	z       [][]float64 // sampled keys, in coordinates in which the metric is Euclidean
	sample  []int       // of the keys
	mass    []float64   // of the sample
	centres [][]float64 // in these coordinates
	nearest []int       // centre of a sampled key
}

// defaults of a fit. One on other text is made once, and can afford more.
func (f *fit) defaults() (landmarks, passes, sample int) {
	landmarks, passes, sample = 32, 2, max(1024, 16*f.Clusters.Clusters)
	if f.causal {
		landmarks, passes, sample = 128, 4, 1<<16
	}
	return cmp.Or(f.Landmarks, landmarks), cmp.Or(f.Passes, passes), cmp.Or(f.Sample, sample)
}

const metricQueries = 1024

// read takes the keys of head h, weighs them, and takes the queries of the metric.
func (f *fit) read(q, k attention.Seq[float32], h int) {
	group, n := q.Heads/k.Heads, k.Len
	landmarks, _, _ := f.defaults()
	landmarks = min(landmarks, n)
	row := func(x []float32, scale float64) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v) * scale
		}
		return y
	}
	sinks := min(f.Sinks, n)
	for b := range k.Batch {
		first := len(f.keys)
		for j := sinks; j < n; j++ {
			f.keys = append(f.keys, row(k.Head(b, h).Row(j), 1))
		}
		keys := f.keys[first:]
		w, count := make([]float64, len(keys)), 0.0
		for t := range landmarks * group {
			at := (2*(t%landmarks) + 1) * n / (2 * landmarks)
			x := row(q.Head(b, h*group+t/landmarks).Row(at), f.scale)
			seen := len(keys)
			if f.causal {
				block := cmp.Or(f.Block, 64)
				seen = min(max(at-at%block-f.Window-sinks, 0), seen)
			}
			if addSoftmax(w, x, keys[:seen]) {
				count++
			}
		}
		for _, v := range w {
			f.weight = append(f.weight, (v/max(count, 1)+0.1/float64(len(keys)))/float64(k.Batch))
		}
	}
	total := k.Batch * group * n
	for i := range min(total, metricQueries) {
		at := (2*i + 1) * total / (2 * min(total, metricQueries))
		f.x = append(f.x, row(q.Head(at/(group*n), h*group+at/n%group).Row(at%n), f.scale))
	}
}

// addSoftmax adds the attention of x to the keys. False: there is none, or a logit is beyond float64.
func addSoftmax(w, x []float64, keys [][]float64) bool {
	e, top, sum := make([]float64, len(keys)), math.Inf(-1), 0.0
	for j, y := range keys {
		e[j] = dense.Dot(x, y)
		top = max(top, e[j])
	}
	for j, v := range e {
		e[j] = math.Exp(v - top)
		sum += e[j]
	}
	if !(sum > 0) || !dense.IsFinite(sum) {
		return false
	}
	for j, v := range e {
		w[j] += v / sum
	}
	return true
}

func (f *fit) run() (*Centres, error) {
	f.measure()
	f.draw()
	w := centresWire{Scale: f.scale, Keys: int64(len(f.keys)), Mean: make([]float64, f.d)}
	for _, j := range f.sample {
		for l, y := range f.keys[j] {
			w.Mean[l] += y / float64(len(f.sample))
		}
	}
	f.coordinates(w.Mean)
	f.cluster()
	f.write(&w)
	return w.finish()
}

// measure sets the metric E xxᵀ. If all queries are zero, it is the identity: the geometry of the keys alone.
func (f *fit) measure() {
	f.metric = mat.NewSymDense(f.d, nil)
	for _, x := range f.x {
		f.metric.SymRankOne(f.metric, 1/float64(len(f.x)), mat.NewVecDense(f.d, x))
	}
	if mat.Trace(f.metric) == 0 {
		for i := range f.d {
			f.metric.SetSym(i, i, 1)
		}
	}
}

// draw chooses the keys to train on: all with their weights, or a systematic sample in proportion to the weights.
func (f *fit) draw() {
	_, _, want := f.defaults()
	if len(f.keys) <= want {
		for j, w := range f.weight {
			f.sample, f.mass = append(f.sample, j), append(f.mass, w)
		}
		return
	}
	var total, sum float64
	for _, w := range f.weight {
		total += w
	}
	step := total / float64(want)
	next := step * f.uniform(0)
	for j, w := range f.weight {
		if sum += w; next < sum {
			times := math.Ceil((sum - next) / step)
			f.sample, f.mass = append(f.sample, j), append(f.mass, times/float64(want))
			next += times * step
		}
	}
}

// uniform returns the number in (0, 1) that belongs to the seed and a label.
func (f *fit) uniform(label uint64) float64 { return rng.Open(rng.Stream(f.Seed, 0x63656e74, label)) }

// coordinates maps the sample to z = R(y − mean).
func (f *fit) coordinates(mean []float64) {
	root := power(f.metric, 0.5)
	diff := make([]float64, f.d)
	for _, j := range f.sample {
		for l, y := range f.keys[j] {
			diff[l] = y - mean[l]
		}
		f.z = append(f.z, times(root, diff))
	}
}

// power returns a power of a symmetric matrix without negative eigenvalues. Directions in which it is zero up to
// rounding stay zero.
func power(m *mat.SymDense, p float64) *mat.SymDense {
	var e mat.EigenSym
	if !e.Factorize(m, true) {
		panic("rfx: no eigenvalues of a finite symmetric matrix")
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	values := e.Values(nil)
	out := mat.NewSymDense(m.SymmetricDim(), nil)
	for l, v := range values {
		if v > 1e-7*values[len(values)-1] {
			out.SymRankOne(out, math.Pow(v, p), vectors.ColView(l))
		}
	}
	return out
}

func times(m *mat.SymDense, x []float64) []float64 {
	y := mat.NewVecDense(len(x), nil)
	y.MulVec(m, mat.NewVecDense(len(x), x))
	return y.RawVector().Data
}

// cluster runs weighted k-means. Initial centres are drawn in a few rounds, each in proportion to mass times the
// squared distance to the nearest centre (k-means‖, Bahmani et al. 2012, arXiv:1203.6402, without reclustering).
func (f *fit) cluster() {
	const rounds = 6
	near, k := make([]float64, len(f.z)), min(f.Clusters.Clusters, len(f.z))
	for i := range near {
		near[i] = math.Inf(1)
	}
	for round := uint64(1); len(f.centres) < k; round++ {
		batch := max(1, k/8)
		if round > 1 {
			batch = max(1, (3*k+9)/10)
		}
		batch = min(batch, k-len(f.centres))
		first := len(f.centres)
		var total, sum float64
		for i, m := range f.mass {
			total += f.share(m, near[i], round > rounds)
		}
		step := total / float64(batch)
		next := step * f.uniform(round)
		for i, m := range f.mass {
			part := f.share(m, near[i], round > rounds)
			if sum += part; part > 0 && next < sum {
				f.centres = append(f.centres, append([]float64(nil), f.z[i]...))
				next += step * math.Ceil((sum-next)/step)
			}
		}
		if len(f.centres) == first {
			break // all points are centres
		}
		for i, z := range f.z {
			for _, c := range f.centres[first:] {
				near[i] = min(near[i], square(z, c))
			}
		}
	}
	_, passes, _ := f.defaults()
	f.nearest = make([]int, len(f.z))
	for range passes {
		f.assign()
		f.move()
	}
	f.assign()
	f.dropEmpty()
}

// dropEmpty renumbers the clusters that have points.
func (f *fit) dropEmpty() {
	number, n := make([]int, len(f.centres)), 0
	for _, c := range f.nearest {
		number[c] = 1
	}
	for c, used := range number {
		number[c] = n
		n += used
	}
	for i, c := range f.nearest {
		f.nearest[i] = number[c]
	}
	f.centres = f.centres[:n]
}

// share is the weight of a point in a draw: its mass in the first, then mass·D². After many rounds all points that are
// no centres are equally likely.
func (f *fit) share(mass, near float64, level bool) float64 {
	switch {
	case math.IsInf(near, 1):
		return mass
	case level && mass*near > 0:
		return 1
	}
	return mass * near
}

// assign finds the nearest centre of every sampled key.
func (f *fit) assign() {
	for i, z := range f.z {
		least := math.Inf(1)
		for c, x := range f.centres {
			if s := square(z, x); s < least {
				least, f.nearest[i] = s, c
			}
		}
	}
}

// move sets every centre to the mean of its points. A centre without points stays.
func (f *fit) move() {
	mass := make([]float64, len(f.centres))
	for i, c := range f.nearest {
		mass[c] += f.mass[i]
	}
	for c := range f.centres {
		if mass[c] > 0 {
			clear(f.centres[c])
		}
	}
	for i, c := range f.nearest {
		for l, v := range f.z[i] {
			if mass[c] > 0 {
				f.centres[c][l] += v * f.mass[i] / mass[c]
			}
		}
	}
}

func square(x, y []float64) (s float64) {
	for i, v := range x {
		s += (v - y[i]) * (v - y[i])
	}
	return s
}

// write sets the centres, in the space of the keys, and the residual directions: the eigenvectors of R·Cov·R, where Cov
// is the covariance of the keys within clusters.
func (f *fit) write(w *centresWire) {
	k := max(1, len(f.centres)) // without keys, one cluster for keys to come
	w.Centres, w.Metric = dense.New[float64](k, f.d), dense.New[float64](f.d, f.d)
	means, count, mass := dense.New[float64](k, f.d), make([]float64, k), make([]float64, k)
	for i, j := range f.sample {
		c := f.nearest[i]
		mass[c] += f.mass[i]
		count[c]++
		for l, y := range f.keys[j] {
			w.Centres.Row(c)[l] += f.mass[i] * y
			means.Row(c)[l] += y
		}
	}
	for c := range k {
		for l := range f.d {
			if count[c] > 0 {
				w.Centres.Row(c)[l] /= mass[c]
				means.Row(c)[l] /= count[c]
			}
		}
	}
	root, inverse := power(f.metric, 0.5), power(f.metric, -0.5)
	cov, residual := mat.NewSymDense(f.d, nil), make([]float64, f.d)
	for i, j := range f.sample {
		for l, m := range means.Row(f.nearest[i]) {
			residual[l] = f.keys[j][l] - m
		}
		z := times(root, residual)
		cov.SymRankOne(cov, 1/float64(len(f.sample)), mat.NewVecDense(f.d, z))
	}
	var e mat.EigenSym
	if !e.Factorize(cov, true) {
		panic("rfx: no eigenvalues of a finite symmetric matrix")
	}
	var vectors mat.Dense
	e.VectorsTo(&vectors)
	r := min(f.d, max(16, f.Residual))
	w.PX, w.PY, w.Deviation = dense.New[float64](f.d, r), dense.New[float64](f.d, r), make([]float64, r)
	for i := range f.d {
		for j := range f.d {
			w.Metric.Set(i, j, root.At(i, j))
		}
	}
	for c := range r {
		from := f.d - 1 - c // eigenvalues ascend
		w.Deviation[c] = math.Sqrt(max(0, e.Values(nil)[from]))
		u := make([]float64, f.d)
		for i := range u {
			u[i] = vectors.At(i, from)
		}
		x, y := times(inverse, u), times(root, u)
		for i := range f.d {
			w.PX.Set(i, c, x[i])
			w.PY.Set(i, c, y[i])
		}
	}
}
