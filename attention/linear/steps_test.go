package linear

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/stattest"
)

// observed are the items and workers of what is waited for during a call.
func observed(run func()) (steps [][2]int) {
	var mu sync.Mutex
	observe := func(items, workers int) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, [2]int{items, workers})
	}
	par.Observe.Store(&observe)
	defer par.Observe.Store(nil)
	run()
	return steps
}

// One long sequence, and a few of them, keep sixteen workers busy: a call waits for all workers once, with gradients
// twice, whatever the number of heads, and then for many more items than there are workers. Times would tell the
// same on a machine with as many cores; counts tell it on any.
func TestOneSequenceFeedsManyWorkers(t *testing.T) {
	stattest.SkipRace(t)
	const workers, d, m, length = 16, 64, 256, 16384
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	q, v := normals[float32](1, 1, length, d, 0.3, 1), normals[float32](1, 1, length, d, 1, 2)
	heads := func(s attention.Seq[float32], n int) attention.Seq[float32] { // the same one again
		s.Heads, s.StrideH = n, 0
		return s
	}
	for _, n := range []int{1, 3} {
		q, v := heads(q, n), heads(v, n)
		out, dq, dk, dv := attention.NewSeq[float32](1, n, length, d), attention.NewSeq[float32](1, n, length, d),
			attention.NewSeq[float32](1, n, length, d), attention.NewSeq[float32](1, n, length, d)
		for _, causal := range []bool{false, true} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			for _, back := range []bool{false, true} {
				if n > 1 && back && testing.Short() {
					continue
				}
				most := 1
				steps := observed(func() {
					_, err := a.Forward(out, q, q, v)
					must(t, err)
				})
				if back {
					most = 2 // keys, queries
					steps = observed(func() {
						_, err := a.Backward(dq, dk, dv, v, out, q, q, v, nil)
						must(t, err)
					})
				}
				label := fmt.Sprintf("%d heads, causal %v, backward %v", n, causal, back)
				if len(steps) == 0 || len(steps) > most {
					t.Errorf("%s waits %d times, want at most %d: %v", label, len(steps), most, steps)
				}
				for _, s := range steps {
					if s[1] != workers || s[0] < 2*workers {
						t.Errorf("%s: %d items for %d workers, want %d for %d", label, s[0], s[1], 2*workers, workers)
					}
				}
			}
		}
	}
}

// A window and sinks do not make gradients the work of one worker.
func TestWindowedGradientsFeedManyWorkers(t *testing.T) {
	stattest.SkipRace(t)
	const workers, d, m, length = 12, 16, 64, 8192
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	q, out := normals[float32](1, 1, length, d, 0.3, 1), attention.NewSeq[float32](1, 1, length, d)
	dq, dk, dv := attention.NewSeq[float32](1, 1, length, d), attention.NewSeq[float32](1, 1, length, d),
		attention.NewSeq[float32](1, 1, length, d)
	for causal, most := range map[bool]int{false: 9, true: 6} { // out·dout, sweeps without and with gradients, windows
		a := linear[float32](t, family.Positive{}, d, m, causal)
		a.Window, a.Sinks = 8, 2
		_, err := a.Forward(out, q, q, q)
		must(t, err)
		waits := 0
		for _, s := range observed(func() {
			_, err := a.Backward(dq, dk, dv, q, out, q, q, q, nil)
			must(t, err)
		}) {
			if s[0] == length { // gradients are cleared, too little for many
				continue
			}
			if waits++; s[1] != workers || s[0] < workers {
				t.Errorf("causal %v: %d items for %d workers, want as many for %d", causal, s[0], s[1], workers)
			}
		}
		if waits == 0 || waits > most {
			t.Errorf("causal %v waits %d times, want at most %d", causal, waits, most)
		}
	}
}

// Work that has few pieces takes few workers: others would be woken for nothing.
func TestShortSequencesTakeFewWorkers(t *testing.T) {
	const d, m = 64, 256
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	for length, most := range map[int]int{1: 1, 64: 1, 256: 1, 512: 4, 1024: 8} {
		q, out := normals[float32](1, 1, length, d, 0.3, 1), attention.NewSeq[float32](1, 1, length, d)
		g := attention.NewSeq[float32](1, 1, length, d)
		for _, causal := range []bool{false, true} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			for _, s := range observed(func() {
				_, err := a.Forward(out, q, q, q)
				must(t, err)
				_, err = a.Backward(g, g, g, q, out, q, q, q, nil)
				must(t, err)
			}) {
				if s[1] > most {
					t.Errorf("L = %d, causal %v: %d workers, want at most %d", length, causal, s[1], most)
				}
			}
		}
	}
}

// costs are µs per row of a sum and of a read, measured with sixteen threads, and of the other items per segment.
type costs struct{ sum, read float64 }

const plantCost, chainCost = 1.5, 1.5

// The order and the sizes of items leave little to wait for: with items of about the right times, workers are at work
// for most of the time even of a single sequence. A phase that one worker does alone, whichever it is, does not pass.
func TestRelaySchedule(t *testing.T) {
	const workers, d, m, length = 16, 64, 256, 16384
	one := attention.NewSeq[float32](1, 1, length, d)
	for _, c := range []struct {
		heads            int
		causal, backward bool
		first, second    costs
		least, uneven    float64 // with workers that are equally fast, and with two of half the speed
	}{
		{1, false, false, costs{0.75, 0.72}, costs{}, 0.96, 0.87},
		{1, true, false, costs{0.8, 1.55}, costs{}, 0.96, 0.9},
		{8, false, false, costs{0.75, 0.72}, costs{}, 0.98, 0.96},
		{8, true, false, costs{0.8, 1.55}, costs{}, 0.99, 0.97},
		{1, false, true, costs{0.75, 0}, costs{1.7, 1.45}, 0.96, 0.87},
		{1, true, true, costs{0.85, 2.5}, costs{0.9, 2.9}, 0.97, 0.92},
		{8, false, true, costs{0.75, 0}, costs{1.7, 1.45}, 0.98, 0.96},
		{8, true, true, costs{0.85, 2.5}, costs{0.9, 2.9}, 0.99, 0.97},
	} {
		label := fmt.Sprintf("%d heads, causal %v, backward %v", c.heads, c.causal, c.backward)
		q := one
		q.Heads, q.StrideH = c.heads, 0
		out := q
		a := linear[float32](t, family.Positive{}, d, m, c.causal)
		// schedule is the work and the time of all sweeps; some workers are slow.
		schedule := func(serial, slow int) (work, last float64) {
			if !c.backward {
				one := &call[float32]{}
				must(t, one.list(a, out, q, q, q))
				return scheduled(&one.relay, (*forwards[float32])(one), one.all, workers, c.first, serial, slow)
			}
			b := &backCall[float32]{}
			must(t, b.list(a, out, q, q, q))
			g := &gang[float32]{b: b}
			for i := range b.all {
				b.all[i].rows = min(b.all[i].rows, backRows)
				g.passes = append(g.passes, &pass[float32]{})
				must(t, g.passes[i].begin(b, &b.all[i]))
			}
			jobs := []relayJob[float32, backWorker[float32]]{(*keysOfAll[float32])(g), (*queriesOfAll[float32])(g)}
			if c.causal {
				jobs = []relayJob[float32, backWorker[float32]]{(*querySweep[float32])(g), (*keySweep[float32])(g)}
			}
			for i, job := range jobs {
				w, l := scheduled(&g.relay, job, b.all, workers, []costs{c.first, c.second}[i], serial,
					slow)
				work, last = work+w, last+l
			}
			return work, last
		}
		for slow, least := range map[int]float64{0: c.least, 2: c.uneven} {
			work, last := schedule(-1, slow)
			if busy := work / (last * (workers - (1-slowSpeed)*float64(slow))); busy < least {
				t.Errorf("%s, %d slow: workers are busy for %.3f of the time, want %v", label, slow, busy, least)
			}
		}
		for _, serial := range []int{additions, chains, reads} {
			work, last := schedule(serial, 0)
			if busy := work / (last * workers); busy >= c.least {
				t.Errorf("%s: busy for %.3f of the time with stage %d done by one worker", label, busy, serial)
			}
		}
	}
}

// slowSpeed is that of slow workers.
const slowSpeed = 0.5

// scheduled hands out the items of a relay in order and returns their time and when the last ends. The items of
// stages of the kind serial are one; some workers are slow.
func scheduled[W any](r *relay[float32, W], job relayJob[float32, W], all []stream[float32], workers int, c costs,
	serial, slow int) (work, last float64) {
	r.job, r.list = job, nil
	for i := range all {
		r.list = append(r.list, &all[i])
	}
	r.cut(workers)
	cost := func(st stage, i int) float64 {
		v := &r.waves[st.wave]
		s := r.list[v.stream]
		switch st.kind {
		case plants:
			return plantCost * float64(v.n)
		case additions: // as many queries as keys
			lo, hi := s.cut().piece(s.lenQ(), v.segment+i)
			return c.sum * float64(hi-lo)
		case chains:
			return chainCost * float64(v.n)
		case reads:
			lo, hi := s.blockCut().piece(s.lenQ(), i)
			if s.causal {
				lo, hi = 0, s.cut().one/max(1, v.parts)
			}
			return c.read * float64(hi-lo)
		}
		return 0
	}
	free, ends := make([]float64, workers), make([]float64, len(r.stage))
	for i := 0; i < r.items.items(); {
		k, at := r.items.at(i)
		st := r.stage[k]
		time := cost(st, at)
		if i++; st.kind == serial {
			for j := at + 1; j < r.items.count(k); j++ {
				time += cost(st, j)
				i++
			}
		}
		w := 0
		for j, f := range free {
			if f < free[w] {
				w = j
			}
		}
		begin := free[w]
		list, n := r.before(st)
		for _, b := range list[:n] {
			on := r.waves[b.wave].stages[b.kind]
			if on >= k { // what it needs comes before it and has its own needs met
				return 0, math.Inf(1)
			}
			begin = max(begin, ends[on])
		}
		work += time
		if w < slow {
			time /= slowSpeed
		}
		free[w] = begin + time
		ends[k] = max(ends[k], free[w])
		last = max(last, free[w])
	}
	return work, last
}

// An error of one item ends all, also those that wait for it, and is the one returned.
func TestRelayStops(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const d, length = 8, 4096
	for _, causal := range []bool{false, true} {
		a := linear[float32](t, family.Positive{}, d, 256, causal)
		q, out := normals[float32](1, 2, length, d, 0.3, 1), attention.NewSeq[float32](1, 2, length, d)
		q.Data[len(q.Data)/3] = 1e30 // the norm overflows
		if _, err := a.Forward(out, q, q, q); err == nil {
			t.Errorf("causal %v: no error", causal)
		}
		q = normals[float32](1, 2, length, d, 0.3, 1)
		if _, err := a.Forward(out, q, q, q); err != nil {
			t.Errorf("causal %v: the call after: %v", causal, err)
		}
	}
}

// The same where queries stand before the first key, and behind the last one of the sweep that comes back.
func TestMoreQueriesThanKeysHaveTheSameBits(t *testing.T) {
	for _, keys := range []int{200, 700} {
		t.Run(strconv.Itoa(keys), func(t *testing.T) { testMoreQueriesThanKeys(t, keys) })
	}
}

func testMoreQueriesThanKeys(t *testing.T, keys int) {
	const d, m, queries = 16, 256, 1300
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	q, k := normals[float32](1, 1, queries, d, 0.5, 1), normals[float32](1, 1, keys, d, 0.5, 2)
	for _, causal := range []bool{false, true} {
		for _, window := range []int{0, 20} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			a.Window = window
			var want [4][]float32
			for _, procs := range []int{1, 3, 16} {
				runtime.GOMAXPROCS(procs)
				out, dq := attention.NewSeq[float32](1, 1, queries, d), attention.NewSeq[float32](1, 1, queries, d)
				dk, dv := attention.NewSeq[float32](1, 1, keys, d), attention.NewSeq[float32](1, 1, keys, d)
				_, err := a.Forward(out, q, k, k)
				must(t, err)
				_, err = a.Backward(dq, dk, dv, q, out, q, k, k, nil)
				must(t, err)
				for n, s := range []attention.Seq[float32]{out, dq, dk, dv} {
					if procs == 1 {
						want[n] = s.Data
					} else if !slices.Equal(s.Data, want[n]) {
						t.Errorf("causal %v, window %d, %d threads: result %d has other bits than with one", causal,
							window, procs, n)
					}
				}
			}
		}
	}
}

// Segments shared by workers have the bits that one worker gives them: with what is kept between stages and where
// references rise, for chunks that do not divide segments, masks and groups of heads, packed and windowed.
func TestSharedSegmentsHaveTheSameBits(t *testing.T) {
	const d, length = 16, 1300
	m := max(32, kern.Best[float32]().Grain/25_000) // work for ten workers, whatever the kernels
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	mask, segments := make([]bool, length), make([]int32, length)
	for i := range mask {
		mask[i] = i%5 != 2 && i/64 != 7
		segments[i] = int32(i / 900)
	}
	for i, c := range []struct {
		length int
		set    func(a *Attention[float32])
	}{
		{length, func(a *Attention[float32]) {}},
		{length, func(a *Attention[float32]) { a.Chunk = 100 }},
		{length, func(a *Attention[float32]) { a.Chunk = 51 }},
		{length, func(a *Attention[float32]) { a.KeyMask = mask }},
		{length, func(a *Attention[float32]) { a.Segments = segments }},
		{length, func(a *Attention[float32]) { a.Window, a.Sinks = 20, 3 }},
		{600, func(a *Attention[float32]) { a.Window = 600 - 256 }}, // one segment is left for the features
		{600, func(a *Attention[float32]) { a.Window = 600 - 100 }},
	} {
		if testing.Short() && i%2 > 0 {
			continue
		}
		length := c.length
		q, k, v := normals[float32](1, 4, length, d, 0.5, 1), normals[float32](1, 2, length, d, 0.5, 2),
			normals[float32](1, 2, length, d, 1, 3)
		for i := range 40 { // of the first head, far above those before
			k.Head(0, 0).Row((700 + 13*i) * length / 1300)[i%d] = float32(10 + i)
		}
		for _, causal := range []bool{false, true} {
			a := linear[float32](t, family.Positive{}, d, m, causal)
			c.set(a)
			var want [4][]float32
			for _, procs := range []int{1, 3, 16} {
				runtime.GOMAXPROCS(procs)
				out, dq := attention.NewSeq[float32](1, 4, length, d), attention.NewSeq[float32](1, 4, length, d)
				dk, dv := attention.NewSeq[float32](1, 2, length, d), attention.NewSeq[float32](1, 2, length, d)
				_, err := a.Forward(out, q, k, v)
				must(t, err)
				_, err = a.Backward(dq, dk, dv, q, out, q, k, v, nil)
				must(t, err)
				for n, s := range []attention.Seq[float32]{out, dq, dk, dv} {
					if procs == 1 {
						want[n] = s.Data
					} else if !slices.Equal(s.Data, want[n]) {
						t.Errorf("setting %d, causal %v, %d threads: result %d has other bits than with one", i, causal,
							procs, n)
					}
				}
			}
		}
	}
}

// Few long streams are shared, so that no worker is left with the end of one; many have a worker each.
func TestFewStreamsAreShared(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	a := linear[float32](t, family.Positive{}, 64, 256, true)
	for heads, want := range map[int]bool{1: false, 4: false, 8: false, 32: true, 34: true} {
		q := attention.NewSeq[float32](1, 1, 2048, 64)
		q.Heads, q.StrideH = heads, 0
		var c streams[float32]
		must(t, c.list(a, q, q, q, q))
		if n, alone := c.workers(1); n != 4 || alone != want {
			t.Errorf("%d streams: %d workers, one each: %v", heads, n, alone)
		}
	}
}
