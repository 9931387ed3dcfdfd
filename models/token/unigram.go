package token

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// unigram takes the tokens of largest total log-probability (Kudo 2018, arXiv:1804.10959), as SentencePiece and Hugging
// Face's tokenizers do. Spaces are ▁, which also begins every piece; a piece is divided before each ▁.
type unigram struct {
	ids     map[string]int32
	scores  []float64
	reach   int // bytes of the longest token
	unknown int32
	lowest  float64 // score of an unknown character
	split   bool    // divide before every ▁
}

// meta is the mark of a space.
const meta = "▁"

// unknownPenalty is what an unknown character scores below the least token (kUnkPenalty of SentencePiece).
const unknownPenalty = 10

func (m *unigram) append(dst []int32, piece string) []int32 {
	s := strings.ReplaceAll(piece, " ", meta)
	if !strings.HasPrefix(s, meta) {
		s = meta + s
	}
	for s != "" {
		n := len(s)
		if m.split {
			if i := strings.Index(s[len(meta):], meta); i >= 0 && strings.HasPrefix(s, meta) {
				n = i + len(meta)
			}
		}
		dst = m.best(dst, s[:n])
		s = s[n:]
	}
	return dst
}

// best is Viterbi's algorithm over the positions of s. Neighbouring unknown characters become one id.
func (m *unigram) best(dst []int32, s string) []int32 {
	type node struct {
		score float64
		from  int
		id    int32
	}
	ends := make([]node, len(s)+1)
	for i := range ends {
		ends[i].from = -1
	}
	for at := 0; at < len(s); {
		_, size := utf8.DecodeRuneInString(s[at:])
		single := false
		better := func(to int, score float64, id int32) {
			if score += ends[at].score; ends[to].from < 0 || score > ends[to].score {
				ends[to] = node{score, at, id}
			}
		}
		for to := at + size; to <= min(len(s), at+m.reach); to++ {
			if to < len(s) && !utf8.RuneStart(s[to]) {
				continue
			}
			if id, ok := m.ids[s[at:to]]; ok {
				better(to, m.scores[id], id)
				single = single || to == at+size
			}
		}
		if !single {
			better(at+size, m.lowest, m.unknown)
		}
		at += size
	}
	begin := len(dst)
	for at := len(s); at > 0; at = ends[at].from {
		if id := ends[at].id; id != m.unknown || len(dst) == begin || dst[len(dst)-1] != m.unknown {
			dst = append(dst, id)
		}
	}
	slices.Reverse(dst[begin:])
	return dst
}

func (m *unigram) least(string) int { return 1 } // a run of unknown characters is one id

func (m *unigram) text(token string, first bool) string {
	s := strings.ReplaceAll(token, meta, " ")
	if first {
		return strings.TrimPrefix(s, " ")
	}
	return s
}

// scored is the vocabulary of a unigram model, [["token", −3.5], …] by id.
type scored struct {
	tokens []string
	scores []float64
}

func (v *scored) UnmarshalJSON(b []byte) error {
	var list [][2]json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for id, p := range list {
		var token string
		var score float64
		if err := json.Unmarshal(p[0], &token); err != nil {
			return err
		}
		if err := json.Unmarshal(p[1], &score); err != nil {
			return fmt.Errorf("model.vocab: score of %q, id %d: %w", token, id, err)
		}
		v.tokens, v.scores = append(v.tokens, token), append(v.scores, score)
	}
	return nil
}

// unigrams makes the model of a vocabulary. metaspace is the pre-tokenizer that puts ▁ into the text.
func (t *Tokenizer) unigrams(v scored, unknown *int, metaspace *component) error {
	if metaspace == nil || unknown == nil || *unknown < 0 || *unknown >= len(v.tokens) {
		return fmt.Errorf("model Unigram without unk_id or Metaspace is not supported: %w", ErrFormat)
	}
	m := &unigram{ids: make(map[string]int32, len(v.tokens)), scores: v.scores, unknown: int32(*unknown),
		lowest: math.Inf(1), split: metaspace.SplitMarks == nil || *metaspace.SplitMarks}
	for id, s := range v.tokens {
		m.ids[s] = int32(id)
		m.lowest, m.reach = min(m.lowest, v.scores[id]), max(m.reach, len(s))
	}
	m.lowest -= unknownPenalty
	t.model = m
	return nil
}

// charsMap is a table of SentencePiece that replaces characters: a double array (darts-clone), which leads from the
// bytes of a text to a place in the replacements.
type charsMap struct {
	units        []uint32
	replacements string
}

func parseCharsMap(s string) (*charsMap, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err == nil && (len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4)) {
		err = fmt.Errorf("%d bytes", len(b))
	}
	if err != nil {
		return nil, fmt.Errorf("normalizer Precompiled: %w: %w", err, ErrFormat)
	}
	size := int(binary.LittleEndian.Uint32(b))
	m := &charsMap{units: make([]uint32, size/4), replacements: string(b[4+size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4+4*i:])
	}
	return m, nil
}

// shortest returns the replacement of the shortest beginning of s that has one. The reference then takes it for all
// of s.
func (m *charsMap) shortest(s string) (string, bool) {
	at := uint32(0)
	step := func() bool { // to the children of a unit
		if int(at) >= len(m.units) {
			return false
		}
		u := m.units[at]
		at ^= u >> 10 << (u & (1 << 9) >> 6)
		return int(at) < len(m.units)
	}
	if !step() {
		return "", false
	}
	for i := range len(s) {
		at ^= uint32(s[i])
		if s[i] == 0 || int(at) >= len(m.units) || m.units[at]&(1<<31|0xff) != uint32(s[i]) {
			return "", false
		}
		leaf := m.units[at]>>8&1 == 1
		if !step() {
			return "", false
		}
		if leaf {
			from := int(m.units[at] & (1<<31 - 1))
			if from > len(m.replacements) {
				return "", false
			}
			text, _, _ := strings.Cut(m.replacements[from:], "\x00")
			return text, true
		}
	}
	return "", false
}

// apply replaces grapheme clusters of less than six bytes as a whole if the table has them, and otherwise single
// characters, as Hugging Face's normalizer Precompiled does.
func (m *charsMap) apply(s string) string {
	var b strings.Builder
	for state := -1; s != ""; {
		var cluster string
		cluster, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(cluster) < 6 {
			if text, ok := m.shortest(cluster); ok {
				b.WriteString(text)
				continue
			}
		}
		for cluster != "" {
			_, n := utf8.DecodeRuneInString(cluster)
			one := cluster[:n]
			if text, ok := m.shortest(one); ok {
				one = text
			}
			b.WriteString(one)
			cluster = cluster[n:]
		}
	}
	return b.String()
}
