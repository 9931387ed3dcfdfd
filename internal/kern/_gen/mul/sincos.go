package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

// oscillation is MulTSinCos: f·sin t and f·cos t of projections t, in tiles that end with them and for projections that
// are there already.
//
// It is sinCos of _gen/math with two differences. The factor f is in the coefficients, which Go multiplies once for all
// rows, so it costs neither an operation nor a rounding. And of the reduced argument r = t − n·C₁ − n·C₂ the rounding
// error is not collected, only n·C₃ is: that is 0.4 ulp of the sine, and five operations of 28. Tiny arguments need no
// branch: where r³ vanishes, r is the sine.
//
// AVX-512 keeps constants in registers and broadcasts factors from memory; AVX2 has registers for neither, both are
// vectors in memory there.
type oscillation struct {
	vec.Gen
	table   operand.Mem
	at      map[string]int
	hoisted map[string]reg.VecPhysical
	factors operand.Mem
}

// The order of the factors: f, −f/2, −f·C₃, then the coefficients of the sine and of the cosine.
const (
	factorOne = iota
	factorHalf
	factorPi3
	factorSin
)

func (o *oscillation) degree() int {
	s, _ := approx.SinCos(o.F64)
	return len(s)
}

// sinCosFiles writes mulsincos_avx512_amd64.s and mulsincos_avx2_amd64.s, and for the Go code that multiplies them
// mulsincos_factors_amd64.go.
func sinCosFiles() error {
	var text strings.Builder
	text.WriteString("package kern\n\n")
	for _, f64 := range []bool{false, true} {
		s, c := approx.SinCos(f64)
		list := append([]float64{1, -0.5, -approx.Split(approx.HalfPi, 3, f64)[2]}, append(s, c...)...)
		bits := map[bool]int{false: 32, true: 64}[f64]
		fmt.Fprintf(&text, "// coefficients%[1]d are 1, −½, −C₃, those of the sine, those of the cosine, to be rounded to float%[1]d after the factor.\n", bits)
		fmt.Fprintf(&text, "var coefficients%d = [...]float64{\n", bits)
		for _, v := range list {
			fmt.Fprintf(&text, "\t%v,\n", v)
		}
		text.WriteString("}\n")
		if !f64 {
			text.WriteString("\n")
		}
	}
	if err := emit.Text("mulsincos_factors_amd64.go", "mul", text.String()); err != nil {
		return err
	}
	for _, wide := range []bool{true, false} {
		c := build.NewContext()
		for _, f64 := range []bool{false, true} {
			o := &oscillation{Gen: vec.Gen{Context: c, Wide: wide, F64: f64}}
			o.constants()
			o.function()
			o.tiles()
		}
		name := "mulsincos_avx2_amd64.s"
		if wide {
			name = "mulsincos_avx512_amd64.s"
		}
		if err := emit.File(c, name, "mul"); err != nil {
			return err
		}
	}
	return nil
}

func (o *oscillation) constants() {
	o.table, o.at, o.hoisted = o.Table(o.Name("mulSinCosConsts")), map[string]int{}, map[string]reg.VecPhysical{}
	off := 0
	put := func(b uint64) {
		if o.F64 {
			o.AddDatum(off, operand.U64(b))
		} else {
			o.AddDatum(off, operand.U32(b))
		}
		off += o.Size()
	}
	sign := uint64(1) << (8*o.Size() - 1)
	// Signs by quadrant, as o.signs looks them up.
	tables := [][]uint64{{0, sign, sign, 0}} // of the cosine
	switch {
	case !o.Wide && o.F64:
		tables = [][]uint64{{0, sign, 0, sign}}
	case !o.Wide:
		tables = append(tables, []uint64{0, 0, sign, sign})
	}
	for _, t := range tables {
		for i := range o.Lanes() {
			put(t[i%4])
		}
	}
	mant := 23
	bits := func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }
	if o.F64 {
		mant, bits = 52, math.Float64bits
	}
	pi := approx.Split(approx.HalfPi, 2, o.F64)
	for _, k := range []struct {
		name string
		bits uint64
	}{
		{"2/pi", bits(2 / math.Pi)}, {"magic", bits(1.5 * math.Ldexp(1, mant))}, {"pi1", bits(pi[0])},
		{"pi2", bits(pi[1])},
		{"limit", bits(1e5)}, {"1", 1}, {"sign", sign}, {"abs", sign - 1},
	} {
		o.at[k.name] = off
		put(k.bits)
		for i := 1; !o.Wide && i < o.Lanes(); i++ {
			put(k.bits)
		}
	}
}

func (o *oscillation) broadcast(m operand.Mem, d reg.VecPhysical) {
	if !o.Wide {
		o.VMOVUPS(m, d)
		return
	}
	o.Pick(o.VBROADCASTSS, o.VBROADCASTSD)(m, d)
}

// factor i lies alone for AVX-512, as a vector for AVX2.
func (o *oscillation) factor(i int) operand.Mem {
	if !o.Wide {
		return o.factors.Offset(i * o.Bytes())
	}
	return o.factors.Offset(i * o.Size())
}

// mulFactor is d = factor·a, fmaFactor d = x·d + factor.
func (o *oscillation) mulFactor(i int, a, d reg.VecPhysical) {
	if !o.Wide {
		o.Mul(o.factor(i), a, d)
		return
	}
	o.Pick(o.VMULPS_BCST, o.VMULPD_BCST)(o.factor(i), a, d)
}

func (o *oscillation) fmaFactor(i int, x, d reg.VecPhysical) {
	if !o.Wide {
		o.Pick(o.VFMADD213PS, o.VFMADD213PD)(o.factor(i), x, d)
		return
	}
	o.Pick(o.VFMADD213PS_BCST, o.VFMADD213PD_BCST)(o.factor(i), x, d)
}

// k is a constant as an operand.
func (o *oscillation) k(name string) operand.Op {
	if r, ok := o.hoisted[name]; ok {
		return r
	}
	if o.Wide {
		panic(name + " is not hoisted")
	}
	return o.table.Offset(o.at[name])
}

// one is the factor itself as an operand.
func (o *oscillation) one() operand.Op {
	if r, ok := o.hoisted["one"]; ok {
		return r
	}
	return o.factor(factorOne)
}

// hoist keeps constants in the registers that no group needs: AVX-512 has some.
func (o *oscillation) hoist() {
	if !o.Wide {
		return
	}
	next := 31
	for _, name := range []string{"2/pi", "magic", "pi1", "pi2", "1", "sign", "limit"} {
		o.hoisted[name] = o.V(next)
		o.broadcast(o.table.Offset(o.at[name]), o.V(next))
		next--
	}
	o.hoisted["one"] = o.V(next)
	o.broadcast(o.factor(factorOne), o.V(next))
	if next < 6*o.together() {
		panic("mulSinCos: out of registers")
	}
}

// together is the number of vectors of one group: 6 registers each, the rest holds constants.
func (o *oscillation) together() int {
	if o.Wide {
		return 4
	}
	return 2
}

// function emits func(sin, cos, t *T, n int, factors *T) (done int). It stops before a group with a |t| > 10⁵. t may be
// sin or cos.
func (o *oscillation) function() {
	o.Begin("mulSinCos", "sin, cos, t *%[1]s, n int, factors *%[1]s) (done int")
	load := func(p string) reg.GPVirtual { return o.Load(o.Param(p), o.GP64()).(reg.GPVirtual) }
	ds, dc, src, n := load("sin"), load("cos"), load("t"), load("n")
	o.factors = operand.Mem{Base: load("factors")}
	o.hoist()
	vectors := o.together()
	lbl := o.Name("mulSinCos")
	off := o.GP64()
	o.XORQ(off, off)
	at := func(b reg.GPVirtual, u int) operand.Mem {
		return operand.Mem{Base: b, Index: off, Scale: 1, Disp: u * o.Bytes()}
	}
	lanes := vectors * o.Lanes()
	o.SUBQ(operand.U32(lanes), n)
	o.JLT(operand.LabelRef(lbl + "Rest"))
	o.Label(lbl + "Group")
	for u := range vectors {
		o.VMOVUPS(at(src, u), o.reg(u, argument))
	}
	o.check(vectors, lbl+"Stop")
	o.body(vectors)
	for u := range vectors {
		o.VMOVUPS(o.reg(u, sine), at(ds, u))
		o.VMOVUPS(o.reg(u, cosine), at(dc, u))
	}
	o.ADDQ(operand.U32(vectors*o.Bytes()), off)
	o.SUBQ(operand.U32(lanes), n)
	o.JGE(operand.LabelRef(lbl + "Group"))
	o.Label(lbl + "Rest")
	o.ADDQ(operand.U32(lanes), n)
	o.JLE(operand.LabelRef(lbl + "Done"))
	o.Label(lbl + "Tail")
	mask := o.V(14) // AVX2
	o.TailMask(n, mask)
	o.LoadTail(at(src, 0), mask, o.reg(0, argument))
	o.check(1, lbl+"Stop")
	o.body(1)
	o.StoreTail(o.reg(0, sine), mask, at(ds, 0))
	o.StoreTail(o.reg(0, cosine), mask, at(dc, 0))
	o.ADDQ(operand.U32(o.Bytes()), off)
	o.SUBQ(operand.U32(o.Lanes()), n)
	o.JGT(operand.LabelRef(lbl + "Tail"))
	o.Label(lbl + "Done")
	done := o.GP64()
	o.Load(o.Param("n"), done)
	o.Store(done, o.ReturnIndex(0))
	o.VZEROUPPER()
	o.RET()
	o.Label(lbl + "Stop")
	o.SHRQ(operand.U8(o.Shift()), off)
	o.Store(off, o.ReturnIndex(0))
	o.VZEROUPPER()
	o.RET()
}

// The registers of a vector by what they hold at the end.
const (
	argument = iota // then r
	quadrant
	excess // n, then what the sine exceeds r by
	sine   // r², r³, then the sine
	cosine
	series // of the sine
)

func (o *oscillation) reg(u, i int) reg.VecPhysical { return o.V(6*u + i) }

// check jumps to stop if an argument is too large, on AVX2 perhaps also if one is NaN. A NaN that passes gives NaNs.
func (o *oscillation) check(vectors int, stop string) {
	top := o.reg(0, quadrant)
	if o.Wide {
		const absMax, gtOQ = 0x0b, 0x1e // a NaN gives way to a number
		larger := o.Pick(o.VRANGEPS, o.VRANGEPD)
		larger(operand.U8(absMax), o.reg(vectors-1, argument), o.reg(0, argument), top)
		for u := 1; u < vectors-1; u++ {
			larger(operand.U8(absMax), o.reg(u, argument), top, top)
		}
		o.Pick(o.VCMPPS, o.VCMPPD)(operand.U8(gtOQ), o.hoisted["limit"], top, reg.K1)
		o.KTESTW(reg.K1, reg.K1)
		o.JNZ(operand.LabelRef(stop))
		return
	}
	and := pick(target{double: o.F64}, o.VANDPS, o.VANDPD)
	and(o.k("abs"), o.reg(0, argument), top)
	if vectors == 2 { // if one is NaN, the maximum is top: then no number is overlooked
		and(o.k("abs"), o.reg(1, argument), o.reg(1, quadrant))
		pick(target{double: o.F64}, o.VMAXPS, o.VMAXPD)(top, o.reg(1, quadrant), top)
	}
	const nleUQ = 0x16
	any := o.GP32()
	if o.F64 {
		o.VCMPPD(operand.U8(nleUQ), o.k("limit"), top, top)
		o.VMOVMSKPD(top, any)
	} else {
		o.VCMPPS(operand.U8(nleUQ), o.k("limit"), top, top)
		o.VMOVMSKPS(top, any)
	}
	o.TESTL(any, any)
	o.JNZ(operand.LabelRef(stop))
}

func (o *oscillation) body(vectors int) {
	type regs = func(i int) reg.VecPhysical
	each := func(f func(r regs)) {
		for u := range vectors {
			f(func(i int) reg.VecPhysical { return o.reg(u, i) })
		}
	}
	fma213, fnma231, fma231 := o.Pick(o.VFMADD213PS, o.VFMADD213PD), o.Pick(o.VFNMADD231PS, o.VFNMADD231PD),
		o.Pick(o.VFMADD231PS, o.VFMADD231PD)
	if o.Wide {
		each(func(r regs) { o.VMOVAPS(r(argument), r(quadrant)) })
		each(func(r regs) { fma213(o.k("magic"), o.k("2/pi"), r(quadrant)) })
	} else {
		each(func(r regs) { o.VMOVUPS(o.k("2/pi"), r(quadrant)) })
		each(func(r regs) { fma213(o.k("magic"), r(argument), r(quadrant)) })
	}
	each(func(r regs) { o.Sub(o.k("magic"), r(quadrant), r(excess)) })
	each(func(r regs) { fnma231(o.k("pi1"), r(excess), r(argument)) }) // exact
	each(func(r regs) { fnma231(o.k("pi2"), r(excess), r(argument)) })
	each(func(r regs) { o.mulFactor(factorPi3, r(excess), r(excess)) })
	each(func(r regs) { o.Mul(r(argument), r(argument), r(sine)) })
	d := o.degree()
	each(func(r regs) {
		o.broadcast(o.factor(factorSin+2*d-1), r(cosine))
		o.broadcast(o.factor(factorSin+d-1), r(series))
	})
	for i := d - 2; i >= 0; i-- {
		each(func(r regs) { o.fmaFactor(factorSin+d+i, r(sine), r(cosine)) })
		each(func(r regs) { o.fmaFactor(factorSin+i, r(sine), r(series)) })
	}
	each(func(r regs) { o.fmaFactor(factorHalf, r(sine), r(cosine)) })
	each(func(r regs) { fma213(o.one(), r(sine), r(cosine)) })
	each(func(r regs) { o.Mul(r(argument), r(sine), r(sine)) })
	each(func(r regs) { fma231(r(series), r(sine), r(excess)) })
	each(func(r regs) { fma231(o.one(), r(argument), r(excess)) })
	if o.Wide {
		o.signsAVX512(vectors)
	} else {
		o.signsAVX2(vectors)
	}
}

// signsAVX512 ends body. Odd quadrants exchange sine and cosine, then both get their signs.
func (o *oscillation) signsAVX512(vectors int) {
	type regs = func(i int) reg.VecPhysical
	each := func(f func(r regs, mask reg.OpmaskPhysical)) {
		for u := range vectors {
			f(func(i int) reg.VecPhysical { return o.reg(u, i) }, []reg.OpmaskPhysical{reg.K2, reg.K3, reg.K4,
				reg.K5}[u])
		}
	}
	k := o.hoisted
	test, blend, move := o.Pick(o.VPTESTMD, o.VPTESTMQ), o.Pick(o.VBLENDMPS, o.VBLENDMPD), o.Pick(o.VMOVAPS, o.VMOVAPD)
	each(func(r regs, m reg.OpmaskPhysical) { test(k["1"], r(quadrant), m) })
	each(func(r regs, m reg.OpmaskPhysical) { blend(r(cosine), r(excess), m, r(sine)) })
	each(func(r regs, m reg.OpmaskPhysical) { move(r(excess), m, r(cosine)) })
	each(func(r regs, _ reg.OpmaskPhysical) { o.Pick(o.VPERMPS, o.VPERMPD)(o.table, r(quadrant), r(series)) })
	each(func(r regs, _ reg.OpmaskPhysical) {
		o.Pick(o.VPSLLD, o.VPSLLQ)(operand.U8(8*o.Size()-2), r(quadrant), r(quadrant))
	})
	const xorAnd = 0x78 // dst ^ (a & b)
	each(func(r regs, _ reg.OpmaskPhysical) {
		o.Pick(o.VPTERNLOGD, o.VPTERNLOGQ)(operand.U8(xorAnd), k["sign"], r(quadrant), r(sine))
	})
	each(func(r regs, _ reg.OpmaskPhysical) { o.Xor(r(series), r(cosine), r(cosine)) })
}

// signsAVX2 is signsAVX512. A blend looks at the sign of its mask: bit 0 of the quadrant, shifted there. The signs of
// float32 are looked up by the low three bits of the quadrant, those of float64 by bit 1 of it, and of the next one.
func (o *oscillation) signsAVX2(vectors int) {
	type regs = func(i int) reg.VecPhysical
	each := func(f func(r regs)) {
		for u := range vectors {
			f(func(i int) reg.VecPhysical { return o.reg(u, i) })
		}
	}
	if o.F64 {
		each(func(r regs) { o.VPSLLQ(operand.U8(63), r(quadrant), r(argument)) })
		each(func(r regs) { o.VBLENDVPD(r(argument), r(cosine), r(excess), r(sine)) })
		each(func(r regs) { o.VBLENDVPD(r(argument), r(excess), r(cosine), r(cosine)) })
		each(func(r regs) { o.VMOVUPS(o.table, r(series)) })
		each(func(r regs) { o.VPERMILPD(r(quadrant), r(series), r(argument)) })
		each(func(r regs) { o.VPADDQ(o.k("1"), r(quadrant), r(quadrant)) })
		each(func(r regs) { o.VPERMILPD(r(quadrant), r(series), r(series)) })
	} else {
		each(func(r regs) { o.VPSLLD(operand.U8(31), r(quadrant), r(argument)) })
		each(func(r regs) { o.VBLENDVPS(r(argument), r(cosine), r(excess), r(sine)) })
		each(func(r regs) { o.VBLENDVPS(r(argument), r(excess), r(cosine), r(cosine)) })
		each(func(r regs) { o.VPERMPS(o.table, r(quadrant), r(series)) })
		each(func(r regs) { o.VPERMPS(o.table.Offset(o.Bytes()), r(quadrant), r(argument)) })
	}
	each(func(r regs) { o.Xor(r(argument), r(sine), r(sine)) })
	each(func(r regs) { o.Xor(r(series), r(cosine), r(cosine)) })
}

// The fields of oscillationTile in mulsincos_amd64.go.
const (
	oA = 8 * iota
	oB
	oSin
	oCos
	oInit
	oARow
	oBPanel
	oSinRow
	oCosRow
	oInitPanel
	oK
	oPanels
	oTiles
	oRows
	oMask // of the two vectors of the last panel
	oMask2
	oLarge
	// Scratch.
	oATile
	oSinTile
	oCosTile
	oLast // row of arguments
	oArguments
	oFactors = oArguments + 8*2*64
)

// tiles emits func(t *oscillationTile): tiles of up to 8 rows (AVX2: 6) of two vectors, like those of tile in main.go
// and with the same chains, all panels of one before the next. The projections of a tile then rest in the first-level
// cache, and groups of one or two rows go through body. So stores come a few at a time between the products, and the
// memory keeps up.
func (o *oscillation) tiles() {
	rows, temporaries := 8, 4
	if !o.Wide {
		rows, temporaries = 6, 2
	}
	const width = 2
	bytes := o.Bytes()
	t := target{c: o.Context, zmm: o.Wide, double: o.F64, rows: rows}
	sinPanel, cosPanel, init := reg.R12, reg.R13, reg.R14
	// AVX2: address of the mask of the first vector in a panel of which not all columns exist, else 0. Six rows do not
	// need the register.
	partial := aRow7
	o.factors = field(oFactors)
	o.Function(o.Name("mulSinCosTile"))
	o.Attributes(attr.NOSPLIT)
	o.SignatureExpr("func(t *byte)")
	o.Load(o.Param("t"), arg)
	o.MOVQ(field(oARow), aRow)
	o.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 2}, aRow3)
	o.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 4}, aRow5)
	if o.Wide {
		o.LEAQ(operand.Mem{Base: aRow3, Index: aRow, Scale: 4}, aRow7)
	}
	o.hoist()
	for _, f := range [][2]int{{oA, oATile}, {oSin, oSinTile}, {oCos, oCosTile}} {
		o.MOVQ(field(f[0]), count)
		o.MOVQ(count, field(f[1]))
	}
	o.IMUL3Q(operand.U32(width*bytes), field(oRows), count)
	o.LEAQ(operand.Mem{Base: arg, Index: count, Scale: 1, Disp: oArguments - width*bytes}, count)
	o.MOVQ(count, field(oLast))

	o.Label("tile")
	o.MOVQ(field(oB), bPanel)
	o.MOVQ(field(oSinTile), sinPanel)
	o.MOVQ(field(oCosTile), cosPanel)
	o.MOVQ(field(oInit), init)
	o.MOVQ(field(oPanels), panels)
	if o.Wide {
		o.KXNORW(reg.K6, reg.K6, reg.K6)
		o.KXNORW(reg.K7, reg.K7, reg.K7)
	} else {
		o.XORQ(partial, partial)
	}
	o.Label("panel")
	o.CMPQ(panels, operand.Imm(1))
	o.JNE(operand.LabelRef("start"))
	if o.Wide {
		o.KMOVW(field(oMask), reg.K6)
		o.KMOVW(field(oMask2), reg.K7)
	} else {
		o.MOVQ(field(oMask), partial)
	}
	o.Label("start")
	start := func(j int) operand.Mem { return operand.Mem{Base: init, Disp: bytes * j} }
	if o.Wide {
		load := pick(t, o.VMOVUPS_Z, o.VMOVUPD_Z)
		load(start(0), reg.K6, t.vec(0))
		load(start(1), reg.K7, t.vec(1))
	} else {
		o.TESTQ(partial, partial)
		o.JNZ(operand.LabelRef("startpartial"))
		o.VMOVUPS(start(0), t.vec(0))
		o.VMOVUPS(start(1), t.vec(1))
		o.Label("started")
	}
	o.MOVQ(field(oATile), aCur)
	o.MOVQ(bPanel, bCur)
	o.MOVQ(field(oRows), count)
	for r := rows - 1; r >= 1; r-- {
		o.CMPQ(count, operand.Imm(uint64(r)))
		o.JE(operand.LabelRef(fmt.Sprintf("rows%d", r)))
	}
	for r := rows; r >= 1; r-- {
		o.Label(fmt.Sprintf("rows%d", r))
		for i := width; i < width*r; i++ {
			o.VMOVAPS(t.vec(i%width), t.vec(i))
		}
		o.MOVQ(field(oK), count)
		if r == rows {
			emit.AlignLoop(o.Context)
		}
		b, tmp := func(j int) reg.Register { return t.vec(width*rows + j) },
			func(i int) reg.Register { return t.vec(width*rows + width + i%temporaries) }
		o.Label(fmt.Sprintf("rows%dk", r))
		for j := range width {
			t.load(operand.Mem{Base: bCur, Disp: bytes * j}, b(j), false, nil)
		}
		for i := range r {
			t.broadcast(t.row(i), tmp(i))
			for j := range width {
				t.fma(b(j), tmp(i), t.vec(width*i+j))
			}
		}
		o.ADDQ(operand.U32(bytes*width), bCur)
		o.ADDQ(operand.Imm(uint64(o.Size())), aCur)
		o.DECQ(count)
		o.JNZ(operand.LabelRef(fmt.Sprintf("rows%dk", r)))
		for i := range width * r {
			o.VMOVUPS(t.vec(i), field(oArguments+bytes*i))
		}
		if r > 1 {
			o.JMP(operand.LabelRef("finish"))
		}
	}

	sinRow, cosRow, from := aCur, bCur, count
	o.Label("finish")
	o.MOVQ(sinPanel, sinRow)
	o.MOVQ(cosPanel, cosRow)
	o.LEAQ(field(oArguments), from)
	// store writes the results of n rows.
	store := func(n int, put func(i, j int, sin, cos operand.Mem)) {
		for i := range n {
			for j := range width {
				put(i, j, operand.Mem{Base: sinRow, Disp: bytes * j}, operand.Mem{Base: cosRow, Disp: bytes * j})
			}
			o.ADDQ(field(oSinRow), sinRow)
			o.ADDQ(field(oCosRow), cosRow)
		}
	}
	o.Label("group")
	group := o.together() / width // rows
	if group > 1 {
		o.CMPQ(from, field(oLast))
		o.JEQ(operand.LabelRef("group1"))
		o.JHI(operand.LabelRef("next"))
	}
	for n := group; n >= 1; n-- {
		name := fmt.Sprintf("group%d", n)
		o.Label(name)
		for u := range width * n {
			o.VMOVUPS(operand.Mem{Base: from, Disp: bytes * u}, o.reg(u, argument))
		}
		o.check(width*n, name+"large")
		o.Label(name + "body")
		o.body(width * n)
		if o.Wide {
			move, masks := o.Pick(o.VMOVUPS, o.VMOVUPD), []reg.Register{reg.K6, reg.K7}
			store(n, func(i, j int, sin, cos operand.Mem) {
				move(o.reg(width*i+j, sine), masks[j], sin)
				move(o.reg(width*i+j, cosine), masks[j], cos)
			})
		} else {
			o.TESTQ(partial, partial)
			o.JNZ(operand.LabelRef("storepartial"))
			store(n, func(i, j int, sin, cos operand.Mem) {
				o.VMOVUPS(o.reg(width*i+j, sine), sin)
				o.VMOVUPS(o.reg(width*i+j, cosine), cos)
			})
			o.Label("stored")
		}
		o.ADDQ(operand.U32(bytes*width*n), from)
		switch {
		case n > 1:
			o.JMP(operand.LabelRef("group"))
		case group == 1:
			o.CMPQ(from, field(oLast))
			o.JLS(operand.LabelRef("group"))
			fallthrough
		default:
			o.JMP(operand.LabelRef("next"))
		}
	}
	for n := group; n >= 1; n-- {
		name := fmt.Sprintf("group%d", n)
		o.Label(name + "large")
		o.MOVQ(operand.U32(1), field(oLarge))
		o.JMP(operand.LabelRef(name + "body"))
	}
	if !o.Wide {
		masks := []reg.Register{t.vec(14), t.vec(15)}
		loadMasks := func() {
			o.MOVQ(field(oMask2), reg.RAX)
			o.VMOVUPS(operand.Mem{Base: partial}, masks[0])
			o.VMOVUPS(operand.Mem{Base: reg.RAX}, masks[1])
		}
		o.Label("startpartial")
		loadMasks()
		for j := range width {
			t.load(start(j), t.vec(j), true, masks[j])
		}
		o.JMP(operand.LabelRef("started"))
		o.Label("storepartial")
		loadMasks()
		store(1, func(_, j int, sin, cos operand.Mem) {
			t.store(o.reg(j, sine), sin, true, masks[j])
			t.store(o.reg(j, cosine), cos, true, masks[j])
		})
		o.JMP(operand.LabelRef("stored"))
	}

	o.Label("next")
	o.ADDQ(field(oBPanel), bPanel)
	o.ADDQ(operand.U32(bytes*width), sinPanel)
	o.ADDQ(operand.U32(bytes*width), cosPanel)
	o.ADDQ(field(oInitPanel), init)
	o.DECQ(panels)
	o.JNZ(operand.LabelRef("panel"))
	for _, f := range [][2]int{{oARow, oATile}, {oSinRow, oSinTile}, {oCosRow, oCosTile}} {
		o.MOVQ(field(oRows), count)
		o.IMULQ(field(f[0]), count)
		o.ADDQ(count, field(f[1]))
	}
	o.DECQ(field(oTiles))
	o.JNZ(operand.LabelRef("tile"))
	o.VZEROUPPER()
	o.RET()
}
