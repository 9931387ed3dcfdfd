package tabular

import (
	"math"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

const (
	// mostLevels is the largest number of levels of a column that are distinguished: the number that a learner
	// counts exactly.
	mostLevels = 8192
	// meanOutputs is the largest number of targets or classes for which means of levels are computed.
	meanOutputs = 32
	// leastShrinkage is the least number of rows that the overall mean counts for in the mean of a level.
	leastShrinkage = 0.05
	// leastSpread is the least standard deviation that means of levels are divided by, in units of the target's. It
	// keeps means that hardly differ from looking different.
	leastSpread = 0.1
)

// levelCounts holds the number of rows and the sums of targets of every level of some fields, by part. Codes of
// levels are computed from it.
//
// Codes by means contain the target. If a training row had the code of all rows, the code would contain the row's
// own target, the more so the rarer its level. So the code of a row comes only from the parts that a model which
// predicts its part learns from (see dealer): other rows, other groups or the past. Shrunken means: Micci-Barreca
// 2001 ("A preprocessing scheme for high-cardinality categorical attributes", SIGKDD Explorations 3, §3). Folds:
// Pargent et al. 2022 ("Regularized target encoding outperforms traditional methods in supervised machine learning
// with high cardinality features", Comput. Stat. 37, §2.4).
type levelCounts struct {
	fields  []data.Field // categorical, with their levels
	outputs int          // number of targets or classes; 1 for two classes: the second
	parts   int
	deal    *dealer
	// rows[f][p] and sums[f][p] belong to part p, by level of field f. The last entry is of values that are no
	// level.
	rows, sums [][][]float64
	// squares are the sums of squared targets of all rows, by output.
	squares []float64
}

// countLevels reads the table twice: first for the levels of the named columns, then for their rows and targets. It
// leaves out columns with fewer than two levels.
func countLevels(j *job, names []string) (*levelCounts, error) {
	like := &data.Schema{Targets: j.schema.Targets}
	for i := range j.schema.Fields {
		if fd := &j.schema.Fields[i]; slices.Contains(names, fd.Name) {
			like.Fields = append(like.Fields, data.Field{Name: fd.Name, Kind: data.Categorical})
		}
	}
	learned, _, err := data.Learn(watchedSource{Source: j.src, ctx: j.ctx, report: func(int64) {}},
		data.LearnOptions{Like: like, MaxLevels: mostLevels})
	if err != nil {
		return nil, err
	}
	fields := slices.DeleteFunc(learned.Fields, func(f data.Field) bool { return len(f.Levels) < 2 })
	return countRows(j, fields)
}

// countRows reads the table once and counts rows and targets by level.
func countRows(j *job, fields []data.Field) (*levelCounts, error) {
	c := &levelCounts{fields: fields, outputs: j.outputs, deal: j.deal, parts: j.deal.levelParts(j.o.Folds)}
	if j.task == machine.Classification && j.outputs == 2 {
		c.outputs = 1
	}
	if len(fields) == 0 {
		return c, nil
	}
	c.squares = make([]float64, c.outputs)
	for i := range fields {
		n := len(fields[i].Levels) + 1
		c.rows, c.sums = append(c.rows, nil), append(c.sums, nil)
		for range c.parts {
			c.rows[i] = append(c.rows[i], make([]float64, n))
			c.sums[i] = append(c.sums[i], make([]float64, n*c.outputs))
		}
	}
	schema := *j.schema
	schema.Fields, schema.Ignored = nil, slices.Clone(schema.Ignored)
	for i := range fields {
		schema.Fields = append(schema.Fields, placesOf(fields[i], 1))
	}
	for i := range j.schema.Fields {
		name := j.schema.Fields[i].Name
		if !slices.ContainsFunc(fields, func(o data.Field) bool { return o.Name == name }) {
			schema.Ignored = append(schema.Ignored, name)
		}
	}
	rows, err := machine.TableRows(j.src, &schema, j.task != machine.Unsupervised)
	if err != nil {
		return nil, err
	}
	first := int64(0)
	err = j.watch(rows, stageChoose).Each(j.o.Block, func(x, y dense.Matrix[float64]) error {
		for i := range x.Rows {
			part, w := j.deal.of(first+int64(i), c.parts), 1.0
			if j.weights != nil {
				w = y.At(i, y.Cols-1)
			}
			for o := range c.outputs {
				t := c.target(j.task, j.outputs, y.Row(i), o)
				c.squares[o] += w * t * t
			}
			for k := range fields {
				at := int(x.At(i, k))
				c.rows[k][part][at] += w
				for o := range c.outputs {
					c.sums[k][part][at*c.outputs+o] += w * c.target(j.task, j.outputs, y.Row(i), o)
				}
			}
		}
		first += int64(x.Rows)
		return nil
	})
	return c, err
}

// levelParts returns the number of parts for codes: the code of a row is learned without its part.
func (d *dealer) levelParts(folds int) int {
	if folds < 2 {
		folds = defaultFolds
	}
	if d.grouped() {
		folds = min(folds, d.groups())
	}
	return d.parts(folds)
}

// target returns output o of the targets of a row.
func (c *levelCounts) target(task machine.Task, outputs int, y []float64, o int) float64 {
	if task == machine.Regression {
		return y[o]
	}
	class := int(y[0])
	if outputs == 2 && class == 1 || outputs > 2 && class == o {
		return 1
	}
	return 0
}

// placesOf returns a field whose first encoded column is the index of the level; values that are no level have the
// index after the last one, missing values none. The field has the given number of columns.
func placesOf(f data.Field, width int) data.Field {
	out := data.Field{Name: f.Name, Kind: data.Categorical, Levels: f.Levels, Code: data.CodeCounts,
		Table: make([]float64, len(f.Levels)*width), Prior: make([]float64, width)}
	for l := range f.Levels {
		out.Table[l*width] = float64(l)
	}
	out.Prior[0] = float64(len(f.Levels))
	return out
}

// coded returns field k with the given code.
func (c *levelCounts) coded(k int, code data.Code) data.Field {
	f := c.fields[k]
	f.Code = code
	if code == data.CodeHashed {
		return f
	}
	s := c.scales(k, code)
	table := c.table(k, code, s, everyFold, everyFold)
	width := s.width(code)
	f.Table, f.Prior = table[:len(f.Levels)*width], table[len(f.Levels)*width:]
	return f
}

// codeScales holds the constants of a code. They come from all rows, so they say nothing about a single one.
type codeScales struct {
	shrink      float64   // number of rows that the overall mean counts for
	spread      []float64 // divisors of the means, by output
	count, unit float64   // mean and divisor of the logarithms of counts
}

func (s *codeScales) width(code data.Code) int {
	if code == data.CodeMeans {
		return len(s.spread) + 1
	}
	return 1
}

// scales estimates how much means of levels are shrunken: the variance within levels over the variance between them,
// by the moments of a one-way analysis of variance (Searle, Casella & McCulloch 1992, "Variance components", §3.5,
// eq. 35), summed over outputs.
func (c *levelCounts) scales(k int, code data.Code) *codeScales {
	rows, sums := c.learned(k, everyFold, everyFold)
	s := new(codeScales)
	n, squares, levels := 0.0, 0.0, 0.0
	total := make([]float64, c.outputs)
	for l, r := range rows {
		n += r
		squares += r * r
		s.count += r * math.Log1p(r)
		if r > 0 {
			levels++
		}
		for o := range total {
			total[o] += sums[l*c.outputs+o]
		}
	}
	if n == 0 {
		return &codeScales{shrink: leastShrinkage, spread: make([]float64, c.outputs), unit: 1}
	}
	s.count /= n
	for _, r := range rows {
		d := math.Log1p(r) - s.count
		s.unit += r * d * d
	}
	s.unit = max(1, math.Sqrt(s.unit/n))
	if code != data.CodeMeans {
		return s
	}
	within, between := 0.0, 0.0
	for o, t := range total {
		b := -t * t / n
		for l, r := range rows {
			if r > 0 {
				b += sums[l*c.outputs+o] * sums[l*c.outputs+o] / r
			}
		}
		within += max(0, c.squares[o]-t*t/n-b)
		between += b
	}
	within /= max(1, n-levels)
	between = (between/max(1, levels-1) - within) / ((n - squares/n) / max(1, levels-1))
	s.shrink = n // levels differ by no more than noise: their means are shrunken to almost nothing
	if between > 0 {
		s.shrink = min(n, max(leastShrinkage, within/between))
	}
	for o, t := range total {
		v := 0.0
		for l, r := range rows {
			d := s.mean(sums[l*c.outputs+o], r, t/n) - t/n
			v += r * d * d
		}
		of := math.Sqrt(max(0, c.squares[o]/n-t*t/n/n))
		s.spread = append(s.spread, max(math.Sqrt(v/n), leastSpread*of, 1e-12))
	}
	return s
}

// mean returns the shrunken mean of a level with r rows and the given sum of targets; all is the overall mean.
func (s *codeScales) mean(sum, r, all float64) float64 {
	return (sum + float64(s.shrink*all)) / (r + s.shrink)
}

// learned returns the rows and sums, by level of field k, that a model which predicts the parts p and fold learns from;
// everyFold stands for no part.
func (c *levelCounts) learned(k, p, fold int) (rows, sums []float64) {
	rows, sums = make([]float64, len(c.rows[k][0])), make([]float64, len(c.sums[k][0]))
	for q := range c.parts {
		if c.parts > 1 && (p >= 0 && !c.deal.learns(q, p) || fold >= 0 && !c.deal.learns(q, fold)) {
			continue
		}
		for l, v := range c.rows[k][q] {
			rows[l] += v
		}
		for l, v := range c.sums[k][q] {
			sums[l] += v
		}
	}
	return rows, sums
}

// table returns the codes of the levels of field k, and last the code of an unknown level, for rows of part p, or for
// new rows if p is everyFold, as a model without another fold learns them. Counts contain no target and come from all
// rows. Means are differences from the overall mean of the rows that they were learned from, so an unknown level is 0
// in every part.
func (c *levelCounts) table(k int, code data.Code, s *codeScales, p, fold int) []float64 {
	all, _ := c.learned(k, everyFold, everyFold)
	rows, sums := c.learned(k, p, fold)
	levels := len(c.fields[k].Levels)
	n, total := 0.0, make([]float64, c.outputs)
	for l, r := range rows {
		n += r
		for o := range total {
			total[o] += sums[l*c.outputs+o]
		}
	}
	width := s.width(code)
	out := make([]float64, (levels+1)*width)
	for l := range levels + 1 {
		row := out[l*width : (l+1)*width]
		count := 1.0 // as rare as a level can be
		if l < levels {
			count = all[l]
		}
		row[width-1] = (math.Log1p(count) - s.count) / s.unit
		for o := 0; o < width-1 && l < levels && n > 0; o++ {
			row[o] = (s.mean(sums[l*c.outputs+o], rows[l], total[o]/n) - total[o]/n) / s.spread[o]
		}
	}
	return out
}

// crossed holds codes by means of the training rows. A row has a code that was learned without its part.
type crossed struct {
	counts *levelCounts
	fields map[string]crossedField
}

// crossedField is a field with codes by means.
type crossedField struct {
	places data.Field // a field whose code is the index of a level
	at     int        // index among the fields of counts
	scales *codeScales
	width  int // number of columns of a code
}

// cross returns the codes by means among the fields of a schema, or nil if there are none.
func (c *levelCounts) cross(s *data.Schema) *crossed {
	out := &crossed{counts: c, fields: map[string]crossedField{}}
	for i := range s.Fields {
		f := &s.Fields[i]
		k := slices.IndexFunc(c.fields, func(o data.Field) bool { return o.Name == f.Name })
		if f.Code != data.CodeMeans || k < 0 {
			continue
		}
		scales := c.scales(k, f.Code)
		one := crossedField{at: k, scales: scales, width: scales.width(f.Code)}
		one.places = placesOf(*f, one.width)
		one.places.Missing, one.places.Other = f.Missing, f.Other
		out.fields[f.Name] = one
	}
	if len(out.fields) == 0 {
		return nil
	}
	return out
}

// tables returns the codes of a field for rows of every part, as a model without a fold learns them.
func (c *crossed) tables(f crossedField, fold int) [][]float64 {
	out := make([][]float64, c.counts.parts)
	for p := range out {
		without := fold
		if p == fold {
			without = everyFold
		}
		out[p] = c.counts.table(f.at, data.CodeMeans, f.scales, p, without)
	}
	return out
}

// encode returns the rows of a sample with codes as a model without fold k learns them. The fold of a row is its part.
func (c *crossed) encode(s *sample, fold []int, k int) matrix {
	x := s.x.Clone()
	for _, f := range s.places {
		tables := c.tables(f.crossedField, k)
		for i := range x.Rows {
			f.set(x.Row(i), tables[fold[i]], f.levels[i])
		}
	}
	return x
}

// trainingRows returns the rows of the job's table for its fit. src is that table, or a source that passes on all of
// its rows. They are encoded by the schema, except that codes by means are learned without the part of the row. In the
// job of a fold, the table is the fold: both countRows and crossedRows number its rows from 0.
func (j *job) trainingRows(src data.Source) (machine.Rows, error) {
	targets := j.task != machine.Unsupervised
	if j.crossed == nil {
		return machine.TableRows(src, j.schema, targets)
	}
	rows, fields, err := j.placeRows(src)
	out := &crossedRows{Rows: rows, of: j.crossed, fields: fields}
	for _, f := range fields {
		out.tables = append(out.tables, j.crossed.tables(f.crossedField, everyFold))
	}
	return out, err
}

// placeRows returns rows in which codes by means are replaced by the index of the level, and where these are.
func (j *job) placeRows(src data.Source) (rows machine.Rows, fields []crossedColumns, err error) {
	schema := *j.schema
	schema.Fields = slices.Clone(schema.Fields)
	at := 0
	for i := range schema.Fields {
		f := &schema.Fields[i]
		if one, ok := j.crossed.fields[f.Name]; ok && f.Code == data.CodeMeans {
			fields = append(fields, crossedColumns{crossedField: one, first: at, weight: max(f.Weight, 0)})
			if f.Weight == 0 {
				fields[len(fields)-1].weight = 1
			}
			*f = one.places
		}
		at += f.Width()
	}
	rows, err = machine.TableRows(src, &schema, j.task != machine.Unsupervised)
	return rows, fields, err
}

// takeSample reads a table and draws the sample.
func (j *job) takeSample(src data.Source, stage string) (*sample, int64, error) {
	if j.crossed == nil {
		rows, err := machine.TableRows(src, j.schema, j.task != machine.Unsupervised)
		if err != nil {
			return nil, 0, err
		}
		return j.take(j.watch(rows, stage))
	}
	rows, fields, err := j.placeRows(src)
	if err != nil {
		return nil, 0, err
	}
	s, n, err := j.take(j.watch(rows, stage))
	if err != nil {
		return nil, 0, err
	}
	part := make([]int, s.len())
	for i := range part {
		part[i] = j.deal.of(s.rows[i], j.crossed.counts.parts)
	}
	for _, f := range fields {
		f.weight = 1
		for i := range s.len() {
			f.levels = append(f.levels, int(s.x.At(i, f.first)))
		}
		s.places = append(s.places, f)
	}
	s.x = j.crossed.encode(s, part, everyFold)
	return s, n, nil
}

// crossedColumns are the columns of a code by means.
type crossedColumns struct {
	crossedField
	first  int // encoded column
	weight float64
	levels []int // of the rows of a sample
}

// set writes the code of a level.
func (c *crossedColumns) set(row, table []float64, level int) {
	for o, v := range table[level*c.width : (level+1)*c.width] {
		row[c.first+o] = v * c.weight
	}
}

// crossedRows replaces the indices of levels in rows by the codes of their parts. Its rows are all rows that the dealer
// has numbered.
type crossedRows struct {
	machine.Rows
	of     *crossed
	fields []crossedColumns
	tables [][][]float64
}

func (r *crossedRows) Each(block int, f func(x, y dense.Matrix[float64]) error) error {
	first := int64(0)
	return r.Rows.Each(block, func(x, y dense.Matrix[float64]) error {
		for i := range x.Rows {
			part := r.of.counts.deal.of(first+int64(i), r.of.counts.parts)
			for k := range r.fields {
				c, row := &r.fields[k], x.Row(i)
				c.set(row, r.tables[k][part], int(row[c.first]))
				if c.places.Missing { // the indicator has the weight of the field, too
					row[c.first+c.width] *= c.weight
				}
			}
		}
		first += int64(x.Rows)
		return f(x, y)
	})
}
