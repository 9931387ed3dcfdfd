package machine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// Importance is the loss of score when a model cannot use a column.
type Importance struct {
	Column string `json:"column"`
	// Drop is the loss of accuracy, or of R² (the mean over targets), if the values of the column are shuffled among
	// rows. Its name says which of the two.
	Drop Score `json:"drop"`
}

// ImportanceOptions are the settings of Importances; the zero value is usable.
type ImportanceOptions struct {
	Repeats int // shuffles per column; 0 means 5
	Seed    uint64
	// Progress, if set, is told how many columns are done; its error ends the work.
	Progress func(done, total int) error
}

// Importances returns the permutation importance of all columns of the model's schema, the largest first (Breiman 2001,
// "Random forests", §10; Fisher, Rudin & Dominici 2019, "All models are wrong, but many are useful", JMLR 20). x are
// encoded rows with targets y; use rows that were not in the fit. Redundant columns share their importance or hide each
// other's: the result shows which columns this model uses, not which columns are informative.
//
// Every row is compared with itself before and after the shuffle, averaged over repeats. The 95 % intervals assume
// independent rows.
func (m *Model) Importances(x, y dense.Matrix[float64], o ImportanceOptions) ([]Importance, error) {
	if m.Schema == nil || m.Task == Unsupervised {
		return nil, fmt.Errorf("importance of columns of a model without a schema or without targets: %w", ErrSetup)
	}
	if err := (Setup{Spec: m.Spec, Task: m.Task, Outputs: m.Outputs}).checkBlock(x, y, 0); err != nil {
		return nil, err
	}
	if x.Rows < 2 {
		return nil, fmt.Errorf("importance of columns by %d rows, want at least 2: %w", x.Rows, ErrNoRows)
	}
	o.Repeats = cmp.Or(o.Repeats, 5)
	if o.Repeats < 1 {
		return nil, fmt.Errorf("%d repeats: %w", o.Repeats, ErrSetup)
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	j := judging{m: m, p: p, y: y, pred: dense.New[float64](x.Rows, m.Outputs), unit: units(m, y)}
	base, loss := make([]float64, x.Rows), make([]float64, x.Rows)
	if err := j.losses(base, x); err != nil {
		return nil, err
	}
	name := "accuracy"
	if m.Task == Regression {
		name = "R²"
	}
	var out []Importance
	shuffled := x.Clone()
	lo := 0
	for i := range m.Schema.Fields {
		f := &m.Schema.Fields[i]
		hi := lo + f.Width()
		// A stream per column: the importance of a column does not depend on the columns before it.
		r := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		drops := make([]float64, x.Rows)
		for range o.Repeats {
			for a, b := range r.Perm(x.Rows) {
				copy(shuffled.Row(a)[lo:hi], x.Row(b)[lo:hi])
			}
			if err := j.losses(loss, shuffled); err != nil {
				return nil, err
			}
			for a := range drops {
				drops[a] += (loss[a] - base[a]) / float64(o.Repeats)
			}
		}
		for a := range x.Rows {
			copy(shuffled.Row(a)[lo:hi], x.Row(a)[lo:hi])
		}
		var sum moments
		for _, d := range drops {
			sum.add(d)
		}
		s := Score{Name: name, Value: sum.mean, Rows: int64(x.Rows)}
		s.Low, s.High = skewed(sum.mean, sum.standardError(), sum.skewness(), sum.n)
		out = append(out, Importance{f.Name, s})
		lo = hi
		if o.Progress != nil {
			if err := o.Progress(i+1, len(m.Schema.Fields)); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Importance) int { return cmp.Compare(b.Drop.Value, a.Drop.Value) })
	return out, nil
}

// judging computes losses of predictions whose mean is 1 − accuracy or 1 − R².
type judging struct {
	m    *Model
	p    *Predictor[float64]
	ws   Workspace[float64]
	y    dense.Matrix[float64]
	pred dense.Matrix[float64]
	unit []float64 // per target: 1/(outputs·variance)
}

// units returns the factors of squared errors; a target that is constant in all rows gets 0.
func units(m *Model, y dense.Matrix[float64]) []float64 {
	out := make([]float64, y.Cols)
	for k := range out {
		var s moments
		for i := range y.Rows {
			s.add(y.At(i, k))
		}
		if s.m2 > 0 {
			out[k] = float64(s.n) / s.m2 / float64(m.Outputs)
		}
	}
	return out
}

// losses predicts x and sets dst to the loss of every row.
func (j *judging) losses(dst []float64, x dense.Matrix[float64]) error {
	if err := j.p.Predict(j.pred, x, &j.ws); err != nil {
		return err
	}
	for i := range dst {
		p, y := j.pred.Row(i), j.y.Row(i)
		dst[i] = 0
		if j.m.Task == Classification {
			if Class(p) != int(y[0]) {
				dst[i] = 1
			}
			continue
		}
		for k, v := range p {
			dst[i] += j.unit[k] * (y[k] - v) * (y[k] - v)
		}
	}
	return nil
}

// Reservoir keeps a uniform random sample of the rows offered to it (Vitter 1985, algorithm R). The sample depends on
// the seed and the order of the rows.
type Reservoir struct {
	X, Y dense.Matrix[float64] // the sample
	most int                   // its largest size
	seen int64
	r    *rand.Rand
}

// NewReservoir keeps at most most rows.
func NewReservoir(most int, seed uint64) *Reservoir {
	return &Reservoir{most: most, r: rand.New(rand.NewPCG(seed, 0x726f7773))}
}

// Add offers rows to the reservoir.
func (v *Reservoir) Add(x, y dense.Matrix[float64]) {
	for i := range x.Rows {
		at := v.X.Rows
		if at < v.most {
			v.X, v.Y = extended(v.X, at+1, x.Cols, v.most), extended(v.Y, at+1, y.Cols, v.most)
		} else if at = int(v.r.Int64N(v.seen + 1)); at >= v.most {
			v.seen++
			continue
		}
		v.seen++
		copy(v.X.Row(at), x.Row(i))
		copy(v.Y.Row(at), y.Row(i))
	}
}
