package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
)

// FeaturesResult says what the features command wrote.
type FeaturesResult struct {
	Out      string        `json:"out"`
	LogScale string        `json:"log_scale,omitempty"`
	Rows     int           `json:"rows"`
	Features int           `json:"features"`
	DType    string        `json:"dtype"`
	Side     string        `json:"side"`
	Positive bool          `json:"positive"`          // every feature of the map is nonnegative
	Warning  string        `json:"warning,omitempty"` // why the combination is a bad choice
	Omega    []string      `json:"omega,omitempty"`   // files of given projections; then the seed is not used
	Spec     randfeat.Spec `json:"spec"`              // with fitted parameters and the seed
}

const (
	sideQuery = "query"
	sideKey   = "key"
)

type featuresFlags struct {
	mapFlags
	out, logScale, side, dtype, fit, saveSpec string
}

func (a *app) featuresCommand() *cobra.Command {
	var f featuresFlags
	cmd := &cobra.Command{
		Use:   "features X.npy -o PHI.npy --family NAME",
		Short: "Map the rows of a matrix to random features",
		Long: `Map the rows of X.npy to random features: φ1 for queries, φ2 for keys, such that φ1(x)·φ2(y) estimates the kernel.
Both sides must be mapped with the same flags; for symmetric families the two maps are equal.

X.npy holds a two-dimensional array of float16, float32 or float64; - reads it from stdin. A tensor of a safetensors
file, also of bfloat16, is named file.safetensors:name. The output is float64 if X is, else float32, unless --dtype says
otherwise; -o - writes it to stdout.

--fit Y.npy chooses the family's parameters from the data: X.npy and Y.npy are the two sides, X.npy being the side
named by --side. For a kernel machine give the same file twice. --save-spec keeps the fitted map for --spec.

Features are exponentials and may overflow. With --log-scale S.npy row i of the output is φ(x_i)·exp(-S_i) and S.npy
holds the column of S_i.`,
		Example: `  randfeat features Q.npy -o PQ.npy --kernel softmax --scale attention --family oprf --coupling orthogonal -m 256 --fit K.npy
  randfeat features K.npy -o PK.npy --kernel softmax --scale attention --family oprf --coupling orthogonal -m 256 --fit Q.npy --side key`,
		Args:              exactArgs("one npy file X.npy", 1),
		ValidArgsFunction: npyArgs(1),
		RunE:              do(func(cmd *cobra.Command, args []string) error { return a.features(cmd, &f, args[0]) }),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy file to write (required)")
	flags.StringVar(&f.logScale, "log-scale", "", "npy file for the log scales of the rows; without it features are plain")
	flags.StringVar(&f.side, "side", sideQuery, "query or key")
	flags.StringVar(&f.dtype, "dtype", "", "float32 or float64; default: that of X.npy")
	flags.StringVar(&f.fit, "fit", "", "npy file with the other side: fit the family's parameters to the data")
	flags.StringVar(&f.saveSpec, "save-spec", "", "JSON file for the map, with fitted parameters and seed")
	completeFiles(cmd, "out", "npy")
	completeFiles(cmd, "log-scale", "npy")
	completeFiles(cmd, "fit", "npy")
	completeFiles(cmd, "save-spec", "json")
	completeNames(cmd, "side", func() []string { return []string{sideQuery, sideKey} })
	completeNames(cmd, "dtype", func() []string { return []string{"float32", "float64"} })
	return cmd
}

// exactArgs is cobra.ExactArgs with a message that says what is wanted.
func exactArgs(want string, n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%d arguments, want %s", len(args), want)
		}
		return nil
	}
}

func (f *featuresFlags) check(cmd *cobra.Command, a *app, path string) error {
	if f.out == "" {
		return misused("--out (-o) is missing: name the npy file to write")
	}
	if f.out == "-" && (a.json || f.logScale == "-") {
		return misused("-o - needs stdout for itself: drop --json and write --log-scale to a file")
	}
	if f.logScale != "" && f.logScale == f.out {
		return misused("--log-scale and --out are the same file %s", f.out)
	}
	if path == "-" && f.fit == "-" {
		return misused("only one of X.npy and --fit can come from stdin")
	}
	if f.side != sideQuery && f.side != sideKey {
		return misused("--side is %q, want query or key", f.side)
	}
	if f.dtype != "" && f.dtype != "float32" && f.dtype != "float64" {
		return misused("--dtype is %q, want float32 or float64", f.dtype)
	}
	if f.saveSpec == "-" || f.saveSpec != "" && (f.saveSpec == f.out || f.saveSpec == f.logScale) {
		return misused("--save-spec is %q, want a file of its own", f.saveSpec)
	}
	if f.specFile != "" {
		if err := conflict(cmd, "spec", "fit"); err != nil {
			return err
		}
	}
	if len(f.omega) > 0 {
		if err := conflict(cmd, "omega", "save-spec"); err != nil { // a spec holds a seed, not projections
			return err
		}
	}
	return f.mapFlags.check(cmd)
}

func (a *app) features(cmd *cobra.Command, f *featuresFlags, path string) error {
	if err := f.check(cmd, a, path); err != nil {
		return err
	}
	x, err := a.readSet(path)
	if err != nil {
		return err
	}
	spec, err := f.spec(x.Cols())
	if err != nil {
		return err
	}
	other := x
	if f.fit != "" {
		if spec, other, err = a.fit(spec, f.fit, x, f.side == sideKey); err != nil {
			return err
		}
	}
	warn := func() string { return f.warning(spec, x, other) } // for a spec that makes a map
	if f.dtype == "float32" || f.dtype == "" && x.DType == data.Float32 {
		return writeFeatures(cmd.Context(), a, f, spec, x.Float32(), warn)
	}
	return writeFeatures(cmd.Context(), a, f, spec, x.Float64(), warn)
}

// warning judges the combination at rows of x against the other side, which is x itself where it is not known.
func (f *featuresFlags) warning(spec randfeat.Spec, x, other data.Array) string {
	queries, keys := sampleArray(x), sampleArray(other)
	if f.side == sideKey {
		queries, keys = keys, queries
	}
	return f.mapFlags.warning(spec, queries, keys)
}

// readSet reads the rows of an argument and refuses sets that no map accepts.
func (a *app) readSet(path string) (data.Array, error) {
	var x data.Array
	var err error
	if path == "-" {
		path = "stdin"
		x, err = data.ReadNPY(a.stdin)
		if err != nil {
			err = fmt.Errorf("stdin: %w", err)
		}
	} else {
		x, err = data.ReadArrayFile(path)
	}
	if err != nil {
		return x, err
	}
	if x.Rows() == 0 {
		return x, fmt.Errorf("%s has no rows: %w", path, dense.ErrShape)
	}
	if err := x.CheckFinite(); err != nil {
		return x, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

// fit fits the family to x and the rows of a file, which are the other side and returned.
func (a *app) fit(spec randfeat.Spec, path string, x data.Array, xIsKey bool) (randfeat.Spec, data.Array, error) {
	y, err := a.readSet(path)
	if err != nil {
		return spec, y, fmt.Errorf("--fit: %w", err)
	}
	if y.Cols() != x.Cols() {
		return spec, y, fmt.Errorf("--fit: %s has %d columns, the data have %d: %w", path, y.Cols(), x.Cols(),
			dense.ErrShape)
	}
	queries, keys := x.Float64(), y.Float64()
	if xIsKey {
		queries, keys = keys, queries
	}
	spec, err = a.fitSpec(spec, queries, keys)
	return spec, y, err
}

func (a *app) fitSpec(spec randfeat.Spec, queries, keys dense.Matrix[float64]) (randfeat.Spec, error) {
	if f, fits := spec.Family.(family.Fitter); fits {
		a.warn(family.Warning(f, min(queries.Rows, keys.Rows), spec.Kernel.Dim(spec.Dim)))
	} else {
		a.note("note: the family %s has no parameters to fit", spec.Family.Name())
	}
	fitted, err := randfeat.Fit(spec, queries, keys)
	if err != nil {
		return spec, fmt.Errorf("--fit: %w", err)
	}
	return fitted, nil
}

// featureRows bounds the rows of features held at a time.
const featureRows = 1024

func writeFeatures[T dense.Float](ctx context.Context, a *app, f *featuresFlags, spec randfeat.Spec, x dense.Matrix[T],
	warn func() string) error {
	m, err := build[T](&f.mapFlags, spec, 1, f.fit != "")
	if err != nil {
		return err
	}
	if err := checkOutput(m.OutDim(), x.Rows, f.sizeSource()); err != nil {
		return err
	}
	if err := x.CheckFinite(); err != nil { // float64 input may overflow in float32
		return fmt.Errorf("the input as %T: %w", *new(T), err)
	}
	var files outputs
	defer files.abort()
	phi, err := files.create(f.out, a.stdout)
	if err != nil {
		return err
	}
	var scales io.Writer
	if f.logScale != "" {
		if scales, err = files.create(f.logScale, a.stdout); err != nil {
			return err
		}
	}
	if err := streamFeatures(ctx, a, m, f.side, x, phi, scales); err != nil {
		return err
	}
	if f.saveSpec != "" {
		if err := files.json(f.saveSpec, m.Spec()); err != nil {
			return err
		}
	}
	if err := files.commit(); err != nil {
		return err
	}
	return a.reportFeatures(f, FeaturesResult{
		Out: f.out, LogScale: f.logScale, Rows: x.Rows, Features: m.OutDim(), DType: fmt.Sprintf("%T", *new(T)),
		Side: f.side, Positive: m.Positive(), Warning: warn(), Omega: f.omega, Spec: m.Spec(),
	})
}

func (a *app) reportFeatures(f *featuresFlags, r FeaturesResult) error {
	a.warn(r.Warning)
	if a.json {
		return a.object(r)
	}
	a.note("%s: %d×%d %s, %s side of %s features, %s", r.Out, r.Rows, r.Features, r.DType, r.Side, r.Spec.Family.Name(),
		f.origin(r.Spec))
	return nil
}

// streamFeatures maps x block by block. scales may be nil: plain features, which must then be finite.
func streamFeatures[T dense.Float](ctx context.Context, a *app, m *randfeat.Map[T], side string, x dense.Matrix[T],
	phi, scales io.Writer) error {
	out, err := data.NewNPYWriter[T](phi, x.Rows, m.OutDim())
	if err != nil {
		return err
	}
	var logScale []float64
	var scaleOut *data.NPYWriter[float64]
	if scales != nil {
		if scaleOut, err = data.NewNPYWriter[float64](scales, x.Rows, 1); err != nil {
			return err
		}
	}
	apply := m.Queries
	if side == sideKey {
		apply = m.Keys
	}
	zeros, first := 0, 0 // rows without a feature, and the first of them
	bar := a.progress("rows", x.Rows)
	defer bar.end()
	rows := blockRows(m.OutDim(), featureRows)
	buf := dense.New[T](min(rows, x.Rows), m.OutDim())
	var ws randfeat.Workspace[T]
	for lo := 0; lo < x.Rows; lo += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := x.RowRange(lo, min(lo+rows, x.Rows))
		dst := buf.RowRange(0, block.Rows)
		if scales != nil {
			logScale = make([]float64, block.Rows)
		}
		if err := apply(dst, logScale, block, &ws); err != nil {
			return err
		}
		if err := checkLogScales("the input", lo, logScale); err != nil {
			return err
		}
		var overflow *dense.NotFiniteError
		if err := dst.CheckFinite(); errors.As(err, &overflow) {
			if scales != nil {
				return fmt.Errorf("the features of row %d of the input are not finite: the row is too large for this map, choose a larger --scale", lo+overflow.Row)
			}
			return fmt.Errorf("the features of row %d overflow %T: keep them in the log domain with --log-scale S.npy",
				lo+overflow.Row, *new(T))
		}
		for i := range dst.Rows {
			if scales == nil && isZero(dst.Row(i)) {
				if zeros++; zeros == 1 {
					first = lo + i
				}
			}
		}
		if err := out.WriteRows(dst); err != nil {
			return err
		}
		if scales != nil {
			column := dense.Matrix[float64]{Rows: len(logScale), Cols: 1, Stride: 1, Data: logScale}
			if err := scaleOut.WriteRows(column); err != nil {
				return err
			}
		}
		bar.at(lo + block.Rows)
	}
	if scales != nil {
		if err := scaleOut.Close(); err != nil {
			return err
		}
	}
	if zeros > 0 {
		bar.end()
		a.warn(fmt.Sprintf("all features of %d rows are 0, first of row %d: they are below the least %T; --log-scale S.npy "+
			"keeps them in the log domain", zeros, first, *new(T)))
	}
	return out.Close()
}

// outputs are files that appear together: none is moved into place before all are complete.
type outputs struct{ files []*data.AtomicFile }

// create opens a file, or returns stdout for -.
func (o *outputs) create(path string, stdout io.Writer) (io.Writer, error) {
	if path == "-" {
		return stdout, nil
	}
	f, err := data.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	o.files = append(o.files, f)
	return f, nil
}

func (o *outputs) json(path string, v any) error {
	w, err := o.create(path, nil)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

func (o *outputs) commit() error {
	for _, f := range o.files {
		if err := f.Commit(); err != nil {
			return err
		}
	}
	return nil
}

func (o *outputs) abort() {
	for _, f := range o.files {
		f.Abort()
	}
}

// isZero reports whether all numbers of a row are 0.
func isZero[T dense.Float](row []T) bool {
	for _, v := range row {
		if v != 0 {
			return false
		}
	}
	return len(row) > 0
}
