package centroid

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/seal"
)

// Centres is the fitted geometry of one key/value head. [Fit] makes it; it never changes afterwards, so that any number
// of goroutines may share it. It decides the cluster of a key, and it holds the residual directions, in which the keys
// of a cluster differ most for the queries. Distances of keys are measured by the differences of their logits. With
// scaled queries x and the metric R = (E xxᵀ)^½,
//
//	|R(y−c)|² = E (x·(y−c))²
type Centres struct {
	w        centresWire
	assign   dense.Matrix[float64] // see Assignment
	bias     []float64
	unit     float64
	checksum [32]byte
}

// centresWire holds the saved numbers. The unexported fields of Centres are derived from them.
type centresWire struct {
	Scale   float64               `json:"scale"`
	Keys    int64                 `json:"keys"`
	Mean    []float64             `json:"mean"`
	Metric  dense.Matrix[float64] `json:"metric"`
	Centres dense.Matrix[float64] `json:"centres"`
	// ValueMean and ValueScale are present if values take part in the clustering; Centres then have d + d_v columns.
	ValueMean  []float64             `json:"valueMean,omitempty"`
	ValueScale float64               `json:"valueScale,omitempty"`
	PX         dense.Matrix[float64] `json:"px"`
	PY         dense.Matrix[float64] `json:"py"`
	Deviation  []float64             `json:"deviation"`
}

// Dim returns the dimension of the keys.
func (c *Centres) Dim() int { return len(c.w.Mean) }

// ValueDim returns the dimension of the values if they take part in the clustering, and 0 otherwise.
func (c *Centres) ValueDim() int { return len(c.w.ValueMean) }

// Clusters returns the number of centres. It is smaller than Spec.Clusters if the fit saw fewer distinct keys.
func (c *Centres) Clusters() int { return c.w.Centres.Rows }

// Keys returns the number of keys that the fit saw.
func (c *Centres) Keys() int64 { return c.w.Keys }

// Scale returns the scale of the logits, as in Attention.Scale.
func (c *Centres) Scale() float64 { return c.w.Scale }

// Mean returns the mean key. The caller must not change it. The same holds for the results of the other methods.
func (c *Centres) Mean() []float64 { return c.w.Mean }

// Metric returns the symmetric matrix R.
func (c *Centres) Metric() dense.Matrix[float64] { return c.w.Metric }

// Centre returns the centre of cluster i in the space of the keys.
func (c *Centres) Centre(i int) []float64 { return c.w.Centres.Row(i)[:c.Dim()] }

// Projections returns PX = R⁻¹U and PY = RU, one column per residual direction, so that x·(y−c) ≈ (PXᵀx)·(PYᵀ(y−c)). U
// holds the eigenvectors of the within-cluster covariance of the keys in the metric, in descending order of
// eigenvalues.
func (c *Centres) Projections() (px, py dense.Matrix[float64]) { return c.w.PX, c.w.PY }

// Deviation returns the within-cluster standard deviation of each column of PYᵀy.
func (c *Centres) Deviation() []float64 { return c.w.Deviation }

// Assignment returns the matrix A, with one row per centre, the offsets b and a unit. A key y belongs to the cluster
// with the largest A·(y−Mean)·unit + b; the first one wins ties. Up to a common factor that keeps numbers near 1, A =
// 2R²(c−Mean) and b = −|R(c−Mean)|². If values take part, each row continues with the coefficients of v.
func (c *Centres) Assignment() (a dense.Matrix[float64], b []float64, unit float64) {
	return c.assign, c.bias, c.unit
}

// Fingerprint identifies the centres. A saved state stores it and refuses other centres.
func (c *Centres) Fingerprint() [32]byte { return c.checksum }

// finish checks fitted or saved numbers and derives the assignment and the fingerprint.
func (w centresWire) finish() (*Centres, error) {
	d, dv := len(w.Mean), len(w.ValueMean)
	k := w.Centres.Rows
	for _, m := range [...]struct {
		name       string
		m          dense.Matrix[float64]
		rows, cols int
	}{{"metric", w.Metric, d, d}, {"centres", w.Centres, k, d + dv}, {"px", w.PX, d, len(w.Deviation)},
		{"py", w.PY, d, len(w.Deviation)}} {
		if m.m.Rows != m.rows || m.m.Cols != m.cols && m.rows > 0 {
			return nil, fmt.Errorf("%s is %d×%d, want %d×%d: %w", m.name, m.m.Rows, m.m.Cols, m.rows, m.cols,
				dense.ErrShape)
		}
		if err := m.m.CheckFinite(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for _, list := range [][]float64{w.Mean, w.ValueMean, w.Deviation, {w.Scale, w.ValueScale}} {
		for _, v := range list {
			if !dense.IsFinite(v) {
				return nil, fmt.Errorf("centres: %w", dense.ErrNotFinite)
			}
		}
	}
	if k < 1 || len(w.Deviation) > d || w.Keys < 0 {
		return nil, fmt.Errorf("%d centres, %d directions of %d, %d keys: %w", k, len(w.Deviation), d, w.Keys,
			dense.ErrShape)
	}
	c := &Centres{w: w}
	c.derive()
	b, err := c.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	c.checksum = sha256.Sum256(b)
	return c, nil
}

// derive computes the assignment. It divides lengths by the largest ones first, because squares of extreme keys or
// queries would overflow.
func (c *Centres) derive() {
	w := &c.w
	d, dv, k := len(w.Mean), len(w.ValueMean), w.Centres.Rows
	diff := dense.New[float64](k, d+dv)
	var top float64
	for i := range k {
		for j, v := range w.Centres.Row(i) {
			if j < d {
				v -= w.Mean[j]
			} else {
				v -= w.ValueMean[j-d]
			}
			diff.Set(i, j, v)
			if j < d {
				top = max(top, math.Abs(v))
			}
		}
	}
	c.unit = 1
	if top > 0 {
		c.unit = 1 / top
	}
	metric := largest(w.Metric)
	if metric == 0 {
		metric = 1
	}
	c.assign, c.bias = dense.New[float64](k, d+dv), make([]float64, k)
	z := make([]float64, d)
	for i := range k {
		row, a := diff.Row(i), c.assign.Row(i)
		for j := range z {
			z[j] = 0
			for l, r := range w.Metric.Row(j) {
				z[j] += r / metric * (row[l] * c.unit)
			}
		}
		for j := range z {
			for l, r := range w.Metric.Row(j) {
				a[l] += 2 * r / metric * z[j]
			}
			c.bias[i] -= z[j] * z[j]
		}
		// A deviation of values by 1 counts like a logit difference of ValueScale. Logits are in units of metric/unit
		// here.
		f := w.ValueScale * c.unit / metric
		for l, v := range row[d:] {
			a[d+l] = 2 * f * f * v / c.unit
			c.bias[i] -= f * f * v * v
		}
	}
}

func largest(m dense.Matrix[float64]) float64 {
	var top float64
	for i := range m.Rows {
		for _, v := range m.Row(i) {
			top = max(top, math.Abs(v))
		}
	}
	return top
}

// MarshalJSON writes the centres as an object of numbers.
func (c *Centres) MarshalJSON() ([]byte, error) { return json.Marshal(c.w) }

// UnmarshalJSON reads the form that MarshalJSON writes. Unknown and repeated fields are errors.
func (c *Centres) UnmarshalJSON(b []byte) error {
	var w centresWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("centres: %w", err)
	}
	if w.Metric.Rows == 0 { // JSON does not keep the columns of a matrix without rows
		w.Metric, w.PX, w.PY = dense.New[float64](0, 0), dense.New[float64](0, 0), dense.New[float64](0, 0)
	}
	n, err := w.finish()
	if err != nil {
		return fmt.Errorf("centres: %w", err)
	}
	*c = *n
	return nil
}

// centresFormat: the counts are keys, dim, value dim, centres, directions. The body is scale, value scale, mean, value
// mean, deviation, metric, centres, PX, PY in float64.
var centresFormat = seal.Format{Magic: "randfeat centres\n\x00", Version: 1, Counts: 5}

// MarshalBinary returns the binary form of AppendBinary.
func (c *Centres) MarshalBinary() ([]byte, error) { return c.AppendBinary(nil) }

// AppendBinary appends the centres to b, with a checksum.
func (c *Centres) AppendBinary(b []byte) ([]byte, error) {
	start, w := len(b), &c.w
	b = centresFormat.Begin(b, seal.Header{Flag: 8, Counts: []uint64{uint64(w.Keys), uint64(len(w.Mean)),
		uint64(len(w.ValueMean)), uint64(w.Centres.Rows), uint64(len(w.Deviation))}})
	for _, list := range w.body() {
		b = seal.Append(b, list...)
	}
	return seal.Close(b, start), nil
}

// body lists the numbers in the order of the binary form.
func (w *centresWire) body() [][]float64 {
	return [][]float64{{w.Scale, w.ValueScale}, w.Mean, w.ValueMean, w.Deviation, w.Metric.Data, w.Centres.Data,
		w.PX.Data, w.PY.Data}
}

// UnmarshalBinary reads the form that AppendBinary writes.
func (c *Centres) UnmarshalBinary(b []byte) error {
	h, body, err := centresFormat.Open(b)
	if err != nil {
		return fmt.Errorf("centres: %w", err)
	}
	room := uint64(len(body) / 8)
	for _, n := range h.Counts[1:] {
		if n > room { // products below must not overflow
			return fmt.Errorf("centres: counts of %d in %d numbers: %w", h.Counts[1:], room, seal.ErrCorrupt)
		}
	}
	d, dv, k, r := h.Counts[1], h.Counts[2], h.Counts[3], h.Counts[4]
	if size := 2 + d + dv + r + d*d + k*(d+dv) + 2*d*r; h.Flag != 8 || h.Fingerprint != [32]byte{} ||
		size*8 != uint64(len(body)) {
		return fmt.Errorf("centres: %d bytes, want %d and an empty fingerprint: %w", len(body), size*8, seal.ErrCorrupt)
	}
	w := centresWire{Keys: int64(h.Counts[0]), Mean: make([]float64, d), Deviation: make([]float64, r),
		Metric: dense.New[float64](int(d), int(d)), Centres: dense.New[float64](int(k), int(d+dv)),
		PX: dense.New[float64](int(d), int(r)), PY: dense.New[float64](int(d), int(r))}
	if dv > 0 {
		w.ValueMean = make([]float64, dv)
	}
	ok := true
	lists := w.body()
	for _, list := range lists {
		body = seal.Read(body, list, &ok)
	}
	w.Scale, w.ValueScale = lists[0][0], lists[0][1]
	if !ok {
		return fmt.Errorf("centres: %w: %w", dense.ErrNotFinite, seal.ErrCorrupt)
	}
	n, err := w.finish()
	if err != nil {
		return fmt.Errorf("centres: %w: %w", err, seal.ErrCorrupt)
	}
	*c = *n
	return nil
}

// Assign sets dst[j] to the cluster of key j. It reads v only if values take part in the clustering.
func Assign[T dense.Float](dst []int32, c *Centres, y, v dense.Matrix[T]) error {
	switch {
	case y.Cols != c.Dim():
		return fmt.Errorf("keys have %d columns, the centres %d: %w", y.Cols, c.Dim(), dense.ErrShape)
	case len(dst) != y.Rows:
		return fmt.Errorf("%d clusters for %d keys: %w", len(dst), y.Rows, dense.ErrShape)
	case c.ValueDim() > 0 && (v.Rows != y.Rows || v.Cols != c.ValueDim()):
		return fmt.Errorf("values are %d×%d, want %d×%d: %w", v.Rows, v.Cols, y.Rows, c.ValueDim(), dense.ErrShape)
	}
	tab, err := kern.Chosen[T]()
	if err != nil {
		return err
	}
	var a assigner[T]
	a.load(tab, c)
	a.assign(dst, y, v, new(assignScratch[T]))
	return nil
}

// assigner is the assignment of [Centres], or of a fit that goes on, on the vector kernels. Its memory is reused.
type assigner[T dense.Float] struct {
	tab   *kern.Table[T]
	mean  []T // of the keys, then of the values if they take part
	unit  T   // factor of differences of keys
	panel kern.Panel[T]
	bias  []T
	rows  dense.Matrix[T]
}

// assignScratch is the memory of a goroutine that assigns.
type assignScratch[T dense.Float] struct {
	z, score dense.Matrix[T]
	best     []T
}

// assignRows keys are assigned at a time.
const assignRows = 64

// load takes the assignment of c.
func (a *assigner[T]) load(tab *kern.Table[T], c *Centres) {
	a.tab, a.unit = tab, T(c.unit)
	a.mean = convert(convert(a.mean[:0], c.w.Mean), c.w.ValueMean)
	a.bias = convert(a.bias[:0], c.bias)
	a.rows = buf.Shaped(a.rows, c.assign.Rows, c.assign.Cols)
	for i, v := range c.assign.Data {
		a.rows.Data[i] = T(v)
	}
	tab.Pack(&a.panel, a.rows)
}

func convert[T dense.Float](dst []T, x []float64) []T {
	for _, v := range x {
		dst = append(dst, T(v))
	}
	return dst
}

// assign sets dst_j to the cluster of key j: the one with the largest score, the first of several. The result for a key
// does not depend on the others.
func (a *assigner[T]) assign(dst []int32, y, v dense.Matrix[T], w *assignScratch[T]) {
	d := y.Cols
	values := len(a.mean) > d
	for lo := 0; lo < y.Rows; lo += assignRows {
		hi := min(lo+assignRows, y.Rows)
		w.z = buf.Shaped(w.z, hi-lo, len(a.mean))
		for j := lo; j < hi; j++ {
			z := w.z.Row(j - lo)
			a.centre(z[:d], y.Row(j))
			if values {
				for l, x := range v.Row(j) {
					z[d+l] = (x - a.mean[d+l]) * a.unit
				}
			}
		}
		w.score = buf.Shaped(w.score, hi-lo, a.panel.Rows)
		a.tab.MulT(w.score, w.z, &a.panel, a.bias)
		w.best = argMaxRows(a.tab, dst[lo:hi], w.score, w.best)
	}
}

// centre sets z = (y − mean)·unit.
func (a *assigner[T]) centre(z, y []T) {
	mean := a.mean[:len(z)]
	y = y[:len(z)]
	for l := range z {
		z[l] = (y[l] - mean[l]) * a.unit
	}
}

// argMaxRows sets dst to the first index of the largest number of every row, 0 if there is none but NaN. It returns
// memory for the next call.
func argMaxRows[T dense.Float](tab *kern.Table[T], dst []int32, x dense.Matrix[T], best []T) []T {
	best = buf.Sized(best, x.Rows)
	tab.RowMax(best, x)
	for i, m := range best {
		dst[i] = int32(max(0, indexOf(x.Row(i), m)))
	}
	return best
}

// indexOf is the first index of m, or −1.
func indexOf[T dense.Float](x []T, m T) int {
	i := 0
	for ; i+8 <= len(x); i += 8 {
		q := x[i : i+8 : i+8]
		if q[0] == m || q[1] == m || q[2] == m || q[3] == m || q[4] == m || q[5] == m || q[6] == m || q[7] == m {
			break
		}
	}
	for ; i < len(x); i++ {
		if x[i] == m {
			return i
		}
	}
	return -1
}
