// Package emit prints avo files the way the kernels need them.
package emit

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// mark is a comment that File turns into a directive: avo has no node for PCALIGN.
const mark = "align the loop"

// AlignLoop puts the next instruction at a multiple of 64 bytes, so that a hot loop starts on a cache line of code.
// The Go assembler (1.26) never ends on a function with several aligned loops and forward jumps across them: use it once
// per function, and always assemble with a time limit first.
func AlignLoop(c *build.Context) { c.Comment(mark) }

// Dir is the folder the generators write to: -dir, by default the package.
var Dir = flag.String("dir", "..", "folder to write to")

// File compiles c and writes it. Output appears only after everything succeeded: a half-written kernel would break the
// package it belongs to.
func File(c *build.Context, name, generator string) error {
	c.ConstraintExpr("amd64,!noasm")
	f, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	src, err := printer.NewGoAsm(printer.Config{Name: "_gen/" + generator, Pkg: "kern"}).Print(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	src = bytes.ReplaceAll(src, []byte("// "+mark+"\n"), []byte("PCALIGN $64\n"))
	return os.WriteFile(filepath.Join(*Dir, name), src, 0o644)
}
