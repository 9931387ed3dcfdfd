package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/kernel"
)

// GramRow is one row of a Gram matrix: what gram --json prints without -o.
type GramRow struct {
	Row    int       `json:"row"`
	Values []float64 `json:"values"`
	// Warning says why the combination is a bad choice; only the first row has it.
	Warning string `json:"warning,omitempty"`
}

// GramResult says what gram -o wrote.
type GramResult struct {
	Out   string `json:"out"`
	Rows  int    `json:"rows"`
	Cols  int    `json:"cols"`
	DType string `json:"dtype"`
	Exact bool   `json:"exact"`
	// Warning says why the combination is a bad choice.
	Warning string         `json:"warning,omitempty"`
	Omega   []string       `json:"omega,omitempty"`
	Spec    *randfeat.Spec `json:"spec,omitempty"` // of an approximate matrix, with the seed
	// Kernel of an exact matrix.
	Kernel *kernel.Kernel `json:"kernel,omitempty"`
}

type gramFlags struct {
	mapFlags
	out                string
	exact, error, demo bool
	fit                bool
	repeat             int
}

func (a *app) gramCommand() *cobra.Command {
	var f gramFlags
	cmd := &cobra.Command{
		Use:   "gram X.npy Y.npy [--exact | --family NAME]",
		Short: "Exact and approximate Gram matrices, and the error between them",
		Long: `Compute the kernel between the rows of X.npy (queries) and Y.npy (keys): approximately from random features, or
exactly with --exact. Tensors of safetensors files are named file.safetensors:name. With -o the matrix is written to an npy file, otherwise its rows are printed.

--error measures the error of the features instead: relative to the exact kernel, over all pairs and --repeat draws of
the projections, beside the error that theory predicts where a closed form exists. With --fit it also estimates the
error on other rows than those of the fit: of fits to half of the rows, at the other half.

--demo needs no files: it runs every family with every coupling on synthetic anisotropic data and prints the
predicted and the measured error of each.`,
		Example: `  randfeat gram --demo
  randfeat gram X.npy Y.npy --exact -o K.npy
  randfeat gram X.npy Y.npy --kernel softmax --family adaptive --fit --coupling orthogonal -m 128 --error`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return exactArgs("none with --demo", 0)(cmd, args)
			}
			return exactArgs("two npy files X.npy and Y.npy, or --demo", 2)(cmd, args)
		},
		ValidArgsFunction: npyArgs(2),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if f.demo {
				return a.demo(cmd, &f)
			}
			return a.gram(cmd, &f, args[0], args[1])
		}),
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "npy file to write; - for stdout")
	flags.BoolVar(&f.exact, "exact", false, "the exact kernel")
	flags.BoolVar(&f.error, "error", false, "print the error of the approximation, predicted and measured, instead of the matrix")
	flags.BoolVar(&f.demo, "demo", false, "all families and couplings on embedded data")
	flags.BoolVar(&f.fit, "fit", false, "fit the family's parameters to X.npy and Y.npy")
	flags.IntVar(&f.repeat, "repeat", 0, "draws of the projections for --error and --demo; default 8 and 16")
	completeFiles(cmd, "out", "npy")
	return cmd
}

func (f *gramFlags) check(cmd *cobra.Command, a *app) error {
	switch {
	case f.exact && f.error:
		return misused("--exact and --error exclude each other: --error compares with the exact kernel anyway")
	case f.error && f.out != "":
		return misused("--error and --out exclude each other")
	case f.out == "-" && a.json:
		return misused("-o - needs stdout for itself: drop --json")
	case f.repeat < 0:
		return misused("--repeat is %d, want at least 1", f.repeat)
	case f.repeat > 0 && !f.error:
		return misused("--repeat needs --error or --demo")
	case f.error && len(f.omega) > 0 && f.repeat > 1:
		return misused("--repeat draws projections anew, --omega gives them: they exclude each other")
	}
	if !f.exact {
		return f.mapFlags.check(cmd)
	}
	if err := conflict(cmd, "exact", "family", "coupling", "projections", "seed", "omega", "spec", "fit"); err != nil {
		return err
	}
	_, err := f.baseKernel(1)
	return err
}

func (a *app) gram(cmd *cobra.Command, f *gramFlags, xPath, yPath string) error {
	if err := f.check(cmd, a); err != nil {
		return err
	}
	if xPath == "-" && yPath == "-" {
		return misused("only one of the two sets can come from stdin")
	}
	x, err := a.readSet(xPath)
	if err != nil {
		return err
	}
	y, err := a.readSet(yPath)
	if err != nil {
		return err
	}
	if x.Cols() != y.Cols() {
		return fmt.Errorf("%s has %d columns, %s has %d: %w", xPath, x.Cols(), yPath, y.Cols(), dense.ErrShape)
	}
	spec, err := f.spec(x.Cols())
	if err != nil {
		return err
	}
	var heldOut *float64
	if f.fit {
		if f.error && len(f.omega) == 0 {
			heldOut = a.heldOut(spec, x.Float64(), y.Float64())
		}
		if spec, err = a.fitSpec(spec, x.Float64(), y.Float64()); err != nil {
			return err
		}
	}
	switch {
	case f.error && x.DType == data.Float32 && y.DType == data.Float32:
		return gramError(cmd.Context(), a, f, spec, heldOut, x.Float32(), y.Float32())
	case f.error:
		return gramError(cmd.Context(), a, f, spec, heldOut, x.Float64(), y.Float64())
	case f.exact:
		return a.exactGram(cmd.Context(), f, spec.Kernel, x.Float64(), y.Float64())
	case x.DType == data.Float32 && y.DType == data.Float32:
		return approximateGram(cmd.Context(), a, f, spec, x.Float32(), y.Float32())
	}
	return approximateGram(cmd.Context(), a, f, spec, x.Float64(), y.Float64())
}

func (a *app) exactGram(ctx context.Context, f *gramFlags, k kernel.Kernel, x, y dense.Matrix[float64]) error {
	result := GramResult{Out: f.out, Rows: x.Rows, Cols: y.Rows, DType: "float64", Exact: true, Kernel: &k}
	fill := func(dst, block dense.Matrix[float64]) error { return kernel.Gram(k, dst, block, y) }
	if err := writeGram(ctx, a, f.out, "", x, y.Rows, fill); err != nil {
		return err
	}
	return a.reportGram(f, result, fmt.Sprintf("exact %v kernel", k.Kind))
}

func approximateGram[T dense.Float](ctx context.Context, a *app, f *gramFlags, spec randfeat.Spec,
	x, y dense.Matrix[T]) error {
	m, err := build[T](&f.mapFlags, spec, libraryRows, f.fit)
	if err != nil {
		return err
	}
	spec = m.Spec()
	result := GramResult{Out: f.out, Rows: x.Rows, Cols: y.Rows, DType: fmt.Sprintf("%T", *new(T)), Omega: f.omega,
		Spec: &spec}
	result.Warning = f.warning(spec, someRows(x), someRows(y))
	var ws randfeat.Workspace[T]
	fill := func(dst, block dense.Matrix[T]) error { return m.Gram(dst, block, y, &ws) }
	if err := writeGram(ctx, a, f.out, result.Warning, x, y.Rows, fill); err != nil {
		return err
	}
	return a.reportGram(f, result, fmt.Sprintf("%v kernel from %d %s features, %s", spec.Kernel.Kind, m.OutDim(),
		spec.Family.Name(), f.origin(spec)))
}

func (a *app) reportGram(f *gramFlags, result GramResult, what string) error {
	a.warn(result.Warning)
	if f.out == "" {
		a.note("%d×%d %s", result.Rows, result.Cols, what)
		return nil
	}
	if a.json {
		return a.object(result)
	}
	a.note("%s: %d×%d %s, %s", f.out, result.Rows, result.Cols, result.DType, what)
	return nil
}

// libraryRows is the number of rows of features that Map.Gram holds of each side.
const libraryRows = 128

// gramBytes bounds the block of the matrix that is held at a time.
const gramBytes = 64 << 20

// writeGram computes the matrix in blocks of rows and writes each to the file, or prints it with the warning.
func writeGram[T dense.Float](ctx context.Context, a *app, path, warn string, x dense.Matrix[T], cols int,
	fill func(dst, block dense.Matrix[T]) error) error {
	if path == "" {
		return eachBlock(ctx, a, x, cols, fill, func(first int, block dense.Matrix[T]) error {
			return a.printRows(first, dense.Convert[float64](block), warn)
		})
	}
	var files outputs
	defer files.abort()
	w, err := files.create(path, a.stdout)
	if err != nil {
		return err
	}
	out, err := data.NewNPYWriter[T](w, x.Rows, cols)
	if err != nil {
		return err
	}
	err = eachBlock(ctx, a, x, cols, fill, func(_ int, block dense.Matrix[T]) error { return out.WriteRows(block) })
	if err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return files.commit()
}

// eachBlock fills blocks of rows of the matrix and hands each on. Values must be finite.
func eachBlock[T dense.Float](ctx context.Context, a *app, x dense.Matrix[T], cols int,
	fill func(dst, block dense.Matrix[T]) error, emit func(first int, block dense.Matrix[T]) error) error {
	rows := min(x.Rows, max(1, gramBytes/(8*cols)))
	buf := dense.New[T](rows, cols)
	bar := a.progress("rows", x.Rows)
	defer bar.end()
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
		bar.at(lo + block.Rows)
	}
	return nil
}

// printRows prints rows as tab-separated numbers or as JSON, whose first row carries the warning.
func (a *app) printRows(first int, block dense.Matrix[float64], warn string) error {
	for i := range block.Rows {
		if a.json {
			row := GramRow{Row: first + i, Values: block.Row(i)}
			if row.Row == 0 {
				row.Warning = warn
			}
			if err := a.object(row); err != nil {
				return err
			}
			continue
		}
		for j, v := range block.Row(i) {
			if j > 0 {
				if err := a.stdout.WriteByte('\t'); err != nil {
					return err
				}
			}
			if _, err := io.WriteString(a.stdout, strconv.FormatFloat(v, 'g', 8, 64)); err != nil {
				return err
			}
		}
		if err := a.stdout.WriteByte('\n'); err != nil {
			return err
		}
	}
	return nil
}
