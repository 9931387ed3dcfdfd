package attend

import (
	"io"
	"math"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// likeQueries allocates an output with the memory layout of the queries.
func likeQueries(in qkv.Input) attention.Seq[float32] {
	if in.Q.StrideH == in.Q.Dim && in.Q.StrideL == in.Q.Heads*in.Q.Dim {
		return attention.NewSeqBLHD[float32](in.Q.Batch, in.Q.Len, in.Q.Heads, in.V.Dim)
	}
	return attention.NewSeq[float32](in.Q.Batch, in.Q.Heads, in.Q.Len, in.V.Dim)
}

// headRange returns a view of heads lo to hi-1.
func headRange(s attention.Seq[float32], lo, hi int) attention.Seq[float32] {
	s.Heads = hi - lo
	s.Data = s.Data[min(lo*s.StrideH, len(s.Data)):]
	return s
}

// writeSequence writes the output in its file layout, as float32 or, if wide is set, as float64 in units of 2^unit. out
// has the memory order of the file, so it is written as one matrix.
func writeSequence(env *cli.Env, path string, shape []int, out attention.Seq[float32], wide bool, unit int) error {
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(path, env)
	if err != nil {
		return err
	}
	cols := shape[len(shape)-1]
	rows := dense.Matrix[float32]{Rows: len(out.Data) / cols, Cols: cols, Stride: cols, Data: out.Data}
	if wide {
		all := dense.Convert[float64](rows)
		for i, x := range all.Data {
			all.Data[i] = math.Ldexp(x, unit)
		}
		err = writeRows(w, shape, all)
	} else {
		err = writeRows(w, shape, rows)
	}
	if err != nil {
		return err
	}
	return files.Commit()
}

// writeRows writes an npy file.
func writeRows[T dense.Float](w io.Writer, shape []int, rows dense.Matrix[T]) error {
	n, err := npy.NewTensorWriter[T](w, shape)
	if err != nil {
		return err
	}
	if err := n.WriteRows(rows); err != nil {
		return err
	}
	return n.Close()
}

// firstRows returns a view of the first n positions.
func firstRows(s attention.Seq[float32], n int) attention.Seq[float32] {
	s.Len = min(s.Len, n)
	return s
}
