// Command layer generates the row functions of transformer layers, in float32: norms, gated and Gaussian error linear
// units, and the rotation of positions, for AVX-512 and AVX2.
//
//	go run ./layer       # from internal/kern/_gen
package main

import (
	"flag"
	"log"
	"math"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/approx"
	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
	"github.com/randfeat/randfeat/internal/kern/_gen/vec"
)

func main() {
	flag.Parse()
	for _, wide := range []bool{true, false} {
		c := build.NewContext()
		g := &gen{Gen: vec.Gen{Context: c, Wide: wide}, at: map[string]int{}}
		g.constants()
		g.siluMul()
		g.gelu()
		g.geluTanh()
		g.norm("rmsNorm", false)
		g.norm("layerNorm", true)
		g.rotate()
		name := "layer_avx2_amd64.s"
		if wide {
			name = "layer_avx512_amd64.s"
		}
		if err := emit.File(c, name, "layer"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct {
	vec.Gen
	table Mem
	at    map[string]int
}

// mills are the coefficients of e^{t²/2}·Φ(−t) = Σ c_i u^{i+1}, u = 1/(1 + millsStep·t), for 0 ≤ t ≤ 14, relative error
// 2^-26. The form is that of Abramowitz and Stegun 7.1.26, with more terms.
var mills = []float64{0.08371156205919013, 0.08506906736602923, 0.06919079822581352, 0.1248777299087486,
	-0.09393633502713045, 0.34941649652822276, -0.330266563388619, 0.28359483812481695, -0.07165758695776199}

const millsStep = 0.21

// constants are vectors, so that every target can use them as memory operands.
func (g *gen) constants() {
	g.table = g.Table(g.Name("layerConsts"))
	off := 0
	put := func(name string, bits uint32) {
		g.at[name] = off
		for range g.Lanes() {
			g.AddDatum(off, U32(bits))
			off += 4
		}
	}
	num := func(name string, v float64) { put(name, math.Float32bits(float32(v))) }
	num("magic", 1.5*0x1p23)
	num("log2e", 1/math.Ln2)
	l := approx.Split(approx.Ln2, 2, false)
	num("ln2hi", l[0])
	num("ln2lo", l[1])
	num("lo", -87)
	num("hi", 88)
	num("one", 1)
	num("minusHalf", -0.5)
	num("far", 14)
	num("step", millsStep)
	num("tanh1", -2*math.Sqrt(2/math.Pi))
	num("tanh3", -2*math.Sqrt(2/math.Pi)*0.044715)
	put("sign", 1<<31)
	put("abs", 1<<31-1)
	for i, c := range approx.Exp(false) {
		num("e"+string(rune('0'+i)), c)
	}
	for i, c := range mills {
		num("m"+string(rune('0'+i)), c)
	}
}

func (g *gen) k(name string) Mem {
	at, ok := g.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return g.table.Offset(at)
}

func (g *gen) and(b, a, d Op) {
	if g.Wide {
		g.VPANDD(b, a, d)
	} else {
		g.VPAND(b, a, d)
	}
}

func (g *gen) xor(b, a, d Op) {
	if g.Wide {
		g.VPXORD(b, a, d)
	} else {
		g.VPXOR(b, a, d)
	}
}

func (g *gen) zero(d reg.VecPhysical) { g.xor(d, d, d) }

// exp sets p = e^x for x in [−87, 88]; x and z are lost.
func (g *gen) exp(x, z, p reg.VecPhysical) {
	g.VMOVUPS(g.k("log2e"), z)
	g.VFMADD213PS(g.k("magic"), x, z)
	g.VSUBPS(g.k("magic"), z, p)
	g.VFNMADD231PS(g.k("ln2hi"), p, x)
	g.VFNMADD231PS(g.k("ln2lo"), p, x)
	d := len(approx.Exp(false)) - 1
	g.VMOVUPS(g.k("e"+string(rune('0'+d))), p)
	for i := d - 1; i >= 0; i-- {
		g.VFMADD213PS(g.k("e"+string(rune('0'+i))), x, p)
	}
	g.VPSLLD(U8(23), z, z)
	g.VPADDD(z, p, p)
}

// each runs body on vectors of n elements: two at a time, then one by one, the last one masked. load and store are
// given the place of vector u and whether it is a tail.
func (g *gen) each(label string, n reg.GPVirtual, pointers []reg.Register, body func(unroll int, tail bool)) {
	const unroll = 2
	advance := func(u int) {
		for _, p := range pointers {
			g.ADDQ(U32(u*g.Bytes()), p)
		}
	}
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JLT(LabelRef(label + "Rest"))
	g.Label(label + "Pair")
	body(unroll, false)
	advance(unroll)
	g.SUBQ(U32(unroll*g.Lanes()), n)
	g.JGE(LabelRef(label + "Pair"))
	g.Label(label + "Rest")
	g.ADDQ(U32(unroll*g.Lanes()), n)
	g.JLE(LabelRef(label + "Done"))
	g.Label(label + "Tail")
	g.TailMask(n, g.V(15))
	body(1, true)
	advance(1)
	g.SUBQ(U32(g.Lanes()), n)
	g.JGT(LabelRef(label + "Tail"))
	g.Label(label + "Done")
}

func (g *gen) load(p reg.Register, u int, tail bool, d reg.VecPhysical) {
	m := Mem{Base: p, Disp: u * g.Bytes()}
	if tail {
		g.LoadTail(m, g.V(15), d)
	} else {
		g.VMOVUPS(m, d)
	}
}

func (g *gen) save(p reg.Register, u int, tail bool, s reg.VecPhysical) {
	m := Mem{Base: p, Disp: u * g.Bytes()}
	if tail {
		g.StoreTail(s, g.V(15), m)
	} else {
		g.VMOVUPS(s, m)
	}
}

func (g *gen) gp(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }

// clamp sets x = max(x, −87), NaN included: below, the units vanish, and 1 + e^87 is still finite.
func (g *gen) clamp(x, tmp reg.VecPhysical) {
	g.VMOVUPS(g.k("lo"), tmp)
	g.VMAXPS(x, tmp, x) // NaN is the second source, and the result
}

// siluMul is dst = dst/(1 + e^−dst)·up.
func (g *gen) siluMul() {
	g.Begin("siluMul", "dst, up *%[1]s, n int")
	dst, up, n := g.gp("dst"), g.gp("up"), g.gp("n")
	g.each(g.Name("siluMul"), n, []reg.Register{dst, up}, func(unroll int, tail bool) {
		for u := range unroll {
			x, y, z, p := g.V(u), g.V(2+u), g.V(4+u), g.V(6+u)
			g.load(dst, u, tail, x)
			g.clamp(x, z)
			g.xor(g.k("sign"), x, y)
			g.VMAXPS(g.k("lo"), y, y)
			g.exp(y, z, p)
			g.VADDPS(g.k("one"), p, p)
			g.VDIVPS(p, x, x)
			g.load(up, u, tail, y)
			g.VMULPS(y, x, x)
			g.save(dst, u, tail, x)
		}
	})
	g.VZEROUPPER()
	g.RET()
}

// gelu is x·Φ(x) = max(x, 0) − |x|·Φ(−|x|), the second factor by its Mills ratio. Above 14 the product is below
// 2^-135 and taken at 14.
func (g *gen) gelu() {
	g.Begin("gelu", "dst *%[1]s, n int")
	dst, n := g.gp("dst"), g.gp("n")
	g.each(g.Name("gelu"), n, []reg.Register{dst}, func(unroll int, tail bool) {
		for u := range unroll {
			x, t, y, z, p, v := g.V(u), g.V(2+u), g.V(4+u), g.V(6+u), g.V(8+u), g.V(10+u)
			g.load(dst, u, tail, x)
			g.and(g.k("abs"), x, t)
			g.VMINPS(g.k("far"), t, t)
			g.VMULPS(t, t, y)
			g.VMULPS(g.k("minusHalf"), y, y)
			g.VMAXPS(g.k("lo"), y, y)
			g.exp(y, z, p)
			g.VMOVUPS(g.k("one"), v)
			g.VMOVUPS(g.k("step"), z)
			g.VFMADD213PS(g.k("one"), t, z)
			g.VDIVPS(z, v, v)
			g.VMOVUPS(g.k("m8"), y)
			for i := len(mills) - 2; i >= 0; i-- {
				g.VFMADD213PS(g.k("m"+string(rune('0'+i))), v, y)
			}
			g.VMULPS(v, y, y)
			g.VMULPS(t, p, p)
			g.zero(z)
			g.VMAXPS(x, z, z) // NaN is the second source, and the result
			g.VFNMADD231PS(y, p, z)
			g.save(dst, u, tail, z)
		}
	})
	g.VZEROUPPER()
	g.RET()
}

// geluTanh is x·½(1 + tanh y) = x/(1 + e^−2y), y = √(2/π)·(x + 0.044715 x³).
func (g *gen) geluTanh() {
	g.Begin("geluTanh", "dst *%[1]s, n int")
	dst, n := g.gp("dst"), g.gp("n")
	g.each(g.Name("geluTanh"), n, []reg.Register{dst}, func(unroll int, tail bool) {
		for u := range unroll {
			x, y, z, p := g.V(u), g.V(2+u), g.V(4+u), g.V(6+u)
			g.load(dst, u, tail, x)
			g.clamp(x, z)
			g.VMULPS(x, x, y)
			g.VMOVUPS(g.k("tanh3"), z)
			g.VFMADD213PS(g.k("tanh1"), y, z)
			g.VMULPS(x, z, y)
			g.VMINPS(g.k("hi"), y, y)
			g.VMAXPS(g.k("lo"), y, y)
			g.exp(y, z, p)
			g.VADDPS(g.k("one"), p, p)
			g.VDIVPS(p, x, x)
			g.save(dst, u, tail, x)
		}
	})
	g.VZEROUPPER()
	g.RET()
}

// reduce leaves the sum of the elements of s in all of them.
func (g *gen) reduce(s, tmp reg.VecPhysical) {
	if g.Wide {
		g.VEXTRACTF64X4(U8(1), s, tmp.AsY())
		g.VADDPS(tmp.AsY(), s.AsY(), s.AsY())
	}
	x, t := s.AsX(), tmp.AsX()
	g.VEXTRACTF128(U8(1), s.AsY(), t)
	g.VADDPS(t, x, x)
	g.VPERMILPD(U8(1), x, t)
	g.VADDPS(t, x, x)
	g.VPERMILPS(U8(1), x, t)
	g.VADDSS(t, x, x)
	g.VBROADCASTSS(x, s)
}

// norm is a row's (x − mean)/√(var + eps)·w + b, or without mean and b the same of the mean square. Three passes over a
// row in the first-level cache: sums of few lanes each keep the rounding small.
func (g *gen) norm(op string, centre bool) {
	if centre {
		g.Begin(op, "dst, x, w, b *%[1]s, n int, eps %[1]s")
	} else {
		g.Begin(op, "dst, x, w *%[1]s, n int, eps %[1]s")
	}
	name := g.Name(op)
	mean, sum, count := g.V(12), g.V(10), g.V(13)
	n := g.gp("n")
	first := g.gp("x")
	g.VCVTSI2SSQ(n, count.AsX(), count.AsX())
	x, left := g.GP64(), g.GP64()
	g.zero(mean)
	total := func(label string, add func(v reg.VecPhysical, u int, tail bool)) {
		g.zero(sum)
		g.zero(g.V(11))
		g.MOVQ(first, x)
		g.MOVQ(n, left)
		g.each(label, left, []reg.Register{x}, func(unroll int, tail bool) {
			for u := range unroll {
				g.load(x, u, tail, g.V(u))
				add(g.V(u), u, tail)
			}
		})
		g.VADDPS(g.V(11), sum, sum)
		g.reduce(sum, g.V(0))
		g.VBROADCASTSS(count.AsX(), g.V(0))
		g.VDIVPS(g.V(0), sum, sum)
	}
	if centre {
		total(name+"Mean", func(v reg.VecPhysical, u int, tail bool) { g.VADDPS(v, g.V(10+u), g.V(10+u)) })
		g.VMOVAPS(sum, mean)
	}
	total(name+"Square", func(v reg.VecPhysical, u int, tail bool) {
		if centre {
			switch {
			case tail && g.Wide:
				g.VSUBPS_Z(mean, v, reg.K7, v)
			case tail:
				g.VSUBPS(mean, v, v)
				g.VPAND(g.V(15), v, v)
			default:
				g.VSUBPS(mean, v, v)
			}
		}
		g.VFMADD231PS(v, v, g.V(10+u))
	})
	eps, err := g.Param("eps").Resolve()
	if err != nil {
		panic(err)
	}
	factor := g.V(14)
	g.VBROADCASTSS(eps.Addr, factor)
	g.VADDPS(sum, factor, factor)
	g.VSQRTPS(factor, factor)
	g.VMOVUPS(g.k("one"), sum)
	g.VDIVPS(factor, sum, factor)
	dst, w := g.gp("dst"), g.gp("w")
	g.MOVQ(first, x)
	pointers := []reg.Register{dst, x, w}
	var b reg.GPVirtual
	if centre {
		b = g.gp("b")
		pointers = append(pointers, b)
	}
	g.each(name+"Write", n, pointers, func(unroll int, tail bool) {
		for u := range unroll {
			v, wv := g.V(u), g.V(2+u)
			g.load(x, u, tail, v)
			g.load(w, u, tail, wv)
			if centre {
				g.VSUBPS(mean, v, v)
			}
			g.VMULPS(factor, v, v)
			if centre {
				g.load(b, u, tail, g.V(4+u))
				g.VFMADD213PS(g.V(4+u), wv, v)
			} else {
				g.VMULPS(wv, v, v)
			}
			g.save(dst, u, tail, v)
		}
	})
	g.VZEROUPPER()
	g.RET()
}

// rotate turns the pairs (x_c, y_c) by the angles whose cosines and sines are given.
func (g *gen) rotate() {
	g.Begin("rotate", "x, y, cos, sin *%[1]s, n int")
	x, y, cos, sin, n := g.gp("x"), g.gp("y"), g.gp("cos"), g.gp("sin"), g.gp("n")
	g.each(g.Name("rotate"), n, []reg.Register{x, y, cos, sin}, func(unroll int, tail bool) {
		for u := range unroll {
			a, b, c, s, d := g.V(u), g.V(2+u), g.V(4+u), g.V(6+u), g.V(8+u)
			g.load(x, u, tail, a)
			g.load(y, u, tail, b)
			g.load(cos, u, tail, c)
			g.load(sin, u, tail, s)
			g.VMULPS(s, b, d)
			g.VFMSUB231PS(c, a, d)
			g.VMULPS(s, a, a)
			g.VFMADD231PS(c, b, a)
			g.save(x, u, tail, d)
			g.save(y, u, tail, a)
		}
	})
	g.VZEROUPPER()
	g.RET()
}
