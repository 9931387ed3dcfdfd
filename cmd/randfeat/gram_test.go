package main

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

func TestGramExact(t *testing.T) {
	dir := t.TempDir()
	x := save(t, dir, "x.npy", dense.MustFromRows([][]float64{{0, 0}, {2, 0}}))
	y := save(t, dir, "y.npy", dense.MustFromRows([][]float32{{0, 0}, {0, 2}, {2, 2}}))
	o := ok(t, "gram", x, y, "--exact", "--scale", "2")
	want := "1\t0.60653066\t0.36787944\n0.60653066\t0.36787944\t0.60653066\n"
	if o.stdout != want {
		t.Errorf("got\n%swant\n%s", o.stdout, want)
	}
	rows := objects[GramRow](t, ok(t, "gram", x, y, "--exact", "--scale", "2", "--json").stdout)
	if len(rows) != 2 || rows[1].Row != 1 || math.Abs(rows[1].Values[1]-math.Exp(-1)) > 1e-15 {
		t.Errorf("%+v", rows)
	}
	out := filepath.Join(dir, "k.npy")
	r := objects[GramResult](t, ok(t, "gram", x, y, "--exact", "--scale", "2", "-o", out, "--json").stdout)[0]
	if !r.Exact || r.Rows != 2 || r.Cols != 3 || r.Kernel == nil || r.Spec != nil {
		t.Errorf("%+v", r)
	}
	if k := load(t, out).F64; k.At(0, 0) != 1 || math.Abs(k.At(0, 2)-math.Exp(-1)) > 1e-15 {
		t.Errorf("%v", k)
	}
}

func TestGramApproximate(t *testing.T) {
	dir := t.TempDir()
	mx, my := random(6, 3, 0.7, 1), random(5, 3, 0.7, 2)
	x, y, out := save(t, dir, "x.npy", mx), save(t, dir, "y.npy", my), filepath.Join(dir, "k.npy")
	o := ok(t, "gram", x, y, "--family", "trig", "-m", "16", "--seed", "3", "-o", out)
	if !strings.Contains(o.stderr, "seed 3") {
		t.Errorf("stderr %q", o.stderr)
	}
	m, err := randfeat.New[float64](randfeat.Spec{Family: family.Trig{}, Dim: 3, M: 16, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := dense.New[float64](6, 5)
	if err := m.Gram(want, mx, my, nil); err != nil {
		t.Fatal(err)
	}
	equalRows(t, load(t, out).F64, want)
	if lines := strings.Split(strings.TrimSpace(ok(t, "gram", x, y, "--family", "trig", "-m", "16", "--seed",
		"3").stdout), "\n"); len(lines) != 6 {
		t.Errorf("%d rows printed, want 6", len(lines))
	}
}

// The error that theory predicts is the error that is measured. |x+y|² is small, so that tails are light and 100 draws
// suffice.
func TestGramError(t *testing.T) {
	dir := t.TempDir()
	x, y := save(t, dir, "x.npy", random(20, 6, 0.12, 1)), save(t, dir, "y.npy", random(20, 6, 0.12, 2))
	for _, args := range [][]string{
		{"--family", "trig", "--coupling", "orthogonal"},
		{"--family", "positive", "--coupling", "simplex"},
		{"--family", "adaptive", "--fit"},
		{"--family", "dark", "--fit"},
	} {
		args = append([]string{"gram", x, y, "--kernel", "softmax", "-m", "24", "--error", "--repeat", "100"}, args...)
		r := objects[ErrorResult](t, ok(t, append(args, "--json")...).stdout)[0]
		if r.Predicted == nil || r.Measured == nil || r.Draws != 100 || r.Pairs != 400 {
			t.Fatalf("%v: %+v", args, r)
		}
		if ratio := *r.Measured / *r.Predicted; ratio < 0.85 || ratio > 1.15 {
			t.Errorf("%v: measured %v, predicted %v", args, *r.Measured, *r.Predicted)
		}
		o := ok(t, args...)
		if !strings.Contains(o.stdout, "predicted relative error") || !strings.Contains(o.stdout, "seed 1") {
			t.Errorf("%s", o.stdout)
		}
	}
	r := objects[ErrorResult](t, ok(t, "gram", x, y, "--family", "trig", "--coupling", "halton", "--error",
		"--json").stdout)[0]
	if r.Predicted != nil || !strings.Contains(r.Reason, "halton") || r.Draws != defaultErrorDraws {
		t.Errorf("%+v", r)
	}
	o := ok(t, "gram", x, y, "--family", "trig", "--coupling", "simplex", "--error")
	if !strings.Contains(o.stderr, "warning: the simplex coupling") {
		t.Errorf("no warning: %q", o.stderr)
	}
	r = objects[ErrorResult](t, ok(t, "gram", x, y, "--kernel", "bessel", "--family", "trig", "--coupling",
		"orthogonal", "--error", "--json").stdout)[0]
	if r.Measured != nil || r.Frobenius == nil || *r.Frobenius > 0.1 {
		t.Errorf("%+v", r)
	}
	for _, k := range []string{"laplace", "matern12", "matern32", "matern52"} {
		r = objects[ErrorResult](t, ok(t, "gram", x, y, "--kernel", k, "--family", "trig", "--error",
			"--json").stdout)[0]
		if r.Measured == nil || r.Predicted == nil ||
			!(*r.Measured/(*r.Predicted) < 1.5 && *r.Predicted/(*r.Measured) < 1.5) {
			t.Errorf("%s: %+v", k, r)
		}
	}
}

// A fit comes with the error on rows held out of it, or with the reason why that is not known.
func TestGramErrorHeldOut(t *testing.T) {
	dir := t.TempDir()
	x, y := random(24, 6, 0.12, 1), random(20, 6, 0.12, 2)
	px, py := save(t, dir, "x.npy", x), save(t, dir, "y.npy", dense.Convert[float32](y))
	three := save(t, dir, "three.npy", random(3, 6, 0.12, 3))
	const line = "the same on rows held out of the fit"
	for _, c := range []struct {
		says   string // a note
		x      string
		known  bool
		family string
		args   []string
	}{
		{"", px, true, "adaptive", []string{"--fit"}},
		{"", px, false, "adaptive", nil},
		{"no parameters to fit", px, false, "trig", []string{"--fit"}},
		{"", px, false, "adaptive", []string{"--fit", "--coupling", "halton"}},
		{"no error on rows held out of the fit: 3 queries", three, false, "adaptive", []string{"--fit"}},
	} {
		args := append([]string{"gram", c.x, py, "--kernel", "softmax", "--family", c.family, "-m", "24", "--error",
			"--repeat", "1"}, c.args...)
		o, r := ok(t, args...), objects[ErrorResult](t, ok(t, append(args, "--json")...).stdout)[0]
		if (r.HeldOut != nil) != c.known || strings.Contains(o.stdout, line) != c.known ||
			!strings.Contains(o.stderr, c.says) || c.says == "" && strings.Contains(o.stderr, "held out") {
			t.Errorf("%v: %+v\n%s%s", args, r, o.stdout, o.stderr)
		}
		if !c.known {
			continue
		}
		want, err := randfeat.HeldOut(randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
			Family: family.Adaptive{}, Coupling: r.Spec.Coupling, Dim: 6, M: 24}, x,
			dense.Convert[float64](dense.Convert[float32](y)))
		if err != nil || *r.HeldOut != want {
			t.Errorf("%v: %v, want %v (%v)", args, *r.HeldOut, want, err)
		}
	}
}

// The error is that of the matrix that -o writes, in its precision: opposite rows are a case where float32 fails.
func TestGramErrorIsOfWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	mx := dense.Convert[float32](random(1, 16, 1, 1))
	my := mx.Clone()
	for i := range my.Data {
		my.Data[i] *= -1
	}
	x, y, out := save(t, dir, "x.npy", mx), save(t, dir, "y.npy", my), filepath.Join(dir, "k.npy")
	for _, name := range []string{"angular", "positive", "trig"} {
		args := []string{"gram", x, y, "--kernel", "softmax", "--family", name, "-m", "64", "--seed", "3"}
		ok(t, append(args, "-o", out)...)
		r := objects[ErrorResult](t, ok(t, append(args, "--error", "--repeat", "1", "--json")...).stdout)[0]
		written, exact := load(t, out).F32, dense.New[float64](1, 1)
		target := kernel.Kernel{Kind: kernel.Softmax}
		if err := kernel.Gram(target, exact, dense.Convert[float64](mx), dense.Convert[float64](my)); err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i, k := range exact.Data {
			e := float64(written.Data[i])/k - 1
			sum += e * e
		}
		if want := math.Sqrt(sum); r.Measured == nil || math.Abs(*r.Measured-want) > 1e-5*want+1e-7 ||
			r.DType != "float32" {
			t.Errorf("%s: measured %v in %s, the file has %.6g", name, r.Measured, r.DType, want)
		}
		// The angular hybrid has no variance at opposite rows: what is measured is rounding, and is said.
		if said := strings.Contains(r.Warning, "rounding"); said != (name == "angular") || r.Rounding == nil {
			t.Errorf("%s: rounding %v, warning %q", name, r.Rounding, r.Warning)
		}
	}
}

// Kernel values beyond float64 still have a relative error.
func TestGramErrorOfHugeKernels(t *testing.T) {
	dir := t.TempDir()
	big := random(4, 3, 30, 1)
	for i := range big.Data {
		big.Data[i] = math.Abs(big.Data[i])
	}
	x := save(t, dir, "x.npy", big)
	fails(t, exitFailed, "overflows", "gram", x, x, "--exact", "--kernel", "softmax", "-o", filepath.Join(dir, "k.npy"))
	if names(t, dir) != "x.npy" {
		t.Errorf("the directory holds %s", names(t, dir))
	}
	r := objects[ErrorResult](t, ok(t, "gram", x, x, "--kernel", "softmax", "--family", "positive", "--error",
		"--json").stdout)[0]
	if r.Measured == nil || math.IsNaN(*r.Measured) || r.Frobenius == nil {
		t.Errorf("%+v", r)
	}
	if r.Predicted != nil || r.Reason == "" {
		t.Errorf("the prediction overflows and must say so: %+v", r)
	}
}

// Kernel values below float64 beside others: the Frobenius error counts what is large.
func TestGramErrorOfTinyKernels(t *testing.T) {
	dir := t.TempDir()
	x := save(t, dir, "x.npy", dense.MustFromRows([][]float64{{0, 0}, {40, 0}}))
	y := save(t, dir, "y.npy", dense.MustFromRows([][]float64{{40, 0}, {0, 0}}))
	var got []float64
	for _, second := range []string{x, y} { // a tiny or a large kernel comes first
		r := objects[ErrorResult](t, ok(t, "gram", x, second, "--family", "trig", "-m", "64", "--error",
			"--json").stdout)[0]
		if r.Frobenius == nil {
			t.Fatalf("%+v", r)
		}
		got = append(got, *r.Frobenius)
	}
	// The diagonal is exact; two estimates of e^{-800} have variance 1/(2·64) each, against two ones.
	if f := got[0]; f < 0.04 || f > 0.18 || math.Abs(f-got[1]) > 1e-12 {
		t.Errorf("frobenius %v, want the same near %v", got, math.Sqrt(1.0/128))
	}
}

func TestGramGivenProjections(t *testing.T) {
	dir := t.TempDir()
	x, w := save(t, dir, "x.npy", random(4, 2, 1, 1)), save(t, dir, "w.npy", random(8, 2, 1, 2))
	r := objects[ErrorResult](t, ok(t, "gram", x, x, "--family", "trig", "--omega", w, "--error", "--json").stdout)[0]
	if r.Draws != 1 || r.Features != 16 || r.Predicted != nil || len(r.Omega) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestGramBadInput(t *testing.T) {
	dir := t.TempDir()
	x, wide := save(t, dir, "x.npy", random(4, 2, 1, 1)), save(t, dir, "wide.npy", random(4, 3, 1, 1))
	nan := save(t, dir, "nan.npy", dense.MustFromRows([][]float64{{math.NaN(), 1}}))
	before := names(t, dir)
	out := filepath.Join(dir, "k.npy")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "x.npy has 2 columns, ", []string{x, wide, "--exact", "-o", out}},
		{exitFailed, "nan.npy: row 0, column 0 is NaN", []string{x, nan, "--exact", "-o", out}},
		{exitFailed, "no.npy", []string{x, filepath.Join(dir, "no.npy"), "--exact", "-o", out}},
		{exitMisuse, "--family is missing", []string{x, x, "-o", out}},
		{exitMisuse, "--family is missing", []string{x, x, "--error"}},
		{exitMisuse, "--exact and --family exclude", []string{x, x, "--exact", "--family", "trig"}},
		{exitMisuse, "--exact and --error exclude", []string{x, x, "--exact", "--error"}},
		{exitMisuse, "--error and --out exclude", []string{x, x, "--error", "--family", "trig", "-o", out}},
		{exitMisuse, "--repeat needs --error", []string{x, x, "--family", "trig", "--repeat", "3"}},
		{exitMisuse, "--repeat is -1", []string{x, x, "--family", "trig", "--error", "--repeat", "-1"}},
		{exitMisuse, "only one of the two", []string{"-", "-", "--exact"}},
		{exitMisuse, `--scale is "-2"`, []string{x, x, "--exact", "--scale", "-2"}},
		{exitMisuse, "--demo and --family exclude", []string{"--demo", "--family", "trig"}},
		{exitMisuse, "--projections (-m) is 0", []string{"--demo", "-m", "0"}},
		{exitMisuse, "--projections (-m) is 100000000000", []string{"--demo", "-m", "100000000000"}},
		{exitMisuse, "--projections (-m) is 100000000000", []string{x, x, "--family", "trig", "-m", "100000000000"}},
		{exitMisuse, "--projections (-m) is 100000000000", []string{x, x, "--family", "trig", "-m", "100000000000",
			"--error"}},
		{exitMisuse, "features for each of 128 rows", []string{x, x, "--family", "angular", "-m", "100000"}},
	} {
		fails(t, c.code, c.says, append([]string{"gram"}, c.args...)...)
	}
	if after := names(t, dir); after != before {
		t.Errorf("the directory changed from %s to %s", before, after)
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every family with every coupling")
	}
	cells := objects[DemoCell](t, ok(t, "gram", "--demo", "--json", "-m", "16", "--repeat", "1").stdout)
	if len(cells) != len(familyNames())*len(couplingNames()) {
		t.Errorf("%d cells", len(cells))
	}
	for _, c := range cells {
		if c.Measured == nil && c.Reason == "" || c.Predicted == nil && c.Code == "" {
			t.Errorf("no number and no reason: %+v", c)
		}
		if c.Seed != defaultSeed || c.Draws != 1 {
			t.Errorf("%+v does not report its seed and draws", c)
		}
	}
	o := ok(t, "gram", "--demo", "-m", "16", "--repeat", "1", "--seed", "5")
	for _, want := range []string{"seed 5", "adaptive", "simplexplus", "-c  no closed form", "!   trig with simplex",
		"Smallest measured error"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the table does not show %q", want)
		}
	}
}

// A sample of pairs visits both sets evenly, also when their sizes have a common period.
func TestPairSample(t *testing.T) {
	for _, c := range [][3]int{{3, 5, 64}, {64, 64, 64}, {1024, 1024, 1024}, {1000, 7, 512}, {1, 100000, 256},
		{100000, 1, 256}} {
		s := newPairSample(c[0], c[1], c[2])
		if s.n != min(c[0]*c[1], c[2]) {
			t.Errorf("%v: %d pairs", c, s.n)
		}
		// A tenth of either set gets about a tenth of the pairs.
		var rows, cols [10]int
		seen := map[[2]int]bool{}
		for k := range s.n {
			i, j := s.at(k)
			rows[i*10/c[0]]++
			cols[j*10/c[1]]++
			seen[[2]int{i, j}] = true
		}
		for part := range 10 {
			if c[0] >= 10 && math.Abs(float64(rows[part])-float64(s.n)/10) > 0.02*float64(s.n) {
				t.Errorf("%v: rows %v", c, rows)
				break
			}
			if c[1] >= 10 && math.Abs(float64(cols[part])-float64(s.n)/10) > 0.03*float64(s.n) {
				t.Errorf("%v: columns %v", c, cols)
				break
			}
		}
		if len(seen) < s.n*9/10 {
			t.Errorf("%v: only %d different pairs of %d", c, len(seen), s.n)
		}
	}
}

// Whatever the magnitudes and their order, the sums are those of exact arithmetic.
func TestErrorSumsFarApart(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs [][4]float64 // value, log scale, sign, log kernel
		want  float64      // Frobenius
	}{
		{"tiny first", [][4]float64{{0.1, 0, 1, -800}, {1, 0, 1, 0}}, 0.1},
		{"tiny last", [][4]float64{{1, 0, 1, 0}, {0.1, 0, 1, -800}}, 0.1},
		{"tiny estimate", [][4]float64{{1, -900, 1, 0}}, 1},
		{"no estimate", [][4]float64{{0, 0, 1, -800}}, 1},
		{"exact", [][4]float64{{1, -800, 1, -800}}, 0},
		{"all tiny, far off", [][4]float64{{1, -700, 1, -800}}, math.Exp(100)},
		{"wrong sign", [][4]float64{{1, 0, -1, 0}}, 2},
		{"zero of the kernel", [][4]float64{{0.5, 0, 1, math.Inf(-1)}, {2, 0, 1, math.Log(2)}}, 0.25},
	} {
		var s errorSums
		for _, p := range c.pairs {
			s.add(p[0], p[1], p[2], p[3])
		}
		if got := s.frobenius(); math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The sums do not depend on the unit they are kept in, nor on how pairs are grouped.
func TestErrorSums(t *testing.T) {
	type pair struct{ value, scale, log float64 }
	pairs := []pair{{1.1, 0, 0}, {0.9, 5, 5}, {2, -300, -300}, {1, 900, 900}, {1.5, 899, 900}}
	var one errorSums
	var parts [2]errorSums
	for i, p := range pairs {
		one.add(p.value, p.scale, 1, p.log)
		parts[i%2].add(p.value, p.scale, 1, p.log)
	}
	var two errorSums
	for _, p := range parts {
		two.merge(p)
	}
	want := 0.0
	for _, p := range pairs {
		rel := p.value*math.Exp(p.scale-p.log) - 1
		want += rel * rel
	}
	want = math.Sqrt(want / float64(len(pairs)))
	for _, s := range []errorSums{one, two} {
		if math.Abs(s.rms()-want) > 1e-12 {
			t.Errorf("rms %v, want %v", s.rms(), want)
		}
		// Only the two largest kernels count in the norm: (1.5/e - 1)/√2.
		if f := (1.5/math.E - 1) / math.Sqrt2; math.Abs(s.frobenius()-math.Abs(f)) > 1e-12 {
			t.Errorf("frobenius %v, want %v", s.frobenius(), math.Abs(f))
		}
	}
	if strconv.Itoa(one.pairs) != strconv.Itoa(two.pairs) {
		t.Errorf("%d and %d pairs", one.pairs, two.pairs)
	}
}
