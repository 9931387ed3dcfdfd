package machine

import (
	"io"

	"github.com/randfeat/randfeat/internal/par"
)

// ahead fills one of two buffers while the other is used, in order: use sees what fill made, buffer by buffer, and fill
// runs in one goroutine. fill returns io.EOF, and fills nothing, at the end. The first error in the order of buffers
// ends everything; a panic of fill becomes one of ahead. The goroutine has ended when ahead returns, also by a panic.
func ahead[B any](buffers [2]*B, fill, use func(*B) error) error {
	type filled struct {
		b      *B
		err    error
		caught *par.Panic
	}
	full := make(chan filled, len(buffers))
	empty := make(chan *B, len(buffers))
	for _, b := range buffers {
		empty <- b
	}
	go func() {
		defer close(full)
		for b := range empty {
			f := filled{b: b}
			f.caught = par.Catch(func() { f.err = fill(b) })
			full <- f // never blocks: there are two buffers
			if f.err != nil || f.caught != nil {
				return
			}
		}
	}()
	defer func() {
		close(empty)
		for range full { // until the goroutine has closed it
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
