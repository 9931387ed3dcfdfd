package fused

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/triton"
)

// Tensor is a tensor of a program, row-major.
type Tensor struct {
	Name string
	Elem triton.Elem
	Dims []int
}

func (t Tensor) size() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Step is one launch. The kernel's arguments name tensors: operands first, then the results.
type Step struct {
	triton.Launch
	Results []Tensor
}

// step finishes a kernel whose last arguments are its results.
func (k *kernel) step(grid [3]int, warps, stages int, results []Tensor) Step {
	args := k.Args()
	for i, r := range results {
		if args[len(args)-len(results)+i] != r.Name {
			panic(fmt.Sprintf("fused: the arguments %v of kernel %s do not end with its results", args, k.Name))
		}
	}
	return Step{triton.Launch{Kernel: k.Kernel, Grid: grid, Warps: warps, Stages: stages}, results}
}

// Operands returns the names of the tensors that a step reads.
func (s Step) Operands() []string {
	args := s.Kernel.Args()
	return args[:len(args)-len(s.Results)]
}

// Program is a sequence of launches.
type Program struct {
	Inputs, Outputs []Tensor
	Steps           []Step
}

// The sums of a program: of chunks, over all keys, over the keys before a chunk; with a 2, of queries.
var (
	chunks, totals, prefixes   = sums{"s", "z", "r"}, sums{"ts", "tz", "tr"}, sums{"ps", "pz", "pr"}
	chunks2, totals2, suffixes = sums{"us", "uz", "ur"}, sums{"vs", "vz", "vr"}, sums{"ws", "wz", "wr"}
)

// Inputs are the tensors that Forward reads.
func (s Shape) Inputs() []Tensor {
	e, heads, kvHeads := s.elem(), s.Batch*s.Heads, s.Batch*s.KVHeads
	in := []Tensor{{"q", e, []int{heads, s.Queries, s.Dim}}, {"k", e, []int{kvHeads, s.Keys, s.Dim}},
		{"v", e, []int{kvHeads, s.Keys, s.Value}}, {"wq", e, []int{s.Maps, s.Features, s.Dim}},
		{"wk", e, []int{s.Maps, s.Features, s.Dim}}, {"bq", triton.F32, []int{s.Maps, s.Features}},
		{"bk", triton.F32, []int{s.Maps, s.Features}}, {"scale", triton.F32, []int{s.Maps}}}
	if s.Rows > 0 {
		in = append(in, Tensor{"row", triton.F32, []int{s.Batch * s.Rows, s.Keys}})
	}
	return in
}

// Forward is attention. Its outputs are the attention o, the logarithms l of the denominators, and the sums that
// Backward reads.
func (s Shape) Forward(z Sizes) Program {
	steps := []Step{s.state(s.keys(), "v", "", chunks, z.Chunk, z.State)}
	n := ceil(s.Keys, z.Chunk)
	if s.Causal {
		steps = append(steps, s.prefix(chunks, prefixes, 1, n, false), s.causal(z.Chunk, z.Query))
	} else {
		steps = append(steps, s.total(chunks, totals, 1, n), s.query(z.Query))
	}
	return Program{s.Inputs(), append(slices.Clone(steps[2].Results), steps[1].Results...), steps}
}

// Backward is the gradient. It reads the inputs and outputs of Forward with the same sizes, and do, and returns dq, dv,
// dk and, if there are terms of keys, drow [batch·kvHeads, keys].
func (s Shape) Backward(z Sizes) Program {
	n := ceil(s.Queries, z.Chunk)
	steps := []Step{s.delta(z.DQuery), s.state(s.weighted(), "do", "delta", chunks2, z.Chunk, z.DState)}
	if s.Causal {
		steps = append(steps, s.dcausalQuery(z.Chunk, z.DQuery), s.prefix(chunks2, suffixes, s.group(), n, true),
			s.dcausalKey(z.Chunk, z.DKey))
	} else {
		steps = append(steps, s.dquery(z.DQuery), s.total(chunks2, totals2, s.group(), n), s.dkey(z.DKey))
	}
	p := Program{append(s.Inputs(), s.Forward(z).Outputs...), nil, steps}
	p.Inputs = append(p.Inputs, Tensor{"do", s.elem(), []int{s.Batch * s.Heads, s.Queries, s.Value}})
	p.Outputs = append(slices.Clone(steps[2].Results), steps[4].Results...)
	return p
}

// Run executes a program on the CPU, for tests. all holds the inputs by name; Run adds every result.
func (p Program) Run(all map[string]*triton.Buffer) error {
	for _, in := range p.Inputs {
		if b := all[in.Name]; b == nil || len(b.Data) != in.size() || b.Elem != in.Elem {
			return fmt.Errorf("fused: input %s is missing or not %d %s", in.Name, in.size(), in.Elem)
		}
	}
	for _, step := range p.Steps {
		for _, r := range step.Results {
			all[r.Name] = triton.NewBuffer(r.Elem, r.size())
		}
		var args []*triton.Buffer
		for _, name := range step.Kernel.Args() {
			if all[name] == nil {
				return fmt.Errorf("fused: kernel %s reads %s, which nothing wrote", step.Kernel.Name, name)
			}
			args = append(args, all[name])
		}
		if err := step.Kernel.Run(step.Grid, args...); err != nil {
			return err
		}
	}
	return nil
}

// Call is a program as the name of a graph function: a backend with kernels replaces a call of that function by the
// launches.
type Call struct {
	Shape    Shape
	Sizes    Sizes
	Backward bool `json:",omitempty"`
}

// prefixOfCalls marks the names of calls.
const prefixOfCalls = "fused"

// Name encodes a call. ParseCall decodes it; a suffix does not matter.
func (c Call) Name() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // of numbers, strings and truth values
	}
	return prefixOfCalls + string(text)
}

// ParseCall returns the call that a name encodes, if it does.
func ParseCall(name string) (c Call, ok bool) {
	text, ok := strings.CutPrefix(name, prefixOfCalls)
	return c, ok && json.NewDecoder(strings.NewReader(text)).Decode(&c) == nil
}

// Program returns the launches of a call.
func (c Call) Program() Program {
	if c.Backward {
		return c.Shape.Backward(c.Sizes)
	}
	return c.Shape.Forward(c.Sizes)
}

// Device is a backend that runs calls as kernels. Products says how precisely float32 kernels multiply there.
type Device interface {
	compute.Backend
	Products() triton.Precision
}
