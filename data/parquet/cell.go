package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/internal/cell"
)

// number converts value v to float64. ok is false for texts that are no numbers.
func (c *column) number(p *values, v int) (x float64, ok bool) {
	switch {
	case c.decimal: // through text, so that it is rounded once
		text, ok := c.appendText(nil, p, v)
		if !ok {
			return 0, false
		}
		return cell.ParseNumber(text)
	case c.kind == format.Int96:
		t := int96(p.text(v))
		return float64(t.Unix()) + float64(t.Nanosecond())/1e9, true
	case c.half:
		return float16(binary.LittleEndian.Uint16(p.text(v))), true
	case c.kind == format.ByteArray:
		return cell.ParseNumber(p.text(v))
	case c.kind == format.Float || c.kind == format.Double:
		return p.float(v), true
	case c.uint && c.kind == format.Int32:
		return float64(uint32(p.int(v))), true
	case c.uint:
		return float64(uint64(p.int(v))), true
	}
	return float64(p.int(v)), true
}

// appendText writes value v with all its digits. ok is false for NaN, which is missing, and for decimals of too
// many bytes.
func (c *column) appendText(b []byte, p *values, v int) (text []byte, ok bool) {
	switch {
	case c.decimal && (c.kind == format.ByteArray || c.kind == format.FixedLenByteArray):
		raw := p.text(v)
		if len(raw) > maxDecimalBytes {
			return b, false
		}
		x := new(big.Int).SetBytes(raw) // two's complement, big-endian
		if len(raw) > 0 && raw[0]&0x80 != 0 {
			x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
		}
		return appendDecimal(b, x.String(), c.scale), true
	case c.decimal:
		return appendDecimal(b, strconv.FormatInt(p.int(v), 10), c.scale), true
	case c.half, c.kind == format.Float, c.kind == format.Double:
		x, _ := c.number(p, v)
		if math.IsNaN(x) {
			return b, false
		}
		return strconv.AppendFloat(b, x, 'f', -1, 64), true
	case c.kind == format.ByteArray:
		raw := p.text(v)
		if !c.text && !utf8.Valid(raw) {
			return hex.AppendEncode(append(b, "0x"...), raw), true
		}
		return append(b, raw...), true
	case c.kind == format.Int96:
		return int96(p.text(v)).AppendFormat(b, timestamp), true
	case c.unit == day:
		return time.Unix(p.int(v)*86400, 0).UTC().AppendFormat(b, time.DateOnly), true
	case c.unit > 0:
		perSecond := 1e9 / c.unit
		n := p.int(v)
		return time.Unix(n/perSecond, n%perSecond*c.unit).UTC().AppendFormat(b, timestamp), true
	case c.kind == format.Boolean:
		return strconv.AppendBool(b, p.int(v) != 0), true
	case c.uint && c.kind == format.Int32:
		return strconv.AppendUint(b, uint64(uint32(p.int(v))), 10), true
	case c.uint:
		return strconv.AppendUint(b, uint64(p.int(v)), 10), true
	}
	return strconv.AppendInt(b, p.int(v), 10), true
}

// timestamp has as many digits of the second as needed.
const timestamp = "2006-01-02T15:04:05.999999999"

// int96 converts the deprecated 12-byte timestamp: nanoseconds of the day, then the Julian day.
func int96(b []byte) time.Time {
	const unix = 2440588 // Julian day of 1970-01-01
	days := int64(binary.LittleEndian.Uint32(b[8:])) - unix
	return time.Unix(days*86400, int64(binary.LittleEndian.Uint64(b))).UTC()
}

// appendDecimal puts the decimal point before the last scale digits.
func appendDecimal(b []byte, digits string, scale int) []byte {
	if digits[0] == '-' {
		b, digits = append(b, '-'), digits[1:]
	}
	if scale == 0 {
		return append(b, digits...)
	}
	if n := scale + 1 - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	point := len(digits) - scale
	return append(append(append(b, digits[:point]...), '.'), digits[point:]...)
}

// float16 converts a 16-bit number of IEEE 754.
func float16(h uint16) float64 {
	sign, exp, frac := uint64(h>>15)<<63, int(h>>10&31), float64(h&0x3ff)
	var x float64
	switch exp {
	case 0:
		x = math.Ldexp(frac, -24)
	case 31:
		if x = math.Inf(1); frac != 0 {
			return math.NaN()
		}
	default:
		x = math.Ldexp(1024+frac, exp-25)
	}
	return math.Float64frombits(math.Float64bits(x) | sign)
}
