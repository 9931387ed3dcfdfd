package main

import (
	"flag"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/internal/backend"
)

// device has the flags that say where a command computes, and how precisely it multiplies.
type device struct {
	backend  string
	products backend.Products
}

func (d *device) set(flags *flag.FlagSet) {
	flags.StringVar(&d.backend, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar((*string)(&d.products), "products", "",
		"products of float32 numbers: float32 (the default), or tf32, which is faster on GPUs and keeps 3 digits")
}

func (d device) open() (compute.Backend, string, error) {
	return backend.OpenWith(d.backend, d.products)
}
