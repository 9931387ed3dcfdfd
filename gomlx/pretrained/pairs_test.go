package pretrained

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// Cosines of pairs do not depend on the padding behind texts; a model has the ranks of itself, and none of a decoder.
func TestPairs(t *testing.T) {
	m := load(t, filepath.Join("testdata", "bert"))
	m.dir = tokenizing(t, "bert", wordPieces()).dir
	pairs, scored, err := ReadPairs(strings.NewReader("the cat\tthe cats sat.\t1\nsat sat\tcat.\t3\n" +
		"cats\tthe the the cat\t2\nsat.\tthe\t5\ncat cat\tsat the cat.\t4\n"))
	if err != nil || !scored || len(pairs) != 5 || pairs[3] != (Pair{[2]string{"sat.", "the"}, 5}) {
		t.Fatalf("%v, %v, %v", pairs, scored, err)
	}
	other := load(t, filepath.Join("testdata", "bert"))
	other.dir = m.dir
	convertAll(t, other, [][]int32{{1, 3, 4, 5, 2}}, "positive", 0, 0)
	var texts []string
	for _, p := range pairs {
		texts = append(texts, p.Texts[:]...)
	}
	for _, m := range []*Model{m, other} {
		short, cut, err := m.embed(open(), texts, 8)
		if err != nil || cut != 0 {
			t.Fatal(cut, err)
		}
		long, _, err := m.embed(open(), texts, 12)
		if err != nil {
			t.Fatal(err)
		}
		for i := range short {
			for j, x := range short[i] {
				if math.Abs(float64(x-long[i][j])) > 1e-5 {
					t.Errorf("%q: %v, with more padding %v", texts[i], short[i], long[i])
					break
				}
			}
		}
	}
	same, err := ComparePairs(open(), m, m, pairs, scored, 6)
	if err != nil || same.Rank != 1 || same.Cut != 1 || same.Score[0] != same.Score[1] || same.Lost != [2]float64{} {
		t.Errorf("beside itself %+v, %v", same, err)
	}
	if differ, err := ComparePairs(open(), m, other, pairs, false, 8); err != nil || differ.Score != [2]float64{} {
		t.Errorf("without scores %+v, %v", differ, err)
	}
	gpt := load(t, filepath.Join("testdata", "gpt2"))
	if _, err := ComparePairs(open(), gpt, gpt, pairs, scored, 8); err == nil {
		t.Error("decoders have no embeddings")
	}
	for _, bad := range []string{"a\tb\t1\nc\td\n", "a\tb\nc\td\t1\n", "a\n", "a\tb\tmuch\n"} {
		if _, _, err := ReadPairs(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ComparePairs(open(), m, m, pairs, scored, 17); err == nil {
		t.Error("texts longer than the positions")
	}
}
