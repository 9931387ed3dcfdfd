package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	exact "github.com/gomlx/gomlx/ml/layers/attention"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/rfx"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// row is one measurement: milliseconds per call, the median over rounds.
type row struct {
	Method   string  `json:"method"`
	Length   int     `json:"length"`
	Heads    int     `json:"heads"`
	Features int     `json:"features"`
	DType    string  `json:"dtype"`
	Causal   bool    `json:"causal"`
	Backward bool    `json:"backward"`
	Ms       float64 `json:"ms,omitempty"`
	Error    string  `json:"error,omitempty"`
}

type benchFlags struct {
	backend, lengths, methods, dtypes string
	heads, dim, m, rounds, calls      int
	chunk                             int
}

func bench(args []string) error {
	if len(args) > 0 && args[0] == "step" {
		return stepBench(args[1:])
	}
	var f benchFlags
	flags := flag.NewFlagSet("rfx bench", flag.ContinueOnError)
	flags.StringVar(&f.backend, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar(&f.lengths, "lengths", "1024,4096", "sequence lengths")
	flags.StringVar(&f.methods, "methods", "linear,exact,fused", "linear, exact (scores in memory), fused (flash, where XLA has it)")
	flags.StringVar(&f.dtypes, "dtypes", "float32", "float32, bfloat16")
	flags.IntVar(&f.heads, "heads", 8, "heads")
	flags.IntVar(&f.dim, "dim", 64, "dimension of a head")
	flags.IntVar(&f.m, "m", 128, "random projections")
	flags.IntVar(&f.rounds, "rounds", 5, "rounds, of which the median counts")
	flags.IntVar(&f.calls, "calls", 10, "calls per round")
	flags.IntVar(&f.chunk, "chunk", 0, "positions of a causal chunk; 0: chosen")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, line, err := backend.Open(f.backend)
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	out := json.NewEncoder(os.Stdout)
	for _, text := range strings.Split(f.lengths, ",") {
		length, err := strconv.Atoi(text)
		if err != nil || length < 1 {
			return fmt.Errorf("-lengths: %q is no length", text)
		}
		for _, dtype := range strings.Split(f.dtypes, ",") {
			for _, causal := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					for _, method := range strings.Split(f.methods, ",") {
						r := row{Method: method, Length: length, Heads: f.heads, Features: f.m, DType: dtype,
							Causal: causal, Backward: back}
						if ms, err := f.measure(b, r); err != nil {
							r.Error, _, _ = strings.Cut(err.Error(), "\n")
						} else {
							r.Ms = ms
						}
						if err := out.Encode(r); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

func (f benchFlags) measure(b compute.Backend, r row) (ms float64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	var dtype dtypes.DType
	switch r.DType {
	case "float32":
		dtype = dtypes.Float32
	case "bfloat16":
		dtype = dtypes.BFloat16
	default:
		return 0, fmt.Errorf("dtype %q: take float32 or bfloat16", r.DType)
	}
	forward, err := f.method(r)
	if err != nil {
		return 0, err
	}
	exec, err := graph.NewExec(b, func(in []*graph.Node) []*graph.Node {
		for i := range in {
			in[i] = graph.ConvertDType(in[i], dtype)
		}
		o := forward(in[0], in[1], in[2])
		loss := graph.ReduceAllSum(graph.ConvertDType(o, dtypes.Float32))
		if !r.Backward {
			return []*graph.Node{loss}
		}
		sums := []*graph.Node{loss}
		for _, g := range graph.Gradient(loss, in...) { // all of each gradient must be computed
			sums = append(sums, graph.ReduceAllSum(graph.ConvertDType(graph.Square(g), dtypes.Float32)))
		}
		return sums
	})
	if err != nil {
		return 0, err
	}
	defer exec.Finalize()
	in := make([]any, 3)
	for i := range in {
		data := make([]float64, f.heads*r.Length*f.dim)
		rng.Normals(data, rng.Stream(uint64(i+1)))
		narrow := make([]float32, len(data))
		for j, x := range data {
			narrow[j] = float32(x)
		}
		in[i] = tensors.FromFlatDataAndDimensions(narrow, 1, f.heads, r.Length, f.dim)
	}
	call := func(n int) error {
		for range n {
			o, err := exec.Call(in...)
			if err != nil {
				return err
			}
			for _, x := range o { // waits for the device
				if v := tensors.ToScalar[float32](x); math.IsNaN(float64(v)) {
					return fmt.Errorf("the result is NaN")
				}
				x.MustFinalizeAll()
			}
		}
		return nil
	}
	if err := call(2); err != nil { // compiles
		return 0, err
	}
	var all []float64
	for range f.rounds {
		from := time.Now()
		if err := call(f.calls); err != nil {
			return 0, err
		}
		all = append(all, time.Since(from).Seconds()*1e3/float64(f.calls))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

func (f benchFlags) method(r row) (func(q, k, v *graph.Node) *graph.Node, error) {
	switch r.Method {
	case "linear":
		m, err := rfx.NewMap(randfeat.Spec{Kernel: kernel.Attention(f.dim), Family: family.Positive{},
			Coupling: coupling.Orthogonal{}, Dim: f.dim, M: f.m, Seed: 1})
		if err != nil {
			return nil, err
		}
		a := rfx.Attention{Map: m, Causal: r.Causal, Chunk: f.chunk}
		return func(q, k, v *graph.Node) *graph.Node { return a.Forward(q, k, v, rfx.Visible{}) }, nil
	case "exact", "fused":
		return func(q, k, v *graph.Node) *graph.Node {
			o, _ := exact.Core(q, k, v, exact.LayoutBHSD, exact.CoreOptions{UseCausalMask: r.Causal,
				DisableFusion: r.Method != "fused"})
			return o
		}, nil
	}
	return nil, fmt.Errorf("method %q: take linear, exact or fused", r.Method)
}
