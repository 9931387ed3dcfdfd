package advising

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
)

// adviseData is the input of advise: pairs of sets, one per head, or the arrays of attention.
type adviseData struct {
	heads []struct{ q, k dense.Matrix[float64] }
	files *qkv.Files // set if there are values
}

func (d *adviseData) values() bool { return d.files != nil }

func (d *adviseData) attention(ctx context.Context, vis attention.Visibility, o advise.Options) (*advise.Report,
	error) {
	in, err := qkv.Sequences(*d.files, 0, 0)
	if err != nil {
		return nil, err
	}
	return advise.Attention(ctx, vis, in.Q, in.K, in.V, o)
}

// isArray reports whether a path names an array. stdin is read as one.
func isArray(path string) bool {
	return path == "-" || strings.EqualFold(filepath.Ext(path), ".npy")
}

// adviseInput reads the arguments. npy files and npz members q, k, v are arrays; anything else is a table.
func adviseInput(env *cli.Env, f *adviseFlags, args []string) (*adviseData, error) {
	if len(args) == 1 && strings.EqualFold(filepath.Ext(args[0]), ".npz") {
		tensors, names, err := readNPZ(args[0])
		if err != nil {
			return nil, err
		}
		if tensors != nil {
			return arrays(tensors, names)
		}
	}
	if len(args) == 3 || slices.ContainsFunc(args, isArray) {
		var tensors []npy.Tensor
		var names []string
		for _, path := range args {
			if !isArray(path) {
				return nil, cli.Misused("%s is not an npy file: with values, or if one of the files is npy, all must be",
					path)
			}
			name, t, err := qkv.ReadTensor(env, path)
			if err != nil {
				return nil, err
			}
			tensors, names = append(tensors, t), append(names, name)
		}
		return arrays(tensors, names)
	}
	var out adviseData
	var sets [2]dense.Matrix[float64]
	for i, path := range args {
		src, err := f.Open(env, path)
		if err != nil {
			return nil, err
		}
		if sets[i], err = readTable(src, f, len(args) == 1); err != nil {
			return nil, err
		}
		if sets[i].Rows == 0 {
			return nil, fmt.Errorf("%s has no rows to advise on: %w", path, dense.ErrShape)
		}
	}
	out.heads = append(out.heads, struct{ q, k dense.Matrix[float64] }{sets[0], sets[1]})
	return &out, nil
}

// arrays interprets tensors as heads.
func arrays(tensors []npy.Tensor, names []string) (*adviseData, error) {
	var out adviseData
	for i, t := range tensors {
		if slices.Contains(t.Shape, 0) {
			return nil, fmt.Errorf("%s is %s: it has no rows or no columns to advise on: %w", names[i], t.Dims(),
				dense.ErrShape)
		}
		tensors[i] = t.AsFloats()
	}
	if len(tensors) == 3 {
		out.files = &qkv.Files{Names: [3]string(names), Tensors: [3]npy.Tensor(tensors)}
		return &out, nil
	}
	var s [2]attention.Shape
	var data [2][]float64
	for i, t := range tensors {
		seq, err := qkv.Sequence(names[i], t, 0)
		if err != nil {
			return nil, err
		}
		s[i], data[i] = seq.Shape, npy.Floats[float64](t)
	}
	if len(tensors) == 1 {
		if s[0].Batch*s[0].Heads > 1 {
			return nil, fmt.Errorf("%s is %s, want [n, d] for one set; heads come with queries and keys: %w", names[0],
				tensors[0].Dims(), dense.ErrShape)
		}
		out.heads = append(out.heads, struct{ q, k dense.Matrix[float64] }{q: stackBatches(s[0], data[0], 0)})
		return &out, nil
	}
	if s[0].Heads%max(1, s[1].Heads) != 0 || s[0].Batch != s[1].Batch || s[1].Heads == 0 {
		return nil, fmt.Errorf("%s is %s and %s is %s: the heads do not match: %w", names[0], tensors[0].Dims(),
			names[1],
			tensors[1].Dims(), dense.ErrShape)
	}
	group := s[0].Heads / s[1].Heads
	for h := range s[0].Heads {
		var p struct{ q, k dense.Matrix[float64] }
		p.q, p.k = stackBatches(s[0], data[0], h), stackBatches(s[1], data[1], h/group)
		out.heads = append(out.heads, p)
	}
	return &out, nil
}

// stackBatches returns the rows of a head from all batches.
func stackBatches(s attention.Shape, data []float64, h int) dense.Matrix[float64] {
	out := dense.Matrix[float64]{Rows: s.Batch * s.Len, Cols: s.Dim, Stride: s.Dim}
	n := s.Len * s.Dim
	for b := range s.Batch {
		at := (b*s.Heads + h) * n
		out.Data = append(out.Data, data[at:at+n]...)
	}
	return out
}

// readNPZ reads the members q, k and possibly v. It returns nil if the file has no such members and is
// therefore a table.
func readNPZ(path string) ([]npy.Tensor, []string, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	defer z.Close()
	var tensors []npy.Tensor
	var names []string
	for _, want := range []string{"q.npy", "k.npy", "v.npy"} {
		at := slices.IndexFunc(z.File, func(f *zip.File) bool { return strings.EqualFold(f.Name, want) })
		if at < 0 {
			continue
		}
		name := path + ": " + z.File[at].Name
		r, err := z.File[at].Open()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		t, err := npy.ReadTensor(r)
		r.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		tensors, names = append(tensors, t), append(names, name)
	}
	if len(tensors) < 2 {
		return nil, nil, nil
	}
	return tensors, names, nil
}

// adviseRows bounds the rows of a table that are kept: a uniform random sample (reservoir sampling).
const adviseRows = 1 << 15

// readTable reads the rows of a table, encoded as a kernel machine sees them, or as plain numbers.
func readTable(src data.Source, f *adviseFlags, encode bool) (m dense.Matrix[float64], err error) {
	o := data.LearnOptions{Skip: f.skip}
	if !encode {
		o.Numeric = slices.DeleteFunc(slices.Clone(src.Columns()), func(c string) bool {
			return slices.Contains(f.skip,
				c)
		})
	}
	schema, _, err := data.Learn(src, o)
	if err != nil {
		return m, err
	}
	if !encode {
		for i := range schema.Fields { // undo the standardisation: plain numbers
			schema.Fields[i].Mean, schema.Fields[i].Scale = 0, 1
		}
	}
	enc, err := schema.Encoder(src.Columns(), false)
	if err != nil {
		return m, err
	}
	r, err := src.Open(enc.Kinds())
	if err != nil {
		return m, err
	}
	defer r.Close()
	m.Cols, m.Stride = schema.Width(), schema.Width()
	if m.Cols == 0 {
		return m, fmt.Errorf("%s has no usable columns: %w", src.Name(), dense.ErrShape)
	}
	var b data.Block
	pick, seen := rand.New(rng.Stream(f.seed, 0xad)), 0
	for {
		err := r.Read(&b, 1024)
		if err == io.EOF {
			return m, nil
		}
		if err != nil {
			return m, err
		}
		x := dense.New[float64](b.Rows, m.Cols)
		if err := enc.Encode(x, dense.Matrix[float64]{}, &b, r.Where); err != nil {
			return m, err
		}
		for i := range x.Rows {
			switch seen++; {
			case m.Rows < adviseRows:
				m.Data = append(m.Data, x.Row(i)...)
				m.Rows++
			default:
				if at := pick.IntN(seen); at < adviseRows {
					copy(m.Row(at), x.Row(i))
				}
			}
		}
	}
}
