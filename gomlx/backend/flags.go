package backend

import "flag"

// Flags say where a program computes, how precisely it multiplies, and whether attention may run as kernels.
type Flags struct {
	Name     string
	Products Products
	Kernels  string // on (the default) or off
}

// Set registers the flags -backend, -products and -kernels.
func (f *Flags) Set(flags *flag.FlagSet) {
	flags.StringVar(&f.Name, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar((*string)(&f.Products), "products", "",
		"products of float32 numbers: float32 (the default), or tf32, which is faster on GPUs and keeps 3 digits")
	flags.StringVar(&f.Kernels, "kernels", "on", "on, or off: compute attention on GPUs as a graph of operations")
}
