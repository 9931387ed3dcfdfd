package attention

import (
	"math"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/kern"
)

// Sums over keys are kept per feature at a reference scale (docs/theory.md §6, rule 3):
//
//	S_f = Σ_j φ2(k_j)_f e^{−t_f} v_j,   z_f = Σ_j φ2(k_j)_f e^{−t_f}
//
// and a query is read with φ1(q_i)_f e^{t_f − r_i}, r_i = max_f(log φ1(q_i)_f + t_f). If some key seen so far reaches
// t_f in every feature f, then the feature where a query is 1 has z_f ≥ 1, so the denominator is at least 1 and nothing
// underflows or needs an epsilon. References may lag behind the keys: raising them is rare, and strictly causal because
// a reference never exceeds what the keys so far have reached.
const (
	// lag is how far keys may exceed their references, in nats: e^20·2^20 keys are far from overflow in float32.
	lag = 20
	// segment is the number of keys summed in T before the sums move to float64, and the unit of parallel work.
	segment = 4096
	// rebase bounds |tau|: references are float32 numbers on top of a float64 base and must stay accurate.
	rebase = 64
)

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

func (s *sums[T]) resize(features, dv int) {
	s.ref.tau = buf.Sized(s.ref.tau, features)
	s.s = buf.Shaped(s.s, features, dv)
	s.z = buf.Sized(s.z, features)
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

func (t *totals) resize(features, dv int) {
	t.t, t.z = buf.Sized(t.t, features), buf.Sized(t.z, features)
	t.s = buf.Shaped(t.s, features, dv)
	t.reset()
}

func (t *totals) reset() {
	for f := range t.t {
		t.t[f] = math.Inf(-1)
	}
	clear(t.s.Data)
	clear(t.z)
	t.n = 0
}

func (t *totals) copyFrom(o *totals) {
	copy(t.t, o.t)
	copy(t.s.Data, o.s.Data)
	copy(t.z, o.z)
	t.n = o.n
}

// rescale sets the reference of feature f to the larger of its own and at; it returns the factor for what is kept at
// at.
func (t *totals) rescale(f int, at float64) float64 {
	old := t.t[f]
	if at <= old {
		return math.Exp(at - old)
	}
	t.t[f] = at
	if c := math.Exp(old - at); t.n > 0 {
		t.z[f] *= c
		for j, v := range t.s.Row(f) {
			t.s.Row(f)[j] = v * c
		}
	}
	return 1
}

// addSums adds a run of keys.
func addSums[T dense.Float](t *totals, s *sums[T]) {
	if s.n == 0 {
		return
	}
	for f := range t.t {
		at := s.ref.at(f)
		if math.IsInf(at, -1) {
			continue
		}
		c := t.rescale(f, at)
		t.z[f] += c * float64(s.z[f])
		dst := t.s.Row(f)
		for j, v := range s.s.Row(f) {
			dst[j] += c * float64(v)
		}
	}
	t.n += int64(s.n)
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

// memory is what linear attention remembers of a sequence of keys: the totals of full segments and the sums of the
// segment under way. The sums of a segment do not depend on the segments before it, so segments can be summed in
// parallel and combined in order with the bits of a serial run.
type memory[T dense.Float] struct {
	part  sums[T]
	total totals

	// The totals in T at the references of reading, which are those of part except where the totals are far above.
	ready  bool // the following are valid, for this epoch of part
	epoch  int
	ref    reference[T]
	s      dense.Matrix[T]
	z      []T
	factor []T // e^{t_part − t} if a reference is not that of part
	mixed  bool
}

func newMemory[T dense.Float](features, dv int) *memory[T] {
	m := new(memory[T])
	m.resize(features, dv)
	return m
}

func (m *memory[T]) resize(features, dv int) {
	m.part.resize(features, dv)
	m.total.resize(features, dv)
	m.ref.tau = buf.Sized(m.ref.tau, features)
	m.s = buf.Shaped(m.s, features, dv)
	m.z, m.factor = buf.Sized(m.z, features), buf.Sized(m.factor, features)
	m.ready = false
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
	m.part.reset()
	m.total.reset()
	m.ready = false
}

// seen is the number of keys.
func (m *memory[T]) seen() int64 { return m.total.n + int64(m.part.n) }

// room is how many keys fit into the segment under way.
func (m *memory[T]) room() int { return segment - m.part.n }

// flush ends a segment.
func (m *memory[T]) flush() {
	addSums(&m.total, &m.part)
	m.part.reset()
	m.ready = false
}

// chain gives every memory but the first the totals of all keys before its segment: those of the memory before it and
// that one's part.
func chain[T dense.Float](mems []*memory[T]) {
	for i, m := range mems[:len(mems)-1] {
		next := &mems[i+1].total
		next.copyFrom(&m.total)
		addSums(next, &m.part)
		m.part.reset()
		mems[i+1].ready = false
	}
}

// restart makes the first memory that of all keys seen by the last one, and empties the others' parts, for another
// wave.
func restart[T dense.Float](mems []*memory[T]) {
	last := mems[len(mems)-1]
	last.flush()
	if len(mems) == 1 {
		return
	}
	mems[0].total.copyFrom(&last.total)
	for _, m := range mems {
		m.part.reset()
		m.ready = false
	}
}

// negligible nats below the part's reference, where a key of the part has a feature of 1, even the sum of 10⁹ keys that
// exceed their own reference by the whole lag is lost in rounding; as subnormal numbers it would only cost time.
const negligible = 80

// prepare converts the totals for reading beside the part.
func (m *memory[T]) prepare() {
	if m.ready && m.epoch == m.part.epoch {
		return
	}
	m.ready, m.epoch, m.mixed = true, m.part.epoch, false
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
	for f, t := range m.total.t {
		m.factor[f] = 1
		at := m.ref.at(f)
		if t > at+lag {
			m.mixed = true
			m.ref.tau[f] = T(t - m.ref.base)
			m.factor[f] = T(math.Exp(at - m.ref.at(f)))
			at = m.ref.at(f)
		}
		c := 0.0
		if t-at > -negligible {
			c = math.Exp(t - at)
		}
		m.z[f] = T(c * m.total.z[f])
		dst := m.s.Row(f)
		for j, v := range m.total.s.Row(f) {
			dst[j] = T(c * v)
		}
	}
}

// view is S and z of a memory in T: the sum of two addends, the second of which may be missing. Features of keys at the
// references of the part, multiplied by factor (nil: ones), are at the references of the view.
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
	if m.total.n == 0 {
		return view[T]{ref: &m.part.ref, s: m.part.s, z: m.part.z}
	}
	m.prepare()
	if m.part.n == 0 && !m.part.ref.set {
		return view[T]{ref: &m.ref, s: m.s, z: m.z}
	}
	if !sum && !m.mixed {
		return view[T]{ref: &m.ref, s: m.s, z: m.z, s2: m.part.s, z2: m.part.z}
	}
	w.starS = buf.Shaped(w.starS, m.s.Rows, m.s.Cols)
	w.starZ = buf.Sized(w.starZ, len(m.z))
	copy(w.starS.Data, m.s.Data)
	copy(w.starZ, m.z)
	v := view[T]{ref: &m.ref, s: w.starS, z: w.starZ}
	if !m.mixed {
		w.tab.MulAdd(w.starS.Data, m.part.s.Data, 1)
		w.tab.MulAdd(w.starZ, m.part.z, 1)
		return v
	}
	v.factor = m.factor
	for f, c := range m.factor {
		w.tab.MulAdd(w.starS.Row(f), m.part.s.Row(f), c)
		w.starZ[f] += c * m.part.z[f]
	}
	return v
}
