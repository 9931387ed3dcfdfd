package linear

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/par"
)

// relay runs the segments of streams on all workers of a crew, in one step from the first key to the last query. The
// segments of a stream are cut into waves. The stages of a wave are
//
//	plant: the references that its segments begin with
//	sum:   the sums over the keys of every segment
//	chain: the totals before every segment, one item per block of features; if queries see all keys, after the last
//	       segment also the sums that they read
//	view:  the same for a stream of at most one segment, which is read directly
//	read:  the queries of every segment, or blocks of queries that see all keys
//
// Items are handed out in the order of the stages. Stages of neighbouring waves, also of different streams, alternate.
// When a stage is reached, the stages it needs have usually ended long ago, so workers hardly wait except at the end.
//
// Deadlock is impossible: an item waits only for items with smaller numbers, which have begun (par.Crew). Results are
// bit-identical to one worker that runs the streams alone: a segment is summed from zero, totals are chained in the
// order of segments, and each feature is chained by itself.
type relay[T dense.Float, W any] struct {
	tab   *kern.Table[T]
	job   relayJob[T, W]
	list  []*stream[T]
	waves []wave
	stage []stage
	items deal           // items of all stages
	done  []atomic.Int32 // per stage: the number of its items that have ended
	stop  atomic.Int64   // 1 + the lowest item that has failed; 0 means none
	mu    sync.Mutex
	err   error // error of item from, the lowest that has failed by itself
	from  int
	hand  func([]*W) error // for tests: runs the items in other orders instead of a crew

	gap    int              // waves between sum and chain, see the constants
	slots  int              // waves in memory at the same time
	size   int              // largest number of segments of a wave
	keeps  keeping          // features that sum keeps for read
	mems   []*memory[T]     // one per slot and segment of a wave, see mem
	owners []owner[W]       // who summed each of mems
	wholes [slots]memory[T] // per stream in progress: the totals so far
	views  [slots]view[T]
	seen   [slots]int64     // per stream: its number of keys
	bases  [slots][]float64 // per stream and block of features: base of the first segment with keys, or NaN
	seeds  sums[T]          // references while planting
}

// relayJob is what a forward or a backward pass does with stream s, which is number k of its list. The relay guarantees
// the order of the stages; a method may be called from any worker, with scratch w.
type relayJob[T dense.Float, W any] interface {
	// segments is the number of segments of keys, or of whatever a pass sums instead.
	segments(s *stream[T], k int) int
	// plant gives a segment the references it begins with.
	plant(w *W, s *stream[T], k, segment int, mem *memory[T], seeds *sums[T]) error
	// sum sets the part of mem to the sums over a segment and keeps what it can for read.
	sum(w *W, s *stream[T], k, segment int, mem *memory[T], keep keeping) error
	// read runs the queries of a segment, beginning with the totals of mem. If keep is set, mem holds the sums over the
	// whole segment afterwards.
	read(w *W, s *stream[T], k, segment int, mem *memory[T], keep bool) error
	// readPart reads one chunk if the sums before it have been kept; otherwise chunk 0 reads the whole segment.
	readPart(w *W, s *stream[T], k, segment, chunk int, mem *memory[T]) error
	// ordered reports whether segments must be read in their order, because read adds to something they share.
	ordered(k int) bool
	// begin, view, blocks and block serve streams whose queries see all keys. begin is called before the first segment.
	// view receives features f0 to f1−1 of the finished sums and may keep them; seen is valid in the call with f0 = 0.
	// Then block runs for 0 to blocks−1.
	begin(s *stream[T], k int)
	view(w *W, s *stream[T], k int, v *view[T], seen int64, f0, f1 int)
	blocks(s *stream[T], k int) int
	block(w *W, s *stream[T], k, i int, v *view[T], seen int64) error
}

// alone runs stream k on one worker, from its first key to its last, with the given memory. It performs the operations
// of the relay in the same order, so the bits are the same.
func alone[T dense.Float, W any](w *W, tab *kern.Table[T], s *stream[T], k int, job relayJob[T, W], mem *memory[T],
	seeds *sums[T]) error {
	mem.resize(s.m.OutDim(), s.v.Cols)
	seeds.clear(s.m.OutDim())
	job.begin(s, k)
	n := job.segments(s, k)
	base := math.NaN()
	for i := range n {
		if err := job.plant(w, s, k, i, mem, seeds); err != nil {
			return err
		}
		var err error
		if s.causal {
			err = job.read(w, s, k, i, mem, i < n-1)
		} else {
			err = job.sum(w, s, k, i, mem, keepNothing)
		}
		if err != nil {
			return err
		}
		if i < n-1 || !s.causal && n > 1 {
			addSums(tab, &mem.total, &mem.part)
			base = baseOf(base, &mem.part)
		}
	}
	if s.causal {
		if n == 0 {
			return job.read(w, s, k, 0, mem, false)
		}
		return nil
	}
	seen := int64(mem.part.n)
	if mem.shown = mem.one(); n > 1 {
		mem.shown, seen = mem.all(), mem.total.n
		mem.show(tab, known(base), 0, s.m.OutDim())
		mem.ref.base, mem.ref.set = known(base), true
	}
	defer func() { mem.shown = view[T]{} }()
	job.view(w, s, k, &mem.shown, seen, 0, s.m.OutDim())
	for i := range job.blocks(s, k) {
		if err := job.block(w, s, k, i, &mem.shown, seen); err != nil {
			return err
		}
	}
	return nil
}

// one is the view of at most one segment; all is the view of the totals that show has prepared.
func (m *memory[T]) one() view[T] { return view[T]{ref: &m.part.ref, s: m.part.s, z: m.part.z} }
func (m *memory[T]) all() view[T] { return view[T]{ref: &m.ref, s: m.s, z: m.z} }

// baseOf is base, or the base of the references of s if base is NaN and s has keys.
func baseOf[T dense.Float](base float64, s *sums[T]) float64 {
	if math.IsNaN(base) && s.n > 0 {
		return s.ref.base
	}
	return base
}

// known is base, or 0 if it is NaN because there are no keys.
func known(base float64) float64 {
	if math.IsNaN(base) {
		return 0
	}
	return base
}

// A wave is chained and read gap waves after its sums, so that a slow worker delays nobody in the middle of a stream.
// If every wave is read (causal), other work lies between its stages, and one wave suffices.
const gap, causalGap = 2, 1

// slots is the number of waves, and of streams, that have memory at the same time: those under way, and two that may
// begin while the last item of another is not done.
const slots = gap + 3

// wave is a run of neighbouring segments of a stream.
type wave struct {
	stream, segment, n int
	last               bool           // the last wave of its stream
	parts              int            // items per segment for its queries; 0 means one, of the whole segment
	stages             [reads + 1]int // index of each of its stages in relay.stage
}

type stage struct{ kind, wave int }

// owner records which worker summed a segment, because its cache still holds the kept features. A worker that reads a
// segment takes it from the record.
type owner[W any] struct {
	w     *W
	taken atomic.Bool
}

// The kinds of stages.
const (
	plants = iota
	additions
	chains
	viewings
	reads
)

// keeping says what a sum keeps for the queries of its segment.
type keeping int

const (
	keepNothing keeping = iota
	keepFeatures
	keepSums // features, and the sums before every chunk
)

const (
	// relayBytes bounds the sums of all slots, but a wave has at least half a segment per worker. Together with
	// keptBytes per worker, about a second-level cache, it bounds the features and sums that are kept.
	relayBytes = 24 << 20
	keptBytes  = 2 << 20
)

// divides reports whether the chunks of a segment of stream k can be read without the others: the sums before each are
// kept, and chunks do not cross segments.
func (r *relay[T, W]) divides(k int) bool {
	s := r.list[k]
	return r.keeps == keepSums && segmentOf(s.m.OutDim(), s.v.Cols)%s.rows == 0 && !r.job.ordered(k)
}

// run works through the streams of list on the given number of workers. Errors of items that were stopped because of
// another item are replaced by the error of that item.
func (r *relay[T, W]) run(crew *par.Crew[W], workers int, tab *kern.Table[T], list []*stream[T],
	job relayJob[T, W]) error {
	r.tab, r.job, r.list = tab, job, list
	r.cut(workers)
	r.stop.Store(0)
	r.err = nil
	var err error
	if r.hand != nil {
		crew.Hire(workers)
		err = r.hand(crew.Workers[:workers])
	} else {
		err = crew.Do(r.items.items(), workers, r)
	}
	if err == errStopped {
		err = r.err
	}
	r.job, r.list, r.err = nil, nil, nil
	for i := range r.owners {
		r.owners[i].w = nil
	}
	clear(r.views[:])
	return err
}

// cut lists waves, stages and items, and makes room for the memories. Sizes of waves depend on the number of workers;
// bits do not, because segments do not.
func (r *relay[T, W]) cut(workers int) {
	if r.gap = gap; r.list[0].causal {
		r.gap = causalGap
	}
	r.slots = r.gap + 3
	number := int(unsafe.Sizeof(T(0)))
	sums, features, steps := 1, 1, 1
	for _, s := range r.list {
		f := s.m.OutDim()
		sums = max(sums, f*(s.v.Cols+1)*(2*number+8))
		features = max(features, f*segmentOf(f, s.v.Cols)*s.group*number)
		steps = max(steps, f*(s.v.Cols+1)*s.chunks()*number)
	}
	r.size = max(1, workers/2, min(workers, relayBytes/(r.slots*sums)))
	room := (relayBytes + workers*keptBytes) / (r.slots * r.size)
	switch r.keeps = keepNothing; {
	case features+steps <= room:
		r.keeps = keepSums
	case features <= room:
		r.keeps = keepFeatures
	}
	r.waves = r.waves[:0]
	for k, s := range r.list {
		n := r.job.segments(s, k)
		r.waves = r.cutStream(r.waves, k, n)
	}
	// Everybody waits for the last wave, so its items are short.
	last := &r.waves[len(r.waves)-1]
	s := r.list[last.stream]
	if s.causal && r.divides(last.stream) && last.n > 0 {
		last.parts = s.chunks()
	}
	r.stage = r.stage[:0]
	r.items.reset()
	r.add(plants, 0)
	for k := range len(r.waves) + r.gap {
		r.add(plants, k+1)
		// If every wave is read, the reading of another wave lies between a sum and its chain, and the next sum lies
		// between the chain and the reading that needs it. So neither waits for the last worker of the stage before it.
		early := r.gap == causalGap && k > 1
		if early {
			r.add(chains, k-r.gap)
		}
		r.add(additions, k)
		if !early {
			r.add(chains, k-r.gap)
		}
		r.add(viewings, k-r.gap)
		r.add(reads, k-r.gap)
	}
	r.done = buf.Sized(r.done, len(r.stage))
	for i := range r.done {
		r.done[i].Store(0)
	}
	for len(r.mems) < r.slots*r.size {
		r.mems = append(r.mems, new(memory[T]))
	}
	if len(r.owners) < len(r.mems) {
		r.owners = make([]owner[W], len(r.mems))
	}
}

// cutStream appends the waves of stream k, which has n segments; a stream without segments has one empty wave.
func (r *relay[T, W]) cutStream(waves []wave, k, n int) []wave {
	parts := max(1, (n+r.size-1)/r.size)
	for i := range parts {
		lo, hi := i*n/parts, (i+1)*n/parts
		waves = append(waves, wave{stream: k, segment: lo, n: hi - lo})
	}
	waves[len(waves)-1].last = true
	return waves
}

// add appends a stage of wave k, if there is such a wave.
func (r *relay[T, W]) add(kind, k int) {
	if k < 0 || k >= len(r.waves) {
		return
	}
	r.waves[k].stages[kind] = len(r.stage)
	r.stage = append(r.stage, stage{kind, k})
	r.items.add(r.count(kind, &r.waves[k]))
}

// count is the number of items of a stage. Nobody reads the sums after the last segment of a causal stream, so that
// segment is not summed.
func (r *relay[T, W]) count(kind int, v *wave) int {
	s := r.list[v.stream]
	alone := v.last && v.segment+v.n <= 1 // no other segment of its stream
	switch kind {
	case plants:
		return 1
	case additions:
		if s.causal && v.last && v.parts == 0 {
			return max(0, v.n-1)
		}
		return v.n
	case chains:
		// A single segment has nothing before it, except the queries behind all keys in a backward sweep.
		if alone && !(s.causal && s.lenQ()+s.off > s.positions()) {
			return 0
		}
		return s.featureBlocks()
	case viewings:
		if s.causal || !alone {
			return 0
		}
		return 1
	}
	switch {
	case s.causal:
		return max(1, v.n*max(1, v.parts))
	case v.last:
		return r.job.blocks(s, v.stream)
	}
	return 0
}

// errStopped is returned by items that cannot run because one before them has failed.
var errStopped = errors.New("stopped")

// Item implements par.Step: it waits until the stages that item i needs have ended, and runs it.
func (r *relay[T, W]) Item(w *W, i int) error {
	item := i
	k, i := r.items.at(i)
	st := r.stage[k]
	v := &r.waves[st.wave]
	list, n := r.before(st)
	var err error
	for _, s := range list[:n] {
		if err = r.await(s, item); err != nil {
			break
		}
	}
	if err == nil {
		err = r.step(w, st, v, i)
	}
	if err != nil {
		r.fail(item, err)
		return err
	}
	r.done[k].Add(1)
	return nil
}

// fail records the error of an item and stops the items behind it. Items with smaller numbers go on, so the lowest item
// that fails is found on any number of threads.
func (r *relay[T, W]) fail(item int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != errStopped && (r.err == nil || item < r.from) {
		r.err, r.from = err, item
	}
	if at := r.stop.Load(); at == 0 || int64(item) < at-1 {
		r.stop.Store(int64(item) + 1)
	}
}

// Release implements par.Waiter: after a panic it ends all waits, as a failure of item 0 would.
func (r *relay[T, W]) Release() { r.stop.Store(1) }

// before lists the stages that must have ended before a stage. Indirect dependencies are omitted, unless a direct one
// may have no items: a stage without items counts as ended, whatever it depends on.
func (r *relay[T, W]) before(st stage) (list [4]stage, n int) {
	add := func(kind, wave int) {
		if wave >= 0 {
			list[n], n = stage{kind, wave}, n+1
		}
	}
	causal := r.list[r.waves[st.wave].stream].causal
	switch k := st.wave; st.kind {
	case plants: // references follow each other, and the memory of a wave before must be free
		add(plants, k-1)
		add(chains, k-r.slots)
		add(viewings, k-r.slots)
		add(reads, k-r.slots)
	case additions:
		add(plants, k)
	case chains: // totals follow each other
		add(plants, k)
		add(additions, k)
		add(chains, k-1)
	case viewings:
		add(plants, k)
		add(additions, k)
	case reads:
		if add(chains, k); causal {
			add(plants, k)
			add(additions, k)
		} else {
			add(viewings, k)
		}
	}
	return list, n
}

// await waits until a stage has ended, which is rare and seldom takes longer than one item. Only items with smaller
// numbers can delay the stage, so the lowest item that fails is the same with any number of threads.
func (r *relay[T, W]) await(s stage, item int) error {
	at := r.waves[s.wave].stages[s.kind]
	n := r.items.count(at)
	for looks := 0; int(r.done[at].Load()) < n; looks++ {
		if at := r.stop.Load(); at > 0 && at-1 < int64(item) {
			return errStopped
		}
		pause(looks)
	}
	return nil
}

// pause is called in a loop by a worker that polls for a result of another worker; looks counts the polls. It spins for
// about 100 µs and rarely yields to the scheduler, because all waiting workers would contend for the scheduler's lock.
// Then it sleeps between polls.
func pause(looks int) {
	switch {
	case looks >= 40_000:
		time.Sleep(20 * time.Microsecond)
	case looks%(1<<13) == 1<<13-1:
		runtime.Gosched()
	}
}

// mem is the memory of segment i of wave k. Waves reuse the memory of the wave slots before them; before makes plant
// wait until that wave has been read.
func (r *relay[T, W]) mem(k, i int) *memory[T] { return r.mems[k%r.slots*r.size+i] }

func (r *relay[T, W]) owner(k, i int) *owner[W] { return &r.owners[k%r.slots*r.size+i] }

// step runs item i of a stage.
func (r *relay[T, W]) step(w *W, st stage, v *wave, i int) error {
	s := r.list[v.stream]
	whole := &r.wholes[v.stream%slots]
	switch st.kind {
	case plants:
		if v.segment == 0 {
			r.seeds.clear(s.m.OutDim())
			whole.shape(s.m.OutDim(), s.v.Cols)
			r.job.begin(s, v.stream)
			at := v.stream % slots
			r.views[at] = whole.all()
			r.bases[at] = buf.Sized(r.bases[at], s.featureBlocks())
			for i := range r.bases[at] {
				r.bases[at][i] = math.NaN()
			}
		}
		for i := range max(1, v.n) {
			m, o := r.mem(st.wave, i), r.owner(st.wave, i)
			o.w = nil
			o.taken.Store(false)
			m.shape(s.m.OutDim(), s.v.Cols)
			if v.segment+i == 0 {
				m.total.n = 0
				m.begin()
			}
			if v.n > 0 {
				if err := r.job.plant(w, s, v.stream, v.segment+i, m, &r.seeds); err != nil {
					return err
				}
			}
		}
		return nil
	case additions:
		r.owner(st.wave, i).w = w
		keep := keepNothing
		switch {
		case !s.causal:
		case v.parts > 0 || r.divides(v.stream):
			keep = keepSums
		case r.keeps > keepNothing:
			keep = keepFeatures
		}
		return r.job.sum(w, s, v.stream, v.segment+i, r.mem(st.wave, i), keep)
	case chains:
		f0, f1 := s.features(i)
		at := v.stream % slots
		r.chain(st.wave, v, &whole.total, &r.bases[at][i], f0, f1)
		if s.causal || !v.last {
			return nil
		}
		base := known(r.bases[at][i])
		whole.show(r.tab, base, f0, f1)
		var seen int64
		if f0 == 0 {
			whole.ref.base, whole.ref.set = base, true
			seen = whole.total.n
			r.seen[at] = seen
		}
		r.job.view(w, s, v.stream, &r.views[at], seen, f0, f1)
		return nil
	case viewings:
		m, at := r.mem(st.wave, 0), v.stream%slots
		if v.n == 0 {
			m.resize(s.m.OutDim(), s.v.Cols)
		}
		r.seen[at], r.views[at] = int64(m.part.n), m.one()
		r.job.view(w, s, v.stream, &r.views[at], r.seen[at], 0, s.m.OutDim())
		return nil
	}
	if v.parts > 0 {
		return r.job.readPart(w, s, v.stream, v.segment+i/v.parts, i%v.parts, r.mem(st.wave, i/v.parts))
	}
	if s.causal {
		if !r.job.ordered(v.stream) {
			i = r.take(w, st.wave, max(1, v.n))
		}
		if r.divides(v.stream) && i < r.count(additions, v) {
			for c := range s.chunks() {
				if err := r.job.readPart(w, s, v.stream, v.segment+i, c, r.mem(st.wave, i)); err != nil {
					return err
				}
			}
			return nil
		}
		return r.job.read(w, s, v.stream, v.segment+i, r.mem(st.wave, i), false)
	}
	return r.job.block(w, s, v.stream, i, &r.views[v.stream%slots], r.seen[v.stream%slots])
}

// take returns one of the n segments of wave k that nobody has taken, preferably one that w has summed. It is called
// once per segment, so there always is one.
func (r *relay[T, W]) take(w *W, k, n int) int {
	for {
		for _, own := range [...]bool{true, false} {
			for i := range n {
				o := r.owner(k, i)
				if (!own || o.w == w) && !o.taken.Load() && o.taken.CompareAndSwap(false, true) {
					return i
				}
			}
		}
	}
}

// chain adds features f0 to f1−1 of the segments of wave k to the totals t of their stream, one segment after the
// other. With causal attention each segment first receives the totals before it: converted to T if its features were
// kept, and as float64 otherwise.
func (r *relay[T, W]) chain(k int, v *wave, t *totals, base *float64, f0, f1 int) {
	s := r.list[v.stream]
	if first := &r.mem(k, 0).total; v.segment == 0 && first.n > 0 { // backward sweep: queries behind all keys
		t.copyFeatures(first, f0, f1)
	} else if v.segment == 0 {
		t.resetFeatures(f0, f1)
	}
	for i := range v.n {
		m := r.mem(k, i)
		switch {
		case !s.causal || v.segment+i == 0 && (!m.kept || m.total.n == 0):
		case m.kept:
			m.narrow(r.tab, t, f0, f1)
			if f0 == 0 && v.segment+i > 0 {
				m.total.n = t.n
			}
		default:
			m.total.copyFeatures(t, f0, f1)
		}
		if s.causal && v.last && i == v.n-1 {
			return
		}
		addFeatures(r.tab, t, &m.part, f0, f1)
		*base = baseOf(*base, &m.part)
		if f0 == 0 {
			t.n += int64(m.part.n)
		}
	}
}
