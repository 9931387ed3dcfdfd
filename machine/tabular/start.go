package tabular

import (
	"errors"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// Margins of many rows are fitted by conjugate gradients, whose time is that of their steps. The score takes fits with
// the same settings of 80 % of the rows, and of half of these. So each fit begins at the weights of the next smaller
// one: the model of all rows at that of the first scored fold, and that one at the half of the learning curve. No fit
// begins at weights that depend on rows which judge it.

// startedRows is the number of rows from which fits of margins begin at a smaller one.
var startedRows = 3000

// chain finds the smaller fits.
func (c *chosen) chain() error {
	if c.inner || !c.d.Exact || !c.d.Margins || !c.d.Apart || !c.nests() || c.s.len() < startedRows ||
		c.s.len() != int(c.d.Rows) {
		return nil
	}
	k := c.scoredParts()[0]
	sub, _, err := withoutFold(c, k, nil)
	if err != nil {
		return err
	}
	if sub.s.len() >= startedRows && extrapolates(c, sub) {
		if sub.less, err = halfOf(c, sub, k, 1); err != nil {
			return err
		}
	}
	c.less = sub
	return nil
}

// start returns where the fit of all rows of the sample begins; nil: nowhere.
func (c *chosen) start() (*machine.Start, error) {
	if c.less == nil {
		return nil, nil
	}
	m, err := fitFold(c.less)
	if errors.Is(err, machine.ErrSingular) {
		return nil, nil // more rows may have a solution
	}
	if err != nil {
		return nil, err
	}
	at := make(map[int64]int, c.s.len())
	for i, row := range c.tableRows() {
		at[row] = i
	}
	out := &machine.Start{Weights: dense.New[float64](c.s.len(), m.Outputs), Intercept: m.Intercept,
		Rows: c.less.s.len()}
	for i, row := range c.less.tableRows() {
		copy(out.Weights.Row(at[row]), m.Weights.Row(i))
	}
	return out, nil
}

// tableRows returns the numbers that the rows of the sample have in the whole table.
func (c *chosen) tableRows() []int64 {
	part, ok := c.src.(foldSource)
	if !ok {
		return c.s.rows
	}
	var all []int64
	for i := int64(0); int64(len(all)) < c.d.Rows; i++ {
		if part.has(i) {
			all = append(all, i)
		}
	}
	out := make([]int64, len(c.s.rows))
	for i, row := range c.s.rows {
		out[i] = all[row]
	}
	return out
}
