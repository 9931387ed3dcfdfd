package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// log emits func(dst *T, n int): dst_i = log(dst_i).
//
// x = 2^k·m with m in [√½, √2), f = m − 1:
//
//   - float32: log m = f − f²/2 + f³·P(f), P of degree 8, relative error 2^-30.
//   - float64: s = f/(2+f), log m = f − (f²/2 − s·(f²/2 + R(s²))), fdlibm's form with a refitted R, relative error
//     2^-59.
//
// k·ln 2 is added in two parts. k and m come from integer arithmetic; a subnormal x is first multiplied by the power of
// two that makes its bit pattern an integer. Zeros, negative numbers, +Inf and NaN are put in at the end.
func (g *gen) log() {
	mant, bias := g.mant(), g.bias()
	sqrtHalf, one := uint64(0x3f3504f3), uint64(0x3f800000)
	inf, negInf := uint64(0x7f800000), uint64(0xff800000)
	if g.F64 {
		sqrtHalf, one = 0x3fe6a09e667f3bcd, 0x3ff0000000000000
		inf, negInf = 0x7ff0000000000000, 0xfff0000000000000
	}
	ks := []konst{
		raw("least", uint64(1)<<mant), // the smallest normal number
		num("magic", pow2(mant)),
		raw("up", one-sqrtHalf), raw("mant", uint64(1)<<mant-1), raw("sqrtHalf", sqrtHalf),
		num("biased", pow2(mant)+float64(bias)), num("units", float64(mant+bias-1)),
		num("one", 1), num("two", 2), num("half", 0.5), num("-half", -0.5), num("zero", 0),
		raw("inf", inf), raw("-inf", negInf),
		// VFIXUPIMM: NaN → itself, 0 → −Inf, −Inf and negative → NaN, +Inf → +Inf.
		raw("fixup", 0x03530422),
	}
	l := approx.Split(approx.Ln2, 2, g.F64)
	ks = append(ks, num("ln2hi", l[0]), num("ln2lo", l[1]))
	poly := approx.Log(g.F64)
	for i, c := range poly {
		ks = append(ks, num(cname(i), c))
	}
	g.constants("log", ks...)
	g.Begin("log", "dst *%s, n int")
	dst, n := g.Load(g.Param("dst"), g.GP64()).(reg.GPVirtual), g.Load(g.Param("n"), g.GP64()).(reg.GPVirtual)
	g.hoist("least", "magic", "up", "mant", "sqrtHalf", "biased", "units", "one", "ln2hi", "ln2lo", "fixup")
	if g.F64 {
		g.hoist("half", "two")
	} else {
		g.hoist("-half")
	}
	for i := range poly {
		g.hoist(cname(i))
	}
	unroll := 2
	if !g.Wide || g.F64 {
		unroll = 1 // registers
	}
	lbl := g.Name("log")
	body := func(unroll int) {
		// Registers of vector u, five apart: the argument; bits, then f; the exponent; polynomial and helpers.
		r := func(i int) func(int) reg.VecPhysical { return func(u int) reg.VecPhysical { return g.V(5*u + i) } }
		x, f, k, p, w := r(0), r(1), r(2), r(3), r(4)
		masks := []reg.OpmaskPhysical{reg.K1, reg.K2}
		each := func(fn func(u int)) {
			for u := range unroll {
				fn(u)
			}
		}
		each(func(u int) {
			// Signed, so negative numbers too count as subnormal: they end as NaN.
			if g.Wide {
				if g.F64 {
					g.VPCMPGTQ(x(u), g.hoisted["least"], masks[u])
				} else {
					g.VPCMPGTD(x(u), g.hoisted["least"], masks[u])
				}
				g.VMOVAPS(x(u), f(u))
				g.Pick(g.VORPS, g.VORPD)(g.k("magic"), x(u), masks[u], f(u))
				g.Pick(g.VSUBPS, g.VSUBPD)(g.k("magic"), f(u), masks[u], f(u))
				return
			}
			g.broadcast("least", w(u))
			if g.F64 {
				g.VPCMPGTQ(x(u), w(u), w(u))
			} else {
				g.VPCMPGTD(x(u), w(u), w(u))
			}
			g.or(g.k("magic"), x(u), f(u))
			g.Sub(g.k("magic"), f(u), f(u))
			g.blend(w(u), f(u), x(u), f(u))
		})
		each(func(u int) { g.addInt(g.k("up"), f(u), f(u)) })
		each(func(u int) {
			g.shr(mant, f(u), k(u))
			g.or(g.k("magic"), k(u), k(u))
			g.Sub(g.k("biased"), k(u), k(u))
			if g.Wide {
				g.Pick(g.VSUBPS, g.VSUBPD)(g.k("units"), k(u), masks[u], k(u))
			} else {
				g.and(g.k("units"), w(u), w(u))
				g.Sub(w(u), k(u), k(u))
			}
		})
		each(func(u int) {
			g.and(g.k("mant"), f(u), f(u))
			g.addInt(g.k("sqrtHalf"), f(u), f(u))
			g.Sub(g.k("one"), f(u), f(u))
		})
		d := len(poly) - 1
		if !g.F64 {
			each(func(u int) { g.set(cname(d), p(u)) })
			for i := d - 1; i >= 0; i-- {
				each(func(u int) { g.fma213(g.k(cname(i)), f(u), p(u)) })
			}
			each(func(u int) {
				g.fma213(g.k("-half"), f(u), p(u)) // f·P − ½
				g.Mul(f(u), f(u), w(u))
				g.Mul(w(u), p(u), p(u))
				g.fma231(g.k("ln2lo"), k(u), p(u))
				g.Add(f(u), p(u), p(u))
				g.fma231(g.k("ln2hi"), k(u), p(u))
			})
		} else {
			s := func(int) reg.VecPhysical { return g.V(10) }
			h := func(int) reg.VecPhysical { return g.V(11) } // f²/2
			if g.Wide && g.next < 11 {
				panic("log: out of registers")
			}
			each(func(u int) {
				g.Add(g.k("two"), f(u), w(u))
				g.div(w(u), f(u), s(u))
				g.Mul(g.k("half"), f(u), h(u))
				g.Mul(f(u), h(u), h(u))
				g.Mul(s(u), s(u), w(u))
			})
			each(func(u int) { g.set(cname(d), p(u)) })
			for i := d - 1; i >= 0; i-- {
				each(func(u int) { g.fma213(g.k(cname(i)), w(u), p(u)) })
			}
			each(func(u int) {
				g.fma213(h(u), w(u), p(u)) // f²/2 + R
				g.Mul(s(u), p(u), p(u))
				g.fma231(g.k("ln2lo"), k(u), p(u))
				g.Sub(p(u), h(u), p(u))
				g.Sub(p(u), f(u), p(u))
				g.fma231(g.k("ln2hi"), k(u), p(u))
			})
		}
		each(func(u int) {
			if g.Wide {
				if g.F64 {
					g.VFIXUPIMMPD(U8(0), g.hoisted["fixup"], x(u), p(u))
				} else {
					g.VFIXUPIMMPS(U8(0), g.hoisted["fixup"], x(u), p(u))
				}
				return
			}
			g.cmp(eqOQ, g.k("inf"), x(u), w(u))
			g.blend(w(u), x(u), p(u), p(u))
			g.broadcast("-inf", k(u))
			g.cmp(eqOQ, g.k("zero"), x(u), w(u))
			g.blend(w(u), k(u), p(u), p(u))
			g.cmp(ngeUQ, g.k("zero"), x(u), w(u)) // all ones are a NaN
			g.or(w(u), p(u), p(u))
		})
	}
	at := func(u int) Mem { return Mem{Base: dst, Disp: u * g.Bytes()} }
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JLT(LabelRef(lbl + "Rest"))
	g.Label(lbl + "Group")
	for u := range unroll {
		g.VMOVUPS(at(u), g.V(5*u))
	}
	body(unroll)
	for u := range unroll {
		g.VMOVUPS(g.V(5*u+3), at(u))
	}
	g.ADDQ(U32(unroll*g.Bytes()), dst)
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JGE(LabelRef(lbl + "Group"))
	g.Label(lbl + "Rest")
	g.ADDQ(U32(unroll*g.Lanes()), n)
	g.JLE(LabelRef(lbl + "Done"))
	g.Label(lbl + "Tail")
	mask := g.V(9)
	g.TailMask(n, mask)
	g.LoadTail(at(0), mask, g.V(0))
	body(1)
	g.StoreTail(g.V(3), mask, at(0))
	g.ADDQ(U32(g.Bytes()), dst)
	g.SUBQ(U32(g.Lanes()), n)
	g.JGT(LabelRef(lbl + "Tail"))
	g.Label(lbl + "Done")
	g.VZEROUPPER()
	g.RET()
}
