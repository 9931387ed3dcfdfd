package rfx_test

import (
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/internal/rng"
)

// shared is pure Go, or the backend that $GOMLX_BACKEND names: the same tests then run on XLA.
var shared = sync.OnceValues(func() (compute.Backend, error) {
	config := os.Getenv(compute.ConfigEnvVar)
	if config == "" {
		config = "go"
	}
	b, _, err := backend.Open(config)
	return b, err
})

// tf32 reports whether the shared backend may round the operands of float32 products to 11 bits.
func tf32() bool { return strings.Contains(os.Getenv(compute.ConfigEnvVar), "tf32=true") }

// run executes a graph of sequences.
func run[T dense.Float](t testing.TB, fn func([]*graph.Node) []*graph.Node, in ...attention.Seq[T]) [][]T {
	t.Helper()
	args := make([]any, len(in))
	for i, s := range in {
		args[i] = tensor(s)
	}
	return call[T](t, fn, args...)
}

func open(t testing.TB) compute.Backend {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call[T dense.Float](t testing.TB, fn func([]*graph.Node) []*graph.Node, args ...any) [][]T {
	t.Helper()
	out, err := graph.CallOnceN(open(t), fn, args...)
	if err != nil {
		t.Fatal(err)
	}
	data := make([][]T, len(out))
	for i, o := range out {
		data[i] = tensors.MustCopyFlatData[T](o)
	}
	return data
}

func tensor[T dense.Float](s attention.Seq[T]) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(s.Data, s.Batch, s.Heads, s.Len, s.Dim)
}

// sequence is a packed sequence of N(centre, scale²) values.
func sequence[T dense.Float](batch, heads, length, dim int, scale, centre float64, seed uint64) attention.Seq[T] {
	s := attention.NewSeq[T](batch, heads, length, dim)
	v := make([]float64, len(s.Data))
	rng.Normals(v, rng.Stream(seed))
	for i := range v {
		s.Data[i] = T(centre + scale*v[i])
	}
	return s
}

// differ is the largest difference relative to the largest modulus of want.
func differ[T dense.Float](got, want []T) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, top float64
	for i := range want {
		d = max(d, math.Abs(float64(got[i])-float64(want[i])))
		top = max(top, math.Abs(float64(want[i])))
		if math.IsNaN(float64(got[i])) {
			return math.Inf(1)
		}
	}
	return d / max(top, 1e-300)
}

// library is the output of package attention and its gradients of Σ out⊙dout by queries, keys and values.
func library(t testing.TB, a *linear.Attention[float64], q, k, v, dout attention.Seq[float64]) [][]float64 {
	t.Helper()
	like := func(s attention.Seq[float64], dim int) attention.Seq[float64] {
		return attention.NewSeq[float64](s.Batch, s.Heads, s.Len, dim)
	}
	out, dq, dk, dv := like(q, v.Dim), like(q, q.Dim), like(k, k.Dim), like(v, v.Dim)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Fatal(err)
	}
	if dout.Data == nil { // of |out|²
		dout = like(out, out.Dim)
		for i, x := range out.Data {
			dout.Data[i] = 2 * x
		}
	}
	if _, err := a.Backward(dq, dk, dv, dout, out, q, k, v, nil); err != nil {
		t.Fatal(err)
	}
	return [][]float64{out.Data, dq.Data, dk.Data, dv.Data}
}
