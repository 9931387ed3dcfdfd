package par

import "sync"

// Stream takes items from a source one after the other, works on several at the same time, and hands them out in the
// order of the source. Work on an item may wait for the item before it: that one has begun.
//
// A Stream holds at most Window items. Its goroutines end when there is nothing to do, and Next starts new ones as
// needed, so a Stream that is abandoned leaves none behind. The caller of Next works on items itself only while no
// goroutine is running, because it has to hand out items that are ready. A source of one item starts no goroutine.
//
// After a panic of Take or Work, Next panics with a *Panic. Work that waits for an earlier item must not wait for one
// that has panicked.
//
// One goroutine at a time may call Next. mu protects all fields below it and is released during Take and Work; taking
// serialises Take and is always locked before mu.
type Stream[T any] struct {
	// Take fills the next item. It is never called by two goroutines at the same time. The item may be a reused one.
	Take func(*T) Took
	// Work processes an item on any goroutine, at the same time as Work on other items.
	Work func(*T)
	// Full, if set, reports that the items held are too large to take another, whatever their number.
	Full func() bool
	// Workers is the largest number of goroutines; below 2 only the caller of Next works.
	Workers int
	// Window is the largest number of items held: taken and not yet handed out.
	Window int
	// Ahead lets goroutines take items while nobody waits in Next. Set it only if Take does not block for long.
	Ahead bool

	taking sync.Mutex // held while an item is taken

	mu      sync.Mutex
	changed sync.Cond
	queue   []*streamItem[T] // taken and not handed out, in order
	begun   int              // work has begun on queue[:begun]
	running int              // goroutines that serve
	took    Took             // outcome of the last Take
	closed  bool
	free    []*streamItem[T]
	out     *streamItem[T] // the item that Next returned last; reused at the next call
	started int            // goroutines in all, for tests
	caught  *Panic         // the first panic; from then on no item is taken or worked on
}

type streamItem[T any] struct {
	item T
	done bool
}

// Took is the outcome of Take.
type Took int

// The outcomes.
const (
	// An item was taken, and the next one will come soon.
	Item     Took = iota
	SlowItem      // an item, but the next one may take long: hand out the held items before taking it
	LastItem      // an item, and there are no more
	NoItem        // no item: the source has ended
)

// Next returns the next item, or nil after the last. The item is valid until the following call of Next.
//
// Each turn of its loop does the first thing that is possible: hand out the first item if it is done, take another if
// there is room, work on an item if no goroutine does, or wait for a change.
func (s *Stream[T]) Next() *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed.L == nil {
		s.changed.L = &s.mu
	}
	if s.out != nil {
		s.free = append(s.free, s.out)
		s.out = nil
	}
	if s.Ahead {
		s.hire()
	}
	for {
		switch {
		case s.caught != nil:
			panic(s.caught)
		case len(s.queue) > 0 && s.queue[0].done:
			s.out = s.queue[0]
			s.queue = append(s.queue[:0], s.queue[1:]...)
			s.begun--
			return &s.out.item
		// A slow source must not delay items that are already taken, so then the queue is emptied first.
		case s.room() && !(s.took == SlowItem && len(s.queue) > 0):
			s.take()
			if len(s.queue) > s.begun+1 {
				s.hire()
			}
		case s.begun < len(s.queue) && s.running == 0:
			s.work()
		case len(s.queue) == 0:
			return nil
		default:
			s.changed.Wait()
		}
	}
}

// Close stops the goroutines from taking items and beginning further work, and waits for them to end.
func (s *Stream[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.closed = true; s.running > 0; s.changed.Wait() {
	}
}

// room reports whether another item may be taken. An empty queue always has room unless the source has ended: otherwise
// one large item could block the stream for ever.
func (s *Stream[T]) room() bool {
	return s.took != LastItem && s.took != NoItem && !s.closed && s.caught == nil &&
		(len(s.queue) == 0 || len(s.queue) < s.Window && !(s.Full != nil && s.Full()))
}

// hire starts one goroutine if the limits allow it and there is work.
func (s *Stream[T]) hire() {
	work := s.begun < len(s.queue) || s.Ahead && s.room() && len(s.queue) > 0
	if !work || s.running >= s.Workers || s.Workers < 2 || s.closed {
		return
	}
	s.running++
	s.started++
	go s.serve()
}

// serve is the body of a goroutine: it works, and takes items if Ahead, until nothing is left to do.
func (s *Stream[T]) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.caught == nil {
		if s.begun < len(s.queue) {
			s.work()
		} else if s.Ahead && s.room() {
			s.take()
		} else {
			break
		}
	}
	if s.running--; s.running == 0 { // Close waits for this, and Next must work itself from now on
		s.changed.Broadcast()
	}
}

// take adds an item to the queue. It gives up mu while it waits for its turn and while Take runs.
func (s *Stream[T]) take() {
	s.mu.Unlock()
	s.taking.Lock()
	s.mu.Lock()
	defer s.taking.Unlock()
	if !s.room() { // another goroutine has taken an item in the meantime
		return
	}
	var t *streamItem[T]
	if n := len(s.free); n > 0 {
		t, s.free = s.free[n-1], s.free[:n-1]
	} else {
		t = new(streamItem[T])
	}
	t.done = false
	var took Took
	if !s.unlocked(func() { took = s.Take(&t.item) }) {
		return
	}
	if s.took = took; took != NoItem {
		s.queue = append(s.queue, t)
	}
}

// work processes the first item of the queue that nobody has begun. It gives up mu while Work runs.
func (s *Stream[T]) work() {
	t := s.queue[s.begun]
	s.begun++
	t.done = s.unlocked(func() { s.Work(&t.item) })
	// Only the first item of the queue can be handed out, so only its end wakes Next.
	if s.queue[0] == t {
		s.changed.Broadcast()
	}
}

// unlocked runs f without mu and reports whether it returned; false means that it panicked, which is recorded.
func (s *Stream[T]) unlocked(f func()) bool {
	s.mu.Unlock()
	p := Catch(f)
	s.mu.Lock()
	if p != nil && s.caught == nil {
		s.caught = p
		s.changed.Broadcast()
	}
	return p == nil
}
