// Command scan generates the search in sketches of keys, for AVX-512 with VNNI and for AVX2.
//
//	go run ./scan       # from internal/kern/_gen
//
// The layout is that of scan.go in package kern: a vector of 64 bytes has the codes of 16 columns of 16 keys, in four
// pairs of bits per byte. Every lane of 32 bits belongs to a key, so that one vector of codes meets one broadcast group
// of four numbers of a query, and every lane sums its own key.
package main

import (
	"flag"
	"fmt"
	"log"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

// Rows of queries of one kernel. Those of AVX2 have no registers to share the codes of several rows.
const mostWide, mostNarrow = 4, 2

func main() {
	flag.Parse()
	for _, wide := range []bool{true, false} {
		c := build.NewContext()
		g := &gen{vec.Gen{Context: c, Wide: wide}}
		most := mostNarrow
		if wide {
			most = mostWide
		}
		for rows := 1; rows <= most; rows++ {
			g.scan(rows)
		}
		name := "scan_avx2_amd64.s"
		if wide {
			name = "scan_avx512_amd64.s"
		}
		if err := emit.File(c, name, "scan"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct{ vec.Gen }

// scan sets bit i of mask[b] if the sum of some row for key i of block b is at least low of the row. Other bits stay.
//
//	low, q     one number and 4·columns bytes per row
//	columns    of a group of four bytes of q: 4 times the vectors of a block
func (g *gen) scan(rows int) {
	name := fmt.Sprintf("scan%dAVX2", rows)
	if g.Wide {
		name = fmt.Sprintf("scan%dAVX512", rows)
	}
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func(mask *uint16, codes *byte, q *int8, low *int32, stride int, blocks int)")
	mask, codes := g.Load(g.Param("mask"), g.GP64()), g.Load(g.Param("codes"), g.GP64())
	low, stride := g.Load(g.Param("low"), g.GP64()), g.Load(g.Param("stride"), g.GP64())
	blocks := g.Load(g.Param("blocks"), g.GP64())
	q := []reg.Register{g.Load(g.Param("q"), g.GP64())}
	for r := 1; r < rows; r++ {
		p := g.GP64()
		g.MOVQ(q[r-1], p)
		g.ADDQ(stride, p)
		q = append(q, p)
	}
	at := g.GP64()
	three := g.V(15)
	c := g.GP32()
	g.MOVL(U32(0x03030303), c)
	if g.Wide {
		g.wide(name, mask, codes, low, stride, blocks, at, c, three, q)
	} else {
		g.narrow(name, mask, codes, low, stride, blocks, at, c, three, q)
	}
	g.VZEROUPPER()
	g.RET()
}

func (g *gen) wide(name string, mask, codes, low, stride, blocks, at, c reg.Register, three reg.VecPhysical,
	q []reg.Register) {
	sum, odd := g.V, func(r int) reg.VecPhysical { return g.V(4 + r) } // two sums of a row: a chain is half as long
	least := func(r int) reg.VecPhysical { return g.V(8 + r) }
	v, u := g.V(16), func(i int) reg.VecPhysical { return g.V(17 + i) }
	g.VPBROADCASTD(c, three)
	for r := range q {
		g.VPBROADCASTD(Mem{Base: low, Disp: 4 * r}, least(r))
	}
	emit.AlignLoop(g.Context)
	g.Label(name + "Block")
	for r := range q {
		g.VPXORD(sum(r), sum(r), sum(r))
		g.VPXORD(odd(r), odd(r), odd(r))
	}
	g.XORQ(at, at)
	g.Label(name + "Vector")
	g.VMOVDQU32(Mem{Base: codes}, v)
	g.VPANDD(three, v, u(0))
	for i := 1; i < 4; i++ {
		g.VPSRLD(U8(2*i), v, u(i))
		g.VPANDD(three, u(i), u(i))
	}
	for i := range 4 {
		for r := range q {
			to := sum(r)
			if i%2 == 1 {
				to = odd(r)
			}
			g.VPDPBUSD_BCST(Mem{Base: q[r], Index: at, Scale: 1, Disp: 4 * i}, u(i), to)
		}
	}
	g.ADDQ(U8(64), codes)
	g.ADDQ(U8(16), at)
	g.CMPQ(at, stride)
	g.JLT(LabelRef(name + "Vector"))
	for r := range q {
		g.VPADDD(odd(r), sum(r), sum(r))
		k := reg.K1
		if r > 0 {
			k = reg.K2
		}
		g.VPCMPD(U8(5), least(r), sum(r), k) // not less than
		if r > 0 {
			g.KORW(reg.K2, reg.K1, reg.K1)
		}
	}
	bits := g.GP32()
	g.KMOVW(reg.K1, bits)
	g.ORW(bits.As16(), Mem{Base: mask})
	g.ADDQ(U8(2), mask)
	g.DECQ(blocks)
	g.JNZ(LabelRef(name + "Block"))
}

// narrow takes the two halves of a block one after the other. Pairs of products are summed in 16 bits: at most 8·3·127.
func (g *gen) narrow(name string, mask, codes, low, stride, blocks, at, c reg.Register, three reg.VecPhysical,
	q []reg.Register) {
	sum, least := g.V, func(r int) reg.VecPhysical { return g.V(4 + r) }
	v, u, y, pair, ones := g.V(8), g.V(9), g.V(10), g.V(11), g.V(14)
	g.VMOVD(c, three.AsX())
	g.VPBROADCASTD(three.AsX(), three)
	one := g.GP32()
	g.MOVL(U32(0x00010001), one)
	g.VMOVD(one, ones.AsX())
	g.VPBROADCASTD(ones.AsX(), ones)
	for r := range q {
		g.VPBROADCASTD(Mem{Base: low, Disp: 4 * r}, least(r))
	}
	from := g.GP64()
	g.Label(name + "Block")
	for half := range 2 {
		loop := fmt.Sprintf("%sVector%d", name, half)
		for r := range q {
			g.VPXOR(sum(r), sum(r), sum(r))
		}
		g.XORQ(at, at)
		g.MOVQ(codes, from)
		g.Label(loop)
		g.VMOVDQU(Mem{Base: from, Disp: 32 * half}, v)
		for r := range q {
			for i := range 4 {
				if i == 0 {
					g.VPAND(three, v, u)
				} else {
					g.VPSRLD(U8(2*i), v, u)
					g.VPAND(three, u, u)
				}
				g.VPBROADCASTD(Mem{Base: q[r], Index: at, Scale: 1, Disp: 4 * i}, y)
				if i == 0 {
					g.VPMADDUBSW(y, u, pair)
				} else {
					g.VPMADDUBSW(y, u, y)
					g.VPADDW(y, pair, pair)
				}
			}
			g.VPMADDWD(ones, pair, pair)
			g.VPADDD(pair, sum(r), sum(r))
		}
		g.ADDQ(U8(64), from)
		g.ADDQ(U8(16), at)
		g.CMPQ(at, stride)
		g.JLT(LabelRef(loop))
		// least > sum is the complement of what is wanted, so the complements meet in all rows.
		for r := range q {
			g.VPCMPGTD(sum(r), least(r), sum(r))
			if r > 0 {
				g.VPAND(sum(r), sum(0), sum(0))
			}
		}
		bits := g.GP32()
		g.VMOVMSKPS(sum(0), bits)
		g.NOTL(bits)
		g.ORB(bits.As8(), Mem{Base: mask, Disp: half})
	}
	g.MOVQ(from, codes)
	g.ADDQ(U8(2), mask)
	g.DECQ(blocks)
	g.JNZ(LabelRef(name + "Block"))
}
