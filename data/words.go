package data

import (
	"math"
	"unicode"
	"unicode/utf8"
)

// textWidth is the number of encoded columns of a text field.
const textWidth = 128

// textScale is the length of the vector of a text. Two texts that share nothing are then as far apart as two
// rows that differ by one standard deviation in each of eight standardised columns.
const textScale = 2

// encodeText writes a text as hashed counts of its words and of the three-letter runs in them, in lower case.
// Another bit of the hash gives the sign, so that collisions cancel on average (Weinberger et al. 2009,
// "Feature hashing for large scale multitask learning", arXiv:0902.2206). A run counts a quarter of a word. The
// vector has length textScale, or 0 for a text without words.
func encodeText(row []float64, text []byte) {
	row = row[:textWidth]
	clear(row)
	word := make([]rune, 0, 32)
	flush := func() {
		if len(word) == 0 {
			return
		}
		count(row, hashRunes(1, word), 1)
		// A blank on both sides marks the beginning and the end of a word in its runs.
		word = append(word, ' ')
		run := [3]rune{' ', word[0], 0}
		for _, r := range word[1:] {
			run[2] = r
			count(row, hashRunes(2, run[:]), 0.25)
			run[0], run[1] = run[1], run[2]
		}
		word = word[:0]
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			word = append(word, unicode.ToLower(r))
		} else {
			flush()
		}
	}
	flush()
	sum := 0.0
	for _, v := range row {
		sum += v * v
	}
	if sum == 0 {
		return
	}
	scale := textScale / math.Sqrt(sum)
	for j := range row {
		row[j] *= scale
	}
}

func count(row []float64, hash uint64, weight float64) {
	if hash>>63 == 1 {
		weight = -weight
	}
	row[hash%textWidth] += weight
}

// hashRunes is 64-bit FNV-1a with one more mixing step, because its highest bits are weak. seed keeps words and
// runs apart. Models depend on it: it must never change.
func hashRunes(seed uint64, runes []rune) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for _, r := range runes {
		for s := 0; s < 32; s += 8 {
			h = (h ^ uint64(r>>s&0xff)) * 1099511628211
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
