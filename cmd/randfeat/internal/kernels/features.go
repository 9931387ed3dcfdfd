// Package kernels has the commands that compute features and kernel matrices: features and gram.
//
// Each command checks its flags (check), reads sets of rows, and streams blocks of rows through the library. gram
// --error measures and predicts errors in measure.go. demo.go and demodata.go generate data, so that gram --demo
// needs no files.
package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// FeaturesResult is the object of features --json.
type FeaturesResult struct {
	Out      string        `json:"out"`
	LogScale string        `json:"log_scale,omitempty"` // file with the log scale of each row
	Rows     int           `json:"rows"`
	Features int           `json:"features"`
	DType    string        `json:"dtype"`
	Side     string        `json:"side"`              // query or key
	Positive bool          `json:"positive"`          // every feature of the map is non-negative
	Warning  string        `json:"warning,omitempty"` // why the combination is a bad choice
	Omega    []string      `json:"omega,omitempty"`   // files of given projections; then the seed is not used
	Spec     randfeat.Spec `json:"spec"`              // with fitted parameters and the seed
}

const (
	sideQuery = "query"
	sideKey   = "key"
)

type featuresFlags struct {
	mapflags.Flags
	out, logScale, side, dtype, fit, saveSpec string
}

func FeaturesCommand(env *cli.Env) *cobra.Command {
	var f featuresFlags
	cmd := &cobra.Command{
		Use:   "features X.npy -o PHI.npy --family NAME",
		Short: "Map the rows of a matrix to random features",
		Long: `Map the rows of X.npy to random features: φ1 for queries and φ2 for keys, with φ1(x)·φ2(y) ≈ kernel(x, y). Map both sides
with the same flags. For symmetric families the two maps are equal.

X.npy holds a two-dimensional array of float16, float32 or float64; - reads it from stdin. A tensor of a safetensors
file, also of bfloat16, is named file.safetensors:name. The output is float64 if X is, else float32, unless --dtype says
otherwise; -o - writes it to stdout.

--fit Y.npy fits the family's parameters to both sides: X.npy is the side that --side names, Y.npy the other one. For a
kernel machine give the same file twice. --save-spec keeps the fitted map for --spec.

Features are exponentials and may overflow. With --log-scale S.npy row i of the output is φ(x_i)·exp(-S_i) and S.npy
holds the column of S_i.`,
		Example: `  randfeat features Q.npy -o PQ.npy --kernel softmax --scale attention --family oprf --coupling orthogonal --projections 256 --fit K.npy
  randfeat features K.npy -o PK.npy --kernel softmax --scale attention --family oprf --coupling orthogonal --projections 256 --fit Q.npy --side key`,
		Args:              cli.ExactArgs("one npy file X.npy", 1),
		ValidArgsFunction: cli.NPYArgs(1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runFeatures(env, cmd, &f, args[0])
		}),
	}
	f.Add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy `file` to write (required)")
	flags.StringVar(&f.logScale, "log-scale", "", "npy `file` for the log scales of the rows (default: features are not scaled)")
	flags.StringVar(&f.side, "side", sideQuery, "query or key")
	flags.StringVar(&f.dtype, "dtype", "", "float32 or float64 (default: as in X.npy)")
	flags.StringVar(&f.fit, "fit", "", "npy `file` with the other side: fit the family's parameters to both")
	flags.StringVar(&f.saveSpec, "save-spec", "", "JSON `file` for the map, with fitted parameters and seed")
	cli.CompleteFiles(cmd, "out", "npy")
	cli.CompleteFiles(cmd, "log-scale", "npy")
	cli.CompleteFiles(cmd, "fit", "npy")
	cli.CompleteFiles(cmd, "save-spec", "json")
	cli.CompleteNames(cmd, "side", func() []string { return []string{sideQuery, sideKey} })
	cli.CompleteNames(cmd, "dtype", func() []string { return []string{"float32", "float64"} })
	return cmd
}

func (f *featuresFlags) check(cmd *cobra.Command, env *cli.Env, path string) error {
	if f.out == "" {
		return cli.Misused("--out (-o) is missing: name the npy file to write")
	}
	if f.out == "-" && (env.JSON || f.logScale == "-") {
		return cli.Misused("-o - needs stdout for itself: drop --json and write --log-scale to a file")
	}
	if f.logScale != "" && f.logScale == f.out {
		return cli.Misused("--log-scale and --out are the same file %s", f.out)
	}
	if path == "-" && f.fit == "-" {
		return cli.Misused("only one of X.npy and --fit can come from stdin")
	}
	if f.side != sideQuery && f.side != sideKey {
		return cli.Misused("--side is %q, want query or key", f.side)
	}
	if f.dtype != "" && f.dtype != "float32" && f.dtype != "float64" {
		return cli.Misused("--dtype is %q, want float32 or float64", f.dtype)
	}
	if f.saveSpec == "-" || f.saveSpec != "" && (f.saveSpec == f.out || f.saveSpec == f.logScale) {
		return cli.Misused("--save-spec is %q, want a file of its own", f.saveSpec)
	}
	if f.SpecFile != "" {
		if err := cli.Conflict(cmd, "spec", "fit"); err != nil {
			return err
		}
	}
	if len(f.Omega) > 0 {
		if err := cli.Conflict(cmd, "omega", "save-spec"); err != nil { // a spec holds a seed, not projections
			return err
		}
	}
	return f.Flags.Check(cmd)
}

func runFeatures(env *cli.Env, cmd *cobra.Command, f *featuresFlags, path string) error {
	if err := f.check(cmd, env, path); err != nil {
		return err
	}
	x, err := mapflags.ReadSet(env, path)
	if err != nil {
		return err
	}
	spec, err := f.Spec(x.Cols())
	if err != nil {
		return err
	}
	other := x
	if f.fit != "" {
		if spec, other, err = fitFile(env, spec, f.fit, x, f.side == sideKey); err != nil {
			return err
		}
	}
	warn := func() string { return f.warning(spec, x, other) } // evaluated later, for a spec that makes a valid map
	if f.dtype == "float32" || f.dtype == "" && x.DType == npy.Float32 {
		return writeFeatures(cmd.Context(), env, f, spec, x.Float32(), warn)
	}
	return writeFeatures(cmd.Context(), env, f, spec, x.Float64(), warn)
}

// warning judges the combination at rows of x and the other side, which is x itself if it is unknown.
func (f *featuresFlags) warning(spec randfeat.Spec, x, other npy.Array) string {
	queries, keys := mapflags.SampleArray(x), mapflags.SampleArray(other)
	if f.side == sideKey {
		queries, keys = keys, queries
	}
	return f.Flags.Warning(spec, queries, keys)
}

// fitFile fits the family to x and to the rows of a file, the other side, which it returns.
func fitFile(env *cli.Env, spec randfeat.Spec, path string, x npy.Array, xIsKey bool) (randfeat.Spec, npy.Array,
	error) {
	y, err := mapflags.ReadSet(env, path)
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
	spec, err = mapflags.FitSpec(env, spec, queries, keys)
	return spec, y, err
}

// featureRows bounds the rows of features held at a time.
const featureRows = 1024

// writeFeatures builds the map in precision T and streams the features to the output. The outputs appear
// together.
func writeFeatures[T dense.Float](ctx context.Context, env *cli.Env, f *featuresFlags, spec randfeat.Spec,
	x dense.Matrix[T], warn func() string) error {
	m, err := mapflags.Build[T](&f.Flags, spec, 1, f.fit != "")
	if err != nil {
		return err
	}
	if err := cli.CheckOutput(m.OutDim(), x.Rows, f.SizeSource()); err != nil {
		return err
	}
	if err := x.CheckFinite(); err != nil { // a float64 value may overflow in float32
		return fmt.Errorf("the input as %T: %w", *new(T), err)
	}
	var files cli.Outputs
	defer files.Abort()
	phi, err := files.Create(f.out, env)
	if err != nil {
		return err
	}
	var scales io.Writer
	if f.logScale != "" {
		if scales, err = files.Create(f.logScale, env); err != nil {
			return err
		}
	}
	if err := streamFeatures(ctx, env, m, f.side, x, phi, scales); err != nil {
		return err
	}
	if f.saveSpec != "" {
		if err := files.JSON(f.saveSpec, m.Spec()); err != nil {
			return err
		}
	}
	if err := files.Commit(); err != nil {
		return err
	}
	return reportFeatures(env, f, FeaturesResult{
		Out: f.out, LogScale: f.logScale, Rows: x.Rows, Features: m.OutDim(), DType: fmt.Sprintf("%T", *new(T)),
		Side: f.side, Positive: m.Positive(), Warning: warn(), Omega: f.Omega, Spec: m.Spec(),
	})
}

func reportFeatures(env *cli.Env, f *featuresFlags, r FeaturesResult) error {
	env.Warn(r.Warning)
	if env.JSON {
		return env.Object(r)
	}
	env.Note("%s: %d×%d %s, %s side of %s features, %s", r.Out, r.Rows, r.Features, r.DType, r.Side,
		r.Spec.Family.Name(), f.Origin(r.Spec))
	return nil
}

// streamFeatures maps x block by block. If scales is nil the features are plain and must be finite.
func streamFeatures[T dense.Float](ctx context.Context, env *cli.Env, m *randfeat.Map[T], side string,
	x dense.Matrix[T],
	phi, scales io.Writer) error {
	out, err := npy.NewWriter[T](phi, x.Rows, m.OutDim())
	if err != nil {
		return err
	}
	var logScale []float64
	var scaleOut *npy.Writer[float64]
	if scales != nil {
		if scaleOut, err = npy.NewWriter[float64](scales, x.Rows, 1); err != nil {
			return err
		}
	}
	apply := m.Queries
	if side == sideKey {
		apply = m.Keys
	}
	zeros, first := 0, 0 // rows whose features all underflow, and the first of them
	bar := env.Progress("rows", x.Rows)
	defer bar.End()
	rows := cli.BlockRows(m.OutDim(), featureRows)
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
		if err := cli.CheckLogScales("the input", lo, logScale); err != nil {
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
		bar.At(lo + block.Rows)
	}
	if scales != nil {
		if err := scaleOut.Close(); err != nil {
			return err
		}
	}
	if zeros > 0 {
		bar.End()
		env.Warn(fmt.Sprintf("all features of %d rows are 0, first of row %d: they are below the least %T; --log-scale S.npy "+
			"keeps them in the log domain", zeros, first, *new(T)))
	}
	return out.Close()
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
