package par

import (
	"fmt"
	"runtime/debug"
)

// Panic carries a panic from a worker goroutine to the caller, who panics with it. Without it the panic would end the
// process, because no caller can recover from a panic of another goroutine.
type Panic struct {
	Value any
	Stack []byte // stack of the goroutine that panicked
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error, and nil otherwise.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// panicOf wraps a recovered value. A *Panic from a nested loop stays as it is, so its stack is that of the cause.
func panicOf(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{v, debug.Stack()}
}

// Catch runs f and returns its panic, or nil. Goroutines outside of Group, Crew and Stream run their work through Catch
// and hand the Panic to the goroutine that waits for them, which panics with it.
func Catch(f func()) (p *Panic) {
	defer func() {
		if v := recover(); v != nil {
			p = panicOf(v)
		}
	}()
	f()
	return nil
}
