package centroid

import (
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// Forward with [Sketch] computes the outputs of a decoding state ([Chunks]) that gets the visible keys of a packed
// sequence one after the other. A masked key takes no position: the chunks consist of visible keys, and rows equal
// those of the sequence without its padding. The query of a masked key sees the visible keys before it.

// replay is one packed sequence of one key/value head.
type replay struct {
	replaySpan
	q, k, v attention.Seq[float32] // all its queries, its visible keys and their values
	asked   attention.Seq[float32] // queries at the positions of visible keys, which weigh these keys
	chunks  int                    // the number of chunks of earlier replays
	head    chunkHead              // all chunks
}

// replaySpan is the visible keys of one packed sequence of one key/value head.
type replaySpan struct {
	b, h    int
	span    attention.Span
	from    int     // the key at the position of the first query that weighs keys
	visible []int32 // positions of the keys that are not masked; nil: all
	asking  []int32 // those from position from on, less from
}

// replayRows rows at most are one task, which has recent keys of its own.
const replayRows = 256

func newReplaySpan(mask []bool, b, h int, s attention.Span) replaySpan {
	o := replaySpan{b: b, h: h, span: s, from: max(s.K1-s.K0-(s.Q1-s.Q0), 0)}
	if mask = mask[min(s.K0, len(mask)):min(s.K1, len(mask))]; !slices.Contains(mask, false) {
		return o
	}
	o.visible = make([]int32, 0, len(mask))
	for j, yes := range mask {
		if yes {
			o.visible = append(o.visible, int32(j))
			if j >= o.from {
				o.asking = append(o.asking, int32(j-o.from))
			}
		}
	}
	return o
}

// sees is the number of visible keys up to the position of a query of the batch.
func (o *replaySpan) sees(query int) int {
	end := min(max(query-o.span.Q1+o.span.K1-o.span.K0+1, 0), o.span.K1-o.span.K0)
	if o.visible == nil {
		return end
	}
	n, _ := slices.BinarySearch(o.visible, int32(end))
	return n
}

// newReplay takes the queries of a span and its visible keys.
func newReplay(o replaySpan, q, k, v attention.Seq[float32]) replay {
	group, s := q.Heads/k.Heads, o.span
	out := replay{replaySpan: o, k: window(k, o.b, o.h, 1, s.K0, s.K1), v: window(v, o.b, o.h, 1, s.K0, s.K1),
		q: window(q, o.b, o.h*group, group, s.Q0, s.Q1)}
	out.asked = window(out.q, 0, 0, group, min(max(s.Q1-s.Q0-(s.K1-s.K0), 0), s.Q1-s.Q0), s.Q1-s.Q0)
	if o.visible != nil {
		out.k, out.v, out.asked = positionsOf(out.k, o.visible), positionsOf(out.v, o.visible),
			positionsOf(out.asked, o.asking)
		out.from = len(o.visible) - len(o.asking)
	}
	return out
}

// window is a view of some heads and positions of one batch.
//
//go:noinline
func window(s attention.Seq[float32], b, h, heads, lo, hi int) attention.Seq[float32] {
	s.Data = s.Data[min(b*s.StrideB+h*s.StrideH+lo*s.StrideL, len(s.Data)):]
	s.Batch, s.Heads, s.Len = 1, heads, hi-lo
	return s
}

// positionsOf is a copy of some positions of one batch.
func positionsOf(s attention.Seq[float32], at []int32) attention.Seq[float32] {
	out := attention.NewSeq[float32](1, s.Heads, len(at), s.Dim)
	for h := range s.Heads {
		to, from := out.Head(0, h), s.Head(0, h)
		for i, l := range at {
			copy(to.Row(i), from.Row(int(l)))
		}
	}
	return out
}

// replays clusters the chunks of all packed sequences and heads, batch by batch.
func replays(a *Attention, q, k, v attention.Seq[float32]) ([]replay, error) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return nil, err
	}
	scale, err := logitScale(a.Scale, q.Dim)
	if err != nil {
		return nil, err
	}
	specs := lower(nil, a.Specs)
	var out []replay
	var chunks []jobRange // lo is the number of a chunk
	var spans []attention.Span
	for b := range k.Batch {
		spans = a.Spans(spans[:0], b, q.Len, k.Len)
		for h := range k.Heads {
			for _, s := range spans {
				o := newReplay(newReplaySpan(a.MaskOf(b, k.Len), b, h, s), q, k, v)
				o.chunks = len(chunks)
				for j := range farChunks(specOf(specs, h), o.k.Len-1) {
					chunks = append(chunks, jobRange{problem: len(out), lo: j})
				}
				out = append(out, o)
			}
		}
	}
	clusters := make([]chunkClusters, len(chunks))
	par.For(len(chunks), 1, func(lo, hi int) {
		var f chunkFit
		for i := lo; i < hi; i++ {
			o, j := &out[chunks[i].problem], chunks[i].lo
			spec := *specOf(specs, o.h)
			k0, k1 := j*spec.chunk, (j+1)*spec.chunk
			if j > 0 {
				spec.sinks = 0
			}
			clusters[i] = f.cluster(tab, &spec, scale,
				window(o.asked, 0, 0, o.asked.Heads, max(k0-o.from, 0), max(k1-o.from, 0)),
				window(o.k, 0, 0, 1, k0, k1), window(o.v, 0, 0, 1, k0, k1))
		}
	})
	par.For(len(out), 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			for at := out[i].chunks; at < len(chunks) && chunks[at].problem == i; at++ {
				out[i].head.push(tab, specOf(specs, out[i].h), &clusters[at])
			}
		}
	})
	return out, nil
}

// replayTask is some wanted rows of a replay.
type replayTask struct {
	replay int
	rows   []int // of the output, in the order of their queries
}

// wantedOrder is the rows of an output in the order of their queries.
func wantedOrder(wanted []int) []int {
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return wanted[i] - wanted[j] })
	return order
}

// appendTasks appends the tasks of replay i.
func (o *replaySpan) appendTasks(tasks []replayTask, i int, wanted, order []int) []replayTask {
	for at := 0; at < len(order); {
		lo := at
		for ; at < len(order) && at-lo < replayRows && wanted[order[at]] < o.span.Q1; at++ {
			if wanted[order[at]] < o.span.Q0 {
				lo = at + 1
			}
		}
		if at == lo {
			break
		}
		tasks = append(tasks, replayTask{i, order[lo:at]})
	}
	return tasks
}

// forwardReplay computes all rows, or the wanted ones, of sequences whose chunks are clustered.
func forwardReplay(a *Attention, all []replay, wanted []int, out attention.Seq[float32]) (
	attention.Report, error) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return attention.Report{}, err
	}
	if wanted == nil {
		for l := range out.Len {
			wanted = append(wanted, l)
		}
	}
	order := wantedOrder(wanted)
	var tasks []replayTask
	for i := range all {
		tasks = all[i].appendTasks(tasks, i, wanted, order)
	}
	specs, reports := lower(nil, a.Specs), make([]attention.Report, len(tasks))
	scale, err := logitScale(a.Scale, all[0].q.Dim)
	if err != nil {
		return attention.Report{}, err
	}
	par.For(len(tasks), 1, func(lo, hi int) {
		var w chunkStepper
		for i := lo; i < hi; i++ {
			o := &all[tasks[i].replay]
			reports[i] = o.answer(tab, &w, specOf(specs, o.h), scale, tasks[i].rows, wanted, out)
		}
	})
	var r attention.Report
	for _, x := range reports {
		r.Add(x)
	}
	return r, nil
}

// answer computes some of the wanted rows, whose queries are in ascending order.
func (o *replay) answer(tab *kern.Table[float32], w *chunkStepper, spec *settings, scale float64, rows, wanted []int,
	out attention.Seq[float32]) (r attention.Report) {
	group := o.q.Heads
	k, v := o.k.Head(0, 0), o.v.Head(0, 0)
	var near nearKeys
	near.room(tab, min(spec.nearRoom(), o.k.Len), o.k.Dim, o.v.Dim)
	next, done := 0, 0
	for _, at := range rows {
		w.tiles.begin(tab, group, o.q.Dim, o.v.Dim)
		if n := o.sees(wanted[at]); n > 0 {
			far := farChunks(spec, n-1)
			if done < far {
				near.pos, next, done = near.pos[:0], 0, far
			}
			for ; next < n; next++ {
				if next == min(spec.sinks, far*spec.chunk) {
					next = max(next, far*spec.chunk)
				}
				near.append(next, k.Row(next), v.Row(next))
			}
			for g := range group {
				copy(w.tiles.x.Row(g), o.q.Head(0, g).Row(wanted[at]-o.span.Q0))
			}
			tab.Scale(w.tiles.x.Data, float32(scale))
			exact := w.sketch.read(&w.tiles, &o.head, far, &near, spec.share)
			r.Exact += int64(group * (exact + len(near.pos)))
		}
		for g := range group {
			r.Rows++
			if !w.tiles.finish(out.Head(o.b, o.h*group+g).Row(at), g) {
				r.Empty++
			}
		}
	}
	return r
}
