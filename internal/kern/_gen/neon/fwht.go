package main

import "fmt"

func emitFWHT(a *asm) {
	emitFWHTBlock(a)
	for _, radix := range []int{2, 4, 8, 16} {
		emitFWHTPass(a, radix)
	}
}

// butterflies holds which register has which value, so that no butterfly needs a copy: the sum goes to a free
// register, the difference replaces the second operand, the first becomes free.
type butterflies struct {
	a    *asm
	at   []int
	free []int
}

func (b *butterflies) do(i, j int) {
	sum := b.free[0]
	b.a.op3("FADD", sum, b.at[i], b.at[j])
	b.a.op3("FSUB", b.at[j], b.at[i], b.at[j])
	b.free = append(b.free[1:], b.at[i])
	b.at[i] = sum
}

// level is one level of the transform over the values: partners are h apart.
func (b *butterflies) level(h int) {
	for i := range b.at {
		if i&h == 0 {
			b.do(i, i+h)
		}
	}
}

func span(from, to int) []int {
	var s []int
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

// emitFWHTBlock writes the first four levels, h = 1, 2, 4, 8, of consecutive blocks of 16 elements. Levels inside a
// vector are done between de-interleaved vectors.
func emitFWHTBlock(a *asm) {
	a.fn("fwhtBlock"+a.suffix(), fmt.Sprintf("(x *float%d, blocks int)", 8*a.size), 16)
	a.ptr("x", "R0")
	a.ptr("blocks", "R1")
	a.label("block")
	if a.f32() {
		// Vj holds elements 4i+j: levels 1 and 2 pair registers.
		a.p("VLD4 (R0), [V0.S4, V1.S4, V2.S4, V3.S4]")
		b := &butterflies{a: a, at: span(0, 4), free: span(16, 24)}
		b.level(1)
		b.level(2)
		// Back to natural order by a 4×4 transposition.
		v := b.at
		a.p("VTRN1 V%d.S4, V%d.S4, V8.S4", v[1], v[0])
		a.p("VTRN2 V%d.S4, V%d.S4, V9.S4", v[1], v[0])
		a.p("VTRN1 V%d.S4, V%d.S4, V10.S4", v[3], v[2])
		a.p("VTRN2 V%d.S4, V%d.S4, V11.S4", v[3], v[2])
		a.p("VTRN1 V10.D2, V8.D2, V4.D2")
		a.p("VTRN1 V11.D2, V9.D2, V5.D2")
		a.p("VTRN2 V10.D2, V8.D2, V6.D2")
		a.p("VTRN2 V11.D2, V9.D2, V7.D2")
		b = &butterflies{a: a, at: span(4, 8), free: span(24, 32)}
		b.level(1)
		b.level(2)
		for i := 0; i < 4; i += 2 {
			a.p("FSTPQ.P (F%d, F%d), 32(R0)", b.at[i], b.at[i+1])
		}
	} else {
		for i := 0; i < 8; i += 2 {
			if i == 0 {
				a.p("MOVD R0, R2")
			}
			a.p("VLD2.P 32(R2), [V%d.D2, V%d.D2]", i, i+1)
		}
		b := &butterflies{a: a, at: span(0, 8), free: span(16, 24)}
		b.level(1)
		next := span(24, 32)
		for i := 0; i < 8; i += 2 {
			a.p("VTRN1 V%d.D2, V%d.D2, V%d.D2", b.at[i+1], b.at[i], next[i])
			a.p("VTRN2 V%d.D2, V%d.D2, V%d.D2", b.at[i+1], b.at[i], next[i+1])
		}
		b = &butterflies{a: a, at: next, free: span(0, 8)}
		b.level(1)
		b.level(2)
		b.level(4)
		for i := 0; i < 8; i += 2 {
			a.p("FSTPQ.P (F%d, F%d), 32(R0)", b.at[i], b.at[i+1])
		}
	}
	a.p("SUB $1, R1")
	a.p("CBNZ R1, block")
	a.p("RET")
}

// emitFWHTPass writes log₂ radix levels, from h on, of consecutive blocks of radix·h elements, for count vectors from
// the start of each run of h.
func emitFWHTPass(a *asm, radix int) {
	a.fn(fmt.Sprintf("fwhtPass%d%s", radix, a.suffix()), fmt.Sprintf("(x *float%d, h, count, blocks int)", 8*a.size),
		32)
	a.ptr("x", "R0")
	a.num("h", "R1")
	a.ptr("count", "R2")
	a.ptr("blocks", "R3")
	a.label("block")
	a.p("MOVD R0, R4")
	a.p("MOVD R2, R5")
	a.label("vector")
	a.p("MOVD R4, R6")
	for i := range radix {
		a.p("FMOVQ (R6), F%d", i)
		if i < radix-1 {
			a.p("ADD R1, R6")
		}
	}
	b := &butterflies{a: a, at: span(0, radix), free: span(radix, min(32, radix+8))}
	for h := 1; h < radix; h *= 2 {
		b.level(h)
	}
	a.p("MOVD R4, R6")
	for i := range radix {
		a.p("FMOVQ F%d, (R6)", b.at[i])
		if i < radix-1 {
			a.p("ADD R1, R6")
		}
	}
	a.p("ADD $16, R4")
	a.p("SUB $1, R5")
	a.p("CBNZ R5, vector")
	a.p("ADD R1<<%d, R0", map[int]int{2: 1, 4: 2, 8: 3, 16: 4}[radix])
	a.p("SUB $1, R3")
	a.p("CBNZ R3, block")
	a.p("RET")
}
