package models

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
)

// never is the logarithm of what cannot happen: finite, so that differences are.
const never = -1e9

// ctc are the log probabilities [batch, words] that rows of letters [batch, frames, letters] spell words [words,
// letters], filled up by −1: sums over all ways to repeat letters and to put blanks, letter 0, between them (Graves et
// al. 2006, eqs 6, 7). Frames that are not valid are passed over.
func ctc(logits, valid, words *Node) *Node {
	g := logits.Graph()
	d, n := logits.Shape().Dimensions, words.Shape().Dimensions
	batch, frames, letters, count, longest := d[0], d[1], d[2], n[0], n[1]
	top := StopGradient(ReduceAndKeep(logits, ReduceMax, -1))
	logp := Sub(logits, top)
	logp = Sub(logp, Log(ReduceAndKeep(Exp(logp), ReduceSum, -1)))

	// Every word with blanks around its letters: states 0, 2, … are blanks.
	size := 2*longest + 1
	there := GreaterOrEqual(words, ZerosLike(words))
	letter := Where(there, words, ZerosLike(words))
	woven := Reshape(Stack([]*Node{ZerosLike(letter), letter}, -1), count, 2*longest)
	states := Concatenate([]*Node{woven, Zeros(g, shapes.Make(words.DType(), count, 1))}, 1) // [words, states]
	emit := Einsum("btc,wsc->btws", logp, OneHot(states, letters, dtypes.Float32))

	shift := func(x *Node, by int) *Node { // states by positions further on
		pads := make([]compute.PadAxis, x.Rank())
		pads[x.Rank()-1] = compute.PadAxis{Start: by}
		kept := SliceAxis(x, -1, AxisRangeFromStart(size-by))
		return Pad(kept, Scalar(g, x.DType(), never), pads...)
	}
	// A letter may follow the one before it without a blank if it is another.
	skip := make([]bool, size)
	first := make([]float32, size)
	for s := range size {
		skip[s] = s%2 == 1 && s > 1
		if first[s] = never; s < 2 {
			first[s] = 0
		}
	}
	before := Concatenate([]*Node{Zeros(g, shapes.Make(states.DType(), count, 2)),
		SliceAxis(states, 1, AxisRangeFromStart(size-2))}, 1)
	may := LogicalAnd(NotEqual(states, before), BroadcastToDims(Reshape(Const(g, skip), 1, size), count, size))
	jump := Where(may, Zeros(g, shapes.Make(dtypes.Float32, count, size)),
		FillScalar(g, shapes.Make(dtypes.Float32, count, size), never))
	jump = ExpandAxes(jump, 0)

	at := func(t int) *Node { return Squeeze(SliceAxis(emit, 1, AxisElem(t)), 1) } // [batch, words, states]
	alpha := Add(at(0), Reshape(Const(g, first), 1, 1, size))
	for t := 1; t < frames; t++ {
		next := Add(logSum(alpha, shift(alpha, 1), Add(shift(alpha, 2), jump)), at(t))
		on := Reshape(SliceAxis(valid, 1, AxisElem(t)), batch, 1, 1)
		alpha = Where(BroadcastToDims(on, batch, count, size), next, alpha)
	}
	// A word ends in its last letter or the blank behind it.
	length := ReduceSum(ConvertDType(there, dtypes.Int32), 1) // [words]
	state := Iota(g, shapes.Make(dtypes.Int32, count, size), 1)
	last := BroadcastToDims(ExpandAxes(MulScalar(length, 2), -1), count, size)
	ends := LogicalOr(Equal(state, last), Equal(state, AddScalar(last, -1)))
	ends = BroadcastToDims(ExpandAxes(ends, 0), batch, count, size)
	alpha = Where(ends, alpha, FillScalar(g, alpha.Shape(), never))
	most := StopGradient(ReduceAndKeep(alpha, ReduceMax, -1))
	return Add(Squeeze(most, -1), Log(ReduceSum(Exp(Sub(alpha, most)), -1)))
}

// logSum is log Σ exp of nodes of one shape.
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

// spell is the outcome of words: the loss of the true one [batch] by CTC, right where it is the likeliest of all.
func spell(logits, valid, words, labels *Node, points []Point) Outcome {
	g := logits.Graph()
	p := ctc(logits, valid, words)
	on := ConvertDType(GreaterOrEqual(labels, ScalarZero(g, labels.DType())), dtypes.Float32)
	safe := Max(labels, ZerosLike(labels))
	own := ReduceSum(Mul(p, OneHot(safe, p.Shape().Dimensions[1], dtypes.Float32)), -1)
	right := ConvertDType(Equal(ConvertDType(ArgMax(p, -1), labels.DType()), labels), dtypes.Float32)
	return Outcome{Loss: ReduceAllSum(Mul(Neg(own), on)), Count: ReduceAllSum(on), Right: ReduceAllSum(Mul(right, on)),
		Points: append(points, Point{"logits", logits})}
}
