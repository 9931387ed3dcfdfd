// Package backend chooses where GoMLX graphs run: XLA where a PJRT plugin is installed, pure Go otherwise. It never
// downloads a plugin and never waits for one.
package backend

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // always there
)

// Go is the pure Go backend, operations one after the other: its pool of workers can wait for itself on few cores.
const Go = "go:parallelism=-1"

// Products says how a backend multiplies float32 numbers. It is a property of the backend: GoMLX and go-xla have no
// precision of single products. rfx.Attention.Double is the way to compute one attention precisely on a TF32 backend.
type Products string

const (
	// Float32 keeps all 24 bits of float32. It is the default: results on a GPU then agree with other backends up to
	// the rounding of float32. Features are exponentials, and a relative error δ of an exponent e is a relative error
	// e·δ of a feature: with TF32 and rows of norm 10 that is per cents.
	Float32 Products = "float32"
	// TF32 rounds operands to 11 bits on GPUs with tensor cores, where products are then faster. Other backends ignore
	// it.
	TF32 Products = "tf32"
)

// Open is OpenWith products of the default, or as an option tf32= of the configuration says.
func Open(config string) (compute.Backend, string, error) { return OpenWith(config, "") }

// OpenWith returns the backend of a configuration such as "go" or "xla:cuda", and one line that says what runs and how
// to get something faster. "" is $GOMLX_BACKEND if that is set, else XLA on a GPU or CPU if one of its plugins is
// found, else Go.
func OpenWith(config string, products Products) (compute.Backend, string, error) {
	if config == "" {
		config = os.Getenv(compute.ConfigEnvVar)
	}
	config, err := withProducts(config, products)
	if err != nil {
		return nil, "", err
	}
	if config != "" {
		b, err := open(config)
		if err != nil {
			have := strings.Join(compute.List(), ", ")
			return nil, "", fmt.Errorf("backend %q: %w (compiled in: %s)", config, err, have)
		}
		return b, describe(b), nil
	}
	why := missing
	for _, plugin := range plugins() {
		config, err := withProducts("xla:"+plugin, products)
		if err != nil {
			return nil, "", err
		}
		b, err := open(config)
		if err == nil {
			return b, describe(b), nil
		}
		why = fmt.Sprintf("the plugin %q does not start: %v", plugin, err)
	}
	b, err := open(Go)
	if err != nil {
		return nil, "", err
	}
	return b, describe(b) + "; " + why, nil
}

// withProducts adds the option of XLA for the precision of products to a configuration. What the configuration says
// itself stays, unless it contradicts. Only the plugin of CUDA is asked for TF32: others refuse such products.
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

// open is compute.NewWithConfig with panics as errors, and without the typed nil that a failure returns.
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

// silence keeps standard output for results: the Go backend prints its settings there.
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
