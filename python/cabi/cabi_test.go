package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCProgram builds the library, links a C program that uses all of randfeat.h, and runs it. Without -short, Go's
// checks of pointers are on: checkptr of unsafe.Pointer, cgocheck2 of Go pointers that C memory holds. Both need a
// build of everything.
func TestCProgram(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	lib := filepath.Join(dir, "librandfeat.so")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-o", lib)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if !testing.Short() {
		build.Args = append(build.Args, "-gcflags=all=-d=checkptr")
		build.Env = append(build.Env, "GOEXPERIMENT=cgocheck2")
	}
	program := filepath.Join(dir, "test")
	compile := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-I.",
		"-o", program, "testdata/test.c", lib, "-lm", "-lpthread", "-Wl,-rpath,"+dir)
	for _, c := range []*exec.Cmd{build, compile, exec.Command(program)} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
}
