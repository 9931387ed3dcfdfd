package backend

import (
	"flag"

	"github.com/gomlx/compute"
)

// Flags say where a program computes, and how precisely it multiplies.
type Flags struct {
	Name     string
	Products Products
}

// Set registers the flags -backend and -products.
func (f *Flags) Set(flags *flag.FlagSet) {
	flags.StringVar(&f.Name, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar((*string)(&f.Products), "products", "",
		"products of float32 numbers: float32 (the default), or tf32, which is faster on GPUs and keeps 3 digits")
}

// Open returns the backend that the flags name, and a line that describes it.
func (f Flags) Open() (compute.Backend, string, error) { return OpenWith(f.Name, f.Products) }
