// Command quant generates the products of block-quantised weights with 8-bit activations, for AVX-512 with VNNI and
// for AVX2, and the quantisation of the activations.
//
//	go run ./quant       # from internal/kern/_gen
//
// The layouts are those of blocks.go in package kern: 16 rows of weights are interleaved, four columns of a row side by
// side, so that one vector of weights meets one broadcast group of four activations, and every lane sums its own row.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

// Layout of an activation block: 32 bytes, then three numbers of four bytes each, padded to 48.
const (
	actScale = 32
	actSum   = 36
	actNeg   = 40
	actSize  = 48
)

func main() {
	flag.Parse()
	for _, wide := range []bool{true, false} {
		c := build.NewContext()
		g := &gen{vec.Gen{Context: c, Wide: wide}}
		tiles := []int{1, 2, 4}
		if wide {
			tiles = append(tiles, 8)
		}
		for _, bits := range []int{8, 4} {
			for _, tokens := range tiles {
				if wide {
					g.wideTile(bits, tokens)
				} else {
					g.narrowTile(bits, tokens)
				}
			}
		}
		g.quantise()
		name := "quant_avx2_amd64.s"
		if wide {
			name = "quant_avx512_amd64.s"
		}
		if err := emit.File(c, name, "quant"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct{ vec.Gen }

// begin starts a tile and returns its pointers; a has one per token.
func (g *gen) begin(bits, tokens int) (name string, w, s, blocks reg.Register, a []reg.GPVirtual) {
	target := "AVX2"
	if g.Wide {
		target = "AVX512"
	}
	name = fmt.Sprintf("q%dx%d%s", bits, tokens, target)
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func(dst *float32, dstStride int, w *byte, s *uint16, a *byte, aStride int, blocks int)")
	w, s, blocks = g.Load(g.Param("w"), g.GP64()), g.Load(g.Param("s"), g.GP64()), g.Load(g.Param("blocks"), g.GP64())
	a = append(a, g.Load(g.Param("a"), g.GP64()).(reg.GPVirtual))
	stride := g.Load(g.Param("aStride"), g.GP64())
	for t := 1; t < tokens; t++ {
		p := g.GP64()
		g.MOVQ(a[t-1], p)
		g.ADDQ(stride, p)
		a = append(a, p)
	}
	return name, w, s, blocks, a
}

// store writes the sums of the tokens and returns.
func (g *gen) store(tokens int) {
	dst, stride := g.Load(g.Param("dst"), g.GP64()), g.Load(g.Param("dstStride"), g.GP64())
	for t := range tokens {
		g.VMOVUPS(g.V(t), Mem{Base: dst})
		if t < tokens-1 {
			g.ADDQ(stride, dst)
		}
	}
	g.VZEROUPPER()
	g.RET()
}

// wideTile multiplies 16 rows by some tokens: register t holds the sums of token t, 8+t those of a block, as integers.
//
//	8 bits:  Σ s·as·(Σ u·a − 128·Σ a), u = weight + 128
//	4 bits:  Σ s·as·Σ q·a + m·(as·Σ a)
func (g *gen) wideTile(bits, tokens int) {
	name, w, s, blocks, a := g.begin(bits, tokens)
	sum, dot := g.V, func(t int) reg.VecPhysical { return g.V(8 + t) }
	lo, hi, scale, least, nibbles := g.V(16), g.V(17), g.V(18), g.V(19), g.V(31)
	for t := range tokens {
		g.VPXORD(sum(t), sum(t), sum(t))
	}
	if bits == 4 {
		r := g.GP32()
		g.MOVL(U32(0x0f0f0f0f), r)
		g.VPBROADCASTD(r, nibbles)
	}
	emit.AlignLoop(g.Context)
	g.Label(name + "Block")
	for t := range tokens {
		if bits == 4 {
			g.VPXORD(dot(t), dot(t), dot(t))
		} else {
			g.VPBROADCASTD(Mem{Base: a[t], Disp: actNeg}, dot(t))
		}
	}
	if bits == 4 {
		for i := range 4 {
			g.VMOVDQU32(Mem{Base: w, Disp: 64 * i}, hi)
			g.VPANDD(nibbles, hi, lo)
			g.VPSRLD(U8(4), hi, hi)
			g.VPANDD(nibbles, hi, hi)
			for t := range tokens {
				g.VPDPBUSD_BCST(Mem{Base: a[t], Disp: 4 * i}, lo, dot(t))
			}
			for t := range tokens {
				g.VPDPBUSD_BCST(Mem{Base: a[t], Disp: 16 + 4*i}, hi, dot(t))
			}
		}
		g.ADDQ(U32(256), w)
	} else {
		for i := range 8 {
			r := g.V(16 + i%2)
			g.VMOVDQU32(Mem{Base: w, Disp: 64 * i}, r)
			for t := range tokens {
				g.VPDPBUSD_BCST(Mem{Base: a[t], Disp: 4 * i}, r, dot(t))
			}
		}
		g.ADDQ(U32(512), w)
	}
	g.VCVTPH2PS(Mem{Base: s}, scale)
	if bits == 4 {
		g.VCVTPH2PS(Mem{Base: s, Disp: 32}, least)
		g.ADDQ(U8(64), s)
	} else {
		g.ADDQ(U8(32), s)
	}
	for t := range tokens {
		g.VCVTDQ2PS(dot(t), dot(t))
		g.VMULPS_BCST(Mem{Base: a[t], Disp: actScale}, dot(t), dot(t))
		g.VFMADD231PS(scale, dot(t), sum(t))
		if bits == 4 {
			g.VFMADD231PS_BCST(Mem{Base: a[t], Disp: actSum}, least, sum(t))
		}
	}
	for t := range tokens {
		g.ADDQ(U8(actSize), a[t])
	}
	g.DECQ(blocks)
	g.JNZ(LabelRef(name + "Block"))
	g.store(tokens)
}

// narrowTile multiplies 8 of the 16 rows, those at w, s and dst. Pairs of products are summed in 16 bits: of |w|·(±a)
// for 8 bits, at most 2·128·127; of q·a for 4 bits, at most 16·15·127 over a block.
func (g *gen) narrowTile(bits, tokens int) {
	name, w, s, blocks, a := g.begin(bits, tokens)
	sum, dot := g.V, func(t int) reg.VecPhysical { return g.V(4 + t) }
	x, size, y, ones, konst := g.V(8), g.V(9), g.V(10), g.V(11), g.V(12)
	scale, least := g.V(13), g.V(14)
	for t := range tokens {
		g.VPXOR(sum(t), sum(t), sum(t))
	}
	all := func(v uint32, dst reg.VecPhysical) {
		r := g.GP32()
		g.MOVL(U32(v), r)
		g.VMOVD(r, dst.AsX())
		g.VPBROADCASTD(dst.AsX(), dst)
	}
	all(0x00010001, ones)
	if bits == 4 {
		all(0x0f0f0f0f, konst)
	} else {
		all(0x80808080, konst)
	}
	g.Label(name + "Block")
	for t := range tokens {
		g.VPXOR(dot(t), dot(t), dot(t))
	}
	if bits == 4 {
		for i := range 4 {
			g.VMOVDQU(Mem{Base: w, Disp: 64 * i}, size)
			g.VPAND(konst, size, x)
			g.VPSRLD(U8(4), size, size)
			g.VPAND(konst, size, size)
			for t := range tokens {
				g.VPBROADCASTD(Mem{Base: a[t], Disp: 4 * i}, y)
				g.VPMADDUBSW(y, x, y)
				g.VPADDW(y, dot(t), dot(t))
				g.VPBROADCASTD(Mem{Base: a[t], Disp: 16 + 4*i}, y)
				g.VPMADDUBSW(y, size, y)
				g.VPADDW(y, dot(t), dot(t))
			}
		}
		for t := range tokens {
			g.VPMADDWD(ones, dot(t), dot(t))
		}
		g.ADDQ(U32(256), w)
	} else {
		for i := range 8 {
			g.VPXOR(Mem{Base: w, Disp: 64 * i}, konst, x)
			g.VPABSB(x, size)
			for t := range tokens {
				g.VPBROADCASTD(Mem{Base: a[t], Disp: 4 * i}, y)
				g.VPSIGNB(x, y, y)
				g.VPMADDUBSW(y, size, y)
				g.VPMADDWD(ones, y, y)
				g.VPADDD(y, dot(t), dot(t))
			}
		}
		g.ADDQ(U32(512), w)
	}
	g.VCVTPH2PS(Mem{Base: s}, scale)
	if bits == 4 {
		g.VCVTPH2PS(Mem{Base: s, Disp: 32}, least)
		g.ADDQ(U8(64), s)
	} else {
		g.ADDQ(U8(32), s)
	}
	for t := range tokens {
		g.VCVTDQ2PS(dot(t), dot(t))
		g.VBROADCASTSS(Mem{Base: a[t], Disp: actScale}, y)
		g.VMULPS(y, dot(t), dot(t))
		g.VFMADD231PS(scale, dot(t), sum(t))
		if bits == 4 {
			g.VBROADCASTSS(Mem{Base: a[t], Disp: actSum}, y)
			g.VFMADD231PS(y, least, sum(t))
		}
	}
	for t := range tokens {
		g.ADDQ(U8(actSize), a[t])
	}
	g.DECQ(blocks)
	g.JNZ(LabelRef(name + "Block"))
	g.store(tokens)
}

// quantise turns blocks of 32 numbers into activation blocks. Magnitudes are compared as integers, where NaN is above
// infinity: a block with either has a scale that is not finite. Blocks below 2^-100 become zeros, because 127/max
// would overflow.
func (g *gen) quantise() {
	target := "quantiseAVX2"
	if g.Wide {
		target = "quantiseAVX512"
	}
	g.Function(target)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func(dst *byte, x *float32, blocks int)")
	dst, x := g.Load(g.Param("dst"), g.GP64()), g.Load(g.Param("x"), g.GP64())
	blocks := g.Load(g.Param("blocks"), g.GP64())
	all := func(v uint32, dst reg.VecPhysical) {
		r := g.GP32()
		g.MOVL(U32(v), r)
		g.VMOVD(r, dst.AsX())
		g.VPBROADCASTD(dst.AsX(), dst)
	}
	vectors := 128 / g.Bytes()
	abs, top, tiny := g.V(12), g.V(13), g.V(14)
	all(0x7fffffff, abs)
	all(math.Float32bits(127), top)
	all(math.Float32bits(0x1p-100), tiny)
	max, tmp := g.V(8), g.V(9)
	g.Label(target + "Block")
	for i := range vectors {
		g.VMOVUPS(Mem{Base: x, Disp: g.Bytes() * i}, g.V(i))
	}
	and := func(a, b, d reg.VecPhysical) {
		if g.Wide {
			g.VPANDD(a, b, d)
		} else {
			g.VPAND(a, b, d)
		}
	}
	and(abs, g.V(0), max)
	for i := 1; i < vectors; i++ {
		and(abs, g.V(i), tmp)
		g.VPMAXSD(tmp, max, max)
	}
	if g.Wide {
		g.VEXTRACTI64X4(U8(1), max, tmp.AsY())
		g.VPMAXSD(tmp.AsY(), max.AsY(), max.AsY())
	}
	g.VEXTRACTI128(U8(1), max.AsY(), tmp.AsX())
	m, n := max.AsX(), tmp.AsX()
	g.VPMAXSD(n, m, m)
	g.VPSHUFD(U8(0b01_00_11_10), m, n)
	g.VPMAXSD(n, m, m)
	g.VPSHUFD(U8(0b10_11_00_01), m, n)
	g.VPMAXSD(n, m, m)
	// inverse = 127/max, or 0 below tiny; scale = max/127, or 0. NaN is not below.
	inv, scale, keep := reg.X10, reg.X11, reg.X15
	g.VCMPSS(U8(0x05), tiny.AsX(), m, keep) // not less than, unordered
	g.VDIVSS(m, top.AsX(), inv)
	g.VDIVSS(top.AsX(), m, scale)
	g.VPAND(keep, inv, inv)
	g.VPAND(keep, scale, scale)
	g.VMOVSS(scale, Mem{Base: dst, Disp: actScale})
	wide := g.V(10)
	g.VBROADCASTSS(inv, wide)
	for i := range vectors {
		g.VMULPS(wide, g.V(i), g.V(i))
		g.VCVTPS2DQ(g.V(i), g.V(i))
	}
	if g.Wide {
		for i := range vectors {
			g.VPMOVSDB(g.V(i), Mem{Base: dst, Disp: 16 * i})
		}
		g.VPADDD(g.V(1), g.V(0), tmp)
		g.VEXTRACTI64X4(U8(1), tmp, max.AsY())
		g.VPADDD(max.AsY(), tmp.AsY(), tmp.AsY())
	} else {
		g.VPADDD(g.V(1), g.V(0), tmp)
		g.VPADDD(g.V(3), g.V(2), max)
		g.VPADDD(max, tmp, tmp)
		g.VPACKSSDW(g.V(1), g.V(0), g.V(0))
		g.VPACKSSDW(g.V(3), g.V(2), g.V(2))
		g.VPACKSSWB(g.V(2), g.V(0), g.V(0))
		order := g.Table("quantOrder")
		for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
			g.AddDatum(4*i, U32(v))
		}
		g.VMOVDQU(order, g.V(1))
		g.VPERMD(g.V(0), g.V(1), g.V(0))
		g.VMOVDQU(g.V(0), Mem{Base: dst})
	}
	g.VEXTRACTI128(U8(1), tmp.AsY(), m)
	g.VPADDD(n, m, m)
	g.VPSHUFD(U8(0b01_00_11_10), m, n)
	g.VPADDD(n, m, m)
	g.VPSHUFD(U8(0b10_11_00_01), m, n)
	g.VPADDD(n, m, m)
	g.VPSLLD(U8(7), m, n)
	g.VPXOR(reg.X15, reg.X15, reg.X15)
	g.VPSUBD(n, reg.X15, n)
	g.VMOVD(n, Mem{Base: dst, Disp: actNeg})
	g.VCVTDQ2PS(m, m)
	g.VMULSS(scale, m, m)
	g.VMOVSS(m, Mem{Base: dst, Disp: actSum})
	g.ADDQ(U8(128), x)
	g.ADDQ(U8(actSize), dst)
	g.DECQ(blocks)
	g.JNZ(LabelRef(target + "Block"))
	g.VZEROUPPER()
	g.RET()
}
