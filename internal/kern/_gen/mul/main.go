// Command mul generates the register tiles of the matrix products and the loops that measure the peak:
// mul_avx512_amd64.s and mul_avx2_amd64.s; mulsincos_avx512_amd64.s and mulsincos_avx2_amd64.s have the tiles that end
// with sine and cosine.
//
// One function per target and precision holds every tile shape, so that Go calls it directly: an indirect call
// would move its argument to the heap. See tile in mul_tile.go for the argument.
package main

import (
	"flag"
	"fmt"
	"log"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/randfeat/randfeat/internal/kern/_gen/emit"
)

// The fields of tile, eight bytes each.
const (
	fA = 8 * iota
	fB
	fC
	fInit
	fARow
	fAK
	fBK
	fBPanel
	fCRow
	fInitRow
	fInitPanel
	fK
	fPanels
	fTiles
	fRows
	fKind
	fMask
	fAhead
	// Scratch: Go must not see a pointer that runs past its slice.
	fATile
	fCTile
	fInitTile
)

// Tile kinds: two full vectors a row; two, the second masked; one, masked. Where a mask is, it also guards the loads:
// b may be a matrix whose last row ends where its memory does.
const (
	full = iota
	twoMasked
	oneMasked
	kinds
	wide = kinds     // one row of four full panels, since two accumulators alone would wait for each other
	pair = kinds + 1 // two full panels a row: more multiply-adds for each instruction that loads
)

// target is one instruction set and precision.
type target struct {
	c      *build.Context
	name   string
	zmm    bool
	double bool
	rows   int // of the largest tile
}

func main() {
	flag.Parse()
	z, y := build.NewContext(), build.NewContext()
	for _, t := range []target{
		{z, "AVX512F32", true, false, 8},
		{z, "AVX512F64", true, true, 8},
		{y, "AVX2F32", false, false, 6},
		{y, "AVX2F64", false, true, 6},
	} {
		t.function()
		t.peak()
	}
	if err := emit.File(z, "mul_avx512_amd64.s", "mul"); err != nil {
		log.Fatal(err)
	}
	if err := emit.File(y, "mul_avx2_amd64.s", "mul"); err != nil {
		log.Fatal(err)
	}
	if err := sinCosFiles(); err != nil {
		log.Fatal(err)
	}
}

// General registers. All address arithmetic is in bytes.
var (
	arg       = reg.RDI
	aCur      = reg.RSI // then the row cursor of init and c
	bCur      = reg.RDX
	count     = reg.RCX // then a row stride
	cPanel    = reg.RAX
	bPanel    = reg.RBX
	aRow      = reg.R8
	aRow3     = reg.R9
	aRow5     = reg.R10
	aRow7     = reg.R11
	aK        = reg.R12
	bK        = reg.R13
	initPanel = reg.R14
	panels    = reg.R15
)

func field(off int) operand.Mem { return operand.Mem{Base: arg, Disp: off} }

func (t target) function() {
	c := t.c
	c.Function("mulTile" + t.name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(t *byte)")
	c.Load(c.Param("t"), arg)
	c.MOVQ(field(fARow), aRow)
	c.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 2}, aRow3)
	c.LEAQ(operand.Mem{Base: aRow, Index: aRow, Scale: 4}, aRow5)
	c.LEAQ(operand.Mem{Base: aRow3, Index: aRow, Scale: 4}, aRow7)
	c.MOVQ(field(fAK), aK)
	c.MOVQ(field(fBK), bK)
	for _, f := range []struct{ from, to int }{{fA, fATile}, {fC, fCTile}, {fInit, fInitTile}} {
		c.MOVQ(field(f.from), count)
		c.MOVQ(count, field(f.to))
	}
	c.MOVQ(field(fRows), count)
	c.MOVQ(field(fMask), bCur)
	if t.zmm {
		c.KMOVW(bCur.As32(), reg.K1)
	}
	c.MOVQ(field(fKind), cPanel)
	c.CMPQ(cPanel, operand.Imm(wide))
	c.JE(operand.LabelRef("wide"))
	if t.pairRows() > 0 {
		c.CMPQ(cPanel, operand.Imm(pair))
		c.JE(operand.LabelRef("pair"))
	}
	for kind := full + 1; kind < kinds; kind++ {
		c.CMPQ(cPanel, operand.Imm(uint64(kind)))
		c.JE(operand.LabelRef(fmt.Sprintf("kind%d", kind)))
	}
	for kind := full; kind < kinds; kind++ {
		if kind != full {
			c.Label(fmt.Sprintf("kind%d", kind))
		}
		for r := t.rows; r > 1; r-- {
			c.CMPQ(count, operand.Imm(uint64(r)))
			c.JE(operand.LabelRef(fmt.Sprintf("kind%drows%d", kind, r)))
		}
		for r := 1; r <= t.rows; r++ {
			t.tile(kind, r)
		}
	}
	if t.pairRows() > 0 {
		c.Label("pair")
		for r := t.pairRows(); r > 1; r-- {
			c.CMPQ(count, operand.Imm(uint64(r)))
			c.JE(operand.LabelRef(fmt.Sprintf("kind%drows%d", pair, r)))
		}
		for r := 1; r <= t.pairRows(); r++ {
			t.tile(pair, r)
		}
	}
	t.wide()
}

// pairRows is the height of the largest tile of two panels, 24 accumulators; AVX2 has too few registers for any.
func (t target) pairRows() int {
	if !t.zmm {
		return 0
	}
	return 6
}

// wide computes one row, four panels at a time; panels counts these groups. The chains are those of tile.
func (t target) wide() {
	const group = 4
	c := t.c
	stride, stride3 := aRow, aRow3 // of panels: a single row needs no index registers
	c.Label("wide")
	c.MOVQ(field(fBPanel), stride)
	c.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	c.MOVQ(field(fB), bPanel)
	c.MOVQ(field(fC), cPanel)
	c.MOVQ(field(fInit), initPanel)
	c.MOVQ(field(fPanels), panels)
	c.Label("widepanel")
	for j := range 2 * group {
		t.load(operand.Mem{Base: initPanel, Disp: j % 2 * t.bytes()}, t.vec(j), false, nil)
		if j%2 == 1 {
			c.ADDQ(field(fInitPanel), initPanel)
		}
	}
	c.MOVQ(field(fA), aCur)
	c.MOVQ(bPanel, bCur)
	c.MOVQ(field(fK), count)
	emit.AlignLoop(c)
	c.Label("widek")
	t.broadcast(operand.Mem{Base: aCur}, t.vec(2*group))
	for j := range 2 * group {
		m := operand.Mem{Base: bCur, Disp: j % 2 * t.bytes()}
		switch j / 2 {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(j/2)
		case 3:
			m.Index, m.Scale = stride3, 1
		}
		t.fma(m, t.vec(2*group), t.vec(j))
	}
	c.ADDQ(bK, bCur)
	c.ADDQ(aK, aCur)
	c.DECQ(count)
	c.JNZ(operand.LabelRef("widek"))
	for j := range 2 * group {
		t.store(t.vec(j), operand.Mem{Base: cPanel, Disp: j * t.bytes()}, false, nil)
	}
	c.LEAQ(operand.Mem{Base: bPanel, Index: stride, Scale: group}, bPanel)
	c.ADDQ(operand.U32(uint64(2*group*t.bytes())), cPanel)
	c.DECQ(panels)
	c.JNZ(operand.LabelRef("widepanel"))
	c.VZEROUPPER()
	c.RET()
}

// tile computes c = init + a·b for tiles of rows rows, all panels of one tile before the next tile.
//
// Every accumulator is one chain of fused multiply-adds in the order of k, whatever the shape: an output does not
// depend on the tile that computed it.
func (t target) tile(kind, rows int) {
	c := t.c
	id := fmt.Sprintf("kind%drows%d", kind, rows)
	vecs := 2
	switch kind {
	case oneMasked:
		vecs = 1
	case pair:
		vecs = 4
	}
	second := aRow7 // from a panel to its partner: six rows do not need the register
	at := func(s string) operand.LabelRef { return operand.LabelRef(id + s) }
	acc := func(r, j int) reg.Register { return t.vec(r*vecs + j) }
	b := func(j int) reg.Register { return t.vec(rows*vecs + j) }
	mask := t.vec(15) // AVX2 only
	spare := 32 - rows*vecs - vecs
	if !t.zmm {
		spare = 16 - rows*vecs - vecs
		if kind != full {
			spare--
		}
	}
	tmp := func(r int) reg.Register { return t.vec(rows*vecs + vecs + r%min(spare, 4)) }
	masked := func(j int) bool { return (kind == twoMasked || kind == oneMasked) && j == vecs-1 }
	if spare < 1 {
		panic(id + ": too few registers")
	}

	c.Label(id)
	if !t.zmm && kind != full {
		c.VMOVUPS(operand.Mem{Base: bCur}, mask)
	}
	c.Label(id + "tile")
	c.MOVQ(field(fB), bPanel)
	c.MOVQ(field(fCTile), cPanel)
	c.MOVQ(field(fInitTile), initPanel)
	c.MOVQ(field(fPanels), panels)
	c.Label(id + "panel")
	c.MOVQ(initPanel, aCur)
	c.MOVQ(field(fInitRow), count)
	if kind == pair {
		c.MOVQ(field(fInitPanel), second)
	}
	for r := range rows {
		for j := range vecs {
			t.load(t.pairMem(aCur, second, j), acc(r, j), masked(j), mask)
		}
		if r < rows-1 {
			c.ADDQ(count, aCur)
		}
	}
	// The stores, or the loads of the next tile, would wait for their lines: they are fetched while the sums are
	// computed.
	c.MOVQ(cPanel, aCur)
	c.ADDQ(field(fAhead), aCur)
	c.MOVQ(field(fCRow), count)
	for r := range rows {
		for j := 0; j < vecs*t.bytes(); j += 64 {
			c.PREFETCHT0(operand.Mem{Base: aCur, Disp: j})
		}
		if r < rows-1 {
			c.ADDQ(count, aCur)
		}
	}
	c.MOVQ(field(fATile), aCur)
	c.MOVQ(bPanel, bCur)
	if kind == pair {
		c.MOVQ(field(fBPanel), second)
	}
	c.MOVQ(field(fK), count)

	emit.AlignLoop(c)
	c.Label(id + "k")
	for j := range vecs {
		t.load(t.pairMem(bCur, second, j), b(j), masked(j), mask)
	}
	for r := range rows {
		t.broadcast(t.row(r), tmp(r))
		for j := range vecs {
			t.fma(b(j), tmp(r), acc(r, j))
		}
	}
	c.ADDQ(bK, bCur)
	c.ADDQ(aK, aCur)
	c.DECQ(count)
	c.JNZ(at("k"))

	c.MOVQ(cPanel, aCur)
	c.MOVQ(field(fCRow), count)
	for r := range rows {
		for j := range vecs {
			t.store(acc(r, j), operand.Mem{Base: aCur, Disp: j * t.bytes()}, masked(j), mask)
		}
		if r < rows-1 {
			c.ADDQ(count, aCur)
		}
	}
	for range (vecs + 1) / 2 {
		c.ADDQ(field(fBPanel), bPanel)
		c.ADDQ(field(fInitPanel), initPanel)
	}
	c.ADDQ(operand.U32(uint64(vecs*t.bytes())), cPanel)
	c.DECQ(panels)
	c.JNZ(at("panel"))

	for _, f := range []struct{ stride, pointer int }{{fARow, fATile}, {fCRow, fCTile}, {fInitRow, fInitTile}} {
		c.IMUL3Q(operand.Imm(uint64(rows)), field(f.stride), count)
		c.ADDQ(count, field(f.pointer))
	}
	c.DECQ(field(fTiles))
	c.JNZ(at("tile"))
	c.VZEROUPPER()
	c.RET()
}

// pairMem addresses vector j at p; the third and fourth are in the next panel.
func (t target) pairMem(p, second reg.Register, j int) operand.Mem {
	m := operand.Mem{Base: p, Disp: j % 2 * t.bytes()}
	if j >= 2 {
		m.Index, m.Scale = second, 1
	}
	return m
}

// row addresses row r < 8 of a with four index registers: r is a power of two times 1, 3, 5 or 7.
func (t target) row(r int) operand.Mem {
	if r == 0 {
		return operand.Mem{Base: aCur}
	}
	odd := r
	for odd%2 == 0 {
		odd /= 2
	}
	index := map[int]reg.Register{1: aRow, 3: aRow3, 5: aRow5, 7: aRow7}[odd]
	return operand.Mem{Base: aCur, Index: index, Scale: uint8(r / odd)}
}

// peak runs rounds of peakChains independent multiply-adds: more than latency times throughput, and nothing else.
func (t target) peak() {
	const peakChains = 12
	c := t.c
	c.Function("peak" + t.name)
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func(rounds int)")
	c.Load(c.Param("rounds"), count)
	for i := range 16 { // zeros: subnormals would be slow
		if t.zmm {
			c.VPXORD(t.vec(i), t.vec(i), t.vec(i))
		} else {
			c.VXORPS(t.vec(i), t.vec(i), t.vec(i))
		}
	}
	emit.AlignLoop(c)
	c.Label("loop")
	for i := range peakChains {
		t.fma(t.vec(14), t.vec(15), t.vec(i))
	}
	c.DECQ(count)
	c.JNZ(operand.LabelRef("loop"))
	c.VZEROUPPER()
	c.RET()
}

func (t target) size() int {
	if t.double {
		return 8
	}
	return 4
}

func (t target) bytes() int {
	if t.zmm {
		return 64
	}
	return 32
}

func (t target) vec(i int) reg.Register {
	if t.zmm {
		return zmm[i]
	}
	return ymm[i]
}

func (t target) load(m operand.Mem, dst reg.Register, masked bool, mask reg.Register) {
	c := t.c
	switch {
	case !masked && t.double:
		c.VMOVUPD(m, dst)
	case !masked:
		c.VMOVUPS(m, dst)
	case t.zmm && t.double:
		c.VMOVUPD_Z(m, reg.K1, dst)
	case t.zmm:
		c.VMOVUPS_Z(m, reg.K1, dst)
	case t.double:
		c.VMASKMOVPD(m, mask, dst)
	default:
		c.VMASKMOVPS(m, mask, dst)
	}
}

func (t target) store(src reg.Register, m operand.Mem, masked bool, mask reg.Register) {
	c := t.c
	switch {
	case !masked && t.double:
		c.VMOVUPD(src, m)
	case !masked:
		c.VMOVUPS(src, m)
	case t.zmm && t.double:
		c.VMOVUPD(src, reg.K1, m)
	case t.zmm:
		c.VMOVUPS(src, reg.K1, m)
	case t.double:
		c.VMASKMOVPD(src, mask, m)
	default:
		c.VMASKMOVPS(src, mask, m)
	}
}

func (t target) broadcast(m operand.Mem, dst reg.Register) {
	if t.double {
		t.c.VBROADCASTSD(m, dst)
	} else {
		t.c.VBROADCASTSS(m, dst)
	}
}

func (t target) fma(x operand.Op, y, acc reg.Register) {
	if t.double {
		t.c.VFMADD231PD(x, y, acc)
	} else {
		t.c.VFMADD231PS(x, y, acc)
	}
}

var zmm = []reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10,
	reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28,
	reg.Z29, reg.Z30, reg.Z31}

var ymm = []reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10,
	reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}

func pick[F any](t target, ps, pd F) F {
	if t.double {
		return pd
	}
	return ps
}
