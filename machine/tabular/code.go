package tabular

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// Codes of columns of many levels. One column per level works for few levels only: all rare levels share one column
// and look the same. Codes distinguish them. Like every choice, the code is chosen by trial inside the folds.
//
//	columns with more levels than --max-levels      as they are, or with a code
//	whole numbers of a column named as identifiers  as numbers, or with a code
//	columns in Options.Code                         with this code

const (
	// repeated is the least mean number of rows per level. Columns with fewer hold names of rows.
	repeated = 1.25
	// allLevels is the largest number of levels that may have a column each.
	allLevels = 2048
)

// codedColumns returns the columns for which a code is to be chosen, and the columns whose code the caller set.
func codedColumns(j *job) (open []string, given map[string]string, err error) {
	given = map[string]string{}
	for i := range j.schema.Fields {
		fd := &j.schema.Fields[i]
		code, ok := j.o.Code[fd.Name]
		switch {
		case ok && (fd.Kind == data.Time || fd.Kind == data.Words):
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("a column of kind %s has no levels to encode", fd.Kind))
		case ok && code == string(data.CodeMeans) && j.task == machine.Unsupervised:
			return nil, nil, errLevels(fd.Name, "means are of a target, a density has none: use another code")
		case ok && code == string(data.CodeMeans) && j.o.Features > maxFeatures:
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("means with %d features, at most %d can have them: use another "+
				"code, or fewer features", j.o.Features, maxFeatures))
		case ok && code == string(data.CodeMeans) && j.outputs > meanOutputs:
			return nil, nil, errLevels(fd.Name, fmt.Sprintf("means of %d classes, at most %d can be had: use another code",
				j.outputs, meanOutputs))
		case ok:
			given[fd.Name] = code
		case fd.Name == j.o.IntervalBy: // keeps its levels
		case slices.Contains(j.o.Learn.Numeric, fd.Name): // the caller says that it is numeric
		case fd.Kind == data.Categorical && fd.Other, fd.Kind == data.Numeric && fd.IsIdentifier():
			open = append(open, fd.Name)
		}
	}
	for _, column := range slices.Sorted(maps.Keys(j.o.Code)) {
		if _, ok := given[column]; !ok {
			return nil, nil, errLevels(column, "a code was asked for, but the column is not used: "+
				"it is missing, constant, left out, or the target")
		}
	}
	if !j.weighs || !j.info.LeastSquares || j.o.Bandwidth > 0 ||
		j.o.Features > maxFeatures || j.task == machine.Unsupervised {
		open = nil
	}
	return open, given, nil
}

// firstLevels keeps only the most frequent levels of a field.
func firstLevels(f data.Field, most int) data.Field {
	f.Other = f.Other || len(f.Levels) > most
	f.Levels = f.Levels[:min(len(f.Levels), most)]
	return f
}

// openCodes holds the columns of a frame whose code is to be chosen.
type openCodes struct {
	counts *levelCounts
	names  []string
	given  map[string]string // codes of other columns
}

// withGiven gives columns the codes that the caller set. It returns the frame of these codes, and the columns whose
// code is open; nil: none.
func withGiven(f *frame, n int64) (*frame, *openCodes, error) {
	if f.inner || f.summed {
		return f, nil, nil
	}
	open, given, err := codedColumns(f.job)
	if err != nil || len(open)+len(given) == 0 {
		return f, nil, err
	}
	counts, err := countLevels(f.job, slices.Concat(open, slices.Sorted(maps.Keys(given))))
	if err != nil {
		return nil, nil, err
	}
	open = slices.DeleteFunc(open, func(name string) bool { return !counts.repeats(name, n) })
	if f.s.len() < leastScaling {
		open = nil
	}
	if len(given) > 0 {
		if f, err = withCodes(f.job, counts, given, n); err != nil {
			return nil, nil, err
		}
	}
	if len(open) == 0 {
		return f, nil, nil
	}
	return f, &openCodes{counts, open, given}, nil
}

// otherCodes proposes codes of the columns of many levels. Like scalings, they are compared by an exact kernel, each at
// a few settings of its own.
func (s *search) otherCodes(at *trial) (out []Candidate, err error) {
	if s.open == nil {
		return nil, nil
	}
	for _, code := range codesOf(s.job, s.open.counts, s.open.names, s.n) {
		codes := maps.Clone(s.open.given)
		for _, name := range s.open.names {
			codes[name] = code
		}
		f, err := withCodes(s.job, s.open.counts, codes, s.n)
		if err != nil {
			return nil, err
		}
		if f.s.len() != s.whole[""].s.len() {
			continue // too wide for the exact kernel
		}
		s.add(code, f)
		for _, w := range []float64{0.5, 1} {
			for _, l := range []float64{0.3, 1, 3} {
				c := at.at(at.Width*w, at.Lambda*l)
				c.Codes = code
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// withCodes returns the frame of some codes.
func withCodes(j *job, counts *levelCounts, codes map[string]string, n int64) (*frame, error) {
	base := j.schema
	if j.base != nil {
		base = j.base
	}
	schema := *base
	schema.Fields = slices.Clone(schema.Fields)
	used := map[string]string{}
	for i := range schema.Fields {
		fd := &schema.Fields[i]
		code, ok := codes[fd.Name]
		k := slices.IndexFunc(counts.fields, func(o data.Field) bool { return o.Name == fd.Name })
		if !ok || k < 0 {
			continue
		}
		used[fd.Name] = code
		switch most := j.o.Learn.Levels(); code {
		case codeLevels:
			*fd = firstLevels(counts.fields[k], most)
		case codeAll:
			*fd = firstLevels(counts.fields[k], allLevels)
		default:
			*fd = counts.coded(k, data.Code(code))
		}
	}
	out := j.withSchema(&schema)
	out.base, out.codes, out.crossed = base, used, nil
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	out.crossed = counts.cross(&schema)
	s, m, err := out.takeSample(j.src, stageChoose)
	if err != nil {
		return nil, err
	}
	if m != n {
		return nil, fmt.Errorf("%s: %d rows now, %d before: the table changed while it was read: %w", j.src.Name(), m, n,
			machine.ErrMismatch)
	}
	return newFrame(out, s), nil
}

// codesOf returns the codes to try: one column per level while that is feasible, else hashed ones.
func codesOf(j *job, counts *levelCounts, open []string, n int64) []string {
	columns := 0
	for i := range counts.fields {
		if slices.Contains(open, counts.fields[i].Name) {
			columns += len(counts.fields[i].Levels)
			if counts.fields[i].Other {
				columns += mostLevels
			}
		}
	}
	out := []string{codeAll}
	if columns > allLevels || n > int64(exactRows) { // random features of so many columns take too long
		out = []string{string(data.CodeHashed)}
	}
	if out = append(out, string(data.CodeCounts)); j.outputs <= meanOutputs {
		out = append(out, string(data.CodeMeans))
	}
	return out
}

// repeats reports whether the levels of a column repeat often enough for a code.
func (c *levelCounts) repeats(name string, rows int64) bool {
	k := slices.IndexFunc(c.fields, func(f data.Field) bool { return f.Name == name })
	return k >= 0 && float64(len(c.fields[k].Levels))*repeated <= float64(rows)
}

// describeCodes lists columns and their codes for the report.
func describeCodes(codes map[string]string) string {
	var out []string
	for _, column := range slices.Sorted(maps.Keys(codes)) {
		out = append(out, column+" "+codes[column])
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// resumeCodes learns the codes of training rows again, which a checkpoint does not store.
func resumeCodes(j *job, d *decision) error {
	j.codes = d.Codes
	var fields []data.Field
	for _, fd := range j.schema.Fields {
		if fd.Code == data.CodeMeans {
			fields = append(fields, data.Field{Name: fd.Name, Kind: fd.Kind, Levels: fd.Levels, Missing: fd.Missing,
				Other: fd.Other})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	counts, err := countRows(j, fields)
	if err == nil {
		j.crossed = counts.cross(j.schema)
	}
	return err
}
