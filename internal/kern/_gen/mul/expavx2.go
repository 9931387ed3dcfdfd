package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// The exponential of AVX2 tiles. As for AVX-512, method, constants and the order of operations are those of exp in
// _gen/math, so that the fused product has the bits of MulT followed by Exp. Twelve of sixteen registers hold sums: two
// of them are exponentiated together with four temporaries, and constants are vectors in memory.

// temporaries is the first of the four.
const temporaries = 12

// newExponentialAVX2 writes the constants, each as a vector.
func (t target) newExponentialAVX2() *exponential {
	e := &exponential{at: map[string]int{}}
	mant, bias, tiny := 23, 127, -100
	plain, top, lo, hi := 87.0, 70.0, -105.0, 89.0
	least, most := -87.33654022216797, float64(math.Float32frombits(0x42b17217))
	ln2, poly := approx.Split(approx.Ln2, 2, t.double), approx.Exp(t.double)
	if t.double {
		mant, bias, tiny = 52, 1023, -400
		plain, top, lo, hi = 708, 670, -746, 710
		least, most = -708.3964185322641, math.Float64frombits(0x40862e42fefa39ef)
	}
	e.degree = len(poly) - 1
	c := t.c
	e.table = c.StaticGlobal("mulExpConsts" + t.name)
	c.DataAttributes(attr.RODATA | attr.NOPTR)
	off := 0
	put := func(name string, b uint64) {
		e.at[name] = off
		for range t.bytes() / t.size() {
			if t.double {
				c.AddDatum(off, operand.U64(b))
			} else {
				c.AddDatum(off, operand.U32(b))
			}
			off += t.size()
		}
	}
	num := func(name string, v float64) {
		if t.double {
			put(name, math.Float64bits(v))
		} else {
			put(name, uint64(math.Float32bits(float32(v))))
		}
	}
	num("magic", 1.5*math.Ldexp(1, mant))
	num("tiny", math.Ldexp(1, tiny))
	num("plain", plain)
	num("lo", lo)
	num("hi", hi)
	num("least", least)
	num("most", most)
	num("inf", math.Inf(1))
	num("top", top)
	num("normal", math.Ldexp(1, mant+3-bias))
	put("abs", uint64(1)<<(8*t.size()-1)-1)
	put("scale", uint64(mant+2)<<mant)
	put("ones", math.MaxUint64>>(64-8*t.size()))
	num("log2e", 1/math.Ln2)
	num("ln2hi", ln2[0])
	num("ln2lo", ln2[1])
	for i, v := range poly {
		num(power(i), v)
	}
	return e
}

// argumentsAVX2 is arguments. What a lane of a mask leaves out is a sum of zeros and init beyond the columns, whatever
// that is: it may take the careful way for nothing.
func (t target) argumentsAVX2(n int, row func(i int) int, careful operand.LabelRef) {
	c, e := t.c, t.exp
	sub, and, or := pick(t, c.VSUBPS, c.VSUBPD), pick(t, c.VANDPS, c.VANDPD), pick(t, c.VORPS, c.VORPD)
	shift, size, any := t.vec(temporaries), t.vec(temporaries+1), t.vec(temporaries+2)
	c.MOVQ(field(fShiftTile), count)
	const nleUQ = 0x16
	for i := range n {
		if i == 0 || row(i) != row(i-1) { // x − (shift − tiny) is never subnormal: see exp in _gen/math
			t.broadcast(operand.Mem{Base: count, Disp: row(i) * t.size()}, shift)
			sub(e.mem("tiny"), shift, shift)
		}
		sub(shift, t.vec(i), t.vec(i))
		to := size
		if i == 0 {
			to = any
		}
		and(e.mem("abs"), t.vec(i), to)
		if t.double {
			c.VCMPPD(operand.U8(nleUQ), e.mem("plain"), to, to) // NaN too
		} else {
			c.VCMPPS(operand.U8(nleUQ), e.mem("plain"), to, to)
		}
		if i > 0 {
			or(size, any, any)
		}
	}
	if t.double {
		c.VMOVMSKPD(any, count.As32())
	} else {
		c.VMOVMSKPS(any, count.As32())
	}
	c.TESTL(count.As32(), count.As32())
	c.JNZ(careful)
}

// exponentiateAVX2 is exponentiate.
func (t target) exponentiateAVX2(n int) {
	for i := 0; i < n; i += 2 {
		t.expCoreAVX2(min(2, n-i), false, func(u int) reg.Register { return t.vec(i + u) },
			func(u int) reg.Register { return t.vec(temporaries + u) },
			func(u int) reg.Register { return t.vec(temporaries + 2 + u) })
		for u := range min(2, n-i) {
			t.c.VMOVAPS(t.vec(temporaries+2+u), t.vec(i+u))
		}
	}
}

// expCoreAVX2 leaves exp(x) in p; x is lost or, unless low, becomes the remainder. low takes all arguments up to
// `top`: see lowExp in _gen/math.
func (t target) expCoreAVX2(n int, low bool, x, z, p func(int) reg.Register) {
	c, e := t.c, t.exp
	each := func(f func(u int)) {
		for u := range n {
			f(u)
		}
	}
	load := pick(t, c.VMOVUPS, c.VMOVUPD)
	fma213, fnma := pick(t, c.VFMADD213PS, c.VFMADD213PD), pick(t, c.VFNMADD231PS, c.VFNMADD231PD)
	if low {
		each(func(u int) { pick(t, c.VMAXPS, c.VMAXPD)(e.mem("lo"), x(u), x(u)) })
	}
	each(func(u int) { load(e.mem("log2e"), z(u)) })
	each(func(u int) { fma213(e.mem("magic"), x(u), z(u)) })
	each(func(u int) { pick(t, c.VSUBPS, c.VSUBPD)(e.mem("magic"), z(u), p(u)) })
	each(func(u int) { fnma(e.mem("ln2hi"), p(u), x(u)) })
	each(func(u int) { fnma(e.mem("ln2lo"), p(u), x(u)) })
	each(func(u int) { load(e.mem(power(e.degree)), p(u)) })
	for i := e.degree - 1; i >= 0; i-- {
		each(func(u int) { fma213(e.mem(power(i)), x(u), p(u)) })
	}
	each(func(u int) { t.shiftLeft(z(u)) })
	each(func(u int) { t.addInt(z(u), p(u), p(u)) })
	if low {
		each(func(u int) { t.addInt(e.mem("scale"), p(u), x(u)) })
		each(func(u int) { pick(t, c.VADDPS, c.VADDPD)(e.mem("normal"), x(u), x(u)) })
		each(func(u int) { t.subInt(e.mem("normal"), x(u), x(u)) })
		each(func(u int) { pick(t, c.VMAXPS, c.VMAXPD)(x(u), p(u), p(u)) })
	}
}

func (t target) shiftLeft(r reg.Register) {
	if t.double {
		t.c.VPSLLQ(operand.U8(52), r, r)
	} else {
		t.c.VPSLLD(operand.U8(23), r, r)
	}
}

func (t target) addInt(b operand.Op, a, d reg.Register) {
	if t.double {
		t.c.VPADDQ(b, a, d)
	} else {
		t.c.VPADDD(b, a, d)
	}
}

func (t target) subInt(b operand.Op, a, d reg.Register) {
	if t.double {
		t.c.VPSUBQ(b, a, d)
	} else {
		t.c.VPSUBD(b, a, d)
	}
}

// toCarefulAVX2 ends the stub of a tile that has stored its arguments.
func (t target) toCarefulAVX2(kind int, start reg.Register, rows int, stride operand.Op) {
	c, e := t.c, t.exp
	first, second := t.vec(14), t.vec(15)
	c.VMOVUPS(e.mem("ones"), first)
	c.VMOVUPS(e.mem("ones"), second)
	switch kind {
	case twoMasked:
		c.MOVQ(field(fMask), aCur)
		c.VMOVUPS(operand.Mem{Base: aCur}, second)
	case oneMasked:
		c.MOVQ(field(fMask), aCur)
		c.VMOVUPS(operand.Mem{Base: aCur}, first)
		c.VXORPS(second, second, second)
	}
	c.MOVQ(start, aCur)
	c.MOVQ(operand.U32(uint64(rows)), count)
	c.MOVQ(stride, bCur)
	if kind == full {
		c.JMP(operand.LabelRef("low"))
	} else {
		c.JMP(operand.LabelRef("careful"))
	}
}

// carefulAVX2 is careful, with the masks of two vectors in registers 14 and 15. Rows of whole vectors come to low,
// which leaves to careful what follows from the first row with an argument above `top`, or NaN, on.
func (t target) carefulAVX2() {
	c, e := t.c, t.exp
	// Registers of the two vectors.
	bank := func(i int) func(int) reg.Register { return func(j int) reg.Register { return t.vec(i + j) } }
	x, z, p, small, large, mask := bank(0), bank(2), bank(4), bank(6), bank(8), bank(14)
	each := func(f func(j int)) {
		for j := range 2 {
			f(j)
		}
	}
	at := func(j int) operand.Mem { return operand.Mem{Base: aCur, Disp: j * t.bytes()} }
	const ltOQ, nleUQ = 0x11, 0x16
	cmp := func(pred uint64, name string, x, d reg.Register) {
		if t.double {
			c.VCMPPD(operand.Imm(pred), e.mem(name), x, d)
		} else {
			c.VCMPPS(operand.Imm(pred), e.mem(name), x, d)
		}
	}
	blend := func(mask, b, d reg.Register) {
		if t.double {
			c.VBLENDVPD(mask, b, d, d)
		} else {
			c.VBLENDVPS(mask, b, d, d)
		}
	}
	load := pick(t, c.VMOVUPS, c.VMOVUPD)
	c.Label("low")
	each(func(j int) { load(at(j), x(j)) })
	each(func(j int) { cmp(nleUQ, "top", x(j), z(j)) })
	pick(t, c.VORPS, c.VORPD)(z(0), z(1), z(1))
	any := aRow7.As32() // six rows do not need it
	if t.double {
		c.VMOVMSKPD(z(1), any)
	} else {
		c.VMOVMSKPS(z(1), any)
	}
	c.TESTL(any, any)
	c.JNZ(operand.LabelRef("careful"))
	t.expCoreAVX2(2, true, x, z, p)
	each(func(j int) { t.store(p(j), at(j), false, nil) })
	c.ADDQ(bCur, aCur)
	c.DECQ(count)
	c.JNZ(operand.LabelRef("low"))
	c.JMP(operand.LabelRef("carefuldone"))
	c.Label("careful")
	each(func(j int) { t.load(at(j), x(j), true, mask(j)) })
	load(e.mem("lo"), z(0))
	load(e.mem("hi"), z(1))
	each(func(j int) {
		pick(t, c.VMAXPS, c.VMAXPD)(x(j), z(0), x(j)) // NaN stays
		pick(t, c.VMINPS, c.VMINPD)(x(j), z(1), x(j))
	})
	each(func(j int) {
		cmp(ltOQ, "least", x(j), small(j))
		cmp(nleUQ, "most", x(j), large(j)) // or NaN
	})
	t.expCoreAVX2(2, false, x, z, p)
	// As in _gen/math: subnormal results are scaled up until their integers are the bits.
	each(func(j int) {
		pick(t, c.VADDPS, c.VADDPD)(e.mem("inf"), x(j), z(j)) // or NaN
		t.addInt(e.mem("scale"), p(j), x(j))
		pick(t, c.VADDPS, c.VADDPD)(e.mem("normal"), x(j), x(j))
		t.subInt(e.mem("normal"), x(j), x(j))
		blend(small(j), x(j), p(j))
		blend(large(j), z(j), p(j))
	})
	each(func(j int) { t.store(p(j), at(j), true, mask(j)) })
	c.ADDQ(bCur, aCur)
	c.DECQ(count)
	c.JNZ(operand.LabelRef("careful"))
	c.Label("carefuldone")
	c.MOVQ(field(fRows), count)
	c.MOVQ(field(fKind), aCur)
	c.CMPQ(aCur, operand.Imm(wide))
	c.JE(operand.LabelRef("widenext"))
	t.backFromCareful()
}

// backFromCareful jumps to what follows the tile of kind aCur with count rows.
func (t target) backFromCareful() {
	c := t.c
	for kind := full; kind < kinds; kind++ {
		if kind != full {
			c.Label(fmt.Sprintf("carefulkind%d", kind))
		}
		if kind != kinds-1 {
			c.CMPQ(aCur, operand.Imm(uint64(kind)))
			c.JNE(operand.LabelRef(fmt.Sprintf("carefulkind%d", kind+1)))
		}
		for r := t.rows; r > 1; r-- {
			c.CMPQ(count, operand.Imm(uint64(r)))
			c.JE(operand.LabelRef(fmt.Sprintf("kind%drows%dnext", kind, r)))
		}
		c.JMP(operand.LabelRef(fmt.Sprintf("kind%drows1next", kind)))
	}
}
