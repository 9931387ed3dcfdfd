package text

import "bytes"

// quotes finds the ends of records in delimited text without parsing the fields. Only quotes matter: outside of
// them every line end ends a record. A nil *quotes means that quotes have no meaning.
type quotes struct{ delim byte }

// scan follows the quotes exactly as the parser does: a quote opens a field only where a field begins, and is
// an ordinary character elsewhere. If the parser will refuse a record, the result does not matter. The text
// begins at a line and ends with a line end; inside says that it begins inside quotes. end is the end of the
// last complete record, -1 if no record ends in the text, and still reports that quotes are open after it.
func (q *quotes) scan(text []byte, inside bool) (end int, still bool) {
	if q == nil {
		return len(text), false
	}
	from, record := 0, 0 // the last position outside quotes, and where its record begins
	if inside {
		record = -1 // -1: the record began before this text
		var ok bool
		if from, ok = q.closed(text, 0); from < 0 {
			return -1, true
		} else if !ok {
			return len(text), false
		}
	}
	for at := from; ; {
		k := bytes.IndexByte(text[at:], '"')
		if k < 0 {
			return len(text), false
		}
		at += k
		if !q.opens(text[from:at]) {
			at++
			continue
		}
		if k := bytes.LastIndexByte(text[from:at], '\n'); k >= 0 {
			record = from + k + 1
		}
		var ok bool
		if from, ok = q.closed(text, at+1); from < 0 {
			return record, true
		} else if !ok {
			return len(text), false
		}
		at = from
	}
}

// opens reports whether a field begins after the text before, which lies outside quotes. Blanks may precede the
// quote.
func (q *quotes) opens(before []byte) bool {
	if q.delim == ' ' {
		n := len(before)
		return n == 0 || isBlank(before[n-1]) || before[n-1] == '\n'
	}
	i := len(before) - 1
	for i >= 0 && isBlank(before[i]) && before[i] != q.delim {
		i--
	}
	return i < 0 || before[i] == q.delim || before[i] == '\n'
}

// closed returns the position after the quote that closes a field opened before from, -1 if there is none. ok
// reports whether the field ends there; otherwise the parser refuses the record.
func (q *quotes) closed(text []byte, from int) (int, bool) {
	for {
		k := bytes.IndexByte(text[from:], '"')
		if k < 0 {
			return -1, false
		}
		from += k + 1
		if from == len(text) || text[from] != '"' {
			break
		}
		from++ // doubled
	}
	i := from
	for i < len(text) && isBlank(text[i]) && (q.delim == ' ' || text[i] != q.delim) {
		i++
	}
	ok := i == len(text) || text[i] == '\n' || text[i] == '\r' || text[i] == q.delim || q.delim == ' ' && i > from
	return from, ok
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
