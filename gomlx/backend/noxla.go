//go:build !cgo || noxla || !((linux && (amd64 || arm64)) || (darwin && arm64))

package backend

const missing = "this program was built without XLA: build it with cgo and without the tag noxla"

func plugins() []string { return nil }
