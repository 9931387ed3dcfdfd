// Package backend chooses where GoMLX graphs run: XLA if a PJRT plugin is installed, otherwise pure Go. It never
// downloads a plugin.
package backend

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // always there

	"github.com/randfeat/randfeat/gomlx/triton"
)

// Go is the pure Go backend with one operation at a time: on few cores its pool of workers can deadlock waiting for
// itself.
const Go = "go:parallelism=-1"

// Products says how a backend multiplies float32 numbers. It is a property of the whole backend, because GoMLX and
// go-xla cannot set the precision of single products. To compute one attention precisely on a TF32 backend, use
// rfx.Attention.Double.
type Products string

const (
	// Float32 keeps all 24 bits of float32. It is the default: results on a GPU then agree with other backends up to
	// the rounding of float32. Features are exponentials, so a relative error δ of an exponent e becomes a relative
	// error e·δ of a feature. With TF32 and rows of norm 10 that is several per cent.
	Float32 Products = "float32"
	// TF32 rounds operands to 11 bits on GPUs with tensor cores, which makes products faster. Other backends ignore
	// it.
	TF32 Products = "tf32"
)

// Open is Flags.Open with the default products, or those of an option tf32= in the configuration, and with kernels.
func Open(config string) (compute.Backend, string, error) { return Flags{Name: config}.Open() }

// Open returns the backend of a configuration such as "go" or "xla:cuda", and a line that says what runs and how to
// get something faster. An empty configuration means $GOMLX_BACKEND, or else XLA on a GPU or CPU if a plugin is found,
// or else Go. On CUDA, attention runs as kernels (package fused) unless Kernels says no or XLA refuses them, which
// the line says.
func (f Flags) Open() (compute.Backend, string, error) {
	if f.Kernels != "" && f.Kernels != "on" && f.Kernels != "off" {
		return nil, "", fmt.Errorf("kernels %q: want on or off", f.Kernels)
	}
	b, line, config, err := openWith(f.Name, f.Products)
	if err != nil || f.Kernels == "off" || !strings.HasPrefix(config, "xla:") || !strings.Contains(config, "cuda") {
		return b, line, err
	}
	precision := triton.Three
	if slices.Contains(strings.Split(config, ","), "tf32=true") {
		precision = triton.TF32
	}
	with, err := withKernels(b, precision)
	if err != nil {
		return b, line + "; attention as graphs: XLA refuses kernels: " + err.Error(), nil
	}
	return with, line + "; attention as kernels", nil
}

// openWith also returns the configuration with its products.
func openWith(config string, products Products) (compute.Backend, string, string, error) {
	if config == "" {
		config = os.Getenv(compute.ConfigEnvVar)
	}
	config, err := withProducts(config, products)
	if err != nil {
		return nil, "", "", err
	}
	if config != "" {
		b, err := open(config)
		if err != nil {
			have := strings.Join(compute.List(), ", ")
			return nil, "", "", fmt.Errorf("backend %q: %w (compiled in: %s)", config, err, have)
		}
		return b, describe(b), config, nil
	}
	why := missing
	for _, plugin := range plugins() {
		config, err := withProducts("xla:"+plugin, products)
		if err != nil {
			return nil, "", "", err
		}
		b, err := open(config)
		if err == nil {
			return b, describe(b), config, nil
		}
		why = fmt.Sprintf("the plugin %q does not start: %v", plugin, err)
	}
	b, err := open(Go)
	if err != nil {
		return nil, "", "", err
	}
	return b, describe(b) + "; " + why, Go, nil
}

// withProducts adds XLA's option for the precision of products to a configuration. An option that is already there
// stays; it is an error if it contradicts products. Only the CUDA plugin is asked for TF32, because others refuse
// it.
func withProducts(config string, products Products) (string, error) {
	if products != "" && products != Float32 && products != TF32 {
		return "", fmt.Errorf("products of %q: want %s or %s", products, Float32, TF32)
	}
	name, rest, _ := strings.Cut(config, ":")
	if !slices.Contains([]string{"xla", "stablehlo", "hlo", "shlo"}, name) {
		return config, nil
	}
	plugin, options, _ := strings.Cut(rest, ",")
	for _, option := range strings.Split(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		if key != "tf32" && key != "notf32" {
			continue
		}
		on, err := strconv.ParseBool(value)
		if value == "" || key == "notf32" {
			on, err = key == "tf32", nil
		}
		if err == nil && products != "" && on != (products == TF32) {
			return "", fmt.Errorf("backend %q contradicts products of %s: leave one of them out", config, products)
		}
		return config, nil
	}
	switch {
	case products != TF32:
		rest += ",tf32=false"
	case strings.Contains(plugin, "cuda"):
		rest += ",tf32=true"
	}
	return name + ":" + rest, nil
}

// open is compute.NewWithConfig with panics turned into errors. On failure it returns an untyped nil.
func open(config string) (b compute.Backend, err error) {
	if config == "go" {
		config = Go
	}
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("%v", r)
		}
	}()
	defer silence()()
	if b, err = compute.NewWithConfig(config); err != nil {
		return nil, err
	}
	return b, nil
}

// silence redirects standard output, because the Go backend prints its settings there and results must stay clean.
func silence() (restore func()) {
	was := os.Stdout
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return func() {}
	}
	os.Stdout = null
	return func() {
		os.Stdout = was
		null.Close()
	}
}

func describe(b compute.Backend) string { return "backend " + b.Name() + ": " + b.Description() }
