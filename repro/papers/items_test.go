package papers

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
)

func TestItemsHaveTheirOwnNames(t *testing.T) {
	seen := map[string]bool{}
	for _, it := range Items() {
		if it.ID == "" || it.Paper == "" || it.Title == "" || it.Run == nil || it.Version < 1 || seen[it.ID] {
			t.Errorf("item %+v", it)
		}
		seen[it.ID] = true
	}
	if !seen[Smallest] {
		t.Error("no item " + Smallest)
	}
}

// Two classes on opposite sides: the product of features finds them, the conjugated one of CRT eq 1 finds the others.
func TestVoter(t *testing.T) {
	x := dense.MustFromRows([][]float64{{1, 0}, {1.2, .1}, {-1, 0}, {-1.1, -.1}})
	y := []int{0, 0, 1, 1}
	for _, f := range []family.Family{family.Trig{}, family.GERF{A: .05i, S: -1}} {
		m, err := randfeat.New[float64](randfeat.Spec{Family: f, Dim: 2, M: 512, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, conjugated := range []bool{false, true} {
			v, err := newVoter(m, x, y, 2, conjugated)
			if err != nil {
				t.Fatal(err)
			}
			want := 1.0
			if conjugated {
				want = 0
			}
			if got, err := v.accuracy(x, y); err != nil || got != want {
				t.Errorf("%s, conjugated %v: accuracy %g, want %g (%v)", f.Name(), conjugated, got, want, err)
			}
		}
	}
	if got := exactAccuracy(&table{x: x, y: y, classes: 2}, x, y, 1); got != 1 {
		t.Errorf("exact: %g", got)
	}
}

func TestShrinkKeepsTheMean(t *testing.T) {
	image := make([]byte, 28*28)
	want := 0.0
	for i := range image {
		image[i] = byte(i * 7)
		want += float64(image[i]) / (28 * 28 * 255)
	}
	got := make([]float64, 64)
	shrink(got, image)
	if mean, _ := meanSD(got); math.Abs(mean-want) > 1e-12 {
		t.Errorf("mean %g, want %g", mean, want)
	}
}

func TestWordsAreRanks(t *testing.T) {
	rows := [][]string{{"b", "1.5"}, {"a", "2"}, {"b", "-1"}}
	if v, words := column(rows, 0, false); words != 2 || v[0] != 1 || v[1] != 0 || v[2] != 1 {
		t.Errorf("words %v, %d", v, words)
	}
	if v, words := column(rows, 1, false); words != 0 || v[0] != 1.5 || v[2] != -1 {
		t.Errorf("numbers %v, %d", v, words)
	}
}
