package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
)

// exponentialOf describes base^x in one precision: x = q·ln(2)/ln(base) + r, base^x = 2^q·P(r).
type exponentialOf struct {
	base2 bool
	// plain: groups with |x| ≤ plain have normal results and need no care. Up to top they are finite times 2^{mant+2}
	// (AVX2).
	plain, top float64
	// lo and hi clamp the argument where the result is 0 or +Inf anyway.
	lo, hi float64
	// Below least the result is subnormal, above most infinite. No result comes within two ulp of either edge, so
	// rounding cannot carry one across.
	least, most float64
	poly        []float64 // coefficients of P from degree 0, P(0) = 1
}

// exponential chooses the polynomial. AVX-512 looks 2^{j/16} up in a register, so |r| ≤ ln(2)/32 and a low degree
// suffices; AVX2 has no such permutation, |r| ≤ ln(2)/2. Their errors are far below an ulp; what remains is rounding:
// the table adds ½ ulp (|r| is small), the long polynomial ⅓.
func exponential(base float64, g *gen) exponentialOf {
	e := exponentialOf{base2: base == 2, plain: 87, top: 70, lo: -105, hi: 89}
	if e.base2 {
		e.plain, e.top, e.lo, e.hi = 125, 101, -151, 129
	}
	if g.F64 {
		e.plain, e.top, e.lo, e.hi = 708, 670, -746, 710
		if e.base2 {
			e.plain, e.top, e.lo, e.hi = 1021, 968, -1076, 1025
		}
	}
	// The last arguments on the inner side of log(2^-126), log(2^128) and their like in float64.
	e.least, e.most = -87.33654022216797, float64(math.Float32frombits(0x42b17217))
	switch {
	case g.F64 && e.base2:
		e.least, e.most = -1022, math.Nextafter(1024, 0)
	case g.F64:
		e.least, e.most = -708.3964185322641, math.Float64frombits(0x40862e42fefa39ef)
	case e.base2:
		e.least, e.most = -126, float64(math.Nextafter32(128, 0))
	}
	switch {
	case g.Wide:
		e.poly = approx.ExpTable(g.F64)
	case e.base2:
		e.poly = approx.Exp2(g.F64)
	default:
		e.poly = approx.Exp(g.F64)
	}
	if g.Wide && e.base2 { // 2^r = e^{r·ln 2}
		s := 1.0
		for i := range e.poly {
			e.poly[i] *= s
			s *= math.Ln2
		}
	}
	return e
}

// exp emits func(dst *T, cols int, shift *T, rows, stride int): dst_ij = base^(dst_ij − shift_i) for rows ≥ 1 rows
// stride bytes apart. If sums is set, the sums of the rows go to a further argument sum *T: even and odd vectors of a
// group apart, and the rest behind the last group with the even ones.
//
//   - z = x·log₂(base) + magic rounds to a multiple of 1/16 (AVX-512) or 1 (AVX2) in the low bits of z; q = z − magic.
//   - r = x − q·ln 2 in two parts (base e). The first product is exact under FMA, so only the second rounds. For base 2
//     r = x − q is exact.
//   - AVX-512: T + T·(r + …) with T = 2^{frac q}, scaled by ⌊q⌋; AVX2: Horner, then q is added to the exponent.
//   - Groups with an |x| above `plain` take the careful path: arguments are clamped (NaN stays), and where the result
//     is below the normal range, its distance from zero in units of the smallest subnormal is rounded to an integer,
//     which is the bit pattern. One rounding, and no arithmetic on subnormal numbers. On AVX2 groups without an x above
//     `top`, nor NaN, have a shorter one, lowExp.
//
// A multiplication or FMA that meets a subnormal number takes a microcode assist of some 150 cycles (additions do not).
// x itself may be one; x − (shift − 2^-100) is not (2^-400 in float64): the change is lost in rounding or far too small
// to move the result. Setting flush-to-zero instead would cost 10 ns a call.
func (g *gen) exp(op string, e exponentialOf, sums bool) {
	steps := 1.0 // per unit of q
	if g.Wide {
		steps = 16
	}
	mant, bias, tiny := g.mant(), g.bias(), -100
	if g.F64 {
		tiny = -400
	}
	ks := []konst{
		num("magic", 1.5*pow2(mant)/steps),
		num("tiny", pow2(tiny)),
		num("plain", e.plain), num("lo", e.lo), num("hi", e.hi),
		num("log2e", 1/math.Ln2),
	}
	if g.Wide {
		ks = append(ks, num("least", float64(2-bias)), num("units", float64(mant+bias-1))) // of ⌊q⌋
	} else {
		ks = append(ks, num("least", e.least), num("most", e.most), num("inf", math.Inf(1)),
			raw("abs", uint64(1)<<(8*g.Size()-1)-1),
			num("normal", pow2(mant+3-bias)), // the smallest normal result times 2^{mant+2}
			raw("scale", uint64(mant+2)<<mant), num("top", e.top))
	}
	l := approx.Split(approx.Ln2, 2, g.F64)
	ks = append(ks, num("ln2hi", l[0]), num("ln2lo", l[1]))
	for i, c := range e.poly {
		ks = append(ks, num(cname(i), c))
	}
	if g.Wide {
		var t []float64
		for j := range 16 {
			t = append(t, math.Exp2(float64(j)/16))
		}
		ks = append(ks, tab("pow", t[:g.Lanes()]))
		if g.F64 {
			ks = append(ks, tab("pow2", t[8:]))
		}
	}
	g.constants(op, ks...)

	gp := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	args := "dst *%[1]s, cols int, shift *%[1]s, rows, stride int"
	if sums {
		args = "dst *%[1]s, cols int, shift, sum *%[1]s, rows, stride int"
	}
	g.Begin(op, args)
	first, cols, shiftAt, left, stride := gp("dst"), gp("cols"), gp("shift"), gp("rows"), gp("stride")
	dst, n := g.GP64(), g.GP64()
	var sumAt reg.GPVirtual
	if sums {
		sumAt = gp("sum")
	}
	// The last row comes first. Processors compare whole vectors where masks store and load, and the last vector of a
	// row may reach into the next row, which would wait for it.
	for _, at := range []reg.GPVirtual{shiftAt, sumAt} {
		if at != nil {
			g.LEAQ(Mem{Base: at, Index: left, Scale: uint8(g.Size()), Disp: -g.Size()}, at)
		}
	}
	g.MOVQ(left, n)
	g.DECQ(n)
	g.IMULQ(stride, n)
	g.ADDQ(n, first)
	lbl := g.Name(op)
	const unroll = 4
	shift := g.V(15)
	if g.Wide {
		shift = g.V(31)
	}
	g.next = 30
	if g.Wide {
		g.hoist("magic", "plain")
		if !e.base2 {
			g.hoist("log2e", "ln2hi", "ln2lo")
		}
		for i := 1; i < len(e.poly); i++ {
			g.hoist(cname(i))
		}
		g.hoistTable("pow")
		if g.F64 {
			g.hoistTable("pow2")
		}
	}
	at := func(u int) Mem { return Mem{Base: dst, Disp: u * g.Bytes()} }
	acc := func(u int) reg.VecPhysical { return g.V(12 + u%2) }
	if g.Wide {
		acc = func(u int) reg.VecPhysical { return g.V(16 + u%2) }
		if g.next < 17 {
			panic("no registers for sums")
		}
	}
	g.Label(lbl + "Row")
	g.MOVQ(first, dst)
	g.MOVQ(cols, n)
	if sums {
		g.Xor(acc(0), acc(0), acc(0))
		g.Xor(acc(1), acc(1), acc(1))
	}
	if g.F64 {
		g.VBROADCASTSD(Mem{Base: shiftAt}, shift)
	} else {
		g.VBROADCASTSS(Mem{Base: shiftAt}, shift)
	}
	g.broadcast("tiny", g.V(0))
	g.Sub(g.V(0), shift, shift)
	add := func(v reg.VecPhysical, u int) {
		if sums {
			g.Add(v, acc(u), acc(u))
		}
	}
	// Registers of vector u: the argument, then the remainder; z, then T; the polynomial; q or masks.
	x := func(u int) reg.VecPhysical { return g.V(u) }
	z := func(u int) reg.VecPhysical { return g.V(4 + u) }
	p := func(u int) reg.VecPhysical { return g.V(8 + u) }
	q := func(u int) reg.VecPhysical { return g.V(12 + u) }

	group := unroll * g.Lanes()
	g.SUBQ(U32(group), n)
	g.JLT(LabelRef(lbl + "Rest"))
	g.Label(lbl + "Group")
	for u := range unroll {
		g.VMOVUPS(at(u), x(u))
		g.Sub(shift, x(u), x(u))
	}
	// exceeds tells ifAny of arguments of n vectors beyond a limit, on AVX2 also of NaN: adding to its exponent would
	// change it. VRANGE and the plain path of AVX-512 keep what they should.
	exceeds := func(n int, limit string) {
		if g.Wide {
			rng := g.Pick(g.VRANGEPS, g.VRANGEPD)
			rng(U8(absMax), x(n/2), x(0), p(0))
			if n == 4 {
				rng(U8(absMax), x(3), x(1), p(1))
				rng(U8(absMax), p(1), p(0), p(0))
			}
			g.cmp(gtOQ, g.k(limit), p(0), reg.K1)
			return
		}
		for u := range n {
			if limit == "plain" {
				g.and(g.k("abs"), x(u), p(u))
				g.cmp(nleUQ, g.k(limit), p(u), p(u))
			} else {
				g.cmp(nleUQ, g.k(limit), x(u), p(u))
			}
		}
		for ; n > 1; n /= 2 {
			for u := range n / 2 {
				g.or(p(u+n/2), p(u), p(u))
			}
		}
	}
	exceeds(unroll, "plain")
	g.ifAny(p(0), lbl+"Careful")
	g.expCore(e, unroll, normalExp, x, z, p, q)
	if !g.Wide {
		g.Label(lbl + "Store")
	}
	for u := range unroll {
		g.VMOVUPS(p(u), at(u))
		add(p(u), u)
	}
	g.Label(lbl + "Next")
	g.ADDQ(U32(unroll*g.Bytes()), dst)
	g.SUBQ(U32(group), n)
	g.JGE(LabelRef(lbl + "Group"))
	g.Label(lbl + "Rest")
	g.ADDQ(U32(group), n)
	g.JLE(LabelRef(lbl + "Done"))
	g.Label(lbl + "Tail")
	mask := g.V(14)
	g.TailMask(n, mask)
	g.LoadTail(at(0), mask, x(0))
	few := q
	switch {
	case g.Wide && g.F64:
		g.VSUBPD_Z(shift, x(0), reg.K7, x(0))
	case g.Wide:
		g.VSUBPS_Z(shift, x(0), reg.K7, x(0))
	default:
		few = func(i int) reg.VecPhysical { return g.V([]int{6, 7, 10, 11}[i]) } // the others hold sums
		g.Sub(shift, x(0), x(0))
		g.and(mask, x(0), x(0))
	}
	exceeds(1, "plain")
	g.ifAny(p(0), lbl+"TailCareful")
	g.expCore(e, 1, normalExp, x, z, p, few)
	g.Label(lbl + "TailStore")
	g.StoreTail(p(0), mask, at(0))
	switch {
	case sums && g.Wide:
		g.Pick(g.VADDPS, g.VADDPD)(p(0), acc(0), reg.K7, acc(0))
	case sums:
		g.and(mask, p(0), p(0))
		add(p(0), 0)
	}
	g.ADDQ(U32(g.Bytes()), dst)
	g.SUBQ(U32(g.Lanes()), n)
	g.JGT(LabelRef(lbl + "Tail"))
	g.Label(lbl + "Done")
	if sums {
		g.Add(acc(1), acc(0), g.V(1))
		g.reduce(g.V(1), g.V(0))
		if g.F64 {
			g.VMOVSD(g.V(1).AsX(), Mem{Base: sumAt})
		} else {
			g.VMOVSS(g.V(1).AsX(), Mem{Base: sumAt})
		}
		g.SUBQ(U8(g.Size()), sumAt)
	}
	g.SUBQ(stride, first)
	g.SUBQ(U8(g.Size()), shiftAt)
	g.DECQ(left)
	g.JNZ(LabelRef(lbl + "Row"))
	g.VZEROUPPER()
	g.RET()
	g.Label(lbl + "Careful")
	if g.Wide {
		g.expCore(e, unroll, carefulExp, x, z, p, q)
		for u := range unroll {
			g.VMOVUPS(p(u), at(u))
			add(p(u), u)
		}
	} else {
		exceeds(unroll, "top")
		g.ifAny(p(0), lbl+"Large")
		g.expCore(e, unroll, lowExp, x, z, p, q)
		g.JMP(LabelRef(lbl + "Store"))
		g.Label(lbl + "Large")
		for u := 0; u < unroll; u += 2 { // two by two: sixteen registers
			arg := func(i int) reg.VecPhysical { return x(u + i) }
			g.expCore(e, 2, carefulExp, arg, z, p, few)
			for i := range 2 {
				g.VMOVUPS(p(i), at(u+i))
				add(p(i), i)
			}
		}
	}
	g.JMP(LabelRef(lbl + "Next"))
	g.Label(lbl + "TailCareful")
	g.expCore(e, 1, carefulExp, x, z, p, few)
	g.JMP(LabelRef(lbl + "TailStore"))
}

// reduce leaves the sum of the elements of s in its first one: halves are added until one is left.
func (g *gen) reduce(s, tmp reg.VecPhysical) {
	if g.Wide {
		g.VEXTRACTF64X4(U8(1), s, tmp.AsY())
		g.Add(tmp.AsY(), s.AsY(), s.AsY())
	}
	x, t := s.AsX(), tmp.AsX()
	g.VEXTRACTF128(U8(1), s.AsY(), t)
	g.Add(t, x, x)
	g.VPERMILPD(U8(1), x, t)
	g.Add(t, x, x)
	if !g.F64 {
		g.VPERMILPS(U8(1), x, t)
		g.VADDSS(t, x, x)
	}
}

func cname(i int) string { return "c" + string(rune('a'+i)) }

// Ways of expCore, by the arguments they take.
const (
	normalExp  = iota // |x| ≤ plain
	lowExp            // x ≤ top; AVX2
	carefulExp        // any
)

// expCore leaves base^x in p. All ways give every result the bits of the plain one where that is right.
func (g *gen) expCore(e exponentialOf, unroll, way int, x, z, p, q func(int) reg.VecPhysical) {
	careful := way == carefulExp
	each := func(f func(u int)) {
		for u := range unroll {
			f(u)
		}
	}
	small := func(u int) reg.VecPhysical { return q(2 * u) } // masks of AVX2
	large := func(u int) reg.VecPhysical { return q(2*u + 1) }
	if careful {
		g.broadcast("lo", z(0))
		g.broadcast("hi", p(0))
		each(func(u int) {
			g.atLeast(z(0), x(u))
			g.atMost(p(0), x(u))
		})
		if !g.Wide {
			each(func(u int) {
				g.cmp(ltOQ, g.k("least"), x(u), small(u))
				g.cmp(nleUQ, g.k("most"), x(u), large(u)) // or NaN
			})
		}
	}
	if way == lowExp {
		each(func(u int) { g.Pick(g.VMAXPS, g.VMAXPD)(g.k("lo"), x(u), x(u)) })
	}
	if e.base2 {
		each(func(u int) { g.Add(g.k("magic"), x(u), z(u)) })
	} else {
		each(func(u int) {
			g.set("log2e", z(u))
			g.fma213(g.k("magic"), x(u), z(u))
		})
	}
	if g.Wide {
		g.expTable(e, careful, each, x, z, p, q)
		return
	}
	each(func(u int) { g.Sub(g.k("magic"), z(u), p(u)) }) // q, until the polynomial starts
	if e.base2 {
		each(func(u int) { g.Sub(p(u), x(u), x(u)) })
	} else {
		each(func(u int) { g.fnma231(g.k("ln2hi"), p(u), x(u)) })
		each(func(u int) { g.fnma231(g.k("ln2lo"), p(u), x(u)) })
	}
	d := len(e.poly) - 1
	each(func(u int) { g.set(cname(d), p(u)) })
	for i := d - 1; i >= 0; i-- {
		each(func(u int) { g.fma213(g.k(cname(i)), x(u), p(u)) })
	}
	mant := g.mant()
	each(func(u int) { g.shl(mant, z(u), z(u)) })
	each(func(u int) { g.addInt(z(u), p(u), p(u)) })
	// The exponent of subnormal results wrapped around: times 2^{mant+2} it is right, and adding as much of the
	// smallest normal number leaves their integer in the low bits.
	switch way {
	case normalExp:
		return
	case lowExp:
		// Of p and this integer, both read as numbers, the greater is right. Call y the scaled result and h the scaled
		// smallest normal one. Where y ≥ h, y + h ≤ 2y, and 2y would give p itself. Below, p is less: between h/2 and h
		// its bits grow twice as fast as the integer and meet it at h, further down they are those of a negative number
		// or NaN, with which the maximum is its second source.
		each(func(u int) { g.addInt(g.k("scale"), p(u), x(u)) })
		each(func(u int) { g.Add(g.k("normal"), x(u), x(u)) })
		each(func(u int) { g.subInt(g.k("normal"), x(u), x(u)) })
		each(func(u int) { g.Pick(g.VMAXPS, g.VMAXPD)(x(u), p(u), p(u)) })
		return
	}
	each(func(u int) {
		g.Add(g.k("inf"), x(u), z(u)) // or NaN
		g.addInt(g.k("scale"), p(u), x(u))
		g.Add(g.k("normal"), x(u), x(u))
		g.subInt(g.k("normal"), x(u), x(u))
		g.blend(small(u), x(u), p(u), p(u))
		g.blend(large(u), z(u), p(u), p(u))
	})
}

func (g *gen) expTable(e exponentialOf, careful bool, each func(func(int)), x, z, p, q func(int) reg.VecPhysical) {
	each(func(u int) { g.Sub(g.k("magic"), z(u), q(u)) })
	if e.base2 {
		each(func(u int) { g.Sub(q(u), x(u), x(u)) })
	} else {
		each(func(u int) { g.fnma231(g.k("ln2hi"), q(u), x(u)) })
		each(func(u int) { g.fnma231(g.k("ln2lo"), q(u), x(u)) })
	}
	each(func(u int) {
		if g.F64 {
			g.VPERMI2PD(g.hoisted["pow2"], g.hoisted["pow"], z(u))
		} else {
			g.VPERMPS(g.hoisted["pow"], z(u), z(u))
		}
	})
	d := len(e.poly) - 1
	each(func(u int) { g.set(cname(d), p(u)) })
	for i := d - 1; i >= 1; i-- {
		each(func(u int) { g.fma213(g.k(cname(i)), x(u), p(u)) })
	}
	each(func(u int) { g.Mul(x(u), p(u), p(u)) })
	each(func(u int) { g.fma213(z(u), z(u), p(u)) })
	scale := g.Pick(g.VSCALEFPS, g.VSCALEFPD)
	if !careful {
		each(func(u int) { scale(q(u), p(u), p(u)) })
		return
	}
	// Where the result may be subnormal, scale to units of the smallest and convert: the integer is the bit pattern.
	g.broadcast("least", x(0))
	ks := []reg.OpmaskPhysical{reg.K1, reg.K2, reg.K3, reg.K4}
	each(func(u int) { g.cmp(ltOQ, x(0), q(u), ks[u]) })
	g.broadcast("units", x(0))
	each(func(u int) { g.Pick(g.VADDPS, g.VADDPD)(x(0), q(u), ks[u], q(u)) })
	each(func(u int) { scale(q(u), p(u), p(u)) })
	each(func(u int) { g.Pick(g.VCVTPS2DQ, g.VCVTPD2QQ)(p(u), ks[u], p(u)) })
}
