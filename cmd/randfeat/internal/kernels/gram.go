package kernels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/mapflags"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/kernel"
)

// GramRow is one row of a Gram matrix: an object of gram --json without -o.
type GramRow struct {
	Row    int       `json:"row"`    // index of the row, from 0
	Values []float64 `json:"values"` // kernel values of this row
	// Warning says why the combination is a bad choice; only the first row has it.
	Warning string `json:"warning,omitempty"`
}

// GramResult is the object of gram --json with -o.
type GramResult struct {
	Out   string `json:"out"`
	Rows  int    `json:"rows"`
	Cols  int    `json:"cols"` // columns of the matrix
	DType string `json:"dtype"`
	Exact bool   `json:"exact"` // the matrix is the kernel itself, not an estimate
	// Warning says why the combination is a bad choice.
	Warning string         `json:"warning,omitempty"`
	Omega   []string       `json:"omega,omitempty"`
	Spec    *randfeat.Spec `json:"spec,omitempty"` // map of an approximate matrix, with the seed
	// Kernel of an exact matrix.
	Kernel *kernel.Kernel `json:"kernel,omitempty"`
}

type gramFlags struct {
	mapflags.Flags
	out                string
	exact, error, demo bool
	fit                bool
	repeat             int
}

func GramCommand(env *cli.Env) *cobra.Command {
	var f gramFlags
	cmd := &cobra.Command{
		Use:   "gram X.npy Y.npy [--exact | --family NAME]",
		Short: "Exact and approximate Gram matrices, and the error between them",
		Long: `Compute the kernel between the rows of X.npy (queries) and Y.npy (keys): approximately from random features, or
exactly with --exact. A tensor of a safetensors file is named file.safetensors:name. -o writes the matrix to an npy file;
without it the rows are printed.

--error measures the error of the features instead: relative to the exact kernel, over all pairs and --repeat draws of
the projections, beside the error that theory predicts where a closed form exists. With --fit it also estimates the
error on new rows, by fitting to one half of the rows and measuring on the other half.

--demo needs no files: it runs every family with every coupling on synthetic anisotropic data and prints the
predicted and the measured error of each.`,
		Example: `  randfeat gram --demo
  randfeat gram X.npy Y.npy --exact -o K.npy
  randfeat gram X.npy Y.npy --kernel softmax --family adaptive --fit --coupling orthogonal --projections 128 --error`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return cli.ExactArgs("none with --demo", 0)(cmd, args)
			}
			return cli.ExactArgs("two npy files X.npy and Y.npy, or --demo", 2)(cmd, args)
		},
		ValidArgsFunction: cli.NPYArgs(2),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return runDemo(env, cmd, &f)
			}
			return runGram(env, cmd, &f, args[0], args[1])
		}),
	}
	f.Add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy `file` to write; - for stdout")
	flags.BoolVar(&f.exact, "exact", false, "compute the exact kernel")
	flags.BoolVar(&f.error, "error", false, "print the error of the approximation, predicted and measured, instead of the matrix")
	flags.BoolVar(&f.demo, "demo", false, "show all families and couplings on generated data")
	flags.BoolVar(&f.fit, "fit", false, "fit the family's parameters to X.npy and Y.npy")
	flags.IntVar(&f.repeat, "repeat", 0, "draws of the projections (default 8 for --error, 16 for --demo)")
	cli.CompleteFiles(cmd, "out", "npy")
	return cmd
}

func (f *gramFlags) check(cmd *cobra.Command, env *cli.Env) error {
	switch {
	case f.exact && f.error:
		return cli.Misused("--exact and --error exclude each other: --error compares with the exact kernel anyway")
	case f.error && f.out != "":
		return cli.Misused("--error and --out exclude each other")
	case f.out == "-" && env.JSON:
		return cli.Misused("-o - needs stdout for itself: drop --json")
	case f.repeat < 0:
		return cli.Misused("--repeat is %d, want at least 1", f.repeat)
	case f.repeat > 0 && !f.error:
		return cli.Misused("--repeat needs --error or --demo")
	case f.error && len(f.Omega) > 0 && f.repeat > 1:
		return cli.Misused("--repeat draws projections anew, --omega gives them: they exclude each other")
	}
	if !f.exact {
		return f.Flags.Check(cmd)
	}
	if err := cli.Conflict(cmd, "exact", "family", "coupling", "projections", "seed", "omega", "spec",
		"fit"); err != nil {
		return err
	}
	_, err := f.BaseKernel(1)
	return err
}

func runGram(env *cli.Env, cmd *cobra.Command, f *gramFlags, xPath, yPath string) error {
	if err := f.check(cmd, env); err != nil {
		return err
	}
	if xPath == "-" && yPath == "-" {
		return cli.Misused("only one of the two sets can come from stdin")
	}
	x, err := mapflags.ReadSet(env, xPath)
	if err != nil {
		return err
	}
	y, err := mapflags.ReadSet(env, yPath)
	if err != nil {
		return err
	}
	if x.Cols() != y.Cols() {
		return fmt.Errorf("%s has %d columns, %s has %d: %w", xPath, x.Cols(), yPath, y.Cols(), dense.ErrShape)
	}
	spec, err := f.Spec(x.Cols())
	if err != nil {
		return err
	}
	var heldOut *float64
	if f.fit {
		if f.error && len(f.Omega) == 0 {
			heldOut = heldOutError(env, spec, x.Float64(), y.Float64())
		}
		if spec, err = mapflags.FitSpec(env, spec, x.Float64(), y.Float64()); err != nil {
			return err
		}
	}
	switch {
	case f.error && x.DType == npy.Float32 && y.DType == npy.Float32:
		return gramError(cmd.Context(), env, f, spec, heldOut, x.Float32(), y.Float32())
	case f.error:
		return gramError(cmd.Context(), env, f, spec, heldOut, x.Float64(), y.Float64())
	case f.exact:
		return exactGram(cmd.Context(), env, f, spec.Kernel, x.Float64(), y.Float64())
	case x.DType == npy.Float32 && y.DType == npy.Float32:
		return approximateGram(cmd.Context(), env, f, spec, x.Float32(), y.Float32())
	}
	return approximateGram(cmd.Context(), env, f, spec, x.Float64(), y.Float64())
}

func exactGram(ctx context.Context, env *cli.Env, f *gramFlags, k kernel.Kernel, x, y dense.Matrix[float64]) error {
	result := GramResult{Out: f.out, Rows: x.Rows, Cols: y.Rows, DType: "float64", Exact: true, Kernel: &k}
	fill := func(dst, block dense.Matrix[float64]) error { return kernel.Gram(k, dst, block, y) }
	if err := writeGram(ctx, env, f.out, "", x, y.Rows, fill); err != nil {
		return err
	}
	return reportGram(env, f, result, fmt.Sprintf("exact %v kernel", k.Kind))
}

func approximateGram[T dense.Float](ctx context.Context, env *cli.Env, f *gramFlags, spec randfeat.Spec,
	x, y dense.Matrix[T]) error {
	m, err := mapflags.Build[T](&f.Flags, spec, mapflags.LibraryRows, f.fit)
	if err != nil {
		return err
	}
	spec = m.Spec()
	result := GramResult{Out: f.out, Rows: x.Rows, Cols: y.Rows, DType: fmt.Sprintf("%T", *new(T)), Omega: f.Omega,
		Spec: &spec}
	result.Warning = f.Warning(spec, mapflags.SomeRows(x), mapflags.SomeRows(y))
	var ws randfeat.Workspace[T]
	var lost randfeat.Underflow
	fill := func(dst, block dense.Matrix[T]) error {
		if err := m.Gram(dst, block, y, &ws); err != nil {
			return err
		}
		// Estimates that underflow are counted against the exact kernel: zeros may be right, or a loss.
		u, err := m.Underflow(dst, block, y, &ws)
		if lost.Add(u); err == nil && lost.Entries == x.Rows*y.Rows && lost.Zeros == lost.Entries && lost.Lost > 0 {
			err = errors.New(underflowText[T](lost)) // fail before the file is moved into place
		}
		return err
	}
	if err := writeGram(ctx, env, f.out, result.Warning, x, y.Rows, fill); err != nil {
		return err
	}
	if lost.Below > 0 {
		result.Warning = joined(result.Warning, underflowText[T](lost))
	}
	return reportGram(env, f, result, fmt.Sprintf("%v kernel from %d %s features, %s", spec.Kernel.Kind, m.OutDim(),
		spec.Family.Name(), f.Origin(spec)))
}

// underflowText explains estimates below the smallest number, and the remedy.
func underflowText[T dense.Float](u randfeat.Underflow) string {
	text := fmt.Sprintf("%d of %d estimates are 0: they are below the smallest %T", u.Zeros, u.Entries, *new(T))
	if u.Lost == 0 {
		return text + ", and so is the exact kernel where it was checked"
	}
	return text + fmt.Sprintf(", but the exact kernel is not for %d of the %d that were checked. The rows are too long "+
		"for this family: choose a larger --scale, --family trig, whose features are bounded, or --exact", u.Lost, u.Checked)
}

// joined joins two warnings.
func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func reportGram(env *cli.Env, f *gramFlags, result GramResult, what string) error {
	env.Warn(result.Warning)
	if f.out == "" {
		env.Note("%d×%d %s", result.Rows, result.Cols, what)
		return nil
	}
	if env.JSON {
		return env.Object(result)
	}
	env.Note("%s: %d×%d %s, %s", f.out, result.Rows, result.Cols, result.DType, what)
	return nil
}

// gramBytes bounds the block of the matrix that is held at a time.
const gramBytes = 64 << 20

// writeGram computes the matrix in blocks of rows and writes each to the file, or prints it with the warning.
func writeGram[T dense.Float](ctx context.Context, env *cli.Env, path, warn string, x dense.Matrix[T], cols int,
	fill func(dst, block dense.Matrix[T]) error) error {
	if path == "" {
		return eachBlock(ctx, env, x, cols, fill, func(first int, block dense.Matrix[T]) error {
			return printRows(env, first, dense.Convert[float64](block), warn)
		})
	}
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(path, env)
	if err != nil {
		return err
	}
	out, err := npy.NewWriter[T](w, x.Rows, cols)
	if err != nil {
		return err
	}
	err = eachBlock(ctx, env, x, cols, fill, func(_ int, block dense.Matrix[T]) error { return out.WriteRows(block) })
	if err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return files.Commit()
}

// eachBlock fills blocks of rows of the matrix and passes each to emit. Values must be finite.
func eachBlock[T dense.Float](ctx context.Context, env *cli.Env, x dense.Matrix[T], cols int,
	fill func(dst, block dense.Matrix[T]) error, emit func(first int, block dense.Matrix[T]) error) error {
	rows := min(x.Rows, max(1, gramBytes/(8*cols)))
	buf := dense.New[T](rows, cols)
	bar := env.Progress("rows", x.Rows)
	defer bar.End()
	for lo := 0; lo < x.Rows; lo += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := x.RowRange(lo, min(lo+rows, x.Rows))
		dst := buf.RowRange(0, block.Rows)
		if err := fill(dst, block); err != nil {
			return err
		}
		var overflow *dense.NotFiniteError
		if err := dst.CheckFinite(); errors.As(err, &overflow) {
			return fmt.Errorf("the kernel of x row %d and y row %d overflows %T: choose a larger --scale",
				lo+overflow.Row, overflow.Col, *new(T))
		}
		if err := emit(lo, dst); err != nil {
			return err
		}
		bar.At(lo + block.Rows)
	}
	return nil
}

// printRows prints rows as tab-separated numbers or as JSON, whose first row carries the warning.
func printRows(env *cli.Env, first int, block dense.Matrix[float64], warn string) error {
	for i := range block.Rows {
		if env.JSON {
			row := GramRow{Row: first + i, Values: block.Row(i)}
			if row.Row == 0 {
				row.Warning = warn
			}
			if err := env.Object(row); err != nil {
				return err
			}
			continue
		}
		for j, v := range block.Row(i) {
			if j > 0 {
				if err := env.Stdout.WriteByte('\t'); err != nil {
					return err
				}
			}
			if _, err := io.WriteString(env.Stdout, strconv.FormatFloat(v, 'g', 8, 64)); err != nil {
				return err
			}
		}
		if err := env.Stdout.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}
