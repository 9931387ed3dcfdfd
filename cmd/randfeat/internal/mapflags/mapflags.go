// Package mapflags has the flags that determine a feature map, shared by the commands that make one, and the
// warning that a combination of family and coupling is a bad choice for given rows. A command calls Add, then
// Check before reading files, Spec when the number of columns is known, and Build.
package mapflags

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/kernel"
)

// Flags are the values of the flags that determine a feature map.
type Flags struct {
	family, coupling string
	Kernel, Scale    string
	matrix           string
	M                int
	Seed             uint64
	Omega            []string
	SpecFile         string
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.family, "family", "", "feature family: a name from 'randfeat families' or a JSON object with parameters")
	flags.StringVar(&f.coupling, "coupling", "iid", "joint law of the projections: a name from 'randfeat couplings' or a JSON object")
	kernels := cli.KernelNames()
	last := len(kernels) - 1
	flags.StringVar(&f.Kernel, "kernel", "gaussian", "kernel: "+strings.Join(kernels[:last], ", ")+" or "+kernels[last])
	flags.StringVar(&f.Scale, "scale", "1", "bandwidth, which divides the inputs: a number, or attention for d^¼, the scale of softmax(QKᵀ/√d)")
	flags.StringVar(&f.matrix, "kernel-matrix", "", "npy `file` with a matrix M (rows × input columns): use the kernel of Mx and My")
	flags.IntVar(&f.M, "projections", cli.DefaultM, "number of projections")
	flags.Uint64Var(&f.Seed, "seed", cli.DefaultSeed, "seed of the projections")
	flags.StringArrayVar(&f.Omega, "omega", nil, "npy `file` with projections, one per row, instead of random ones; repeat it for a hybrid")
	flags.StringVar(&f.SpecFile, "spec", "", "JSON `file` with the whole map, written by 'features --save-spec', instead of the other flags of the map")
	cli.DeprecatedShorthand(cmd, "m", "projections")
	cli.CompleteNames(cmd, "family", cli.FamilyNames)
	cli.CompleteNames(cmd, "coupling", cli.CouplingNames)
	cli.CompleteNames(cmd, "kernel", cli.KernelNames)
	cli.CompleteNames(cmd, "scale", func() []string { return []string{"1", "attention\td^¼, the scale of attention"} })
	cli.CompleteFiles(cmd, "omega", "npy")
	cli.CompleteFiles(cmd, "kernel-matrix", "npy")
	cli.CompleteFiles(cmd, "spec", "json")
}

// Check parses everything that needs no data, so that a wrong flag is reported before any file is read.
func (f *Flags) Check(cmd *cobra.Command) error {
	if f.SpecFile != "" {
		return cli.Conflict(cmd, "spec", "family", "coupling", "kernel", "scale", "kernel-matrix", "projections",
			"seed")
	}
	if len(f.Omega) > 0 {
		if err := cli.Conflict(cmd, "omega", "coupling", "projections", "seed"); err != nil {
			return err
		}
	}
	if f.M < 1 {
		return cli.Misused("--projections is %d, want at least 1", f.M)
	}
	if f.family == "" {
		return cli.Misused("--family is missing: choose one of %s", strings.Join(family.Names(), ", "))
	}
	_, err := f.base(1)
	return err
}

// base returns the spec of the flags for inputs of dim columns, without the kernel matrix.
func (f *Flags) base(dim int) (randfeat.Spec, error) {
	spec := randfeat.Spec{Dim: dim, M: f.M, Seed: f.Seed}
	var err error
	if spec.Kernel, err = f.BaseKernel(dim); err != nil {
		return spec, err
	}
	if f.family != "" {
		if spec.Family, err = family.Parse(f.family); err != nil {
			return spec, cli.Misused("--family: %w", err)
		}
	}
	if spec.Coupling, err = coupling.Parse(f.coupling); err != nil {
		return spec, cli.Misused("--coupling: %w", err)
	}
	return spec, nil
}

// BaseKernel returns the kernel of --kernel and --scale for inputs of dim columns.
func (f *Flags) BaseKernel(dim int) (kernel.Kernel, error) {
	kind, err := kernel.ParseKind(f.Kernel)
	if err != nil {
		return kernel.Kernel{}, cli.Misused("--kernel: %w", err)
	}
	if f.Scale == "attention" {
		return kernel.Kernel{Kind: kind, Scale: math.Pow(float64(dim), 0.25)}, nil
	}
	scale, err := strconv.ParseFloat(f.Scale, 64)
	if err != nil || !(scale > 0) || math.IsInf(scale, 0) {
		return kernel.Kernel{}, cli.Misused("--scale is %q, want a positive number or attention", f.Scale)
	}
	return kernel.Kernel{Kind: kind, Scale: scale}, nil
}

// Spec returns the map for inputs of dim columns. It reads --spec or --kernel-matrix and checks them against
// dim.
func (f *Flags) Spec(dim int) (randfeat.Spec, error) {
	if f.SpecFile != "" {
		return readSpec(f.SpecFile, dim)
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
	b, err := localfile.Read(path, localfile.JSON("a specification of a map", cli.MaxSpec))
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
	a, err := npy.ReadAny(path)
	if err != nil {
		return dense.Matrix[float64]{}, fmt.Errorf("--%s: %w", flag, err)
	}
	m := a.Float64()
	if err := kernel.CheckSet(path, m); err != nil {
		return m, fmt.Errorf("--%s: %w", flag, err)
	}
	return m, nil
}

// SizeSource names the flag that determines the number of features, for messages.
func (f *Flags) SizeSource() string {
	switch {
	case f.SpecFile != "":
		return "\"m\" of --spec " + f.SpecFile
	case len(f.Omega) > 0:
		return "--omega " + f.Omega[0]
	}
	return "--projections"
}

// Build makes the map, with the projections of --omega or drawn from the seed. rows is how many rows of its
// features must fit into memory; fitted says that --fit has already chosen the parameters.
func Build[T dense.Float](f *Flags, spec randfeat.Spec, rows int, fitted bool) (*randfeat.Map[T], error) {
	if len(f.Omega) == 0 {
		if err := cli.CheckSize(spec, f.SizeSource()); err != nil {
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
	return m, cli.CheckFeatures(m.OutDim(), rows, f.SizeSource())
}

func buildMap[T dense.Float](f *Flags, spec randfeat.Spec) (*randfeat.Map[T], error) {
	if len(f.Omega) == 0 {
		return randfeat.New[T](spec)
	}
	sets := make([]coupling.Omega, len(f.Omega))
	for i, path := range f.Omega {
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

// Origin says where the projections came from, for reports.
func (f *Flags) Origin(spec randfeat.Spec) string {
	if len(f.Omega) > 0 {
		return "projections from " + strings.Join(f.Omega, ", ")
	}
	return fmt.Sprintf("seed %d", spec.Seed)
}

// CouplingName returns the name of the spec's coupling; nil means iid.
func CouplingName(s randfeat.Spec) string {
	if s.Coupling == nil {
		return "iid"
	}
	return s.Coupling.Name()
}

// LibraryRows is the number of rows of features that Map.Gram holds of each side, for size checks.
const LibraryRows = 128
