package randfeat_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

func fitSets(n, d int) (x, y dense.Matrix[float64]) {
	x, y = dense.New[float64](n, d), dense.New[float64](n, d)
	rng.Normals(x.Data, rng.Stream(1))
	rng.Normals(y.Data, rng.Stream(2))
	for i := range x.Data {
		x.Data[i] *= 0.3
		y.Data[i] *= 0.3
	}
	return x, y
}

// Statistics live after the embedding of one kernel: those of another do not merge.
func TestStatsMergeChecksTheKernel(t *testing.T) {
	m := dense.MustFromRows([][]float64{{1, 0}, {0, 2}})
	n := dense.MustFromRows([][]float64{{1, 0}, {0, 3}})
	spec := func(k kernel.Kernel, dim int) randfeat.Spec { return randfeat.Spec{Kernel: k, Dim: dim} }
	made := func(s randfeat.Spec) *randfeat.Stats {
		t.Helper()
		st, err := randfeat.NewStats(s, family.Options{Covariance: true})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	base := kernel.Kernel{Kind: kernel.Softmax, Scale: 2}
	for name, o := range map[string]randfeat.Spec{
		"scale":  spec(kernel.Kernel{Kind: kernel.Softmax, Scale: 3}, 2),
		"kind":   spec(kernel.Kernel{Kind: kernel.Gaussian, Scale: 2}, 2),
		"matrix": spec(kernel.Kernel{Kind: kernel.Softmax, Scale: 2, M: m}, 2),
		"dim":    spec(base, 3),
	} {
		if err := made(spec(base, 2)).Merge(made(o)); !errors.Is(err, randfeat.ErrSpec) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	one := func(m dense.Matrix[float64]) *randfeat.Stats {
		return made(spec(kernel.Kernel{Kind: kernel.Softmax, M: m}, 2))
	}
	if err := one(m).Merge(one(n)); !errors.Is(err,
		randfeat.ErrSpec) {
		t.Errorf("other entries of M: %v", err)
	}
	if err := one(m).Merge(one(m.Clone())); err != nil {
		t.Errorf("the same kernel: %v", err)
	}
	if err := made(spec(kernel.Kernel{Kind: kernel.Softmax}, 2)).Merge(made(spec(kernel.Kernel{Kind: kernel.Softmax,
		Scale: 1}, 2))); err != nil {
		t.Errorf("scale 0 means 1: %v", err)
	}
	good := made(spec(base, 2))
	for _, bad := range []*randfeat.Stats{nil, {}, {Stats: &family.Stats{}}} {
		row := dense.New[float64](1, 2)
		for _, err := range []error{good.Merge(bad), bad.Merge(good), bad.AddQueries(row), bad.AddKeys(row)} {
			if !errors.Is(err, randfeat.ErrSpec) {
				t.Errorf("statistics %+v: %v", bad, err)
			}
		}
	}
	if _, err := randfeat.NewStats(randfeat.Spec{}, family.Options{}); err == nil {
		t.Error("statistics of no columns")
	}
}

// Fit equals a fit from all statistics, and leaves the spec alone when it fails.
func TestFitGathersWhatIsNeeded(t *testing.T) {
	x, y := fitSets(200, 4)
	for _, i := range family.List() {
		f, err := family.Parse(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		fitter, ok := f.(family.Fitter)
		if !ok {
			continue
		}
		s := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: 1.5}, Family: f, Dim: 4, M: 8}
		all, err := randfeat.NewStats(s, family.Options{Covariance: true, Sample: 2048})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(all.AddQueries(x), all.AddKeys(y)); err != nil {
			t.Fatal(err)
		}
		want, err := fitter.Fit(all.Stats)
		if k, ok := f.(family.KernelFitter); ok {
			want, err = k.FitKernel(s.Kernel.Kind, all.Stats)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := randfeat.Fit(s, x, y)
		if err != nil || !reflect.DeepEqual(got.Family, want) {
			t.Errorf("%s: %+v (%v), want %+v", i.Name, got.Family, err, want)
		}
	}
	huge := x.Clone()
	for i := range huge.Data {
		huge.Data[i] *= 1e150
	}
	s := randfeat.Spec{Family: family.Adaptive{}, Dim: 4, M: 8}
	if got, err := randfeat.Fit(s, huge, huge); !errors.Is(err, family.ErrStats) || !reflect.DeepEqual(got, s) {
		t.Errorf("rows of scale 1e150: %+v, %v", got, err)
	}
}

func BenchmarkFit(b *testing.B) {
	x, y := fitSets(1000, 256)
	for _, f := range []family.Family{family.OPRF{}, family.PoissonPlus{}, family.Importance{}} {
		b.Run("family="+f.Name()+"/d=256/rows=1000", func(b *testing.B) {
			for b.Loop() {
				// Importance may refuse these data; only the statistics are timed.
				_, _ = randfeat.Fit(randfeat.Spec{Family: f, Dim: 256, M: 8}, x, y)
			}
		})
	}
}
