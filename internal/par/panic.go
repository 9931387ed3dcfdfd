package par

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic of another goroutine, which its caller panics with. Without it, such a panic would end the process,
// whatever the caller recovers from.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error is the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap is the value, if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// panicOf is a recovered value; a Panic from further down stays what it is.
func panicOf(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{v, debug.Stack()}
}

// Catch runs f and returns its panic, or nil. Goroutines that belong to no Group, Crew or Stream begin with it and hand
// the Panic to whoever waits for them, who panics with it.
func Catch(f func()) (p *Panic) {
	defer func() {
		if v := recover(); v != nil {
			p = panicOf(v)
		}
	}()
	f()
	return nil
}
