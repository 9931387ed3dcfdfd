//go:build unix

package serve

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/randfeat/randfeat/machine"
)

// A model file that has become a FIFO is refused: reading it would wait for a writer for ever.
func TestReloadRefusesAFIFO(t *testing.T) {
	path := saved(t, fitted(t, machine.KindRidge, 1))
	s, err := New(path, Options{})
	check(t, err)
	check(t, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)))
	done := make(chan error, 1)
	go func() { done <- s.Reload() }()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("a FIFO: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the reload hangs")
	}
	if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 200 {
		t.Errorf("the old model: %d", w.Code)
	}
}
