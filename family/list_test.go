package family

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// problems lists the errors in the examples of an entry.
func problems(i Info) (bad []string) {
	if i.Summary == "" || i.Reference == "" || i.Positive == "" || i.Size == "" || i.Cost == "" {
		bad = append(bad, fmt.Sprintf("family %s: its description is not complete", i.Name))
	}
	for _, dim := range []int{1, 2, 7} {
		examples := i.Examples(dim)
		if len(examples) == 0 {
			return append(bad, fmt.Sprintf("family %s has no examples", i.Name))
		}
		seen := map[string]bool{}
		for _, e := range examples {
			zero, err := i.decode([]byte("{}"))
			switch {
			case err != nil:
				bad = append(bad, fmt.Sprintf("family %s: %v", i.Name, err))
			case e.Family == nil || reflect.TypeOf(e.Family) != reflect.TypeOf(zero):
				bad = append(bad, fmt.Sprintf("example %s of family %s is a %T", e.Name, i.Name, e.Family))
			case e.Family.Name() != i.Name:
				bad = append(bad, fmt.Sprintf("example %s of family %s has the name %s", e.Name, i.Name,
					e.Family.Name()))
			case seen[e.Name]:
				bad = append(bad, fmt.Sprintf("family %s has two examples %s", i.Name, e.Name))
			case e.Fit && !i.Fits:
				bad = append(bad, fmt.Sprintf("example %s has nothing to fit", e.Name))
			case !e.Fit:
				if _, err := e.Family.Draws(kernel.Softmax, dim, 3); err != nil {
					bad = append(bad, fmt.Sprintf("example %s: %v", e.Name, err))
				}
			}
			seen[e.Name] = true
		}
	}
	return bad
}

// Every entry has usable examples: tests, the demo and the command line iterate over them.
func TestEveryFamilyHasExamples(t *testing.T) {
	for _, i := range List() {
		for _, bad := range problems(i) {
			t.Error(bad)
		}
	}
	// Entries that must be refused.
	good := List()[0]
	for name, mutate := range map[string]func(*Info){
		"no examples":    func(i *Info) { i.examples = func(int) []Example { return nil } },
		"another family": func(i *Info) { i.examples = only(Positive{}) },
		"nil":            func(i *Info) { i.examples = only(nil) },
		"twice": func(i *Info) {
			i.examples = func(int) []Example { return []Example{{Family: Trig{}}, {Family: Trig{}}} }
		},
		"a fit of nothing": func(i *Info) { i.examples = fitted(Trig{}) },
		"not usable":       func(i *Info) { *i = register[Poisson](*i, only(Poisson{})) },
		"no summary":       func(i *Info) { i.Summary = "" },
	} {
		i := good
		mutate(&i)
		if len(problems(i)) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Every family finds its entry, and one has features that are columns of the kernel.
func TestInfoOf(t *testing.T) {
	for _, i := range List() {
		f := i.examples(4)[0].Family
		_, columns := f.(Landmarks)
		if got := InfoOf(f); got.Name != i.Name || got.KernelColumns != columns {
			t.Errorf("%s: entry %q, columns of the kernel: %v", i.Name, got.Name, got.KernelColumns)
		}
	}
	if got := InfoOf(nil); got.Name != "" {
		t.Errorf("no family has the entry %q", got.Name)
	}
}

// Further kernels of landmarks are few and have moderate scales: otherwise small files would take much memory, and
// distances would overflow.
func TestFurtherKernels(t *testing.T) {
	good := kernel.Kernel{Kind: kernel.Matern12, Scale: 2}
	for name, c := range map[string]struct {
		also []kernel.Kernel
		ok   bool
	}{
		"one":       {[]kernel.Kernel{good}, true},
		"no scale":  {[]kernel.Kernel{{Kind: kernel.Laplace}}, true}, // 1
		"many":      {slices.Repeat([]kernel.Kernel{good}, mostAlso+1), false},
		"too small": {[]kernel.Kernel{{Kind: kernel.Matern12, Scale: 1e-300}}, false},
		"too large": {[]kernel.Kernel{{Kind: kernel.Matern12, Scale: 1e300}}, false},
		"signed":    {[]kernel.Kernel{{Kind: kernel.Bessel, Scale: 1}}, false},
		"a matrix":  {[]kernel.Kernel{{Scale: 1, M: dense.New[float64](3, 3)}}, false},
	} {
		if _, err := (Landmarks{Also: c.also}).Draws(kernel.Gaussian, 3, 5); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
