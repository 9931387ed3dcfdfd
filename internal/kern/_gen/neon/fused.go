package main

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// The tiles that end with a function: products and their bits are those of emitMulT, what follows has the instructions
// of emitExp and emitSinCos. So the results are those of the product and the function one after the other.

// fusedRows is the height of these tiles. Fewer rows go through the product and the function.
const fusedRows = 8

func emitFused(a *asm) {
	emitMulExp(a)
	emitMulSinCos(a)
}

// lanesTable collects constants in vectors, several to one.
type lanesTable struct {
	table
	a *asm
}

// fill is a vector with v in all lanes; it returns the number of the vector.
func (t *lanesTable) fill(v uint64) int {
	for range t.a.lanes() {
		t.words = append(t.words, v)
	}
	return len(t.words)/t.a.lanes() - 1
}

// list puts values into lanes of new vectors, and returns where they are with the first vector in register from.
func (t *lanesTable) list(from int, vs ...float64) []konst {
	at := len(t.words)
	t.add(t.a, vs...)
	for len(t.words)%t.a.lanes() != 0 {
		t.words = append(t.words, 0)
	}
	var c []konst
	for i := range vs {
		c = append(c, konst{from + (at+i)/t.a.lanes(), (at + i) % t.a.lanes()})
	}
	return c
}

// load reads the vectors into registers from on, with their address in tmp.
func (t *lanesTable) load(tmp string, from int) {
	t.a.p("MOVD $%s<>(SB), %s", t.name, tmp)
	n := len(t.words) / t.a.lanes()
	for i := 0; i < n; i += 2 {
		if i == n-1 {
			t.a.p("FMOVQ %d(%s), F%d", 16*i, tmp, from+i)
		} else {
			t.a.p("FLDPQ %d(%s), (F%d, F%d)", 16*i, tmp, from+i, from+i+1)
		}
	}
}

// emitMulExp writes exp(start + x·wᵀ − shift) for 8 rows and consecutive panels. The sums stay in V0–V15, two of them
// are exponentiated at a time; constants are 6 registers of 4 lanes, 10 of 2 lanes.
func emitMulExp(a *asm) {
	const consts = 22 // the first register of constants; below are k, p and q of two vectors
	t := &lanesTable{table{name: "mulExpTab" + a.suffix()}, a}
	lowest, highest, exponent := -746.0, 710.0, uint64(1023)
	if a.f32() {
		lowest, highest, exponent = -104, 89, 127
	}
	ln2 := approx.Split(approx.Ln2, 2, !a.f32())
	c := exponential{lo: consts + t.fill(a.bits(lowest)), hi: consts + t.fill(a.bits(highest)),
		bias: consts + t.fill(exponent)}
	list := t.list(consts, append([]float64{math.Log2E, ln2[0], ln2[1], 1}, falling(approx.ExpRest(!a.f32()))...)...)
	c.log2e, c.ln2hi, c.ln2lo, c.one, c.rest = list[0], list[1], list[2], list[3], list[4:]
	if consts+len(t.words)/a.lanes() > 32 {
		panic("registers")
	}
	t.emit(a)
	a.fn("mulExp"+a.suffix(), fmt.Sprintf("(dst *%[1]s, ldd int, x *%[1]s, ldx int, w *%[1]s, d, panelStride, panels int, "+
		"start *%[1]s, startPanel int, shift *%[1]s)", fmt.Sprintf("float%d", 8*a.size)), 88)
	a.ptr("dst", "R11")
	a.num("ldd", "R12")
	a.ptr("x", "R0")
	a.num("ldx", "R22")
	a.ptr("w", "R8")
	a.p("MOVD $32, R24")
	a.num("d", "R20")
	a.num("panelStride", "R21")
	a.ptr("panels", "R9")
	a.ptr("start", "R13")
	a.num("startPanel", "R15")
	a.ptr("shift", "R25")
	rowPointers(a, fusedRows)
	a.label("panel")
	startFused(a)
	tileProduct(a, fusedRows)
	a.label("store")
	t.load("R22", consts)
	a.p("MOVD R25, R23")
	for r := range fusedRows {
		x, k, p, q := vecs*r, 16, 18, 20
		a.p("VLD1R.P %d(R23), [V%d.%s]", a.size, p, a.arr())
		each(vecs, func(i int) { a.op3("FSUB", x+i, x+i, p) })
		c.core(a, vecs, x, p, q, k)
	}
	storeTile(a, fusedRows)
	a.p("ADD $32, R11")
	a.p("ADD R15, R13")
	a.p("ADD R21, R8")
	a.p("SUB $1, R9")
	a.p("CBNZ R9, panel")
	a.p("RET")
}

// startFused starts all rows with the same values.
func startFused(a *asm) {
	a.p("FLDPQ (R13), (F0, F1)")
	for i := vecs; i < vecs*fusedRows; i++ {
		a.mov(i, i%vecs)
	}
}

// emitMulSinCos writes f·sin t and f·cos t of t = start + x·wᵀ for 8 rows and consecutive panels. The projections of a
// panel rest in the place of the sines, which are still in the first-level cache. The result is 0 if a |t| > 1e5 or NaN
// was met: then the results of these are wrong.
func emitMulSinCos(a *asm) {
	const consts = 12 // below are six registers of two vectors
	t := &lanesTable{table{name: "mulSinCosTab" + a.suffix()}, a}
	limit, unit := consts+t.fill(a.bits(1e5)), consts+t.fill(1)
	pi := approx.Split(approx.HalfPi, 3, !a.f32())
	sine, cosine := approx.SinCosNEON(!a.f32())
	list := t.list(consts, append(append([]float64{2 / math.Pi, pi[0], pi[1], pi[2], -0.5, 1}, falling(sine)...),
		falling(cosine)...)...)
	coefficients := list[6:]
	o := oscillation{inv: list[0], c: [3]konst(list[1:4]), sine: coefficients[:len(sine)],
		cosine: append(append([]konst{}, coefficients[len(sine):]...), list[4:6]...), unit: unit}
	factor := consts + len(t.words)/a.lanes()
	inside := factor + 1 // all ones as long as every |t| was in range
	if inside > 31 {
		panic("registers")
	}
	t.emit(a)
	a.fn("mulSinCos"+a.suffix(), fmt.Sprintf("(sin *%[1]s, ldSin int, cos *%[1]s, ldCos int, x *%[1]s, ldx int, w *%[1]s, "+
		"d, panelStride, panels int, start *%[1]s, startPanel int, f *%[1]s) int",
		fmt.Sprintf("float%d", 8*a.size)), 112)
	a.ptr("sin", "R11")
	a.num("ldSin", "R12")
	a.ptr("cos", "R14")
	a.num("ldCos", "R25")
	a.ptr("x", "R0")
	a.num("ldx", "R22")
	a.ptr("w", "R8")
	a.p("MOVD $32, R24")
	a.num("d", "R20")
	a.num("panelStride", "R21")
	a.ptr("panels", "R9")
	a.ptr("start", "R13")
	a.num("startPanel", "R15")
	rowPointers(a, fusedRows)
	a.p("MOVD $-1, R22")
	a.p("MOVD R22, ret+104(FP)")
	a.label("panel")
	startFused(a)
	tileProduct(a, fusedRows)
	a.label("store")
	storeTile(a, fusedRows)
	t.load("R22", consts)
	a.p("MOVD f+96(FP), R22")
	a.p("VLD1R (R22), [V%d.%s]", factor, a.arr())
	a.int3("VCMEQ", inside, inside, inside)
	a.p("MOVD R11, R22")
	a.p("MOVD R14, R23")
	a.p("MOVD $%d, R10", fusedRows)
	a.label("row")
	const n = vecs
	arg, x, k, z, p, q := 0, n, 2*n, 3*n, 4*n, 5*n
	a.p("FLDPQ (R22), (F%d, F%d)", arg, arg+1)
	each(n, func(i int) { a.op2("FABS", x+i, arg+i) })
	each(n, func(i int) { a.op3("FCMGE", z+i, limit, x+i) })
	each(n, func(i int) { a.bits3("VAND", inside, inside, z+i) })
	sin, cos := o.core(a, n, arg, x, k, z, p, q)
	each(n, func(i int) { a.op3("FMUL", sin+i, sin+i, factor) })
	each(n, func(i int) { a.op3("FMUL", cos+i, cos+i, factor) })
	a.p("FSTPQ (F%d, F%d), (R22)", sin, sin+1)
	a.p("FSTPQ (F%d, F%d), (R23)", cos, cos+1)
	a.p("ADD R12, R22")
	a.p("ADD R25, R23")
	a.p("SUB $1, R10")
	a.p("CBNZ R10, row")
	a.word(0x6EB1A800|uint32(inside<<5|inside), "UMINV S%d, V%d.4S", inside, inside)
	a.p("VMOV V%d.S[0], R22", inside)
	a.p("MOVD ret+104(FP), R23")
	a.p("AND R22, R23")
	a.p("MOVD R23, ret+104(FP)")
	a.p("ADD $32, R11")
	a.p("ADD $32, R14")
	a.p("ADD R15, R13")
	a.p("ADD R21, R8")
	a.p("SUB $1, R9")
	a.p("CBNZ R9, panel")
	a.p("RET")
}
