package fused

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/gomlx/triton"
	"github.com/randfeat/randfeat/internal/rng"
)

// inputs are standard normal rows times spread, and projections of a positive map.
func inputs(s Shape, spread float64) map[string]*triton.Buffer {
	all := map[string]*triton.Buffer{}
	for i, in := range append(s.inputs(), Tensor{"do", s.elem(), []int{s.Batch * s.Heads, s.Queries, s.Value}}) {
		x := make([]float64, in.size())
		rng.Normals(x, rng.Stream(uint64(100+i)))
		for j := range x {
			switch in.Name {
			case "q", "k":
				x[j] *= spread
			case "wq", "wk":
				x[j] *= math.Log2E
			case "bq", "bk":
				if x[j] *= 0.3; j%s.Features >= s.Features-3 {
					x[j] = Off
				}
			case "scale":
				x[j] = -math.Log2E / 2
			case "row":
				if x[j] *= 0.5; j%5 == 1 {
					x[j] = Off
				}
			}
		}
		all[in.Name] = triton.NewBuffer(in.Elem, in.size()).Fill(x)
	}
	all["wk"] = all["wq"]
	return all
}

// plain computes attention and its gradients from the definition.
func plain(s Shape, all map[string]*triton.Buffer) map[string][]float64 {
	logs := func(side string, heads, length int, scale bool) [][]float64 { // [batch·heads·length][features]
		x, w, b := all[side].Data, all["w"+side].Data, all["b"+side].Data
		out := make([][]float64, s.Batch*heads*length)
		for r := range out {
			head := r / length
			m := 0
			if s.Maps > 1 {
				m = head % heads * s.KVHeads / heads
			}
			row := x[r*s.Dim : (r+1)*s.Dim]
			out[r] = make([]float64, s.Features)
			for f := range out[r] {
				t := b[m*s.Features+f]
				for d, v := range row {
					t += v * w[(m*s.Features+f)*s.Dim+d]
					if scale {
						t += v * v * all["scale"].Data[m]
					}
				}
				if scale && s.Rows > 0 {
					t += all["row"].Data[(head/heads*s.Rows+head%heads*s.Rows/heads)*length+r%length]
				}
				out[r][f] = t
			}
		}
		return out
	}
	lq, lk := logs("q", s.Heads, s.Queries, false), logs("k", s.KVHeads, s.Keys, true)
	out := map[string][]float64{}
	for _, n := range []string{"q", "k", "v", "do"} {
		out["d"+n] = make([]float64, len(all[n].Data))
	}
	o := make([]float64, s.Batch*s.Heads*s.Queries*s.Value)
	out["o"] = o
	w := make([][]float64, s.Keys)
	for i := range lq {
		head := i / s.Queries
		first := head / s.group() * s.Keys
		top := math.Inf(-1)
		sees := func(j int) bool { return !s.Causal || j <= i%s.Queries }
		for j := range s.Keys {
			for f := range s.Features {
				if sees(j) {
					top = max(top, lq[i][f]+lk[first+j][f])
				}
			}
		}
		den := 0.0
		for j := range s.Keys {
			w[j] = make([]float64, s.Features)
			for f := range s.Features {
				if t := lq[i][f] + lk[first+j][f]; sees(j) && t > Off/2 {
					w[j][f] = math.Exp2(t - top)
				}
				den += w[j][f]
			}
		}
		if den == 0 {
			continue
		}
		g := all["do"].Data[i*s.Value : (i+1)*s.Value]
		delta := 0.0
		for j := range s.Keys {
			for f := range w[j] {
				w[j][f] /= den
				for e, v := range all["v"].Data[(first+j)*s.Value : (first+j+1)*s.Value] {
					o[i*s.Value+e] += w[j][f] * v
				}
			}
		}
		for e := range g {
			delta += g[e] * o[i*s.Value+e]
		}
		m := 0
		if s.Maps > 1 {
			m = head % s.Heads / s.group()
		}
		for j := range s.Keys {
			dp := -delta
			key := first + j
			for e, v := range all["v"].Data[key*s.Value : (key+1)*s.Value] {
				dp += g[e] * v
			}
			for f, x := range w[j] {
				for e := range g {
					out["dv"][key*s.Value+e] += x * g[e]
				}
				for d := range s.Dim {
					at := (m*s.Features+f)*s.Dim + d
					out["dq"][i*s.Dim+d] += math.Ln2 * x * dp * all["wq"].Data[at]
					out["dk"][key*s.Dim+d] += math.Ln2 * x * dp *
						(all["wk"].Data[at] + 2*all["scale"].Data[m]*all["k"].Data[key*s.Dim+d])
				}
			}
		}
	}
	return out
}

// differ is |got − want|/|want|, infinite for NaN.
func differ(got, want []float64) float64 {
	var d, n float64
	for i := range want {
		d += (got[i] - want[i]) * (got[i] - want[i])
		n += want[i] * want[i]
	}
	if d != d || len(got) != len(want) {
		return math.Inf(1)
	}
	return math.Sqrt(d / max(n, 1e-300))
}

func small() Sizes {
	return Sizes{Chunk: 32, Step: 16, Tile: 16, Pairs: 16, Turns: 2, StateWarps: 4, StateStages: 1, QueryWarps: 4,
		QueryStages: 1, CausalWarps: 4, CausalStages: 1}
}

var shapes = []Shape{
	{Batch: 1, Heads: 1, KVHeads: 1, Queries: 64, Keys: 64, Dim: 16, Value: 16, Features: 16, Maps: 1},
	{Batch: 2, Heads: 4, KVHeads: 2, Queries: 37, Keys: 37, Dim: 20, Value: 24, Features: 32, Maps: 2, Rows: 1},
	{Batch: 1, Heads: 3, KVHeads: 1, Queries: 70, Keys: 70, Dim: 16, Value: 40, Features: 16, Maps: 1, Rows: 1},
	{Batch: 2, Heads: 2, KVHeads: 2, Queries: 5, Keys: 5, Dim: 3, Value: 1, Features: 512, Maps: 1, Rows: 2},
	{Batch: 1, Heads: 1, KVHeads: 1, Queries: 150, Keys: 150, Dim: 16, Value: 16, Features: 16, Maps: 1},
}

// The kernels compute attention and its gradients.
func TestKernelsAgreeWithDefinition(t *testing.T) {
	for i, s := range shapes {
		for _, causal := range []bool{false, true} {
			for _, half := range []bool{false, true} {
				s := s
				s.Causal, s.Half, s.Products = causal, half, triton.Full
				if i == 1 && !causal {
					s.Keys = 51
				}
				t.Run(fmt.Sprintf("%d causal=%v half=%v", i, causal, half), func(t *testing.T) {
					if err := s.Check(); err != nil {
						t.Fatal(err)
					}
					bound := map[bool]float64{false: 1e-5, true: 0.012}[half]
					for _, spread := range []float64{0.5, 8} {
						if spread == 8 && half {
							continue // rounded inputs alone make a difference of this size
						}
						all := inputs(s, spread)
						for _, p := range []Program{s.Forward(small()), s.Backward(small())} {
							if err := p.Run(all); err != nil {
								t.Fatal(err)
							}
						}
						for name, want := range plain(s, all) {
							if name == "ddo" {
								continue
							}
							b := bound
							if spread == 8 {
								b = 1e-3
							}
							if d := differ(all[name].Data, want); !(d < b) {
								t.Errorf("spread %v: %s differs by %.2g", spread, name, d)
							}
						}
					}
				})
			}
		}
	}
}
