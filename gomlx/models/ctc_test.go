package models

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/internal/rng"
)

// The probability of a word is the sum over all rows of letters that collapse to it, found by trying every one.
func TestCTCEqualsEnumeration(t *testing.T) {
	b, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	const frames, letters = 5, 3
	words := []int32{1, -1, -1, 1, 1, -1, 1, 2, 1, 2, 1, -1, 2, 2, 2} // 2,2,2 needs two blanks: five frames
	lengths := []int{5, 4}
	src := rng.Stream(3)
	logits := make([]float64, 2*frames*letters)
	rng.Normals(logits, src)
	narrow, valid := make([]float32, len(logits)), make([]bool, 2*frames)
	for i, x := range logits {
		narrow[i] = float32(x)
	}
	for i := range valid {
		valid[i] = i%frames < lengths[i/frames]
	}
	out, err := graph.CallOnceN(b,
		func(in []*graph.Node) []*graph.Node { return []*graph.Node{ctc(in[0], in[1], in[2])} },
		tensors.FromFlatDataAndDimensions(narrow, 2, frames, letters),
		tensors.FromFlatDataAndDimensions(valid, 2, frames), tensors.FromFlatDataAndDimensions(words, 5, 3))
	if err != nil {
		t.Fatal(err)
	}
	got := tensors.MustCopyFlatData[float32](out[0])
	for n, length := range lengths {
		for w := range 5 {
			var want string
			for _, l := range words[w*3 : w*3+3] {
				if l > 0 {
					want += string(rune('0' + l))
				}
			}
			var sum float64
			total := int(math.Pow(letters, float64(length)))
			for path := range total {
				p, spelled, last := 0.0, "", 0
				for f, rest := 0, path; f < length; f, rest = f+1, rest/letters {
					l := rest % letters
					row := logits[(n*frames+f)*letters:][:letters]
					p += row[l] - math.Log(math.Exp(row[0])+math.Exp(row[1])+math.Exp(row[2]))
					if l != last && l != 0 {
						spelled += string(rune('0' + l))
					}
					last = l
				}
				if spelled == want {
					sum += math.Exp(p)
				}
			}
			x := float64(got[n*5+w])
			if sum == 0 && x < -1e8 {
				continue
			}
			if math.Abs(x-math.Log(sum)) > 1e-4 {
				t.Errorf("sound %d, word %q: log probability %g, want %g", n, want, x, math.Log(sum))
			}
		}
	}
}
