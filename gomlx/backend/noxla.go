//go:build !cgo || noxla || !((linux && (amd64 || arm64)) || (darwin && arm64))

package backend

import (
	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/triton"
)

const missing = "this program was built without XLA: build it with cgo and without the tag noxla"

func plugins() []string { return nil }

func withKernels(b compute.Backend, _ triton.Precision) (compute.Backend, error) {
	return b, errNoKernels
}
