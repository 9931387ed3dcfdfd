package tabular

import (
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// groupResiduals holds the residuals of rows by the level of the column Options.IntervalBy.
type groupResiduals map[string]*machine.Residuals

func (g groupResiduals) add(group string, y, pred, variance matrix, weights []float64) {
	if g[group] == nil {
		g[group] = new(machine.Residuals)
	}
	g[group].Add(y, pred, variance, weights)
}

// checkIntervalBy refuses columns that intervals cannot go by.
func checkIntervalBy(j *job) error {
	by := j.o.IntervalBy
	if by == "" {
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

// addGroups adds the residuals of rows by their level of the column.
func (f *frame) addGroups(g groupResiduals, d *dealt, weights []float64) {
	fd, at := fieldNamed(f.schema, f.o.IntervalBy)
	if f.o.IntervalBy == "" || fd == nil {
		return
	}
	for r, i := range d.u.rows {
		var w []float64
		if weights != nil {
			w = weights[r : r+1]
		}
		g.add(levelOf(fd, at, f.s.x.Row(i)), rowOf(d.y, r), rowOf(d.pred, r), rowOf(d.variance, r), w)
	}
}

// setGroups gives the model its intervals by group.
func (f *frame) setGroups(m *machine.Model, groups groupResiduals, log *journal) error {
	if f.o.IntervalBy == "" || m.Residuals.IsEmpty() {
		return nil
	}
	m.Schema = f.schema
	fd, _ := fieldNamed(f.schema, f.o.IntervalBy)
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
	return m.SetGroups(f.o.IntervalBy, list)
}
