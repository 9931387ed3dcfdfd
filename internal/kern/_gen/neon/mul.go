package main

import "fmt"

// vecs is the number of vectors in a panel: 8 outputs of float32, 4 of float64, 32 bytes per input either way.
const vecs = 2

func emitMul(a *asm) {
	for _, rows := range []int{8, 4, 2, 1} {
		emitMulT(a, rows)
	}
	emitMulT1x4(a)
	emitTMul(a)
}

const mulTSig = "(dst *%[1]s, ldd int, x *%[1]s, ldx int, w *%[1]s, wK, d, panelStride, panels int, start *%[1]s, startRow, startPanel int)"

// emitMulT writes a tile of rows × one panel, for consecutive panels.
//
// Every output is one chain of fused multiply-adds over the inputs in order, from its start value: its bits depend on
// neither the tile nor its place in it. 8 rows give 16 chains, enough for four pipes of latency 4.
//
// The inputs of w are wK apart: a packed panel, or a matrix as it lies. The loop of 8 rows has 83 instructions, 64 of
// them FMLA, for 4 inputs of float32 (512 flop), and 47 with 32 FMLA for 2 inputs of float64 (128 flop).
//
// Registers: V0–V15 sums, V16–V23 one vector of inputs per row, V24–V31 weights.
func emitMulT(a *asm, rows int) {
	name := fmt.Sprintf("mulT%d%s", rows, a.suffix())
	a.fn(name, fmt.Sprintf(mulTSig, fmt.Sprintf("float%d", 8*a.size)), 96)
	a.ptr("dst", "R11")
	a.num("ldd", "R12")
	a.ptr("x", "R0")
	a.num("ldx", "R22")
	a.ptr("w", "R8")
	a.num("wK", "R24")
	a.num("d", "R20")
	a.num("panelStride", "R21")
	a.ptr("panels", "R9")
	a.ptr("start", "R13")
	a.num("startRow", "R14")
	a.num("startPanel", "R15")
	rowPointers(a, rows)
	a.label("panel")
	a.p("MOVD R13, R22")
	for r := range rows {
		a.p("FLDPQ (R22), (F%d, F%d)", vecs*r, vecs*r+1)
		if r < rows-1 {
			a.p("ADD R14, R22, R22")
		}
	}
	tileProduct(a, rows)
	a.label("store")
	storeTile(a, rows)
	a.p("ADD $32, R11")
	a.p("ADD R15, R13")
	a.p("ADD R21, R8")
	a.p("SUB $1, R9")
	a.p("CBNZ R9, panel")
	a.p("RET")
}

// rowPointers leaves the rows of x in R0…, which are R22 bytes apart, and in R19 the bytes of inputs in whole vectors.
func rowPointers(a *asm, rows int) {
	for r := 1; r < rows; r++ {
		a.p("ADD R22, R%d, R%d", r-1, r)
	}
	a.p("AND $~15, R20, R19 // bytes of inputs in whole vectors")
}

// tileProduct adds the products of a panel to V0…, and goes on at the label store.
func tileProduct(a *asm, rows int) {
	lanes := a.lanes()
	a.p("MOVD R8, R23")
	a.p("MOVD $0, R10")
	a.p("CBZ R19, rest")

	a.p("PCALIGN $16")
	a.label("inputs")
	for r := range rows {
		a.loadIndexed(16+r, r, 10)
	}
	weights := func(k int) {
		a.p("FLDPQ (R23), (F%d, F%d)", 24+vecs*k, 25+vecs*k)
		a.p("ADD R24, R23")
	}
	weights(0)
	for k := range lanes {
		if k+1 < lanes {
			weights(k + 1) // one step ahead of its use
		}
		for r := range rows {
			for v := range vecs {
				a.elem3("FMLA", vecs*r+v, 24+vecs*k+v, 16+r, k)
			}
		}
	}
	a.p("ADD $16, R10")
	a.p("CMP R19, R10")
	a.p("BLT inputs")

	a.label("rest")
	a.p("CMP R20, R10")
	a.p("BGE store")
	for r := range rows {
		a.loadScalarIndexed(16+r, r, 10)
	}
	weights(0)
	for r := range rows {
		for v := range vecs {
			a.elem3("FMLA", vecs*r+v, 24+v, 16+r, 0)
		}
	}
	a.p("ADD $%d, R10", a.size)
	a.p("B rest")
}

// storeTile writes V0… to rows from R11 on, R12 bytes apart.
func storeTile(a *asm, rows int) {
	a.p("MOVD R11, R22")
	for r := range rows {
		a.p("FSTPQ (F%d, F%d), (R22)", vecs*r, vecs*r+1)
		if r < rows-1 {
			a.p("ADD R12, R22, R22")
		}
	}
}

// emitMulT1x4 writes one row × four panels: a single panel would wait for the latency of two chains.
// panels is a multiple of four; ldd and startRow are not used.
func emitMulT1x4(a *asm) {
	const group = 4
	a.fn("mulT1x4"+a.suffix(), fmt.Sprintf(mulTSig, fmt.Sprintf("float%d", 8*a.size)), 96)
	lanes := a.lanes()
	weights := func(g int) {
		a.p("FLDPQ (R%d), (F%d, F%d)", 1+g, 24+vecs*g, 25+vecs*g)
		a.p("ADD R24, R%d", 1+g)
	}
	a.ptr("dst", "R11")
	a.args += 8
	a.ptr("x", "R0")
	a.args += 8
	a.ptr("w", "R8")
	a.num("wK", "R24")
	a.num("d", "R20")
	a.num("panelStride", "R21")
	a.ptr("panels", "R9")
	a.ptr("start", "R13")
	a.args += 8
	a.num("startPanel", "R15")
	a.p("AND $~15, R20, R19 // bytes of inputs in whole vectors")

	a.label("panel")
	for g := range group {
		a.p("FLDPQ (R13), (F%d, F%d)", vecs*g, vecs*g+1)
		a.p("ADD R15, R13")
	}
	a.p("MOVD R8, R1")
	for g := 1; g < group; g++ {
		a.p("ADD R21, R%d, R%d", g, g+1)
	}
	a.p("ADD R21, R4, R8")
	a.p("MOVD $0, R10")
	a.p("CBZ R19, rest")

	a.p("PCALIGN $16")
	a.label("inputs")
	a.loadIndexed(16, 0, 10)
	for k := range lanes {
		for g := range group {
			weights(g)
		}
		for g := range group {
			for v := range vecs {
				a.elem3("FMLA", vecs*g+v, 24+vecs*g+v, 16, k)
			}
		}
	}
	a.p("ADD $16, R10")
	a.p("CMP R19, R10")
	a.p("BLT inputs")

	a.label("rest")
	a.p("CMP R20, R10")
	a.p("BGE store")
	a.loadScalarIndexed(16, 0, 10)
	for g := range group {
		weights(g)
		for v := range vecs {
			a.elem3("FMLA", vecs*g+v, 24+vecs*g+v, 16, 0)
		}
	}
	a.p("ADD $%d, R10", a.size)
	a.p("B rest")

	a.label("store")
	for g := range group {
		a.p("FSTPQ.P (F%d, F%d), 32(R11)", vecs*g, vecs*g+1)
	}
	a.p("SUBS $%d, R9, R9", group)
	a.p("BNE panel")
	a.p("RET")
}

// emitTMul writes a tile of 8 outputs of a × 32 bytes of b, for consecutive blocks of b's columns: 16 chains over the
// rows in order, from what dst holds. a is a strip packed as [n][8]. A row takes 21 instructions (float64: 22), 16 of
// them FMLA.
//
// Registers: V0–V15 sums, V16–V19 row of a, V24–V25 row of b.
func emitTMul(a *asm) {
	const rows = 8
	t := fmt.Sprintf("float%d", 8*a.size)
	a.fn("tMul"+a.suffix(), fmt.Sprintf("(dst *%[1]s, ldd int, a, b *%[1]s, ldb, n, blocks int)", t), 56)
	a.ptr("dst", "R0")
	a.num("ldd", "R1")
	a.ptr("a", "R2")
	a.ptr("b", "R3")
	a.num("ldb", "R4")
	a.ptr("n", "R5")
	a.ptr("blocks", "R6")

	a.label("block")
	a.p("MOVD R0, R7")
	for r := range rows {
		a.p("FLDPQ (R7), (F%d, F%d)", vecs*r, vecs*r+1)
		if r < rows-1 {
			a.p("ADD R1, R7")
		}
	}
	a.p("MOVD R2, R8")
	a.p("MOVD R3, R9")
	a.p("MOVD R5, R10")

	a.p("PCALIGN $16")
	a.label("row")
	a.p("FLDPQ (R9), (F24, F25)")
	a.p("FLDPQ.P 32(R8), (F16, F17)")
	if !a.f32() {
		a.p("FLDPQ.P 32(R8), (F18, F19)")
	}
	a.p("ADD R4, R9")
	a.p("SUB $1, R10")
	for r := range rows {
		for v := range vecs {
			a.elem3("FMLA", vecs*r+v, 24+v, 16+r/a.lanes(), r%a.lanes())
		}
	}
	a.p("CBNZ R10, row")

	a.p("MOVD R0, R7")
	for r := range rows {
		a.p("FSTPQ (F%d, F%d), (R7)", vecs*r, vecs*r+1)
		if r < rows-1 {
			a.p("ADD R1, R7")
		}
	}
	a.p("ADD $32, R0")
	a.p("ADD $32, R3")
	a.p("SUB $1, R6")
	a.p("CBNZ R6, block")
	a.p("RET")
}
