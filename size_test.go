package randfeat_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The size of a map is known before it is drawn, and its inverse is the largest map that is small enough.
func TestOutDimIsTheSizeOfTheMap(t *testing.T) {
	for _, d := range []int{1, 3, 8} {
		for _, e := range allFamilies(t, d) {
			name, f := e.Name, e.Family
			spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: 2}, Family: f, Dim: d}
			size := func(m int) int {
				spec.M = m
				n, err := spec.OutDim()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return n
			}
			for _, m := range []int{1, 2, 3, 10, 33} {
				n := size(m)
				fm, err := randfeat.New[float64](spec)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if n != fm.OutDim() {
					t.Errorf("%s, d = %d, m = %d: OutDim is %d, the map has %d features", name, d, m, n, fm.OutDim())
				}
			}
			one, fixed := size(1), size(1) == size(2)
			for _, features := range []int{one, one + 1, 2*one + 3, 512, 1001} {
				got, err := spec.WithFeatures(features)
				switch {
				case fixed && features != one || features < one:
					if !errors.Is(err, randfeat.ErrFeatures) || got.M != 1 {
						t.Errorf("%s: %d features: M = %d, %v", name, features, got.M, err)
					}
				case err != nil:
					t.Errorf("%s: %d features: %v", name, features, err)
				case !fixed && (size(got.M) > features || size(got.M+1) <= features):
					t.Errorf("%s: %d features: M = %d gives %d, one more %d", name, features, got.M, size(got.M),
						size(got.M+1))
				}
			}
			if _, err := spec.WithFeatures(0); !errors.Is(err, randfeat.ErrFeatures) {
				t.Errorf("%s: no features: %v", name, err)
			}
		}
	}
}

func TestOutDimOfBadSpecs(t *testing.T) {
	for name, c := range map[string]struct {
		s    randfeat.Spec
		want error
	}{
		"no family": {randfeat.Spec{Dim: 2, M: 3}, randfeat.ErrSpec},
		"m 0":       {randfeat.Spec{Family: family.Trig{}, Dim: 2}, coupling.ErrSize},
		"overflow":  {randfeat.Spec{Family: family.Trig{}, Dim: 2, M: math.MaxInt}, randfeat.ErrSpec},
		"unfitted":  {randfeat.Spec{Family: family.DARK{}, Dim: 2, M: 1}, family.ErrParam},
		"kernel": {randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, M: dense.New[float64](2, 3)},
			Family: family.Trig{},
			Dim:    2, M: 3}, dense.ErrShape},
		"huge coefficient": {randfeat.Spec{Family: family.Angular{N: math.MaxInt}, Dim: 2, M: 1}, randfeat.ErrSpec},
	} {
		if n, err := c.s.OutDim(); !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v, want %v", name, n, err, c.want)
		}
	}
	if _, err := (randfeat.Spec{Dim: 2}).WithFeatures(4); !errors.Is(err, randfeat.ErrSpec) {
		t.Errorf("no family: %v", err)
	}
}

// The sizes of families differ: ask for features, get the projections that make them.
func ExampleSpec_WithFeatures() {
	for _, f := range []family.Family{family.Positive{}, family.Trig{}, family.Residual{}, family.Angular{}} {
		spec, err := randfeat.Spec{Family: f, Dim: 64}.WithFeatures(512)
		if err != nil {
			fmt.Println(err)
			return
		}
		features, err := spec.OutDim()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-10s %3d projections, %d features\n", f.Name(), spec.M, features)
	}
	// Output:
	// positive   512 projections, 512 features
	// trig       256 projections, 512 features
	// residual   447 projections, 512 features
	// angular     14 projections, 504 features
}
