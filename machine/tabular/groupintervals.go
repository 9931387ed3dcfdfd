package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// groupResiduals holds the residuals of rows by the level of the column Options.IntervalBy.
type groupResiduals map[string]*machine.Residuals

func (g *groupResiduals) add(group string, y, pred, variance dense.Matrix[float64], weights []float64) {
	if *g == nil {
		*g = groupResiduals{}
	}
	if (*g)[group] == nil {
		(*g)[group] = new(machine.Residuals)
	}
	(*g)[group].Add(y, pred, variance, weights)
}

// checkIntervalBy refuses columns that intervals cannot go by. A fold may lack the column, so folds are not checked.
func checkIntervalBy(j *job) error {
	by := j.o.IntervalBy
	if by == "" || j.inner {
		return nil
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("intervals by column %q: %s: %w", by, fmt.Sprintf(format, args...), machine.ErrSetup)
	}
	switch fd, _ := fieldNamed(j.schema, by); {
	case j.task != machine.Regression:
		return bad("prediction intervals are those of a regression")
	case j.o.Folds == 1:
		return bad("they are made of rows that are held out: ask for more than 1 fold")
	case fd == nil:
		return bad("the model does not predict from it: name a column that it reads")
	case fd.Kind != data.Categorical || fd.Code != "":
		return bad("it is %s, want a column of levels: name it as categorical", fd.Kind)
	}
	return nil
}

// fieldNamed returns the field of that name and its first encoded column, or nil.
func fieldNamed(s *data.Schema, name string) (*data.Field, int) {
	at := 0
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i], at
		}
		at += s.Fields[i].Width()
	}
	return nil, 0
}

// levelOf returns the level of an encoded row, "" if it is not listed.
func levelOf(fd *data.Field, at int, x []float64) string {
	if l := fd.LevelOf(x[at : at+fd.Width()]); l >= 0 {
		return fd.Levels[l]
	}
	return ""
}

// groupsOf returns the groups of rows of the sample, given by their numbers in the table. It returns nil if
// intervals do not go by a column.
func (j *job) groupsOf(s *sample, rows []int64) []string {
	fd, at := fieldNamed(j.schema, j.o.IntervalBy)
	if j.o.IntervalBy == "" || fd == nil {
		return nil
	}
	place := make(map[int64]int, len(s.rows))
	for i, r := range s.rows {
		place[r] = i
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		if p, ok := place[r]; ok {
			out[i] = levelOf(fd, at, s.x.Row(p))
		}
	}
	return out
}

// addRows adds rows by their level of the column, if the schema encodes it.
func (g *groupResiduals) addRows(by string, s *data.Schema, x, y, pred, variance dense.Matrix[float64],
	weights []float64) {
	fd, at := fieldNamed(s, by)
	if by == "" || fd == nil {
		return
	}
	for i := range x.Rows {
		var w []float64
		if weights != nil {
			w = weights[i : i+1]
		}
		g.add(levelOf(fd, at, x.Row(i)), y.RowRange(i, i+1), pred.RowRange(i, i+1), rowOf(variance, i), w)
	}
}

// rowOf returns row i of a matrix, or the matrix itself if it has no columns.
func rowOf(m dense.Matrix[float64], i int) dense.Matrix[float64] {
	if m.Cols == 0 {
		return m
	}
	return m.RowRange(i, i+1)
}

// setGroups gives the model its intervals by group.
func setGroups(j *job, m *machine.Model, groups groupResiduals, log *journal) error {
	if j.o.IntervalBy == "" || j.inner || m.Residuals.IsEmpty() {
		return nil
	}
	fd, _ := fieldNamed(j.schema, j.o.IntervalBy)
	list := make([]*machine.Residuals, len(fd.Levels))
	few := 0
	for l, name := range fd.Levels {
		if list[l] = groups[name]; list[l] == nil || list[l].Len() < machine.LeastGroup {
			few++
		}
	}
	if few > 0 {
		log.note("%d of the %d levels of %s have fewer than %d rows held out: their prediction intervals are those of all rows",
			few, len(fd.Levels), fd.Name, machine.LeastGroup)
	}
	return m.SetGroups(j.o.IntervalBy, list)
}
