package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// mapFlags are the flags that determine a feature map.
type mapFlags struct {
	family, coupling string
	kernel, scale    string
	matrix           string
	m                int
	seed             uint64
	omega            []string
	specFile         string
}

const (
	defaultM    = 256
	defaultSeed = 1
)

func (f *mapFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.family, "family", "", "feature family: a name of 'randfeat families' or a JSON object with parameters")
	flags.StringVar(&f.coupling, "coupling", "iid", "joint law of the projections: a name of 'randfeat couplings' or a JSON object")
	flags.StringVar(&f.kernel, "kernel", "gaussian", "kernel: "+kernel.KindNames())
	flags.StringVar(&f.scale, "scale", "1", "bandwidth: inputs are divided by it; attention means d^¼, the scale of softmax(QKᵀ/√d)")
	flags.StringVar(&f.matrix, "kernel-matrix", "", "npy file with a matrix M (rows × input columns): the kernel of Mx and My")
	flags.IntVarP(&f.m, "projections", "m", defaultM, "number of projections")
	flags.Uint64Var(&f.seed, "seed", defaultSeed, "seed of the projections")
	flags.StringArrayVar(&f.omega, "omega", nil, "npy file with projections, one per row, instead of random ones; repeat it for a hybrid")
	flags.StringVar(&f.specFile, "spec", "", "JSON file with the whole map, as written by features --save-spec, instead of the flags above")
	completeNames(cmd, "family", familyNames)
	completeNames(cmd, "coupling", couplingNames)
	completeNames(cmd, "kernel", kernelNames)
	completeNames(cmd, "scale", func() []string { return []string{"1", "attention\td^¼, the scale of attention"} })
	completeFiles(cmd, "omega", "npy")
	completeFiles(cmd, "kernel-matrix", "npy")
	completeFiles(cmd, "spec", "json")
}

// conflict refuses flags that another one makes meaningless: a silent choice would hide a mistake.
func conflict(cmd *cobra.Command, flag string, others ...string) error {
	for _, o := range others {
		if cmd.Flags().Changed(o) {
			return misused("--%s and --%s exclude each other", flag, o)
		}
	}
	return nil
}

// check parses everything that needs no data, so that a bad flag is reported before any file is read.
func (f *mapFlags) check(cmd *cobra.Command) error {
	if f.specFile != "" {
		return conflict(cmd, "spec", "family", "coupling", "kernel", "scale", "kernel-matrix", "projections", "seed")
	}
	if len(f.omega) > 0 {
		if err := conflict(cmd, "omega", "coupling", "projections", "seed"); err != nil {
			return err
		}
	}
	if f.m < 1 {
		return misused("--projections (-m) is %d, want at least 1", f.m)
	}
	if f.family == "" {
		return misused("--family is missing: choose one of %s", strings.Join(family.Names(), ", "))
	}
	_, err := f.base(1)
	return err
}

// base is the spec of the flags for inputs of dim columns, without the kernel matrix.
func (f *mapFlags) base(dim int) (randfeat.Spec, error) {
	spec := randfeat.Spec{Dim: dim, M: f.m, Seed: f.seed}
	var err error
	if spec.Kernel, err = f.baseKernel(dim); err != nil {
		return spec, err
	}
	if f.family != "" {
		if spec.Family, err = family.Parse(f.family); err != nil {
			return spec, misused("--family: %w", err)
		}
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return spec, misused("--coupling: %w", err)
	}
	return spec, nil
}

func (f *mapFlags) baseKernel(dim int) (kernel.Kernel, error) {
	kind, err := kernel.ParseKind(f.kernel)
	if err != nil {
		return kernel.Kernel{}, misused("--kernel: %w", err)
	}
	if f.scale == "attention" {
		return kernel.Kernel{Kind: kind, Scale: math.Pow(float64(dim), 0.25)}, nil
	}
	scale, err := strconv.ParseFloat(f.scale, 64)
	if err != nil || !(scale > 0) || math.IsInf(scale, 0) {
		return kernel.Kernel{}, misused("--scale is %q, want a positive number or attention", f.scale)
	}
	return kernel.Kernel{Kind: kind, Scale: scale}, nil
}

// spec is the map for inputs of dim columns. What it reads from files is checked against dim.
func (f *mapFlags) spec(dim int) (randfeat.Spec, error) {
	if f.specFile != "" {
		return readSpec(f.specFile, dim)
	}
	spec, err := f.base(dim)
	if err != nil {
		return spec, err
	}
	if f.matrix != "" {
		m, err := readMatrix("kernel-matrix", f.matrix)
		if err != nil {
			return spec, err
		}
		spec.Kernel.M = m
	}
	if err := spec.Kernel.Validate(dim); err != nil {
		return spec, err
	}
	return spec, nil
}

func readSpec(path string, dim int) (randfeat.Spec, error) {
	var spec randfeat.Spec
	b, err := os.ReadFile(path)
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(b, &spec); err != nil {
		return spec, fmt.Errorf("%s: %w", path, err)
	}
	if spec.Dim != dim {
		return spec, fmt.Errorf("%s is for inputs of %d columns, the data have %d: %w", path, spec.Dim, dim,
			dense.ErrShape)
	}
	return spec, nil
}

// readMatrix reads a parameter of the map from an npy file.
func readMatrix(flag, path string) (dense.Matrix[float64], error) {
	a, err := data.ReadArrayFile(path)
	if err != nil {
		return dense.Matrix[float64]{}, fmt.Errorf("--%s: %w", flag, err)
	}
	m := a.Float64()
	if err := kernel.CheckSet(path, m); err != nil {
		return m, fmt.Errorf("--%s: %w", flag, err)
	}
	return m, nil
}

// sizeSource names what decides the number of features, for messages.
func (f *mapFlags) sizeSource() string {
	switch {
	case f.specFile != "":
		return "\"m\" of --spec " + f.specFile
	case len(f.omega) > 0:
		return "--omega " + f.omega[0]
	}
	return "--projections (-m)"
}

// build makes the map: with the projections of --omega, or drawn from the seed. rows is how many rows of its features
// must fit into memory, fitted says that --fit has already chosen the parameters.
func build[T dense.Float](f *mapFlags, spec randfeat.Spec, rows int, fitted bool) (*randfeat.Map[T], error) {
	if len(f.omega) == 0 {
		if err := checkSize(spec, f.sizeSource()); err != nil {
			return nil, err
		}
	}
	m, err := buildMap[T](f, spec)
	if errors.Is(err, family.ErrParam) {
		_, fits := spec.Family.(family.Fitter)
		hint := ""
		if fits && !fitted {
			hint = " or fit them with --fit"
		}
		return nil, fmt.Errorf("%w; set parameters with --family '{\"name\":%q, ...}'%s", err, spec.Family.Name(), hint)
	}
	if err != nil {
		return nil, err
	}
	return m, checkFeatures(m.OutDim(), rows, f.sizeSource())
}

func buildMap[T dense.Float](f *mapFlags, spec randfeat.Spec) (*randfeat.Map[T], error) {
	if len(f.omega) == 0 {
		return randfeat.New[T](spec)
	}
	sets := make([]coupling.Omega, len(f.omega))
	for i, path := range f.omega {
		w, err := readMatrix("omega", path)
		if err != nil {
			return nil, err
		}
		sets[i].Rows = w
	}
	spec.M = sets[0].Rows.Rows
	m, err := randfeat.NewWithOmega[T](spec, sets)
	if err != nil {
		return nil, fmt.Errorf("--omega: %w", err)
	}
	return m, nil
}

// origin says where the projections came from, for reports.
func (f *mapFlags) origin(spec randfeat.Spec) string {
	if len(f.omega) > 0 {
		return "projections from " + strings.Join(f.omega, ", ")
	}
	return fmt.Sprintf("seed %d", spec.Seed)
}
