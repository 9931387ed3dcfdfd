package data

import "bytes"

// quotes is where quotes open and close fields of delimited text.
type quotes struct{ delim byte }

// scan goes from quote to quote, just as the parser takes them: one opens a field only where a field begins, and is an
// ordinary character in others. Where the parser will refuse a record it does not matter what follows. The text begins
// at a line and ends behind one; end is the end of the last whole record in it, -1 if none ends there, and still says
// that quotes are open behind it.
func (q *quotes) scan(text []byte, inside bool) (end int, still bool) {
	if q == nil {
		return len(text), false
	}
	from, record := 0, 0 // where it was last outside of quotes, and the record of that place begins
	if inside {
		record = -1
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

// opens reports whether a field begins behind before, which is outside of quotes: blanks may precede it.
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

// closed is the place behind the quote that closes a field that begins before from, -1 if there is none, and whether
// the field ends there.
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
