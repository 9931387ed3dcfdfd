package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// exponential applies exp(t − shift) to the accumulators of a tile before they are stored, here in AVX-512.
//
// Method, constants and the order of all operations are those of exp in _gen/math, so the fused product has the bits of
// MulT followed by Exp; TestMulTExp compares them. Tiles without an |argument| above `plain` are finished in registers.
// The others store their arguments and go through the careful form, one row after the other.
type exponential struct {
	table   operand.Mem
	at      map[string]int
	hoisted map[string]reg.Register
	degree  int
}

// together is the number of accumulators exponentiated together. Two and four measure alike within noise.
const together = 2

// firstConstant is the first register after the largest tile and its temporaries. Constants without a register are read
// from memory, which costs nothing: the multipliers are busy, the load ports are not.
func (t target) firstConstant() int { return 4*t.pairRows() + 3*together }

func (t target) newExponential() *exponential {
	if !t.zmm {
		return t.newExponentialAVX2()
	}
	e := &exponential{at: map[string]int{}, hoisted: map[string]reg.Register{}}
	mant, bias, tiny := 23, 127, -100
	plain, lo, hi := 87.0, -105.0, 89.0
	ln2, poly := approx.Split(approx.Ln2, 2, t.double), approx.ExpTable(t.double)
	if t.double {
		mant, bias, tiny = 52, 1023, -400
		plain, lo, hi = 708, -746, 710
	}
	e.degree = len(poly) - 1

	c := t.c
	e.table = c.StaticGlobal("mulExpConsts" + t.name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	off := 0
	put := func(v float64) {
		if t.double {
			c.AddDatum(off, operand.U64(math.Float64bits(v)))
		} else {
			c.AddDatum(off, operand.U32(math.Float32bits(float32(v))))
		}
		off += t.size()
	}
	for j := range 16 {
		put(math.Exp2(float64(j) / 16))
	}
	for _, k := range []struct {
		name string
		val  float64
	}{
		{"magic", 1.5 * math.Ldexp(1, mant) / 16}, {"tiny", math.Ldexp(1, tiny)},
		{"plain", plain}, {"lo", lo}, {"hi", hi},
		{"least", float64(2 - bias)}, {"units", float64(mant + bias - 1)},
		{"log2e", 1 / math.Ln2}, {"ln2hi", ln2[0]}, {"ln2lo", ln2[1]},
	} {
		e.at[k.name] = off
		put(k.val)
	}
	for i, v := range poly {
		e.at[power(i)] = off
		put(v)
	}
	return e
}

func power(i int) string { return fmt.Sprintf("c%d", i) }

func (e *exponential) mem(name string) operand.Mem {
	at, ok := e.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return e.table.Offset(at)
}

// hoist loads the tables and as many constants as there are registers.
func (t target) hoist() {
	if !t.zmm {
		return
	}
	e, next := t.exp, t.firstConstant()
	take := func(name string) reg.Register {
		r := t.vec(next)
		next++
		e.hoisted[name] = r
		return r
	}
	t.c.VMOVUPS(e.table, take("pow"))
	if t.double {
		t.c.VMOVUPS(e.table.Offset(64), take("pow2"))
	}
	names := []string{"magic", "ln2hi", "ln2lo", "log2e"}
	for i := 1; i <= e.degree; i++ {
		names = append(names, power(i))
	}
	for _, n := range names {
		if next < 32 {
			t.broadcast(e.mem(n), take(n))
		}
	}
}

// set copies a constant to r.
func (t target) set(name string, r reg.Register) {
	if k, ok := t.exp.hoisted[name]; ok {
		t.c.VMOVAPS(k, r)
		return
	}
	t.broadcast(t.exp.mem(name), r)
}

func pick[F any](t target, ps, pd F) F {
	if t.double {
		return pd
	}
	return ps
}

// fmaConst is d = x·d + constant.
func (t target) fmaConst(name string, x, d reg.Register) {
	if k, ok := t.exp.hoisted[name]; ok {
		pick(t, t.c.VFMADD213PS, t.c.VFMADD213PD)(k, x, d)
		return
	}
	pick(t, t.c.VFMADD213PS_BCST, t.c.VFMADD213PD_BCST)(t.exp.mem(name), x, d)
}

// tileShifts copies the shifts of the rows of a tile to the argument. x − (shift − tiny) is never subnormal: see exp in
// _gen/math. K2 selects the rows.
func (t target) tileShifts() {
	if !t.zmm {
		return
	}
	v := t.vec(0)
	t.c.MOVQ(field(fShiftTile), count)
	pick(t, t.c.VMOVUPS_Z, t.c.VMOVUPD_Z)(operand.Mem{Base: count}, reg.K2, v)
	pick(t, t.c.VSUBPS_BCST, t.c.VSUBPD_BCST)(t.exp.mem("tiny"), v, v)
	t.c.VMOVUPS(v, field(fShifts))
}

// rowMask sets K2 for rows rows.
func (t target) rowMask(rows int) {
	if !t.zmm {
		return
	}
	t.c.MOVL(operand.U32(uint64(1)<<rows-1), count.As32())
	t.c.KMOVW(count.As32(), reg.K2)
}

// arguments subtracts the shifts and jumps to careful if an argument needs it. row gives the row of accumulator i,
// whose registers are the first n; the temporaries follow them.
func (t target) arguments(n int, row func(i int) int, careful operand.LabelRef) {
	if !t.zmm {
		t.argumentsAVX2(n, row, careful)
		return
	}
	c := t.c
	for i := range n {
		pick(t, c.VSUBPS_BCST, c.VSUBPD_BCST)(field(fShifts+row(i)*t.size()), t.vec(i), t.vec(i))
	}
	const absMax = 0x0b // of VRANGE; a NaN gives way to a number, and passes
	larger := pick(t, c.VRANGEPS, c.VRANGEPD)
	chains := min(4, (n+1)/2)
	tmp := func(i int) reg.Register { return t.vec(n + i) }
	for i := range chains {
		larger(operand.U8(absMax), t.vec(min(chains+i, n-1)), t.vec(i), tmp(i))
	}
	for i := 2 * chains; i < n; i++ {
		larger(operand.U8(absMax), t.vec(i), tmp(i%chains), tmp(i%chains))
	}
	for i := 1; i < chains; i++ {
		larger(operand.U8(absMax), tmp(i), tmp(0), tmp(0))
	}
	const gtOQ = 0x1e
	pick(t, c.VCMPPS_BCST, c.VCMPPD_BCST)(operand.U8(gtOQ), t.exp.mem("plain"), tmp(0), reg.K3)
	c.KTESTW(reg.K3, reg.K3)
	c.JNZ(careful)
}

// exponentiate replaces the first n registers by their exponentials; temporaries follow them.
func (t target) exponentiate(n int) {
	if !t.zmm {
		t.exponentiateAVX2(n)
		return
	}
	for i := 0; i < n; i += together {
		t.expCore(min(together, n-i), false, func(u int) reg.Register { return t.vec(i + u) },
			func(j int) reg.Register { return t.vec(n + j) })
	}
}

// expCore is expTable of _gen/math with the result in place of the argument. The careful form has lo, hi, least and
// units in the registers from carefulConstants on.
func (t target) expCore(n int, careful bool, x, tmp func(int) reg.Register) {
	c, e := t.c, t.exp
	z := func(u int) reg.Register { return tmp(u) }
	q := func(u int) reg.Register { return tmp(n + u) }
	p := func(u int) reg.Register { return tmp(2*n + u) }
	each := func(f func(u int)) {
		for u := range n {
			f(u)
		}
	}
	k := func(i int) reg.Register { return t.vec(carefulConstants + i) }
	if careful {
		each(func(u int) { pick(t, c.VMAXPS, c.VMAXPD)(x(u), k(0), x(u)) }) // NaN stays
		each(func(u int) { pick(t, c.VMINPS, c.VMINPD)(x(u), k(1), x(u)) })
	}
	each(func(u int) { t.set("log2e", z(u)) })
	each(func(u int) { t.fmaConst("magic", x(u), z(u)) })
	each(func(u int) { pick(t, c.VSUBPS, c.VSUBPD)(e.hoisted["magic"], z(u), q(u)) })
	for _, part := range []string{"ln2hi", "ln2lo"} {
		each(func(u int) {
			if k, ok := e.hoisted[part]; ok {
				pick(t, c.VFNMADD231PS, c.VFNMADD231PD)(k, q(u), x(u))
			} else {
				pick(t, c.VFNMADD231PS_BCST, c.VFNMADD231PD_BCST)(e.mem(part), q(u), x(u))
			}
		})
	}
	each(func(u int) {
		if t.double {
			c.VPERMI2PD(e.hoisted["pow2"], e.hoisted["pow"], z(u))
		} else {
			c.VPERMPS(e.hoisted["pow"], z(u), z(u))
		}
	})
	each(func(u int) { t.set(power(e.degree), p(u)) })
	for i := e.degree - 1; i >= 1; i-- {
		each(func(u int) { t.fmaConst(power(i), x(u), p(u)) })
	}
	each(func(u int) { pick(t, c.VMULPS, c.VMULPD)(x(u), p(u), p(u)) })
	each(func(u int) { pick(t, c.VFMADD213PS, c.VFMADD213PD)(z(u), z(u), p(u)) })
	scale := pick(t, c.VSCALEFPS, c.VSCALEFPD)
	if !careful {
		each(func(u int) { scale(q(u), p(u), x(u)) })
		return
	}
	// Where the result may be subnormal, scale to units of the smallest and convert: the integer is the bit pattern.
	const ltOQ = 0x11
	masks := []reg.Register{reg.K6, reg.K7}
	each(func(u int) { pick(t, c.VCMPPS, c.VCMPPD)(operand.U8(ltOQ), k(2), q(u), masks[u]) })
	each(func(u int) { pick(t, c.VADDPS, c.VADDPD)(k(3), q(u), masks[u], q(u)) })
	each(func(u int) { scale(q(u), p(u), x(u)) })
	each(func(u int) { pick(t, c.VCVTPS2DQ, c.VCVTPD2QQ)(x(u), masks[u], x(u)) })
}

const carefulConstants = 8

// toCareful ends the stub of a tile that has stored its arguments: K4 and K5 select the columns of its two vectors.
func (t target) toCareful(kind int, start reg.Register, rows int, stride operand.Op) {
	if !t.zmm {
		t.toCarefulAVX2(kind, start, rows, stride)
		return
	}
	c := t.c
	c.KXNORW(reg.K4, reg.K4, reg.K4)
	c.KXNORW(reg.K5, reg.K5, reg.K5)
	switch kind {
	case twoMasked:
		c.KMOVW(reg.K1, reg.K5)
	case oneMasked:
		c.KMOVW(reg.K1, reg.K4)
		c.KXORW(reg.K5, reg.K5, reg.K5)
	}
	c.MOVQ(start, aCur)
	c.MOVQ(operand.U32(uint64(rows)), count)
	c.MOVQ(stride, bCur)
	c.JMP(operand.LabelRef("careful"))
}

// careful finishes count rows of two vectors from aCur on, bCur bytes apart, and returns to where the tile goes on.
func (t target) careful() {
	if !t.zmm {
		t.carefulAVX2()
		return
	}
	c := t.c
	load, store := pick(t, c.VMOVUPS_Z, c.VMOVUPD_Z), pick(t, c.VMOVUPS, c.VMOVUPD)
	second := operand.Mem{Base: aCur, Disp: t.bytes()}
	c.Label("careful")
	for i, name := range []string{"lo", "hi", "least", "units"} {
		t.broadcast(t.exp.mem(name), t.vec(carefulConstants+i))
	}
	c.Label("carefulrow")
	load(operand.Mem{Base: aCur}, reg.K4, t.vec(0))
	load(second, reg.K5, t.vec(1))
	t.expCore(2, true, t.vec, func(i int) reg.Register { return t.vec(2 + i) })
	store(t.vec(0), reg.K4, operand.Mem{Base: aCur})
	store(t.vec(1), reg.K5, second)
	c.ADDQ(bCur, aCur)
	c.DECQ(count)
	c.JNZ(operand.LabelRef("carefulrow"))
	c.MOVQ(field(fRows), count)
	c.MOVQ(field(fKind), aCur)
	c.CMPQ(aCur, operand.Imm(wide))
	c.JE(operand.LabelRef("widenext"))
	c.CMPQ(aCur, operand.Imm(pair))
	c.JNE(operand.LabelRef("carefulkind0"))
	// Two panels: the second comes the same way.
	c.BTCQ(operand.Imm(0), field(fHalf))
	c.JCC(operand.LabelRef("carefulhalf"))
	for r := t.pairRows(); r > 1; r-- {
		c.CMPQ(count, operand.Imm(uint64(r)))
		c.JE(operand.LabelRef(fmt.Sprintf("kind%drows%dnext", pair, r)))
	}
	c.JMP(operand.LabelRef(fmt.Sprintf("kind%drows1next", pair)))
	c.Label("carefulhalf")
	c.LEAQ(operand.Mem{Base: cPanel, Disp: 2 * t.bytes()}, aCur)
	c.JMP(operand.LabelRef("carefulrow"))
	c.Label("carefulkind0")
	t.backFromCareful()
}
