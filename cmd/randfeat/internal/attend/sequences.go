package attend

import (
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
)

// likeQueries allocates an output with the memory layout of the queries.
func likeQueries[T dense.Float](in qkv.Input[T]) attention.Seq[T] {
	if in.Q.StrideH == in.Q.Dim && in.Q.StrideL == in.Q.Heads*in.Q.Dim {
		return attention.NewSeqBLHD[T](in.Q.Batch, in.Q.Len, in.Q.Heads, in.V.Dim)
	}
	return attention.NewSeq[T](in.Q.Batch, in.Q.Heads, in.Q.Len, in.V.Dim)
}

// headRange returns a view of heads lo to hi-1.
func headRange[T dense.Float](s attention.Seq[T], lo, hi int) attention.Seq[T] {
	s.Heads = hi - lo
	s.Data = s.Data[min(lo*s.StrideH, len(s.Data)):]
	return s
}

// writeSequence writes the output in its file layout. out has the memory order of the file, so it is written as
// one matrix.
func writeSequence[T dense.Float](env *cli.Env, path string, shape []int, out attention.Seq[T]) error {
	var files cli.Outputs
	defer files.Abort()
	w, err := files.Create(path, env)
	if err != nil {
		return err
	}
	n, err := npy.NewTensorWriter[T](w, shape)
	if err != nil {
		return err
	}
	cols := shape[len(shape)-1]
	// the memory order of the file
	rows := dense.Matrix[T]{Rows: len(out.Data) / cols, Cols: cols, Stride: cols, Data: out.Data}
	if err := n.WriteRows(rows); err != nil {
		return err
	}
	if err := n.Close(); err != nil {
		return err
	}
	return files.Commit()
}

// firstRows returns a view of the first n positions.
func firstRows[T dense.Float](s attention.Seq[T], n int) attention.Seq[T] {
	s.Len = min(s.Len, n)
	return s
}
