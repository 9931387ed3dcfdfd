package crossover

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/rng"
)

func TestCrossoverLengths(t *testing.T) {
	if got := Lengths(128, 1024); !slices.Equal(got, []int{128, 176, 256, 368, 512, 720, 1024}) {
		t.Errorf("%v", got)
	}
	if got := Lengths(1, 4); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("%v", got)
	}
}

// curves are measurements of a·L and b·L² with noise.
func curves(a, b, noise float64) CrossoverResult {
	var r CrossoverResult
	z := make([]float64, 2)
	src := rng.Stream(3, 1)
	for _, l := range Lengths(128, 8192) {
		p := CrossoverPoint{Length: l}
		for range 15 {
			rng.Normals(z, src)
			x := float64(l)
			p.LinearRuns = append(p.LinearRuns, a*x*math.Exp(noise*z[0]))
			p.ExactRuns = append(p.ExactRuns, b*x*x*math.Exp(noise*z[1]))
		}
		p.Sum()
		r.Points = append(r.Points, p)
	}
	r.Find(1)
	return r
}

func TestCrossoverFind(t *testing.T) {
	r := curves(1e-6, 1e-9, 0)
	if r.Length == nil || math.Abs(*r.Length-1000) > 1e-6 || math.Abs(*r.Low-1000) > 1e-6 ||
		math.Abs(*r.High-1000) > 1e-6 {
		t.Errorf("a/b = 1000, found %v", r.Length)
	}
	if got, want := r.Verdict(), "1000); 8.2 times faster at 8192."; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}
	// With noise the range holds the truth and is as wide as the noise allows: the medians of 15 runs vary by
	// 1.25·0.1/√15 = 3 % each, their ratio by 5 %, and the slope of the ratio is 1.
	r = curves(1e-6, 1e-9, 0.1)
	if r.Length == nil || *r.Low > 1000 || *r.High < 1000 || *r.High-*r.Low < 20 || *r.High-*r.Low > 300 {
		t.Errorf("found %v in %v to %v", *r.Length, *r.Low, *r.High)
	}
	if r = curves(1e-6, 1e-7, 0); !r.Below || r.Length != nil {
		t.Errorf("crossing at 10, below all lengths: %+v", r)
	}
	if !strings.Contains(r.Verdict(), "every length measured, from 128") {
		t.Errorf("%s", r.Verdict())
	}
	if r = curves(1e-6, 1e-11, 0); !r.Extrapolated || math.Abs(*r.Length-1e5) > 1 {
		t.Errorf("crossing at 100000, beyond all lengths: %+v", r)
	}
}

func TestCrossoverDrawing(t *testing.T) {
	r := curves(1e-6, 1e-9, 0)
	var b bytes.Buffer
	r.Draw(&b)
	lines := strings.Split(b.String(), "\n")
	if len(lines) != drawRows+4 { // axis, labels, legend, end
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	// Exact attention starts below the linear curve and ends above it.
	if bottom := lines[drawRows-1]; !strings.HasPrefix(bottom, "0.0164 ms ┤●") {
		t.Errorf("bottom line %q", bottom)
	}
	if top := lines[0]; !strings.HasSuffix(top, "●") || !strings.HasPrefix(top, "  67.1 ms") ||
		!strings.Contains(top, "┊") {
		t.Errorf("top line %q", top)
	}
	if !strings.Contains(b.String(), "○") || !strings.Contains(lines[drawRows+1], "8192") {
		t.Errorf("\n%s", b.String())
	}
}
