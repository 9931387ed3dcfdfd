package data

import (
	"cmp"
	"slices"
)

// counts holds the most frequent texts of a column in bounded memory: exact counts of up to k distinct texts;
// beyond that, the summary of Misra and Gries (1982). It keeps every text that makes up more than 1/(k+1) of
// the rows and undercounts it by at most total/(k+1).
type counts struct {
	k     int
	of    map[string]*int64 // pointers, so that counting a known text needs one lookup and no allocation
	total int64             // texts seen
	lost  int64             // by how much any count may be too low
	long  int64             // texts longer than maxLevelBytes, which are never levels
}

// maxLevelBytes bounds the text of a level, and with k the memory of the counts.
const maxLevelBytes = 256

func newCounts(k int) *counts { return &counts{k: k} }

// exact reports whether every text was counted.
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
	// Each round takes k+1 from the sum of all counts, which grew by one per text: constant time per text,
	// amortised.
	c.lost++
	for t, n := range c.of {
		if *n--; *n == 0 {
			delete(c.of, t)
		}
	}
}

// merge adds the counts of o and takes over its counters. The error bounds remain those of one summary of all
// texts: with more than k texts, the (k+1)-th largest count is subtracted from all (Agarwal et al. 2012,
// Mergeable summaries, section 3).
func (c *counts) merge(o *counts) {
	c.k = min(c.k, o.k)
	c.total, c.lost, c.long = c.total+o.total, c.lost+o.lost, c.long+o.long
	if c.of == nil && len(o.of) > 0 {
		c.of = make(map[string]*int64, len(o.of))
	}
	for t, n := range o.of {
		if m, ok := c.of[t]; ok {
			*m += *n
		} else {
			c.of[t] = n
		}
	}
	if len(c.of) <= c.k {
		return
	}
	all := make([]int64, 0, len(c.of))
	for _, n := range c.of {
		all = append(all, *n)
	}
	slices.Sort(all)
	less := all[len(all)-1-c.k]
	c.lost += less
	for t, n := range c.of {
		if *n -= less; *n <= 0 {
			delete(c.of, t)
		}
	}
}

// rename merges texts that to maps to the same text.
func (c *counts) rename(to func(string) string) {
	merged := make(map[string]*int64, len(c.of))
	for t, n := range c.of {
		t = to(t)
		if m, ok := merged[t]; ok {
			*m += *n
		} else {
			merged[t] = n
		}
	}
	c.of = merged
}

// top returns the n most frequent texts, ties in increasing order.
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
