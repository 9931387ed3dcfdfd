package kern

import (
	"math"
	"testing"
)

// ulp32 is the distance of float32 numbers near x.
func ulp32(x float64) float64 {
	_, e := math.Frexp(math.Max(math.Abs(x), 0x1p-126))
	return math.Ldexp(1, e-24)
}

// The units are within few ulp of their value in float64, over all magnitudes, and NaN stays.
func TestUnits(t *testing.T) {
	var x []float32
	for e := -40; e < 8; e++ {
		for i := range 64 {
			v := float32(math.Ldexp(1+float64(i)/64, e))
			x = append(x, v, -v)
		}
	}
	for i := -20000; i < 20000; i++ {
		x = append(x, float32(i)/1000)
	}
	x = append(x, 0, float32(math.NaN()), 200, -200, 1e30, -1e30, 3.4e38, -3.4e38, 1e-40, float32(math.Inf(1)))
	ones := make([]float32, len(x))
	for i := range ones {
		ones[i] = 1
	}
	phi := func(v float64) float64 { return 0.5 * math.Erfc(-v/math.Sqrt2) }
	for _, tab := range Models() {
		for _, f := range []struct {
			name string
			run  func(x []float32)
			want func(v float64) float64
			ulps float64 // of the result
			abs  float64 // or this much
		}{
			{"SiLUMul", func(x []float32) { tab.SiLUMul(x, ones) },
				func(v float64) float64 { return v / (1 + math.Exp(-v)) }, 4, 1e-34},
			{"GELU", tab.GELU, func(v float64) float64 { return v * phi(v) }, 10, 4e-7},
			{"GELUTanh", tab.GELUTanh, func(v float64) float64 {
				return v / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			}, 10, 4e-7},
		} {
			got := append([]float32(nil), x...)
			f.run(got)
			for i, g := range got {
				v := float64(x[i])
				want := f.want(v)
				if v < -87 {
					want = 0
				}
				limit := f.ulps*ulp32(want) + f.abs
				if math.IsInf(want, 1) && math.IsInf(float64(g), 1) || math.IsNaN(want) && g != g {
					continue
				}
				if !(math.Abs(float64(g)-want) <= limit) {
					t.Fatalf("%s: %s(%v) = %v, want %v (bound %.2g)", tab.Name, f.name, v, g, want, limit)
				}
			}
		}
	}
}

// An element's result does not depend on its place, and nothing beside the row is touched.
func TestUnitsPlaces(t *testing.T) {
	src := randomRows(11, 1, 100).Data
	for _, tab := range Models() {
		for _, f := range []struct {
			name string
			run  func(x []float32)
		}{
			{"SiLUMul", func(x []float32) { tab.SiLUMul(x, src[:len(x)]) }},
			{"GELU", tab.GELU}, {"GELUTanh", tab.GELUTanh},
		} {
			whole := append([]float32(nil), src...)
			f.run(whole)
			for n := range 70 {
				part := append([]float32(nil), src...)
				f.run(part[:n])
				for i, v := range part {
					if want := whole[i]; i < n && v != want || i >= n && v != src[i] {
						t.Fatalf("%s %s of %d: element %d is %v, want %v", tab.Name, f.name, n, i, v, want)
					}
				}
			}
		}
	}
}

// Norms and rotations against the reference, at every length up to three vectors and more.
func TestNorms(t *testing.T) {
	data := randomRows(12, 5, 130)
	for i := range data.Row(0) {
		data.Row(0)[i] += 3 // a mean, as hidden states have
	}
	ref := ReferenceModel()
	for _, tab := range Models() {
		for n := 1; n <= 130; n++ {
			x, w, b := data.Row(0)[:n], data.Row(1)[:n], data.Row(2)[:n]
			type run func(m *Model, dst []float32)
			for name, f := range map[string]run{
				"RMSNorm":   func(m *Model, dst []float32) { m.RMSNorm(dst, x, w, 1e-5) },
				"LayerNorm": func(m *Model, dst []float32) { m.LayerNorm(dst, x, w, b, 1e-12) },
				"in place":  func(m *Model, dst []float32) { copy(dst, x); m.LayerNorm(dst, dst, w, b, 1e-5) },
				"Rotate": func(m *Model, dst []float32) {
					y := append([]float32(nil), data.Row(3)[:n]...)
					copy(dst, x)
					m.Rotate(dst, y, w, b)
					for i := range dst {
						dst[i] += 3 * y[i]
					}
				},
			} {
				got, want := make([]float32, n+1), make([]float32, n+1)
				got[n] = 77
				f(tab, got[:n])
				f(ref, want[:n])
				if got[n] != 77 {
					t.Fatalf("%s %s of %d writes beside the row", tab.Name, name, n)
				}
				for i, v := range got[:n] {
					bound := 2e-6 * (1 + math.Abs(float64(want[i])) + 30*math.Abs(float64(w[i])))
					if n == 1 && name != "Rotate" && name != "RMSNorm" {
						bound = math.Inf(1) // 0/√eps of rounding errors
					}
					if d := math.Abs(float64(v - want[i])); !(d <= bound) {
						t.Fatalf("%s %s of %d: element %d is %v, want %v", tab.Name, name, n, i, v, want[i])
					}
				}
			}
		}
	}
	for _, tab := range Models() {
		x := append([]float32(nil), data.Row(0)...)
		x[77] = float32(math.NaN())
		tab.RMSNorm(x, x, data.Row(1), 1e-5)
		if x[0] == x[0] {
			t.Errorf("%s: RMSNorm of a row with NaN is %v", tab.Name, x[0])
		}
	}
}

func BenchmarkUnits(b *testing.B) {
	x, y := randomRows(13, 1, 1536).Data, randomRows(14, 1, 1536).Data
	for _, tab := range Models() {
		b.Run("SiLUMul/"+tab.Name, func(b *testing.B) {
			for b.Loop() {
				copy(x, y)
				tab.SiLUMul(x, y)
			}
		})
		b.Run("GELU/"+tab.Name, func(b *testing.B) {
			for b.Loop() {
				copy(x, y)
				tab.GELU(x)
			}
		})
	}
}
