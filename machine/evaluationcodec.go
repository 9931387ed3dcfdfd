package machine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/internal/seal"
)

// evaluationFormat is the format of a saved evaluation. The flag is 1 for rows with weights, plus 2 if some scores are
// not probabilities. The counts are the task (as in a saved smoother), outputs, rows, and rows whose ranks are kept.
// The body has the numbers of Evaluation.walk, 8 bytes each, then for every rank the class u32, the weight f64 (with
// weights), and the scores f64.
var evaluationFormat = seal.Format{Magic: "randfeat evaluation\n", Version: 1, Counts: 4}

// walk visits all numbers whose count does not depend on the rows, in the order of the format. Both directions of the
// codec use it, so they cannot disagree.
func (e *Evaluation) walk(f func(*float64), n func(*int64)) {
	tallies := func(ts ...*tally) {
		for _, t := range ts {
			f(&t.w)
			f(&t.w2)
		}
	}
	of := func(ms ...*moments) {
		for _, m := range ms {
			n(&m.n)
			tallies(&m.of)
			for _, v := range []*float64{&m.mean, &m.m2, &m.m3, &m.squares.mean, &m.squares.m2} {
				f(v)
			}
		}
	}
	for i, row := range e.confusion {
		for j := range row {
			n(&row[j])
			if e.weights != nil {
				tallies(&e.weights[i][j])
			}
		}
	}
	for _, l := range []*lossSums{&e.loss, &e.squares} {
		of(&l.moments)
		tallies(&l.wrong)
		f(&l.extra)
		f(&l.fear)
	}
	for i := range e.bins {
		b := &e.bins[i]
		n(&b.n)
		tallies(&b.rows, &b.right)
		f(&b.said)
		f(&b.variance)
	}
	n(&e.ranks.step)
	n(&e.ranks.rows)
	of(&e.mse, &e.mae)
	for k := range e.perMSE {
		of(&e.perMSE[k])
		s := &e.r2[k]
		n(&s.rows)
		tallies(&s.of)
		f(&s.shift)
		for _, v := range [][]float64{s.u[:], s.u2[:], s.e[:], s.e2[:], s.ee[:], s.ee2[:]} {
			for i := range v {
				f(&v[i])
			}
		}
		f(&s.eee)
	}
	of(&e.logs)
	tallies(&e.covered, &e.varied)
	n(&e.ranged)
	of(&e.score)
}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (e *Evaluation) MarshalBinary() ([]byte, error) { return e.AppendBinary(nil) }

// AppendBinary appends the sums over the rows so far to b.
func (e *Evaluation) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	le := binary.LittleEndian
	b = evaluationFormat.Begin(b, seal.Header{Flag: uint16(flag(e.weights != nil) + 2*flag(e.unlikely)),
		Counts: []uint64{uint64(slices.Index(sumsTasks, e.task)), uint64(e.outputs), uint64(e.n),
			uint64(len(e.ranks.labels))}})
	e.walk(func(v *float64) { b = le.AppendUint64(b, math.Float64bits(*v)) },
		func(v *int64) { b = le.AppendUint64(b, uint64(*v)) })
	for _, l := range e.ranks.labels {
		b = le.AppendUint32(b, uint32(l))
	}
	b = seal.Append(b, e.ranks.weights...)
	b = seal.Append(b, e.ranks.scores...)
	return seal.Close(b, start), nil
}

// UnmarshalBinary reads into e, which must have no rows, the bytes that AppendBinary of an evaluation of the same model
// wrote. Another task or shape is [ErrMismatch], damaged input [ErrCorrupt]; e is unusable after an error. Memory is
// bounded by the length of b.
func (e *Evaluation) UnmarshalBinary(b []byte) error {
	h, body, err := evaluationFormat.Open(b)
	if err != nil {
		return fmt.Errorf("saved evaluation: %w", err)
	}
	count := h.Counts
	if h.Flag > 3 || count[0] >= uint64(len(sumsTasks)) {
		return fmt.Errorf("saved evaluation: flag %d, task number %d: %w", h.Flag, count[0], ErrCorrupt)
	}
	if task := sumsTasks[count[0]]; task != e.task || count[1] != uint64(e.outputs) || e.n != 0 {
		return fmt.Errorf("saved evaluation of a %s with %d outputs, want a %s with %d: %w", task, count[1], e.task,
			e.outputs, ErrMismatch)
	}
	if e.unlikely = h.Flag&2 == 2; h.Flag&1 == 1 && e.task == Classification {
		e.weigh()
	}
	size := 0
	e.walk(func(*float64) { size += 8 }, func(*int64) { size += 8 })
	perRank := 4 + 8*e.ranks.width()
	if e.weights != nil {
		perRank += 8
	}
	n := count[3]
	if e.ranks.classes == 0 && n > 0 || n > uint64(len(body)/perRank) || len(body) != size+int(n)*perRank ||
		n > count[2] {
		return fmt.Errorf("saved evaluation: %d bytes with %d ranks: %w", len(body), n, ErrCorrupt)
	}
	ok, le := true, binary.LittleEndian
	e.walk(func(v *float64) { *v, body = math.Float64frombits(le.Uint64(body)), body[8:] }, func(v *int64) {
		*v, body = int64(le.Uint64(body)), body[8:]
		ok = ok && *v >= 0
	})
	for range n {
		l := le.Uint32(body)
		ok = ok && l < uint32(e.outputs)
		e.ranks.labels, body = append(e.ranks.labels, int32(l)), body[4:]
	}
	if e.weights != nil {
		e.ranks.weights = make([]float64, n)
		body = seal.Read(body, e.ranks.weights, &ok)
	}
	e.ranks.scores = make([]float64, int(n)*e.ranks.width())
	seal.Read(body, e.ranks.scores, &ok)
	// Merging doubles the smaller step until both are equal, so a step is always a power of two.
	step := e.ranks.step
	ok = ok && step <= 1<<40 && step&(step-1) == 0 && (step == 0) == (e.ranks.rows == 0) &&
		e.ranks.rows <= int64(count[2])
	if !ok {
		return fmt.Errorf("saved evaluation: numbers that none has: %w", ErrCorrupt)
	}
	e.n = int64(count[2])
	return nil
}
