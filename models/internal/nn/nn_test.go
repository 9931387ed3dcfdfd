package nn

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/weights"
)

// stored are blocks of every quantised type (peers/blocks.py), as a matrix of one row each.
func stored(t *testing.T) []weights.Tensor {
	b, err := os.ReadFile("../../weights/testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Type    string
		Data    []byte
		Float32 []byte
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	var list []weights.Tensor
	for _, c := range cases {
		kind := weights.F32
		for kind.String() != c.Type {
			kind++
		}
		list = append(list, weights.Tensor{Name: c.Type, Type: kind, Shape: []int{1, len(c.Float32) / 4}, Data: c.Data})
	}
	return list
}

// Repacked weights are those of the file: exactly where the bits are kept, and otherwise within the rounding of a block
// to 8 bits, or of the scales of Q4_K to half precision.
func TestRepack(t *testing.T) {
	for _, x := range stored(t) {
		want := x.Floats(nil)
		w := Repack(x)
		got := make([]float32, len(want))
		w.Row(got, 0)
		for i := 0; i < len(want); i += 32 {
			part := want[i:min(i+32, len(want))]
			var top float64
			for _, v := range part {
				top = max(top, math.Abs(float64(v)))
			}
			bound := top / 127 * 0.52
			switch x.Type {
			case weights.Q8_0, weights.Q4_1, weights.Q5_0:
				bound = top * 1e-7
			case weights.Q4_0:
				bound = top * 2e-7
			case weights.Q4_K:
				bound = top * 0x1p-9
			}
			bound += 0x1p-24 * 127 // subnormal scales
			for c, v := range part {
				if d := math.Abs(float64(got[i+c] - v)); !(d <= bound) && dense.IsFinite(top) && top < 60000 {
					t.Fatalf("%s: number %d is %v, want %v (bound %.2g)", x.Name, i+c, got[i+c], v, bound)
				}
			}
		}
	}
}

// floats is a tensor of random numbers.
func floats(seed uint64, rows, cols int) weights.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	x := weights.Tensor{Type: weights.F32, Shape: []int{rows, cols}}
	for range rows * cols {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(float32(r.NormFloat64())))
	}
	return x
}

// Stacked tensors multiply as one matrix, with their biases, for one row and for many, in both precisions.
func TestLinear(t *testing.T) {
	k, err := Chosen()
	if err != nil {
		t.Fatal(err)
	}
	var mul Mul
	for _, cols := range []int{5, 64, 100} {
		a, b := floats(1, 37, cols), floats(2, 300, cols)
		bias := floats(3, 1, 337).Floats(nil)
		all := append(a.Floats(nil), b.Floats(nil)...)
		for _, p := range []Precision{Float32, Quantised} {
			for _, bias := range [][]float32{nil, bias} {
				l := NewLinear(k, p, bias, a, b)
				if l.Rows != 337 || l.Bytes() == 0 {
					t.Fatalf("%d outputs in %d bytes", l.Rows, l.Bytes())
				}
				for _, n := range []int{0, 1, 3, 200} {
					x := Matrix{Rows: n, Cols: cols, Stride: cols, Data: floats(4, n, cols).Floats(nil)}
					y := dense.New[float32](n, 337)
					mul.Do(k, y, x, l)
					for i := range n {
						for j := range l.Rows {
							var want, size float64
							for c, v := range x.Row(i) {
								p := float64(v) * float64(all[j*cols+c])
								want += p
								size += p * p
							}
							if bias != nil {
								want += float64(bias[j])
							}
							bound := 1e-5 * (1 + math.Sqrt(size))
							if p == Quantised { // two roundings of about top/254 each, independent: six deviations
								bound = 6 * 0.02 * (1 + math.Sqrt(size))
							}
							if d := math.Abs(float64(y.At(i, j)) - want); !(d <= bound) {
								t.Fatalf("precision %d, %d columns, row %d of %d: output %d is %v, want %v", p, cols, i, n, j,
									y.At(i, j), want)
							}
						}
					}
				}
			}
		}
	}
}
