package kern

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
)

func best(name string, n int, prep, f func()) {
	b := 1e9
	for i := 0; i < 3000; i++ {
		prep()
		s := time.Now()
		f()
		d := float64(time.Since(s).Nanoseconds())
		b = min(b, d)
		if d > 1e6 && i > 5 {
			break
		}
	}
	fmt.Printf("%-40s %.1f ns, %.4f ns/el\n", name, b, b/float64(n))
}

func TestVecScratch(t *testing.T) {
	tab := Available[float32]()[0]
	r := rand.New(rand.NewPCG(1, 2))
	for _, tab := range Available[float32]()[:2] {
	for _, frac := range []float64{0, 0.001, 0.01, 0.1, 1} {
		phi := dense.New[float32](128, 256)
		for i := range phi.Data {
			phi.Data[i] = 0.5
			if r.Float64() < frac {
				phi.Data[i] = 1e-40
			}
		}
		v, s, out, a := dense.New[float32](128, 64), dense.New[float32](256, 64), dense.New[float32](128, 64), dense.New[float32](128, 128)
		fillNormal(v, r)
		fillNormal(s, r)
		var p Panel[float32]
		tab.Pack(&p, phi)
		rows := make([]float32, 128)
		cols := make([]float32, 256)
		n := fmt.Sprintf("%s subnormal part %v: ", tab.Name, frac)
		best(n+"TMul", 1, func() {}, func() { tab.TMul(s, phi, v) })
		fillNormal(s, r)
		best(n+"Product", 1, func() {}, func() { tab.Product(out, phi, s, false) })
		best(n+"MulT", 1, func() {}, func() { tab.MulT(a, phi, &p, nil) })
		best(n+"MulV", 1, func() {}, func() { tab.MulV(rows, phi, s.Data[:256]) })
		best(n+"ColSum", 1, func() {}, func() { tab.ColSum(cols, phi) })
	}
	}
	var p Panel[float32]
	m := dense.New[float32](128, 256)
	best("packT 128x256", 128*256, func() {}, func() { tab.PackT(&p, m) })
	a := dense.Matrix[float32]{Rows: 128, Cols: 128, Stride: 128, Data: aligned[float32](128 * 128)}
	fillNormal(a, r)
	s := make([]float32, 128)
	best(tab.Name+" rowMax 128x128", 128*128, func() {}, func() { tab.RowMax(s, a) })
}
