// Package qkv reads queries, keys and values of attention from files and checks that their shapes fit together.
package qkv

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// Files are the three arrays of a command line, still in the element types of their files.
type Files struct {
	Names   [3]string // of q, k and v, for messages
	Tensors [3]npy.Tensor
}

// ReadFiles reads q, k and v; at most one of them comes from stdin.
func ReadFiles(env *cli.Env, paths []string) (Files, error) {
	var f Files
	for i, path := range paths {
		var err error
		if f.Names[i], f.Tensors[i], err = ReadTensor(env, path); err != nil {
			return f, err
		}
		if !f.Tensors[i].IsFloat() {
			return f, fmt.Errorf("%s holds %s, want floats: convert with array.astype('float32')",
				f.Names[i], f.Tensors[i].Element)
		}
	}
	return f, nil
}

// ReadTensor reads an npy file or a tensor of a safetensors file; - is stdin. name is its name in messages.
func ReadTensor(env *cli.Env, path string) (name string, t npy.Tensor, err error) {
	if path == "-" {
		t, err = npy.ReadTensor(env.Stdin)
		if err != nil {
			err = fmt.Errorf("stdin: %w", err)
		}
		return "stdin", t, err
	}
	t, err = cli.Await(env, func() (npy.Tensor, error) { return npy.ReadAnyTensor(path) })
	return path, t, err
}

// IsFloat32 reports whether all three arrays are float32.
func (f Files) IsFloat32() bool {
	return !slices.ContainsFunc(f.Tensors[:], func(t npy.Tensor) bool { return t.DType != npy.Float32 })
}

// Input is one attention problem.
type Input struct {
	Q, K, V attention.Seq[float32]
	Vis     attention.Visibility
	Shape   []int // shape of the output file
	// Unit is the binary exponent of the unit of the values and of the output: float64 values may be out of the range
	// of float32. It is 0 for values of ordinary size.
	Unit int
}

// Sequences interprets the arrays as sequences. Without heads they are [L, d], [H, L, d] or [B, H, L, d]. With
// heads, the columns of [L, H·d] or [B, L, H·d] are split into heads; kvHeads is the number of heads of k and
// v, 0 for the same. The data are not copied if they are float32.
func Sequences(f Files, heads, kvHeads int) (Input, error) {
	var in Input
	var s [3]attention.Seq[float32]
	for i, t := range f.Tensors {
		if len(t.Shape) != len(f.Tensors[0].Shape) {
			return in, fmt.Errorf("%s is %s and %s is %s: they need the same number of dimensions: %w", f.Names[0],
				f.Tensors[0].Dims(), f.Names[i], t.Dims(), dense.ErrShape)
		}
		n := heads
		if i > 0 && heads > 0 && kvHeads > 0 {
			n = kvHeads
		}
		var err error
		if s[i], err = Sequence(f.Names[i], t, n); err != nil {
			return in, err
		}
	}
	in.Q, in.K, in.V = s[0], s[1], s[2]
	if t := f.Tensors[2]; t.DType == npy.Float64 {
		wide := npy.Floats[float64](t)
		if in.Unit = exponent(wide, in.V.Dim); in.Unit != 0 {
			for i, x := range wide {
				in.V.Data[i] = float32(math.Ldexp(x, -in.Unit))
			}
		}
	}
	if err := f.check(in.Q.Batch, in.K.Batch, in.V.Batch, "the number of batches"); err != nil {
		return in, err
	}
	if in.Q.Dim != in.K.Dim {
		return in, f.differ(0, 1, fmt.Sprintf("queries of %d columns and keys of %d", in.Q.Dim, in.K.Dim))
	}
	if in.K.Len != in.V.Len {
		return in, f.differ(1, 2, fmt.Sprintf("%d keys and %d values", in.K.Len, in.V.Len))
	}
	if in.K.Heads != in.V.Heads {
		return in, f.differ(1, 2, fmt.Sprintf("%d heads of keys and %d of values", in.K.Heads, in.V.Heads))
	}
	if in.K.Heads == 0 || in.Q.Heads%in.K.Heads != 0 {
		return in, f.differ(0, 1, fmt.Sprintf("%d query heads are not a multiple of %d key/value heads", in.Q.Heads,
			in.K.Heads))
	}
	if kvHeads > 0 && in.K.Heads != kvHeads {
		return in, fmt.Errorf("--kv-heads is %d, %s is %s: %d heads: %w", kvHeads, f.Names[1], f.Tensors[1].Dims(),
			in.K.Heads, dense.ErrShape)
	}
	// The output has the layout of Q with the columns of V.
	in.Shape = slices.Clone(f.Tensors[0].Shape)
	last := len(in.Shape) - 1
	in.Shape[last] = in.Shape[last] / in.Q.Dim * in.V.Dim
	rows := float64(in.Q.Batch) * float64(in.Q.Heads) * float64(in.Q.Len)
	if size := rows * float64(in.V.Dim); size > maxAttend {
		return in, fmt.Errorf("the output %s would have %.3g elements, the limit is %d: %w", npy.Dims(in.Shape), size,
			int64(maxAttend), dense.ErrShape)
	}
	return in, nil
}

// exponent is the median of the binary exponents of the largest values of rows, if values of this size may be out of
// the range of float32, else 0.
func exponent(x []float64, cols int) int {
	var all []int
	for ; len(x) >= cols; x = x[cols:] {
		most := 0.0
		for _, v := range x[:cols] {
			most = max(most, math.Abs(v))
		}
		if most > 0 && !math.IsInf(most, 0) && !math.IsNaN(most) {
			all = append(all, math.Ilogb(most))
		}
	}
	slices.Sort(all)
	if len(all) == 0 || max(all[len(all)/2], -all[len(all)/2]) < 60 {
		return 0
	}
	return all[len(all)/2]
}

// maxAttend bounds the elements of the output, which is held in memory: 32 GiB of float32.
const maxAttend = 1 << 33

func (f Files) check(q, k, v int, what string) error {
	switch {
	case q != k:
		return f.differ(0, 1, fmt.Sprintf("%s is %d and %d", what, q, k))
	case k != v:
		return f.differ(1, 2, fmt.Sprintf("%s is %d and %d", what, k, v))
	}
	return nil
}

// differ is the error for two arrays that do not fit together.
func (f Files) differ(i, j int, what string) error {
	return fmt.Errorf("%s is %s and %s is %s: %s: %w", f.Names[i], f.Tensors[i].Dims(), f.Names[j], f.Tensors[j].Dims(),
		what, dense.ErrShape)
}

// Sequence interprets one array; see Sequences.
func Sequence(name string, t npy.Tensor, heads int) (attention.Seq[float32], error) {
	var s attention.Seq[float32]
	shape := t.Shape
	bad := func(want string) (attention.Seq[float32], error) {
		return s, fmt.Errorf("%s is %s, want %s: %w", name, t.Dims(), want, dense.ErrShape)
	}
	if heads == 0 {
		if len(shape) < 2 || len(shape) > 4 {
			return bad("[L, d], [H, L, d] or [B, H, L, d]")
		}
		full := append(slices.Repeat([]int{1}, 4-len(shape)), shape...)
		s = attention.Seq[float32]{Shape: attention.Shape{Batch: full[0], Heads: full[1], Len: full[2], Dim: full[3]}}
		s.StrideL, s.StrideH, s.StrideB = s.Dim, s.Len*s.Dim, s.Heads*s.Len*s.Dim
	} else {
		if len(shape) < 2 || len(shape) > 3 {
			return bad("[L, H·d] or [B, L, H·d] with --heads")
		}
		full := append(slices.Repeat([]int{1}, 3-len(shape)), shape...)
		if full[2]%heads != 0 {
			return bad(fmt.Sprintf("columns that divide into %d heads", heads))
		}
		s = attention.Seq[float32]{Shape: attention.Shape{Batch: full[0], Heads: heads, Len: full[1],
			Dim: full[2] / heads}}
		s.StrideH, s.StrideL, s.StrideB = s.Dim, full[2], full[1]*full[2]
	}
	if s.Dim == 0 || s.Heads == 0 || s.Batch == 0 {
		return bad("at least one batch, head and column")
	}
	s.Data = npy.Floats[float32](t)
	return s, nil
}

// Name replaces the library's q, k and v at the start of an error by file names.
func (f Files) Name(err error) error {
	for i, s := range []string{"q: ", "k: ", "v: "} {
		if text := err.Error(); len(text) > len(s) && text[:len(s)] == s {
			return fmt.Errorf("%s as %w", f.Names[i], err)
		}
	}
	return err
}

// CanFit reports whether at least one query and one key are unmasked. All heads share the masks.
func (in *Input) CanFit() bool {
	queries, keys := in.FitMasks()
	return in.Q.Len > 0 && in.K.Len > 0 && (queries == nil || slices.Contains(queries, true)) &&
		(keys == nil || slices.Contains(keys, true))
}

// FitMasks returns which queries and keys count in a fit. If both sides have the same length, padding keys are
// padding queries, too.
func (in *Input) FitMasks() (queries, keys []bool) {
	if in.Q.Len == in.K.Len {
		queries = in.Vis.KeyMask
	}
	return queries, in.Vis.KeyMask
}
