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
	// lag is how far keys may exceed their references, in nats: e^20·2^20 keys are far from overflow in float32.
	lag = 20
	// segment is the least number of keys summed in T before the sums move to float64, and the unit of parallel work;
	// maxSegment the most, of large sums. At every maxSegment keys the references that segments begin with are raised.
	segment, maxSegment = 256, 4096
	// rebase bounds |tau|: references are float32 numbers on top of a float64 base and must stay accurate.
	rebase = 64
)

// segmentOf returns the number of keys summed in T before the sums move to float64, for sums of the given size. Moving
// them costs as much as a few dozen keys. It must depend on nothing else, because it determines the bits.
func segmentOf(features, dv int) int {
	n := segment
	for n < maxSegment && 128*n < features*dv {
		n *= 2
	}
	return n
}

// reference is t_f = base + tau_f; tau_f = −Inf: no key has had feature f. The zero value knows no key.
type reference[T dense.Float] struct {
	base float64
	tau  []T
	set  bool
}

func (r *reference[T]) at(f int) float64 { return r.base + float64(r.tau[f]) }

func (r *reference[T]) copyFrom(o *reference[T]) {
	r.base, r.set = o.base, o.set
	copy(r.tau, o.tau)
}

// sums is S and z over a short run of keys.
type sums[T dense.Float] struct {
	ref reference[T]
	s   dense.Matrix[T] // features × value columns
	z   []T
	n   int // keys
	// epoch counts the changes of ref.
	epoch int

	neg   []T // −tau, for the epoch negAt
	negAt int
}

func (s *sums[T]) shape(features, dv int) {
	s.ref.tau = buf.Sized(s.ref.tau, features)
	s.s = buf.Shaped(s.s, features, dv)
	s.z = buf.Sized(s.z, features)
}

// clear makes s references without sums that know no key.
func (s *sums[T]) clear(features int) {
	s.shape(features, 0)
	s.reset()
}

func (s *sums[T]) reset() {
	s.ref.set, s.ref.base, s.n = false, 0, 0
	s.epoch++
	clear(s.s.Data)
	clear(s.z)
}

// raise lifts the references to a key with log features e + row and rescales the sums.
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

// negTau is −tau, with huge instead of Inf.
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

// add adds keys with the scaled features phi. The bits of the sums do not depend on how keys are divided among calls.
func (s *sums[T]) add(tab *kern.Table[T], phi, v dense.Matrix[T]) {
	tab.TMul(s.s, phi, v)
	tab.ColSum(s.z, phi)
	s.n += phi.Rows
}

// totals is S and z over any number of keys, in float64.
type totals struct {
	t []float64 // −Inf: no key has had the feature
	s dense.Matrix[float64]
	z []float64
	n int64
}

func (t *totals) shape(features, dv int) {
	t.t, t.z = buf.Sized(t.t, features), buf.Sized(t.z, features)
	t.s = buf.Shaped(t.s, features, dv)
}

func (t *totals) reset() { t.resetFeatures(0, len(t.t)) }

func (t *totals) copyFrom(o *totals) { t.copyFeatures(o, 0, len(t.t)) }

// copyFeatures copies features f0 to f1−1, with the first also the number of keys; resetFeatures forgets them.
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

// rescale sets the reference of feature f to the larger of its own and at. It returns the factor for sums relative to
// at.
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

// addSums adds a run of keys.
func addSums[T dense.Float](tab *kern.Table[T], t *totals, s *sums[T]) {
	addFeatures(tab, t, s, 0, len(t.t))
	t.n += int64(s.n)
}

// addFeatures adds features f0 to f1−1 of a run of keys. No feature depends on another: they can be added in parallel.
// Most have the references of the totals: neighbours among them are added at once.
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
			t.z[f] += float64(c * float64(s.z[f]))
			tab.Widen(t.s.Row(f), s.s.Row(f), c)
		}
		f0 = f + 1
	}
}

// add adds the keys of o.
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
// segment in T. Invariant: the sums of a segment do not depend on earlier segments. Segments can therefore be summed in
// parallel and combined in order, with the bits of a serial run.
type memory[T dense.Float] struct {
	part  sums[T]
	total totals
	// seed holds the references at the start of a segment. Invariant: keys that all its queries see have reached them.
	// If not set, the first key of the segment sets them.
	seed reference[T]

	// What has been kept of the sums over a segment for its queries: the features of its keys, one row each, at the
	// references of seed, above which none is. The totals are ready for reading.
	kept     bool
	features dense.Matrix[T] // in own, or where a pass has lent memory for them
	own      dense.Matrix[T]
	// If there is room, [S | z] of the segment before every chunk, and the rows of features in them. Otherwise the sums
	// inside of the segment are made again.
	steps dense.Matrix[T]
	rows  []int
	// Of a step: the features before its chunk, and that its sums are read once, so that the totals may be added to
	// them.
	skip int
	once bool

	// The totals in T at the references of reading, which are those of part except where the totals are far above.
	ready  bool // the following are valid, for this epoch of part
	epoch  int
	ref    reference[T]
	s      dense.Matrix[T]
	z      []T
	factor []T // e^{t_part − t} if a reference is not that of part
	mixed  bool
	shown  view[T] // of all keys
}

func newMemory[T dense.Float](features, dv int) *memory[T] {
	m := new(memory[T])
	m.resize(features, dv)
	return m
}

func (m *memory[T]) resize(features, dv int) {
	m.shape(features, dv)
	m.reset()
}

// shape is resize that leaves the numbers undefined.
func (m *memory[T]) shape(features, dv int) {
	m.part.shape(features, dv)
	m.total.shape(features, dv)
	m.ref.tau = buf.Sized(m.ref.tau, features)
	m.s = buf.Shaped(m.s, features, dv)
	m.z, m.factor = buf.Sized(m.z, features), buf.Sized(m.factor, features)
	m.ready, m.seed.set, m.kept = false, false, false
}

func (m *memory[T]) copyFrom(o *memory[T]) {
	m.part.ref.copyFrom(&o.part.ref)
	copy(m.part.s.Data, o.part.s.Data)
	copy(m.part.z, o.part.z)
	m.part.n = o.part.n
	m.part.epoch++
	m.total.copyFrom(&o.total)
	m.ready = false
}

func (m *memory[T]) reset() {
	m.begin()
	m.total.reset()
}

// begin begins a segment.
func (m *memory[T]) begin() {
	m.part.reset()
	if m.seed.set {
		m.part.ref.copyFrom(&m.seed)
	}
	if m.ready = m.kept; m.kept {
		m.epoch, m.mixed = m.part.epoch, m.isMixed()
	}
}

// keep ends a summation that keeps features. It keeps them only if no reference was raised since epoch.
func (m *memory[T]) keep(epoch int) {
	if m.kept = m.part.epoch == epoch; m.kept {
		m.ref.copyFrom(&m.part.ref)
	}
}

// hold gives the features of a segment their place.
func (m *memory[T]) hold(lent dense.Matrix[T], rows, cols int) {
	if m.features = lent; lent.IsEmpty() {
		m.own = buf.Shaped(m.own, rows, cols)
		m.features = m.own
	}
}

// mark keeps the sums before chunk i of n, if there are any.
func (m *memory[T]) mark(i, n int) {
	all := len(m.part.s.Data)
	m.steps, m.rows = buf.Shaped(m.steps, n, all+len(m.part.z)), buf.Sized(m.rows, n)
	if m.rows[i] = m.part.n; m.part.n > 0 {
		copy(m.steps.Row(i), m.part.s.Data)
		copy(m.steps.Row(i)[all:], m.part.z)
	}
}

// at makes m the memory o before chunk i, for one reader who reads it once: what o has kept is shared.
func (m *memory[T]) at(o *memory[T], i int) {
	*m = *o
	all, row := len(m.part.s.Data), o.steps.Row(i)
	m.part.s.Data, m.part.z, m.part.n = row[:all], row[all:], o.rows[i]
	m.epoch, m.ready, m.mixed, m.once = m.part.epoch, true, m.isMixed(), true
	if m.part.n == 0 {
		clear(row)
	}
}

// plant makes seed the references of s, or none.
func (m *memory[T]) plant(s *sums[T]) {
	m.seed.tau = buf.Sized(m.seed.tau, len(s.ref.tau))
	m.seed.copyFrom(&s.ref)
}

// seen is the number of keys.
func (m *memory[T]) seen() int64 { return m.total.n + int64(m.part.n) }

// room is how many keys fit into the segment under way.
func (m *memory[T]) room() int { return segmentOf(m.part.s.Rows, m.part.s.Cols) - m.part.n }

// flush ends a segment.
func (m *memory[T]) flush(tab *kern.Table[T]) {
	addSums(tab, &m.total, &m.part)
	m.begin()
}

// negligible is a distance below the part's reference, in nats. There a key of the part has a feature of 1, and even
// the sum of 10⁹ keys that exceed their own reference by the whole lag is lost in rounding. Keeping it as subnormal
// numbers would only cost time.
const negligible = 80

// prepare converts the totals to T, so that they can be read together with the part.
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

// isMixed reports whether the references of the totals differ from those of the part.
func (m *memory[T]) isMixed() bool {
	for _, f := range m.factor {
		if f != 1 {
			return true
		}
	}
	return false
}

// narrow prepares features f0 to f1−1 of totals, at the references ref, which it raises where the totals are far above.
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

// show prepares features f0 to f1−1 of the totals for queries that see all keys, at the references of the totals on top
// of base.
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
// references of the part, times factor (nil: 1), are at the references of the view.
type view[T dense.Float] struct {
	ref    *reference[T]
	s, s2  dense.Matrix[T]
	z, z2  []T
	factor []T
}

// fewQueries is up to how many queries it is cheaper to multiply with both addends of a view than to sum them first.
const fewQueries = 4

// view prepares reading; sum says that the addends are to be summed, which pays for many queries and takes the memory
// of w. It is valid until the memory changes.
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
