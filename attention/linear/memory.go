package linear

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Sums over keys are kept per feature f at a reference scale t_f (docs/theory.md §6, rule 3):
//
//	S_f = Σ_j φ2(k_j)_f e^{−t_f} v_j,   z_f = Σ_j φ2(k_j)_f e^{−t_f}
//
// A query is read with φ1(q_i)_f e^{t_f − r_i}, r_i = max_f(log φ1(q_i)_f + t_f). Invariant: in every feature f, some
// key seen so far reaches t_f. The feature in which the scaled query is 1 then has z_f ≥ 1. The denominator is
// therefore at least 1: nothing underflows, and no epsilon is needed. References may lag behind the keys, so they are
// rarely raised. They are strictly causal, because a reference never exceeds the keys so far.
const (
	// lag is how far keys may exceed their references, in nats: e^20·2^20 keys are far from overflow in float32. A
	// small lag would raise references often; every raise rescales the sums.
	lag = 20
	// segment is the smallest number of keys summed in T before the sums move to float64, and the unit of parallel
	// work; maxSegment is the largest, for large sums. Every maxSegment keys the references that segments begin with
	// are raised.
	segment, maxSegment = 256, 4096
	// rebase bounds |tau| in nats. References are stored as T on top of a float64 base; a float32 tau beyond that would
	// lose accuracy, because its absolute error grows with its size.
	rebase = 64
)

// segmentOf is the number of keys summed in T before the sums move to float64, for sums of features × dv numbers.
// Moving them costs as much as a few dozen keys, so large sums use longer segments. It must depend on nothing else, in
// particular not on the number of workers, because it determines the bits.
func segmentOf(features, dv int) int {
	n := segment
	for n < maxSegment && 128*n < features*dv {
		n *= 2
	}
	return n
}

// reference is t_f = base + tau_f; tau_f = −Inf means that no key has had feature f. The zero value knows no key.
type reference[T dense.Float] struct {
	base float64
	tau  []T
	set  bool // base and tau are valid
}

func (r *reference[T]) at(f int) float64 { return r.base + float64(r.tau[f]) }

func (r *reference[T]) copyFrom(o *reference[T]) {
	r.base, r.set = o.base, o.set
	copy(r.tau, o.tau)
}

// sums is S and z over a short run of keys, in T, at the references ref.
type sums[T dense.Float] struct {
	ref reference[T]
	s   dense.Matrix[T] // features × value columns
	z   []T             // one per feature
	n   int             // keys summed
	// epoch counts the changes of ref. Whoever depends on ref (features that were kept, prepared totals) compares it.
	epoch int

	neg   []T // −tau, valid if negAt = epoch
	negAt int
}

// shape makes room for sums of features × dv; numbers are undefined.
func (s *sums[T]) shape(features, dv int) {
	s.ref.tau = buf.Sized(s.ref.tau, features)
	s.s = buf.Shaped(s.s, features, dv)
	s.z = buf.Sized(s.z, features)
}

// clear turns s into references without sums, which know no key. Seeds of segments are such sums.
func (s *sums[T]) clear(features int) {
	s.shape(features, 0)
	s.reset()
}

// reset removes all keys and references.
func (s *sums[T]) reset() {
	s.ref.set, s.ref.base, s.n = false, 0, 0
	s.epoch++
	clear(s.s.Data)
	clear(s.z)
}

// raise lifts the references to at least the key with log features e + row and rescales the sums by e^{old − new} ≤ 1.
// The first key sets the references. If the largest reference has moved away from base by more than rebase, base
// follows, and all tau with it.
func (s *sums[T]) raise(tab *kern.Table[T], e []T, row float64) {
	s.epoch++
	if !s.ref.set {
		s.ref.base, s.ref.set = row, true
		copy(s.ref.tau, e)
		return
	}
	top := math.Inf(-1)
	for f, v := range e {
		top = max(top, s.ref.at(f), row+float64(v))
	}
	base := s.ref.base
	if math.Abs(top-base) > rebase && !math.IsInf(top, -1) {
		base = top
	}
	for f, v := range e {
		old := s.ref.at(f)
		next := T(max(old, row+float64(v)) - base)
		if base == s.ref.base && next == s.ref.tau[f] {
			continue
		}
		s.ref.tau[f] = next
		// No key has had the feature: its sums are 0, and old − new would be −Inf.
		if s.z[f] == 0 && math.IsInf(old, -1) {
			continue
		}
		c := T(math.Exp(old - (base + float64(next))))
		s.z[f] *= c
		tab.Scale(s.s.Row(f), c)
		tab.FlushMax(s.s.Row(f))
	}
	tab.FlushMax(s.z)
	s.ref.base = base
}

// negTau is −tau, with huge in place of +Inf. It is cached until ref changes.
func (s *sums[T]) negTau() []T {
	if s.negAt == s.epoch {
		return s.neg
	}
	s.neg, s.negAt = buf.Sized(s.neg, len(s.ref.tau)), s.epoch
	for f, t := range s.ref.tau {
		s.neg[f] = min(-t, huge)
	}
	return s.neg
}

// add adds keys with the scaled features phi and values v, one row each. The bits of the sums do not depend on how keys
// are divided among calls.
func (s *sums[T]) add(tab *kern.Table[T], phi, v dense.Matrix[T]) {
	tab.TMul(s.s, phi, v)
	tab.ColSum(s.z, phi)
	s.n += phi.Rows
}

// totals is S and z over any number of keys, in float64, with a reference t_f per feature.
type totals struct {
	t []float64 // references; −Inf means that no key has had the feature
	s dense.Matrix[float64]
	z []float64
	n int64 // keys summed
}

func (t *totals) shape(features, dv int) {
	t.t, t.z = buf.Sized(t.t, features), buf.Sized(t.z, features)
	t.s = buf.Shaped(t.s, features, dv)
}

func (t *totals) reset() { t.resetFeatures(0, len(t.t)) }

func (t *totals) copyFrom(o *totals) { t.copyFeatures(o, 0, len(t.t)) }

// copyFeatures copies features f0 to f1−1 of o, and with feature 0 also the number of keys. resetFeatures removes all
// keys from these features in the same way. Workers call both for disjoint ranges of features at the same time.
func (t *totals) copyFeatures(o *totals, f0, f1 int) {
	copy(t.t[f0:f1], o.t[f0:f1])
	copy(t.z[f0:f1], o.z[f0:f1])
	dv := t.s.Cols
	copy(t.s.Data[f0*dv:f1*dv], o.s.Data[f0*dv:f1*dv])
	if f0 == 0 {
		t.n = o.n
	}
}

func (t *totals) resetFeatures(f0, f1 int) {
	for f := f0; f < f1; f++ {
		t.t[f] = math.Inf(-1)
	}
	clear(t.z[f0:f1])
	dv := t.s.Cols
	clear(t.s.Data[f0*dv : f1*dv])
	if f0 == 0 {
		t.n = 0
	}
}

// rescale raises the reference of feature f to at if that is larger, and rescales its sums. It returns the factor for
// sums that are relative to at. Neither factor exceeds 1, so nothing overflows.
func (t *totals) rescale(f int, at float64) float64 {
	old := t.t[f]
	if at <= old {
		return math.Exp(at - old)
	}
	t.t[f] = at
	if !math.IsInf(old, -1) { // some key has had the feature
		c := math.Exp(old - at)
		t.z[f] *= c
		for j, v := range t.s.Row(f) {
			t.s.Row(f)[j] = v * c
		}
	}
	return 1
}

// addSums adds a run of keys to the totals.
func addSums[T dense.Float](tab *kern.Table[T], t *totals, s *sums[T]) {
	addFeatures(tab, t, s, 0, len(t.t))
	t.n += int64(s.n)
}

// addFeatures adds features f0 to f1−1 of a run of keys. Features do not depend on each other, so ranges can be added
// in parallel. Most features have the references of the totals already: runs of such features are added by one call.
func addFeatures[T dense.Float](tab *kern.Table[T], t *totals, s *sums[T], f0, f1 int) {
	if s.n == 0 {
		return
	}
	for dv := s.s.Cols; f0 < f1; {
		f := f0
		for f < f1 && s.ref.at(f) == t.t[f] {
			f++
		}
		if f > f0 {
			tab.Widen(t.z[f0:f], s.z[f0:f], 1)
			tab.Widen(t.s.Data[f0*dv:f*dv], s.s.Data[f0*dv:f*dv], 1)
			f0 = f
			continue
		}
		if at := s.ref.at(f); !math.IsInf(at, -1) {
			c := t.rescale(f, at)
			// The explicit conversion forbids a fused multiply-add, which some targets would use: the rounding is part
			// of the promise of equal bits.
			t.z[f] += float64(c * float64(s.z[f]))
			tab.Widen(t.s.Row(f), s.s.Row(f), c)
		}
		f0 = f + 1
	}
}

// add adds the keys of o, for Merge.
func (t *totals) add(o *totals) {
	if o.n == 0 {
		return
	}
	for f, at := range o.t {
		if math.IsInf(at, -1) {
			continue
		}
		c := t.rescale(f, at)
		t.z[f] += c * o.z[f]
		dst := t.s.Row(f)
		for j, v := range o.s.Row(f) {
			dst[j] += c * v
		}
	}
	t.n += o.n
}

// memory holds the sums over a sequence of keys: the totals of full segments in float64, and the sums of the current
// segment in T.
//
// Invariant: the sums of a segment do not depend on earlier segments, except through the references it begins with
// (seed). Segments can therefore be summed in parallel and combined in order, with the bits of a serial run.
type memory[T dense.Float] struct {
	part  sums[T]
	total totals
	// seed holds the references at the start of a segment. Invariant: they are reached by keys that all queries of the
	// segment see. If not set, the first key of the segment sets them.
	seed reference[T]

	// kept says that the features of a segment were kept from its summation for its queries: one row per key, at the
	// references of seed, which no key exceeded by more than the lag. The totals are then ready for reading.
	kept     bool
	features dense.Matrix[T] // a view of own, or of memory that a backward pass has lent
	own      dense.Matrix[T]
	// steps holds [S | z] of the segment before every chunk, if there is room, and rows the number of keys in each.
	// Chunks can then be read in parallel. Otherwise the sums inside the segment are computed again.
	steps dense.Matrix[T]
	rows  []int
	// For a memory that stands for one step (see at): skip is the number of features before its chunk. once says that
	// its sums are read only once, so that the totals may be added to them in place.
	skip int
	once bool

	// The totals in T, for reading together with the part. Their references ref are those of the part, except for
	// features in which the totals are far above.
	ready  bool // the fields below are valid for this epoch of part
	epoch  int
	ref    reference[T]
	s      dense.Matrix[T]
	z      []T
	factor []T     // e^{t_part − t} if a reference is not that of part
	mixed  bool    // some factor is not 1
	shown  view[T] // view of all keys, see show
}

func newMemory[T dense.Float](features, dv int) *memory[T] {
	m := new(memory[T])
	m.resize(features, dv)
	return m
}

// resize makes an empty memory of features × dv.
func (m *memory[T]) resize(features, dv int) {
	m.shape(features, dv)
	m.reset()
}

// shape is resize without clearing: all numbers are undefined.
func (m *memory[T]) shape(features, dv int) {
	m.part.shape(features, dv)
	m.total.shape(features, dv)
	m.ref.tau = buf.Sized(m.ref.tau, features)
	m.s = buf.Shaped(m.s, features, dv)
	m.z, m.factor = buf.Sized(m.z, features), buf.Sized(m.factor, features)
	m.ready, m.seed.set, m.kept = false, false, false
}

// copyFrom copies the sums of o, which has the same shape. Kept features and prepared totals are not copied.
func (m *memory[T]) copyFrom(o *memory[T]) {
	m.part.ref.copyFrom(&o.part.ref)
	copy(m.part.s.Data, o.part.s.Data)
	copy(m.part.z, o.part.z)
	m.part.n = o.part.n
	m.part.epoch++
	m.total.copyFrom(&o.total)
	m.ready = false
}

// reset removes all keys.
func (m *memory[T]) reset() {
	m.begin()
	m.total.reset()
}

// begin starts a segment: empty sums, at the references of seed if these are set. If the features of the segment were
// kept, the totals have been prepared for exactly these references and stay valid.
func (m *memory[T]) begin() {
	m.part.reset()
	if m.seed.set {
		m.part.ref.copyFrom(&m.seed)
	}
	if m.ready = m.kept; m.kept {
		m.epoch, m.mixed = m.part.epoch, m.isMixed()
	}
}

// keep ends a summation that keeps features. They are valid only if no reference was raised since epoch, because all
// rows must have the same references.
func (m *memory[T]) keep(epoch int) {
	if m.kept = m.part.epoch == epoch; m.kept {
		m.ref.copyFrom(&m.part.ref)
	}
}

// hold gives the features of a segment their place: lent memory if there is any, own memory otherwise.
func (m *memory[T]) hold(lent dense.Matrix[T], rows, cols int) {
	if m.features = lent; lent.IsEmpty() {
		m.own = buf.Shaped(m.own, rows, cols)
		m.features = m.own
	}
}

// mark keeps the sums before chunk i of n chunks.
func (m *memory[T]) mark(i, n int) {
	all := len(m.part.s.Data)
	m.steps, m.rows = buf.Shaped(m.steps, n, all+len(m.part.z)), buf.Sized(m.rows, n)
	if m.rows[i] = m.part.n; m.part.n > 0 {
		copy(m.steps.Row(i), m.part.s.Data)
		copy(m.steps.Row(i)[all:], m.part.z)
	}
}

// at makes m the memory o before chunk i. Kept features and totals are shared with o; the sums are the step itself,
// which view may overwrite. So each step may be read by one reader, once.
func (m *memory[T]) at(o *memory[T], i int) {
	*m = *o
	all, row := len(m.part.s.Data), o.steps.Row(i)
	m.part.s.Data, m.part.z, m.part.n = row[:all], row[all:], o.rows[i]
	m.epoch, m.ready, m.mixed, m.once = m.part.epoch, true, m.isMixed(), true
	if m.part.n == 0 {
		clear(row)
	}
}

// plant copies the references of s into seed; they may be unset.
func (m *memory[T]) plant(s *sums[T]) {
	m.seed.tau = buf.Sized(m.seed.tau, len(s.ref.tau))
	m.seed.copyFrom(&s.ref)
}

// seen is the number of keys summed.
func (m *memory[T]) seen() int64 { return m.total.n + int64(m.part.n) }

// room is the number of keys that still fit into the current segment.
func (m *memory[T]) room() int { return segmentOf(m.part.s.Rows, m.part.s.Cols) - m.part.n }

// flush ends a segment: its sums join the totals, and the next one begins.
func (m *memory[T]) flush(tab *kern.Table[T]) {
	addSums(tab, &m.total, &m.part)
	m.begin()
}

// negligible is a distance below the reference of the part, in nats, from which totals no longer matter. At the
// reference a key of the part has a feature of 1, beside which even the sum of 10⁹ keys that exceed their own reference
// by the whole lag is lost in rounding. Keeping it as subnormal numbers would only cost time.
const negligible = 80

// prepare converts the totals to T at the references of the part, so that both can be read together. It does nothing if
// that has been done for the current references.
func (m *memory[T]) prepare(tab *kern.Table[T]) {
	if m.ready && m.epoch == m.part.epoch {
		return
	}
	m.ready, m.epoch = true, m.part.epoch
	if m.part.ref.set {
		m.ref.copyFrom(&m.part.ref)
	} else {
		m.ref.set, m.ref.base = true, 0
		for _, t := range m.total.t {
			if !math.IsInf(t, -1) {
				m.ref.base = t
				break
			}
		}
		for f := range m.ref.tau {
			m.ref.tau[f] = T(math.Inf(-1))
		}
	}
	m.narrow(tab, &m.total, 0, len(m.z))
	m.mixed = m.isMixed()
}

// isMixed reports whether ref differs from the references of the part in some feature.
func (m *memory[T]) isMixed() bool {
	for _, f := range m.factor {
		if f != 1 {
			return true
		}
	}
	return false
}

// narrow prepares features f0 to f1−1 of totals in T at the references ref. Where the totals are more than lag above,
// ref is raised to them, so that nothing overflows, and factor records the difference. Runs of features whose
// references agree are converted by one call.
func (m *memory[T]) narrow(tab *kern.Table[T], total *totals, f0, f1 int) {
	same := f0 // the first of the features up to f that have the references of the totals
	dv := m.s.Cols
	flush := func(f int) {
		if same < f {
			tab.Narrow(m.z[same:f], total.z[same:f], 1)
			tab.Narrow(m.s.Data[same*dv:f*dv], total.s.Data[same*dv:f*dv], 1)
		}
		same = f + 1
	}
	for f := f0; f < f1; f++ {
		t := total.t[f]
		m.factor[f] = 1
		at := m.ref.at(f)
		if t == at {
			continue
		}
		flush(f)
		if t > at+lag {
			m.ref.tau[f] = T(t - m.ref.base)
			m.factor[f] = T(math.Exp(at - m.ref.at(f)))
			at = m.ref.at(f)
		}
		c := 0.0
		if t-at > -negligible {
			c = math.Exp(t - at)
		}
		m.z[f] = T(c * total.z[f])
		tab.Narrow(m.s.Row(f), total.s.Row(f), c)
	}
	flush(f1)
}

// show prepares features f0 to f1−1 of the totals for queries that see all keys. The references of reading are those of
// the totals, rounded to T on top of base; c corrects for that rounding.
func (m *memory[T]) show(tab *kern.Table[T], base float64, f0, f1 int) {
	for f := f0; f < f1; f++ {
		t := m.total.t[f]
		m.ref.tau[f] = T(t - base)
		c := 0.0
		if !math.IsInf(t, -1) {
			c = math.Exp(t - (base + float64(m.ref.tau[f])))
		}
		m.z[f] = T(c * m.total.z[f])
		tab.Narrow(m.s.Row(f), m.total.s.Row(f), c)
	}
}

// view is S and z of a memory in T, as the sum of two addends; the second may be missing. Features of keys at the
// references of the part must be multiplied by factor (nil means 1) to be at the references of the view.
type view[T dense.Float] struct {
	ref    *reference[T]
	s, s2  dense.Matrix[T]
	z, z2  []T
	factor []T // e^{t_part − t}: brings sums of the part to ref
}

// fewQueries is the number of queries up to which it is cheaper to multiply with both addends of a view than to sum
// them first.
const fewQueries = 4

// view prepares reading. If sum is set and both addends exist, they are summed in the scratch of w, which pays for many
// queries. The view is valid until the memory changes or w is used for another view.
func (m *memory[T]) view(w *worker[T], sum bool) view[T] {
	s, z := m.part.s, m.part.z
	if m.total.n == 0 {
		return view[T]{ref: &m.part.ref, s: s, z: z}
	}
	m.prepare(w.tab)
	if m.part.n == 0 {
		v := view[T]{ref: &m.ref, s: m.s, z: m.z}
		if m.mixed && m.part.ref.set {
			v.factor = m.factor
		}
		return v
	}
	if !sum && !m.mixed {
		return view[T]{ref: &m.ref, s: m.s, z: m.z, s2: s, z2: z}
	}
	if m.once && !m.mixed {
		w.tab.MulAdd(s.Data, m.s.Data, 1)
		w.tab.MulAdd(z, m.z, 1)
		return view[T]{ref: &m.ref, s: s, z: z}
	}
	w.starS = buf.Shaped(w.starS, m.s.Rows, m.s.Cols)
	w.starZ = buf.Sized(w.starZ, len(m.z))
	copy(w.starS.Data, m.s.Data)
	copy(w.starZ, m.z)
	v := view[T]{ref: &m.ref, s: w.starS, z: w.starZ}
	if !m.mixed {
		w.tab.MulAdd(w.starS.Data, s.Data, 1)
		w.tab.MulAdd(w.starZ, z, 1)
		return v
	}
	v.factor = m.factor
	for f, c := range m.factor {
		w.tab.MulAdd(w.starS.Row(f), s.Row(f), c)
		w.starZ[f] += c * z[f]
	}
	return v
}
