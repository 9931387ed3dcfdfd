// Package backend chooses where GoMLX graphs run: XLA where a PJRT plugin is installed, pure Go otherwise. It never
// downloads a plugin and never waits for one.
package backend

import (
	"fmt"
	"os"
	"strings"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // always there
)

// Go is the pure Go backend, operations one after the other: its pool of workers can wait for itself on few cores.
const Go = "go:parallelism=-1"

// Open returns the backend of a configuration such as "go" or "xla:cuda", and one line that says what runs and how to
// get something faster. "" is $GOMLX_BACKEND if that is set, else XLA on a GPU or CPU if one of its plugins is found,
// else Go.
func Open(config string) (compute.Backend, string, error) {
	if config == "" {
		config = os.Getenv(compute.ConfigEnvVar)
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
		b, err := open("xla:" + plugin)
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
