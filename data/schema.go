package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// FieldKind says how a column becomes encoded columns.
type FieldKind string

// The kinds of field.
const (
	Numeric     FieldKind = "numeric"     // one standardised column
	Boolean     FieldKind = "boolean"     // one standardised column of 1 for true and 0 for false
	Categorical FieldKind = "categorical" // one column per level and one for all others, or a [Code]
	// elapsed days, standardised, and the sine and cosine of the year, the week and, if Clock is set, the day
	Time FieldKind = "time"
	// 128 columns of hashed words and three-letter runs, a vector of length 2
	Words FieldKind = "text"
)

// Field is a column that a model reads. It is part of the model file: its JSON form is a stable format.
type Field struct {
	Name string    `json:"name"`
	Kind FieldKind `json:"kind"`
	// Format is the spelling of numbers that are not plain: 1,234.5, 1.234,5, or 1234,5 where no points group
	// digits. A trailing % says that the numbers are percentages (6.1% and 6.1 are both 6.1, not 0.061). For
	// times it is the order year-month-day, day-month-year or month-day-year.
	Format string  `json:"format,omitempty"`
	Clock  bool    `json:"clock,omitempty"` // time: some values have a time of day
	Mean   float64 `json:"mean,omitempty"`  // numeric and time (days since 1970): mean of the values present
	// numeric and time: the standard deviation (divided by n), 1 if all values are equal
	Scale float64 `json:"scale,omitempty"`
	// values were missing in training: they get an indicator column
	Missing bool     `json:"missing,omitempty"`
	Levels  []string `json:"levels,omitempty"` // categorical: most frequent first
	// categorical: training had more levels than are listed; they count as other
	Other bool `json:"other,omitempty"`
	// Code of a categorical field says how its levels become numbers; empty means one column per level.
	Code Code `json:"code,omitempty"`
	// Table holds the encoded columns of each level, one level after the other, for counts and means. Prior
	// holds the columns of an unknown level.
	Table []float64 `json:"table,omitempty"`
	Prior []float64 `json:"prior,omitempty"`
	// numeric and time: the smallest and the largest value in training; nil if unknown, as in files of version
	// 1
	Range *[2]float64 `json:"range,omitempty"`
	// Clip holds the smallest and the largest value that count: values beyond are replaced by the nearest of
	// the two. It is set if training had gross outliers; Mean and Scale then describe the other
	// values.
	Clip *[2]float64 `json:"clip,omitempty"`
	// Weight multiplies all encoded columns of the field, so it says how much the field counts in distances. 0
	// means 1.
	Weight float64 `json:"weight,omitempty"`
}

// width is the number of encoded columns.
func (f *Field) width() int {
	n := 1
	switch f.Kind {
	case Categorical:
		n = f.codeWidth()
	case Time:
		n = timeWidth(f.Clock)
	case Words:
		n = textWidth
	}
	if f.Missing {
		n++
	}
	return n
}

// Width is the number of encoded columns of the field.
func (f *Field) Width() int { return f.width() }

// Target is a column that a model predicts.
type Target struct {
	Name    string   `json:"name"`
	Classes []string `json:"classes,omitempty"` // in increasing order; empty means regression
	Format  string   `json:"format,omitempty"`  // regression: spelling of the numbers, as in [Field]
	Mean    float64  `json:"mean,omitempty"`    // regression
	Scale   float64  `json:"scale,omitempty"`   // regression: standard deviation, 1 if constant
}

// Schema describes the tables that a model reads. Columns are found by name, so their order in a table is free.
// A schema is immutable once an [Encoder] uses it.
type Schema struct {
	Fields  []Field  `json:"fields"`
	Targets []Target `json:"targets,omitempty"`
	IDs     []string `json:"ids,omitempty"` // carried to the predictions if present
	// known, allowed and not used: constant columns, and columns that the user excluded
	Ignored []string `json:"ignored,omitempty"`
	// Constants maps ignored constant columns to their value, so that a [Watch] can report a change.
	Constants map[string]string `json:"constants,omitempty"`
	// Encoding of the text that the schema was learned from, if it was not UTF-8. It is only a guess for later
	// tables; levels and classes in the schema are UTF-8.
	Encoding string `json:"encoding,omitempty"`
}

// Bounds on a schema that comes from a file. Encoded rows are allocated by width, so a forged schema must not
// be able to ask for more than 2²⁴ columns.
const (
	maxFields      = 1 << 20
	maxWidth       = 1 << 24
	maxSchemaBytes = 256 << 20
)

// ErrSchema marks a schema that cannot be used and a table that does not fit its schema. Use errors.As with
// *[SchemaError] to get the detail.
var ErrSchema = errors.New("schema")

// SchemaError describes an error of a schema, or of the columns of a table that should fit it. The remedy is separate,
// because a caller may know a better one, such as the name of a flag.
type SchemaError struct {
	Detail string
	Remedy string // empty: none
}

// Error returns the text with the prefix of ErrSchema.
func (e *SchemaError) Error() string { return ErrSchema.Error() + ": " + e.Text() }

// Text returns the detail and the remedy, if there is one.
func (e *SchemaError) Text() string {
	if e.Remedy == "" {
		return e.Detail
	}
	return e.Detail + "; " + e.Remedy
}

// Is makes errors.Is(err, ErrSchema) true.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

func schemaError(format string, args ...any) error {
	return &SchemaError{Detail: fmt.Sprintf(format, args...)}
}

// Width is the number of encoded columns of all fields.
func (s *Schema) Width() int {
	n := 0
	for i := range s.Fields {
		n += s.Fields[i].width()
	}
	return n
}

// Names returns the names of the encoded columns, such as age, age missing, sex=M, sex=other.
func (s *Schema) Names() []string {
	names := make([]string, 0, s.Width())
	for _, f := range s.Fields {
		switch f.Kind {
		case Categorical:
			if f.Code != "" {
				names = append(names, f.codeNames()...)
				break
			}
			for _, l := range f.Levels {
				names = append(names, f.Name+"="+l)
			}
			names = append(names, f.Name+"=other")
		case Time:
			for _, part := range []string{"", " year sin", " year cos", " week sin", " week cos", " day sin",
				" day cos"}[:timeWidth(f.Clock)] {
				names = append(names, f.Name+part)
			}
		case Words:
			for j := range textWidth {
				names = append(names, fmt.Sprintf("%s words %d", f.Name, j+1))
			}
		default:
			names = append(names, f.Name)
		}
		if f.Missing {
			names = append(names, f.Name+" missing")
		}
	}
	return names
}

// Validate checks everything that the methods rely on: unique names, finite statistics, formats and codes that
// fit their kinds, and the bounds above. The encoder does not check again.
func (s *Schema) Validate() error {
	if n := len(s.Fields) + len(s.Targets) + len(s.IDs) + len(s.Ignored); n > maxFields {
		return schemaError("%d columns, the limit is %d", n, maxFields)
	}
	if len(s.Fields) == 0 {
		return schemaError("no column to predict from")
	}
	if _, err := charset.Named(s.Encoding); s.Encoding != "" && err != nil {
		return schemaError("%v", err)
	}
	seen := map[string]bool{}
	name := func(n string) error {
		if seen[n] {
			return schemaError("column %s comes twice", cell.Quote(n))
		}
		seen[n] = true
		return nil
	}
	width := 0
	for i := range s.Fields {
		f := &s.Fields[i]
		if err := name(f.Name); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		if width += f.width(); width > maxWidth {
			return schemaError("more than %d encoded columns", maxWidth)
		}
	}
	for i := range s.Targets {
		if err := name(s.Targets[i].Name); err != nil {
			return err
		}
		if err := s.Targets[i].check(); err != nil {
			return err
		}
	}
	// Every constant column is also an ignored one.
	ignored := 0
	for _, n := range s.Ignored {
		if _, ok := s.Constants[n]; ok {
			ignored++
		}
	}
	for _, n := range slices.Concat(s.IDs, s.Ignored) {
		if err := name(n); err != nil {
			return err
		}
	}
	if ignored != len(s.Constants) {
		return schemaError("%d constant columns, %d of them ignored", len(s.Constants), ignored)
	}
	return nil
}

// check checks a field by itself.
func (f *Field) check() error {
	// The negated comparison also refuses NaN.
	if !(f.Weight >= 0) || !dense.IsFinite(f.Weight) {
		return schemaError("column %s has the weight %g, want a positive number", cell.Quote(f.Name), f.Weight)
	}
	switch f.Kind {
	case Numeric, Boolean, Time:
		if err := checkScale(f.Name, f.Mean, f.Scale); err != nil {
			return err
		}
		if len(f.Levels) > 0 {
			return schemaError("%s column %s has levels", f.Kind, cell.Quote(f.Name))
		}
	case Words:
		if f.Mean != 0 || f.Scale != 0 || len(f.Levels) > 0 {
			return schemaError("text column %s has a mean, a scale or levels", cell.Quote(f.Name))
		}
	case Categorical:
		if f.Mean != 0 || f.Scale != 0 {
			return schemaError("categorical column %s has a mean or a scale", cell.Quote(f.Name))
		}
		if err := checkDistinct(f.Name, "level", f.Levels); err != nil {
			return err
		}
	default:
		return schemaError("column %s is of unknown kind %s", cell.Quote(f.Name), cell.Quote(string(f.Kind)))
	}
	if err := f.checkFormat(); err != nil {
		return err
	}
	if err := f.checkCodes(); err != nil {
		return err
	}
	measured := f.Kind == Numeric || f.Kind == Time
	if r := f.Range; r != nil && (!measured || !dense.IsFinite(r[0]) || !(r[0] <= r[1]) || !dense.IsFinite(r[1])) {
		return schemaError("%s column %s runs from %g to %g", f.Kind, cell.Quote(f.Name), r[0], r[1])
	}
	if r := f.Clip; r != nil && (!measured || !dense.IsFinite(r[0]) || !(r[0] < r[1]) || !dense.IsFinite(r[1])) {
		return schemaError("%s column %s counts from %g to %g", f.Kind, cell.Quote(f.Name), r[0], r[1])
	}
	if f.Other && f.Kind != Categorical {
		return schemaError("%s column %s has other levels", f.Kind, cell.Quote(f.Name))
	}
	return nil
}

// check checks a target by itself.
func (t *Target) check() error {
	if err := (&Field{Name: t.Name, Kind: Numeric, Format: t.Format}).checkFormat(); err != nil {
		return err
	}
	switch len(t.Classes) {
	case 0:
		return checkScale(t.Name, t.Mean, t.Scale)
	case 1:
		return schemaError("target %s has one class only", cell.Quote(t.Name))
	}
	return checkDistinct(t.Name, "class", t.Classes)
}

func (f *Field) checkFormat() error {
	ok := f.Format == ""
	switch f.Kind {
	case Numeric:
		ok = ok || isStyle(f.Format)
	case Time:
		ok = f.Format == yearFirst || f.Format == dayFirst || f.Format == monthFirst
	}
	if !ok || f.Clock && f.Kind != Time {
		return schemaError("%s column %s has the format %s, clock %v", f.Kind, cell.Quote(f.Name),
			cell.Quote(f.Format), f.Clock)
	}
	return nil
}

func checkScale(name string, mean, scale float64) error {
	if !dense.IsFinite(mean) || !dense.IsFinite(scale) || scale <= 0 {
		return schemaError("column %s has mean %g and scale %g, want finite numbers and a positive scale", cell.Quote(name),
			mean, scale)
	}
	return nil
}

func checkDistinct(column, what string, texts []string) error {
	seen := make(map[string]bool, len(texts))
	for _, t := range texts {
		if seen[t] {
			return schemaError("column %s has the %s %s twice", cell.Quote(column), what, cell.Quote(t))
		}
		seen[t] = true
	}
	return nil
}

// UnmarshalJSON reads a schema strictly: unknown keys, trailing data and anything that Validate refuses are
// errors. Unknown keys may change the meaning of a field, so a newer file must not pass for an older one.
func (s *Schema) UnmarshalJSON(b []byte) error {
	if len(b) > maxSchemaBytes {
		return schemaError("%d bytes of JSON, the limit is %d", len(b), maxSchemaBytes)
	}
	type plain Schema
	var p plain
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return schemaError("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return schemaError("data follow the JSON object")
	}
	if err := (*Schema)(&p).Validate(); err != nil {
		return err
	}
	*s = Schema(p)
	return nil
}

// Digest returns the SHA-256 of the schema, in hexadecimal. Parts of a distributed computation compare it to check that
// they use the same schema.
func (s *Schema) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // Validate has refused numbers that are not finite
	}
	sum := sum256(b)
	return hex.EncodeToString(sum[:])
}

// moments holds the count, mean, sum of squared deviations and range of numbers, updated one at a time (Welford
// 1962). The result depends on the order in the last bits, so every part of a table is added in row order and
// parts are merged along one tree.
type moments struct {
	n        int64
	mean, m2 float64
	min, max float64
}

func (m *moments) add(v float64) {
	if m.n++; m.n == 1 {
		m.mean, m.min, m.max = v, v, v
		return
	}
	d := v - m.mean
	m.mean += d / float64(m.n)
	m.m2 += float64(d * (v - m.mean)) // never fused, for the same bits on every processor
	m.min, m.max = min(m.min, v), max(m.max, v)
}

// merge adds the moments of other numbers: Chan, Golub and LeVeque 1979 (Updating formulae and a pairwise
// algorithm for computing sample variances), equation (2.1).
func (m *moments) merge(o moments) {
	switch {
	case o.n == 0:
		return
	case m.n == 0:
		*m = o
		return
	}
	n, a, b := float64(m.n+o.n), float64(m.n), float64(o.n)
	d := o.mean - m.mean
	m.m2 += o.m2 + float64(float64(d*d)*(a/n*b))
	m.mean += float64(d * (b / n))
	m.n += o.n
	m.min, m.max = min(m.min, o.min), max(m.max, o.max)
}

// scale is the standard deviation (divided by n), or 1 if all values are equal, so that dividing by it is
// always safe.
func (m *moments) scale() float64 {
	if m.n == 0 || m.min == m.max {
		return 1
	}
	return math.Sqrt(m.m2 / float64(m.n))
}

func sum256(b []byte) [32]byte { return sha256.Sum256(b) }

// LevelOf returns the level of a row whose columns of the field are given, as an index into Levels; −1 for any other
// level. The field has no code.
func (f *Field) LevelOf(columns []float64) int {
	for l := range f.Levels {
		if columns[l] != 0 {
			return l
		}
	}
	return -1
}

// Standardise writes (y − mean)/scale of every regression target to dst, which may be y.
func (s *Schema) Standardise(dst, y dense.Matrix[float64]) {
	for i := range y.Rows {
		d := dst.Row(i)
		for k, v := range y.Row(i)[:len(s.Targets)] {
			d[k] = (v - s.Targets[k].Mean) / s.Targets[k].Scale
		}
	}
}

// IsIdentifier reports whether the field is named like an identifier, such as id, customer_id or PassengerId. Numbers
// in such a column name things and are not quantities.
func (f *Field) IsIdentifier() bool { return identifierName(f.Name) }
