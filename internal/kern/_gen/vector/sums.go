package main

import (
	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

// wide emits operations on matrices, whose rows usually wait in the second-level cache: there wider vectors do pay.
type wide struct{ vec.Gen }

func (g wide) gp(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }

func (g wide) zero(v reg.VecPhysical) { g.VXORPS(v, v, v) }

func (g wide) fma(m Op, b, d Op) { g.Pick(g.VFMADD231PS, g.VFMADD231PD)(m, b, d) } // d += b·m

// norms emits dst_i = |a_i|² in float64 for rows a_i of cols elements, a positive multiple of 16; stride is in bytes,
// rows ≥ 1.
//
// Sixteen sums, of every sixteenth element: enough to hide the latency of the additions, and the same for both widths.
func (g wide) norms() {
	g.Begin("norms", "dst *float64, a *%[1]s, rows, cols, stride int")
	dst, a, rows, cols, stride := g.gp("dst"), g.gp("a"), g.gp("rows"), g.gp("cols"), g.gp("stride")
	p, n := g.GP64(), g.GP64()
	lbl := g.Name("norms")
	vectors, bytes := 4, 16 // of float64, and what one takes of float32
	if g.Wide {
		vectors, bytes = 2, 32
	}
	v := func(i int) reg.Register { return g.V(4 + i) }
	g.Label(lbl + "Row")
	for i := range vectors {
		g.zero(g.V(i))
	}
	g.MOVQ(a, p)
	g.MOVQ(cols, n)
	g.Label(lbl + "Inputs")
	for i := range vectors {
		if g.F64 {
			g.VMOVUPD(Mem{Base: p, Disp: 2 * bytes * i}, v(i))
		} else {
			g.VCVTPS2PD(Mem{Base: p, Disp: bytes * i}, v(i))
		}
		g.VFMADD231PD(v(i), v(i), g.V(i))
	}
	g.ADDQ(U32(16*g.Size()), p)
	g.SUBQ(U32(16), n)
	g.JNZ(LabelRef(lbl + "Inputs"))
	if g.Wide {
		g.VADDPD(g.V(1), g.V(0), g.V(0))
		g.VEXTRACTF64X4(U8(1), g.V(0), g.V(1).AsY())
	} else {
		g.VADDPD(g.V(2), g.V(0), g.V(0))
		g.VADDPD(g.V(3), g.V(1), g.V(1))
	}
	y, x, high := g.V(0).AsY(), g.V(0).AsX(), g.V(1).AsX()
	g.VADDPD(g.V(1).AsY(), y, y)
	g.VEXTRACTF128(U8(1), y, high)
	g.VADDPD(high, x, x)
	g.VPERMILPD(U8(1), x, high)
	g.VADDSD(high, x, x)
	g.VMOVSD(x, Mem{Base: dst})
	g.ADDQ(U8(8), dst)
	g.ADDQ(stride, a)
	g.DECQ(rows)
	g.JNZ(LabelRef(lbl + "Row"))
	g.VZEROUPPER()
	g.RET()
}

// colSum emits dst += the rows of a, one after the other: the sums of some columns stay in registers over all rows.
// stride is in bytes, rows ≥ 1.
func (g wide) colSum() {
	g.Begin("colSum", "dst, a *%[1]s, rows, cols, stride int")
	dst, a, rows, cols, stride := g.gp("dst"), g.gp("a"), g.gp("rows"), g.gp("cols"), g.gp("stride")
	p, r := g.GP64(), g.GP64()
	lbl := g.Name("colSum")
	overRows := func(name string, body func()) {
		g.MOVQ(a, p)
		g.MOVQ(rows, r)
		g.Label(lbl + name)
		body()
		g.ADDQ(stride, p)
		g.DECQ(r)
		g.JNZ(LabelRef(lbl + name))
	}
	widths := []struct {
		name, next string
		n          int
	}{{"Many", "Four", 8}, {"Four", "One", 4}, {"One", "Tail", 1}}
	if g.Wide {
		widths[0].n = 16
	}
	for _, w := range widths {
		g.Label(lbl + w.name)
		g.CMPQ(cols, U32(w.n*g.Lanes()))
		g.JLT(LabelRef(lbl + w.next))
		for u := range w.n {
			g.VMOVUPS(Mem{Base: dst, Disp: u * g.Bytes()}, g.V(u))
		}
		overRows(w.name+"Rows", func() {
			for u := range w.n {
				g.Add(Mem{Base: p, Disp: u * g.Bytes()}, g.V(u), g.V(u))
			}
		})
		for u := range w.n {
			g.VMOVUPS(g.V(u), Mem{Base: dst, Disp: u * g.Bytes()})
		}
		g.ADDQ(U32(w.n*g.Bytes()), dst)
		g.ADDQ(U32(w.n*g.Bytes()), a)
		g.SUBQ(U32(w.n*g.Lanes()), cols)
		g.JMP(LabelRef(lbl + w.name))
	}
	g.Label(lbl + "Tail")
	g.TESTQ(cols, cols)
	g.JZ(LabelRef(lbl + "Done"))
	mask := g.V(2)
	g.TailMask(cols, mask)
	g.LoadTail(Mem{Base: dst}, mask, g.V(0))
	overRows("TailRows", func() {
		g.LoadTail(Mem{Base: p}, mask, g.V(1))
		g.Add(g.V(1), g.V(0), g.V(0))
	})
	g.StoreTail(g.V(0), mask, Mem{Base: dst})
	g.Label(lbl + "Done")
	g.VZEROUPPER()
	g.RET()
}

// mulV emits dst_i = a_i·v for rows a_i, four rows at a time and then one by one.
//
// Whatever the group, a row has two vectors of sums: of even and of odd vectors of its elements, the last ones masked.
// They are added, the halves of the result added until four sums (two in float64) are left, and these as (s0 + s2) +
// (s1 + s3).
func (g wide) mulV() {
	g.Begin("mulV", "dst, a *%[1]s, rows, cols, stride int, v *%[1]s")
	dst, a, rows, cols, stride, v := g.gp("dst"), g.gp("a"), g.gp("rows"), g.gp("cols"), g.gp("stride"), g.gp("v")
	stride3, p, q, n := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	lbl := g.Name("mulV")
	at := func(r, disp int) Mem {
		switch r {
		case 0:
			return Mem{Base: p, Disp: disp}
		case 3:
			return Mem{Base: p, Index: stride3, Scale: 1, Disp: disp}
		}
		return Mem{Base: p, Index: stride, Scale: uint8(r), Disp: disp}
	}
	sum := func(r, half int) reg.VecPhysical { return g.V(2*r + half) }
	factor := func(half int) reg.VecPhysical { return g.V(8 + half) }
	part, mask := g.V(10), g.V(11)
	for _, group := range []struct {
		name, next string
		rows       int
	}{{"Four", "One", 4}, {"One", "Done", 1}} {
		l := lbl + group.name
		g.Label(l)
		g.CMPQ(rows, U32(group.rows))
		g.JLT(LabelRef(lbl + group.next))
		for r := range group.rows {
			g.zero(sum(r, 0))
			g.zero(sum(r, 1))
		}
		g.MOVQ(a, p)
		g.MOVQ(v, q)
		g.MOVQ(cols, n)
		g.SUBQ(U32(2*g.Lanes()), n)
		g.JLT(LabelRef(l + "Rest"))
		g.Label(l + "Inputs")
		for half := range 2 {
			g.VMOVUPS(Mem{Base: q, Disp: half * g.Bytes()}, factor(half))
			for r := range group.rows {
				g.fma(at(r, half*g.Bytes()), factor(half), sum(r, half))
			}
		}
		g.ADDQ(U32(2*g.Bytes()), p)
		g.ADDQ(U32(2*g.Bytes()), q)
		g.SUBQ(U32(2*g.Lanes()), n)
		g.JGE(LabelRef(l + "Inputs"))
		g.Label(l + "Rest")
		g.ADDQ(U32(2*g.Lanes()), n)
		g.JZ(LabelRef(l + "Reduce"))
		for half := range 2 {
			g.TailMask(n, mask)
			g.LoadTail(Mem{Base: q}, mask, factor(0))
			for r := range group.rows {
				g.LoadTail(at(r, 0), mask, part)
				g.fma(part, factor(0), sum(r, half))
			}
			if half == 0 {
				g.ADDQ(U32(g.Bytes()), p)
				g.ADDQ(U32(g.Bytes()), q)
				g.SUBQ(U32(g.Lanes()), n)
				g.JLE(LabelRef(l + "Reduce"))
			}
		}
		g.Label(l + "Reduce")
		for r := range group.rows {
			g.Add(sum(r, 1), sum(r, 0), sum(r, 0))
			g.fold(sum(r, 0), g.V(8))
		}
		g.lastSums(group.rows, func(r int) reg.VecPhysical { return sum(r, 0).AsX().(reg.VecPhysical) }, dst)
		g.ADDQ(U32(group.rows*g.Size()), dst)
		for range group.rows {
			g.ADDQ(stride, a)
		}
		g.SUBQ(U32(group.rows), rows)
		g.JMP(LabelRef(l))
	}
	g.Label(lbl + "Done")
	g.VZEROUPPER()
	g.RET()
}

// fold adds the halves of s until 128 bits are left.
func (g wide) fold(s, tmp reg.VecPhysical) {
	y, ty := s.AsY(), tmp.AsY()
	if g.Wide {
		g.VEXTRACTF64X4(U8(1), s, ty)
		g.Add(ty, y, y)
	}
	g.VEXTRACTF128(U8(1), y, tmp.AsX())
	g.Add(tmp.AsX(), s.AsX(), s.AsX())
}

// lastSums stores the sums of one or four rows of 128 bits.
func (g wide) lastSums(rows int, s func(int) reg.VecPhysical, dst reg.Register) {
	t := func(i int) reg.VecPhysical { return g.V(8 + i).AsX().(reg.VecPhysical) }
	pair := func(a, b, d reg.VecPhysical) { // d = the first and second halves of a and b, added
		g.VUNPCKLPD(b, a, d)
		g.VUNPCKHPD(b, a, a)
		g.Add(a, d, d)
	}
	switch {
	case g.F64 && rows == 4:
		pair(s(0), s(1), t(0))
		pair(s(2), s(3), t(1))
		g.VMOVUPD(t(0), Mem{Base: dst})
		g.VMOVUPD(t(1), Mem{Base: dst, Disp: 16})
	case g.F64:
		pair(s(0), s(0), t(0))
		g.VMOVSD(t(0), Mem{Base: dst})
	case rows == 4:
		pair(s(0), s(1), t(0))
		pair(s(2), s(3), t(1))
		g.VSHUFPS(U8(0x88), t(1), t(0), t(2))
		g.VSHUFPS(U8(0xdd), t(1), t(0), t(3))
		g.VADDPS(t(3), t(2), t(2))
		g.VMOVUPS(t(2), Mem{Base: dst})
	default:
		pair(s(0), s(0), t(0))
		g.VSHUFPS(U8(0xdd), t(0), t(0), t(1))
		g.VADDSS(t(1), t(0), t(0))
		g.VMOVSS(t(0), Mem{Base: dst})
	}
}

// mulAdd emits dst += f·a for n > 0 elements, whole vectors. The product is rounded, as in Go on this architecture:
// the loop waits for memory either way.
func (g wide) mulAdd() {
	g.Begin("mulAdd", "dst, a *%[1]s, n int, f %[1]s")
	dst, a, n := g.gp("dst"), g.gp("a"), g.gp("n")
	f, v := g.V(0), g.V(1)
	at, err := g.Param("f").Resolve()
	if err != nil {
		panic(err)
	}
	if g.F64 {
		g.VBROADCASTSD(at.Addr, f)
	} else {
		g.VBROADCASTSS(at.Addr, f)
	}
	lbl := g.Name("mulAdd") + "Loop"
	g.Label(lbl)
	g.Mul(Mem{Base: a}, f, v)
	g.Add(Mem{Base: dst}, v, v)
	g.VMOVUPS(v, Mem{Base: dst})
	g.ADDQ(U32(g.Bytes()), dst)
	g.ADDQ(U32(g.Bytes()), a)
	g.SUBQ(U32(g.Lanes()), n)
	g.JNZ(LabelRef(lbl))
	g.VZEROUPPER()
	g.RET()
}

// absSums emits dst_j = Σ_l |u_l − a_lj| for cols columns, a positive multiple of a vector, of rows ≥ 1 rows; stride
// is in bytes. Four vectors of sums stay in registers while the rows go by, then one.
func (g wide) absSums() {
	g.Begin("absSums", "dst, a, u *%[1]s, rows, cols, stride int")
	dst, a, u, rows, cols := g.gp("dst"), g.gp("a"), g.gp("u"), g.gp("rows"), g.gp("cols")
	stride := g.gp("stride")
	p, q, n := g.GP64(), g.GP64(), g.GP64()
	const group = 4
	mask, value := g.V(15), g.V(14)
	shift := func(v reg.VecPhysical) {
		if g.F64 {
			g.VPSRLQ(U8(1), v, v)
		} else {
			g.VPSRLD(U8(1), v, v)
		}
	}
	if g.Wide {
		g.VPTERNLOGD(U8(0xff), mask, mask, mask)
	} else {
		g.VPCMPEQD(mask, mask, mask)
	}
	shift(mask)
	and := func(a, b, d Op) {
		if g.Wide {
			g.VPANDD(a, b, d)
		} else {
			g.VPAND(a, b, d)
		}
	}
	lbl := g.Name("absSums")
	sums := func(part string, vectors int) {
		g.Label(lbl + part)
		g.CMPQ(cols, U32(vectors*g.Lanes()))
		g.JLT(LabelRef(lbl + part + "End"))
		for i := range vectors {
			g.zero(g.V(i))
		}
		g.MOVQ(a, p)
		g.MOVQ(u, q)
		g.MOVQ(rows, n)
		g.Label(lbl + part + "Rows")
		if g.F64 {
			g.VBROADCASTSD(Mem{Base: q}, value)
		} else {
			g.VBROADCASTSS(Mem{Base: q}, value)
		}
		for i := range vectors {
			g.Sub(Mem{Base: p, Disp: i * g.Bytes()}, value, g.V(group+i))
		}
		for i := range vectors {
			and(mask, g.V(group+i), g.V(group+i))
			g.Add(g.V(group+i), g.V(i), g.V(i))
		}
		g.ADDQ(stride, p)
		g.ADDQ(U32(g.Size()), q)
		g.DECQ(n)
		g.JNZ(LabelRef(lbl + part + "Rows"))
		for i := range vectors {
			g.VMOVUPS(g.V(i), Mem{Base: dst, Disp: i * g.Bytes()})
		}
		g.ADDQ(U32(vectors*g.Bytes()), dst)
		g.ADDQ(U32(vectors*g.Bytes()), a)
		g.SUBQ(U32(vectors*g.Lanes()), cols)
		g.JMP(LabelRef(lbl + part))
		g.Label(lbl + part + "End")
	}
	sums("Four", group)
	sums("One", 1)
	g.VZEROUPPER()
	g.RET()
}

// overColumns emits a loop over the columns of a row, two vectors at a time and the last ones masked: body is told
// which of two sums a vector belongs to and how to load and store it. i counts bytes.
func (g wide) overColumns(lbl string, cols, i, n reg.GPVirtual, body func(half int, load func(Mem, reg.VecPhysical),
	store func(reg.VecPhysical, Mem), disp int)) {
	mask := g.V(11)
	g.XORQ(i, i)
	g.MOVQ(cols, n)
	g.SUBQ(U32(2*g.Lanes()), n)
	g.JLT(LabelRef(lbl + "Rest"))
	g.Label(lbl + "Columns")
	for half := range 2 {
		body(half, func(m Mem, v reg.VecPhysical) { g.VMOVUPS(m, v) },
			func(v reg.VecPhysical, m Mem) { g.VMOVUPS(v, m) }, half*g.Bytes())
	}
	g.ADDQ(U32(2*g.Bytes()), i)
	g.SUBQ(U32(2*g.Lanes()), n)
	g.JGE(LabelRef(lbl + "Columns"))
	g.Label(lbl + "Rest")
	g.ADDQ(U32(2*g.Lanes()), n)
	g.JZ(LabelRef(lbl + "Reduce"))
	for half := range 2 {
		g.TailMask(n, mask)
		body(half, func(m Mem, v reg.VecPhysical) { g.LoadTail(m, mask, v) },
			func(v reg.VecPhysical, m Mem) { g.StoreTail(v, mask, m) }, 0)
		if half == 0 {
			g.ADDQ(U32(g.Bytes()), i)
			g.SUBQ(U32(g.Lanes()), n)
			g.JLE(LabelRef(lbl + "Reduce"))
		}
	}
	g.Label(lbl + "Reduce")
	g.Add(g.V(1), g.V(0), g.V(0))
	g.fold(g.V(0), g.V(8))
}

// mulRows emits dst = a ⊙ b, and the sums of its rows. Strides are in bytes, rows and cols ≥ 1.
func (g wide) mulRows() {
	g.Begin("mulRows", "sum, dst, a, b *%[1]s, rows, cols, strideDst, strideA, strideB int")
	sum, dst, a, b, rows, cols := g.gp("sum"), g.gp("dst"), g.gp("a"), g.gp("b"), g.gp("rows"), g.gp("cols")
	strideDst, strideA, strideB := g.gp("strideDst"), g.gp("strideA"), g.gp("strideB")
	i, n := g.GP64(), g.GP64()
	lbl := g.Name("mulRows")
	g.Label(lbl + "Row")
	g.zero(g.V(0))
	g.zero(g.V(1))
	g.overColumns(lbl, cols, i, n, func(half int, load func(Mem, reg.VecPhysical), store func(reg.VecPhysical, Mem),
		disp int) {
		x, y := g.V(2+2*half), g.V(3+2*half)
		load(Mem{Base: a, Index: i, Scale: 1, Disp: disp}, x)
		load(Mem{Base: b, Index: i, Scale: 1, Disp: disp}, y)
		g.Mul(x, y, y)
		store(y, Mem{Base: dst, Index: i, Scale: 1, Disp: disp})
		g.Add(y, g.V(half), g.V(half))
	})
	g.lastSums(1, func(int) reg.VecPhysical { return g.V(0).AsX().(reg.VecPhysical) }, sum)
	g.ADDQ(U32(g.Size()), sum)
	g.ADDQ(strideDst, dst)
	g.ADDQ(strideA, a)
	g.ADDQ(strideB, b)
	g.DECQ(rows)
	g.JNZ(LabelRef(lbl + "Row"))
	g.VZEROUPPER()
	g.RET()
}

// addDots emits z += a_i, dst_i = b_i·z for one row after the other. Strides are in bytes, rows and cols ≥ 1.
func (g wide) addDots() {
	g.Begin("addDots", "dst, z, a, b *%[1]s, rows, cols, strideA, strideB int")
	dst, z, a, b, rows, cols := g.gp("dst"), g.gp("z"), g.gp("a"), g.gp("b"), g.gp("rows"), g.gp("cols")
	strideA, strideB := g.gp("strideA"), g.gp("strideB")
	i, n := g.GP64(), g.GP64()
	lbl := g.Name("addDots")
	g.Label(lbl + "Row")
	g.zero(g.V(0))
	g.zero(g.V(1))
	g.overColumns(lbl, cols, i, n, func(half int, load func(Mem, reg.VecPhysical), store func(reg.VecPhysical, Mem),
		disp int) {
		x, y := g.V(2+2*half), g.V(3+2*half)
		load(Mem{Base: a, Index: i, Scale: 1, Disp: disp}, x)
		load(Mem{Base: z, Index: i, Scale: 1, Disp: disp}, y)
		g.Add(x, y, y)
		store(y, Mem{Base: z, Index: i, Scale: 1, Disp: disp})
		load(Mem{Base: b, Index: i, Scale: 1, Disp: disp}, x)
		g.fma(x, y, g.V(half))
	})
	g.lastSums(1, func(int) reg.VecPhysical { return g.V(0).AsX().(reg.VecPhysical) }, dst)
	g.ADDQ(U32(g.Size()), dst)
	g.ADDQ(strideA, a)
	g.ADDQ(strideB, b)
	g.DECQ(rows)
	g.JNZ(LabelRef(lbl + "Row"))
	g.VZEROUPPER()
	g.RET()
}

// half is a vector of as many float32 as there are float64 in a whole one.
func (g wide) half(v reg.VecPhysical) reg.Register {
	if g.Wide {
		return v.AsY()
	}
	return v.AsX()
}

// widen emits dst += f·a for n > 0 elements, whole vectors of float64: a is converted, the product rounded.
func (g wide) widen() {
	g.Begin("widen", "dst *float64, a *%[1]s, n int, f float64")
	dst, a, n := g.gp("dst"), g.gp("a"), g.gp("n")
	f, v := g.wideFactor(), g.V(1)
	lbl := g.Name("widen") + "Loop"
	g.Label(lbl)
	g.VCVTPS2PD(Mem{Base: a}, v)
	g.VMULPD(f, v, v)
	g.VADDPD(Mem{Base: dst}, v, v)
	g.VMOVUPD(v, Mem{Base: dst})
	g.wideStep(lbl, dst, a, n)
}

// narrow emits dst = f·a for n > 0 elements, whole vectors of float64, rounded twice.
func (g wide) narrow() {
	g.Begin("narrow", "dst *%[1]s, a *float64, n int, f float64")
	dst, a, n := g.gp("dst"), g.gp("a"), g.gp("n")
	f, v := g.wideFactor(), g.V(1)
	lbl := g.Name("narrow") + "Loop"
	g.Label(lbl)
	g.VMULPD(Mem{Base: a}, f, v)
	if g.Wide {
		g.VCVTPD2PS(v, v.AsY())
	} else {
		g.VCVTPD2PSY(v, v.AsX())
	}
	g.VMOVUPS(g.half(v), Mem{Base: dst})
	g.wideStep(lbl, a, dst, n)
}

// wideFactor is f in every lane of float64.
func (g wide) wideFactor() reg.VecPhysical {
	at, err := g.Param("f").Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSD(at.Addr, g.V(0))
	return g.V(0)
}

// wideStep ends a loop over float64 at w and float32 at s.
func (g wide) wideStep(lbl string, w, s, n reg.Register) {
	g.ADDQ(U32(g.Bytes()), w)
	g.ADDQ(U32(g.Bytes()/2), s)
	g.SUBQ(U32(g.Bytes()/8), n)
	g.JNZ(LabelRef(lbl))
	g.VZEROUPPER()
	g.RET()
}

// pack emits the transposition of one vector of rows of w into half a panel: blocks × (4 or 2) columns, each becoming
// one vector of dst, which lie two vectors apart. stride is in bytes, blocks ≥ 1.
//
// A vector is gathered from 16 bytes of every fourth (second) row, so that all shuffles stay within 128 bits.
func (g wide) pack() {
	g.Begin("pack", "dst, w *%[1]s, stride, blocks int")
	dst, w, stride, blocks := g.gp("dst"), g.gp("w"), g.gp("stride"), g.gp("blocks")
	piece := 16 / g.Size() // columns of a block, rows of 128 bits
	odd := map[int]reg.Register{1: stride}
	for _, r := range []int{3, 5, 7} {
		if r < min(g.Lanes(), 8) {
			m := g.GP64()
			g.IMUL3Q(U8(r), stride, m)
			odd[r] = m
		}
	}
	far := g.GP64() // the ninth row
	if g.Lanes() > 8 {
		g.LEAQ(Mem{Base: w, Index: stride, Scale: 8}, far)
	}
	row := func(r int) Mem {
		base := reg.Register(w)
		if r >= 8 {
			base, r = far, r-8
		}
		scale := 1
		for r > 0 && r%2 == 0 {
			r, scale = r/2, scale*2
		}
		if r == 0 {
			return Mem{Base: base}
		}
		return Mem{Base: base, Index: odd[r], Scale: uint8(scale)}
	}
	lbl := g.Name("pack") + "Block"
	g.Label(lbl)
	for i := range piece {
		g.VMOVUPS(row(i), g.V(i).AsX())
		for lane := 1; lane*piece < g.Lanes(); lane++ {
			if g.Wide {
				g.VINSERTF32X4(U8(lane), row(lane*piece+i), g.V(i), g.V(i))
			} else {
				g.VINSERTF128(U8(lane), row(lane*piece+i), g.V(i), g.V(i))
			}
		}
	}
	out := func(c int) Mem { return Mem{Base: dst, Disp: 2 * c * g.Bytes()} }
	if g.F64 {
		g.VUNPCKLPD(g.V(1), g.V(0), g.V(2))
		g.VUNPCKHPD(g.V(1), g.V(0), g.V(3))
		g.VMOVUPS(g.V(2), out(0))
		g.VMOVUPS(g.V(3), out(1))
	} else {
		g.VUNPCKLPS(g.V(1), g.V(0), g.V(4))
		g.VUNPCKHPS(g.V(1), g.V(0), g.V(5))
		g.VUNPCKLPS(g.V(3), g.V(2), g.V(6))
		g.VUNPCKHPS(g.V(3), g.V(2), g.V(7))
		for c := range 4 {
			lo, hi := g.V(4+c/2), g.V(6+c/2)
			if c%2 == 0 {
				g.VUNPCKLPD(hi, lo, g.V(8+c))
			} else {
				g.VUNPCKHPD(hi, lo, g.V(8+c))
			}
			g.VMOVUPS(g.V(8+c), out(c))
		}
	}
	g.ADDQ(U32(2*piece*g.Bytes()), dst)
	g.ADDQ(U8(16), w)
	if g.Lanes() > 8 {
		g.ADDQ(U8(16), far)
	}
	g.DECQ(blocks)
	g.JNZ(LabelRef(lbl))
	g.VZEROUPPER()
	g.RET()
}

// gather emits the copies of n ≥ 1 rows of src, by their numbers, to those of dst, one after the other. Strides are in
// bytes, cols ≥ 1.
func (g wide) gather() {
	g.Begin("gather", "dst, src *%[1]s, rows *int32, n, cols, strideDst, strideSrc int")
	dst, src, rows, n := g.gp("dst"), g.gp("src"), g.gp("rows"), g.gp("n")
	cols, strideDst, strideSrc := g.gp("cols"), g.gp("strideDst"), g.gp("strideSrc")
	from, to, left := g.GP64(), g.GP64(), g.GP64()
	row, loop, tail, next := g.Name("gather")+"Row", g.Name("gather")+"Loop", g.Name("gather")+"Tail",
		g.Name("gather")+"Next"
	g.MOVQ(cols, left)
	g.ANDQ(U8(g.Lanes()-1), left)
	g.TailMask(left, g.V(15))
	g.Label(row)
	g.MOVLQSX(Mem{Base: rows}, from)
	g.IMULQ(strideSrc, from)
	g.ADDQ(src, from)
	g.MOVQ(dst, to)
	g.MOVQ(cols, left)
	g.SUBQ(U32(g.Lanes()), left)
	g.JLT(LabelRef(tail))
	g.Label(loop)
	g.VMOVUPS(Mem{Base: from}, g.V(0))
	g.VMOVUPS(g.V(0), Mem{Base: to})
	g.ADDQ(U32(g.Bytes()), from)
	g.ADDQ(U32(g.Bytes()), to)
	g.SUBQ(U32(g.Lanes()), left)
	g.JGE(LabelRef(loop))
	g.Label(tail)
	g.CMPQ(left, I32(-g.Lanes()))
	g.JEQ(LabelRef(next))
	g.LoadTail(Mem{Base: from}, g.V(15), g.V(0))
	g.StoreTail(g.V(0), g.V(15), Mem{Base: to})
	g.Label(next)
	g.ADDQ(U8(4), rows)
	g.ADDQ(strideDst, dst)
	g.DECQ(n)
	g.JNZ(LabelRef(row))
	g.VZEROUPPER()
	g.RET()
}

// above emits the indices, from first on, of the numbers of x that are at least low, for a positive multiple n of a
// vector. A vector of indices is stored at a time: dst has room for n.
func (g wide) above() {
	g.Function(g.Name("above"))
	g.Attributes(attr.NOSPLIT)
	typ := "float32"
	if g.F64 {
		typ = "float64"
	}
	g.SignatureExpr("func(dst *int32, x *" + typ + ", n, first int, low " + typ + ") int")
	dst, x, n, first := g.gp("dst"), g.gp("x"), g.gp("n"), g.gp("first")
	begin, bits := g.GP64(), g.GP64()
	at, err := g.Param("low").Resolve()
	if err != nil {
		panic(err)
	}
	g.Pick(g.VBROADCASTSS, g.VBROADCASTSD)(at.Addr, g.V(0))
	g.MOVQ(dst, begin)
	narrow := func(i int) reg.VecPhysical { // a vector of as many indices
		if g.F64 {
			return g.V(i).AsY().(reg.VecPhysical)
		}
		return g.V(i)
	}
	g.VPBROADCASTD(first.As32(), narrow(1))
	count := g.Table(g.Name("count"))
	for i := range g.Lanes() {
		g.AddDatum(4*i, U32(i))
	}
	g.VPADDD(count, narrow(1), narrow(1))
	g.MOVQ(U32(g.Lanes()), bits)
	g.VPBROADCASTD(bits.As32(), narrow(2))
	lbl := g.Name("above") + "Loop"
	g.Label(lbl)
	g.Pick(g.VMOVUPS, g.VMOVUPD)(Mem{Base: x}, g.V(3))
	g.Pick(g.VCMPPS, g.VCMPPD)(U8(13), g.V(0), g.V(3), reg.K1) // x ≥ low, false for NaN
	g.VPCOMPRESSD_Z(narrow(1), reg.K1, narrow(4))
	g.VMOVDQU32(narrow(4), Mem{Base: dst})
	g.KMOVW(reg.K1, bits.As32())
	g.POPCNTL(bits.As32(), bits.As32())
	g.LEAQ(Mem{Base: dst, Index: bits, Scale: 4}, dst)
	g.VPADDD(narrow(2), narrow(1), narrow(1))
	g.ADDQ(U32(g.Bytes()), x)
	g.SUBQ(U32(g.Lanes()), n)
	g.JNZ(LabelRef(lbl))
	g.VZEROUPPER()
	g.SUBQ(begin, dst)
	g.SHRQ(U8(2), dst)
	g.Store(dst, g.ReturnIndex(0))
	g.RET()
}
