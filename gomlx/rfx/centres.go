package rfx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/namedjson"
)

// ErrClusters marks errors about the fields of Clusters.
var ErrClusters = errors.New("invalid clusters")

// Clusters says how keys are clustered and which keys are exact for a query.
type Clusters struct {
	// Clusters is the number of centroids. With 0, keys outside the window and the sinks are ignored.
	Clusters int `json:"clusters"`
	// Residual is the number of residual directions of Spread; 0: 16.
	Residual int `json:"residual,omitempty"`
	// Spread adds the variance inside a cluster to its weight. It is for causal attention, whose centroids are plain
	// means of the keys so far.
	Spread bool `json:"spread,omitempty"`
	// Sinks is the number of first keys that are always exact.
	Sinks int `json:"sinks,omitempty"`
	// A query at position p of the block [b, b+Block) sees the keys [b−Window, b+Block+Window), or [b−Window, p] if
	// causal. Block 0 means 64 if causal and 16 otherwise; Window 0 and Block 0 without Causal means no neighbours.
	Window int `json:"window,omitempty"`
	Block  int `json:"block,omitempty"`
	// Landmarks is the number of queries per head whose attention weighs the keys; 0: 32, or 128 in a causal fit.
	Landmarks int `json:"landmarks,omitempty"`
	// Passes is the number of iterations of Lloyd's algorithm; 0: 2, or 4 if causal.
	Passes int `json:"passes,omitempty"`
	// Sample limits the number of keys that train the clusters; 0: 16 per cluster, at least 1024, or 65536 if causal.
	Sample int    `json:"sample,omitempty"`
	Seed   uint64 `json:"seed,omitempty"`
}

// mostCount bounds the fields, so that products with dimensions stay far from overflow.
const mostCount = 1 << 24

// Validate reports the first field that is out of range.
func (s *Clusters) Validate() error {
	for _, f := range []struct {
		name string
		n    int
	}{{"clusters", s.Clusters}, {"residual", s.Residual}, {"sinks", s.Sinks}, {"window", s.Window}, {"block", s.Block},
		{"landmarks", s.Landmarks}, {"passes", s.Passes}, {"sample", s.Sample}} {
		if f.n < 0 || f.n > mostCount {
			return fmt.Errorf("%s %d, want 0 to %d: %w", f.name, f.n, mostCount, ErrClusters)
		}
	}
	if s.Clusters == 0 && s.Sinks == 0 && s.Window == 0 && s.Block == 0 {
		return fmt.Errorf("neither clusters nor sinks nor a window, set clusters: %w", ErrClusters)
	}
	return nil
}

// Centres is the fitted geometry of one key/value head. [FitCentres] makes it; it never changes afterwards. It decides
// the cluster of a key, and it holds the residual directions, in which the keys of a cluster differ most for the
// queries. With scaled queries x and the metric R = (E xxᵀ)^½, |R(y−c)|² = E (x·(y−c))² measures distances of keys by
// the differences of their logits.
type Centres struct {
	w      centresWire
	assign dense.Matrix[float64] // see assignment
	bias   []float64
	unit   float64
}

// centresWire holds the saved numbers. The other fields of Centres are derived from them.
type centresWire struct {
	Scale     float64               `json:"scale"`
	Keys      int64                 `json:"keys"`
	Mean      []float64             `json:"mean"`
	Metric    dense.Matrix[float64] `json:"metric"`
	Centres   dense.Matrix[float64] `json:"centres"`
	PX        dense.Matrix[float64] `json:"px"`
	PY        dense.Matrix[float64] `json:"py"`
	Deviation []float64             `json:"deviation"`
}

// Dim returns the dimension of the keys.
func (c *Centres) Dim() int { return len(c.w.Mean) }

// Clusters returns the number of centres. It is smaller than Clusters.Clusters if the fit saw fewer distinct keys.
func (c *Centres) Clusters() int { return c.w.Centres.Rows }

// Scale returns the scale of the logits.
func (c *Centres) Scale() float64 { return c.w.Scale }

// Projections returns PX = R⁻¹U and PY = RU, one column per residual direction, so that x·(y−c) ≈ (PXᵀx)·(PYᵀ(y−c)). U
// holds the eigenvectors of the within-cluster covariance of the keys in the metric, in descending order of
// eigenvalues. The deviations are the within-cluster standard deviations of the columns of PYᵀy.
func (c *Centres) Projections() (px, py dense.Matrix[float64], deviation []float64) {
	return c.w.PX, c.w.PY, c.w.Deviation
}

// cluster returns the cluster of a key: the one with the largest A·(y−mean)·unit + b, the first of several.
func (c *Centres) cluster(y []float64) (best int) {
	most := math.Inf(-1)
	for i := range c.assign.Rows {
		s := c.bias[i]
		for l, a := range c.assign.Row(i) {
			s += a * (y[l] - c.w.Mean[l]) * c.unit
		}
		if s > most {
			best, most = i, s
		}
	}
	return best
}

// finish checks fitted or saved numbers and derives the assignment.
func (w centresWire) finish() (*Centres, error) {
	d, k, r := len(w.Mean), w.Centres.Rows, len(w.Deviation)
	for _, m := range []struct {
		name       string
		m          dense.Matrix[float64]
		rows, cols int
	}{{"metric", w.Metric, d, d}, {"centres", w.Centres, k, d}, {"px", w.PX, d, r}, {"py", w.PY, d, r}} {
		if m.m.Rows != m.rows || m.m.Cols != m.cols && m.rows > 0 {
			return nil, fmt.Errorf("%s is %d×%d, want %d×%d: %w", m.name, m.m.Rows, m.m.Cols, m.rows, m.cols,
				dense.ErrShape)
		}
		if err := m.m.CheckFinite(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	for _, list := range [][]float64{w.Mean, w.Deviation, {w.Scale}} {
		for _, v := range list {
			if !dense.IsFinite(v) {
				return nil, fmt.Errorf("centres: %w", dense.ErrNotFinite)
			}
		}
	}
	if k < 1 || r > d || w.Keys < 0 {
		return nil, fmt.Errorf("%d centres, %d directions of %d, %d keys: %w", k, r, d, w.Keys, dense.ErrShape)
	}
	c := &Centres{w: w}
	c.derive()
	return c, nil
}

// derive computes A = 2R²(c−mean) and b = −|R(c−mean)|², up to a common factor. It divides lengths by the largest ones
// first, because squares of extreme keys or queries would overflow.
func (c *Centres) derive() {
	w := &c.w
	d, k := len(w.Mean), w.Centres.Rows
	var top, metric float64
	for i := range k {
		for j, v := range w.Centres.Row(i) {
			top = max(top, math.Abs(v-w.Mean[j]))
		}
	}
	for i := range d {
		for _, v := range w.Metric.Row(i) {
			metric = max(metric, math.Abs(v))
		}
	}
	c.unit = 1
	if top > 0 {
		c.unit = 1 / top
	}
	if metric == 0 {
		metric = 1
	}
	c.assign, c.bias = dense.New[float64](k, d), make([]float64, k)
	for i := range k {
		a, row := c.assign.Row(i), w.Centres.Row(i)
		for j := range d {
			var z float64
			for l, r := range w.Metric.Row(j) {
				z += r / metric * ((row[l] - w.Mean[l]) * c.unit)
			}
			for l, r := range w.Metric.Row(j) {
				a[l] += 2 * r / metric * z
			}
			c.bias[i] -= z * z
		}
	}
}

// MarshalJSON writes the centres as an object of numbers.
func (c *Centres) MarshalJSON() ([]byte, error) { return json.Marshal(c.w) }

// UnmarshalJSON reads the form that MarshalJSON writes. Unknown and repeated fields are errors.
func (c *Centres) UnmarshalJSON(b []byte) error {
	var w centresWire
	if err := namedjson.Decode(b, &w); err != nil {
		return fmt.Errorf("centres: %w", err)
	}
	n, err := w.finish()
	if err != nil {
		return fmt.Errorf("centres: %w", err)
	}
	*c = *n
	return nil
}
