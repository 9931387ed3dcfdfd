package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// Every table finds the same keys as the definition, Σ code·q ≥ low, at the thresholds that just admit or just refuse
// a key, and leaves the other bits of the mask and what lies beside it alone.
func TestScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tab := range Available[float32]() {
		for _, d := range []int{1, 4, 16, 17, 64, 80, 200} {
			for rows := range 10 {
				for _, n := range []int{1, 16, 17, 160, 5000} {
					if n == 5000 && (d != 64 || rows != 3) {
						continue
					}
					t.Run(fmt.Sprintf("%s/d=%d/rows=%d/n=%d", tab.Name, d, rows, n), func(t *testing.T) {
						checkScanOf(t, tab, rng, d, rows, n)
					})
				}
			}
		}
	}
}

func checkScanOf(t *testing.T, tab *Table[float32], rng *rand.Rand, d, rows, n int) {
	stride, blocks := ScanStride(d), ScanBlocks(n)
	codes, code := make([]byte, ScanSize(n, d)), make([][]int, blocks*ScanKeys)
	for j := range code {
		code[j] = make([]int, stride)
		for l := range d {
			code[j][l] = rng.IntN(4)
			if j%5 == 0 {
				code[j][l] = 3 // the largest sums
			}
			PutCode(codes, stride, j, l, byte(code[j][l]))
		}
	}
	q, low := make([]int8, rows*stride), make([]int32, rows)
	sum := func(r, j int) (s int32) {
		for l, c := range code[j] {
			s += int32(c) * int32(q[r*stride+l])
		}
		return s
	}
	for r := range rows {
		for l := range d {
			q[r*stride+l] = int8(rng.IntN(255) - 127)
			if r == 1 {
				q[r*stride+l] = 127
			}
		}
		low[r] = sum(r, rng.IntN(len(code))) + int32(rng.IntN(2))
	}
	if rows > 2 {
		low[2] = math.MaxInt32 // never
	}
	mask := make([]uint16, blocks+2)
	for b := range mask {
		mask[b] = uint16(b%3) << 4
	}
	tab.Scan(mask[1:blocks+1], codes, q, low)
	for b := range mask {
		want := uint16(b%3) << 4
		for i := range ScanKeys {
			for r := range rows {
				if b > 0 && b <= blocks && sum(r, (b-1)*ScanKeys+i) >= low[r] {
					want |= 1 << i
				}
			}
		}
		if mask[b] != want {
			t.Fatalf("block %d of %d: keys %016b, want %016b", b-1, blocks, mask[b], want)
		}
	}
}

func TestScanQuery(t *testing.T) {
	dst := []int8{1, 2, 3, 4}
	f, sum := ScanQuery(dst, []float32{0.5, -2, 0})
	if f != 63.5 || dst[0] != 32 || dst[1] != -127 || dst[2] != 0 || dst[3] != 0 || sum != -95 {
		t.Errorf("f %v, sum %d, integers %v", f, sum, dst)
	}
	if f, sum := ScanQuery(dst, []float32{0, 0}); f != 0 || sum != 0 || dst[0] != 0 {
		t.Errorf("zeros: f %v, sum %d, integers %v", f, sum, dst)
	}
	for _, x := range [][]float32{{float32(math.Inf(1)), 1}, {1, float32(math.NaN())}} {
		dst[0] = 9
		if f, sum := ScanQuery(dst, x); !math.IsNaN(f) || sum != 0 || dst[0] != 0 {
			t.Errorf("%v: f %v, sum %d, integers %v; want NaN and zeros", x, f, sum, dst)
		}
	}
}

// The time of a key of 64 coordinates for three queries.
func BenchmarkScan(b *testing.B) {
	for _, tab := range Available[float32]() {
		b.Run(tab.Name, func(b *testing.B) {
			const n, d, rows = 32768, 64, 3
			codes, mask := make([]byte, ScanSize(n, d)), make([]uint16, ScanBlocks(n))
			q, low := make([]int8, rows*ScanStride(d)), []int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}
			for b.Loop() {
				tab.Scan(mask, codes, q, low)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
		})
	}
}

func BenchmarkScanQuery(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, dst := make([]float32, 64), make([]int8, 64)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for b.Loop() {
		ScanQuery(dst, x)
	}
}
