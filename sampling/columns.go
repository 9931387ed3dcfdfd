package sampling

import (
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
)

// columns are the scales of features, common to the whole tree. Key features are divided by exp(scale_f); query
// features are multiplied by it and divided by the largest of the row. scale_f is near the largest log feature of any
// class. The estimate at the root is therefore at least about 1, and the estimates of two children add up to that of
// their parent, so on the way down one of them is always in range. Only classes less likely than the smallest number of
// T are lost. Scales per node would be common to fewer classes and gain nothing.
type columns[T dense.Float] struct {
	scale    []float64
	key      []T    // −scale
	absent   []bool // features that are zero for every class
	low, top T      // sums outside [low, top] require new scales
}

// sampled is the number of classes that choose the scales; others may exceed them by slack.
const sampled = 1024

// slack is the logarithm of the factor by which features may exceed or fall below their scale.
func slack[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 30
	}
	return 300
}

// choose sets the scales to the largest log features of a sample of the classes, or of all classes.
func (c *columns[T]) choose(m randfeat.FeatureMap[T], classes dense.Matrix[T], dead []bool, all bool) error {
	n := classes.Rows
	count := min(n, sampled)
	if all {
		count = n
	}
	f := m.OutDim()
	c.scale = make([]float64, f)
	for i := range c.scale {
		c.scale[i] = math.Inf(-1)
	}
	const chunk = 256
	x, e := dense.New[T](chunk, classes.Cols), dense.New[T](chunk, f)
	var value dense.Matrix[T]
	if m.Signed() {
		value = dense.New[T](chunk, f)
	}
	row := make([]float64, chunk)
	var ws randfeat.Workspace[T]
	flush := func(rows int) error {
		v := value
		if !v.IsEmpty() {
			v = v.RowRange(0, rows)
		}
		if err := m.LogKeys(e.RowRange(0, rows), v, row[:rows], x.RowRange(0, rows), &ws); err != nil {
			return err
		}
		for i := range rows {
			for j, t := range e.Row(i) {
				c.scale[j] = max(c.scale[j], float64(t)+row[i])
			}
		}
		return nil
	}
	rows := 0
	for i := range count {
		at := i * n / count
		if dead[at] {
			continue
		}
		copy(x.Row(rows), classes.Row(at))
		if rows++; rows == chunk {
			if err := flush(rows); err != nil {
				return err
			}
			rows = 0
		}
	}
	if rows > 0 {
		if err := flush(rows); err != nil {
			return err
		}
	}
	c.finish()
	return nil
}

// finish gives features that are zero for every class the largest scale, because a class added later may have them.
func (c *columns[T]) finish() {
	most := math.Inf(-1)
	for _, v := range c.scale {
		most = max(most, v)
	}
	if math.IsInf(most, 0) {
		most = 0
	}
	c.key, c.absent = make([]T, len(c.scale)), make([]bool, len(c.scale))
	for i, v := range c.scale {
		if math.IsInf(v, 0) {
			v, c.absent[i] = most, true
		}
		c.key[i] = T(-v)
		c.scale[i] = -float64(c.key[i]) // the value by which keys are really divided, after rounding to T
	}
	c.low, c.top = T(math.Exp(-slack[T]())), T(math.Exp(slack[T]()))
}

// outgrown reports whether some sum is too large for the scales, or not a number.
func (c *columns[T]) outgrown(sum []T) bool {
	for _, v := range sum {
		if !(v <= c.top && v >= -c.top) {
			return true
		}
	}
	return false
}

// sunk reports whether some sum of positive features is far below its scale.
func (c *columns[T]) sunk(sum []T) bool {
	for i, v := range sum {
		if v < c.low && !c.absent[i] {
			return true
		}
	}
	return false
}
