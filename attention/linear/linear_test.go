package linear

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/internal/stattest/cases"
	"github.com/randfeat/randfeat/kernel"
)

// normals is a sequence of independent normal numbers times scale.
func normals[T dense.Float](batch, heads, length, dim int, scale float64, seed uint64) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	x := make([]float64, len(s.Data))
	rng.Normals(x, rng.Stream(seed, 77))
	for i, v := range x {
		s.Data[i] = T(scale * v)
	}
	return s
}

// linearFamilies are the first examples of all families, baselines too, and with -full all examples: the others take
// other ways through maps, not through attention.
func linearFamilies(t testing.TB, d int) map[string]family.Family {
	t.Helper()
	qs, ks := normals[float64](1, 1, 300, d, 0.5, 91).Head(0, 0), normals[float64](1, 1, 300, d, 0.5, 92).Head(0, 0)
	out := map[string]family.Family{}
	for _, f := range cases.Families(t, qs, ks) {
		if f.Name == f.Info.Name || stattest.Full() {
			out[f.Name] = f.Family
		}
	}
	return out
}

func testMap[T dense.Float](t testing.TB, f family.Family, d, m int) *randfeat.Map[T] {
	t.Helper()
	fm, err := randfeat.New[T](randfeat.Spec{Kernel: kernel.Attention(d), Family: f, Dim: d, M: m, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	return fm
}

// logWeights is w_ij = φ1(q_i)·φ2(k_j) = weight·e^log, by the exponents of single features in float64, and the same
// sum of moduli.
func logWeights(t testing.TB, m randfeat.FeatureMap[float64],
	q, k dense.Matrix[float64]) (logs, weights, moduli dense.Matrix[float64]) {
	t.Helper()
	f := m.OutDim()
	eq, ek := dense.New[float64](q.Rows, f), dense.New[float64](k.Rows, f)
	vq, vk := dense.New[float64](q.Rows, f), dense.New[float64](k.Rows, f)
	rq, rk := make([]float64, q.Rows), make([]float64, k.Rows)
	if err := m.LogQueries(eq, vq, rq, q, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.LogKeys(ek, vk, rk, k, nil); err != nil {
		t.Fatal(err)
	}
	logs, weights, moduli = dense.New[float64](q.Rows, k.Rows), dense.New[float64](q.Rows, k.Rows),
		dense.New[float64](q.Rows, k.Rows)
	for i := range q.Rows {
		for j := range k.Rows {
			top := math.Inf(-1)
			for l := range f {
				top = max(top, eq.At(i, l)+ek.At(j, l))
			}
			logs.Set(i, j, top+rq[i]+rk[j])
			if math.IsInf(top, -1) {
				continue
			}
			for l := range f {
				w := vq.At(i, l) * vk.At(j, l) * math.Exp(eq.At(i, l)+ek.At(j, l)-top)
				weights.Row(i)[j] += w
				moduli.Row(i)[j] += math.Abs(w)
			}
		}
	}
	return logs, weights, moduli
}

// naive is the definition: out_i = Σ_j w_ij v_j / Σ_j w_ij over the keys that see says. It also returns by how much
// rounding of features is amplified in each row.
func naive(logs, weights, moduli, v dense.Matrix[float64], see func(i, j int) bool) (dense.Matrix[float64], []float64) {
	out := dense.New[float64](logs.Rows, v.Cols)
	condition := make([]float64, logs.Rows)
	for i := range logs.Rows {
		top := math.Inf(-1)
		for j := range logs.Cols {
			if see(i, j) {
				top = max(top, logs.At(i, j))
			}
		}
		if math.IsInf(top, -1) {
			continue
		}
		var den, abs float64
		for j := range logs.Cols {
			if !see(i, j) {
				continue
			}
			c := math.Exp(logs.At(i, j) - top)
			w := c * weights.At(i, j)
			abs += c * moduli.At(i, j)
			den += w
			for c, x := range v.Row(j) {
				out.Row(i)[c] += w * x
			}
		}
		if den == 0 {
			clear(out.Row(i))
			continue
		}
		largest := 1.0
		for c := range out.Cols {
			out.Row(i)[c] /= den
			largest = max(largest, math.Abs(out.Row(i)[c]))
		}
		condition[i] = largest * abs / math.Abs(den)
	}
	return out, condition
}

// differ is the largest difference of rows relative to the size of the values times the condition of the row.
func differ[T dense.Float](t testing.TB, got dense.Matrix[T], want dense.Matrix[float64], condition []float64) float64 {
	t.Helper()
	worst := 0.0
	for i := range want.Rows {
		for c, w := range want.Row(i) {
			d := math.Abs(float64(got.At(i, c))-w) / max(1, condition[i])
			if !(d <= worst) {
				worst = d
			}
		}
	}
	return worst
}

func widened[T dense.Float](s attention.Seq[T]) attention.Seq[float64] {
	w := s
	out := attention.Seq[float64]{Shape: w.Shape, StrideB: w.StrideB, StrideH: w.StrideH,
		StrideL: w.StrideL, Data: make([]float64, len(w.Data))}
	for i, v := range s.Data {
		out.Data[i] = float64(v)
	}
	return out
}

// linearTolerance of outputs of size 1: exponents of size up to 30 are rounded, so features have that many roundings.
func linearTolerance[T dense.Float]() float64 {
	if _, ok := any(T(0)).(float32); ok {
		return 3e-5
	}
	return 1e-12
}

// checkLinear compares Forward with the definition for every head.
func checkLinear[T dense.Float](t *testing.T, a *Attention[T], ref []randfeat.FeatureMap[float64], q, k,
	v attention.Seq[T]) {
	t.Helper()
	out := attention.NewSeq[T](q.Batch, q.Heads, q.Len, v.Dim)
	for i := range out.Data {
		out.Data[i] = T(math.NaN()) // must be overwritten
	}
	report, err := a.Forward(out, q, k, v)
	if err != nil {
		t.Fatal(err)
	}
	if report.Rows != int64(q.Batch*q.Heads*q.Len) {
		t.Errorf("%d rows reported, want %d", report.Rows, q.Batch*q.Heads*q.Len)
	}
	q64, k64, v64 := widened(q), widened(k), widened(v)
	empty := int64(0)
	for b := range q.Batch {
		for h := range q.Heads {
			hk := h / (q.Heads / k.Heads)
			logs, weights, moduli := logWeights(t, ref[hk%len(ref)], q64.Head(b, h), k64.Head(b, hk))
			spans := a.Spans(nil, b, q.Len, k.Len)
			see := func(i, j int) bool {
				if a.KeyMask != nil && !a.KeyMask[b*k.Len+j] {
					return false
				}
				for _, s := range spans {
					if s.Q0 <= i && i < s.Q1 && s.K0 <= j && j < s.K1 {
						return !a.Causal || j-s.K0 <= i-s.Q0+(s.K1-s.K0)-(s.Q1-s.Q0)
					}
				}
				return false
			}
			want, condition := naive(logs, weights, moduli, v64.Head(b, hk), see)
			if d := differ(t, out.Head(b, h), want, condition); !(d <= linearTolerance[T]()) {
				t.Errorf("batch %d, head %d: off by %.2g", b, h, d)
			}
			for i := range q.Len {
				any := false
				for j := range k.Len {
					any = any || see(i, j)
				}
				if !any {
					empty++
				}
			}
		}
	}
	if report.Empty != empty {
		t.Errorf("%d empty rows reported, want %d", report.Empty, empty)
	}
}

func TestLinearFamilies(t *testing.T) {
	stattest.SkipRace(t)
	t.Run("float32", testLinearFamilies[float32])
	t.Run("float64", testLinearFamilies[float64])
}

func testLinearFamilies[T dense.Float](t *testing.T) {
	const d, m, dv, length = 5, 11, 3, 45
	q, k, v := normals[T](1, 1, length, d, 1, 1), normals[T](1, 1, length, d, 1, 2), normals[T](1, 1, length, dv, 1, 3)
	for name, f := range linearFamilies(t, d) {
		for _, causal := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/causal=%t", name, causal), func(t *testing.T) {
				a := &Attention[T]{Visibility: attention.Visibility{Causal: causal},
					Maps: []randfeat.FeatureMap[T]{testMap[T](t, f, d, m)}, Chunk: 8}
				checkLinear(t, a, []randfeat.FeatureMap[float64]{testMap[float64](t, f, d, m)}, q, k, v)
			})
		}
	}
}

// Shapes: grouped heads, masks, packed sequences, more or fewer keys than queries, lengths off the chunk grid, strides.
func TestLinearShapes(t *testing.T) {
	const d, m, dv = 4, 9, 3
	maps, ref := make([]randfeat.FeatureMap[float32], 2), make([]randfeat.FeatureMap[float64], 2)
	for h := range maps {
		f := family.OPRF{A: -0.1 * float64(h+1)}
		maps[h], ref[h] = testMap[float32](t, f, d, m), testMap[float64](t, f, d, m)
	}
	const batch, lq, lk = 2, 37, 37
	mask := make([]bool, batch*50)
	for i := range mask {
		mask[i] = i%3 != 1 && i > 4
	}
	ids := func(n int, ends ...int) []int32 {
		s := make([]int32, batch*n)
		for i := range s {
			for _, e := range ends {
				if i%n >= e {
					s[i]++
				}
			}
		}
		return s
	}
	for _, c := range []struct {
		name   string
		lq, lk int
		vis    attention.Visibility
	}{
		{"plain", lq, lk, attention.Visibility{}},
		{"more keys", 20, lk, attention.Visibility{}},
		{"fewer keys", lq, 20, attention.Visibility{}},
		{"mask", lq, lk, attention.Visibility{KeyMask: mask[:batch*lk]}},
		{"segments", lq, lk, attention.Visibility{Segments: ids(lq, 5, 6, 30)}},
		{"segments, mask", lq, lk, attention.Visibility{Segments: ids(lq, 5, 6, 30), KeyMask: mask[:batch*lk]}},
		{"key segments", lq, 20, attention.Visibility{Segments: ids(lq, 5, 6, 30), KeySegments: ids(20, 3, 9)}},
		{"one", 1, 1, attention.Visibility{}},
		{"no keys", 3, 0, attention.Visibility{}},
		{"no queries", 0, 3, attention.Visibility{}},
	} {
		for _, causal := range []bool{false, true} {
			for _, blhd := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/causal=%t/blhd=%t", c.name, causal, blhd), func(t *testing.T) {
					c.vis.Causal = causal
					q, k, v := normals[float32](batch, 4, c.lq, d, 1, 4), normals[float32](batch, 2, c.lk, d, 1, 5),
						normals[float32](batch, 2, c.lk, dv, 1, 6)
					if blhd {
						q, k, v = transposed(q), transposed(k), transposed(v)
					}
					a := &Attention[float32]{Visibility: c.vis, Maps: maps, Chunk: 8}
					checkLinear(t, a, ref, q, k, v)
				})
			}
		}
	}
}

// transposed has the same elements in the order batch, position, head.
func transposed[T dense.Float](s attention.Seq[T]) attention.Seq[T] {
	o := attention.NewSeqBLHD[T](s.Batch, s.Len, s.Heads, s.Dim)
	for b := range s.Batch {
		for h := range s.Heads {
			for l := range s.Len {
				copy(o.Head(b, h).Row(l), s.Head(b, h).Row(l))
			}
		}
	}
	return o
}

// Long sequences cross segments, and keys that grow raise references: the sums must stay those of the definition.
func TestLinearSegments(t *testing.T) {
	if testing.Short() {
		t.Skip("a quadratic reference")
	}
	const d, m, dv = 3, 6, 2
	const lk, lq = maxSegment + 300, 70
	q, k, v := normals[float32](1, 1, lq, d, 1, 7), normals[float32](1, 1, lk, d, 1, 8),
		normals[float32](1, 1, lk, dv, 1, 9)
	for name, f := range map[string]family.Family{"positive": family.Positive{}, "trig": family.Trig{}} {
		for _, causal := range []bool{false, true} {
			for _, shrink := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/causal=%t/shrink=%t", name, causal, shrink), func(t *testing.T) {
					k := k
					if shrink {
						// Positive features of long keys are tiny: references rise as keys shrink.
						k = normals[float32](1, 1, lk, d, 1, 8)
						for j := range lk {
							for c := range d {
								k.Head(0, 0).Row(j)[c] *= float32(25 * math.Exp(-float64(j)/500))
							}
						}
					}
					a := &Attention[float32]{Visibility: attention.Visibility{Causal: causal},
						Maps: []randfeat.FeatureMap[float32]{testMap[float32](t, f, d, m)}}
					checkLinear(t, a, []randfeat.FeatureMap[float64]{testMap[float64](t, f, d, m)}, q, k, v)
				})
			}
		}
	}
}

func TestLinearGolden(t *testing.T) {
	b, err := os.ReadFile("../../testdata/closed_forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID       string          `json:"id"`
			Inputs   json.RawMessage `json:"inputs"`
			Expected json.RawMessage `json:"expected"`
			Rtol     float64         `json:"rtol"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, c := range file.Cases {
		if !strings.HasPrefix(c.ID, "attention.linear#") {
			continue
		}
		found++
		t.Run(c.ID, func(t *testing.T) {
			var in struct {
				Omega  dense.Matrix[float64] `json:"omega"`
				Q      dense.Matrix[float64] `json:"Q"`
				K      dense.Matrix[float64] `json:"K_"`
				V      dense.Matrix[float64] `json:"V_"`
				Family string                `json:"family"`
				A      float64               `json:"A"`
				Causal bool                  `json:"causal"`
			}
			var want dense.Matrix[float64]
			if err := errors.Join(json.Unmarshal(c.Inputs, &in), json.Unmarshal(c.Expected, &want)); err != nil {
				t.Fatal(err)
			}
			f := map[string]family.Family{"positive": family.Positive{}, "oprf": family.OPRF{A: in.A},
				"trig": family.Trig{}, "hyperbolic": family.Hyperbolic{}}[in.Family]
			m, err := randfeat.NewWithOmega[float64](randfeat.Spec{Kernel: kernel.Attention(in.Q.Cols), Family: f,
				Dim: in.Q.Cols}, []coupling.Omega{{Rows: in.Omega}})
			if err != nil {
				t.Fatal(err)
			}
			a := &Attention[float64]{Visibility: attention.Visibility{Causal: in.Causal},
				Maps: []randfeat.FeatureMap[float64]{m}}
			out := dense.New[float64](in.Q.Rows, in.V.Cols)
			if _, err := a.Forward(attention.One(out), attention.One(in.Q), attention.One(in.K),
				attention.One(in.V)); err != nil {
				t.Fatal(err)
			}
			for i := range want.Rows {
				for j, w := range want.Row(i) {
					if d := math.Abs(out.At(i, j) - w); !(d <= 1e-9*math.Abs(w)+1e-12) {
						t.Errorf("row %d, column %d: %v, want %v", i, j, out.At(i, j), w)
					}
				}
			}
		})
	}
	if found != 4 {
		t.Errorf("%d cases, want 4", found)
	}
}

// Same bits at any number of threads, whether heads, segments or blocks are divided.
func TestLinearDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const d, m, dv = 16, 64, 16
	for _, heads := range []int{1, 3} {
		for _, c := range []struct {
			name   string
			causal bool
			window int
		}{{"bidirectional", false, 0}, {"causal", true, 0}, {"window", true, 50}, {"band", false, 50}} {
			t.Run(fmt.Sprintf("%s/heads=%d", c.name, heads), func(t *testing.T) {
				const length = 3*maxSegment + 123
				q, k, v := normals[float32](1, heads, length, d, 1, 7), normals[float32](1, heads, length, d, 1, 8),
					normals[float32](1, heads, length, dv, 1, 9)
				a := &Attention[float32]{Visibility: attention.Visibility{Causal: c.causal},
					Maps:   []randfeat.FeatureMap[float32]{testMap[float32](t, family.Positive{}, d, m)},
					Window: c.window}
				var first []float32
				var firstReport attention.Report
				for _, threads := range []int{1, 8} {
					runtime.GOMAXPROCS(threads)
					out := attention.NewSeq[float32](1, heads, length, dv)
					report, err := a.Forward(out, q, k, v)
					if err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first, firstReport = out.Data, report
					} else if !slices.Equal(first, out.Data) || report != firstReport {
						t.Errorf("%d threads give other bits or counts: %+v, %+v", threads, report, firstReport)
					}
				}
			})
		}
	}
}
