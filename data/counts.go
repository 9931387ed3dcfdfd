package data

import (
	"cmp"
	"slices"
)

// counts holds the most frequent texts of a column in bounded memory: exact counts of up to k distinct texts; beyond,
// the summary of Misra and Gries (1982), which keeps every text that makes up more than 1/(k+1) of the rows and counts
// it too low by at most total/(k+1).
type counts struct {
	k     int
	of    map[string]*int64
	total int64 // texts seen
	lost  int64 // what any count may be too low by
	long  int64 // texts longer than maxLevelBytes, which are never levels
}

// maxLevelBytes bounds the text of a level.
const maxLevelBytes = 256

func newCounts(k int) *counts { return &counts{k: k} }

// exact reports whether no text was dropped.
func (c *counts) exact() bool { return c.lost == 0 && c.long == 0 }

func (c *counts) add(text []byte) {
	c.total++
	if len(text) > maxLevelBytes {
		c.long++
		return
	}
	if n, ok := c.of[string(text)]; ok {
		*n++
		return
	}
	if len(c.of) < c.k {
		if c.of == nil {
			c.of = map[string]*int64{}
		}
		n := int64(1)
		c.of[string(text)] = &n
		return
	}
	// Each round takes k+1 from the sum of the counts, which grew by one per text: amortised constant time.
	c.lost++
	for t, n := range c.of {
		if *n--; *n == 0 {
			delete(c.of, t)
		}
	}
}

// merge adds up texts that rename maps to one.
func (c *counts) merge(rename func(string) string) {
	merged := make(map[string]*int64, len(c.of))
	for t, n := range c.of {
		t = rename(t)
		if m, ok := merged[t]; ok {
			*m += *n
		} else {
			merged[t] = n
		}
	}
	c.of = merged
}

// top are the n most frequent texts, ties in increasing order.
func (c *counts) top(n int) []string {
	texts := make([]string, 0, len(c.of))
	for t := range c.of {
		texts = append(texts, t)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(*c.of[b], *c.of[a]), cmp.Compare(a, b))
	})
	return texts[:min(n, len(texts))]
}
