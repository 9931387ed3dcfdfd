package randfeattest_test

import (
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/randfeattest"
)

// A test of a family of your own: replace family.OPRF by it.
func Example() {
	_ = func(t *testing.T) {
		randfeattest.Map(t, randfeat.Spec{Kernel: kernel.Attention(8), Family: family.OPRF{}, Coupling: coupling.IID{},
			Dim: 8, M: 16, Seed: 1})
	}
}
