package models

import (
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var needleTokens = flag.Int("needles", 0, "hide codes in texts of so many tokens of WikiText-2, and ask SmolLM2 for them")

// Compaction loses single facts. Eight four-digit codes are hidden in a text, and a digit counts as found if it is the
// most probable token after the correct digits before it. docs/models.md has the shares.
func TestNeedles(t *testing.T) {
	if *needleTokens == 0 {
		t.Skip("run with -needles 2048")
	}
	m, err := Open(filepath.Join(os.Getenv("RANDFEAT_MODELS"), "smollm2.gguf"), Options{})
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	f, err := os.Open(filepath.Join(os.Getenv("RANDFEAT_DATA"), "wikitext2", "wiki.test.tokens.gz"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	text, ask := m.Decoder.hide(m.Tokens.EncodeText(nil, string(b[:1<<18])), *needleTokens, 0)
	full, err := m.Decoder.keeping(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	var share [2]float64
	for i, factor := range []int{1, 8} {
		s := full.Fork()
		if factor > 1 {
			if err := s.Compact(factor); err != nil {
				t.Fatal(err)
			}
		}
		right, digits := 0, 0
		for _, q := range ask {
			n, of, err := s.Fork().answers(t.Context(), q[0], q[1])
			if err != nil {
				t.Fatal(err)
			}
			right, digits = right+n, digits+of
		}
		share[i] = float64(right) / float64(digits)
		t.Logf("1/%d of the keys: %.3f of the digits", factor, share[i])
	}
	if !(share[0] > 0.5 && share[1] <= share[0]+0.1) {
		t.Errorf("shares %v", share)
	}
}

// needles are the owners of the hidden codes.
var needles = []string{"Lisbon", "Walter", "the garden", "the library", "Helsinki", "the blue car", "Margaret",
	"the old bridge"}

// hide inserts the codes into a text at even distances and returns questions with their answers. The text keeps its
// length: its end is cut off.
func (d *Decoder) hide(ids []int32, context int, seed uint64) (text []int32, ask [][2][]int32) {
	draw := rand.New(rand.NewPCG(seed, 5))
	var facts [][]int32
	rest := context
	for _, name := range needles {
		code := fmt.Sprintf("%04d", draw.IntN(10000))
		fact := d.tokens.EncodeText(nil, fmt.Sprintf(" The secret code of %s is %s. ", name, code))
		facts, rest = append(facts, fact), rest-len(fact)
		ask = append(ask, [2][]int32{d.tokens.EncodeText(nil, fmt.Sprintf("\n\nThe secret code of %s is", name)),
			d.tokens.EncodeText(nil, " "+code)})
	}
	from := 0
	for i, fact := range facts {
		to := (2*i + 1) * rest / (2 * len(facts))
		text = append(append(text, ids[from:to]...), fact...)
		from = to
	}
	return append(text, ids[from:rest]...), ask
}

// answers counts the tokens of an answer that contain digits (of) and those of them that are the most probable token
// after the correct tokens before them (right).
func (s *Session) answers(ctx context.Context, ask, answer []int32) (right, of int, err error) {
	if err := s.Read(ctx, ask); err != nil {
		return 0, 0, err
	}
	for _, id := range answer {
		if strings.ContainsAny(s.decoder.tokens.Stream().Next(id), "0123456789") {
			of++
			best := 0
			for i, x := range s.next {
				if x > s.next[best] {
					best = i
				}
			}
			if int32(best) == id {
				right++
			}
		}
		if err := s.Read(ctx, []int32{id}); err != nil {
			return 0, 0, err
		}
	}
	return right, of, nil
}
