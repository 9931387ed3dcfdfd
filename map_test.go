package randfeat

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The error of several bad rows is that of the first, on any number of goroutines, in and off the first block; the
// workspace then serves good inputs as before.
func TestFirstBadRow(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	m, err := New[float32](Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: family.Positive{}, Dim: 8, M: 64})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20000
	good, x := dense.New[float32](n, 8), dense.New[float32](n, 8)
	for i := range good.Data {
		good.Data[i] = float32(i%7) / 7
	}
	want, dst := dense.New[float32](n, 64), dense.New[float32](n, 64)
	if err := m.Queries(want, nil, good, nil); err != nil {
		t.Fatal(err)
	}
	var ws Workspace[float32]
	for _, first := range []int{0, 5, 127, 128, 9999, n - 2, n - 1} {
		for _, workers := range []int{1, 2, 4} {
			ws.Workers = workers
			copy(x.Data, good.Data)
			x.Set(n-1, 7, float32(math.Inf(1)))
			x.Set(max(first, n/2), 2, float32(math.NaN()))
			x.Set(first, 3, float32(math.NaN()))
			var bad *dense.NotFiniteError
			if err := m.Queries(dst, nil, x, &ws); !errors.As(err, &bad) || bad.Row != first {
				t.Errorf("row %d bad, %d goroutines: %v", first, workers, err)
			}
			x.Set(first, 2, 0)
			x.Set(first, 3, 1e16)
			if err := m.Queries(dst, nil, x, &ws); !errors.Is(err, dense.ErrNotFinite) || errors.As(err, &bad) &&
				first < n-1 {
				t.Errorf("row %d too long, %d goroutines: %v", first, workers, err)
			}
			if err := m.Queries(dst, nil, good, &ws); err != nil {
				t.Fatal(err)
			}
			for i, v := range dst.Data {
				if v != want.Data[i] {
					t.Fatalf("after an error, entry %d is %g, want %g", i, v, want.Data[i])
				}
			}
		}
	}
}
