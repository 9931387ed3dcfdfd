package text

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/cell"
)

// sniffRows is how many rows of the sample are inspected. Ten ragged rows in a hundred still let a delimiter
// win.
const sniffRows = 200

// sniffCSV fills Delimiter and Header of o from the beginning of a file, where the user did not set them.
func sniffCSV(name string, sample []byte, whole bool, o *data.Options) {
	if o.Delimiter == 0 {
		o.Delimiter = sniffDelimiter(name, sample, whole, *o)
	}
	if o.Header == nil {
		rows, _ := sampleRows(sample, whole, *o, 1<<12)
		header := sniffHeader(rows, data.NewMissingTexts(o.Missing))
		o.Header = &header
	}
}

// delimiterLine recognises a first line such as sep=; by which spreadsheets declare the delimiter. It returns
// the length of the line, 0 if there is none, and the delimiter.
func delimiterLine(sample []byte) (length int, delimiter byte) {
	text := bytes.TrimPrefix(sample, []byte(bom))
	if len(text) < 5 || !strings.EqualFold(string(text[:4]), "sep=") {
		return 0, 0
	}
	end := bytes.IndexByte(text, '\n')
	if end < 5 || len(bytes.TrimRight(text[5:end], "\r")) > 0 || text[4] == '"' || text[4] < ' ' && text[4] != '\t' {
		return 0, 0
	}
	return len(sample) - len(text) + end + 1, text[4]
}

// sampleRows parses the first rows of the sample. It returns at most most cells of each row, and the number of
// cells of each. It stops at the first row that cannot be read.
func sampleRows(sample []byte, whole bool, o data.Options, most int) (rows [][]string, widths []int) {
	in := input{name: "sample", open: raw.Bytes("", sample).Open}
	in.size = int64(len(sample))
	r, err := newCSVReader(in, o)
	if err != nil {
		return nil, nil
	}
	defer r.Close()
	for len(rows) < sniffRows && r.nextRecord() == nil {
		cells, n, err := r.cells(most)
		if err != nil {
			break
		}
		if !whole && r.eof && r.pos+r.n >= r.end && len(rows) > 0 {
			break // the sample may have cut this one
		}
		rows, widths = append(rows, cells), append(widths, n)
	}
	return rows, widths
}

// sniffDelimiter returns the first candidate that gives at least 90 % of the rows the same number of fields, at
// least two, including the first row. Failing that, it prefers one that fits 90 % of the rows but not the
// header (decimal commas split every row except the names), and then the one that fits most rows. A file of one
// column has no delimiter; the comma does no harm there.
func sniffDelimiter(name string, sample []byte, whole bool, o data.Options) byte {
	switch base := strings.ToLower(data.Uncompressed(name)); {
	case strings.HasSuffix(base, ".tsv"), strings.HasSuffix(base, ".tab"):
		return '\t'
	}
	best, bestShare := byte(','), 0.0
	fallback := byte(0) // fits nearly all rows, but not the first
	for _, d := range []byte(",\t;| ") {
		o.Delimiter = d
		_, widths := sampleRows(sample, whole, o, 0)
		count, most := map[int]int{}, 0
		for _, n := range widths {
			if n > 1 {
				count[n]++
				most = max(most, count[n])
			}
		}
		share := float64(most) / float64(max(len(widths), 1))
		if share >= 0.9 && count[widths[0]] == most {
			return d
		}
		if share >= 0.9 && fallback == 0 {
			fallback = d
		}
		if share > bestShare {
			best, bestShare = d, share
		}
	}
	return cmp.Or(fallback, best)
}

// sniffHeader reports whether the first row names columns. None of its fields may be a number. In addition,
// either some column has a text in the first row and numbers in all others, or the names look like names: none
// missing (except the first, which data frames leave empty above row names), no two equal, and none repeated in
// its own column.
func sniffHeader(rows [][]string, missing *data.MissingTexts) bool {
	if len(rows) == 0 {
		return false
	}
	first, rest := rows[0], rows[1:]
	seen := map[string]bool{}
	again := false // a name is missing, repeated, or comes again in its column
	for j, name := range first {
		if _, ok := cell.ParseNumber([]byte(name)); ok {
			return false
		}
		if seen[name] || missing.Has([]byte(name)) && (j > 0 || name != "" || len(first) == 1) {
			again = true
		}
		seen[name] = true
	}
	for j, name := range first {
		numbers, texts := 0, 0
		for _, row := range rest {
			if j >= len(row) || missing.Has([]byte(row[j])) {
				continue
			}
			if row[j] == name {
				again = true
			}
			if _, ok := cell.ParseNumber([]byte(row[j])); ok {
				numbers++
			} else {
				texts++
			}
		}
		if numbers > 0 && texts == 0 && !missing.Has([]byte(name)) {
			return true
		}
	}
	return !again
}
