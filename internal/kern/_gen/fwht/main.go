// Command fwht generates the Walsh–Hadamard kernels of package kern for AVX-512 and AVX2, in both precisions.
//
//	go run ./fwht        # from internal/kern/_gen
//
// Every butterfly computes a + b and a − b from the operands the plain Go transform uses, level by level, so results
// equal it bit for bit. Inside a vector a − b is written (−b) + a, which rounds alike; FMA with ±1 would save an
// instruction but takes a microcode assist for every subnormal number, additions do not.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

func main() {
	flag.Parse()
	for _, wide := range []bool{true, false} {
		c := build.NewContext()
		for _, f64 := range []bool{false, true} {
			g := &gen{Gen: vec.Gen{Context: c, Wide: wide, F64: f64}}
			g.signs()
			g.block()
			g.pass()
		}
		name := "fwht_avx2_amd64.s"
		if wide {
			name = "fwht_avx512_amd64.s"
		}
		if err := emit.File(c, name, "fwht"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct {
	vec.Gen
	sign Mem // one vector per level inside a vector: −0 where the lower operand goes
}

// radix is the number of vectors a block holds in registers, and the largest of a pass.
func (g *gen) radix() int {
	if g.Wide {
		return 16
	}
	return 8
}

func (g *gen) signs() {
	g.sign = g.Table(g.Name("fwht") + "Signs")
	off := 0
	for h := 1; h < g.Lanes(); h *= 2 {
		for i := range g.Lanes() {
			negative := i&h != 0
			switch {
			case g.F64 && negative:
				g.AddDatum(off, U64(1<<63))
			case g.F64:
				g.AddDatum(off, U64(0))
			case negative:
				g.AddDatum(off, U32(1<<31))
			default:
				g.AddDatum(off, U32(0))
			}
			off += g.Size()
		}
	}
}

// swap sets t to x with the elements h apart exchanged.
func (g *gen) swap(h int, x, t reg.VecPhysical) {
	switch bytes := h * g.Size(); {
	case bytes == 4:
		g.VPERMILPS(U8(0xb1), x, t)
	case bytes == 8 && g.F64 && g.Wide:
		g.VPERMILPD(U8(0x55), x, t)
	case bytes == 8 && g.F64:
		g.VPERMILPD(U8(0x5), x, t)
	case bytes == 8:
		g.VPERMILPS(U8(0x4e), x, t)
	case bytes == 16 && g.Wide:
		g.VSHUFF64X2(U8(0xb1), x, x, t)
	case bytes == 16:
		g.VPERM2F128(U8(0x01), x, x, t)
	case bytes == 32:
		g.VSHUFF64X2(U8(0x4e), x, x, t)
	default:
		panic("swap")
	}
}

// within transforms each of the r vectors by itself.
func (g *gen) within(x []reg.VecPhysical, free []reg.VecPhysical, signs []reg.VecPhysical) {
	for h, l := 1, 0; h < g.Lanes(); h, l = 2*h, l+1 {
		for i, v := range x {
			t := free[i%len(free)]
			g.swap(h, v, t)
			g.Xor(signs[l], v, v)
			g.Add(t, v, v)
		}
	}
}

// across is the transform over the vectors x. One spare register replaces moves: names rotate.
func (g *gen) across(x []reg.VecPhysical, free []reg.VecPhysical) {
	next := 0
	for h := 1; h < len(x); h *= 2 {
		for i := range x {
			if i&h != 0 {
				continue
			}
			a, b, t := x[i], x[i+h], free[next]
			g.Add(b, a, t)
			g.Sub(b, a, b)
			x[i], free[next] = t, a
			next = (next + 1) % len(free)
		}
	}
}

func (g *gen) registers(r int) (x, free, signs []reg.VecPhysical) {
	levels := int(math.Log2(float64(g.Lanes())))
	for i := range r {
		x = append(x, g.V(i))
	}
	top := g.Registers()
	for l := range levels {
		signs = append(signs, g.V(top-1-l))
	}
	for i := r; i < top-levels; i++ {
		free = append(free, g.V(i))
	}
	return x, free, signs
}

// block emits func(x *T, n int): the transform of n elements, n from one vector to radix vectors, or of every full
// block of radix vectors if there are more.
func (g *gen) block() {
	g.Begin("fwhtBlock", "x *%s, n int")
	x := g.Load(g.Param("x"), g.GP64())
	n := g.Load(g.Param("n"), g.GP64())
	_, _, signs := g.registers(1)
	for l, s := range signs {
		g.VMOVUPS(g.sign.Offset(l*g.Bytes()), s)
	}
	lbl := g.Name("fwhtBlock")
	for r := g.radix(); r >= 1; r /= 2 {
		here := fmt.Sprintf("%s%d", lbl, r)
		if r > 1 {
			g.CMPQ(n, U32(r*g.Lanes()))
			g.JLT(LabelRef(fmt.Sprintf("%s%d", lbl, r/2)))
		}
		if r == g.radix() {
			g.Label(here + "Loop")
		}
		v, free, signs := g.registers(r)
		for i := range v {
			g.VMOVUPS(Mem{Base: x, Disp: i * g.Bytes()}, v[i])
		}
		g.within(v, free, signs)
		g.across(v, free)
		for i := range v {
			g.VMOVUPS(v[i], Mem{Base: x, Disp: i * g.Bytes()})
		}
		if r == g.radix() {
			g.ADDQ(U32(r*g.Bytes()), x)
			g.SUBQ(U32(r*g.Lanes()), n)
			g.JNZ(LabelRef(here + "Loop"))
		}
		g.VZEROUPPER()
		g.RET()
		if r > 1 {
			g.Label(fmt.Sprintf("%s%d", lbl, r/2))
		}
	}
}

// pass emits func(x *T, h, count, radix int): the transform over radix elements h apart, for count neighbours, a
// multiple of the vector. radix is 2, 4, …, at most the number of vectors in a block.
func (g *gen) pass() {
	g.Begin("fwhtPass", "x *%s, h, count, radix int")
	x := g.Load(g.Param("x"), g.GP64())
	h := g.Load(g.Param("h"), g.GP64())
	count := g.Load(g.Param("count"), g.GP64())
	radix := g.Load(g.Param("radix"), g.GP64())
	g.SHLQ(U8(g.Shift()), h)
	h3 := g.GP64()
	g.LEAQ(Mem{Base: h, Index: h, Scale: 2}, h3)
	lbl := g.Name("fwhtPass")
	for r := g.radix(); r >= 2; r /= 2 {
		here := fmt.Sprintf("%s%d", lbl, r)
		if r > 2 {
			g.CMPQ(radix, U32(r))
			g.JLT(LabelRef(fmt.Sprintf("%s%d", lbl, r/2)))
		}
		// Four rows from each base: 0, h, 2h, 3h.
		bases := []reg.Register{x}
		for i := 4; i < r; i += 4 {
			b := g.GP64()
			g.LEAQ(Mem{Base: bases[len(bases)-1], Index: h, Scale: 4}, b)
			bases = append(bases, b)
		}
		row := func(i int) Mem {
			switch b := bases[i/4]; i % 4 {
			case 0:
				return Mem{Base: b}
			case 3:
				return Mem{Base: b, Index: h3, Scale: 1}
			default:
				return Mem{Base: b, Index: h, Scale: uint8(i % 4)}
			}
		}
		g.Label(here + "Loop")
		v, free, _ := g.registers(r)
		for i := range v {
			g.VMOVUPS(row(i), v[i])
		}
		g.across(v, free)
		for i := range v {
			g.VMOVUPS(v[i], row(i))
		}
		for _, b := range bases {
			g.ADDQ(U32(g.Bytes()), b)
		}
		g.SUBQ(U32(g.Lanes()), count)
		g.JNZ(LabelRef(here + "Loop"))
		g.VZEROUPPER()
		g.RET()
		if r > 2 {
			g.Label(fmt.Sprintf("%s%d", lbl, r/2))
		}
	}
}
