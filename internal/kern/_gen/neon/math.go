package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

func emitMath(a *asm) {
	emitExp(a)
	emitExp2(a)
	emitLog(a)
	emitSinCos(a)
	emitMax(a)
	emitMulScale(a)
	emitNorm2(a)
}

// falling is a list of coefficients from the highest degree down, as polynomial takes them.
func falling(c []float64) []float64 {
	c = slices.Clone(c)
	slices.Reverse(c)
	return c
}

// bits is v in the element type.
func (a *asm) bits(v float64) uint64 {
	if a.f32() {
		return uint64(math.Float32bits(float32(v)))
	}
	return math.Float64bits(v)
}

// table is a list of constants that one loop keeps in registers.
type table struct {
	name  string
	words []uint64
}

func (t *table) add(a *asm, vs ...float64) {
	for _, v := range vs {
		t.words = append(t.words, a.bits(v))
	}
}

func (t *table) emit(a *asm) {
	a.WriteString("\n")
	for i, w := range t.words {
		fmt.Fprintf(a, "DATA %s<>+%d(SB)/%d, $0x%0*x\n", t.name, i*a.size, a.size, 2*a.size, w)
	}
	fmt.Fprintf(a, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", t.name, len(t.words)*a.size)
}

// load broadcasts the constants to registers from on.
func (t *table) load(a *asm, tmp string, from int) {
	a.p("MOVD $%s<>(SB), %s", t.name, tmp)
	for i := range t.words {
		a.p("VLD1R.P %d(%s), [V%d.%s]", a.size, tmp, from+i, a.arr())
	}
}

// each emits one instruction for every vector of a group: neighbours are independent.
func each(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// polynomial emits p_i = ((c₀·v_i + c₁)·v_i + …) by Horner's rule. tmp_i is scratch. It returns the register base that
// holds the result.
func polynomial(a *asm, n, p, tmp, v int, c []konst) int {
	each(n, func(i int) { a.set(p+i, c[1]) })
	each(n, func(i int) { a.by("FMLA", p+i, v+i, c[0]) })
	for _, c := range c[2:] {
		each(n, func(i int) { a.set(tmp+i, c) })
		each(n, func(i int) { a.op3("FMLA", tmp+i, v+i, p+i) })
		p, tmp = tmp, p
	}
	return p
}

// wholes are the constants in registers first…last.
func wholes(first, last int) []konst {
	var c []konst
	for _, r := range span(first, last+1) {
		c = append(c, whole(r))
	}
	return c
}

// emitExp writes exp(x − shift) in place.
//
// t = x − shift is clamped to where the result is not yet 0 or +Inf; n = round(t/ln 2), r = t − n·ln 2 in two parts
// (the first fused step is exact); e^r = 1 + (r + r²q(r)) with q of approx.ExpRest; then two multiplications by powers
// of two, so that results of the whole range come out and subnormal ones are rounded once. FMIN and FMAX keep NaN, and
// FCVTNS makes its n zero. Measured: math_arm64.go.
func emitExp(a *asm) {
	name := "exp" + a.suffix()
	ln2 := approx.Split(approx.Ln2, 2, !a.f32())
	t := &table{name: "expTab" + a.suffix()}
	lowest, highest, exponent := -746.0, 710.0, uint64(1023)
	if a.f32() {
		lowest, highest, exponent = -104, 89, 127
	}
	t.add(a, lowest, highest, math.Log2E, ln2[0], ln2[1])
	t.add(a, falling(approx.ExpRest(!a.f32()))...)
	t.add(a, 1)
	t.words = append(t.words, exponent)
	t.emit(a)
	a.fn(name, fmt.Sprintf("(x *float%[1]d, vectors int, shift float%[1]d)", 8*a.size), 16+a.size)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	t.load(a, "R2", 31-len(t.words))
	a.p("FMOV%s shift+16(FP), F31", a.arr()[:1])
	a.p("VDUP V31.%s[0], V31.%s", a.arr()[:1], a.arr())
	group := 4
	if !a.f32() {
		group = 3 // more constants, fewer registers
	}
	base := 31 - len(t.words)
	c := exponential{lo: base, hi: base + 1, log2e: whole(base + 2), ln2hi: whole(base + 3), ln2lo: whole(base + 4),
		rest: wholes(base+5, 28), one: whole(29), bias: 30}
	body := func(n int) {
		x, p, q, k := 0, group, 2*group, 3*group
		if 4*group > base {
			panic("registers")
		}
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, x+i) })
		each(n, func(i int) { a.op3("FSUB", x+i, x+i, 31) })
		c.core(a, n, x, p, q, k)
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", x+i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
	}
	groups(a, "R1", group, body)
	a.p("RET")
}

// exponential has the constants of exp: registers lo, hi and bias, the others anywhere.
type exponential struct {
	lo, hi, bias             int
	log2e, ln2hi, ln2lo, one konst
	rest                     []konst // the coefficients of q, falling
}

// core emits x = e^x for n vectors; p, q and k are scratch.
func (c *exponential) core(a *asm, n, x, p, q, k int) {
	each(n, func(i int) { a.op3("FMAX", x+i, x+i, c.lo) })
	each(n, func(i int) { a.op3("FMIN", x+i, x+i, c.hi) })
	each(n, func(i int) { a.by("FMUL", k+i, x+i, c.log2e) })
	each(n, func(i int) { a.op2("FRINTN", k+i, k+i) })
	each(n, func(i int) { a.by("FMLS", x+i, k+i, c.ln2hi) })
	each(n, func(i int) { a.by("FMLS", x+i, k+i, c.ln2lo) })
	each(n, func(i int) { a.op2("FCVTNS", k+i, k+i) })
	r := polynomial(a, n, p, q, x, c.rest)
	s := p + q - r
	each(n, func(i int) { a.op3("FMUL", s+i, x+i, x+i) })
	each(n, func(i int) { a.op3("FMLA", x+i, s+i, r+i) })
	if c.one.lane < 0 {
		each(n, func(i int) { a.op3("FADD", x+i, x+i, c.one.reg) })
	} else {
		a.set(s, c.one)
		each(n, func(i int) { a.op3("FADD", x+i, x+i, s) })
	}
	timesPowerOfTwo(a, n, x, k, s, c.bias)
}

// mantissa is the number of stored bits of a fraction.
func (a *asm) mantissa() int { return map[int]int{4: 23, 8: 52}[a.size] }

// timesPowerOfTwo emits x·2^k for integers k as (x·2^(k>>1))·2^(k−(k>>1)): both powers are normal numbers and only the
// last product rounds. k and tmp are consumed; bias is the register with the exponent of 1.
func timesPowerOfTwo(a *asm, n, x, k, tmp, bias int) {
	each(n, func(i int) { a.sshr(tmp+i, k+i, 1) })
	each(n, func(i int) { a.int3("VSUB", k+i, k+i, tmp+i) })
	each(n, func(i int) { a.int3("VADD", tmp+i, tmp+i, bias) })
	each(n, func(i int) { a.int3("VADD", k+i, k+i, bias) })
	each(n, func(i int) { a.shiftBy("VSHL", tmp+i, a.mantissa()) })
	each(n, func(i int) { a.shiftBy("VSHL", k+i, a.mantissa()) })
	each(n, func(i int) { a.op3("FMUL", x+i, x+i, tmp+i) })
	each(n, func(i int) { a.op3("FMUL", x+i, x+i, k+i) })
}

// emitExp2 writes 2^x in place: n = round(x), r = x − n exactly, 2^r by approx.Exp2Short; the rest as in emitExp.
func emitExp2(a *asm) {
	t := &table{name: "exp2Tab" + a.suffix()}
	lowest, highest := -1076.0, 1025.0
	if a.f32() {
		lowest, highest = -151, 129
	}
	t.add(a, lowest, highest)
	t.add(a, falling(approx.Exp2Short(!a.f32()))...)
	t.words = append(t.words, map[int]uint64{4: 127, 8: 1023}[a.size])
	t.emit(a)
	a.fn("exp2"+a.suffix(), fmt.Sprintf("(x *float%d, vectors int)", 8*a.size), 16)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	base := 32 - len(t.words)
	t.load(a, "R2", base)
	lo, hi, first, one, bias := base, base+1, base+2, 30, 31
	const group = 4
	groups(a, "R1", group, func(n int) {
		x, p, q, k := 0, group, 2*group, 3*group
		if 4*group > base {
			panic("registers")
		}
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, x+i) })
		each(n, func(i int) { a.op3("FMAX", x+i, x+i, lo) })
		each(n, func(i int) { a.op3("FMIN", x+i, x+i, hi) })
		each(n, func(i int) { a.op2("FRINTN", k+i, x+i) })
		each(n, func(i int) { a.op3("FSUB", x+i, x+i, k+i) })
		each(n, func(i int) { a.op2("FCVTNS", k+i, k+i) })
		r := polynomial(a, n, p, q, x, wholes(first, one))
		timesPowerOfTwo(a, n, r, k, p+q-r, bias)
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", r+i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.p("RET")
}

// emitLog writes log x in place, by the method of FreeBSD's e_log.c and e_logf.c: x = 2^k·(1+f) with 1+f in [√½, √2),
// s = f/(2+f), log(1+f) = f − (f²/2 − s(f²/2 + R(s²))), and k·ln 2 in two parts of which the first product is exact.
// Their coefficients (errors of R 2^-34.2 and 2^-58.4); below 1 ulp there, and measured here: math_arm64.go. Subnormal
// x are scaled up first. Lanes that are not positive and finite are replaced at the end.
func emitLog(a *asm) {
	t := &table{name: "logTab" + a.suffix()}
	up := map[int]int{4: 25, 8: 54}[a.size]
	smallest := map[int]float64{4: 0x1p-126, 8: 0x1p-1022}[a.size]
	t.add(a, smallest, math.Ldexp(1, up), float64(-up), math.Sqrt2/2, math.Inf(1), math.Inf(-1), 1, 0.5)
	// ln 2 in two parts of which the first has few enough bits for exact products with k.
	if a.f32() {
		t.add(a, 6.9313812256e-01, 9.0580006145e-06)
	} else {
		t.add(a, 6.93147180369123816490e-01, 1.90821492927058770002e-10)
	}
	poly := falling(approx.LogFDLIBM(!a.f32()))
	terms := len(poly)
	t.add(a, poly...)
	t.emit(a)
	a.fn("log"+a.suffix(), fmt.Sprintf("(x *float%d, vectors int)", 8*a.size), 16)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	base := 32 - len(t.words)
	t.load(a, "R2", base)
	small, scale, down, root, inf, minusInf, one, half, ln2hi, ln2lo, first := base, base+1, base+2, base+3, base+4,
		base+5, base+6, base+7, base+8, base+9, base+10
	const group = 2
	groups(a, "R1", group, func(n int) {
		x, f, k, s, p, q, h := 0, group, 2*group, 3*group, 4*group, 5*group, 6*group
		if 7*group > base {
			panic("registers")
		}
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, x+i) })
		// f = x, scaled up where subnormal; h = what that adds to k.
		each(n, func(i int) { a.op3("FCMGT", h+i, small, x+i) })
		each(n, func(i int) { a.op3("FMUL", s+i, x+i, scale) })
		each(n, func(i int) { a.mov(f+i, x+i) })
		each(n, func(i int) { a.bits3("VBIT", f+i, s+i, h+i) })
		each(n, func(i int) { a.bits3("VAND", h+i, h+i, down) })
		// k and the fraction from the bits: subtracting those of √½ makes the exponent field floor(log₂(x/√½)).
		each(n, func(i int) { a.int3("VSUB", k+i, f+i, root) })
		each(n, func(i int) { a.sshr(k+i, k+i, a.mantissa()) })
		each(n, func(i int) { a.mov(s+i, k+i) })
		each(n, func(i int) { a.shiftBy("VSHL", s+i, a.mantissa()) })
		each(n, func(i int) { a.int3("VSUB", f+i, f+i, s+i) })
		each(n, func(i int) { a.op2("SCVTF", k+i, k+i) })
		each(n, func(i int) { a.op3("FADD", k+i, k+i, h+i) })
		each(n, func(i int) { a.op3("FADD", s+i, f+i, one) })
		each(n, func(i int) { a.op3("FSUB", f+i, f+i, one) })
		each(n, func(i int) { a.op3("FDIV", s+i, f+i, s+i) })
		each(n, func(i int) { a.op3("FMUL", h+i, s+i, s+i) })
		r := polynomial(a, n, p, q, h, wholes(first, first+terms-1))
		free := p + q - r
		each(n, func(i int) { a.op3("FMUL", r+i, r+i, h+i) }) // R
		each(n, func(i int) { a.op3("FMUL", free+i, f+i, half) })
		each(n, func(i int) { a.op3("FMUL", free+i, free+i, f+i) }) // f²/2
		each(n, func(i int) { a.op3("FADD", r+i, r+i, free+i) })
		each(n, func(i int) { a.op3("FMUL", r+i, r+i, s+i) })
		each(n, func(i int) { a.op3("FMLA", r+i, k+i, ln2lo) })
		each(n, func(i int) { a.op3("FSUB", r+i, free+i, r+i) })
		each(n, func(i int) { a.op3("FSUB", f+i, f+i, r+i) })
		each(n, func(i int) { a.op3("FMLA", f+i, k+i, ln2hi) })
		// +Inf and NaN stay, below 0 all bits are set (a NaN), 0 gives −Inf.
		each(n, func(i int) { a.zeroCompare("FCMGT", s+i, x+i) })
		each(n, func(i int) { a.op3("FCMGT", h+i, inf, x+i) })
		each(n, func(i int) { a.bits3("VAND", s+i, s+i, h+i) })
		each(n, func(i int) { a.zeroCompare("FCMLT", h+i, x+i) })
		each(n, func(i int) { a.zeroCompare("FCMEQ", k+i, x+i) })
		each(n, func(i int) { a.bits3("VORR", x+i, x+i, h+i) })
		each(n, func(i int) { a.bits3("VBIT", x+i, minusInf, k+i) })
		each(n, func(i int) { a.bits3("VBIT", x+i, f+i, s+i) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", x+i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.p("RET")
}

// groups emits a loop over group vectors at a time and one over the rest, one at a time; count is consumed.
func groups(a *asm, count string, group int, body func(n int)) {
	a.p("SUBS $%d, %s, %s", group, count, count)
	a.p("BLT few")
	a.p("PCALIGN $16")
	a.label("many")
	body(group)
	a.p("SUBS $%d, %s, %s", group, count, count)
	a.p("BGE many")
	a.label("few")
	a.p("ADDS $%d, %s, %s", group, count, count)
	a.p("BEQ done")
	a.label("one")
	body(1)
	a.p("SUB $1, %s", count)
	a.p("CBNZ %s, one", count)
	a.label("done")
}

// emitSinCos writes sines and cosines of |t| ≤ 1e5 and returns how many vectors it did: it stops before one that holds
// another value (or NaN).
//
// n = round(|t|·2/π), r = |t| − n·π/2 in three parts. The first fused step is exact: n·c₁ and |t| are multiples of the
// last bit of c₁ (or |t| < 1 and n ≤ 1) and their difference is below 1. The next two round relative to the result, so
// r keeps its relative accuracy next to multiples of π/2. sin r = r + r³S(r²), cos r = 1 + r²(−½ + r²C(r²)), |r| ≤ π/4,
// S and C by Remez (relative errors 3.8e-9 and 1.2e-10 in float32, 3.7e-18 and 5.6e-20 in float64). The low two bits
// of n choose and negate. Working on |t| keeps sin odd to the bit and sin −0 = −0. Measured: math_arm64.go.
func emitSinCos(a *asm) {
	name := "sinCos" + a.suffix()
	c := approx.Split(approx.HalfPi, 3, !a.f32())
	t := &table{name: "sinCosTab" + a.suffix()}
	t.add(a, 1e5, 2/math.Pi, c[0], c[1], c[2])
	sine, cosine := approx.SinCosNEON(!a.f32())
	terms := len(sine)
	t.add(a, falling(sine)...)
	t.add(a, falling(cosine)...)
	t.add(a, -0.5, 1)
	t.words = append(t.words, 1) // the integer
	t.emit(a)
	a.fn(name, fmt.Sprintf("(sin, cos, t *float%d, vectors int) int", 8*a.size), 40)
	a.ptr("sin", "R0")
	a.ptr("cos", "R1")
	a.ptr("t", "R2")
	a.ptr("vectors", "R3")
	a.p("MOVD R3, R6")
	base := 32 - len(t.words)
	t.load(a, "R4", base)
	limit, s0, k0 := base, base+5, base+5+terms
	o := oscillation{inv: whole(base + 1), c: [3]konst{whole(base + 2), whole(base + 3), whole(base + 4)},
		sine: wholes(s0, s0+terms-1), cosine: wholes(k0, k0+terms+1), unit: 31}
	group := base / 6
	body := func(n int, out string) {
		t, x, k, z, p, q := 0, n, 2*n, 3*n, 4*n, 5*n
		if 6*n > base {
			panic("registers")
		}
		each(n, func(i int) { a.p("FMOVQ %d(R2), F%d", 16*i, t+i) })
		each(n, func(i int) { a.op2("FABS", x+i, t+i) })
		each(n, func(i int) { a.op3("FCMGE", z+i, limit, x+i) })
		for i := 1; i < n; i++ {
			a.bits3("VAND", z, z, z+i)
		}
		a.word(0x6EB1A800|uint32(z<<5|z), "UMINV S%d, V%d.4S", z, z) // 0 if a lane is out of range
		a.p("VMOV V%d.S[0], R5", z)
		a.p("CBZW R5, %s", out)
		sin, cos := o.core(a, n, t, x, k, z, p, q)
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", sin+i, 16*i) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R1)", cos+i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
		a.p("ADD $%d, R1", 16*n)
		a.p("ADD $%d, R2", 16*n)
	}
	a.p("SUBS $%d, R3, R3", group)
	a.p("BLT few")
	a.p("PCALIGN $16")
	a.label("many")
	body(group, "few")
	a.p("SUBS $%d, R3, R3", group)
	a.p("BGE many")
	a.label("few")
	a.p("ADDS $%d, R3, R3", group)
	a.p("CBZ R3, done")
	a.label("one")
	body(1, "done")
	a.p("SUB $1, R3")
	a.p("CBNZ R3, one")
	a.label("done")
	a.p("SUB R3, R6, R6")
	a.p("MOVD R6, ret+32(FP)")
	a.p("RET")
}

// oscillation has the constants of sine and cosine: register unit holds the integer 1, the others are anywhere.
type oscillation struct {
	inv          konst // 2/π
	c            [3]konst
	sine, cosine []konst // coefficients, falling
	unit         int
}

// core emits sine and cosine of t for n vectors, given x = |t| ≤ 1e5; the other registers are scratch. It returns those
// of the results.
func (o *oscillation) core(a *asm, n, t, x, k, z, p, q int) (sin, cos int) {
	each(n, func(i int) { a.by("FMUL", k+i, x+i, o.inv) })
	each(n, func(i int) { a.op2("FRINTN", k+i, k+i) })
	for _, c := range o.c {
		each(n, func(i int) { a.by("FMLS", x+i, k+i, c) })
	}
	each(n, func(i int) { a.op2("FCVTNS", k+i, k+i) })
	each(n, func(i int) { a.op3("FMUL", z+i, x+i, x+i) })
	r := polynomial(a, n, p, q, z, o.sine)
	free := p + q - r
	each(n, func(i int) { a.op3("FMUL", free+i, x+i, z+i) })
	each(n, func(i int) { a.op3("FMLA", x+i, free+i, r+i) }) // sin r
	r = polynomial(a, n, p, q, z, o.cosine)                  // cos r
	free = p + q - r
	sin, cos = x, r
	// z = all ones where n is odd: there sine and cosine change places.
	each(n, func(i int) { a.int3("VCMTST", z+i, k+i, o.unit) })
	each(n, func(i int) { a.mov(free+i, sin+i) })
	each(n, func(i int) { a.bits3("VBIT", sin+i, cos+i, z+i) })
	each(n, func(i int) { a.bits3("VBIT", cos+i, free+i, z+i) })
	// Signs: bit 1 of n and the sign of t for sine, bit 1 of n + 1 for cosine.
	bit := 8*a.size - 2 // where bit 1 becomes the sign
	each(n, func(i int) { a.int3("VADD", z+i, k+i, o.unit) })
	each(n, func(i int) { a.shiftBy("VSHL", k+i, bit) })
	each(n, func(i int) { a.shiftBy("VSHL", z+i, bit) })
	each(n, func(i int) { a.bits3("VEOR", k+i, k+i, t+i) })
	each(n, func(i int) { signOnly(a, k+i) })
	each(n, func(i int) { signOnly(a, z+i) })
	each(n, func(i int) { a.bits3("VEOR", sin+i, sin+i, k+i) })
	each(n, func(i int) { a.bits3("VEOR", cos+i, cos+i, z+i) })
	return sin, cos
}

// signOnly keeps the sign bits of v: right and left by all other bits.
func signOnly(a *asm, v int) {
	w := 8*a.size - 1
	a.shiftBy("VUSHR", v, w)
	a.shiftBy("VSHL", v, w)
}

// emitMax writes the maximum; FMAX returns NaN if an operand is NaN and orders −0 below +0, as Go's max does.
func emitMax(a *asm) {
	const group = 4
	a.fn("max"+a.suffix(), fmt.Sprintf("(x *float%[1]d, vectors int) float%[1]d", 8*a.size), 16+a.size)
	a.ptr("x", "R0")
	a.ptr("vectors", "R1")
	inf := strings.TrimLeft(fmt.Sprintf("%x", a.bits(math.Inf(-1))), "0")
	a.p("MOVD $0x%s, R2", inf)
	for i := range group {
		a.p("VDUP R2, V%d.%s", i, a.arr())
	}
	groups(a, "R1", group, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, 4+i) })
		each(n, func(i int) { a.op3("FMAX", i, i, 4+i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.op3("FMAX", 0, 0, 1)
	a.op3("FMAX", 2, 2, 3)
	a.op3("FMAX", 0, 0, 2)
	if a.f32() {
		a.word(0x6E30F800, "FMAXV S0, V0.4S")
		a.p("FMOVS F0, ret+16(FP)")
	} else {
		a.word(0x7E70F800, "FMAXP D0, V0.2D")
		a.p("FMOVD F0, ret+16(FP)")
	}
	a.p("RET")
}

// emitMulScale writes dst *= a and dst *= f.
func emitMulScale(a *asm) {
	const group = 4
	a.fn("mul"+a.suffix(), fmt.Sprintf("(dst, a *float%d, vectors int)", 8*a.size), 24)
	a.ptr("dst", "R0")
	a.ptr("a", "R1")
	a.ptr("vectors", "R2")
	groups(a, "R2", group, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, i) })
		each(n, func(i int) { a.p("FMOVQ %d(R1), F%d", 16*i, group+i) })
		each(n, func(i int) { a.op3("FMUL", i, i, group+i) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
		a.p("ADD $%d, R1", 16*n)
	})
	a.p("RET")
	a.fn("scale"+a.suffix(), fmt.Sprintf("(dst *float%[1]d, vectors int, f float%[1]d)", 8*a.size), 16+a.size)
	a.ptr("dst", "R0")
	a.ptr("vectors", "R1")
	a.p("FMOV%s f+16(FP), F31", a.arr()[:1])
	a.p("VDUP V31.%s[0], V31.%s", a.arr()[:1], a.arr())
	groups(a, "R1", group, func(n int) {
		each(n, func(i int) { a.p("FMOVQ %d(R0), F%d", 16*i, i) })
		each(n, func(i int) { a.op3("FMUL", i, i, 31) })
		each(n, func(i int) { a.p("FMOVQ F%d, %d(R0)", i, 16*i) })
		a.p("ADD $%d, R0", 16*n)
	})
	a.p("RET")
}

// emitNorm2 adds to the eight partial sums of squares of the reference, in float64: sum i has elements i, i+8, …
func emitNorm2(a *asm) {
	a.fn("norm2"+a.suffix(), fmt.Sprintf("(x *float%d, blocks int, sums *float64)", 8*a.size), 24)
	a.ptr("x", "R0")
	a.ptr("blocks", "R1")
	a.ptr("sums", "R2")
	a.p("FLDPQ (R2), (F0, F1)")
	a.p("FLDPQ 32(R2), (F2, F3)")
	d := &asm{size: 8}
	a.p("PCALIGN $16")
	a.label("block")
	if a.f32() {
		a.p("FLDPQ.P 32(R0), (F8, F9)")
		for i := range 2 {
			a.word(0x0E617800|uint32((8+i)<<5|4+2*i), "FCVTL V%d.2D, V%d.2S", 4+2*i, 8+i)
			a.word(0x4E617800|uint32((8+i)<<5|5+2*i), "FCVTL2 V%d.2D, V%d.4S", 5+2*i, 8+i)
		}
	} else {
		a.p("FLDPQ.P 32(R0), (F4, F5)")
		a.p("FLDPQ.P 32(R0), (F6, F7)")
	}
	for i := range 4 {
		d.op3("FMLA", i, 4+i, 4+i)
	}
	a.Write(d.Bytes())
	a.p("SUB $1, R1")
	a.p("CBNZ R1, block")
	a.p("FSTPQ (F0, F1), (R2)")
	a.p("FSTPQ (F2, F3), 32(R2)")
	a.p("RET")
}
