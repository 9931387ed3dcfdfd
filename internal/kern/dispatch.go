package kern

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/dense"
)

// envKernel names the table that Best returns, so that tests can run every path: go, avx2, avx512 or neon.
const envKernel = "RANDFEAT_KERNEL"

// tables lists the tables that this machine can run, fastest first; the last is Reference.
type tables struct {
	f32 []*Table[float32]
	f64 []*Table[float64]
}

// usable asks the CPU once per process.
var usable = sync.OnceValue(func() tables {
	t := targets()
	t.f32 = append(t.f32, Reference[float32]())
	t.f64 = append(t.f64, Reference[float64]())
	return t
})

// Available returns every table of this machine, fastest first; the last is Reference.
func Available[T dense.Float]() []*Table[T] {
	var list any = usable().f32
	if _, ok := any(T(0)).(float64); ok {
		list = usable().f64
	}
	return append([]*Table[T](nil), list.([]*Table[T])...)
}

// Named returns the table with the given name; "" is the fastest. An unknown name, or one that this CPU cannot run, is
// an error.
func Named[T dense.Float](name string) (*Table[T], error) {
	all := Available[T]()
	if name == "" {
		return all[0], nil
	}
	var have []string
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
		have = append(have, t.Name)
	}
	return nil, fmt.Errorf("kernels %q are not available here (have %s)", name, strings.Join(have, ", "))
}

// The environment is read once: a process never mixes tables.
var (
	chosen32 = sync.OnceValues(func() (*Table[float32], error) { return Named[float32](os.Getenv(envKernel)) })
	chosen64 = sync.OnceValues(func() (*Table[float64], error) { return Named[float64](os.Getenv(envKernel)) })
)

// Chosen returns the table that RANDFEAT_KERNEL names, by default the fastest. All maps of a process use it.
func Chosen[T dense.Float]() (*Table[T], error) {
	var t any
	var err error
	if _, ok := any(T(0)).(float64); ok {
		t, err = chosen64()
	} else {
		t, err = chosen32()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envKernel, err)
	}
	return t.(*Table[T]), nil
}

// Best is Chosen for callers that cannot return an error. It panics on an invalid RANDFEAT_KERNEL: falling back
// silently would make a test of that kernel meaningless.
func Best[T dense.Float]() *Table[T] {
	t, err := Chosen[T]()
	if err != nil {
		panic("kern: " + err.Error())
	}
	return t
}
