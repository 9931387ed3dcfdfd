package linear

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
)

var orders = flag.Int("orders", 0, "run the relay with so many more random shapes, in all orders")

// wait is a kind of stage and one that it waits for.
type wait struct{ of, on int }

var noWait = wait{-1, -1}

// hostile is an order of the items of a relay that keeps to the waits it declares and to nothing else: stage late, of
// all sweeps, comes when no other can, and of the others those that come last in the list come first. Whatever needs
// more than is declared comes too early, so that no schedule of any number of threads has to be met by luck. If there
// is no such stage, any that can comes next. Waits like without are left out.
type hostile struct {
	late    int
	without wait
	stages  int // the most that there were
	met     map[wait]bool
}

// hostileOrder runs all items of r in the order of h.
func hostileOrder[W any](h *hostile, r *relay[float32, W]) func([]*W) error {
	return func(workers []*W) error {
		rng := rand.New(rand.NewPCG(uint64(h.late), 1))
		h.stages = max(h.stages, len(r.stage))
		left := make([][]int, len(r.stage))
		for k := range left {
			if left[k] = rng.Perm(r.items.count(k)); r.job.ordered(r.waves[r.stage[k].wave].stream) {
				slices.Sort(left[k])
			}
		}
		ended := func(kind, wave int) bool { return len(left[r.waves[wave].stages[kind]]) == 0 }
		ready := func(k int) bool {
			st := r.stage[k]
			list, n := r.before(st)
			for _, b := range list[:n] {
				if ended(b.kind, b.wave) {
					continue
				}
				h.met[wait{st.kind, b.kind}] = true
				if h.without != (wait{st.kind, b.kind}) {
					return false
				}
			}
			// The gradients of parameters are added in order, by waits of their own.
			v := &r.waves[st.wave]
			return !(r.job.ordered(v.stream) && v.segment > 0 && (st.kind == additions || st.kind == reads) &&
				!ended(st.kind, st.wave-1))
		}
		for range r.items.items() {
			next := -1
			for n, k := 0, len(left)-1; k >= 0; k-- {
				if len(left[k]) == 0 || !ready(k) {
					continue
				}
				if n++; h.late >= len(left) && rng.IntN(n) > 0 {
					continue
				}
				if next = k; h.late < len(left) && k != h.late {
					break
				}
			}
			if next < 0 {
				return errors.New("no stage can begin")
			}
			st := r.stage[next]
			item := left[next][0]
			left[next] = left[next][1:]
			if err := r.step(workers[rng.IntN(len(workers))], st, &r.waves[st.wave], item); err != nil {
				return err
			}
		}
		return nil
	}
}

// orderCase is a shape of attention.
type orderCase struct {
	queries, keys, heads, group, workers int
	causal                               bool
	window, sinks, chunk                 int
	mask                                 int  // keys that do not count: 0: none, 1: some, also all of a segment, 2: all
	packed                               int  // 1: as many keys as queries, 2: some sequences without keys or queries
	far                                  bool // some keys raise references
	learn                                bool // gradients of parameters
}

// results are the numbers and the counts of a forward and a backward pass.
type results struct {
	numbers [][]float32
	reports [2]attention.Report
}

// orderInputs are the arguments of a case.
type orderInputs struct {
	orderCase
	a             *Attention[float32]
	q, k, v, dout attention.Seq[float32]
}

func (c orderCase) inputs(t *testing.T) *orderInputs {
	const d, dv, m = 3, 2, 5
	heads := c.heads * c.group
	in := &orderInputs{orderCase: c, a: orderLinear(t, c, d, m), q: normals[float32](1, heads, c.queries, d, 0.5, 1),
		k: normals[float32](1, c.heads, c.keys, d, 0.5, 2), v: normals[float32](1, c.heads, c.keys, dv, 1, 3),
		dout: normals[float32](1, heads, c.queries, dv, 1, 4)}
	if c.far {
		for h := range c.heads {
			for i := range min(5, c.keys) { // these have next to no features: the keys behind them raise the references
				in.k.Head(0, h).Row(i)[h%d] = 40
			}
		}
	}
	return in
}

// run computes both passes: on one worker, or in the order of h.
func (c *orderInputs) run(t *testing.T, h *hostile) (res results, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	// Memory is fresh: that of a call before may happen to have the right numbers.
	one, b := new(call[float32]), new(backCall[float32])
	b.crew.Hire(1)
	workers, alone := 1, true
	if h != nil {
		workers, alone = c.workers, false
		one.relay.hand = hostileOrder(h, &one.relay)
		b.crew.Workers[0].relay.hand = hostileOrder(h, &b.crew.Workers[0].relay)
	}
	q, k, v := c.q, c.k, c.v
	out := attention.NewSeq[float32](1, q.Heads, q.Len, v.Dim)
	must(t, one.list(c.a, out, q, k, v))
	if res.reports[0], err = one.finish(one.work(workers, alone), q, k, v); err != nil {
		return res, err
	}
	dq, dk, dv := attention.NewSeq[float32](1, q.Heads, q.Len, q.Dim), attention.NewSeq[float32](1, k.Heads, k.Len,
		k.Dim),
		attention.NewSeq[float32](1, v.Heads, v.Len, v.Dim)
	b.backArgs = backArgs[float32]{dq: dq, dk: dk, dv: dv, dout: c.dout, out: out}
	if c.learn {
		g, err := c.a.Maps[0].(randfeat.Learnable[float32]).NewGrad()
		must(t, err)
		b.grads = []*randfeat.Grad[float32]{g}
		defer func() {
			if err != nil {
				return
			}
			p, wrong := g.Parameter()
			must(t, wrong)
			res.numbers = append(res.numbers, dense.Convert[float32](p).Data)
		}()
	}
	some, err := b.prepare(c.a, q, k, v)
	must(t, err)
	if some {
		err = b.work(workers, alone)
	}
	res.numbers = [][]float32{out.Data, dq.Data, dk.Data, dv.Data}
	res.reports[1], err = b.finish(err, q, k, v)
	return res, err
}

// differs says where r is not want, bit by bit: numbers that are not finite are not numbers to be compared.
func (r *results) differs(want *results) error {
	for i := range r.numbers {
		if !slices.Equal(r.numbers[i], want.numbers[i]) {
			return fmt.Errorf("result %d has other bits", i)
		}
	}
	if r.reports != want.reports {
		return fmt.Errorf("counts are %+v, want %+v", r.reports, want.reports)
	}
	return nil
}

func orderLinear(t *testing.T, c orderCase, d, m int) *Attention[float32] {
	var f family.Family = family.Positive{}
	if c.learn {
		f = family.DARK{M: normals[float64](1, 1, d, d, 0.6, 8).Head(0, 0)}
	}
	a := linear[float32](t, f, d, m, c.causal)
	a.Window, a.Sinks, a.Chunk = c.window, c.sinks, c.chunk
	if c.mask > 0 {
		a.KeyMask = make([]bool, c.keys)
		for i := range a.KeyMask {
			a.KeyMask[i] = c.mask == 1 && i%5 != 2 && i/256 != 1
		}
	}
	if c.packed > 0 {
		a.Segments = make([]int32, c.queries)
		for i := range a.Segments {
			a.Segments[i] = int32(i * 5 / c.queries)
		}
	}
	if c.packed > 1 {
		a.KeySegments = make([]int32, c.keys)
		for i := range a.KeySegments {
			a.KeySegments[i] = int32(1 + i*i/max(1, c.keys)*5/max(1, c.keys)) // of different lengths, none of id 0
		}
	}
	return a
}

// orderCases are shapes on which every wait matters.
var orderCases = []orderCase{
	{queries: 650, keys: 650, heads: 1, group: 1, workers: 1},
	{queries: 1300, keys: 1300, heads: 1, group: 1, workers: 1, causal: true},
	{queries: 1300, keys: 1300, heads: 1, group: 1, workers: 1, causal: true, chunk: 100},
	{queries: 20, keys: 30, heads: 6, group: 1, workers: 3},
	{queries: 200, keys: 200, heads: 2, group: 1, workers: 2, causal: true},
	{queries: 20, keys: 30, heads: 2, group: 1, workers: 2, packed: 2},
	{queries: 520, keys: 520, heads: 2, group: 1, workers: 1, causal: true, window: 520 - 256},
	{queries: 1100, keys: 60, heads: 1, group: 1, workers: 3, window: 20},
	{queries: 40, keys: 40, heads: 1, group: 1, workers: 2, packed: 2, sinks: 3},
	{queries: 600, keys: 600, heads: 1, group: 1, workers: 2, causal: true, far: true},
}

// randomCase is a shape with lengths and windows around those where segments begin and end.
func randomCase(rng *rand.Rand) orderCase {
	one := segment
	lengths := []int{1, 40, one - 1, one, one + 1, 2 * one, 2*one + 1, 3*one - 5, 4 * one, 6*one + 7}
	c := orderCase{queries: lengths[rng.IntN(len(lengths))], heads: 1 + rng.IntN(3), group: 1 + rng.IntN(2),
		workers: 1 + rng.IntN(3), causal: rng.IntN(2) == 0, far: rng.IntN(4) == 0}
	if c.keys = c.queries; rng.IntN(2) == 0 {
		c.keys = lengths[rng.IntN(len(lengths))]
	}
	if rng.IntN(4) == 0 {
		c.heads = 6
	}
	if rng.IntN(4) == 0 {
		c.chunk = []int{32, 51, 128, 300}[rng.IntN(4)]
	}
	switch rng.IntN(8) {
	case 0:
		c.mask = 1
	case 1:
		c.mask = 2
	}
	switch rng.IntN(6) {
	case 0:
		c.packed, c.keys = 1, c.queries
	case 1:
		c.packed = 2
	}
	if rng.IntN(2) == 0 {
		windows := []int{1, 20, one, c.keys - one, c.keys - one - 1, c.keys - 2*one, c.keys - 2*one - 1, c.keys,
			math.MaxInt}
		c.window = max(0, windows[rng.IntN(len(windows))])
	}
	if rng.IntN(4) == 0 {
		c.sinks = 3
	}
	c.learn = c.window == 0 && c.sinks == 0 && rng.IntN(4) == 0
	return c
}

// check runs a case in the orders in which every step'th stage, from first on, is late.
func (c orderCase) check(t *testing.T, first, step int, without wait, met map[wait]bool) error {
	in := c.inputs(t)
	want, err := in.run(t, nil)
	if err != nil {
		return fmt.Errorf("one worker: %w", err)
	}
	h := hostile{late: first, without: without, met: met}
	for more := true; more; more = h.late < h.stages+4 {
		got, err := in.run(t, &h)
		if err == nil {
			err = got.differs(&want)
		}
		if err != nil {
			return fmt.Errorf("stage %d late: %w", h.late, err)
		}
		h.late += step
	}
	return nil
}

// Results have the bits of one worker in whatever order the declared waits leave to the items.
func TestRelayOrders(t *testing.T) {
	stattest.SkipRace(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 30 + *orders {
		step := 1
		if i < 30 {
			step = 7
		}
		c := randomCase(rng)
		if err := c.check(t, i%step, step, noWait, map[wait]bool{}); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Without any one of the waits there are results with other bits.
func TestRelayWaits(t *testing.T) {
	stattest.SkipRace(t)
	met := map[wait]bool{}
	for _, c := range orderCases {
		if err := c.check(t, 0, 1, noWait, met); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for w := range met {
		fails := func(c orderCase) bool { return c.check(t, 0, 1, w, map[wait]bool{}) != nil }
		if !slices.ContainsFunc(orderCases, fails) {
			t.Errorf("kind %d need not wait for kind %d", w.of, w.on)
		}
	}
}

// An item that waits is stopped by one before it that has failed, not by one behind it, whose error would then be that
// of the call or not as threads happen to run.
func TestRelayStopsWhatIsBehind(t *testing.T) {
	in := orderCases[1].inputs(t)
	c := new(call[float32])
	must(t, c.list(in.a, attention.NewSeq[float32](1, 1, in.q.Len, in.v.Dim), in.q, in.k, in.v))
	r := &c.relay
	r.job, r.list = (*forwards[float32])(c), []*stream[float32]{&c.all[0]}
	r.cut(2)
	failed := errors.New("failed")
	r.fail(12, errStopped)
	r.fail(10, failed)
	if err := r.await(stage{plants, 0}, 11); err != errStopped || r.err != failed {
		t.Errorf("behind a failed item: %v", err)
	}
	ended := make(chan error)
	go func() { ended <- r.await(stage{plants, 0}, 5) }()
	time.Sleep(time.Millisecond) // either order is right
	r.done[0].Add(1)
	if err := <-ended; err != nil {
		t.Errorf("before a failed item: %v", err)
	}
}
