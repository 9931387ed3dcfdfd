package par

import "sync"

// Pool keeps the memory of calls that are over for those that follow: what is in steady use allocates nothing, and as
// many calls as run at the same time have memory of their own. The zero value is ready.
type Pool[C any] struct {
	mu   sync.Mutex
	free []any // *C, which as a field would make every program that has the owner link the code of C
}

// Get is the memory that was last put, or new.
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

// Put takes back what has forgotten the data of its caller.
func (p *Pool[C]) Put(c *C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}
