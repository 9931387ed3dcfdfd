package token

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bpe is byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909). A piece begins as its bytes (GPT-2; Radford et
// al. 2019). In a model of characters (Gemma, Llama 2; Kudo and Richardson 2018, arXiv:1808.06226) it begins as its
// characters, and a character that is not in the vocabulary as its bytes. Neighbours are merged, the pair of the lowest
// rank first and among equal ranks the leftmost, until no pair has a merge.
type bpe struct {
	bytes  [256]int32        // id of each byte; −1: none
	chars  map[rune]int32    // id of each character; nil: pieces begin as bytes
	dummy  bool              // texts are encoded with a space before them, which decoding removes
	merges map[uint64]uint64 // pair of ids → rank<<32 | id of the merged token
	whole  map[string]int32  // pieces that are tokens and skip merging; nil: none
	reach  int               // bytes of the longest token
	// ordered says that every merge ranks before the merges of its result, as training makes them.
	ordered bool
	// unknown is the id for bytes without a token; −1 drops them.
	unknown int32
}

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

// symbol is a part of a piece, in a doubly linked list. Merged symbols keep their place with id −1.
type symbol struct {
	id         int32
	prev, next int32 // −1: none
}

// smallPiece is the number of bytes up to which a piece is encoded on the stack.
const smallPiece = 64

// longPiece is the number of symbols from which on a piece is merged rank by rank.
const longPiece = 1024

// append encodes a piece. The queue holds rank<<32 | place of the left symbol, so its smallest element is the next
// merge. Entries are not removed when a merge makes them stale; they are recognised by their rank when they come up.
func (m *bpe) append(dst []int32, piece string) []int32 {
	if id, ok := m.whole[piece]; ok {
		return append(dst, id)
	}
	if len(piece) == 1 && m.chars == nil {
		return m.appendByte(dst, piece[0])
	}
	var symbolSpace [smallPiece]symbol
	var heapSpace [2 * smallPiece]uint64
	symbols, queue := symbolSpace[:0], heap(heapSpace[:0])
	if len(piece) > smallPiece {
		symbols = make([]symbol, 0, len(piece))
	}
	add := func(id int32) {
		n := int32(len(symbols))
		if id < 0 {
			if id = m.unknown; id < 0 || n > 0 && symbols[n-1].id == id {
				return // neighbouring unknown symbols become one unknown token
			}
		}
		if n > 0 {
			symbols[n-1].next = n
		}
		symbols = append(symbols, symbol{id, n - 1, -1})
	}
	for i := 0; i < len(piece); {
		if m.chars == nil {
			add(m.bytes[piece[i]])
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(piece[i:])
		if id, ok := m.chars[r]; ok && (r != utf8.RuneError || n > 1) {
			add(id)
		} else if m.spelled(piece[i : i+n]) {
			for j := range n {
				add(m.bytes[piece[i+j]])
			}
		} else {
			add(-1)
		}
		i += n
	}
	if m.ordered && len(symbols) >= longPiece {
		m.mergeByRank(symbols)
		return appendIDs(dst, symbols)
	}
	for i := range symbols {
		queue = m.push(queue, symbols, int32(i))
	}
	for len(queue) > 0 {
		var top uint64
		top, queue = queue.pop()
		at := int32(uint32(top))
		s := &symbols[at]
		if s.id < 0 || s.next < 0 {
			continue
		}
		right := &symbols[s.next]
		merged, ok := m.merges[pair(s.id, right.id)]
		if !ok || merged>>32 != top>>32 {
			continue // stale: the pair at this place has changed
		}
		s.id, right.id = int32(uint32(merged)), -1
		if s.next = right.next; s.next >= 0 {
			symbols[s.next].prev = at
			queue = m.push(queue, symbols, at)
		}
		if s.prev >= 0 {
			queue = m.push(queue, symbols, s.prev)
		}
	}
	return appendIDs(dst, symbols)
}

func appendIDs(dst []int32, symbols []symbol) []int32 {
	for _, s := range symbols {
		if s.id >= 0 {
			dst = append(dst, s.id)
		}
	}
	return dst
}

// mergeByRank merges the symbols of a long piece in time linear in its length. A merge makes only pairs of higher ranks
// (ordered), so all merges of one rank are done together, from left to right. The queue holds ranks, which are few;
// that of append holds places.
func (m *bpe) mergeByRank(symbols []symbol) {
	var queue heap
	places := map[uint64][]int32{} // by rank: left symbols of pairs, some of them stale
	push := func(at int32) {
		s := symbols[at]
		if s.next < 0 {
			return
		}
		merged, ok := m.merges[pair(s.id, symbols[s.next].id)]
		if !ok {
			return
		}
		list := places[merged>>32]
		if len(list) == 0 {
			queue = queue.push(merged >> 32)
		}
		places[merged>>32] = append(list, at)
	}
	for i := range symbols {
		push(int32(i))
	}
	for len(queue) > 0 {
		var rank uint64
		rank, queue = queue.pop()
		list := places[rank]
		delete(places, rank)
		slices.Sort(list) // few runs: each rank before has added places in order
		for _, at := range list {
			s := &symbols[at]
			if s.id < 0 || s.next < 0 {
				continue
			}
			right := &symbols[s.next]
			merged, ok := m.merges[pair(s.id, right.id)]
			if !ok || merged>>32 != rank {
				continue // stale: the pair at this place has changed
			}
			s.id, right.id = int32(uint32(merged)), -1
			if s.prev >= 0 {
				push(s.prev)
			}
			if s.next = right.next; s.next >= 0 {
				symbols[s.next].prev = at
				push(at)
			}
		}
	}
}

// inOrder reports whether every merge ranks before the merges of its result.
func (m *bpe) inOrder() bool {
	used := map[int32]uint64{} // by id: the lowest rank of its merges
	for p, merged := range m.merges {
		for _, id := range []int32{int32(uint32(p >> 32)), int32(uint32(p))} {
			if rank, ok := used[id]; !ok || merged>>32 < rank {
				used[id] = merged >> 32
			}
		}
	}
	for _, merged := range m.merges {
		if rank, ok := used[int32(uint32(merged))]; ok && rank <= merged>>32 {
			return false
		}
	}
	return true
}

// spelled reports whether all bytes of a character have an id.
func (m *bpe) spelled(char string) bool {
	for i := range len(char) {
		if m.bytes[char[i]] < 0 {
			return false
		}
	}
	return true
}

// addChars adds a token of a model of characters, where ▁ is a space and <0x0A> a byte. It returns the token's text.
func (m *bpe) addChars(token string, id int32) string {
	m.reach = max(m.reach, len(token))
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			m.bytes[b] = id
			return string([]byte{byte(b)})
		}
	}
	if r, n := utf8.DecodeRuneInString(token); n == len(token) && n > 0 {
		m.chars[r] = id
	}
	return strings.ReplaceAll(token, "▁", " ")
}

// least counts the bytes that have an id: a token covers at most reach of them.
func (m *bpe) least(piece string) int {
	if len(piece) <= m.reach {
		return 0
	}
	n := 0
	if m.chars == nil {
		for i := range len(piece) {
			if m.bytes[piece[i]] >= 0 {
				n++
			}
		}
	} else {
		for _, r := range piece {
			if _, ok := m.chars[r]; ok && r != utf8.RuneError {
				n += utf8.RuneLen(r)
			}
		}
	}
	return (n + m.reach - 1) / m.reach
}

func (m *bpe) appendByte(dst []int32, b byte) []int32 {
	if id := m.bytes[b]; id >= 0 {
		return append(dst, id)
	}
	if m.unknown >= 0 {
		return append(dst, m.unknown)
	}
	return dst
}

// push queues the merge of a symbol with the next one, if there is one.
func (m *bpe) push(queue heap, symbols []symbol, at int32) heap {
	s := symbols[at]
	if s.next < 0 {
		return queue
	}
	merged, ok := m.merges[pair(s.id, symbols[s.next].id)]
	if !ok {
		return queue
	}
	return queue.push(merged>>32<<32 | uint64(at))
}

func (m *bpe) text(token string, first bool) string {
	if first && m.dummy {
		return strings.TrimPrefix(token, " ")
	}
	return token
}

// heap is a binary min-heap. container/heap would allocate for every element.
type heap []uint64

func (h heap) push(v uint64) heap {
	h = append(h, v)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2] > v {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = v
	return h
}

func (h heap) pop() (uint64, heap) {
	top, n := h[0], len(h)-1
	v := h[n]
	h = h[:n]
	i := 0
	for 2*i+1 < n {
		c := 2*i + 1
		if c+1 < n && h[c+1] < h[c] {
			c++
		}
		if h[c] >= v {
			break
		}
		h[i] = h[c]
		i = c
	}
	if n > 0 {
		h[i] = v
	}
	return top, h
}

// byteOf maps a character of a byte-level token to its byte. Printable characters of Latin-1 stand for themselves,
// all other bytes are numbered from U+0100 on (Radford et al. 2019, encoder.py).
var byteOf = func() map[rune]byte {
	m := map[rune]byte{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !('!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r && r <= 0xff) {
			r = next
			next++
		}
		m[r] = byte(b)
	}
	return m
}()

// rawBytes returns the bytes that a byte-level token stands for. ok is false if it has characters of another
// alphabet.
func rawBytes(token string) (string, bool) {
	b := make([]byte, 0, len(token))
	for _, r := range token {
		v, ok := byteOf[r]
		if !ok || r == utf8.RuneError {
			return "", false
		}
		b = append(b, v)
	}
	return string(b), true
}
