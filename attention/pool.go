package attention

import "sync"

// pool keeps the memory of calls that are over for those that follow: a Linear or Exact in steady use allocates
// nothing, and as many calls as run at the same time have memory of their own.
type pool[C any] struct {
	mu   sync.Mutex
	free []*C
}

func (p *pool[C]) get() *C {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(C)
}

// put takes back a call that has forgotten the data of its caller.
func (p *pool[C]) put(c *C) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}
