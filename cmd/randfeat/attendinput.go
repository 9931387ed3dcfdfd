package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// attendFiles are the three arrays of a command line, still in the element types of their files.
type attendFiles struct {
	names   [3]string // q, k, v as messages call them
	tensors [3]data.Tensor
}

// readAttend reads q, k and v; one of them may come from stdin.
func (a *app) readAttend(paths []string) (attendFiles, error) {
	var f attendFiles
	for i, path := range paths {
		var err error
		if f.names[i], f.tensors[i], err = a.readTensor(path); err != nil {
			return f, err
		}
		if !f.tensors[i].IsFloat() {
			return f, fmt.Errorf("%s holds %s, want floats: convert with array.astype('float32')",
				f.names[i], f.tensors[i].Element)
		}
	}
	return f, nil
}

func (a *app) readTensor(path string) (name string, t data.Tensor, err error) {
	if path == "-" {
		t, err = data.ReadNPYTensor(a.stdin)
		if err != nil {
			err = fmt.Errorf("stdin: %w", err)
		}
		return "stdin", t, err
	}
	t, err = data.ReadTensorFile(path)
	return path, t, err
}

// isFloat32 reports whether all three arrays are float32.
func (f attendFiles) isFloat32() bool {
	return !slices.ContainsFunc(f.tensors[:], func(t data.Tensor) bool { return t.DType != data.Float32 })
}

// attendInput is one attention problem.
type attendInput[T dense.Float] struct {
	q, k, v attention.Seq[T]
	vis     attention.Visibility
	shape   []int // of the output file
}

// sequences sees the arrays as sequences. Without heads they are [L, d], [H, L, d] or [B, H, L, d]; with heads the
// columns of [L, H·d] or [B, L, H·d] are split, kvHeads being the number of heads of k and v.
func sequences[T dense.Float](f attendFiles, heads, kvHeads int) (attendInput[T], error) {
	var in attendInput[T]
	var s [3]attention.Seq[T]
	for i, t := range f.tensors {
		if len(t.Shape) != len(f.tensors[0].Shape) {
			return in, fmt.Errorf("%s is %s and %s is %s: they need the same number of dimensions: %w", f.names[0],
				f.tensors[0].Dims(), f.names[i], t.Dims(), dense.ErrShape)
		}
		n := heads
		if i > 0 && heads > 0 && kvHeads > 0 {
			n = kvHeads
		}
		var err error
		if s[i], err = sequence[T](f.names[i], t, n); err != nil {
			return in, err
		}
	}
	in.q, in.k, in.v = s[0], s[1], s[2]
	if err := f.check(in.q.Batch, in.k.Batch, in.v.Batch, "the number of batches"); err != nil {
		return in, err
	}
	if in.q.Dim != in.k.Dim {
		return in, f.differ(0, 1, fmt.Sprintf("queries of %d columns and keys of %d", in.q.Dim, in.k.Dim))
	}
	if in.k.Len != in.v.Len {
		return in, f.differ(1, 2, fmt.Sprintf("%d keys and %d values", in.k.Len, in.v.Len))
	}
	if in.k.Heads != in.v.Heads {
		return in, f.differ(1, 2, fmt.Sprintf("%d heads of keys and %d of values", in.k.Heads, in.v.Heads))
	}
	if in.k.Heads == 0 || in.q.Heads%in.k.Heads != 0 {
		return in, f.differ(0, 1, fmt.Sprintf("%d query heads are no multiple of %d key/value heads", in.q.Heads,
			in.k.Heads))
	}
	if kvHeads > 0 && in.k.Heads != kvHeads {
		return in, fmt.Errorf("--kv-heads is %d, %s is %s: %d heads: %w", kvHeads, f.names[1], f.tensors[1].Dims(),
			in.k.Heads, dense.ErrShape)
	}
	in.shape = slices.Clone(f.tensors[0].Shape)
	last := len(in.shape) - 1
	in.shape[last] = in.shape[last] / in.q.Dim * in.v.Dim
	rows := float64(in.q.Batch) * float64(in.q.Heads) * float64(in.q.Len)
	if size := rows * float64(in.v.Dim); size > maxAttend {
		return in, fmt.Errorf("the output %s would have %.3g elements, the limit is %d: %w", data.Dims(in.shape), size,
			int64(maxAttend), dense.ErrShape)
	}
	return in, nil
}

// maxAttend bounds the elements of the output, which is held in memory: 32 GiB of float32.
const maxAttend = 1 << 33

func (f attendFiles) check(q, k, v int, what string) error {
	switch {
	case q != k:
		return f.differ(0, 1, fmt.Sprintf("%s is %d and %d", what, q, k))
	case k != v:
		return f.differ(1, 2, fmt.Sprintf("%s is %d and %d", what, k, v))
	}
	return nil
}

func (f attendFiles) differ(i, j int, what string) error {
	return fmt.Errorf("%s is %s and %s is %s: %s: %w", f.names[i], f.tensors[i].Dims(), f.names[j], f.tensors[j].Dims(),
		what, dense.ErrShape)
}

func sequence[T dense.Float](name string, t data.Tensor, heads int) (attention.Seq[T], error) {
	var s attention.Seq[T]
	shape := t.Shape
	bad := func(want string) (attention.Seq[T], error) {
		return s, fmt.Errorf("%s is %s, want %s: %w", name, t.Dims(), want, dense.ErrShape)
	}
	if heads == 0 {
		if len(shape) < 2 || len(shape) > 4 {
			return bad("[L, d], [H, L, d] or [B, H, L, d]")
		}
		full := append(slices.Repeat([]int{1}, 4-len(shape)), shape...)
		s = attention.Seq[T]{Shape: attention.Shape{Batch: full[0], Heads: full[1], Len: full[2], Dim: full[3]}}
		s.StrideL, s.StrideH, s.StrideB = s.Dim, s.Len*s.Dim, s.Heads*s.Len*s.Dim
	} else {
		if len(shape) < 2 || len(shape) > 3 {
			return bad("[L, H·d] or [B, L, H·d] with --heads")
		}
		full := append(slices.Repeat([]int{1}, 3-len(shape)), shape...)
		if full[2]%heads != 0 {
			return bad(fmt.Sprintf("columns that divide into %d heads", heads))
		}
		s = attention.Seq[T]{Shape: attention.Shape{Batch: full[0], Heads: heads, Len: full[1], Dim: full[2] / heads}}
		s.StrideH, s.StrideL, s.StrideB = s.Dim, full[2], full[1]*full[2]
	}
	if s.Dim == 0 || s.Heads == 0 || s.Batch == 0 {
		return bad("at least one batch, head and column")
	}
	s.Data = data.Floats[T](t)
	return s, nil
}

// positions reads an integer or bool array [L] or [B, L], one number for each position of a side.
func (a *app) positions(flag, path string, batch, length int) ([]int64, error) {
	name, t, err := a.readTensor(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	if t.IsFloat() {
		return nil, fmt.Errorf("--%s: %s holds %s, want bools or integers: convert with array.astype('int32')", flag,
			name, t.Element)
	}
	switch {
	case slices.Equal(t.Shape, []int{batch, length}):
		return t.Int, nil
	case slices.Equal(t.Shape, []int{length}):
		return slices.Repeat(t.Int, batch), nil
	}
	return nil, fmt.Errorf("--%s: %s is %s, want [%d] or [%d, %d]: %w", flag, name, t.Dims(), length, batch, length,
		dense.ErrShape)
}

func asMask(v []int64) []bool {
	out := make([]bool, len(v))
	for i, x := range v {
		out[i] = x != 0
	}
	return out
}

func asIDs(flag string, v []int64) ([]int32, error) {
	out := make([]int32, len(v))
	for i, x := range v {
		if x < math.MinInt32 || x > math.MaxInt32 {
			return nil, fmt.Errorf("--%s: the id %d does not fit into 32 bits: number the sequences anew", flag, x)
		}
		out[i] = int32(x)
	}
	return out, nil
}

// visibility reads the masks and segments of the flags for one problem.
func (a *app) visibility(f *attendFlags, batch, lenQ, lenK int) (attention.Visibility, error) {
	v := attention.Visibility{Causal: f.causal}
	if f.mask != "" {
		m, err := a.positions("mask", f.mask, batch, lenK)
		if err != nil {
			return v, err
		}
		v.KeyMask = asMask(m)
	}
	if f.segments == "" {
		return v, nil
	}
	ids, err := a.positions("segments", f.segments, batch, lenQ)
	if err != nil {
		return v, err
	}
	if v.Segments, err = asIDs("segments", ids); err != nil {
		return v, err
	}
	switch {
	case f.keySegments != "":
		if ids, err = a.positions("key-segments", f.keySegments, batch, lenK); err != nil {
			return v, err
		}
		v.KeySegments, err = asIDs("key-segments", ids)
	case lenQ != lenK:
		return v, fmt.Errorf("--segments with %d queries and %d keys needs --key-segments for the keys: %w", lenQ, lenK,
			dense.ErrShape)
	}
	return v, err
}
