package machine

import (
	"errors"
	"testing"

	"github.com/randfeat/randfeat/internal/par"
)

// A panic of who fills buffers, on its own goroutine, is one of the caller.
func TestAheadPanics(t *testing.T) {
	bomb := errors.New("bomb")
	var buffers [2]*int
	for i := range buffers {
		buffers[i] = new(int)
	}
	n, used := 0, 0
	p := par.Catch(func() {
		err := ahead(buffers, func(b *int) error {
			if n++; n == 5 {
				panic(bomb)
			}
			return nil
		}, func(*int) error { used++; return nil })
		t.Error("ahead returned", err)
	})
	if !errors.Is(p, bomb) || used != 4 {
		t.Errorf("%v after %d buffers, want the panic behind 4", p, used)
	}
}
