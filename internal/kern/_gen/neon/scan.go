package main

// emitScan writes the search in a sketch for one row of queries: bit i of mask_b is set if the sum of key i of block b
// is at least low. Products are summed in 16 bits over a vector of codes, at most 4·3·127, and in 32 bits over all.
func emitScan(a *asm) {
	if a.size != 4 { // the kernel has no element type
		return
	}
	vec := func(code uint32, op string, d, n, m int) {
		a.word(code|uint32(m<<16|n<<5|d), "%s V%d, V%d, V%d", op, d, n, m)
	}
	a.fn("scanNEON", "(mask *uint16, codes *byte, q *int8, low *int32, stride int, blocks int)", 48)
	for i, name := range []string{"mask", "codes", "q", "low", "stride", "blocks"} {
		a.ptr(name, []string{"R0", "R1", "R2", "R3", "R4", "R5"}[i])
	}
	a.p("VMOVI $3, V31.B16")
	a.p("MOVWU (R3), R9")
	a.p("VDUP R9, V30.S4")
	a.p("MOVD $0x8040201008040201, R9")
	a.p("VDUP R9, V29.D2")
	a.label("block")
	each(8, func(i int) { a.bits3("VEOR", 8+i, 8+i, 8+i) })
	a.p("MOVD R2, R6")
	a.p("MOVD R4, R7")
	a.label("vector")
	each(4, func(i int) { a.p("FMOVQ %d(R1), F%d", 16*i, 16+i) })
	a.p("ADD $64, R1")
	for s := range 4 {
		a.word(0x4DDFC800|6<<5|20, "LD1R {V20.4S}, [X6], #4")
		for i := range 4 {
			u, low, high := 16+i, uint32(0x0E208000), uint32(0x4E208000)
			if s > 0 {
				a.word(0x6F000400|uint32(16-2*s)<<16|uint32((16+i)<<5|21+i), "USHR V%d.16B, V%d.16B, #%d", 21+i, 16+i,
					2*s)
				u = 21 + i
			}
			if s < 3 {
				a.bits3("VAND", 21+i, u, 31)
			}
			if s == 0 {
				low, high = 0x0E20C000, 0x4E20C000
			}
			vec(low, either(s == 0, "SMULL", "SMLAL"), 2*i, 21+i, 20)
			vec(high, either(s == 0, "SMULL2", "SMLAL2"), 2*i+1, 21+i, 20)
		}
	}
	each(8, func(i int) { a.word(0x4E606800|uint32(i<<5|8+i), "SADALP V%d.4S, V%d.8H", 8+i, i) })
	a.p("SUB $16, R7")
	a.p("CBNZ R7, vector")
	each(4, func(i int) { vec(0x4EA0BC00, "ADDP", 8+2*i, 8+2*i, 9+2*i) }) // a sum for every key
	each(4, func(i int) { vec(0x4EA03C00, "CMGE", 8+2*i, 8+2*i, 30) })
	narrow := func(code uint32, op string, d, n int) { a.word(code|uint32(n<<5|d), "%s V%d, V%d", op, d, n) }
	narrow(0x0E612800, "XTN", 8, 8)
	narrow(0x4E612800, "XTN2", 8, 10)
	narrow(0x0E612800, "XTN", 12, 12)
	narrow(0x4E612800, "XTN2", 12, 14)
	narrow(0x0E212800, "XTN", 8, 8)
	narrow(0x4E212800, "XTN2", 8, 12)
	a.bits3("VAND", 8, 8, 29)
	each(3, func(int) { vec(0x4E20BC00, "ADDP", 8, 8, 8) })
	a.p("VMOV V8.H[0], R9")
	a.p("MOVHU (R0), R10")
	a.p("ORR R9, R10, R10")
	a.p("MOVH R10, (R0)")
	a.p("ADD $2, R0")
	a.p("SUB $1, R5")
	a.p("CBNZ R5, block")
	a.p("RET")
}

func either(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}
