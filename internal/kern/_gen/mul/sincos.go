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
// are there already. AVX-512.
//
// It is sinCos of _gen/math with two differences. The factor f is in the coefficients, which Go multiplies once for all
// rows, so it costs neither an operation nor a rounding. And of the reduced argument r = t − n·C₁ − n·C₂ the rounding
// error is not collected, only n·C₃ is: that is 0.4 ulp of the sine, and five operations of 28. Tiny arguments need no
// branch: where r³ vanishes, r is the sine.
type oscillation struct {
	vec.Gen
	table   operand.Mem
	at      map[string]int
	hoisted map[string]reg.VecPhysical
	factors reg.Register
	one     reg.VecPhysical
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

// sinCosFile writes mulsincos_avx512_amd64.s, and for the Go code that multiplies them mulsincos_factors_amd64.go.
func sinCosFile() error {
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
	c := build.NewContext()
	for _, f64 := range []bool{false, true} {
		o := &oscillation{Gen: vec.Gen{Context: c, Wide: true, F64: f64}}
		o.constants()
		o.function()
		o.tiles()
	}
	return emit.File(c, "mulsincos_avx512_amd64.s", "mul")
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
	for i := range o.Lanes() { // the sign of the cosine in the quadrants
		put([]uint64{0, sign, sign, 0}[i%4])
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
		{"limit", bits(1e5)}, {"1", 1}, {"sign", sign},
	} {
		o.at[k.name] = off
		put(k.bits)
	}
}

func (o *oscillation) broadcast(m operand.Mem, d reg.VecPhysical) {
	o.Pick(o.VBROADCASTSS, o.VBROADCASTSD)(m, d)
}

func (o *oscillation) factor(i int) operand.Mem {
	return operand.Mem{Base: o.factors, Disp: i * o.Size()}
}

// hoist keeps constants in the registers that no group needs.
func (o *oscillation) hoist() {
	next := 31
	for _, name := range []string{"2/pi", "magic", "pi1", "pi2", "1", "sign", "limit"} {
		o.hoisted[name] = o.V(next)
		o.broadcast(o.table.Offset(o.at[name]), o.V(next))
		next--
	}
	o.one = o.V(next)
	o.broadcast(o.factor(factorOne), o.one)
	if next < 6*vectors {
		panic("mulSinCos: out of registers")
	}
}

// vectors of one group are computed together: 6 registers each, the rest holds constants.
const vectors = 4

// function emits func(sin, cos, t *T, n int, factors *T) (done int). It stops before a group with a |t| > 10⁵. t may be
// sin or cos.
func (o *oscillation) function() {
	o.Begin("mulSinCos", "sin, cos, t *%[1]s, n int, factors *%[1]s) (done int")
	load := func(p string) reg.GPVirtual { return o.Load(o.Param(p), o.GP64()).(reg.GPVirtual) }
	ds, dc, src, n := load("sin"), load("cos"), load("t"), load("n")
	o.factors = load("factors")
	o.hoist()
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
	o.tailMask(n)
	loadTail, storeTail := pick(target{double: o.F64}, o.VMOVUPS_Z, o.VMOVUPD_Z), o.Pick(o.VMOVUPS, o.VMOVUPD)
	loadTail(at(src, 0), reg.K7, o.reg(0, argument))
	o.check(1, lbl+"Stop")
	o.body(1)
	storeTail(o.reg(0, sine), reg.K7, at(ds, 0))
	storeTail(o.reg(0, cosine), reg.K7, at(dc, 0))
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

// tailMask sets K7 for the first min(n, lanes) lanes.
func (o *oscillation) tailMask(n reg.GPVirtual) {
	count, mask := o.GP64(), o.GP64()
	o.MOVQ(operand.U32(o.Lanes()), count)
	o.CMPQ(n, count)
	o.CMOVQLT(n, count)
	o.MOVQ(operand.I32(-1), mask)
	o.BZHIQ(count, mask, mask)
	o.KMOVW(mask.As32(), reg.K7)
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

// check jumps to stop if an argument is too large. A NaN passes: both results are NaN.
func (o *oscillation) check(vectors int, stop string) {
	const absMax, gtOQ = 0x0b, 0x1e // a NaN gives way to a number
	larger := o.Pick(o.VRANGEPS, o.VRANGEPD)
	top := o.reg(0, quadrant)
	larger(operand.U8(absMax), o.reg(vectors-1, argument), o.reg(0, argument), top)
	for u := 1; u < vectors-1; u++ {
		larger(operand.U8(absMax), o.reg(u, argument), top, top)
	}
	o.Pick(o.VCMPPS, o.VCMPPD)(operand.U8(gtOQ), o.hoisted["limit"], top, reg.K1)
	o.KTESTW(reg.K1, reg.K1)
	o.JNZ(operand.LabelRef(stop))
}

func (o *oscillation) body(vectors int) {
	each := func(f func(r func(i int) reg.VecPhysical, mask reg.OpmaskPhysical)) {
		for u := range vectors {
			f(func(i int) reg.VecPhysical { return o.reg(u, i) }, []reg.OpmaskPhysical{reg.K2, reg.K3, reg.K4,
				reg.K5}[u])
		}
	}
	fma213, fnma231, fma231 := o.Pick(o.VFMADD213PS, o.VFMADD213PD), o.Pick(o.VFNMADD231PS, o.VFNMADD231PD),
		o.Pick(o.VFMADD231PS, o.VFMADD231PD)
	fma213Mem, mulMem := o.Pick(o.VFMADD213PS_BCST, o.VFMADD213PD_BCST), o.Pick(o.VMULPS_BCST, o.VMULPD_BCST)
	type regs = func(i int) reg.VecPhysical
	k := o.hoisted
	each(func(r regs, _ reg.OpmaskPhysical) { o.VMOVAPS(r(argument), r(quadrant)) })
	each(func(r regs, _ reg.OpmaskPhysical) { fma213(k["magic"], k["2/pi"], r(quadrant)) })
	each(func(r regs, _ reg.OpmaskPhysical) { o.Sub(k["magic"], r(quadrant), r(excess)) })
	each(func(r regs, _ reg.OpmaskPhysical) { fnma231(k["pi1"], r(excess), r(argument)) }) // exact
	each(func(r regs, _ reg.OpmaskPhysical) { fnma231(k["pi2"], r(excess), r(argument)) })
	each(func(r regs, _ reg.OpmaskPhysical) { mulMem(o.factor(factorPi3), r(excess), r(excess)) })
	each(func(r regs, _ reg.OpmaskPhysical) { o.Mul(r(argument), r(argument), r(sine)) })
	d := o.degree()
	each(func(r regs, _ reg.OpmaskPhysical) {
		o.broadcast(o.factor(factorSin+2*d-1), r(cosine))
		o.broadcast(o.factor(factorSin+d-1), r(series))
	})
	for i := d - 2; i >= 0; i-- {
		each(func(r regs, _ reg.OpmaskPhysical) { fma213Mem(o.factor(factorSin+d+i), r(sine), r(cosine)) })
		each(func(r regs, _ reg.OpmaskPhysical) { fma213Mem(o.factor(factorSin+i), r(sine), r(series)) })
	}
	each(func(r regs, _ reg.OpmaskPhysical) { fma213Mem(o.factor(factorHalf), r(sine), r(cosine)) })
	each(func(r regs, _ reg.OpmaskPhysical) { fma213(o.one, r(sine), r(cosine)) })
	each(func(r regs, _ reg.OpmaskPhysical) { o.Mul(r(argument), r(sine), r(sine)) })
	each(func(r regs, _ reg.OpmaskPhysical) { fma231(r(series), r(sine), r(excess)) })
	each(func(r regs, _ reg.OpmaskPhysical) { fma231(o.one, r(argument), r(excess)) })
	// Odd quadrants exchange sine and cosine, then both get their signs.
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

// tiles emits func(t *oscillationTile): tiles of up to 8 rows of two vectors, like those of tile in main.go and with
// the same chains, all panels of one before the next. The projections of a tile then rest in the first-level cache, and
// two rows at a time go through body. So stores come a few at a time between the products, and the memory keeps up.
func (o *oscillation) tiles() {
	t := target{c: o.Context, zmm: true, double: o.F64, rows: 8}
	const rows, width = 8, 2
	sinPanel, cosPanel, init := reg.R12, reg.R13, reg.R14
	o.factors = reg.RAX
	o.Function(o.Name("mulSinCosTile"))
	o.Attributes(attr.NOSPLIT)
	o.SignatureExpr("func(t *byte)")
	o.Load(o.Param("t"), arg)
	o.MOVQ(field(oARow), aRow)
	o.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 2}, aRow3)
	o.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 4}, aRow5)
	o.LEAQ(operand.Mem{Base: aRow3, Index: aRow, Scale: 4}, aRow7)
	o.LEAQ(field(oFactors), reg.RAX)
	o.hoist()
	for _, f := range [][2]int{{oA, oATile}, {oSin, oSinTile}, {oCos, oCosTile}} {
		o.MOVQ(field(f[0]), count)
		o.MOVQ(count, field(f[1]))
	}
	o.MOVQ(field(oRows), count)
	o.SHLQ(operand.Imm(7), count)
	o.LEAQ(operand.Mem{Base: arg, Index: count, Scale: 1, Disp: oArguments - width*64}, count)
	o.MOVQ(count, field(oLast))

	o.Label("tile")
	o.MOVQ(field(oB), bPanel)
	o.MOVQ(field(oSinTile), sinPanel)
	o.MOVQ(field(oCosTile), cosPanel)
	o.MOVQ(field(oInit), init)
	o.MOVQ(field(oPanels), panels)
	o.KXNORW(reg.K6, reg.K6, reg.K6)
	o.KXNORW(reg.K7, reg.K7, reg.K7)
	o.Label("panel")
	o.CMPQ(panels, operand.Imm(1))
	o.JNE(operand.LabelRef("start"))
	o.KMOVW(field(oMask), reg.K6)
	o.KMOVW(field(oMask2), reg.K7)
	o.Label("start")
	load, store := pick(t, o.VMOVUPS_Z, o.VMOVUPD_Z), o.Pick(o.VMOVUPS, o.VMOVUPD)
	load(operand.Mem{Base: init}, reg.K6, t.vec(0))
	load(operand.Mem{Base: init, Disp: 64}, reg.K7, t.vec(1))
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
			func(i int) reg.Register { return t.vec(width*rows + width + i%4) }
		o.Label(fmt.Sprintf("rows%dk", r))
		for j := range width {
			t.load(operand.Mem{Base: bCur, Disp: 64 * j}, b(j), false, nil)
		}
		for i := range r {
			t.broadcast(t.row(i), tmp(i))
			for j := range width {
				t.fma(b(j), tmp(i), t.vec(width*i+j))
			}
		}
		o.ADDQ(operand.U32(64*width), bCur)
		o.ADDQ(operand.Imm(uint64(o.Size())), aCur)
		o.DECQ(count)
		o.JNZ(operand.LabelRef(fmt.Sprintf("rows%dk", r)))
		for i := range width * r {
			o.VMOVUPS(t.vec(i), field(oArguments+64*i))
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
	o.Label("pair")
	o.CMPQ(from, field(oLast))
	o.JEQ(operand.LabelRef("single"))
	o.JHI(operand.LabelRef("next"))
	for _, n := range []int{2, 1} { // rows
		name := map[int]string{2: "pair", 1: "single"}[n]
		if n == 1 {
			o.Label(name)
		}
		for u := range width * n {
			o.VMOVUPS(operand.Mem{Base: from, Disp: 64 * u}, o.reg(u, argument))
		}
		o.check(width*n, name+"large")
		o.Label(name + "body")
		o.body(width * n)
		for i := range n {
			for j, mask := range []reg.Register{reg.K6, reg.K7} {
				store(o.reg(width*i+j, sine), mask, operand.Mem{Base: sinRow, Disp: 64 * j})
				store(o.reg(width*i+j, cosine), mask, operand.Mem{Base: cosRow, Disp: 64 * j})
			}
			if n > 1 {
				o.ADDQ(field(oSinRow), sinRow)
				o.ADDQ(field(oCosRow), cosRow)
			}
		}
		if n > 1 {
			o.ADDQ(operand.U32(64*width*n), from)
			o.JMP(operand.LabelRef("pair"))
		} else {
			o.JMP(operand.LabelRef("next"))
		}
		o.Label(name + "large")
		o.MOVQ(operand.U32(1), field(oLarge))
		o.JMP(operand.LabelRef(name + "body"))
	}

	o.Label("next")
	o.ADDQ(field(oBPanel), bPanel)
	o.ADDQ(operand.U32(64*width), sinPanel)
	o.ADDQ(operand.U32(64*width), cosPanel)
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
