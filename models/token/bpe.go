package token

import "unicode/utf8"

// bpe is byte-level byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909; Radford et al. 2019). A piece begins
// as its bytes. Neighbours are merged, the pair of the lowest rank first and among equal ranks the leftmost, until
// no pair has a merge.
type bpe struct {
	bytes  [256]int32        // id of each byte; −1: none
	merges map[uint64]uint64 // pair of ids → rank<<32 | id of the merged token
	whole  map[string]int32  // pieces that are tokens and skip merging; nil: none
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

// append encodes a piece. The queue holds rank<<32 | place of the left symbol, so its smallest element is the next
// merge. Entries are not removed when a merge makes them stale; they are recognised by their rank when they come up.
func (m *bpe) append(dst []int32, piece string) []int32 {
	if id, ok := m.whole[piece]; ok {
		return append(dst, id)
	}
	if len(piece) == 1 {
		return m.appendByte(dst, piece[0])
	}
	var symbolSpace [smallPiece]symbol
	var heapSpace [2 * smallPiece]uint64
	symbols, queue := symbolSpace[:0], heap(heapSpace[:0])
	for i := range len(piece) {
		id := m.bytes[piece[i]]
		if id < 0 {
			if id = m.unknown; id < 0 {
				continue
			}
			if n := len(symbols); n > 0 && symbols[n-1].id == id {
				continue // neighbouring unknown bytes become one unknown token
			}
		}
		n := int32(len(symbols))
		if n > 0 {
			symbols[n-1].next = n
		}
		symbols = append(symbols, symbol{id, n - 1, -1})
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
	for _, s := range symbols {
		if s.id >= 0 {
			dst = append(dst, s.id)
		}
	}
	return dst
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

func (m *bpe) text(token string, _ bool) string { return token }

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
