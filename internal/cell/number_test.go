package cell_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/randfeat/randfeat/internal/cell"
)

// checkNumber: ParseNumber accepts what strconv.ParseFloat accepts and gives the same bits.
func checkNumber(t *testing.T, s string) {
	t.Helper()
	want, err := strconv.ParseFloat(s, 64)
	got, ok := cell.ParseNumber([]byte(s))
	if ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(want) &&
		!(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("%q: %v %v, strconv has %v %v", s, got, ok, want, err)
	}
}

var numbers = []string{"", "0", "-0", "+0", "00", "-", "+", ".", "1.", ".5", "-.5", "1..2", "1e", "1e+", "1e5", "1E-5",
	"1e05", "1e00005",
	"9007199254740991", "9007199254740992", "9007199254740993", "900719925474099267", "1e22", "1e23",
	"9007199254740991e22", "1e-22", "1e-23", "123456789012345e-37",
	"0.1", "0.30000000000000004", "2.2250738585072011e-308", "5e-324", "1e-400", "1e309", "1.7976931348623157e308",
	"0.000000000000000000000000000001",
	"100000000000000000000000", "0000000000000000000000000001", "inf", "-Inf", "infinity", "nan", "NaN", "0x1p-2",
	"0x_1p3", "1_000", "1,5", " 1", "1 ", "1a", "e5", "i", "n", "١"}

func TestParseNumber(t *testing.T) {
	for _, s := range numbers {
		checkNumber(t, s)
	}
	r := rand.New(rand.NewPCG(5, 1))
	for range 200_000 {
		v := math.Float64frombits(r.Uint64())
		checkNumber(t, strconv.FormatFloat(v, "eEfgG"[r.IntN(5)], -1, 64))
		// The fast path and its borders: up to 19 digits, a point anywhere, small exponents.
		s := strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
		if p := r.IntN(len(s) + 1); r.IntN(3) > 0 {
			s = s[:p] + "." + s[p:]
		}
		if r.IntN(3) == 0 {
			s += "e" + strconv.Itoa(r.IntN(60)-30)
		}
		checkNumber(t, s)
		checkNumber(t, "-"+s)
		// Halfway between two neighbours, and one digit to either side.
		half := new(big.Int).Lsh(new(big.Int).SetUint64(1<<53|r.Uint64()>>11|1), uint(r.IntN(10)))
		for d := range int64(3) {
			checkNumber(t, new(big.Int).Add(half, big.NewInt(d-1)).String())
		}
	}
}

func FuzzParseNumber(f *testing.F) {
	for _, s := range numbers {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkNumber(t, s) })
}
