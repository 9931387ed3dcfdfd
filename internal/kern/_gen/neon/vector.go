package main

import "fmt"

func emitVector(a *asm) {
	emitColSum(a)
	emitMulV(a)
	emitMulAdd(a)
	emitSum(a)
	emitPack(a)
	emitFlush(a)
}

// emitFlush replaces subnormal elements by zeros of their sign.
func emitFlush(a *asm) {
	const group = 4
	a.fn("flush"+a.suffix(), fmt.Sprintf("(x *float%d, vectors int)", 8*a.size), 16)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	a.p("MOVD $%d, R2", uint64(1)<<a.mantissa()) // the smallest normal number
	a.p("VDUP R2, V31.%s", a.arr())
	groups(a, "R1", group, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, i) })
		each(n, func(i int) { a.op2("FABS", 4+i, i) })
		each(n, func(i int) { a.op3("FCMGT", 4+i, 31, 4+i) })
		each(n, func(i int) { a.mov(8+i, i) })
		each(n, func(i int) { signOnly(a, 8+i) })
		each(n, func(i int) { a.bits3("VBIT", i, 8+i, 4+i) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.p("RET")
}

// emitColSum writes dst += the rows of a, one after the other, for whole vectors of columns; rows ≥ 1, stride in bytes.
func emitColSum(a *asm) {
	a.fn("colSum"+a.suffix(), fmt.Sprintf("(dst, a *float%d, rows, vectors, stride int)", 8*a.size), 40)
	a.ptr("dst", "R0")
	a.ptr("a", "R1")
	a.ptr("rows", "R2")
	a.ptr("vectors", "R3")
	a.ptr("stride", "R4")
	groups(a, "R3", 8, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, i) })
		a.p("MOVD R1, R5")
		a.p("MOVD R2, R6")
		a.label(fmt.Sprintf("rows%d", n))
		each(n, func(i int) { a.p("FMOVQ %d(R5), F%d", 16*i, 8+i) })
		each(n, func(i int) { a.op3("FADD", i, i, 8+i) })
		a.p("ADD R4, R5")
		a.p("SUB $1, R6")
		a.p("CBNZ R6, rows%d", n)
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
		a.p("ADD $%d, R1", 16*n)
	})
	a.p("RET")
}

// emitMulV writes dst_i = a_i·v for whole vectors of columns; rows ≥ 1, stride in bytes. Four vectors of sums, added as
// (s0 + s1) + (s2 + s3), then neighbouring elements.
func emitMulV(a *asm) {
	a.fn("mulV"+a.suffix(), fmt.Sprintf("(dst, a *float%[1]d, rows, vectors, stride int, v *float%[1]d)", 8*a.size), 48)
	a.ptr("dst", "R0")
	a.ptr("a", "R1")
	a.ptr("rows", "R2")
	a.ptr("vectors", "R3")
	a.ptr("stride", "R4")
	a.ptr("v", "R5")
	a.label("row")
	for i := range 4 {
		a.bits3("VEOR", i, i, i)
	}
	a.p("MOVD R1, R6")
	a.p("MOVD R5, R7")
	a.p("MOVD R3, R8")
	groups(a, "R8", 4, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R6), F%d", 16*i, 4+i) })
		each(n, func(i int) { a.p("FMOVQ %d(R7), F%d", 16*i, 8+i) })
		each(n, func(i int) { a.op3("FMLA", i, 4+i, 8+i) })
		a.p("ADD $%d, R6", 16*n)
		a.p("ADD $%d, R7", 16*n)
	})
	a.sumOfFour()
	a.p("FMOV%s.P F0, %d(R0)", a.arr()[:1], a.size)
	a.p("ADD R4, R1")
	a.p("SUB $1, R2")
	a.p("CBNZ R2, row")
	a.p("RET")
}

// sumOfFour leaves the sum of the elements of V0 to V3 in F0.
func (a *asm) sumOfFour() {
	a.op3("FADD", 0, 0, 1)
	a.op3("FADD", 2, 2, 3)
	a.op3("FADD", 0, 0, 2)
	if a.f32() {
		a.word(0x6E20D400, "FADDP V0.4S, V0.4S, V0.4S")
		a.word(0x7E30D800, "FADDP S0, V0.2S")
	} else {
		a.word(0x7E70D800, "FADDP D0, V0.2D")
	}
}

// emitMulAdd writes dst += f·a with a rounded product, as the reference.
func emitMulAdd(a *asm) {
	const group = 4
	a.fn("mulAdd"+a.suffix(), fmt.Sprintf("(dst, a *float%[1]d, vectors int, f float%[1]d)", 8*a.size), 24+a.size)
	a.ptr("dst", "R0")
	a.ptr("a", "R1")
	a.ptr("vectors", "R2")
	a.p("FMOV%s f+24(FP), F31", a.arr()[:1])
	a.p("VDUP V31.%s[0], V31.%s", a.arr()[:1], a.arr())
	groups(a, "R2", group, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, i) })
		each(n, func(i int) { a.p("FMOVQ %d(R1), F%d", 16*i, group+i) })
		each(n, func(i int) { a.op3("FMUL", group+i, group+i, 31) })
		each(n, func(i int) { a.op3("FADD", i, i, group+i) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
		a.p("ADD $%d, R1", 16*n)
	})
	a.p("RET")
}

// emitSum writes the sum of whole vectors, in the order of emitMulV.
func emitSum(a *asm) {
	a.fn("sum"+a.suffix(), fmt.Sprintf("(x *float%[1]d, vectors int) float%[1]d", 8*a.size), 16+a.size)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	for i := range 4 {
		a.bits3("VEOR", i, i, i)
	}
	groups(a, "R1", 4, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, 4+i) })
		each(n, func(i int) { a.op3("FADD", i, i, 4+i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.sumOfFour()
	a.p("FMOV%s F0, ret+16(FP)", a.arr()[:1])
	a.p("RET")
}

// emitPack writes the transposition of 4 rows (2 in float64) of w into half a panel, blocks × as many columns; stride
// in bytes, blocks ≥ 1.
func emitPack(a *asm) {
	a.fn("pack"+a.suffix(), fmt.Sprintf("(dst, w *float%d, stride, blocks int)", 8*a.size), 32)
	a.ptr("dst", "R0")
	a.ptr("w", "R4")
	a.ptr("stride", "R2")
	a.ptr("blocks", "R3")
	n := a.lanes()
	for r := 1; r < n; r++ {
		a.p("ADD R2, R%d, R%d", 3+r, 4+r)
	}
	a.label("block")
	each(n, func(r int) { a.p("FMOVQ.P 16(R%d), F%d", 4+r, r) })
	out := 0
	if a.f32() {
		a.int3("VZIP1", 4, 0, 2)
		a.int3("VZIP1", 5, 1, 3)
		a.int3("VZIP2", 6, 0, 2)
		a.int3("VZIP2", 7, 1, 3)
		a.int3("VZIP1", 8, 4, 5)
		a.int3("VZIP2", 9, 4, 5)
		a.int3("VZIP1", 10, 6, 7)
		a.int3("VZIP2", 11, 6, 7)
		out = 8
	} else {
		a.int3("VZIP1", 2, 0, 1)
		a.int3("VZIP2", 3, 0, 1)
		out = 2
	}
	each(n, func(c int) { a.p("FMOVQ F%d, %d(R0)", out+c, 16*vecs*c) })
	a.p("ADD $%d, R0", 16*vecs*n)
	a.p("SUB $1, R3")
	a.p("CBNZ R3, block")
	a.p("RET")
}
