package main

import (
	"bytes"
	"fmt"
)

// asm collects Go assembler text for one element type.
//
// The Go assembler knows few NEON floating-point instructions: the others are emitted as WORD with the mnemonic of the
// Arm manual (destination first) as a comment.
type asm struct {
	bytes.Buffer
	size int // bytes of an element: 4 or 8
	args int // bytes of the arguments of the current function so far

	stubs bytes.Buffer // declarations in Go
}

// Registers R16 to R18 and R26 to R30 belong to the linker, the platform and the runtime: no kernel uses them.

func (a *asm) f32() bool { return a.size == 4 }

// lanes is the number of elements of a vector.
func (a *asm) lanes() int { return 16 / a.size }

// suffix is the type in names of functions.
func (a *asm) suffix() string { return fmt.Sprintf("NEONF%d", 8*a.size) }

// arr is the arrangement of Go operands; armArr that of the manual.
func (a *asm) arr() string    { return map[int]string{4: "S4", 8: "D2"}[a.size] }
func (a *asm) armArr() string { return map[int]string{4: "4S", 8: "2D"}[a.size] }

// shift is log₂ of the element size.
func (a *asm) shift() int { return map[int]int{4: 2, 8: 3}[a.size] }

func (a *asm) p(format string, args ...any) { fmt.Fprintf(a, "\t"+format+"\n", args...) }
func (a *asm) label(name string)            { fmt.Fprintf(a, "\n%s:\n", name) }
func (a *asm) note(format string, args ...any) {
	fmt.Fprintf(a, "\n\t// "+format+"\n", args...)
}

// fn starts a function; sig is its Go declaration without "func", argBytes the size of arguments and results.
func (a *asm) fn(name, sig string, argBytes int) {
	fmt.Fprintf(&a.stubs, "\n//go:noescape\nfunc %s%s\n", name, sig)
	fmt.Fprintf(a, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, sig, name, argBytes)
	a.args = 0
}

// ptr loads the next 8-byte argument.
func (a *asm) ptr(name, reg string) {
	a.p("MOVD %s+%d(FP), %s", name, a.args, reg)
	a.args += 8
}

// num loads the next argument, a count of elements, and turns it into bytes.
func (a *asm) num(name, reg string) {
	a.ptr(name, reg)
	a.p("LSL $%d, %s, %s", a.shift(), reg, reg)
}

// word emits an encoding with its mnemonic.
func (a *asm) word(code uint32, format string, args ...any) {
	a.p("WORD $0x%08x // %s", code, fmt.Sprintf(format, args...))
}

// Base codes of the 128-bit forms for single precision; bit 22 selects double precision.
var three = map[string]uint32{
	"FADD": 0x4E20D400, "FSUB": 0x4EA0D400, "FMUL": 0x6E20DC00, "FDIV": 0x6E20FC00,
	"FMLA": 0x4E20CC00, "FMLS": 0x4EA0CC00,
	"FMAX": 0x4E20F400, "FMIN": 0x4EA0F400,
	"FCMEQ": 0x4E20E400, "FCMGE": 0x6E20E400, "FCMGT": 0x6EA0E400,
}

var two = map[string]uint32{
	"FRINTN": 0x4E218800, "FCVTNS": 0x4E21A800, "SCVTF": 0x4E21D800, "FABS": 0x4EA0F800,
}

// op3 is d = n op m (FMLA and FMLS: d ±= n·m).
func (a *asm) op3(op string, d, n, m int) {
	code, ok := three[op]
	if !ok {
		panic(op)
	}
	if !a.f32() {
		code |= 1 << 22
	}
	t := a.armArr()
	a.word(code|uint32(m<<16|n<<5|d), "%s V%d.%s, V%d.%s, V%d.%s", op, d, t, n, t, m, t)
}

// op2 is d = op n.
func (a *asm) op2(op string, d, n int) {
	code, ok := two[op]
	if !ok {
		panic(op)
	}
	if !a.f32() {
		code |= 1 << 22
	}
	t := a.armArr()
	a.word(code|uint32(n<<5|d), "%s V%d.%s, V%d.%s", op, d, t, n, t)
}

// zeroCompare is d = all ones where n op 0.
func (a *asm) zeroCompare(op string, d, n int) {
	code := map[string]uint32{"FCMGT": 0x4EA0C800, "FCMEQ": 0x4EA0D800, "FCMLT": 0x4EA0E800}[op]
	if !a.f32() {
		code |= 1 << 22
	}
	a.word(code|uint32(n<<5|d), "%s V%d.%s, V%d.%s, #0.0", op, d, a.armArr(), n, a.armArr())
}

// byElement has the base codes of operations with one element of the last operand.
var byElement = map[string]uint32{"FMLA": 0x4F801000, "FMLS": 0x4F805000, "FMUL": 0x4F809000}

// elem3 is d = n op m[lane] (FMLA and FMLS: d ±= n·m[lane]).
func (a *asm) elem3(op string, d, n, m, lane int) {
	code, ok := byElement[op]
	if !ok {
		panic(op)
	}
	code |= uint32(m<<16 | n<<5 | d)
	if a.f32() {
		code |= uint32(lane&1)<<21 | uint32(lane>>1)<<11
		a.word(code, "%s V%d.4S, V%d.4S, V%d.S[%d]", op, d, n, m, lane)
		return
	}
	a.word(code|1<<22|uint32(lane)<<11, "%s V%d.2D, V%d.2D, V%d.D[%d]", op, d, n, m, lane)
}

// konst is a constant: all of register reg, or one lane of it where registers are few.
type konst struct{ reg, lane int }

// whole is the constant that fills a register.
func whole(reg int) konst { return konst{reg, -1} }

// by is d = n op k.
func (a *asm) by(op string, d, n int, k konst) {
	if k.lane < 0 {
		a.op3(op, d, n, k.reg)
	} else {
		a.elem3(op, d, n, k.reg, k.lane)
	}
}

// set fills d with k.
func (a *asm) set(d int, k konst) {
	if k.lane < 0 {
		a.mov(d, k.reg)
	} else {
		a.p("VDUP V%d.%s[%d], V%d.%s", k.reg, a.arr()[:1], k.lane, d, a.arr())
	}
}

// sshr is the arithmetic shift d = n >> by.
func (a *asm) sshr(d, n, by int) {
	a.word(0x4F000400|uint32(16*a.size-by)<<16|uint32(n<<5|d), "SSHR V%d.%s, V%d.%s, #%d", d, a.armArr(), n, a.armArr(),
		by)
}

// loadIndexed is d = the vector at rn + rm.
func (a *asm) loadIndexed(d, rn, rm int) {
	a.word(0x3CE06800|uint32(rm<<16|rn<<5|d), "LDR Q%d, [X%d, X%d]", d, rn, rm)
}

// loadScalarIndexed is lane 0 of d = the element at rn + rm.
func (a *asm) loadScalarIndexed(d, rn, rm int) {
	a.p("FMOV%s (R%d)(R%d), F%d", map[int]string{4: "S", 8: "D"}[a.size], rn, rm, d)
}

// mov copies a vector.
func (a *asm) mov(d, n int) { a.p("VMOV V%d.B16, V%d.B16", n, d) }

// int3 is d = n op m for integer lanes, bits3 for whole vectors (VBIT: d takes the bits of n that m selects). The Go
// assembler knows these; it has the destination last.
func (a *asm) int3(op string, d, n, m int) {
	t := a.arr()
	a.p("%s V%d.%s, V%d.%s, V%d.%s", op, m, t, n, t, d, t)
}

func (a *asm) bits3(op string, d, n, m int) { a.p("%s V%d.B16, V%d.B16, V%d.B16", op, m, n, d) }

// shiftBy shifts the lanes of v in place.
func (a *asm) shiftBy(op string, v, by int) {
	a.p("%s $%d, V%d.%s, V%d.%s", op, by, v, a.arr(), v, a.arr())
}
