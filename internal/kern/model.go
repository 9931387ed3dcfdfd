package kern

import (
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/randfeat/randfeat/dense"
)

// Model is one implementation of the primitives of transformer models that Table lacks, on rows of float32 numbers.
// Slices of one call have equal lengths and do not overlap unless the entry says that they may.
type Model struct {
	Name string
	// SiLUMul sets dst_i = dst_i/(1 + e^−dst_i)·up_i, the gated unit of Llama.
	SiLUMul func(dst, up []float32)
	// GELU sets x_i = x_i·Φ(x_i), GELUTanh the approximation of it by a hyperbolic tangent.
	GELU, GELUTanh func(x []float32)
	// RMSNorm sets dst = x/√(mean x² + eps)·w; dst may be x.
	RMSNorm func(dst, x, w []float32, eps float32)
	// LayerNorm sets dst = (x − mean x)/√(var x + eps)·w + b; dst may be x.
	LayerNorm func(dst, x, w, b []float32, eps float32)
	// Rotate turns every pair (x_i, y_i) by the angle of cos_i and sin_i.
	Rotate func(x, y, cos, sin []float32)
	// HalfScores multiplies four queries of d columns, [4][d], by blocks of 32 keys in half precision, [d][32] each.
	// Row i of the scores begins at dst[i·stride].
	HalfScores func(dst []float32, stride int, q []float32, k []uint16, d int)
	// HalfValues adds Σ_j p_ij v_j to four rows of d sums, [4][d], for values v in half precision, [len(v)/d][d]; row i
	// of p begins at p[i·stride].
	HalfValues func(dst, p []float32, stride int, v []uint16, d int)

	quantise  func(dst []ActBlock, x []float32)
	mulBlocks func(dst dense.Matrix[float32], a *Acts, w *Blocks, lo, hi int)
}

// ReferenceModel is the plain Go table.
func ReferenceModel() *Model {
	return &Model{Name: "go", SiLUMul: siluMul, GELU: gelu, GELUTanh: geluTanh, RMSNorm: rmsNorm,
		LayerNorm: layerNorm, Rotate: rotate, HalfScores: halfScores, HalfValues: halfValues, quantise: quantise,
		mulBlocks: mulBlocks}
}

// Models returns every table of this machine, fastest first; the last is ReferenceModel.
func Models() []*Model { return append(modelTargets(), ReferenceModel()) }

// ChosenModel is the table that RANDFEAT_KERNEL names, by default the fastest. Machines whose products have a name
// without kernels for models (NEON) use plain Go.
var ChosenModel = sync.OnceValues(func() (*Model, error) {
	name := os.Getenv(envKernel)
	if _, err := Named[float32](name); err != nil {
		return nil, fmt.Errorf("%s: %w", envKernel, err)
	}
	all := Models()
	for _, t := range all {
		if name == "" || t.Name == name {
			return t, nil
		}
	}
	return all[len(all)-1], nil
})

// Below unitLow the gated units are zero in float32; beyond geluFar so is |x|·Φ(−|x|). Kernels clamp there.
const unitLow, geluFar = -87, 14

func siluMul(dst, up []float32) {
	for i, x := range dst {
		v := max(float64(x), unitLow)
		dst[i] = float32(v/(1+math.Exp(-v))) * up[i]
	}
}

func gelu(x []float32) {
	for i, v := range x {
		t := min(math.Abs(float64(v)), geluFar)
		x[i] = float32(max(float64(v), 0) - t*0.5*math.Erfc(t/math.Sqrt2))
	}
}

func geluTanh(x []float32) {
	for i, v := range x {
		w := max(float64(v), unitLow)
		y := 2 * math.Sqrt(2/math.Pi) * (w + 0.044715*w*w*w)
		x[i] = float32(w / (1 + math.Exp(min(88, -y))))
	}
}

func rmsNorm(dst, x, w []float32, eps float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	f := 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32(float64(v)*f) * w[i]
	}
}

func layerNorm(dst, x, w, b []float32, eps float32) {
	var sum, square float64
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	f := 1 / math.Sqrt(square/float64(len(x))+float64(eps))
	for i, v := range x {
		dst[i] = float32((float64(v)-mean)*f)*w[i] + b[i]
	}
}

func rotate(x, y, cos, sin []float32) {
	for i, a := range x {
		b, c, s := y[i], cos[i], sin[i]
		x[i], y[i] = a*c-b*s, a*s+b*c
	}
}
