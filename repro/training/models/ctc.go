package models

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas

	"github.com/randfeat/randfeat/gomlx/train"
)

// never is the logarithm of impossible events. It is finite, so that differences are not NaN.
const never = -1e9

// ctc returns the log probabilities [batch] that the classes [batch, frames, classes] spell words [batch, letters],
// which are padded by −1. It sums over all ways to repeat letters and to insert blanks, class 0 (Graves et al. 2006,
// eqs 6, 7). Frames that are not valid must come last; they are skipped.
func ctc(logits, valid, words *Node) *Node {
	g := logits.Graph()
	d := logits.Shape().Dimensions
	batch, frames, classes, longest := d[0], d[1], d[2], words.Shape().Dimensions[1]
	top := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
	logp := Sub(logits, top)
	logp = Sub(logp, Log(ReduceAndKeep(Exp(logp), ReduceSum, -1)))

	// The states of a word: its letters with blanks around them. States 0, 2, … are blanks.
	size := 2*longest + 1
	there := GreaterOrEqual(words, ZerosLike(words))
	letter := Where(there, words, ZerosLike(words))
	woven := Reshape(Stack([]*Node{ZerosLike(letter), letter}, -1), batch, 2*longest)
	states := Concatenate([]*Node{woven, Zeros(g, shapes.Make(words.DType(), batch, 1))}, 1) // [batch, states]
	emit := Einsum("btc,bsc->bts", logp, OneHot(states, classes, dtypes.Float32))

	// A letter may directly follow the previous one, without a blank, only if the two differ.
	skip := make([]bool, size)
	first := make([]float32, size)
	for s := range size {
		skip[s] = s%2 == 1 && s > 1
		if first[s] = never; s < 2 {
			first[s] = 0
		}
	}
	before := Concatenate([]*Node{Zeros(g, shapes.Make(states.DType(), batch, 2)),
		SliceAxis(states, 1, AxisRangeFromStart(size-2))}, 1)
	may := LogicalAnd(NotEqual(states, before), BroadcastToDims(Reshape(Const(g, skip), 1, size), batch, size))
	jump := Where(may, Zeros(g, shapes.Make(dtypes.Float32, batch, size)),
		FillScalar(g, shapes.Make(dtypes.Float32, batch, size), never))

	at := func(t int) *Node { return Squeeze(SliceAxis(emit, 1, AxisElem(t)), 1) } // [batch, states]
	alpha := Add(at(0), Reshape(Const(g, first), 1, size))
	for t := 1; t < frames; t++ {
		next := Add(logSum(alpha, later(alpha, 1, never), Add(later(alpha, 2, never), jump)), at(t))
		alpha = Where(BroadcastToDims(SliceAxis(valid, 1, AxisElem(t)), batch, size), next, alpha)
	}
	// A word ends with its last letter or the blank after it.
	state := Iota(g, shapes.Make(dtypes.Int32, batch, size), 1)
	last := BroadcastToDims(MulScalar(lengths(words), 2), batch, size)
	ends := LogicalOr(Equal(state, last), Equal(state, AddScalar(last, -1)))
	alpha = Where(ends, alpha, FillScalar(g, alpha.Shape(), never))
	most := StopGradient(ReduceAndKeep(alpha, ReduceMax, -1))
	return Add(Squeeze(most, -1), Log(ReduceSum(Exp(Sub(alpha, most)), -1)))
}

// lengths returns the number of letters of each word [batch, 1].
func lengths(words *Node) *Node {
	there := GreaterOrEqual(words, ZerosLike(words))
	return ReduceAndKeep(ConvertDType(there, dtypes.Int32), ReduceSum, 1)
}

// later shifts x [batch, n] to later places of its last axis and fills the front with a value.
func later(x *Node, by int, value float64) *Node {
	n := x.Shape().Dimensions[1]
	if by >= n {
		return FillScalar(x.Graph(), x.Shape(), value)
	}
	kept := SliceAxis(x, -1, AxisRangeFromStart(n-by))
	return Pad(kept, Scalar(x.Graph(), x.DType(), value), compute.PadAxis{}, compute.PadAxis{Start: by})
}

// logSum returns log Σ exp of nodes of one shape.
func logSum(x ...*Node) *Node {
	top := x[0]
	for _, y := range x[1:] {
		top = Max(top, y)
	}
	top = StopGradient(top)
	var sum *Node
	for _, y := range x {
		e := Exp(Sub(y, top))
		if sum == nil {
			sum = e
		} else {
			sum = Add(sum, e)
		}
	}
	return Add(top, Log(sum))
}

// edits returns the edit distance [batch, 1] between words [batch, letters], padded by −1, and what was heard: the
// likeliest class of every frame without repetitions and blanks. It loops over the letters and treats all frames at
// once, because there are more frames than letters.
func edits(logits, valid, words *Node) *Node {
	g := logits.Graph()
	d := logits.Shape().Dimensions
	batch, frames, longest := d[0], d[1], words.Shape().Dimensions[1]
	best := ConvertDType(ArgMax(logits, -1), dtypes.Float32) // [batch, frames]
	heard := LogicalAnd(valid, LogicalAnd(NotEqual(best, ZerosLike(best)), NotEqual(best, later(best, 1, 0))))
	// Column 0 stands before the first frame.
	best = Pad(best, Scalar(g, dtypes.Float32, 0), compute.PadAxis{}, compute.PadAxis{Start: 1})
	one := Pad(ConvertDType(heard, dtypes.Float32), Scalar(g, dtypes.Float32, 0), compute.PadAxis{},
		compute.PadAxis{Start: 1})
	total := one // letters heard up to each frame, by doubling
	for by := 1; by <= frames; by *= 2 {
		total = Add(total, later(total, by, 0))
	}
	const far = 1e6
	row := total // distance between the frames so far and the first j letters
	said := ConvertDType(words, dtypes.Float32)
	rows := []*Node{row}
	for j := range longest {
		other := ConvertDType(NotEqual(best, BroadcastToDims(SliceAxis(said, 1, AxisElem(j)), batch, frames+1)),
			dtypes.Float32)
		// A frame at which nothing is heard repeats the previous one.
		kept := Add(later(row, 1, far), Add(other, MulScalar(OneMinus(one), far)))
		next := Sub(Min(AddScalar(row, 1), kept), total)
		for by := 1; by <= frames; by *= 2 { // insert the letters heard since
			next = Min(next, later(next, by, far))
		}
		row = Add(next, total)
		rows = append(rows, row)
	}
	ends := Concatenate(mapNodes(rows, func(x *Node) *Node { return SliceAxis(x, 1, AxisElem(-1)) }), 1)
	hot := OneHot(Squeeze(lengths(words), 1), longest+1, dtypes.Float32)
	return ReduceAndKeep(Mul(ends, hot), ReduceSum, 1)
}

func mapNodes(in []*Node, f func(*Node) *Node) []*Node {
	out := make([]*Node, len(in))
	for i, x := range in {
		out[i] = f(x)
	}
	return out
}

// spell returns the outcome for words [batch, letters]. The loss is CTC, counted per letter. Right is the number of
// letters minus the edit distance, so that the accuracy is one minus the letter error rate. A word without letters
// does not count.
func spell(logits, valid, words *Node, points []train.Point) train.Outcome {
	n := ConvertDType(lengths(words), dtypes.Float32)
	on := Squeeze(Sign(n), 1)
	loss := ReduceAllSum(Mul(Neg(ctc(logits, valid, words)), on))
	right := Sub(n, edits(StopGradient(logits), valid, words))
	return train.Outcome{Loss: loss, Count: ReduceAllSum(n), Right: ReduceAllSum(Mul(Squeeze(right, 1), on)),
		Points: append(points, train.Point{Name: "logits", Node: logits})}
}
