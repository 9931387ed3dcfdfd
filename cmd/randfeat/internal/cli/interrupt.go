package cli

import (
	"context"
	"errors"
	"io"
	"os"
)

// ErrInterrupted ends a command whose context ended.
var ErrInterrupted = errors.New("interrupted")

// Until ends everything that the command line reads from stdin and from pipes when ctx ends. Otherwise a pipe
// that nobody writes to would block the process forever.
func (env *Env) Until(ctx context.Context) {
	env.ctx = ctx
	env.Stdin = &watchedReader{env: env, r: env.Stdin}
}

// OpenPipe opens a file that may be a named pipe. Opening a pipe waits for its writer, and reading for its
// bytes; both end with the context of the command line.
func (env *Env) OpenPipe(path string) (io.ReadCloser, error) {
	f, err := Await(env, func() (*os.File, error) { return os.Open(path) })
	if err != nil {
		return nil, err
	}
	return &watchedReader{env: env, r: f, c: f}, nil
}

// Await returns the result of work, or ErrInterrupted as soon as the context of the command line ends. The
// system call that work waits in cannot be cancelled: its goroutine stays until the process ends, so Await is
// for programs, not for libraries.
func Await[T any](env *Env, work func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := work()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-env.done():
		var none T
		return none, ErrInterrupted
	}
}

// done is closed when the command line ends; nil, which blocks forever, before Until.
func (env *Env) done() <-chan struct{} {
	if env.ctx == nil {
		return nil
	}
	return env.ctx.Done()
}

// watchedReader reads until the context of env ends.
type watchedReader struct {
	env *Env
	r   io.Reader
	c   io.Closer // nil: stays open
	buf []byte    // a Read that was given up may still write here, but not into the caller's buffer
}

func (w *watchedReader) Read(p []byte) (int, error) {
	if w.env.ctx != nil && w.env.ctx.Err() != nil {
		return 0, ErrInterrupted
	}
	if len(p) > len(w.buf) {
		w.buf = make([]byte, min(len(p), 1<<16))
	}
	buf := w.buf[:min(len(p), len(w.buf))]
	n, err := Await(w.env, func() (int, error) { return w.r.Read(buf) })
	return copy(p, buf[:n]), err
}

func (w *watchedReader) Close() error {
	if w.c == nil {
		return nil
	}
	return w.c.Close()
}
