package par

import "sync"

// Pool keeps the scratch memory of finished calls for later ones. In steady use nothing is allocated: there is one C
// for every call that runs at the same time. Unlike sync.Pool it never drops memory, and Get returns the value that was
// put last. The zero value is ready; a Pool may be used from several goroutines.
type Pool[C any] struct {
	mu   sync.Mutex
	free []any // *C values; a field of type []*C would make every program that has the owner link the code of C
}

// Get returns the value that was put last, or a new zero value.
func (p *Pool[C]) Get() *C {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1].(*C)
		p.free = p.free[:n-1]
		return c
	}
	return new(C)
}

// Put returns c to the pool. c must no longer refer to data of its caller, which the pool would keep alive.
func (p *Pool[C]) Put(c *C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

// Held returns the *C in a slot of a Pool[any], made at the first use. A type with a field Pool[any] does not name C,
// so packages that use the type do not compile the code of C again.
func Held[C any](slot *any) *C {
	if *slot == nil {
		*slot = new(C)
	}
	return (*slot).(*C)
}
