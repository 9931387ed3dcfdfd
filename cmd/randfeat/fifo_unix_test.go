//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// within runs a command line that must end, or release what it waits for and fail.
func within(t *testing.T, ctx context.Context, release func(), stdin io.Reader, args ...string) outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		var stdout, stderr bytes.Buffer
		code := runChecked(ctx, args, stdin, &stdout, &stderr)
		done <- outcome{code, stdout.String(), stderr.String()}
	}()
	select {
	case o := <-done:
		return o
	case <-time.After(20 * time.Second):
		release()
		t.Fatalf("randfeat %s hangs", strings.Join(args, " "))
	}
	return outcome{}
}

// A named pipe: as a model it is refused, as a table it is read once, and an interrupt ends the wait for its writer and
// for its bytes.
func TestNamedPipes(t *testing.T) {
	dir := t.TempDir()
	table, model, pipe := filepath.Join(dir, "demo.csv"), filepath.Join(dir, "model.rf"), filepath.Join(dir, "pipe")
	ok(t, "fit", "--demo", "--features", "16", "--bandwidth", "2", "--lambda", "1", "--folds", "1", "-o", model,
		"--save-data", table)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	release := func() { // for reading and writing: whoever waits goes on
		if f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	}
	for _, args := range [][]string{{"predict", pipe, table}, {"evaluate", pipe, table}, {"inspect", pipe},
		{"parts", "init", filepath.Join(dir, "run"), pipe, "--target", "kwh"}} {
		o := within(t, t.Context(), release, strings.NewReader(""), args...)
		if o.code != exitFailed || !strings.Contains(o.stderr, "not a regular file") {
			t.Errorf("%q: exit %d, %s", args, o.code, o.stderr)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(dir, "x")
	for _, args := range [][]string{{"predict", model, pipe}, {"evaluate", model, pipe}, {"eval", pipe},
		{"fit", pipe, "--target", "kwh", "-o", out}, {"attend", pipe, pipe, pipe, "-o", out},
		{"features", pipe, "--family", "trig", "-o", out}} {
		o := within(t, stopped, release, strings.NewReader(""), args...)
		if o.code != exitInterrupted || !strings.Contains(o.stderr, "interrupted") {
			t.Errorf("%q without a writer: exit %d, %s", args, o.code, o.stderr)
		}
	}
	// A writer that writes the first rows, and then nothing.
	b, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			f.Write(b[:1000])
			cancel()
			<-t.Context().Done()
			f.Close()
		}
	}()
	if o := within(t, ctx, release, strings.NewReader(""), "predict", model, pipe); o.code != exitInterrupted ||
		!strings.Contains(o.stderr, "interrupted") {
		t.Errorf("a writer that stalls: exit %d, %s", o.code, o.stderr)
	}
	// The same of stdin.
	r, w := io.Pipe()
	defer w.Close()
	if o := within(t, stopped, func() { w.Close() }, r, "predict", model, "-"); o.code != exitInterrupted ||
		!strings.Contains(o.stderr, "interrupted") {
		t.Errorf("stdin that stalls: exit %d, %s", o.code, o.stderr)
	}
}

// Commands read a pipe whose writer is gone before they are: none opens it a second time, which would wait for ever.
func TestPipeIsOpenedOnce(t *testing.T) {
	dir := t.TempDir()
	table, model, pipe := filepath.Join(dir, "demo.csv"), filepath.Join(dir, "model.rf"), filepath.Join(dir, "pipe")
	ok(t, "fit", "--demo", "--features", "16", "--bandwidth", "2", "--lambda", "1", "--folds", "1", "-o", model,
		"--save-data", table)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	b = b[:bytes.LastIndexByte(b[:4000], '\n')+1] // fits into the buffer of a pipe
	if err := os.WriteFile(table, b, 0o600); err != nil {
		t.Fatal(err)
	}
	release := func() {
		if f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	}
	for _, command := range []string{"predict", "evaluate"} {
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, b, 0) }()
		o := within(t, t.Context(), release, strings.NewReader(""), command, model, pipe)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		want := ok(t, command, model, table)
		if o.code != exitDone || strings.ReplaceAll(o.stdout, pipe, table) != want.stdout {
			t.Errorf("%s of a pipe: exit %d, %s%s", command, o.code, o.stdout, o.stderr)
		}
	}
}

// An interrupt of the process ends it with the status that shells know.
func TestInterruptExits130(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{{"fit", pipe, "--target", "y", "-o", filepath.Join(dir, "m.rf")}, {"eval", pipe}} {
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the command reads
		if err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		w.Close()
		if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: exit %d, %s", args, code, &stderr)
		}
	}
}
