package text

import (
	"slices"
	"strings"
	"unicode"
)

// pieces splits a text into stretches that merges never cross: a word with the space before it, or a run of other
// white space.
func pieces(text string) []string {
	var all []string
	start := 0
	var last rune
	for i, r := range text {
		cut := i > 0 && (unicode.IsSpace(r) || unicode.IsSpace(last) && last != ' ')
		if cut {
			all = append(all, text[start:i])
			start = i
		}
		last = r
	}
	if start < len(text) {
		all = append(all, text[start:])
	}
	return all
}

// merge learns a BPE vocabulary: first the characters, then the most frequent pairs of neighbours become tokens,
// until there are size of them. It works on distinct words with their counts, and updates the counts of pairs only
// in the words that contain the merged pair.
func (v *Vocabulary) merge(text string, size int) {
	count := map[string]int{}
	for _, w := range pieces(text) {
		count[w]++
	}
	type word struct {
		parts []string
		n     int
	}
	var list []word
	keys := make([]string, 0, len(count))
	for w := range count {
		keys = append(keys, w)
	}
	slices.Sort(keys)
	for _, w := range keys {
		list = append(list, word{strings.Split(w, ""), count[w]})
	}
	v.Tokens = append(v.Tokens, mostFrequent(strings.Split(text, ""), size-1)...)
	pairs := map[[2]string]int{}
	where := map[[2]string]map[int]bool{} // words that may contain the pair
	add := func(i, sign int) {
		w := list[i]
		for j := range len(w.parts) - 1 {
			p := [2]string{w.parts[j], w.parts[j+1]}
			pairs[p] += sign * w.n
			if where[p] == nil {
				where[p] = map[int]bool{}
			}
			where[p][i] = true
		}
	}
	for i := range list {
		add(i, 1)
	}
	known := map[string]bool{}
	for _, t := range v.Tokens {
		known[t] = true
	}
	for len(v.Tokens) < size {
		var best [2]string
		most := 1 // pairs that occur only once are not merged
		for p, n := range pairs {
			if n > most || n == most && n > 1 && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
				best, most = p, n
			}
		}
		if most < 2 {
			return
		}
		v.Merges = append(v.Merges, best)
		if joined := best[0] + best[1]; !known[joined] {
			known[joined] = true
			v.Tokens = append(v.Tokens, joined)
		}
		for i := range where[best] {
			add(i, -1)
			list[i].parts = join(list[i].parts, best)
			add(i, 1)
		}
		delete(pairs, best)
		delete(where, best)
	}
}

// join merges all occurrences of a pair, from the left.
func join(parts []string, pair [2]string) []string {
	out := parts[:0:0]
	for i := 0; i < len(parts); i++ {
		if i+1 < len(parts) && parts[i] == pair[0] && parts[i+1] == pair[1] {
			out = append(out, pair[0]+pair[1])
			i++
			continue
		}
		out = append(out, parts[i])
	}
	return out
}

// encodePieces applies the merges in the order in which they were learned. Equal pieces are encoded once.
func (v *Vocabulary) encodePieces(text string) []int32 {
	var out []int32
	seen := map[string][]int32{}
	for _, w := range pieces(text) {
		ids, ok := seen[w]
		if !ok {
			parts := strings.Split(w, "")
			for {
				best, at := len(v.Merges), -1
				for j := range len(parts) - 1 {
					if r, ok := v.rank[[2]string{parts[j], parts[j+1]}]; ok && r < best {
						best, at = r, j
					}
				}
				if at < 0 {
					break
				}
				parts = join(parts, v.Merges[best])
			}
			for _, p := range parts {
				ids = append(ids, v.index[p])
			}
			seen[w] = ids
		}
		out = append(out, ids...)
	}
	return out
}
