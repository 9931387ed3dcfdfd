// Package vec holds what generators of vector code share: a target and a precision as one value.
package vec

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Gen emits for AVX-512 (Wide) or AVX2, in float64 (F64) or float32. Registers are physical: the schedules interleave
// vectors by hand.
type Gen struct {
	*build.Context
	Wide, F64 bool
}

var (
	zmm = []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12,
		reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27,
		reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
	ymm = []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12,
		reg.Y13, reg.Y14, reg.Y15,
	}
)

// V is vector register i.
func (g *Gen) V(i int) reg.VecPhysical {
	if g.Wide {
		return zmm[i]
	}
	return ymm[i]
}

// Registers is the number of vector registers.
func (g *Gen) Registers() int {
	if g.Wide {
		return len(zmm)
	}
	return len(ymm)
}

// Bytes of a vector.
func (g *Gen) Bytes() int {
	if g.Wide {
		return 64
	}
	return 32
}

// Size of an element.
func (g *Gen) Size() int {
	if g.F64 {
		return 8
	}
	return 4
}

// Lanes is the number of elements in a vector.
func (g *Gen) Lanes() int { return g.Bytes() / g.Size() }

// Shift is log₂ of Size.
func (g *Gen) Shift() int {
	if g.F64 {
		return 3
	}
	return 2
}

// Name of an operation, as in expAVX2F32.
func (g *Gen) Name(op string) string {
	n := op + "AVX2"
	if g.Wide {
		n = op + "AVX512"
	}
	if g.F64 {
		return n + "F64"
	}
	return n + "F32"
}

// Begin starts a function. args is its signature without func and the outer parentheses, with %[1]s for the element.
func (g *Gen) Begin(op, args string) {
	t := "float32"
	if g.F64 {
		t = "float64"
	}
	g.Function(g.Name(op))
	g.Attributes(attr.NOSPLIT)
	g.SignatureExpr("func(" + fmt.Sprintf(args, t) + ")")
}

// Table starts a read-only global.
func (g *Gen) Table(name string) operand.Mem {
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	return m
}

// Pick chooses the instruction of the precision.
func (g *Gen) Pick(ps, pd func(...operand.Op)) func(...operand.Op) {
	if g.F64 {
		return pd
	}
	return ps
}

// Add, Sub, Mul follow the operand order of Go's assembler: Sub(b, a, d) is d = a − b.
func (g *Gen) Add(b, a, d operand.Op) { g.Pick(g.VADDPS, g.VADDPD)(b, a, d) }
func (g *Gen) Sub(b, a, d operand.Op) { g.Pick(g.VSUBPS, g.VSUBPD)(b, a, d) }
func (g *Gen) Mul(b, a, d operand.Op) { g.Pick(g.VMULPS, g.VMULPD)(b, a, d) }
func (g *Gen) Xor(b, a, d operand.Op) { g.Pick(g.VXORPS, g.VXORPD)(b, a, d) }

// TailMask sets the mask of the first min(n, lanes) elements: K7 for AVX-512, register m for AVX2, whose masks are
// read from a sliding window over ones and zeros.
func (g *Gen) TailMask(n reg.GPVirtual, m reg.VecPhysical) {
	if g.Wide {
		r := g.GP64()
		g.MOVQ(operand.I64(-1), r)
		g.BZHIQ(n, r, r)
		g.KMOVW(r.As32(), reg.K7)
		return
	}
	r, base := g.GP64(), g.GP64()
	g.MOVQ(operand.U32(g.Lanes()), r)
	g.CMPQ(n, r)
	g.CMOVQLT(n, r)
	g.LEAQ(g.window(), base)
	g.NEGQ(r)
	g.VMOVUPS(operand.Mem{Base: base, Index: r, Scale: uint8(g.Size()), Disp: 32}, m)
}

// windows has the table of masks of every file.
var windows = map[*build.Context]operand.Mem{}

func (g *Gen) window() operand.Mem {
	w, ok := windows[g.Context]
	if !ok {
		w = g.Table("tailWindow")
		for i := range 8 {
			v := uint64(math.MaxUint64)
			if i >= 4 {
				v = 0
			}
			g.AddDatum(8*i, operand.U64(v))
		}
		windows[g.Context] = w
	}
	return w
}

// LoadTail loads the elements that TailMask selected, and zeros.
func (g *Gen) LoadTail(src operand.Mem, m, d reg.VecPhysical) {
	switch {
	case g.Wide && g.F64:
		g.VMOVUPD_Z(src, reg.K7, d)
	case g.Wide:
		g.VMOVUPS_Z(src, reg.K7, d)
	case g.F64:
		g.VMASKMOVPD(src, m, d)
	default:
		g.VMASKMOVPS(src, m, d)
	}
}

// StoreTail stores the elements that TailMask selected.
func (g *Gen) StoreTail(s, m reg.VecPhysical, dst operand.Mem) {
	switch {
	case g.Wide && g.F64:
		g.VMOVUPD(s, reg.K7, dst)
	case g.Wide:
		g.VMOVUPS(s, reg.K7, dst)
	case g.F64:
		g.VMASKMOVPD(s, m, dst)
	default:
		g.VMASKMOVPS(s, m, dst)
	}
}
