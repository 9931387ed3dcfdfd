package models

import (
	"math"
	"slices"
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
	const frames, letters, longest = 5, 3, 3
	list := []int32{1, -1, -1, 1, 1, -1, 1, 2, 1, 2, 1, -1, 2, 2, 2} // 2,2,2 needs two blanks: five frames
	lengths := []int{5, 4}
	const rows = 10 // every word with both numbers of frames
	src := rng.Stream(3)
	logits := make([]float64, rows*frames*letters)
	rng.Normals(logits, src)
	narrow, valid := make([]float32, len(logits)), make([]bool, rows*frames)
	for i, x := range logits {
		narrow[i] = float32(x)
	}
	for i := range valid {
		valid[i] = i%frames < lengths[i/frames/5]
	}
	words := append(slices.Clone(list), list...)
	out, err := graph.CallOnceN(b, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{ctc(in[0], in[1], in[2])}
	}, tensors.FromFlatDataAndDimensions(narrow, rows, frames, letters),
		tensors.FromFlatDataAndDimensions(valid, rows, frames), tensors.FromFlatDataAndDimensions(words, rows, longest))
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
					row := logits[((n*5+w)*frames+f)*letters:][:letters]
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

// levenshtein is the textbook's table.
func levenshtein(a, b []int32) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			cost := before
			if x != y {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// The edits of a graph are those of what is heard to what is said, at every length of both.
func TestEdits(t *testing.T) {
	b, _, err := backend.Open("go")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	const rows, frames, classes, longest = 200, 11, 4, 6
	src := rng.Stream(5)
	logits, valid := make([]float32, rows*frames*classes), make([]bool, rows*frames)
	words, want := make([]int32, rows*longest), make([]int, rows)
	for r := range rows {
		var heard []int32
		last, n := int32(0), 1+int(src.Uint64()%frames)
		for f := range frames {
			l := int32(src.Uint64() % classes)
			logits[(r*frames+f)*classes+int(l)] = 1
			if valid[r*frames+f] = f < n; f < n && l != last && l != 0 {
				heard = append(heard, l)
			}
			last = l
		}
		letters := int(src.Uint64() % (longest + 1))
		for j := range longest {
			if words[r*longest+j] = -1; j < letters {
				words[r*longest+j] = 1 + int32(src.Uint64()%(classes-1))
			}
		}
		want[r] = levenshtein(heard, words[r*longest:][:letters])
	}
	out, err := graph.CallOnceN(b,
		func(in []*graph.Node) []*graph.Node { return []*graph.Node{edits(in[0], in[1], in[2])} },
		tensors.FromFlatDataAndDimensions(logits, rows, frames, classes),
		tensors.FromFlatDataAndDimensions(valid, rows, frames), tensors.FromFlatDataAndDimensions(words, rows, longest))
	if err != nil {
		t.Fatal(err)
	}
	for r, x := range tensors.MustCopyFlatData[float32](out[0]) {
		if int(x) != want[r] {
			t.Errorf("row %d: %g edits, want %d", r, x, want[r])
		}
	}
}
