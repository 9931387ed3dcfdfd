package kern

import (
	"encoding/binary"
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
)

var (
	stride32   = flag.Uint64("stride", 1009, "distance of the bit patterns at which float32 functions are measured; 1 takes all")
	exhaustive = flag.Bool("exhaustive", false, "measure float64 functions at a million arguments, float32 ones at all")
)

// maxULP is the error that every table promises for exp, exp2, log, sin and cos in both precisions, in units of the
// last place of the exact result (subnormal results: of the smallest subnormal).
const maxULP = 2

// function is one elementwise function as the tests see it: out = f(in), and its value to ~150 bits.
type function[T dense.Float] struct {
	name string
	run  func(tab *Table[T], out, in []T)
	// wide is the value in float64, good for judging float32 results.
	wide  func(x float64) float64
	exact func(x float64) *big.Float
}

func functions[T dense.Float]() []function[T] {
	sin := func(tab *Table[T], out, in []T) { tab.SinCos(out, make([]T, len(in)), in) }
	cos := func(tab *Table[T], out, in []T) { tab.SinCos(make([]T, len(in)), out, in) }
	return []function[T]{
		{"exp", func(tab *Table[T], out, in []T) { copy(out, in); tab.Exp(out, 0) }, math.Exp, bigExp},
		{"exp2", func(tab *Table[T], out, in []T) { copy(out, in); tab.Exp2(out) }, math.Exp2, bigExp2},
		{"log", func(tab *Table[T], out, in []T) { copy(out, in); tab.Log(out) }, math.Log, bigLog},
		{"sin", sin, math.Sin, func(x float64) *big.Float { s, _ := bigSinCos(x); return s }},
		{"cos", cos, math.Cos, func(x float64) *big.Float { _, c := bigSinCos(x); return c }},
	}
}

// ulps is |got − want| in units of the last place of want; 0 for two NaN or the same infinity, +Inf for a wrong kind.
func ulps[T dense.Float](got T, want *big.Float, class float64) float64 {
	if want == nil { // NaN, ±Inf or a zero, exactly
		if same(got, T(class)) {
			return 0
		}
		return math.Inf(1)
	}
	mant, least := 24, -149
	if unsafe.Sizeof(T(0)) == 8 {
		mant, least = 53, -1074
	}
	g := float64(got)
	exp := max(want.MantExp(nil)-mant, least)
	limit := 128
	if mant == 53 {
		limit = 1024
	}
	if math.IsInf(g, 0) || want.MantExp(nil) > limit {
		// Values that round to infinity must be infinite, and no others.
		over := roundsToInf[T](want)
		if over == (math.IsInf(g, 0) && (g > 0) == (want.Sign() > 0)) && over {
			return 0
		}
		return math.Inf(1)
	}
	if g != g {
		return math.Inf(1)
	}
	d := new(big.Float).SetPrec(300).SetFloat64(g)
	d.Sub(d, want)
	d.SetMantExp(d, -exp)
	e, _ := d.Float64()
	return math.Abs(e)
}

func roundsToInf[T dense.Float](v *big.Float) bool {
	if unsafe.Sizeof(T(0)) == 4 {
		f, _ := v.Float32()
		return math.IsInf(float64(f), 0)
	}
	f, _ := v.Float64()
	return math.IsInf(f, 0)
}

const bigPrec = 200

func bigOf(v float64) *big.Float { return new(big.Float).SetPrec(bigPrec).SetFloat64(v) }

func bigParse(s string) *big.Float {
	v, _, err := big.ParseFloat(s, 10, 400, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return v
}

var (
	bigLn2    = bigParse("0.69314718055994530941723212145817656807550013436025525412068000949339362196969471560586332699641868754200148102057")
	bigHalfPi = machin()
)

// piPrec is enough for the largest float64: 1024 bits before the point, and after it some 61 zeros and the result.
const piPrec = 1400

// machin is π/2 = 8·atan(1/5) − 2·atan(1/239).
func machin() *big.Float {
	atan := func(n int64) *big.Int {
		term := new(big.Int).Lsh(big.NewInt(1), piPrec)
		term.Quo(term, big.NewInt(n))
		sum, sq := new(big.Int).Set(term), big.NewInt(n*n)
		for k, sign := int64(3), int64(-1); term.Sign() != 0; k, sign = k+2, -sign {
			term.Quo(term, sq)
			sum.Add(sum, new(big.Int).Quo(term, big.NewInt(sign*k)))
		}
		return sum
	}
	a, b := atan(5), atan(239)
	a.Sub(a.Lsh(a, 3), b.Lsh(b, 1))
	f := new(big.Float).SetPrec(piPrec).SetInt(a)
	return f.SetMantExp(f, -piPrec)
}

// expBig is e^x for finite x of moderate size: x = k·ln 2 + 2^8·r.
func expBig(x *big.Float) *big.Float {
	q, _ := new(big.Float).Quo(x, bigLn2).Float64()
	k := int(math.Round(q))
	r := new(big.Float).SetPrec(bigPrec).Mul(bigOf(float64(k)), bigLn2)
	r.Sub(x, r)
	r.SetMantExp(r, -8)
	sum, term := bigOf(1), bigOf(1)
	for i := 1; i < 40; i++ {
		term.Mul(term, r)
		term.Quo(term, bigOf(float64(i)))
		sum.Add(sum, term)
		if term.Sign() == 0 || term.MantExp(nil) < -bigPrec {
			break
		}
	}
	for range 8 {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, k)
}

// The exact functions return nil where the result is special or so far out that only its rounding matters.

func bigExp(x float64) *big.Float {
	if x != x || x == 0 || x > 1000 || x < -1000 {
		return nil
	}
	return expBig(bigOf(x))
}

func bigExp2(x float64) *big.Float {
	if x != x || x == 0 || x > 1200 || x < -1200 {
		return nil
	}
	v := bigOf(x)
	return expBig(v.Mul(v, bigLn2))
}

// bigLog improves math.Log by one step of Halley's method, which triples the digits.
func bigLog(x float64) *big.Float {
	if !(x > 0) || x == 1 || math.IsInf(x, 1) {
		return nil
	}
	m, k := math.Frexp(x) // math.Log itself is wrong for subnormal numbers on amd64 (Go 1.26)
	y := bigOf(math.Log(m))
	e := expBig(y)
	num := new(big.Float).SetPrec(bigPrec).Sub(bigOf(m), e)
	den := new(big.Float).SetPrec(bigPrec).Add(bigOf(m), e)
	num.Quo(num, den)
	num.SetMantExp(num, 1)
	y.Add(y, num)
	return y.Add(y, new(big.Float).SetPrec(bigPrec).Mul(bigOf(float64(k)), bigLn2))
}

func bigSinCos(x float64) (sin, cos *big.Float) {
	if x != x || x == 0 || math.IsInf(x, 0) {
		return nil, nil
	}
	prec := uint(piPrec)
	if math.Abs(x) < 0x1p60 {
		prec = bigPrec + 128
	}
	v := new(big.Float).SetPrec(prec).SetFloat64(x)
	q := new(big.Float).SetPrec(prec).Quo(v, bigHalfPi)
	half := 0.5
	if x < 0 {
		half = -0.5
	}
	n, _ := q.Add(q, big.NewFloat(half)).Int(nil)
	v.Sub(v, new(big.Float).SetPrec(prec).Mul(new(big.Float).SetPrec(prec).SetInt(n), bigHalfPi))
	r := new(big.Float).SetPrec(bigPrec).Set(v)
	s2 := new(big.Float).SetPrec(bigPrec).Mul(r, r)
	series := func(first *big.Float, i int) *big.Float {
		sum, term := new(big.Float).SetPrec(bigPrec).Set(first), new(big.Float).SetPrec(bigPrec).Set(first)
		for ; i < 80; i += 2 {
			term.Mul(term, s2)
			term.Quo(term, bigOf(-float64(i*(i+1))))
			if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-bigPrec {
				break
			}
			sum.Add(sum, term)
		}
		return sum
	}
	sin, cos = series(r, 2), series(bigOf(1), 1)
	switch new(big.Int).And(n, big.NewInt(3)).Int64() { // two's complement: also right for negative n
	case 1:
		sin, cos = cos, sin.Neg(sin)
	case 2:
		sin, cos = sin.Neg(sin), cos.Neg(cos)
	case 3:
		sin, cos = cos.Neg(cos), sin
	}
	return sin, cos
}

// specials are the values where elementwise functions go wrong.
func specials[T dense.Float]() []T {
	v := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), -math.NaN(),
		0.5, math.Sqrt2, math.Sqrt2 / 2, math.E, math.Pi, math.Pi / 2, math.Pi / 4, 1e-3, -1e-3, 1e-30, -1e-30, 1e5,
		-1e5, 100001, -1e6, 1e30, -1e30,
		-87, -87.1, -87.33, -87.34, -88, -100, -103.2, -103.97, -104, -105, -110, 87, 88, 88.72283, 88.7229, 89, 100,
		125, 126, 127, 127.5, 128, 129, 200, -125, -126, -126.5, -127, -148.5, -149, -149.9, -150, -151, -200,
		708, 709, 709.7827, 709.7828, 710, 720, -708, -708.3, -708.4, -709, -740, -745.1, -745.2, -746, -750, -1e4, 1e4,
		1021, 1022, 1023, 1023.5, 1024, 1025, -1021, -1022, -1022.5, -1023, -1073.5, -1074, -1074.9, -1075, -1076,
		-1077}
	var out []T
	for _, x := range v {
		out = append(out, T(x))
	}
	if unsafe.Sizeof(T(0)) == 4 {
		for _, b := range []uint32{1, 2, 0x7fffff, 0x800000, 0x800001, 0x80000001, 0x807fffff, 0x80800000, 0x7f7fffff,
			0xff7fffff, 0x7f800001, 0xffc00001, 0x3f800001, 0x3f7fffff, 0x3f3504f2, 0x3f3504f3, 0x3f3504f4, 0x7fffffff,
			0x42b17217, 0x42b17218, 0x42b17219, 0xc2cff1b4, 0xc2cff1b5, 0xc2aeac4f, 0xc2aeac50, 0x47c35000,
			0x47c35001} {
			out = append(out, T(math.Float32frombits(b)))
		}
	} else {
		for _, b := range []uint64{1, 2, 0xfffffffffffff, 0x10000000000000, 0x10000000000001, 1<<63 | 1,
			1<<63 | 0xfffffffffffff, 0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000001, 0xfff8000000000001,
			0x3ff0000000000001, 0x3fefffffffffffff, 0x3fe6a09e667f3bcc, 0x3fe6a09e667f3bcd, 0x3fe6a09e667f3bce,
			0x40862e42fefa39ee, 0x40862e42fefa39ef, 0x40862e42fefa39f0, 0xc0874910d52d3051, 0xc0874910d52d3052,
			0x40f86a0000000000, 0x40f86a0000000001} {
			out = append(out, T(math.Float64frombits(b)))
		}
	}
	return out
}

// fromBits makes any T, NaN and subnormals included.
func fromBits[T dense.Float](b uint64) T {
	var v T
	switch p := any(&v).(type) {
	case *float32:
		*p = math.Float32frombits(uint32(b))
	case *float64:
		*p = math.Float64frombits(b)
	}
	return v
}

// worst is the largest error of a function and where.
type worst struct {
	ulp, at float64
}

func (w *worst) see(ulp, at float64) {
	if ulp > w.ulp || ulp != ulp {
		*w = worst{ulp, at}
	}
}

// TestFloat32Errors measures every float32 function on bit patterns a prime apart, or on all with -stride 1.
func TestFloat32Errors(t *testing.T) {
	if *stride32 == 0 {
		t.Fatal("-stride 0")
	}
	stride := *stride32
	if *exhaustive {
		stride = 1
	}
	tabs := Available[float32]()
	if stride == 1 {
		// The reference rounds package math: a sweep would compare it with itself, for longer than all others take.
		tabs = slices.DeleteFunc(slices.Clone(tabs), func(tab *Table[float32]) bool { return tab.Name == "go" })
	}
	for _, f := range functions[float32]() {
		t.Run(f.name, func(t *testing.T) {
			for i, w := range sweep32(f, tabs, stride) {
				t.Logf("table=%s: %.3f ulp at %v (%#x)", tabs[i].Name, w.ulp, w.at, math.Float32bits(float32(w.at)))
				if !(w.ulp <= maxULP) {
					t.Errorf("table=%s: error %v ulp at %v", tabs[i].Name, w.ulp, w.at)
				}
			}
		})
	}
}

// sweep32 is the largest error of f for each table, over bit patterns a stride apart, on all cores.
func sweep32(f function[float32], tabs []*Table[float32], stride uint64) []worst {
	const chunk = 1 << 14
	var (
		total = make([]worst, len(tabs))
		next  atomic.Uint64
		mu    sync.Mutex
		wg    sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			in, outs, mine := make([]float32, 0, chunk), make([][]float32, len(tabs)), make([]worst, len(tabs))
			for k := range outs {
				outs[k] = make([]float32, chunk)
			}
			for {
				b := (next.Add(1) - 1) * chunk * stride
				if b >= 1<<32 {
					break
				}
				in = in[:0]
				for ; b < 1<<32 && len(in) < chunk; b += stride {
					in = append(in, math.Float32frombits(uint32(b)))
				}
				for k, tab := range tabs {
					f.run(tab, outs[k][:len(in)], in)
				}
				for i, v := range in {
					x := float64(v)
					want := f.wide(x)
					near, doubt := float32(want), doubtful(f.name, x, want)
					var exact *big.Float
					if doubt {
						exact = f.exact(x)
					}
					for k := range tabs {
						got := outs[k][i]
						if !doubt && (got == near || got != got && near != near) {
							mine[k].see(0.5, x) // at most
							continue
						}
						u := ulps32(got, want)
						if doubt {
							u = ulps(got, exact, want)
						} else if !(u <= maxULP-0.1) {
							u = ulps(got, f.exact(x), want)
						}
						mine[k].see(u, x)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, w := range mine {
				total[k].see(w.ulp, w.at)
			}
		})
	}
	wg.Wait()
	return total
}

// doubtful tells whether package math may be too wrong to judge a float32 result: its reduction of large arguments
// leaves an absolute error of some 10^-15, which near a zero of sin or cos is no longer small.
func doubtful(f string, x, want float64) bool {
	return math.Abs(want) < 0x1p-12 && math.Abs(x) > 1 && (f == "sin" || f == "cos")
}

// ulps32 is ulps against a float64 value, whose own error of 10^-9 ulp does not matter.
func ulps32(got float32, want float64) float64 {
	w := float32(want)
	if e := math.Float32bits(w) >> 23 & 0xff; e > 24 && e < 254 && got-got == 0 {
		// Far from both ends the unit is a power of two made of bits: of the float64's exponent, not of the rounded
		// one.
		unit := math.Float64frombits((2*1023 + 23 - math.Float64bits(want)>>52&0x7ff) << 52)
		return math.Abs((float64(got) - want) * unit)
	}
	if w == 0 || w != w || math.IsInf(float64(w), 0) || math.IsInf(float64(got), 0) || got != got {
		if same(got, w) || w == 0 && got == 0 {
			return 0
		}
		if w == 0 && want != 0 {
			return math.Abs(float64(got)-want) * 0x1p149
		}
		return math.Inf(1)
	}
	_, exp := math.Frexp(want)
	return math.Abs(math.Ldexp(float64(got)-want, -max(exp-24, -149)))
}

// hard64 are arguments near the difficulties of f: multiples of π/2, powers of two, ends of the range; the rest is
// spread over the exponents that matter.
func hard64(f string, n int, r *rand.Rand) []float64 {
	var x []float64
	switch f {
	case "sin", "cos":
		step := max(1, 63661*4/n)
		for k := 1; k < 63662; k += step {
			v, _ := new(big.Float).Mul(bigHalfPi, bigOf(float64(k))).Float64()
			x = append(x, v, -v, math.Nextafter(v, 0), math.Nextafter(v, 1e9))
			q, _ := new(big.Float).Mul(bigHalfPi, bigOf(float64(k)+0.5)).Float64() // between quadrants
			x = append(x, q, math.Nextafter(q, 0), math.Nextafter(q, 1e9))
		}
		// The float64 closest to a multiple of π/2 (Kahan; Muller, Elementary Functions, 3rd ed., 11.3.2).
		x = append(x, 6381956970095103*0x1p797, -6381956970095103*0x1p797)
		for range n {
			x = append(x, (2*r.Float64()-1)*math.Exp(r.Float64()*50-38.5))
			x = append(x, (2*r.Float64()-1)*1e5, (2*r.Float64()-1)*2)
			x = append(x, math.Exp(11+r.Float64()*698)) // beyond the vector reduction
			v, _ := new(big.Float).Mul(bigHalfPi, bigOf(float64(r.Uint64N(1<<(17+r.UintN(47)))))).Float64()
			x = append(x, v, -v)
		}
	case "log":
		for k := -1074; k < 1024; k++ {
			v := math.Ldexp(1, k)
			x = append(x, v, math.Nextafter(v, 0), math.Nextafter(v, math.Inf(1)), v*math.Sqrt2, v*1.1)
		}
		for range n {
			x = append(x, math.Float64frombits(r.Uint64N(0x7ff0000000000000)),
				1+(r.Float64()-0.5)*math.Exp(-30*r.Float64()), 0.4+2*r.Float64())
			x = append(x, math.Float64frombits(r.Uint64N(1<<52)))
		}
	default:
		unit, lo, hi := math.Ln2, -745.2, 709.8
		if f == "exp2" {
			unit, lo, hi = 1, -1075.5, 1024
		}
		for k := -1075 * 2; k < 1024*2; k++ {
			v := float64(k) / 2 * unit
			x = append(x, v, math.Nextafter(v, -1e9), math.Nextafter(v, 1e9))
		}
		for range n {
			x = append(x, lo+(hi-lo)*r.Float64(), (2*r.Float64()-1)*unit, (2*r.Float64()-1)*math.Exp(-40*r.Float64()))
			x = append(x, lo+(hi-lo)*0.02*r.Float64(), hi-0.01*r.Float64())
		}
	}
	return x
}

func TestFloat64Errors(t *testing.T) {
	n := 4000
	if !stattest.Full() {
		n = 500
	}
	if *exhaustive {
		n = 300_000
	}
	for _, f := range functions[float64]() {
		x := append(hard64(f.name, n, rand.New(rand.NewPCG(1, 2))), specials[float64]()...)
		tabs := Available[float64]()
		outs, worsts := make([][]float64, len(tabs)), make([]worst, len(tabs))
		for i, tab := range tabs {
			outs[i] = make([]float64, len(x))
			f.run(tab, outs[i], x)
		}
		for j, v := range x {
			want, class := f.exact(v), f.wide(v)
			for i := range tabs {
				worsts[i].see(ulps(outs[i][j], want, class), v)
			}
		}
		for i, tab := range tabs {
			t.Logf("%s/table=%s: %.3f ulp at %v", f.name, tab.Name, worsts[i].ulp, worsts[i].at)
			if !(worsts[i].ulp <= maxULP) && tab.Name != "go" {
				t.Errorf("%s/table=%s: error %v ulp at %v", f.name, tab.Name, worsts[i].ulp, worsts[i].at)
			}
		}
	}
}

func TestElementwiseSpecials(t *testing.T) { each(t, checkSpecials[float32], checkSpecials[float64]) }

// checkSpecials compares kinds (NaN, ±Inf, signs of zeros) and values within the bound. The reference is left out:
// package math on amd64 (Go 1.26) overflows early in Exp and loses digits of Sin near multiples of π.
func checkSpecials[T dense.Float](t *testing.T, tab *Table[T]) {
	in := specials[T]()
	out := make([]T, len(in))
	for _, f := range functions[T]() {
		if tab.Name == "go" {
			break
		}
		f.run(tab, out, in)
		for i, x := range in {
			want := T(f.wide(float64(x)))
			if u := ulps(out[i], f.exact(float64(x)), f.wide(float64(x))); !(u <= maxULP) {
				t.Errorf("%s(%v) = %v, want %v (%v ulp)", f.name, x, out[i], want, u)
			}
			if math.Signbit(float64(out[i])) != math.Signbit(float64(want)) && want == want {
				t.Errorf("%s(%v) = %v has the sign wrong", f.name, x, out[i])
			}
		}
	}
	// The shift is subtracted in T, like the reference.
	for _, shift := range []T{0, 1.5, -3, T(math.Inf(1)), T(math.Inf(-1)), T(math.NaN()), in[1], 80} {
		got, want := append([]T(nil), in...), append([]T(nil), in...)
		for i := range want {
			want[i] -= shift
		}
		tab.Exp(got, shift)
		tab.Exp(want, 0)
		for i := range in {
			if !same(got[i], want[i]) {
				t.Errorf("exp(%v - %v) = %v, want %v", in[i], shift, got[i], want[i])
			}
		}
	}
}

func TestElementwisePositions(t *testing.T) {
	each(t, checkPositions[float32], checkPositions[float64])
}

// checkPositions runs every function over all lengths to three vectors and one, some beyond the unrolled loops, at
// every misalignment: nothing outside may change and each element must have the bits it has alone.
func checkPositions[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(3, 4))
	size := int(unsafe.Sizeof(T(0)))
	pool := specials[T]()
	for range 100 {
		pool = append(pool, T(r.NormFloat64()*20), T(r.NormFloat64()), T(math.Exp(r.NormFloat64()*10)),
			fromBits[T](r.Uint64()))
	}
	alone := map[string][]T{}
	for _, f := range functions[T]() {
		out := make([]T, len(pool))
		for i := range pool {
			f.run(tab, out[i:i+1], pool[i:i+1])
		}
		alone[f.name] = out
	}
	lengths := []int{64, 65, 100, 127, 128, 129, 200}
	for n := range 3*64/size + 2 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for shift := range 64 / size {
			pick := make([]int, n)
			in, out, out2 := view[T](1, n, shift, 0, guard), view[T](1, n, shift, 0, guard),
				view[T](1, n, (shift+3)%(64/size), 0, guard)
			// Mostly tame values, so that the cheap paths run too.
			for i := range pick {
				pick[i] = r.IntN(len(pool))
				for n%2 == 0 && r.IntN(50) > 0 && math.Abs(float64(pool[pick[i]])) > 50 {
					pick[i] = r.IntN(len(pool))
				}
				in.Data[i] = pool[pick[i]]
			}
			check := func(name string, got []T) {
				t.Helper()
				for i, v := range got {
					if want := alone[name][pick[i]]; !same(v, want) {
						t.Fatalf("%s: element %d of %d, shift %d: f(%v) = %v, alone %v", name, i, n, shift, in.Data[i],
							v, want)
					}
				}
				checkGuards(t, out, shift)
				checkGuards(t, out2, (shift+3)%(64/size))
				checkGuards(t, in, shift)
			}
			for _, f := range functions[T]()[:3] {
				f.run(tab, out.Data, in.Data)
				check(f.name, out.Data)
			}
			tab.SinCos(out.Data, out2.Data, in.Data)
			check("sin", out.Data)
			check("cos", out2.Data)
			copy(out.Data, in.Data)
			tab.SinCos(out.Data, out2.Data, out.Data) // t is sin
			check("sin", out.Data)
			check("cos", out2.Data)
			copy(out.Data, in.Data)
			tab.SinCos(out2.Data, out.Data, out.Data) // t is cos
			check("sin", out2.Data)
			check("cos", out.Data)
		}
	}
}

// Around the end of the normal range a result has the same bits among normal ones, among subnormal ones, beside the
// largest and alone: whole groups, groups with such arguments and tails take different ways.
func TestExpSubnormalResults(t *testing.T) {
	each(t, checkExpSubnormal[float32], checkExpSubnormal[float64])
}

func checkExpSubnormal[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(41, 42))
	low, high := -87.0, 88.7 // exp; 2^x ends at log₂e times these
	if epsilon[T]() < 0x1p-40 {
		low, high = -708, 709.7
	}
	n := 100_000
	if !stattest.Full() {
		n = 10_000
	}
	const group = 64 // at least that of every table
	for _, f := range []struct {
		name string
		base float64
		do   func([]T)
	}{{"exp", math.E, func(x []T) { tab.Exp(x, 0) }}, {"exp2", 2, tab.Exp2}} {
		scale := 1 / math.Log(f.base)
		for i := 0; i < n; i += group {
			var arg, got [group]T
			for k := range arg {
				arg[k] = T(scale * low * (0.99 + 0.22*r.Float64())) // down to zero
			}
			// Results of all sizes beside them.
			switch at := r.IntN(group); i / group % 4 {
			case 1:
				arg[at] = T(scale * high * (2*r.Float64() - 1))
			case 2:
				arg[at] = T(scale * high * r.Float64() * 1.01)
			case 3:
				arg[at] = T([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e30}[r.IntN(4)])
			}
			got = arg
			f.do(got[:])
			for k, v := range arg {
				one := [1]T{v}
				f.do(one[:])
				if !same(got[k], one[0]) {
					t.Fatalf("%s of %v is %v in a group, %v alone", f.name, v, got[k], one[0])
				}
			}
		}
	}
}

func TestSinCosKeepsInput(t *testing.T) {
	each(t, checkSinCosInput[float32], checkSinCosInput[float64])
}

func checkSinCosInput[T dense.Float](t *testing.T, tab *Table[T]) {
	in := append(specials[T](), specials[T]()...)
	kept := append([]T(nil), in...)
	tab.SinCos(make([]T, len(in)), make([]T, len(in)), in)
	for i := range in {
		if !same(in[i], kept[i]) {
			t.Errorf("element %d was %v, is %v", i, kept[i], in[i])
		}
	}
}

// The calls that split long arrays: more elements than one call takes, large arguments at the seams.
func TestElementwiseLong(t *testing.T) { each(t, checkLong[float32], checkLong[float64]) }

func checkLong[T dense.Float](t *testing.T, tab *Table[T]) {
	n := 1<<16 + 77
	in, out := make([]T, n), make([]T, n)
	for i := range in {
		in[i] = T(i%1000) / 16
	}
	for _, i := range []int{1<<15 - 1, 1 << 15, 1 << 16, n - 1} {
		in[i] = 1e6
	}
	one := make([]T, 1)
	for _, f := range functions[T]() {
		f.run(tab, out, in)
		for i := 0; i < n; i += 41 {
			f.run(tab, one, in[i:i+1])
			if !same(one[0], out[i]) {
				t.Fatalf("%s: element %d is %v, alone %v", f.name, i, out[i], one[0])
			}
		}
	}
	in[n-1] = 2e6
	if m := tab.Max(in); m != 2e6 {
		t.Errorf("max %v", m)
	}
}

func TestMax(t *testing.T) { each(t, checkMax[float32], checkMax[float64]) }

func checkMax[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(5, 6))
	ref := Reference[T]()
	size := int(unsafe.Sizeof(T(0)))
	nan, neg := T(math.NaN()), T(math.Copysign(0, -1))
	for n := range 6*64/size + 2 {
		for shift := range 64 / size {
			m := view[T](1, n, shift, 0, nan) // a read outside shows
			x := m.Data
			for i := range x {
				x[i] = T(r.NormFloat64() - 3)
			}
			try := func(what string) {
				t.Helper()
				if got, want := tab.Max(x), ref.Max(x); !same(got, want) ||
					math.Signbit(float64(got)) != math.Signbit(float64(want)) && want == want {
					t.Fatalf("%s: n %d shift %d: %v, want %v", what, n, shift, got, want)
				}
			}
			try("random")
			if n == 0 {
				continue
			}
			for i := range x { // every position decides once
				old := x[i]
				x[i] = 7
				try("one large")
				x[i] = nan
				try("one NaN")
				x[i] = fromBits[T](0x7ff0000000000001 | 0x7f800001)
				try("one odd NaN")
				x[i] = old
			}
			x[r.IntN(n)] = T(math.Inf(1))
			try("+Inf")
			for i := range x {
				x[i] = neg
			}
			try("-0")
			x[r.IntN(n)] = 0
			try("±0")
			for i := range x {
				x[i] = T(math.Inf(-1))
			}
			try("-Inf")
			x[r.IntN(n)] = -fromBits[T](1)
			try("subnormal")
		}
	}
}

func TestFWHT(t *testing.T) { each(t, checkFWHT[float32], checkFWHT[float64]) }

// checkFWHT wants the bits of the reference: the butterflies are the same additions of the same operands, so the bound
// on the difference is zero.
func checkFWHT[T dense.Float](t *testing.T, tab *Table[T]) {
	r := rand.New(rand.NewPCG(7, 8))
	size := int(unsafe.Sizeof(T(0)))
	for n := 1; n <= 1<<17; n *= 2 {
		for shift := range 64 / size {
			if n > 4096 && shift%5 != 1 {
				continue
			}
			got, want := view[T](1, n, shift, 0, guard), make([]T, n)
			for kind := range 4 {
				for i := range want {
					switch kind {
					case 0:
						want[i] = T(r.NormFloat64())
					case 1:
						want[i] = fromBits[T](r.Uint64() >> 12) // float64: subnormal
					case 2:
						want[i] = T(r.NormFloat64()) * fromBits[T](1<<(20+r.IntN(2))) // float32: subnormal
					case 3:
						want[i] = T(r.IntN(3) - 1)
						if r.IntN(n) == 0 {
							want[i] = T(math.Inf(1 - 2*r.IntN(2)))
						}
						if want[i] == 0 && r.IntN(2) == 0 {
							want[i] = T(math.Copysign(0, -1))
						}
					}
				}
				copy(got.Data, want)
				FWHT(want)
				tab.FWHT(got.Data)
				for i := range want {
					if !same(got.Data[i], want[i]) {
						t.Fatalf("n %d shift %d kind %d: element %d is %v, want %v", n, shift, kind, i, got.Data[i],
							want[i])
					}
				}
				checkGuards(t, got, shift)
			}
		}
	}
	tab.FWHT(nil)
}

// FuzzElementwise takes raw bits as numbers: results within the bound of the exact value. Run it with
// -fuzzminimizetime 1x: exact values are slow.
func FuzzElementwise(f *testing.F) {
	var seed []byte
	for _, v := range specials[float64]() {
		seed = binary.LittleEndian.AppendUint64(seed, math.Float64bits(v))
	}
	f.Add(seed)
	seed = nil
	for _, v := range specials[float32]() {
		seed = binary.LittleEndian.AppendUint32(seed, math.Float32bits(v))
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = raw[:min(len(raw), 400)]
		var x32 []float32
		for b := raw; len(b) >= 4; b = b[4:] {
			x32 = append(x32, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		var x64 []float64
		for b := raw; len(b) >= 8; b = b[8:] {
			x64 = append(x64, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
		fuzzElementwise(t, x32)
		fuzzElementwise(t, x64)
	})
}

func fuzzElementwise[T dense.Float](t *testing.T, x []T) {
	out := make([]T, len(x))
	for _, f := range functions[T]() {
		exact := make([]*big.Float, len(x))
		for i, v := range x {
			exact[i] = f.exact(float64(v))
		}
		for _, tab := range Available[T]() {
			if tab.Name == "go" {
				continue // package math has larger errors, see checkSpecials
			}
			f.run(tab, out, x)
			for i, v := range x {
				if u := ulps(out[i], exact[i], f.wide(float64(v))); !(u <= maxULP) {
					t.Errorf("%s %s(%v) = %v (%v ulp)", tab.Name, f.name, v, out[i], u)
				}
			}
		}
	}
	for _, tab := range Available[T]() {
		if got, want := tab.Max(x), Reference[T]().Max(x); !same(got, want) {
			t.Errorf("%s max %v, want %v", tab.Name, got, want)
		}
		n := 1
		for 2*n <= len(x) {
			n *= 2
		}
		if len(x) > 0 {
			got, want := append([]T(nil), x[:n]...), append([]T(nil), x[:n]...)
			tab.FWHT(got)
			FWHT(want)
			for i := range want {
				if !same(got[i], want[i]) {
					t.Errorf("%s FWHT element %d is %v, want %v", tab.Name, i, got[i], want[i])
				}
			}
		}
	}
}
