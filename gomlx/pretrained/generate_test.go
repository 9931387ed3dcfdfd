package pretrained

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Logits in generation, from states, are those of the whole text read at once, by all architectures and attentions,
// and the states of converted models do not grow with the text.
func TestGenerationEqualsRecomputation(t *testing.T) {
	text := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7}
	for _, name := range folders[1:] {
		for _, how := range []struct {
			family        string
			window, sinks int
		}{{"", 0, 0}, {"oprf", 0, 0}, {"adaptive", 3, 2}, {"dark", 2, 0}, {"positive", 0, 5},
			{"centroid", 3, 2}, {"centroid", 0, 0}, {"none", 1, 1}} {
			t.Run(fmt.Sprintf("%s %s %d %d", name, how.family, how.window, how.sinks), func(t *testing.T) {
				m := load(t, filepath.Join("testdata", name))
				if how.family != "" {
					ids, _ := reference(t, name)
					convertAll(t, m, ids, how.family, how.window, how.sinks)
				}
				all := [][]int32{text}
				want := tensors.MustCopyFlatData[float32](call(t, m, all, ones(all), func(s *model.Scope,
					o Output) []*graph.Node {
					return []*graph.Node{m.Logits(s, o.Hidden)}
				})[0])
				bytes := map[int]int{}
				for _, prompt := range []int{1, 6} {
					at := prompt
					w, err := m.Generate(open(), text[:prompt], len(text)-prompt, func(got []float32) int32 {
						for i, x := range got {
							w := want[(at-1)*m.Vocabulary+i]
							if math.Abs(float64(x-w)) > 1e-4*(1+math.Abs(float64(w))) {
								t.Fatalf("prompt of %d: after %d tokens logit %d is %g, recomputed %g", prompt, at,
									i, x, w)
							}
						}
						at++
						return text[at-1]
					})
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(w.Tokens, text[prompt:]) {
						t.Errorf("%v is not what was chosen", w.Tokens)
					}
					bytes[len(text)-1] = w.StateBytes
				}
				w, err := m.Generate(open(), text[:2], 1, func([]float32) int32 { return 0 })
				if err != nil {
					t.Fatal(err)
				}
				if constant := w.StateBytes == bytes[len(text)-1]; constant != (how.family != "") {
					t.Errorf("a state of %d bytes for 2 tokens, of %d for %d", w.StateBytes, bytes[len(text)-1],
						len(text)-1)
				}
			})
		}
	}
}

func TestGenerationEnds(t *testing.T) {
	m := load(t, "testdata/llama")
	m.End = []int32{7, 10}
	next := int32(5)
	w, err := m.Generate(open(), []int32{1}, 9, func([]float32) int32 { next++; return next - 1 })
	if err != nil || !slices.Equal(w.Tokens, []int32{5, 6}) {
		t.Errorf("%v after the end of the text at 7: %v", w.Tokens, err)
	}
	first := func([]float32) int32 { return 0 }
	for _, c := range []struct {
		folder string
		prompt []int32
		n      int
		says   string
	}{
		{"llama", nil, 3, "no tokens"},
		{"llama", []int32{1, 11}, 3, "id 11"},
		{"llama", []int32{1, 2, 3}, 15, "positions for 16"},
		{"bert", []int32{1, 2, 3}, 2, "does not generate"},
	} {
		_, err := load(t, filepath.Join("testdata", c.folder)).Generate(open(), c.prompt, c.n, first)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error with %q, got %v", c.says, err)
		}
	}
	if _, err := load(t, "testdata/gpt2").Generate(open(), []int32{1, 2, 3}, 14, first); err != nil {
		t.Errorf("16 positions for a text of 17 tokens, the last of which is not read: %v", err)
	}
}
