package cell

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"
)

// pow10 holds the powers of ten that float64 represents exactly.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// ScanNumber reads the longest plain decimal at the start of b and returns its length, 0 for none. If exact is
// set, v is the value that strconv.ParseFloat gives; otherwise strconv has to decide. Digits that make an
// integer below 2⁵³ and a power of ten up to 10²² are both exact in float64, so their product or quotient is
// rounded once (Clinger 1990, "How to read floating point numbers accurately").
func ScanNumber(b []byte) (v float64, n int, exact bool) {
	i := 0
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg = b[0] == '-'
		i = 1
	}
	var mant uint64
	start := i
	for i < len(b) {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		mant = mant*10 + uint64(d)
		i++
	}
	digits, exp := i-start, 0
	if i < len(b) && b[i] == '.' {
		i++
		point := i
		for i < len(b) {
			d := b[i] - '0'
			if d > 9 {
				break
			}
			mant = mant*10 + uint64(d)
			i++
		}
		exp = point - i
		digits -= exp
	}
	if digits == 0 {
		return 0, 0, false
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		sign := 1
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			if b[i] == '-' {
				sign = -1
			}
			i++
		}
		e, first := 0, i
		for i < len(b) && b[i]-'0' <= 9 {
			e = min(e*10+int(b[i]-'0'), 1<<20)
			i++
		}
		if i == first {
			return 0, 0, false
		}
		exp += sign * e
	}
	if digits > 19 { // more digits could overflow mant
		return 0, i, false
	}
	switch {
	case mant < 1<<53 && -22 <= exp && exp < 0:
		v = float64(mant) / pow10[-exp]
	case mant < 1<<53 && 0 <= exp && exp <= 22:
		v = float64(mant) * pow10[exp]
	default:
		if v, exact = scale10(mant, exp); !exact {
			return 0, i, false
		}
	}
	if neg {
		v = -v
	}
	return v, i, true
}

// scaleMax bounds the powers of ten of scale10, so that all its results are normal numbers.
const scaleMax = 40

// pow10Bits holds the first 128 bits of 10^e for |e| ≤ scaleMax, rounded down: high half, low half.
var pow10Bits = func() (table [2*scaleMax + 1][2]uint64) {
	one := big.NewInt(1)
	for e := -scaleMax; e <= scaleMax; e++ {
		x := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(e, -e))), nil)
		if e < 0 {
			// The quotient has 128 bits: 2^(n+127) lies between 2^127 and 2^128 times a number of n bits, no power of
			// two.
			x.Quo(new(big.Int).Lsh(one, uint(x.BitLen())+127), x)
		} else if n := x.BitLen(); n < 128 {
			x.Lsh(x, uint(128-n))
		} else {
			x.Rsh(x, uint(n-128))
		}
		low := new(big.Int).And(x, new(big.Int).Sub(new(big.Int).Lsh(one, 64), one))
		table[e+scaleMax] = [2]uint64{x.Rsh(x, 64).Uint64(), low.Uint64()}
	}
	return table
}()

// scale10 returns mant·10^exp rounded to nearest even; ok is false for the few products whose 128 bits do not
// decide (Lemire 2021, "Number parsing at a gigabyte per second", arXiv:2101.11408). The steps are the same as
// in strconv, which would scan the digits again.
func scale10(mant uint64, exp int) (v float64, ok bool) {
	if mant == 0 {
		return 0, true
	}
	if exp < -scaleMax || exp > scaleMax {
		return 0, false
	}
	pow := &pow10Bits[exp+scaleMax]
	shift := bits.LeadingZeros64(mant)
	mant <<= shift
	exp2 := uint64(217706*exp>>16+64+1023) - uint64(shift) // ⌊exp·log₂10⌋, biased
	hi, lo := bits.Mul64(mant, pow[0])
	if hi&0x1ff == 0x1ff && lo+mant < mant {
		more, last := bits.Mul64(mant, pow[1])
		var carry uint64
		lo, carry = bits.Add64(lo, more, 0)
		hi += carry
		if hi&0x1ff == 0x1ff && lo+1 == 0 && last+mant < mant {
			return 0, false
		}
	}
	top := hi >> 63
	m := hi >> (top + 9) // 54 bits: one more than a float64 holds
	exp2 -= 1 ^ top
	if lo == 0 && hi&0x1ff == 0 && m&3 == 1 { // perhaps exactly halfway
		return 0, false
	}
	m = (m + m&1) >> 1
	if m>>53 > 0 {
		m >>= 1
		exp2++
	}
	return math.Float64frombits(exp2<<52 | m&(1<<52-1)), true
}

// ParseNumber reads a number as strconv.ParseFloat does, to the same bits. ok is false for anything else, including
// numbers beyond float64.
func ParseNumber(b []byte) (v float64, ok bool) {
	if v, n, exact := ScanNumber(b); exact && n == len(b) {
		return v, true
	}
	return ParseNumberSlowly(b)
}

// ParseNumberSlowly is Parse by strconv. The string shares the bytes of b, which is safe because ParseFloat does not
// keep it.
func ParseNumberSlowly(b []byte) (v float64, ok bool) {
	if len(b) == 0 || !startsNumber(b[0]) {
		return math.NaN(), false // words are the common case: avoid allocating strconv's error
	}
	v, err := strconv.ParseFloat(unsafe.String(&b[0], len(b)), 64)
	if err != nil {
		return math.NaN(), false
	}
	return v, true
}

// startsNumber reports whether c is a digit, sign, point, or the first letter of inf or nan.
func startsNumber(c byte) bool {
	return c-'0' <= 9 || c == '-' || c == '+' || c == '.' || c|0x20 == 'i' || c|0x20 == 'n'
}

// Canonical is the unique spelling of a number for classes and levels: 1, 1.0 and 1e0 are one class.
func Canonical(v float64) string {
	if v == 0 {
		v = 0 // -0 is 0
	}
	return string(AppendNumber(nil, v))
}

// TrimBlanks removes blanks and tabs around a text.
func TrimBlanks(b []byte) []byte {
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
