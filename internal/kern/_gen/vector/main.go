// Command vector generates the plain vector operations of package kern: sums, products, and the transposition that
// packs matrices. For the simplest ones 256-bit vectors serve AVX-512 too: these loops wait for memory, not for
// arithmetic.
//
//	go run ./vector      # from internal/kern/_gen
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

func main() {
	flag.Parse()
	for _, is512 := range []bool{true, false} {
		c := build.NewContext()
		for _, f64 := range []bool{false, true} {
			if !is512 {
				g := gen{c, f64}
				g.norm2()
				g.mul()
				g.scale()
			}
			g := wide{vec.Gen{Context: c, Wide: is512, F64: f64}}
			g.norms()
			g.colSum()
			g.mulV()
			g.mulAdd()
			g.absSums()
			g.mulRows()
			g.addDots()
			g.pack()
			g.gather()
			if is512 {
				g.above()
			}
			if !f64 {
				g.widen()
				g.narrow()
			}
		}
		name := "vector_avx2_amd64.s"
		if is512 {
			name = "vector_avx512_amd64.s"
		}
		if err := emit.File(c, name, "vector"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct {
	*build.Context
	f64 bool
}

func (g gen) size() int {
	if g.f64 {
		return 8
	}
	return 4
}

func (g gen) begin(op, signature string) {
	name, typ := op+"AVX2F32", "float32"
	if g.f64 {
		name, typ = op+"AVX2F64", "float64"
	}
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr(fmt.Sprintf(signature, typ))
}

// loop runs body for every step elements; n is a positive multiple of step.
func (g gen) loop(label string, n reg.Register, step int, body func(), pointers ...reg.Register) {
	g.Label(label)
	body()
	for _, p := range pointers {
		g.ADDQ(Imm(uint64(step*g.size())), p)
	}
	g.SUBQ(Imm(uint64(step)), n)
	g.JNZ(LabelRef(label))
}

// norm2 keeps four vectors of partial sums: enough to hide the latency of the additions.
func (g gen) norm2() {
	g.begin("norm2", "func(x *%s, n int) float64")
	x, n := g.Load(g.Param("x"), g.GP64()), g.Load(g.Param("n"), g.GP64())
	var sums [4]reg.VecVirtual
	for i := range sums {
		sums[i] = g.YMM()
		g.VXORPD(sums[i], sums[i], sums[i])
	}
	g.loop("loop", n, 16, func() {
		for i := range sums {
			v := g.YMM()
			if g.f64 {
				g.VMOVUPD(Mem{Base: x, Disp: 32 * i}, v)
			} else {
				g.VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
			}
			g.VFMADD231PD(v, v, sums[i])
		}
	}, x)
	g.VADDPD(sums[2], sums[0], sums[0])
	g.VADDPD(sums[3], sums[1], sums[1])
	g.VADDPD(sums[1], sums[0], sums[0])
	high := g.XMM()
	g.VEXTRACTF128(Imm(1), sums[0], high)
	low := sums[0].AsX()
	g.VADDPD(high, low, low)
	g.VPERMILPD(Imm(1), low, high)
	g.VADDSD(high, low, low)
	g.VZEROUPPER()
	g.Store(low, g.ReturnIndex(0))
	g.RET()
}

func (g gen) lanes() int { return 32 / g.size() }

func (g gen) mul() {
	g.begin("mul", "func(dst, a *%s, n int)")
	dst, a, n := g.Load(g.Param("dst"), g.GP64()), g.Load(g.Param("a"), g.GP64()), g.Load(g.Param("n"), g.GP64())
	g.loop("loop", n, g.lanes(), func() {
		v := g.YMM()
		g.VMOVUPS(Mem{Base: dst}, v)
		if g.f64 {
			g.VMULPD(Mem{Base: a}, v, v)
		} else {
			g.VMULPS(Mem{Base: a}, v, v)
		}
		g.VMOVUPS(v, Mem{Base: dst})
	}, dst, a)
	g.VZEROUPPER()
	g.RET()
}

func (g gen) scale() {
	g.begin("scale", "func(dst *%[1]s, n int, f %[1]s)")
	dst, n := g.Load(g.Param("dst"), g.GP64()), g.Load(g.Param("n"), g.GP64())
	f, x := g.YMM(), g.XMM()
	g.Load(g.Param("f"), x)
	if g.f64 {
		g.VBROADCASTSD(x, f)
	} else {
		g.VBROADCASTSS(x, f)
	}
	g.loop("loop", n, g.lanes(), func() {
		v := g.YMM()
		if g.f64 {
			g.VMULPD(Mem{Base: dst}, f, v)
		} else {
			g.VMULPS(Mem{Base: dst}, f, v)
		}
		g.VMOVUPS(v, Mem{Base: dst})
	}, dst)
	g.VZEROUPPER()
	g.RET()
}
