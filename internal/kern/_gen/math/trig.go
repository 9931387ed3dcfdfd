package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// limit of the vector range reduction. n < 2^16 multiples of π/2 keep every product of the reduction exact.
const trigLimit = 1e5

// sinCos emits func(sin, cos, t *T, n int) int, which returns how many elements were done: it stops before a group with
// a |t| > 10⁵ and leaves it to the caller.
//
// t = n·π/2 + r + ε with π/2 = C₁ + C₂ + C₃: a = t − n·C₁ is exact under FMA, p = n·C₂ rounded, r = a − p rounded, and
// ε = ((a − r) − p) − (n·C₂ − p + n·C₃) collects what was lost: when t is close to a multiple, a and p cancel and p's
// error would be all of the result. With s = r²
//
//	sin = r + (r·s·S(s) + ε),   cos = 1 + s·(−½ + s·C(s)),
//
// with the polynomials of approx.SinCos. cos ignores ε: it moves by less than 0.3 ulp. The quadrant n exchanges and
// negates. Arguments below 2^-13 (2^-27) are their own sine, and go through the rest as zeros: their squares would be
// subnormal.
func (g *gen) sinCos() {
	pi := approx.Split(approx.HalfPi, 3, g.F64)
	ks := []konst{
		num("2/pi", 0.6366197723675813430755350534900574481378385829618257949906), num("magic", 1.5*pow2(g.mant())),
		num("pi1", pi[0]), num("pi2", pi[1]), num("pi3", pi[2]),
		num("limit", trigLimit), num("one", 1), num("-half", -0.5),
		raw("sign", uint64(1)<<(8*g.Size()-1)), raw("abs", uint64(1)<<(8*g.Size()-1)-1),
		raw("1", 1), num("small", pow2(-(g.mant()+3)/2)),
	}
	sin, cos := approx.SinCos(g.F64)
	for i := range sin {
		ks = append(ks, num("s"+cname(i), sin[i]), num("c"+cname(i), cos[i]))
	}
	g.constants("sinCos", ks...)
	g.Begin("sinCos", "sin, cos, t *%s, n int) (done int")
	load := func(p string) reg.GPVirtual { return g.Load(g.Param(p), g.GP64()).(reg.GPVirtual) }
	ds, dc, src, n := load("sin"), load("cos"), load("t"), load("n")
	g.hoist("2/pi", "magic", "pi1", "pi2", "pi3", "one", "-half", "sign", "1", "small")
	d := len(sin) - 1
	for i := range sin {
		g.hoist("s" + cname(i))
		if !g.F64 || i > 3 {
			g.hoist("c" + cname(i))
		}
	}
	unroll := 2
	if !g.Wide {
		unroll = 1
	}
	const per = 6
	r := func(i int) func(int) reg.VecPhysical {
		return func(u int) reg.VecPhysical {
			if u == 0 {
				return g.V(i)
			}
			return g.V(per + i)
		}
	}
	t, z, q, e, s, c := r(0), r(1), r(2), r(3), r(4), r(5)
	lbl := g.Name("sinCos")
	masks, normal := []reg.OpmaskPhysical{reg.K2, reg.K3}, []reg.OpmaskPhysical{reg.K5, reg.K6}
	spare := g.V(per * unroll)
	if g.Wide && g.next < (per+1)*unroll-1 {
		panic("sinCos: out of registers")
	}
	// check leaves where |t| is not small, NaN included: in normal, or as a mask in s.
	check := func(unroll int) {
		if g.Wide {
			ks := []reg.OpmaskPhysical{reg.K1, reg.K4}
			g.broadcast("limit", spare)
			for u := range unroll {
				g.Pick(g.VRANGEPS, g.VRANGEPD)(U8(absMax), t(u), t(u), s(u)) // |t|
				g.cmp(gtOQ, spare, s(u), ks[u])
				g.cmp(nltUQ, g.k("small"), s(u), normal[u])
			}
			if unroll > 1 {
				g.KORW(reg.K4, reg.K1, reg.K1)
			}
		} else {
			g.and(g.k("abs"), t(0), s(0))
			g.cmp(gtOQ, g.k("limit"), s(0), c(0))
			g.cmp(nltUQ, g.k("small"), s(0), s(0))
		}
		g.ifAny(c(0), lbl+"Stop")
	}
	body := func(unroll int) {
		each := func(fn func(u int)) {
			for u := range unroll {
				fn(u)
			}
		}
		each(func(u int) {
			switch {
			case g.Wide && g.F64:
				g.VMOVAPD_Z(t(u), normal[u], e(u))
			case g.Wide:
				g.VMOVAPS_Z(t(u), normal[u], e(u))
			default:
				g.and(s(u), t(u), e(u))
			}
			g.set("2/pi", z(u))
			g.fma213(g.k("magic"), e(u), z(u))
		})
		each(func(u int) { g.Sub(g.k("magic"), z(u), q(u)) })
		each(func(u int) { g.fnma231(g.k("pi1"), q(u), e(u)) }) // a, exact
		h := func(u int) reg.VecPhysical { return g.V(per*unroll + u) }
		each(func(u int) { g.Mul(g.k("pi2"), q(u), c(u)) }) // p
		each(func(u int) {
			g.Sub(c(u), e(u), s(u)) // r
			g.VMOVAPS(c(u), h(u))
			g.Pick(g.VFMSUB231PS, g.VFMSUB231PD)(g.k("pi2"), q(u), h(u)) // what p lacks
		})
		each(func(u int) { g.fma231(g.k("pi3"), q(u), h(u)) })
		each(func(u int) { g.Sub(s(u), e(u), e(u)) })
		each(func(u int) { g.Sub(c(u), e(u), e(u)) })
		each(func(u int) { g.Sub(h(u), e(u), e(u)) })
		// Names now: q = r, s = r².
		each(func(u int) {
			g.VMOVAPS(s(u), q(u))
			g.Mul(q(u), q(u), s(u))
		})
		// The sine collects in e, the cosine in c. A helper h carries the polynomial of the sine.
		each(func(u int) { g.set("c"+cname(d), c(u)) })
		for i := d - 1; i >= 0; i-- {
			each(func(u int) {
				if _, ok := g.hoisted["c"+cname(i)]; g.Wide && !ok {
					g.Pick(g.VFMADD213PS_BCST, g.VFMADD213PD_BCST)(g.mem("c"+cname(i)), s(u), c(u))
				} else {
					g.fma213(g.k("c"+cname(i)), s(u), c(u))
				}
			})
		}
		each(func(u int) { g.fma213(g.k("-half"), s(u), c(u)) })
		each(func(u int) { g.fma213(g.k("one"), s(u), c(u)) })
		each(func(u int) { g.set("s"+cname(d), h(u)) })
		for i := d - 1; i >= 0; i-- {
			each(func(u int) { g.fma213(g.k("s"+cname(i)), s(u), h(u)) })
		}
		each(func(u int) { g.Mul(q(u), s(u), s(u)) })
		each(func(u int) { g.fma231(h(u), s(u), e(u)) })
		each(func(u int) { g.Add(q(u), e(u), e(u)) })
		bits := 8 * g.Size()
		if g.Wide {
			each(func(u int) {
				// Odd quadrants exchange. s = sine, c = cosine.
				if g.F64 {
					g.VPTESTMQ(g.hoisted["1"], z(u), masks[u])
					g.VBLENDMPD(c(u), e(u), masks[u], s(u))
					g.VMOVAPD(e(u), masks[u], c(u))
				} else {
					g.VPTESTMD(g.hoisted["1"], z(u), masks[u])
					g.VBLENDMPS(c(u), e(u), masks[u], s(u))
					g.VMOVAPS(e(u), masks[u], c(u))
				}
				g.shl(bits-2, z(u), q(u))
				g.addInt(g.k("1"), z(u), z(u))
				g.shl(bits-2, z(u), z(u))
				const xorAnd = 0x78 // dst ^ (a & b)
				if g.F64 {
					g.VPTERNLOGQ(U8(xorAnd), g.hoisted["sign"], q(u), s(u))
					g.VPTERNLOGQ(U8(xorAnd), g.hoisted["sign"], z(u), c(u))
					g.VBLENDMPD(s(u), t(u), normal[u], s(u))
				} else {
					g.VPTERNLOGD(U8(xorAnd), g.hoisted["sign"], q(u), s(u))
					g.VPTERNLOGD(U8(xorAnd), g.hoisted["sign"], z(u), c(u))
					g.VBLENDMPS(s(u), t(u), normal[u], s(u))
				}
			})
			return
		}
		m := q(0)
		g.shl(bits-1, z(0), m)
		g.blend(m, c(0), e(0), s(0))
		g.blend(m, e(0), c(0), c(0))
		g.shl(bits-2, z(0), m)
		g.and(g.k("sign"), m, m)
		g.Xor(m, s(0), s(0))
		g.addInt(g.k("1"), z(0), z(0))
		g.shl(bits-2, z(0), z(0))
		g.and(g.k("sign"), z(0), z(0))
		g.Xor(z(0), c(0), c(0))
		g.and(g.k("abs"), t(0), m)
		g.cmp(ltOQ, g.k("small"), m, m)
		g.blend(m, t(0), s(0), s(0))
	}
	off := g.GP64()
	g.XORQ(off, off)
	at := func(b reg.GPVirtual, u int) Mem { return Mem{Base: b, Index: off, Scale: 1, Disp: u * g.Bytes()} }
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JLT(LabelRef(lbl + "Rest"))
	g.Label(lbl + "Group")
	for u := range unroll {
		g.VMOVUPS(at(src, u), t(u))
	}
	check(unroll)
	body(unroll)
	for u := range unroll {
		g.VMOVUPS(s(u), at(ds, u))
		g.VMOVUPS(c(u), at(dc, u))
	}
	g.ADDQ(U32(unroll*g.Bytes()), off)
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JGE(LabelRef(lbl + "Group"))
	g.Label(lbl + "Rest")
	g.ADDQ(U32(unroll*g.Lanes()), n)
	g.JLE(LabelRef(lbl + "Done"))
	mask := g.V(14)
	g.Label(lbl + "Tail")
	g.TailMask(n, mask)
	g.LoadTail(at(src, 0), mask, t(0))
	check(1)
	body(1)
	g.StoreTail(s(0), mask, at(ds, 0))
	g.StoreTail(c(0), mask, at(dc, 0))
	g.ADDQ(U32(g.Bytes()), off)
	g.SUBQ(U32(g.Lanes()), n)
	g.JGT(LabelRef(lbl + "Tail"))
	g.Label(lbl + "Done")
	done := g.GP64()
	g.Load(g.Param("n"), done)
	g.Store(done, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
	g.Label(lbl + "Stop")
	g.SHRQ(U8(g.Shift()), off)
	g.Store(off, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

// max emits func(x *T, n int) T for n ≥ 1: the largest, NaN if one is NaN. VMAX forgets NaN, so a comparison of each
// pair of vectors with itself remembers them. AVX-512 orders −0 below +0; AVX2 returns either, which the caller mends.
// rowMax is func(dst, x *T, rows, cols, stride int): one maximum for each of rows ≥ 1 rows stride bytes apart. flushMax
// has the arguments of max and first replaces subnormal elements by zeros of their sign; it writes only groups that
// have some (AVX2: or zeros).
func (g *gen) max(op string) {
	rows, flush := op == "rowMax", op == "flushMax"
	nan, negInf := uint64(0x7fc00000), uint64(0xff800000)
	if g.F64 {
		nan, negInf = 0x7ff8000000000000, 0xfff0000000000000
	}
	least := uint64(1) << g.mant() // the smallest normal number
	signBit := uint64(1) << (8*g.Size() - 1)
	gp := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	var x, n, first, cols, dst, left, stride reg.GPVirtual
	g.constants(op, raw("nan", nan), raw("-inf", negInf), raw("least", least), raw("sign", signBit),
		raw("abs", signBit-1))
	if rows {
		g.Begin(op, "dst, x *%[1]s, rows, cols, stride int")
		dst, first, left, cols, stride = gp("dst"), gp("x"), gp("rows"), gp("cols"), gp("stride")
		x, n = g.GP64(), g.GP64()
	} else {
		g.Begin(op, "x *%[1]s, n int) (m %[1]s")
		x, n = gp("x"), gp("n")
	}
	lbl := g.Name(op)
	greater := func(b, a, d Op) {
		if g.Wide {
			g.Pick(g.VRANGEPS, g.VRANGEPD)(U8(signMax), b, a, d)
		} else {
			g.Pick(g.VMAXPS, g.VMAXPD)(b, a, d)
		}
	}
	const unroll = 4
	acc := func(u int) reg.VecPhysical { return g.V(u) }
	v := func(u int) reg.VecPhysical { return g.V(4 + u) }
	bad, m, fill := g.V(8), g.V(9), g.V(10)
	g.broadcast("-inf", fill)
	if rows {
		g.Label(lbl + "Row")
		g.MOVQ(first, x)
		g.MOVQ(cols, n)
	}
	for u := range unroll {
		g.VMOVAPS(fill, acc(u))
	}
	if g.Wide {
		g.KXORW(reg.K2, reg.K2, reg.K2)
	} else {
		g.VXORPS(bad, bad, bad)
	}
	note := func(a, b reg.VecPhysical) {
		if g.Wide {
			g.cmp(unordQ, a, b, reg.K1)
			g.KORW(reg.K1, reg.K2, reg.K2)
		} else {
			g.cmp(unordQ, a, b, m)
			g.VORPS(m, bad, bad)
		}
	}
	at := func(u int) Mem { return Mem{Base: x, Disp: u * g.Bytes()} }
	// Masks of subnormal elements.
	ks := []reg.OpmaskPhysical{reg.K3, reg.K4, reg.K5, reg.K6}
	small := func(u int) reg.VecPhysical { return g.V(12 + u) }
	find := func(u int) {
		if g.Wide {
			const subnormal = 0x20
			g.Pick(g.VFPCLASSPSZ, g.VFPCLASSPDZ)(U8(subnormal), v(u), ks[u])
		} else {
			g.and(g.mem("abs"), v(u), small(u))
			g.cmp(ltOQ, g.mem("least"), small(u), small(u)) // zeros too
		}
	}
	sign := g.V(12) // AVX-512
	clear := func(u int) {
		if g.Wide {
			g.Pick(g.VANDPS, g.VANDPD)(sign, v(u), ks[u], v(u))
		} else {
			g.and(g.mem("abs"), small(u), small(u))
			g.Pick(g.VANDNPS, g.VANDNPD)(v(u), small(u), v(u))
		}
	}
	if flush && g.Wide {
		g.broadcast("sign", sign)
	}
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JLT(LabelRef(lbl + "Rest"))
	g.Label(lbl + "Group")
	for u := range unroll {
		g.VMOVUPS(at(u), v(u))
	}
	if flush {
		for u := range unroll {
			find(u)
		}
		if g.Wide {
			g.KORW(ks[0], ks[1], reg.K1)
			g.KORW(ks[2], ks[3], reg.K0)
			g.KORW(reg.K0, reg.K1, reg.K1)
		} else {
			g.or(small(0), small(1), m)
			g.or(small(2), m, m)
			g.or(small(3), m, m)
		}
		g.ifAny(m, lbl+"Clear")
		g.Label(lbl + "Cleared")
	}
	for u := range unroll {
		greater(v(u), acc(u), acc(u))
	}
	note(v(0), v(1))
	note(v(2), v(3))
	g.ADDQ(U32(unroll*g.Bytes()), x)
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JGE(LabelRef(lbl + "Group"))
	g.Label(lbl + "Rest")
	g.ADDQ(U32(unroll*g.Lanes()), n)
	g.JLE(LabelRef(lbl + "Reduce"))
	g.Label(lbl + "Tail")
	tm := g.V(11)
	g.TailMask(n, tm)
	switch {
	case g.Wide && g.F64:
		g.VMOVAPD(fill, v(0))
		g.VMOVUPD(at(0), reg.K7, v(0))
	case g.Wide:
		g.VMOVAPS(fill, v(0))
		g.VMOVUPS(at(0), reg.K7, v(0))
	default:
		g.LoadTail(at(0), tm, v(0))
		g.blend(tm, v(0), fill, v(0))
	}
	if flush {
		find(0)
		clear(0)
		g.StoreTail(v(0), tm, at(0))
	}
	greater(v(0), acc(0), acc(0))
	note(v(0), v(0))
	g.ADDQ(U32(g.Bytes()), x)
	g.SUBQ(U32(g.Lanes()), n)
	g.JGT(LabelRef(lbl + "Tail"))
	g.Label(lbl + "Reduce")
	greater(acc(1), acc(0), acc(0))
	greater(acc(3), acc(2), acc(2))
	greater(acc(2), acc(0), acc(0))
	if g.Wide {
		g.VEXTRACTF64X4(U8(1), reg.Z0, reg.Y1)
		greater(reg.Y1, reg.Y0, reg.Y0)
	}
	g.VEXTRACTF128(U8(1), reg.Y0, reg.X1)
	greater(reg.X1, reg.X0, reg.X0)
	if g.F64 {
		g.VPERMILPD(U8(1), reg.X0, reg.X1)
		greater(reg.X1, reg.X0, reg.X0)
	} else {
		g.VPERMILPS(U8(0x4e), reg.X0, reg.X1)
		greater(reg.X1, reg.X0, reg.X0)
		g.VPERMILPS(U8(0xb1), reg.X0, reg.X1)
		greater(reg.X1, reg.X0, reg.X0)
	}
	if g.Wide {
		g.KTESTW(reg.K2, reg.K2)
	} else {
		r := g.GP32()
		g.VMOVMSKPS(bad, r)
		g.TESTL(r, r)
	}
	g.JZ(LabelRef(lbl + "Return"))
	if g.F64 {
		g.VMOVSD(g.mem("nan"), reg.X0)
	} else {
		g.VMOVSS(g.mem("nan"), reg.X0)
	}
	g.Label(lbl + "Return")
	if rows {
		if g.F64 {
			g.VMOVSD(reg.X0, Mem{Base: dst})
		} else {
			g.VMOVSS(reg.X0, Mem{Base: dst})
		}
		g.ADDQ(stride, first)
		g.ADDQ(U8(g.Size()), dst)
		g.DECQ(left)
		g.JNZ(LabelRef(lbl + "Row"))
	} else {
		g.Store(reg.X0, g.ReturnIndex(0))
	}
	g.VZEROUPPER()
	g.RET()
	if flush {
		g.Label(lbl + "Clear")
		for u := range unroll {
			clear(u)
			g.VMOVUPS(v(u), at(u))
		}
		g.JMP(LabelRef(lbl + "Cleared"))
	}
}
