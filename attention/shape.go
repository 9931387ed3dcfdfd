package attention

import (
	"fmt"

	"github.com/randfeat/randfeat/dense"
)

// Shape is the size of a sequence, independent of where its numbers are stored. Heads are query heads for q and out,
// key/value heads for k and v.
type Shape struct{ Batch, Heads, Len, Dim int }

// Sizes returns the shape itself, so that a type that embeds a Shape satisfies the constraint of [Attention].
func (s Shape) Sizes() Shape { return s }

// String returns "[batch, heads, length, dim]".
func (s Shape) String() string {
	return fmt.Sprintf("[%d, %d, %d, %d]", s.Batch, s.Heads, s.Len, s.Dim)
}

func (s Shape) check(name string) error {
	if s.Batch < 0 || s.Heads < 0 || s.Len < 0 || s.Dim < 0 {
		return fmt.Errorf("%s is %v: %w", name, s, dense.ErrShape)
	}
	return nil
}

// sequence is a sequence in any storage: [Seq] in the memory of the host, or a handle of device memory.
type sequence interface{ Sizes() Shape }

// Attention writes the attention of queries q over keys k and values v into out, for sequences of one kind of
// storage. [Exact], [Constant] and the methods of packages linear, centroid and choose implement Attention[Seq[T]]. An
// implementation on a device has sequences of its own. All validate shapes with Visibility.CheckShapes.
type Attention[S sequence] interface {
	Forward(out, q, k, v S) (Report, error)
}

// CheckShapes validates the shapes of a Forward call and the lengths of the masks and segments of v. Errors wrap
// dense.ErrShape.
func (v *Visibility) CheckShapes(out, q, k, val Shape) error {
	if err := v.checkInputs(q, k, val); err != nil {
		return err
	}
	if want := (Shape{q.Batch, q.Heads, q.Len, val.Dim}); out != want {
		return fmt.Errorf("out is %v, want %v: %w", out, want, dense.ErrShape)
	}
	return nil
}

// checkInputs is CheckShapes without the output.
func (v *Visibility) checkInputs(q, k, val Shape) error {
	for _, s := range [...]struct {
		name string
		Shape
	}{{"q", q}, {"k", k}, {"v", val}} {
		if err := s.check(s.name); err != nil {
			return err
		}
	}
	switch {
	case k.Batch != q.Batch || val.Batch != q.Batch:
		return fmt.Errorf("batches of q, k, v are %d, %d, %d, want them equal: %w", q.Batch, k.Batch, val.Batch,
			dense.ErrShape)
	case k.Dim != q.Dim:
		return fmt.Errorf("q has dimension %d, k %d, want them equal: %w", q.Dim, k.Dim, dense.ErrShape)
	case k.Heads != val.Heads || k.Len != val.Len:
		return fmt.Errorf("k has %d heads of %d positions, v %d of %d, want them equal: %w", k.Heads, k.Len, val.Heads,
			val.Len, dense.ErrShape)
	case q.Heads != 0 && (k.Heads == 0 || q.Heads%k.Heads != 0):
		return fmt.Errorf("%d query heads on %d key heads, want a multiple: %w", q.Heads, k.Heads, dense.ErrShape)
	}
	return v.check(q.Batch, q.Len, k.Len)
}

// CheckForward validates the arguments of a Forward on the host: first their memory, then their shapes. Implementations
// of [Attention] call it.
func CheckForward[T dense.Float](vis *Visibility, out, q, k, v Seq[T]) error {
	for _, s := range [...]struct {
		name string
		seq  Seq[T]
	}{{"q", q}, {"k", k}, {"v", v}, {"out", out}} {
		if err := s.seq.Check(s.name); err != nil {
			return err
		}
	}
	return vis.CheckShapes(out.Shape, q.Shape, k.Shape, v.Shape)
}

// CheckBackward validates the further arguments of a Backward: each gradient must have the shape of its sequence.
func CheckBackward[T dense.Float](dq, dk, dv, dout, out, q, k, v Seq[T]) error {
	for _, s := range [...]struct {
		name, like string
		got, want  Seq[T]
	}{{"dq", "q", dq, q}, {"dk", "k", dk, k}, {"dv", "v", dv, v}, {"dout", "out", dout, out}} {
		if err := s.got.Check(s.name); err != nil {
			return err
		}
		if s.got.Shape != s.want.Shape {
			return fmt.Errorf("%s is %v, %s %v, want them equal: %w", s.name, s.got.Shape, s.like, s.want.Shape,
				dense.ErrShape)
		}
	}
	return nil
}
