module github.com/randfeat/randfeat/examples/embedded

go 1.26.0

require github.com/randfeat/randfeat/models v0.1.0

require (
	github.com/randfeat/randfeat v0.1.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
