package par

import "sync"

// Stream takes items from a source one after the other, works on several at the same time and hands them out in the
// order of the source. Work on an item may wait for the item before it: that has begun.
//
// It holds at most Window items. Goroutines end when there is nothing to do for them, and Next starts others: a Stream
// that is forgotten leaves none behind. The caller of Next works on items only while nobody else does, since those that
// are ready wait for it; a source of one item starts no goroutine.
type Stream[T any] struct {
	// Take fills the next item, never two at a time.
	Take func(*T) Took
	// Work is done on any goroutine.
	Work func(*T)
	// Full, if set, says that what is held is too much for another item.
	Full func() bool
	// Workers is the number of goroutines that work at most; 1: only the caller.
	Workers int
	// Window is the number of items that are held at most.
	Window int
	// Ahead says that goroutines may take items while nobody waits in Next: taking never blocks for long.
	Ahead bool

	taking sync.Mutex // held while an item is taken

	mu      sync.Mutex
	changed sync.Cond
	queue   []*streamItem[T] // taken and not handed out, in order
	begun   int              // of the queue: work has begun on those before
	running int              // goroutines
	took    Took             // the last
	closed  bool
	free    []*streamItem[T]
	out     *streamItem[T] // what Next gave last
	started int            // goroutines in all, for tests
	caught  *Panic         // the first; no further item is taken or worked on
}

type streamItem[T any] struct {
	item T
	done bool
}

// Took is what came of taking an item.
type Took int

// The outcomes.
const (
	Item     Took = iota
	SlowItem      // an item, and the next one may take long to come
	LastItem
	NoItem // the source has ended
)

// Next gives the next item, or nil after the last. It is valid until the following call.
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

// Close waits for the goroutines.
func (s *Stream[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.closed = true; s.running > 0; s.changed.Wait() {
	}
}

func (s *Stream[T]) room() bool {
	return s.took != LastItem && s.took != NoItem && !s.closed && s.caught == nil &&
		(len(s.queue) == 0 || len(s.queue) < s.Window && !(s.Full != nil && s.Full()))
}

// hire starts a goroutine if it may and there is work.
func (s *Stream[T]) hire() {
	work := s.begun < len(s.queue) || s.Ahead && s.room() && len(s.queue) > 0
	if work && s.running < s.Workers && s.Workers > 1 && !s.closed {
		s.running++
		s.started++
		go s.serve()
	}
}

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
	if s.running--; s.running == 0 { // for Close, and for Next if nobody else is left
		s.changed.Broadcast()
	}
}

// take adds an item to the queue. The lock is not held while it is taken.
func (s *Stream[T]) take() {
	s.mu.Unlock()
	s.taking.Lock()
	s.mu.Lock()
	defer s.taking.Unlock()
	if !s.room() { // another has taken meanwhile
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

// work does the first item of the queue that waits. The lock is not held meanwhile.
func (s *Stream[T]) work() {
	t := s.queue[s.begun]
	s.begun++
	t.done = s.unlocked(func() { s.Work(&t.item) })
	if s.queue[0] == t {
		s.changed.Broadcast()
	}
}

// unlocked runs f without the lock; false: it has panicked.
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
