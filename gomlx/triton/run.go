package triton

import (
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Buffer is the memory that an argument points to, as numbers of its type.
type Buffer struct {
	Elem Elem
	Data []float64
	seen []bool // written by this launch
	lock sync.Mutex
}

// NewBuffer returns n zeros.
func NewBuffer(e Elem, n int) *Buffer { return &Buffer{Elem: e, Data: make([]float64, n)} }

// Fill stores numbers, rounded to the type of the buffer, and returns it.
func (b *Buffer) Fill(data []float64) *Buffer {
	for i, x := range data {
		b.Data[i] = b.Elem.round(x)
	}
	return b
}

// round rounds a number to a type.
func (e Elem) round(x float64) float64 {
	switch e {
	case F32:
		return float64(float32(x))
	case BF16:
		u := math.Float32bits(float32(x))
		if x != x {
			return x
		}
		u += 0x7fff + u>>16&1
		return float64(math.Float32frombits(u &^ 0xffff))
	}
	return x
}

// tile is a value of a running program. at are offsets of pointers into buf.
type tile struct {
	x   []float64
	at  []int
	buf *Buffer
}

// Run executes the kernel on the CPU for every program of a grid, as the definition of what its text means. It is
// slow and meant for tests. It reports an access outside of a buffer, and a number that two stores of one launch
// write: programs run in no order, so such a kernel has no meaning.
func (k *Kernel) Run(grid [3]int, args ...*Buffer) (err error) {
	if len(args) != len(k.args) {
		return fmt.Errorf("triton: kernel %s has %d arguments, not %d", k.Name, len(k.args), len(args))
	}
	for i, b := range args {
		if b.Elem != k.args[i].value.elem {
			return fmt.Errorf("triton: argument %s of kernel %s is %s, not %s", k.args[i].name, k.Name,
				k.args[i].value.elem, b.Elem)
		}
		b.seen = make([]bool, len(b.Data))
	}
	var all sync.WaitGroup
	var once sync.Once
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i := range grid[0] * grid[1] * grid[2] {
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			r := runner{k: k, program: [3]int{i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]},
				values: map[int]tile{}}
			for j, b := range args {
				r.values[k.args[j].value.id] = tile{at: []int{0}, buf: b}
			}
			if e := r.ops(k.body); e != nil {
				once.Do(func() { err = fmt.Errorf("triton: kernel %s, program %v: %w", k.Name, r.program, e) })
			}
		})
	}
	all.Wait()
	return err
}

type runner struct {
	k       *Kernel
	program [3]int
	values  map[int]tile
}

func (r *runner) ops(ops []op) error {
	for _, o := range ops {
		in := make([]tile, len(o.in))
		for i, v := range o.in {
			in[i] = r.values[v.id]
		}
		switch o.code {
		case "for":
			if err := r.loop(o, in); err != nil {
				return err
			}
		case "store":
			if err := store(in); err != nil {
				return err
			}
		case "load":
			t, err := load(in)
			if err != nil {
				return err
			}
			r.values[o.out[0].id] = t
		case "program":
			r.values[o.out[0].id] = tile{x: []float64{float64(r.program[o.ints[0]])}}
		default:
			r.values[o.out[0].id] = compute(o, in)
		}
	}
	return nil
}

func (r *runner) loop(o op, in []tile) error {
	carried := in[3:]
	for i := in[0].x[0]; i < in[1].x[0]; i += in[2].x[0] {
		r.values[o.vars[0].id] = tile{x: []float64{i}}
		for j, c := range carried {
			r.values[o.vars[j+1].id] = c
		}
		if err := r.ops(o.body); err != nil {
			return err
		}
		next := make([]tile, len(carried))
		for j, v := range o.end {
			next[j] = r.values[v.id]
		}
		carried = next
	}
	for j, v := range o.out {
		r.values[v.id] = carried[j]
	}
	return nil
}

func load(in []tile) (tile, error) {
	p := in[0]
	t := tile{x: make([]float64, len(p.at))}
	for i, at := range p.at {
		if len(in) > 1 && in[1].x[i] == 0 {
			continue
		}
		if at < 0 || at >= len(p.buf.Data) {
			return t, fmt.Errorf("reads number %d of %d", at, len(p.buf.Data))
		}
		t.x[i] = p.buf.Data[at]
	}
	return t, nil
}

func store(in []tile) error {
	p := in[0]
	p.buf.lock.Lock()
	defer p.buf.lock.Unlock()
	for i, at := range p.at {
		if len(in) > 2 && in[2].x[i] == 0 {
			continue
		}
		if at < 0 || at >= len(p.buf.Data) {
			return fmt.Errorf("writes number %d of %d", at, len(p.buf.Data))
		}
		if p.buf.seen[at] {
			return fmt.Errorf("writes number %d again", at)
		}
		p.buf.Data[at], p.buf.seen[at] = in[1].x[i], true
	}
	return nil
}

var numbers = map[string]func(x, y float64) float64{
	"add": func(x, y float64) float64 { return x + y },
	"sub": func(x, y float64) float64 { return x - y },
	"mul": func(x, y float64) float64 { return x * y },
	"div": func(x, y float64) float64 { return x / y },
	"max": math.Max,
	"min": math.Min,
	"and": func(x, y float64) float64 { return float64(int(x) & int(y)) },
	"lt":  func(x, y float64) float64 { return truth(x < y) },
	"le":  func(x, y float64) float64 { return truth(x <= y) },
	"gt":  func(x, y float64) float64 { return truth(x > y) },
	"eq":  func(x, y float64) float64 { return truth(x == y) },
	"rem": math.Mod,
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// compute executes an operation without memory.
func compute(o op, in []tile) tile {
	out := o.out[0]
	e, n := out.elem, out.size()
	t := tile{}
	if !out.ptr {
		t.x = make([]float64, n)
	}
	each := func(f func(i int) float64) {
		for i := range t.x {
			t.x[i] = e.round(f(i))
		}
	}
	switch o.code {
	case "constant":
		each(func(int) float64 { return o.num })
	case "range":
		each(func(i int) float64 { return float64(i) })
	case "add", "sub", "mul", "div", "rem", "max", "min", "and", "compare":
		code := o.code
		if code == "compare" {
			code = o.mode
		}
		f, whole := numbers[code], o.code == "div" && !e.Float()
		each(func(i int) float64 {
			if y := f(in[0].x[i], in[1].x[i]); !whole {
				return y
			}
			return math.Trunc(in[0].x[i] / in[1].x[i])
		})
	case "select":
		cond := func(i int) int { return int(1 - in[0].x[i]) }
		each(func(i int) float64 { return in[1+cond(i)].x[i] })
	case "exp2":
		each(func(i int) float64 { return math.Exp2(in[0].x[i]) })
	case "log2":
		each(func(i int) float64 { return math.Log2(in[0].x[i]) })
	case "convert":
		each(func(i int) float64 { return in[0].x[i] })
	case "splat", "broadcast", "expand":
		return spread(in[0], o.in[0], out, o.code)
	case "addptr":
		t.at, t.buf = make([]int, n), in[0].buf
		for i := range t.at {
			t.at[i] = in[0].at[i] + int(in[1].x[i])
		}
	case "trans":
		cols := out.shape[1]
		each(func(i int) float64 { return in[0].x[i%cols*out.shape[0]+i/cols] })
	case "reduce":
		shape, axis := o.in[0].shape, o.ints[0]
		inner := 1
		for _, d := range shape[axis+1:] {
			inner *= d
		}
		each(func(i int) float64 {
			first := i/inner*shape[axis]*inner + i%inner
			y := in[0].x[first]
			for j := 1; j < shape[axis]; j++ {
				y = numbers[o.mode](y, in[0].x[first+j*inner])
			}
			return y
		})
	case "dot":
		inner, cols := o.in[0].shape[1], out.shape[1]
		each(func(i int) float64 {
			y := 0.0
			for j := range inner {
				y += in[0].x[i/cols*inner+j] * in[1].x[j*cols+i%cols]
			}
			return y + in[2].x[i]
		})
	default:
		panic("triton: nothing executes " + o.code)
	}
	return t
}

// spread repeats numbers or pointers along new or short axes.
func spread(t tile, from, to Value, code string) tile {
	n := to.size()
	index := make([]int, n)
	if code == "broadcast" {
		for i := range index {
			at, rest, stride := 0, i, 1
			for a := len(to.shape) - 1; a >= 0; a-- {
				if from.shape[a] != 1 {
					at += rest % to.shape[a] * stride
				}
				rest, stride = rest/to.shape[a], stride*from.shape[a]
			}
			index[i] = at
		}
	} else if code == "expand" {
		for i := range index {
			index[i] = i
		}
	}
	out := tile{buf: t.buf}
	if to.ptr {
		out.at = make([]int, n)
		for i, j := range index {
			out.at[i] = t.at[j]
		}
		return out
	}
	out.x = make([]float64, n)
	for i, j := range index {
		out.x[i] = t.x[j]
	}
	return out
}
