package papers

import (
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/theory"
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

func TestConformity(t *testing.T) {
	for _, z := range []float64{0, .1, 1, 5} { // 0F1(; 1/2; z²/4) = cosh z
		if got, want := hypergeometric01(.5, z*z/4), math.Cosh(z); math.Abs(got/want-1) > 1e-14 {
			t.Errorf("z = %g: %g, want %g", z, got, want)
		}
	}
	// d = 1, rows 2 and −2: their sum is 0. Rows 1 and 1: cosh 2v.
	if got := conformity(dense.MustFromRows([][]float64{{2}, {-2}}), 3); got != 1 {
		t.Errorf("opposite rows: %g, want 1", got)
	}
	if got := conformity(dense.MustFromRows([][]float64{{1}, {1}}), 1.5); math.Abs(got-math.Cosh(3)) > 1e-12 {
		t.Errorf("equal rows: %g, want %g", got, math.Cosh(3))
	}
}

func TestAtAngle(t *testing.T) {
	x, y := make([]float64, 7), make([]float64, 7)
	for _, theta := range []float64{0, .5, 2, math.Pi} {
		atAngle(x, y, 1.5, theta, 3)
		if got := dense.Dot(x, y) / 2.25; math.Abs(got-math.Cos(theta)) > 1e-12 ||
			math.Abs(dense.Norm2(y)-2.25) > 1e-12 {
			t.Errorf("θ = %g: cosine %g, |y|² = %g", theta, got, dense.Norm2(y))
		}
	}
}

func TestDistances(t *testing.T) {
	// A fourth of the mass moves by two classes; one estimate is negative and counts as zero.
	w, ks, negative := distances([]float64{1, 2, 1, 0}, []float64{0, 2, 2, -1})
	if math.Abs(w-.5) > 1e-15 || math.Abs(ks-.25) > 1e-15 || negative != .25 {
		t.Errorf("Wasserstein %g, want 0.5; KS %g, want 0.25; negative %g, want 0.25", w, ks, negative)
	}
}

// What the measuring functions say of a map whose errors are known: trigonometric, closed form.
func TestMeasuredAgainstClosedForm(t *testing.T) {
	x, y := normals(6, 4, .5, 1), normals(6, 4, .5, 2)
	spec := randfeat.Spec{Family: family.Trig{}, Dim: 4, M: 64}
	want := make([]float64, x.Rows)
	for i := range want {
		m, err := theory.Of(spec.Kernel, spec.Family, nil, 1, x.Row(i), y.Row(i))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = math.Exp(m.LogRelVar())
	}
	b, err := singles(spec, x, y, want, 20, 40, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r := ratioOf(b); math.Abs(r.Ratio-1) > 5*r.SE || r.SE > .02 {
		t.Errorf("one projection: measured / closed form %.4f ± %.4f", r.Ratio, r.SE)
	}
	s, err := measurePairs(spec, x, y, 800, 20, 4)
	if err != nil {
		t.Fatal(err)
	}
	mean, _ := meanSD(want)
	for i := range s.batch {
		s.batch[i] /= mean / 64
	}
	if r := ratioOf(s.batch); math.Abs(r.Ratio-1) > 5*r.SE || r.SE > .06 {
		t.Errorf("64 projections: measured / closed form %.4f ± %.4f", r.Ratio, r.SE)
	}
}
