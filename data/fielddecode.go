package data

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Decode inverts the encoding of a field: it returns the value that the encoded columns represent, as text and,
// for numbers, truth values and times (days since 1970), as a number; otherwise the number is NaN. Numbers are
// exact up to rounding. ok is false for a text column and for a level that is not listed, which cannot be
// recovered.
func (f *Field) Decode(columns []float64) (text string, number float64, ok bool) {
	if len(columns) != f.width() {
		return "", math.NaN(), false
	}
	weight := f.Weight
	weight = cmp.Or(weight, 1)
	if f.Missing && columns[len(columns)-1] > weight/2 {
		return "missing", math.NaN(), true
	}
	switch f.Kind {
	case Numeric, Boolean, Time:
		v := columns[0]/weight*f.Scale + f.Mean
		switch f.Kind {
		case Boolean:
			return strconv.FormatBool(v > 0.5), v, true
		case Time:
			return dayText(v), v, true
		}
		return short(v), v, true
	case Categorical:
		at := f.levelAt(columns, weight)
		if at < 0 {
			return "other", math.NaN(), f.Code == ""
		}
		return f.Levels[at], math.NaN(), true
	}
	return "", math.NaN(), false
}

// levelAt returns the first level whose code equals the columns, up to rounding; −1 if there is none.
func (f *Field) levelAt(columns []float64, weight float64) int {
	if f.Code == "" {
		at := slices.Index(columns, slices.Max(columns))
		if at >= len(f.Levels) {
			return -1
		}
		return at
	}
	width := f.codeWidth()
	code := make([]float64, width)
	for l, name := range f.Levels {
		if f.Code == CodeHashed {
			clear(code)
			hashCode(code, name)
		} else {
			copy(code, f.Table[l*width:(l+1)*width])
		}
		same := true
		for j, v := range code {
			same = same && math.Abs(v*weight-columns[j]) <= 1e-9*max(1, math.Abs(columns[j]))
		}
		if same {
			return l
		}
	}
	return -1
}
