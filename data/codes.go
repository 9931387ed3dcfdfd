package data

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/cell"
)

// Code says how the levels of a categorical field become numbers. The empty code is one column per level.
type Code string

// The codes for many levels, which do not need a column for each level.
const (
	// CodeHashed gives every level a code of its own: 4 of 256 columns, chosen by a hash of the level, are ±½.
	// Two levels are about as far apart as with one column per level.
	CodeHashed Code = "hashed"
	// CodeCounts is the frequency of the level in training, as log(1 + n).
	CodeCounts Code = "counts"
	// CodeMeans is the mean of each target over the rows of the level, shrunk towards the overall mean, and the
	// count. It contains the target: training rows need codes that were learned without them.
	CodeMeans Code = "means"
)

// A hashed code has one non-zero entry in each of hashBlocks blocks of hashBlock columns.
const (
	hashBlocks = 4
	hashBlock  = 64
	hashValue  = 0.5 // four entries of ±½: the code has length 1
)

// codeWidth is the number of encoded columns of a level, without the indicator of missing values.
func (f *Field) codeWidth() int {
	switch f.Code {
	case "":
		return len(f.Levels) + 1
	case CodeHashed:
		return hashBlocks * hashBlock
	}
	return len(f.Prior)
}

// checkCodes checks the code of a categorical field, and that any other field has none.
func (f *Field) checkCodes() error {
	table := f.Code == CodeCounts || f.Code == CodeMeans
	switch {
	case f.Kind != Categorical && (f.Code != "" || len(f.Table) > 0 || len(f.Prior) > 0):
		return schemaError("%s column %s has a code of levels", f.Kind, cell.Quote(f.Name))
	case f.Code != "" && f.Code != CodeHashed && !table:
		return schemaError("column %s has the unknown code %s", cell.Quote(f.Name), cell.Quote(string(f.Code)))
	case table && (len(f.Prior) == 0 || len(f.Prior) > maxCodes || len(f.Table) != len(f.Levels)*len(f.Prior)):
		return schemaError("column %s has %d numbers in its table for %d levels of %d columns", cell.Quote(f.Name), len(f.Table),
			len(f.Levels), len(f.Prior))
	case !table && (len(f.Table) > 0 || len(f.Prior) > 0):
		return schemaError("column %s has a table of codes, which its code does not use", cell.Quote(f.Name))
	}
	for _, list := range [][]float64{f.Table, f.Prior} {
		for _, v := range list {
			if !dense.IsFinite(v) {
				return schemaError("column %s has the code %g, want finite numbers", cell.Quote(f.Name), v)
			}
		}
	}
	return nil
}

// maxCodes bounds the columns of a table of codes: the means of that many classes and the count.
const maxCodes = 1 << 10

// codeNames returns the names of the encoded columns of a field with a code.
func (f *Field) codeNames() []string {
	var names []string
	for j := range f.codeWidth() {
		switch {
		case f.Code == CodeHashed:
			names = append(names, fmt.Sprintf("%s code %d", f.Name, j+1))
		case j == len(f.Prior)-1:
			names = append(names, f.Name+" count")
		case len(f.Prior) == 2:
			names = append(names, f.Name+" mean")
		default:
			names = append(names, fmt.Sprintf("%s mean %d", f.Name, j+1))
		}
	}
	return names
}

// encodeCodes writes the codes of levels. A level that training did not have, or a missing one, gets the prior;
// for hashed codes that is 0, the centre of all codes. If training had more levels than are listed (Other),
// unlisted levels get their hash, which still tells them apart.
func encodeCodes(x dense.Matrix[float64], first int, f *Field, levels map[string]int, c *Column) {
	width := f.codeWidth()
	var buf []byte
	for i := range x.Rows {
		var text []byte
		text, buf = levelText(c, i, buf)
		row := x.Row(i)[first : first+f.width()]
		clear(row)
		at, known := -1, false
		if text != nil {
			at, known = lookup(levels, text)
		} else if f.Missing {
			row[width] = 1
		}
		switch {
		case known && f.Code == CodeHashed:
			hashCode(row, f.Levels[at])
		case known:
			copy(row, f.Table[at*width:(at+1)*width])
		case f.Code != CodeHashed:
			copy(row, f.Prior)
		case text != nil && f.Other:
			hashCode(row, canonicalText(string(text)))
		}
	}
}

// levelText returns cell i as the text of a level, nil if missing. buf is memory for the text of a number.
func levelText(c *Column, i int, buf []byte) (text, memory []byte) {
	if c.Text != nil {
		return c.Text[i], buf
	}
	v := c.Num[i]
	if math.IsNaN(v) {
		return nil, buf
	}
	buf = append(buf[:0], cell.Canonical(v)...)
	return buf, buf
}

// hashCode writes the code of a level: FNV-1a, finalised by SplitMix64. Each block uses 7 bits of the hash: 6
// for the column, 1 for the sign. Models depend on it: it must never change.
func hashCode(row []float64, level string) {
	h := uint64(0xcbf29ce484222325)
	for i := range len(level) {
		h = (h ^ uint64(level[i])) * 0x100000001b3
	}
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	for b := range hashBlocks {
		v := hashValue
		if h&hashBlock != 0 {
			v = -v
		}
		row[b*hashBlock+int(h%hashBlock)] = v
		h >>= 7
	}
}
