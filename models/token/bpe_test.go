package token

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// simple is byte-pair encoding as it is defined: the pair of the lowest rank, the leftmost of them, again and again.
func simple(m *bpe, piece string) []int32 {
	var ids []int32
	for _, b := range []byte(piece) {
		ids = append(ids, m.bytes[b])
	}
	for {
		at, best := -1, uint64(0)
		for i := range len(ids) - 1 {
			if merged, ok := m.merges[pair(ids[i], ids[i+1])]; ok && (at < 0 || merged>>32 < best>>32) {
				at, best = i, merged
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = int32(uint32(best))
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// randomPairs makes a model of the letters a, b and c with random merges, trained in order or in a random order.
func randomPairs(r *rand.Rand, merges int, shuffled bool) *bpe {
	m := &bpe{merges: map[uint64]uint64{}, unknown: -1}
	for b := range m.bytes {
		m.bytes[b] = -1
	}
	text, ids := []string{"a", "b", "c"}, map[string]int32{"a": 0, "b": 1, "c": 2}
	for i, s := range text {
		m.bytes[s[0]] = int32(i)
	}
	ranks := make([]int, merges)
	for i := range ranks {
		ranks[i] = i
	}
	if shuffled {
		r.Shuffle(merges, func(i, j int) { ranks[i], ranks[j] = ranks[j], ranks[i] })
	}
	for i := range merges {
		a, b := r.IntN(len(text)), r.IntN(len(text))
		joined := text[a] + text[b]
		id, ok := ids[joined] // the same token may come from two merges
		if !ok {
			id = int32(len(text))
			text, ids[joined] = append(text, joined), id
		}
		m.merges[pair(int32(a), int32(b))] = uint64(ranks[i])<<32 | uint64(id)
		m.reach = max(m.reach, len(joined))
	}
	m.ordered = m.inOrder()
	return m
}

// Long pieces get the ids of the definition, whatever the order of merges in the file.
func TestLongPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	byRank := 0
	for round := range 60 {
		m := randomPairs(r, 1+r.IntN(30), round%3 == 0)
		n := longPiece + r.IntN(200)
		if m.ordered {
			byRank++
		}
		var b strings.Builder
		for b.Len() < n {
			b.WriteString(strings.Repeat(string("abc"[r.IntN(3)]), 1+r.IntN(1+round%9*5)))
		}
		if got, want := m.append(nil, b.String()), simple(m, b.String()); !slices.Equal(got, want) {
			t.Fatalf("round %d, ordered %v: %d ids, want %d", round, m.ordered, len(got), len(want))
		} else if least := m.least(b.String()); least > len(want) {
			t.Fatalf("round %d: at least %d ids, there are %d", round, least, len(want))
		}
	}
	if byRank < 10 || byRank > 50 {
		t.Errorf("%d of 60 models are in order", byRank)
	}
	for _, name := range []string{"smollm", "llama3"} {
		m := open(t, name).model.(*bpe)
		if !m.ordered {
			t.Errorf("the merges of %s are not in order", name)
		}
		for _, part := range []string{" ", "the ", "aab"} {
			piece := strings.Repeat(part, 2000/len(part))
			if got, want := m.append(nil, piece), simple(m, piece); !slices.Equal(got, want) {
				t.Errorf("%s, %.10q…: %d ids, want %d", name, piece, len(got), len(want))
			}
		}
	}
}

// EncodeMost gives the ids of Encode if they are at most so many, and else says so.
func TestEncodeMost(t *testing.T) {
	texts := append(readLines[string](t, "testdata/texts.jsonl"), strings.Repeat(" ", 3000), strings.Repeat("a b", 500))
	for _, name := range []string{"smollm", "llama3", "bert"} {
		tok := open(t, name)
		for _, text := range texts {
			want := tok.Encode([]int32{9}, text)
			n := len(want) - 1
			for _, most := range []int{n + 1, n, n - 1, n / 2, 0} {
				got, ok := tok.EncodeMost([]int32{9}, text, most)
				if ok != (n <= most) || ok && !slices.Equal(got, want) {
					t.Errorf("%s, %.20q: %v for at most %d of %d", name, text, ok, most, n)
				}
			}
		}
	}
}

// A text that is much too long costs no more than one that fits.
func TestEncodeMostIsBounded(t *testing.T) {
	tok := open(t, "llama3")
	for _, part := range []string{" ", "a", "a b ", "\n", "é"} {
		text := strings.Repeat(part, 4<<20/len(part))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, ok := tok.EncodeMost(nil, text, 1000)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; ok || taken > 1<<20 {
			t.Errorf("%q: %v, %d bytes of memory", part, ok, taken)
		}
	}
}

// gemma is a tokenizer of characters with bytes for the others, as Gemma's; prepend adds Llama 2's ▁ before a text.
func gemma(t *testing.T, prepend bool) (tok *Tokenizer, vocab map[string]int32, merges [][2]string) {
	t.Helper()
	vocab = map[string]int32{"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = int32(len(vocab))
	}
	for _, r := range "▁abcdefghijklmnopqrstuvwxyz.,é日" {
		vocab[string(r)] = int32(len(vocab))
	}
	for _, m := range []string{"▁ ▁", "▁▁ ▁▁", "t h", "▁ th", "▁th e", "a b", "b c", "ab c", "a bc", "é é"} {
		a, b, _ := strings.Cut(m, " ")
		merges = append(merges, [2]string{a, b})
		if _, ok := vocab[a+b]; !ok {
			vocab[a+b] = int32(len(vocab))
		}
	}
	replace := map[string]any{"type": "Replace", "pattern": map[string]string{"String": " "}, "content": "▁"}
	normalizer := replace
	if prepend {
		normalizer = map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "▁"}, replace}}
	}
	bos := map[string]any{"id": "<bos>", "ids": []int{2}, "tokens": []string{"<bos>"}}
	b, err := json.Marshal(map[string]any{"normalizer": normalizer,
		"added_tokens": []any{map[string]any{"id": 1, "content": "<eos>", "special": true},
			map[string]any{"id": 2, "content": "<bos>", "special": true}},
		"pre_tokenizer": map[string]any{"type": "Split", "pattern": map[string]string{"String": " "},
			"behavior": "MergedWithPrevious"},
		"post_processor": map[string]any{"type": "TemplateProcessing", "special_tokens": map[string]any{"<bos>": bos},
			"single": []any{map[string]any{"SpecialToken": map[string]string{"id": "<bos>"}},
				map[string]any{"Sequence": map[string]string{"id": "A"}}}},
		"model": map[string]any{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
			"vocab": vocab, "merges": merges}})
	if err != nil {
		t.Fatal(err)
	}
	if tok, err = ParseJSON(b); err != nil {
		t.Fatal(err)
	}
	return tok, vocab, merges
}

// Tokenizers of characters merge as defined, spell unknown characters in bytes, and give every text back.
func TestCharacters(t *testing.T) {
	for _, prepend := range []bool{false, true} {
		tok, vocab, merges := gemma(t, prepend)
		for _, text := range []string{"", "the abc", " the", "  the    abcabc\n\nx", "日本 🙂 éé", "\xff\u2581", "abcb" +
			strings.Repeat(" the abc", 300), "<0x41>A"} {
			var parts []string
			normal := strings.ReplaceAll(text, " ", "▁")
			if prepend && text != "" {
				normal = "▁" + normal
			}
			for i, r := range normal {
				char := normal[i : i+max(1, utf8.RuneLen(r))]
				if r == utf8.RuneError {
					char = normal[i : i+1]
				}
				if _, ok := vocab[char]; ok {
					parts = append(parts, char)
					continue
				}
				for _, b := range []byte(char) {
					parts = append(parts, fmt.Sprintf("<0x%02X>", b))
				}
			}
			for merged := true; merged; {
				merged = false
				for _, m := range merges {
					if i := slices.IndexFunc(parts, func(s string) bool { return s == m[0] }); i < 0 {
						continue
					}
					for i := 0; i+1 < len(parts) && !merged; i++ {
						if parts[i] == m[0] && parts[i+1] == m[1] {
							parts, merged = slices.Replace(parts, i, i+2, m[0]+m[1]), true
						}
					}
					if merged {
						break
					}
				}
			}
			var want []int32
			for _, p := range parts {
				want = append(want, vocab[p])
			}
			got := tok.Encode(nil, text)
			if !slices.Equal(got, want) {
				t.Errorf("prepend %v, %.30q: %v, want %v", prepend, text, got, want)
			}
			back, plain := tok.Decode(tok.Wrap(nil, got, 0)), strings.ReplaceAll(text, "▁", " ")
			if utf8.ValidString(text) && back != plain {
				t.Errorf("prepend %v: %.30q comes back as %.30q", prepend, text, back)
			}
			for _, most := range []int{len(want) - 1, len(want)} {
				if _, ok := tok.EncodeMost(nil, text, most); ok != (most == len(want)) {
					t.Errorf("%.30q: %d tokens, at most %d: %v", text, len(want), most, ok)
				}
			}
		}
	}
}
