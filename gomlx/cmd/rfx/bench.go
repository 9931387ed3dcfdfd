package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/kernel"
)

// row is one measurement: milliseconds per call, medians over rounds. Results stay on the device. Ms is for calls
// that are each waited for, Queued for calls that overlap.
type row struct {
	Method   string  `json:"method"`
	Length   int     `json:"length"`
	Heads    int     `json:"heads"`
	Features int     `json:"features"`
	DType    string  `json:"dtype"`
	Causal   bool    `json:"causal"`
	Backward bool    `json:"backward"`
	Ms       float64 `json:"ms,omitempty"`
	Queued   float64 `json:"queued_ms,omitempty"`
	Error    string  `json:"error,omitempty"`
}

type benchFlags struct {
	backend.Flags
	lengths, methods, dtypes     string
	heads, dim, m, rounds, calls int
	chunk                        int
}

func bench(args []string) error {
	var f benchFlags
	flags := flag.NewFlagSet("rfx bench", flag.ContinueOnError)
	f.Flags.Set(flags)
	flags.StringVar(&f.lengths, "lengths", "1024,4096", "sequence lengths")
	flags.StringVar(&f.methods, "methods", "linear,graph,exact,fused", "methods to time:\n"+
		"linear (kernels on GPUs), graph (linear as a graph of operations),\n"+
		"exact (all scores in memory), fused (flash attention, if XLA has it), empty (the overhead of a call)")
	flags.StringVar(&f.dtypes, "dtypes", "float32", "float32, bfloat16")
	flags.IntVar(&f.heads, "heads", 8, "number of heads")
	flags.IntVar(&f.dim, "dim", 64, "dimension of a head")
	flags.IntVar(&f.m, "m", 128, "number of random projections")
	flags.IntVar(&f.rounds, "rounds", 5, "rounds; the median is reported")
	flags.IntVar(&f.calls, "calls", 10, "calls per round")
	flags.IntVar(&f.chunk, "chunk", 0, "positions per causal chunk; 0: chosen")
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	out := json.NewEncoder(os.Stdout)
	for _, text := range strings.Split(f.lengths, ",") {
		length, err := strconv.Atoi(text)
		if err != nil || length < 1 {
			return fmt.Errorf("-lengths: %q is not a length", text)
		}
		for _, dtype := range strings.Split(f.dtypes, ",") {
			for _, causal := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					for _, method := range strings.Split(f.methods, ",") {
						r := row{Method: method, Length: length, Heads: f.heads, Features: f.m, DType: dtype,
							Causal: causal, Backward: back}
						if err := f.measure(b, &r); err != nil {
							r.Error, _, _ = strings.Cut(err.Error(), "\n")
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

// callers is the number of goroutines that keep calls in flight, because GoMLX waits inside each call.
const callers = 4

func (f benchFlags) measure(b compute.Backend, r *row) (err error) {
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
		return fmt.Errorf("dtype %q: take float32 or bfloat16", r.DType)
	}
	forward, err := f.method(*r)
	if err != nil {
		return err
	}
	exec, err := graph.NewExec(b, func(in []*graph.Node) []*graph.Node {
		out := forward(in[0], in[1], in[2])
		if !r.Backward {
			return []*graph.Node{out}
		}
		return graph.Gradient(graph.ReduceAllSum(graph.ConvertDType(graph.Mul(out, in[3]), dtypes.Float32)), in[:3]...)
	})
	if err != nil {
		return err
	}
	defer exec.Finalize()
	in, err := f.rows(b, dtype, r.Length, map[bool]int{false: 3, true: 4}[r.Backward])
	if err != nil {
		return err
	}
	r.Ms, r.Queued, err = f.time(b, exec, in)
	return err
}

// rows returns n tensors of standard normal numbers on the device.
func (f benchFlags) rows(b compute.Backend, dtype dtypes.DType, length, n int) ([]any, error) {
	in := make([]any, n)
	for i := range in {
		data := make([]float64, f.heads*length*f.dim)
		rng.Normals(data, rng.Stream(uint64(i+1)))
		narrow := make([]float32, len(data))
		for j, x := range data {
			narrow[j] = float32(x)
		}
		in[i] = tensors.FromFlatDataAndDimensions(narrow, 1, f.heads, length, f.dim)
	}
	out, err := graph.CallOnceN(b, func(in []*graph.Node) []*graph.Node {
		for i := range in {
			in[i] = graph.ConvertDType(graph.AddScalar(in[i], 0), dtype)
		}
		return in
	}, in...)
	for i := range out {
		in[i] = out[i]
	}
	return in, err
}

// time returns the milliseconds of a call that is awaited, and of calls that overlap.
func (f benchFlags) time(b compute.Backend, exec *graph.Exec, in []any) (ms, queued float64, err error) {
	call := func(n int) error { // waits for the device
		for range n {
			out, err := exec.Call(in...)
			if err != nil {
				return err
			}
			for _, o := range out {
				o.MustFinalizeAll()
			}
		}
		return nil
	}
	flight := func(n int) error {
		var all sync.WaitGroup
		errs := make([]error, callers)
		for i := range errs {
			all.Go(func() { errs[i] = call(n) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	if err := call(3); err != nil { // the first one compiles
		return 0, 0, err
	}
	if ms, err = f.median(1, call); err == nil && strings.HasPrefix(b.Name(), "xla") {
		queued, err = f.median(callers, flight)
	}
	return ms, queued, err
}

// median returns the median milliseconds per call. do(n) makes times·n calls.
func (f benchFlags) median(times int, do func(n int) error) (float64, error) {
	var all []float64
	for range f.rounds {
		from := time.Now()
		if err := do(f.calls); err != nil {
			return 0, err
		}
		all = append(all, time.Since(from).Seconds()*1e3/float64(f.calls*times))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

func (f benchFlags) method(r row) (func(q, k, v *graph.Node) *graph.Node, error) {
	switch r.Method {
	case "linear", "graph":
		m, err := rfx.NewMap(randfeat.Spec{Kernel: kernel.Attention(f.dim), Family: family.Positive{},
			Coupling: coupling.Orthogonal{}, Dim: f.dim, M: f.m, Seed: 1})
		if err != nil {
			return nil, err
		}
		a := rfx.Attention{Map: m, Causal: r.Causal, Chunk: f.chunk, Operations: r.Method == "graph"}
		return func(q, k, v *graph.Node) *graph.Node { return a.Forward(q, k, v, rfx.Visible{}) }, nil
	case "empty":
		return func(q, k, v *graph.Node) *graph.Node {
			one := func(x *graph.Node) *graph.Node {
				return graph.Slice(x, graph.AxisElem(0), graph.AxisElem(0), graph.AxisElem(0), graph.AxisElem(0))
			}
			return graph.Add(one(q), graph.Add(one(k), one(v)))
		}, nil
	case "exact", "fused":
		return func(q, k, v *graph.Node) *graph.Node {
			o, _ := exact.Core(q, k, v, exact.LayoutBHSD, exact.CoreOptions{UseCausalMask: r.Causal,
				DisableFusion: r.Method != "fused"})
			return o
		}, nil
	}
	return nil, fmt.Errorf("method %q: take linear, graph, exact, fused or empty", r.Method)
}
