package machine

import (
	"io"

	"github.com/randfeat/randfeat/internal/par"
)

// filled is a full buffer, or the error or panic that ended the filling.
type filled[B any] struct {
	b      *B
	err    error
	caught *par.Panic
}

// ahead reads ahead: one goroutine fills one of two buffers while the caller uses the other. use sees the buffers in
// the order in which fill made them. fill returns io.EOF, and fills nothing, at the end.
//
// Invariants: the first error in the order of buffers is returned, whether fill or use made it; a panic of fill is
// raised again in the caller; the goroutine has ended when ahead returns, even after a panic of use. Both channels hold
// two buffers, so the goroutine never blocks on a caller that has given up.
func ahead[B any](buffers [2]*B, fill, use func(*B) error) error {
	full := make(chan filled[B], len(buffers))
	empty := make(chan *B, len(buffers))
	for _, b := range buffers {
		empty <- b
	}
	go func() {
		defer close(full)
		for b := range empty {
			f := filled[B]{b: b}
			f.caught = par.Catch(func() { f.err = fill(b) })
			full <- f // never blocks: the channel has room for both buffers
			if f.err != nil || f.caught != nil {
				return
			}
		}
	}()
	defer func() {
		close(empty)
		for range full { // ends when the goroutine closes full
		}
	}()
	for f := range full {
		if f.caught != nil {
			panic(f.caught)
		}
		if f.err == io.EOF {
			return nil
		}
		if f.err != nil {
			return f.err
		}
		if err := use(f.b); err != nil {
			return err
		}
		empty <- f.b
	}
	return nil
}
