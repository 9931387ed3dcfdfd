package machine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// Dependence shows how one output depends on one column: the mean prediction of some rows, all with the same value of
// the column (Friedman 2001, "Greedy function approximation", §8.2). If columns depend on each other, combinations that
// occur in no table count as much as others.
type Dependence struct {
	Column string            `json:"column"`
	Kind   data.FieldKind    `json:"kind"`
	Output string            `json:"output"` // the target, or the class whose probability or score is predicted
	Points []DependencePoint `json:"points"`
	Rows   int               `json:"rows"` // number of rows averaged
}

// DependencePoint is a value of the column, with the mean prediction and its 95 % interval over rows.
type DependencePoint struct {
	Label string   `json:"label"`
	Value *float64 `json:"value,omitempty"` // number, or time in days since 1970; nil for a level or a missing value
	Mean  float64  `json:"mean"`
	Low   float64  `json:"low"`
	High  float64  `json:"high"`
	Share float64  `json:"share"` // share of rows with this value, or with one nearer to it than to the others
}

const (
	// dependencePoints is the number of points of a numeric column, dependenceLevels that of a categorical one: the
	// most frequent levels.
	dependencePoints = 25
	dependenceLevels = 30
)

// PartialDependence computes how an output depends on a column. x are encoded rows. The values of the column are taken
// from them: levels as they occur, numbers at equal steps of their quantiles. A column of texts is ErrSetup.
func (m *Model) PartialDependence(ctx context.Context, x dense.Matrix[float64], column string, output int) (*Dependence,
	error) {
	f, lo, err := m.explained(x, column, output)
	if err != nil {
		return nil, err
	}
	if f.Kind == data.Words {
		return nil, fmt.Errorf("column %q holds texts, which have no order and no levels to show: %w", column, ErrSetup)
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	d := &Dependence{Column: column, Kind: f.Kind, Output: m.OutputName(output), Rows: x.Rows}
	var (
		ws   Workspace[float64]
		z    = x.Clone()
		pred = dense.New[float64](x.Rows, m.Outputs)
	)
	for _, v := range valuesOf(f, x, lo) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i := range z.Rows {
			copy(z.Row(i)[lo:lo+f.Width()], x.Row(v.row)[lo:lo+f.Width()])
		}
		if err := p.Predict(pred, z, &ws); err != nil {
			return nil, err
		}
		var sum moments
		for i := range pred.Rows {
			sum.add(pred.At(i, output))
		}
		point := DependencePoint{Label: v.text, Mean: sum.mean, Share: v.share}
		point.Low, point.High = student(&sum)
		if !math.IsNaN(v.number) {
			point.Value = &v.number
		}
		d.Points = append(d.Points, point)
	}
	return d, nil
}

// explained validates the arguments of an explanation, and finds the field and its first encoded column.
func (m *Model) explained(x dense.Matrix[float64], column string, output int) (*data.Field, int, error) {
	switch {
	case m.Schema == nil:
		return nil, 0, fmt.Errorf("a model without a schema has no columns to explain: %w", ErrSetup)
	case output < 0 || output >= m.Outputs:
		return nil, 0, fmt.Errorf("output %d of %d: %w", output, m.Outputs, dense.ErrShape)
	case x.Cols != m.Schema.Width() || x.Rows < 2:
		return nil, 0, fmt.Errorf("%d×%d rows to explain a model of %d columns by, want at least 2: %w", x.Rows, x.Cols,
			m.Schema.Width(), dense.ErrShape)
	}
	at := 0
	for i := range m.Schema.Fields {
		f := &m.Schema.Fields[i]
		if f.Name == column {
			return f, at, nil
		}
		at += f.Width()
	}
	return nil, 0, fmt.Errorf("the model does not predict from a column %q: %w", column, ErrSetup)
}

// OutputName is the name of the target, the class, or "log density".
func (m *Model) OutputName(output int) string {
	switch {
	case m.Schema == nil || m.Task == Unsupervised:
		return "log density"
	case m.Task == Classification:
		return m.Schema.Targets[0].Classes[output]
	}
	return m.Schema.Targets[output].Name
}

// shownValue is a value of a column that some row has.
type shownValue struct {
	row    int
	text   string
	number float64
	share  float64
}

// valuesOf lists the values at which a column is shown.
func valuesOf(f *data.Field, x dense.Matrix[float64], lo int) []shownValue {
	type cell struct {
		row    int
		text   string
		number float64
	}
	var cells, missing []cell
	for i := range x.Rows {
		text, number, ok := f.Decode(x.Row(i)[lo : lo+f.Width()])
		if !ok {
			text = "other"
		}
		c := cell{i, text, number}
		if f.Kind != data.Categorical && math.IsNaN(number) {
			missing = append(missing, c)
			continue
		}
		cells = append(cells, c)
	}
	n := float64(x.Rows)
	var out []shownValue
	if f.Kind == data.Categorical {
		at := map[string]int{}
		for _, c := range cells {
			if _, ok := at[c.text]; !ok {
				at[c.text] = len(out)
				out = append(out, shownValue{c.row, c.text, math.NaN(), 0})
			}
			out[at[c.text]].share += 1 / n
		}
		slices.SortStableFunc(out, func(a, b shownValue) int { return cmp.Compare(b.share, a.share) })
		return out[:min(len(out), dependenceLevels)]
	}
	slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.number, b.number) })
	last := -1
	for k := 0; k < dependencePoints && len(cells) > 0; k++ {
		at := k * (len(cells) - 1) / (dependencePoints - 1)
		if last >= 0 && cells[at].number == cells[last].number {
			out[len(out)-1].share += float64(at-last) / n
			last = at
			continue
		}
		share := float64(at-last) / n
		out = append(out, shownValue{cells[at].row, cells[at].text, cells[at].number, share})
		last = at
	}
	if len(missing) > 0 {
		out = append(out, shownValue{missing[0].row, missing[0].text, math.NaN(), float64(len(missing)) / n})
	}
	return out
}

// student is Student's 95 % interval of a mean.
func student(m *moments) (low, high float64) {
	if m.n < 2 {
		return math.NaN(), math.NaN()
	}
	d := m.standardError() * distuv.StudentsT{Sigma: 1, Nu: float64(m.n - 1)}.Quantile(1-outside/2)
	return m.mean - d, m.mean + d
}

// Explanation shows how the columns of one row contribute to its prediction, as Shapley values. They add up to the
// prediction of the row minus the mean prediction of other rows.
type Explanation struct {
	Output     string         `json:"output"`
	Prediction float64        `json:"prediction"`
	Mean       float64        `json:"mean"`  // mean prediction of the rows from which unknown columns are taken
	Parts      []Contribution `json:"parts"` // the largest first
	Orders     int            `json:"orders"`
}

// Contribution is the contribution of one column, with a 95 % interval for the limit of many orders.
type Contribution struct {
	Column string  `json:"column"`
	Value  string  `json:"value"` // value of the row
	Part   float64 `json:"part"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// ExplainOptions are the settings of Contributions; the zero value is usable.
type ExplainOptions struct {
	Orders int // number of orders in which columns become known; 0 means 500
	Seed   uint64
}

// Contributions explains the prediction of row by sampling (Štrumbelj & Kononenko 2014, "Explaining prediction models
// and individual predictions with feature contributions", Knowl. Inf. Syst. 41, algorithm 2). Columns are set to the
// values of the row one after the other, in random orders; the remaining columns are those of a random row of x. The
// contribution of a column is the mean change of the prediction. Each order is also taken backwards. For a model with
// one column the result is exact.
func (m *Model) Contributions(ctx context.Context, row []float64, x dense.Matrix[float64], output int,
	o ExplainOptions) (*Explanation, error) {
	if m.Schema == nil || len(m.Schema.Fields) == 0 {
		return nil, fmt.Errorf("a model without a schema has no columns to explain: %w", ErrSetup)
	}
	if _, _, err := m.explained(x, m.Schema.Fields[0].Name, output); err != nil {
		return nil, err
	}
	if len(row) != x.Cols {
		return nil, fmt.Errorf("a row of %d columns, want %d: %w", len(row), x.Cols, dense.ErrShape)
	}
	o.Orders = cmp.Or(o.Orders, 500)
	if o.Orders < 4 {
		return nil, fmt.Errorf("%d orders, want at least 4: %w", o.Orders, ErrSetup)
	}
	p, err := NewPredictor[float64](m)
	if err != nil {
		return nil, err
	}
	fields := m.Schema.Fields
	from := make([]int, len(fields)+1)
	for i := range fields {
		from[i+1] = from[i] + fields[i].Width()
	}
	var (
		ws   Workspace[float64]
		rng  = rand.New(rand.NewPCG(o.Seed, 0x6578706c))
		z    = dense.New[float64](2*(len(fields)+1), x.Cols)
		pred = dense.New[float64](z.Rows, m.Outputs)
		sums = make([]moments, len(fields))
		base moments
	)
	for range (o.Orders + 1) / 2 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		order, other := rng.Perm(len(fields)), x.Row(rng.IntN(x.Rows))
		for way := range 2 {
			first := way * (len(fields) + 1)
			copy(z.Row(first), other)
			for k, i := range order {
				copy(z.Row(first+k+1), z.Row(first+k))
				copy(z.Row(first + k + 1)[from[i]:from[i+1]], row[from[i]:from[i+1]])
			}
			slices.Reverse(order)
		}
		if err := p.Predict(pred, z, &ws); err != nil {
			return nil, err
		}
		base.add(pred.At(0, output))
		for k, i := range order {
			back := len(fields) - 1 - k // its place in the reversed order
			there := pred.At(k+1, output) - pred.At(k, output)
			again := len(fields) + 1 + back
			sums[i].add((there + pred.At(again+1, output) - pred.At(again, output)) / 2)
		}
	}
	one := dense.Matrix[float64]{Rows: 1, Cols: len(row), Stride: len(row), Data: row}
	if err := p.Predict(pred.RowRange(0, 1), one, &ws); err != nil {
		return nil, err
	}
	out := &Explanation{Output: m.OutputName(output), Prediction: pred.At(0, output), Mean: base.mean,
		Orders: 2 * ((o.Orders + 1) / 2)}
	for i := range fields {
		c := Contribution{Column: fields[i].Name, Part: sums[i].mean}
		if text, _, ok := fields[i].Decode(row[from[i]:from[i+1]]); ok {
			c.Value = text
		}
		c.Low, c.High = student(&sums[i])
		out.Parts = append(out.Parts, c)
	}
	out.roundNoise()
	slices.SortStableFunc(out.Parts, func(a, b Contribution) int {
		return cmp.Compare(math.Abs(b.Part), math.Abs(a.Part))
	})
	return out, nil
}

// roundNoise replaces contributions that are rounding errors of the sums by 0.
func (e *Explanation) roundNoise() {
	scale := max(math.Abs(e.Prediction), math.Abs(e.Mean))
	for i := range e.Parts {
		for _, v := range []*float64{&e.Parts[i].Part, &e.Parts[i].Low, &e.Parts[i].High} {
			if math.Abs(*v) <= 1e-12*scale {
				*v = 0
			}
		}
	}
}

// Neighbour is a row of the fit that a model keeps.
type Neighbour struct {
	Similarity float64           `json:"similarity"` // its kernel with the row, from 0 to 1
	Values     map[string]string `json:"values"`     // by column, where the encoding can be inverted
}

// Neighbours returns the n rows of the fit that are nearest to row by the kernel, or by the first of several kernels.
// An exact kernel keeps all rows, and Nyström features keep the landmarks. Random features keep none: the error is
// [ErrSetup].
func (m *Model) Neighbours(row []float64, n int) ([]Neighbour, error) {
	k := m.Spec.Kernel
	switch {
	case m.Schema == nil:
		return nil, fmt.Errorf("a model without a schema has no columns to show: %w", ErrSetup)
	case len(m.Omega) != 1 || !family.InfoOf(m.Spec.Family).KernelColumns:
		return nil, fmt.Errorf("the model keeps no rows of its fit: it has random features; maps named "+
			"exact and nystrom keep rows: %w", ErrSetup)
	case len(row) != m.Spec.Dim || n < 1:
		return nil, fmt.Errorf("the %d rows nearest to one of %d columns, want %d: %w", n, len(row), m.Spec.Dim,
			dense.ErrShape)
	}
	scale := cmp.Or(k.Scale, 1)
	at := k.Embed(make([]float64, k.Dim(len(row))), row)
	rows := m.Omega[0].Rows
	type near struct {
		i int
		v float64
	}
	all := make([]near, rows.Rows)
	unit := k
	unit.Scale, unit.M = 0, dense.Matrix[float64]{}
	for i := range all {
		all[i] = near{i, unit.Eval(at, rows.Row(i))}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Compare(b.v, a.v) })
	back, known := inverse(k, len(row))
	x := make([]float64, len(row))
	var out []Neighbour
	for _, r := range all[:min(n, len(all))] {
		one := Neighbour{Similarity: r.v, Values: map[string]string{}}
		for j := range x {
			x[j] = scale * dense.Dot(back.Row(j), rows.Row(r.i))
		}
		lo := 0
		for i := range m.Schema.Fields {
			f := &m.Schema.Fields[i]
			hi := lo + f.Width()
			if text, _, ok := f.Decode(x[lo:hi]); ok && !slices.Contains(known[lo:hi], false) {
				one.Values[f.Name] = text
			}
			lo = hi
		}
		out = append(out, one)
	}
	return out, nil
}

// inverse returns the pseudo-inverse of the metric of a kernel, and which columns it recovers: a metric without full
// rank does not tell all rows apart.
func inverse(k kernel.Kernel, d int) (back dense.Matrix[float64], known []bool) {
	known = make([]bool, d)
	if k.M.IsEmpty() {
		for j := range known {
			known[j] = true
		}
		return dense.Identity[float64](d), known
	}
	var svd mat.SVD
	svd.Factorize(mat.NewDense(k.M.Rows, d, k.M.Clone().Data), mat.SVDThin)
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	back = dense.New[float64](d, k.M.Rows)
	values := svd.Values(nil)
	for j := range d {
		share := 0.0 // of the column that the rows keep
		for s, value := range values {
			if value > 1e-9*values[0] {
				share += v.At(j, s) * v.At(j, s)
				for i := range k.M.Rows {
					back.Data[j*back.Stride+i] += v.At(j, s) / value * u.At(i, s)
				}
			}
		}
		known[j] = share > 1-1e-6
	}
	return back, known
}
