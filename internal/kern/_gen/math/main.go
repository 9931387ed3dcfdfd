// Command math generates the elementwise kernels of package kern: exp, exp2, log, sin and cos, max, for AVX-512 and
// AVX2, in both precisions.
//
//	go run ./math        # from internal/kern/_gen
//
// Every element passes through the same vector instructions wherever it lies: tails are masked vectors, and the
// cheaper path taken by groups without large arguments rounds like the complete one. So results never depend on
// position or batch.
package main

import (
	"flag"
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
			g.exp("exp", exponential(math.E, g), false)
			g.exp("expSum", exponential(math.E, g), true)
			g.exp("exp2", exponential(2, g), false)
			g.log()
			g.sinCos()
			g.max("max")
			g.max("rowMax")
			g.max("flushMax")
		}
		name := "math_avx2_amd64.s"
		if wide {
			name = "math_avx512_amd64.s"
		}
		if err := emit.File(c, name, "math"); err != nil {
			log.Fatal(err)
		}
	}
}

type gen struct {
	vec.Gen
	table   Mem            // constants of the function at hand
	at      map[string]int // their place
	hoisted map[string]reg.VecPhysical
	next    int // first register not taken by a hoisted constant, counted down
}

// mant is the number of stored mantissa bits, bias that of the exponent.
func (g *gen) mant() int {
	if g.F64 {
		return 52
	}
	return 23
}

func (g *gen) bias() int {
	if g.F64 {
		return 1023
	}
	return 127
}

// pow2 is 2^k.
func pow2(k int) float64 { return math.Ldexp(1, k) }

// konst is a constant by name: a number rounded to the precision at hand, raw bits, or a table of one vector.
type konst struct {
	name string
	val  float64
	bits uint64
	raw  bool
	tab  []float64
}

func num(name string, v float64) konst   { return konst{name: name, val: v} }
func raw(name string, b uint64) konst    { return konst{name: name, bits: b, raw: true} }
func tab(name string, t []float64) konst { return konst{name: name, tab: t} }

// constants declares the constants of a function, each as wide as a vector (AVX2, where they are memory operands) or
// as one element to broadcast (AVX-512, where hoist keeps them in registers).
func (g *gen) constants(op string, list ...konst) {
	g.table = g.Table(g.Name(op) + "Consts")
	g.at, g.hoisted, g.next = map[string]int{}, map[string]reg.VecPhysical{}, 31
	off := 0
	put := func(b uint64) {
		if g.F64 {
			g.AddDatum(off, U64(b))
		} else {
			g.AddDatum(off, U32(b))
		}
		off += g.Size()
	}
	bitsOf := func(v float64) uint64 {
		if g.F64 {
			return math.Float64bits(v)
		}
		return uint64(math.Float32bits(float32(v)))
	}
	for pass := range 2 { // vectors first, so that they are aligned like the table
		for _, k := range list {
			if (k.tab != nil) != (pass == 0) {
				continue
			}
			g.at[k.name] = off
			if k.tab != nil {
				for _, v := range k.tab {
					put(bitsOf(v))
				}
				continue
			}
			b := k.bits
			if !k.raw {
				b = bitsOf(k.val)
			}
			if g.Wide {
				put(b)
				continue
			}
			if !g.F64 {
				b |= b << 32
			}
			for range 4 {
				g.AddDatum(off, U64(b))
				off += 8
			}
		}
	}
}

// hoist loads constants into the highest registers (AVX-512 only).
func (g *gen) hoist(names ...string) {
	if !g.Wide {
		return
	}
	for _, n := range names {
		r := g.V(g.next)
		g.next--
		g.broadcast(n, r)
		g.hoisted[n] = r
	}
}

func (g *gen) hoistTable(name string) {
	r := g.V(g.next)
	g.next--
	g.VMOVUPS(g.mem(name), r)
	g.hoisted[name] = r
}

func (g *gen) mem(name string) Mem {
	at, ok := g.at[name]
	if !ok {
		panic("no constant " + name)
	}
	return g.table.Offset(at)
}

func (g *gen) broadcast(name string, r reg.VecPhysical) {
	switch {
	case !g.Wide:
		g.VMOVUPS(g.mem(name), r)
	case g.F64:
		g.VBROADCASTSD(g.mem(name), r)
	default:
		g.VBROADCASTSS(g.mem(name), r)
	}
}

// k is a constant as an operand.
func (g *gen) k(name string) Op {
	if r, ok := g.hoisted[name]; ok {
		return r
	}
	if g.Wide {
		panic(name + " is not hoisted")
	}
	return g.mem(name)
}

// set copies a constant to r.
func (g *gen) set(name string, r reg.VecPhysical) {
	if k, ok := g.hoisted[name]; ok {
		g.VMOVAPS(k, r)
		return
	}
	g.broadcast(name, r)
}

// More arithmetic.
func (g *gen) div(b, a, d Op)     { g.Pick(g.VDIVPS, g.VDIVPD)(b, a, d) }
func (g *gen) fma213(c, b, d Op)  { g.Pick(g.VFMADD213PS, g.VFMADD213PD)(c, b, d) }   // d = b·d + c
func (g *gen) fma231(c, b, d Op)  { g.Pick(g.VFMADD231PS, g.VFMADD231PD)(c, b, d) }   // d = b·c + d
func (g *gen) fnma231(c, b, d Op) { g.Pick(g.VFNMADD231PS, g.VFNMADD231PD)(c, b, d) } // d = d − b·c
func (g *gen) and(b, a, d Op)     { g.Pick(g.VANDPS, g.VANDPD)(b, a, d) }
func (g *gen) or(b, a, d Op)      { g.Pick(g.VORPS, g.VORPD)(b, a, d) }

// The second source of VMAX and VMIN survives when either is NaN: x goes there.
func (g *gen) atLeast(c, x reg.VecPhysical) { g.Pick(g.VMAXPS, g.VMAXPD)(x, c, x) }
func (g *gen) atMost(c, x reg.VecPhysical)  { g.Pick(g.VMINPS, g.VMINPD)(x, c, x) }

func (g *gen) addInt(b, a, d Op) {
	if g.F64 {
		g.VPADDQ(b, a, d)
	} else {
		g.VPADDD(b, a, d)
	}
}

func (g *gen) subInt(b, a, d Op) {
	if g.F64 {
		g.VPSUBQ(b, a, d)
	} else {
		g.VPSUBD(b, a, d)
	}
}

func (g *gen) shl(n int, a, d Op) {
	if g.F64 {
		g.VPSLLQ(U8(n), a, d)
	} else {
		g.VPSLLD(U8(n), a, d)
	}
}

func (g *gen) shr(n int, a, d Op) {
	if g.F64 {
		g.VPSRLQ(U8(n), a, d)
	} else {
		g.VPSRLD(U8(n), a, d)
	}
}

// Predicates of VCMP, all quiet.
const (
	ltOQ    = 0x11
	unordQ  = 0x03
	nltUQ   = 0x15
	nleUQ   = 0x16
	geOQ    = 0x1d
	gtOQ    = 0x1e
	eqOQ    = 0x00
	ngeUQ   = 0x19
	absMax  = 0x0b // VRANGE: the larger absolute value
	signMax = 0x05 // VRANGE: the larger value, −0 below +0
)

// cmp sets d (a mask register for AVX-512, all ones or zeros for AVX2) where a ∘ b.
func (g *gen) cmp(pred int, b, a, d Op) {
	if g.Wide {
		g.Pick(g.VCMPPS, g.VCMPPD)(U8(pred), b, a, d)
		return
	}
	if g.F64 {
		g.VCMPPD(U8(pred), b, a, d)
	} else {
		g.VCMPPS(U8(pred), b, a, d)
	}
}

// blend is d = mask ? b : a (AVX2).
func (g *gen) blend(mask, b, a, d Op) {
	if g.F64 {
		g.VBLENDVPD(mask, b, a, d)
	} else {
		g.VBLENDVPS(mask, b, a, d)
	}
}

// anyMask jumps to label if a lane of the mask is set: K1, or the vector m.
func (g *gen) ifAny(m reg.VecPhysical, label string) {
	if g.Wide {
		g.KTESTW(reg.K1, reg.K1)
	} else {
		r := g.GP32()
		if g.F64 {
			g.VMOVMSKPD(m, r)
		} else {
			g.VMOVMSKPS(m, r)
		}
		g.TESTL(r, r)
	}
	g.JNZ(LabelRef(label))
}
