package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/fused"
	"github.com/randfeat/randfeat/gomlx/triton"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// tuned is the result of a search: a line of fused.table.
type tuned struct {
	Length  int         `json:"length"`
	Causal  bool        `json:"causal"`
	DType   string      `json:"dtype"`
	Forward float64     `json:"forward_ms"`
	Both    float64     `json:"both_ms,omitempty"`
	Sizes   fused.Sizes `json:"sizes"`
}

func tune(args []string) error {
	var f benchFlags
	var causal string
	var limit time.Duration
	flags := flag.NewFlagSet("rfx tune", flag.ContinueOnError)
	f.Flags.Set(flags)
	flags.StringVar(&f.lengths, "lengths", "2048,16384,131072", "sequence lengths")
	flags.StringVar(&f.dtypes, "dtypes", "bfloat16", "float32, bfloat16")
	flags.StringVar(&causal, "causal", "false,true", "false, true")
	flags.IntVar(&f.heads, "heads", 8, "number of heads")
	flags.IntVar(&f.dim, "dim", 64, "dimension of a head")
	flags.IntVar(&f.m, "m", 128, "number of features, a power of two")
	flags.IntVar(&f.rounds, "rounds", 3, "rounds; the median counts")
	flags.IntVar(&f.calls, "calls", 10, "calls per round")
	flags.DurationVar(&limit, "limit", time.Minute, "time for each case")
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	for _, d := range strings.Split(f.dtypes, ",") {
		if d != "float32" && d != "bfloat16" {
			return fmt.Errorf("-dtypes: %q is neither float32 nor bfloat16", d)
		}
	}
	for _, c := range strings.Split(causal, ",") {
		if c != "false" && c != "true" {
			return fmt.Errorf("-causal: %q is neither false nor true", c)
		}
	}
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	device, ok := b.(fused.Device)
	if !ok {
		return fmt.Errorf("no kernels here: tune on a GPU")
	}
	out := json.NewEncoder(os.Stdout)
	for _, text := range strings.Split(f.lengths, ",") {
		length, err := strconv.Atoi(text)
		if err != nil || length < 1 {
			return fmt.Errorf("-lengths: %q is not a length", text)
		}
		for _, dtype := range strings.Split(f.dtypes, ",") {
			for _, c := range strings.Split(causal, ",") {
				s := search{benchFlags: f, b: device, until: time.Now().Add(limit)}
				s.shape = fused.Shape{Batch: 1, Heads: f.heads, KVHeads: f.heads, Queries: length, Keys: length,
					Dim: f.dim, Value: f.dim, Features: f.m, Maps: 1, Causal: c == "true", Half: dtype == "bfloat16",
					Products: device.Products()}
				best, err := s.run()
				if err != nil {
					return err
				}
				best.DType = dtype
				if err := out.Encode(best); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// search improves the sizes of one shape, one number after the other.
type search struct {
	benchFlags
	b     fused.Device
	shape fused.Shape
	until time.Time
	in    []any
}

// choice is a number of sizes with the values to try.
type choice struct {
	name   string
	of     func(z *fused.Sizes) *int
	values []int
}

func (s *search) run() (tuned, error) {
	dtype := map[bool]dtypes.DType{false: dtypes.Float32, true: dtypes.BFloat16}[s.shape.Half]
	var err error
	if s.in, err = s.rows(s.b, dtype, s.shape.Queries, 4); err != nil {
		return tuned{}, err
	}
	best := tuned{Length: s.shape.Queries, Causal: s.shape.Causal, Sizes: s.shape.Sizes()}
	if err := s.shape.Check(); err != nil {
		return best, err
	}
	chunks := []int{64, 128, 256, 512}
	inner := []int{32, 64, 128}
	if !s.shape.Causal {
		chunks, inner = []int{128, 256, 512, 1024, 2048, 4096}, []int{1, 2, 4, 8}
	}
	of := func(name string, t func(z *fused.Sizes) *fused.Tiling, state bool) []choice {
		var all []choice
		if !state {
			all = []choice{{name + ".inner", func(z *fused.Sizes) *int { return &t(z).Inner }, inner}}
		}
		return append(all, choice{name + ".warps", func(z *fused.Sizes) *int { return &t(z).Warps }, []int{4, 8}},
			choice{name + ".rows", func(z *fused.Sizes) *int { return &t(z).Rows }, []int{32, 64, 128}},
			choice{name + ".stages", func(z *fused.Sizes) *int { return &t(z).Stages }, []int{1, 2, 3, 4}})
	}
	forward := append([]choice{{"chunk", func(z *fused.Sizes) *int { return &z.Chunk }, chunks}},
		append(of("state", func(z *fused.Sizes) *fused.Tiling { return &z.State }, true),
			of("query", func(z *fused.Sizes) *fused.Tiling { return &z.Query }, false)...)...)
	back := append(of("dkey", func(z *fused.Sizes) *fused.Tiling { return &z.DKey }, false),
		append(of("dquery", func(z *fused.Sizes) *fused.Tiling { return &z.DQuery }, false),
			of("dstate", func(z *fused.Sizes) *fused.Tiling { return &z.DState }, true)...)...)
	half := s.until
	s.until = time.Now().Add(time.Until(half) / 2)
	best.Forward = s.improve(&best.Sizes, forward, false)
	s.until = half
	best.Both = s.improve(&best.Sizes, back, true)
	return best, nil
}

// improve tries all values of each choice, from the best sizes so far, and returns the least time.
func (s *search) improve(z *fused.Sizes, choices []choice, back bool) float64 {
	least := s.measure([]fused.Sizes{*z}, back)[0]
	for round := range 2 {
		for _, c := range choices {
			if time.Now().After(s.until) {
				return least
			}
			var all []fused.Sizes
			for _, v := range c.values {
				try := *z
				if *c.of(&try) = v; try != *z && s.shape.Fits(try) {
					all = append(all, try)
				}
			}
			for i, t := range s.measure(all, back) {
				fmt.Fprintf(os.Stderr, "%d %v back=%v round %d %s=%d: %.4f (best %.4f)\n", s.shape.Queries,
					s.shape.Causal, back, round, c.name, *c.of(&all[i]), t, least)
				if t < 0.99*least {
					least, *z = t, all[i]
				}
			}
		}
	}
	return least
}

// measure compiles programs side by side, and times them one by one. A program that fails takes forever.
func (s *search) measure(all []fused.Sizes, back bool) []float64 {
	times := make([]float64, len(all))
	execs := make([]*graph.Exec, len(all))
	var jobs sync.WaitGroup
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i, z := range all {
		times[i] = math.Inf(1)
		jobs.Go(func() {
			slots <- true
			defer func() { <-slots }()
			defer func() {
				if r := recover(); r != nil {
					fmt.Fprintf(os.Stderr, "%+v: %.300v\n", z, r)
				}
			}()
			e, err := graph.NewExec(s.b, func(in []*graph.Node) []*graph.Node { return s.graph(z, in, back) })
			if err == nil {
				var at []shapes.Shape
				for _, x := range s.in {
					at = append(at, x.(*tensors.Tensor).Shape())
				}
				_, err = e.Compile(at...)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%+v: %.300v\n", z, err)
				return
			}
			execs[i] = e
		})
	}
	jobs.Wait()
	for i, e := range execs {
		if e == nil {
			continue
		}
		if _, t, err := s.time(s.b, e, s.in); err == nil {
			times[i] = t / repeats
		}
		e.Finalize()
	}
	return times
}

// graph is a program, with its backward pass if back.
func (s *search) graph(z fused.Sizes, in []*graph.Node, back bool) []*graph.Node {
	var nodes []*graph.Node
	for i, t := range s.shape.Inputs() {
		if i < 3 {
			nodes = append(nodes, graph.Reshape(in[i], t.Dims...))
			continue
		}
		x := graph.Sin(graph.Iota(in[0].Graph(), shapes.Make(dtypes.Float32, t.Dims...), len(t.Dims)-1))
		if t.Elem == triton.BF16 {
			x = graph.ConvertDType(x, dtypes.BFloat16)
		}
		nodes = append(nodes, x)
	}
	for range repeats { // each reads what the one before wrote, as values
		out := fused.Call{Shape: s.shape, Sizes: z}.Graph(nodes)[0]
		nodes[2] = out
		if back {
			in[3] = graph.Reshape(in[3], out.Shape().Dimensions...)
			loss := graph.ReduceAllSum(graph.ConvertDType(graph.Mul(out, in[3]), dtypes.Float32))
			d := graph.Gradient(loss, nodes[:3]...)
			nodes[2], in[3] = graph.StopGradient(d[0]), graph.StopGradient(d[1])
			in[2] = graph.StopGradient(d[2])
		}
	}
	if back {
		return []*graph.Node{nodes[2], in[3], in[2]}
	}
	return nodes[2:3]
}

// repeats is the number of programs in a call: the time of short ones would be that of the call.
const repeats = 8
