package attend

import (
	"math"
	"slices"

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
	w, err := files.Create(path, env.Stdout)
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

// narrow returns the sequence in float32, divided by 2^exp. Plans are chosen and errors measured in float32 whatever
// the inputs are: errors of 4e-7 do not count beside those of plans, and the code of the search is in the program once.
func narrow[T dense.Float](s attention.Seq[T], exp int) attention.Seq[float32] {
	if same, ok := any(s).(attention.Seq[float32]); ok {
		return same
	}
	out := attention.NewSeq[float32](s.Batch, s.Heads, s.Len, s.Dim)
	for b := range s.Batch {
		for h := range s.Heads {
			to, from := out.Head(b, h), s.Head(b, h)
			for i := range s.Len {
				for j, x := range from.Row(i) {
					to.Row(i)[j] = float32(math.Ldexp(float64(x), -exp))
				}
			}
		}
	}
	return out
}

// exponent is that of a typical value, the median over rows of their largest, if values of this size may be out of
// the range of float32; else 0. Relative errors of outputs do not depend on the unit of the values.
func exponent[T dense.Float](v attention.Seq[T]) int {
	var all []int
	for b := range v.Batch {
		for h := range v.Heads {
			m := v.Head(b, h)
			for i := range m.Rows {
				most := 0.0
				for _, x := range m.Row(i) {
					most = max(most, math.Abs(float64(x)))
				}
				if most > 0 && !math.IsInf(most, 0) && !math.IsNaN(most) {
					all = append(all, math.Ilogb(most))
				}
			}
		}
	}
	slices.Sort(all)
	if len(all) == 0 || max(all[len(all)/2], -all[len(all)/2]) < 60 {
		return 0
	}
	return all[len(all)/2]
}
