package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/kernels"
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
	rows := objects[kernels.GramRow](t, ok(t, "gram", x, y, "--exact", "--scale", "2", "--json").stdout)
	if len(rows) != 2 || rows[1].Row != 1 || math.Abs(rows[1].Values[1]-math.Exp(-1)) > 1e-15 {
		t.Errorf("%+v", rows)
	}
	out := filepath.Join(dir, "k.npy")
	r := objects[kernels.GramResult](t, ok(t, "gram", x, y, "--exact", "--scale", "2", "-o", out, "--json").stdout)[0]
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
	o := ok(t, "gram", x, y, "--family", "trig", "--projections", "16", "--seed", "3", "-o", out)
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
	if lines := strings.Split(strings.TrimSpace(ok(t, "gram", x, y, "--family", "trig", "--projections", "16", "--seed",
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
		args = append([]string{"gram", x, y, "--kernel", "softmax", "--projections", "24", "--error", "--repeat",
			"100"}, args...)
		r := objects[kernels.ErrorResult](t, ok(t, append(args, "--json")...).stdout)[0]
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
	r := objects[kernels.ErrorResult](t, ok(t, "gram", x, y, "--family", "trig", "--coupling", "halton", "--error",
		"--json").stdout)[0]
	if r.Predicted != nil || !strings.Contains(r.Reason, "halton") || r.Draws != 8 {
		t.Errorf("%+v", r)
	}
	o := ok(t, "gram", x, y, "--family", "trig", "--coupling", "simplex", "--error")
	if !strings.Contains(o.stderr, "warning: the simplex coupling") {
		t.Errorf("no warning: %q", o.stderr)
	}
	r = objects[kernels.ErrorResult](t, ok(t, "gram", x, y, "--kernel", "bessel", "--family", "trig", "--coupling",
		"orthogonal", "--error", "--json").stdout)[0]
	if r.Measured != nil || r.Frobenius == nil || *r.Frobenius > 0.1 {
		t.Errorf("%+v", r)
	}
	for _, k := range []string{"laplace", "matern12", "matern32", "matern52"} {
		r = objects[kernels.ErrorResult](t, ok(t, "gram", x, y, "--kernel", k, "--family", "trig", "--error",
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
		args := append([]string{"gram", c.x, py, "--kernel", "softmax", "--family", c.family, "--projections", "24",
			"--error", "--repeat", "1"}, c.args...)
		o, r := ok(t, args...), objects[kernels.ErrorResult](t, ok(t, append(args, "--json")...).stdout)[0]
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
		args := []string{"gram", x, y, "--kernel", "softmax", "--family", name, "--projections", "64", "--seed", "3"}
		ok(t, append(args, "-o", out)...)
		r := objects[kernels.ErrorResult](t, ok(t, append(args, "--error", "--repeat", "1", "--json")...).stdout)[0]
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
		// The angular hybrid has no variance at opposite rows: the measured error is rounding, and a note says so.
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
	r := objects[kernels.ErrorResult](t, ok(t, "gram", x, x, "--kernel", "softmax", "--family", "positive", "--error",
		"--json").stdout)[0]
	if r.Measured == nil || math.IsNaN(*r.Measured) || r.Frobenius == nil {
		t.Errorf("%+v", r)
	}
	if r.Predicted != nil || r.Reason == "" {
		t.Errorf("the prediction overflows and must say so: %+v", r)
	}
}

// Kernel values below float64 beside others: the Frobenius error counts the large values.
func TestGramErrorOfTinyKernels(t *testing.T) {
	dir := t.TempDir()
	x := save(t, dir, "x.npy", dense.MustFromRows([][]float64{{0, 0}, {40, 0}}))
	y := save(t, dir, "y.npy", dense.MustFromRows([][]float64{{40, 0}, {0, 0}}))
	var got []float64
	for _, second := range []string{x, y} { // a tiny or a large kernel comes first
		r := objects[kernels.ErrorResult](t, ok(t, "gram", x, second, "--family", "trig", "--projections", "64",
			"--error", "--json").stdout)[0]
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
	r := objects[kernels.ErrorResult](t, ok(t, "gram", x, x, "--family", "trig", "--omega", w, "--error",
		"--json").stdout)[0]
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
		{exitMisuse, "--projections is 0", []string{"--demo", "--projections", "0"}},
		{exitMisuse, "--projections is 100000000000", []string{"--demo", "--projections", "100000000000"}},
		{exitMisuse, "--projections is 100000000000", []string{x, x, "--family", "trig", "--projections",
			"100000000000"}},
		{exitMisuse, "--projections is 100000000000", []string{x, x, "--family", "trig", "--projections",
			"100000000000", "--error"}},
		{exitMisuse, "features for each of 128 rows", []string{x, x, "--family", "angular", "--projections", "100000"}},
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
	cells := objects[kernels.DemoCell](t, ok(t, "gram", "--demo", "--json", "--projections", "16", "--repeat",
		"1").stdout)
	if len(cells) != len(cli.FamilyNames())*len(cli.CouplingNames()) {
		t.Errorf("%d cells", len(cells))
	}
	for _, c := range cells {
		if c.Measured == nil && c.Reason == "" || c.Predicted == nil && c.Code == "" {
			t.Errorf("no number and no reason: %+v", c)
		}
		if c.Seed != cli.DefaultSeed || c.Draws != 1 {
			t.Errorf("%+v does not report its seed and draws", c)
		}
	}
	o := ok(t, "gram", "--demo", "--projections", "16", "--repeat", "1", "--seed", "5")
	for _, want := range []string{"seed 5", "adaptive", "simplexplus", "-c  no closed form", "!   trig with simplex",
		"Smallest measured error"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the table does not show %q", want)
		}
	}
}

// Rows of length 100 have positive features below the smallest number: an all-zero matrix is an error, single zeros are
// counted in a warning.
func TestGramUnderflow(t *testing.T) {
	dir := t.TempDir()
	long := random(12, 5, 1, 1)
	for i := range long.Rows {
		length := math.Sqrt(dense.Norm2(long.Row(i)))
		for c := range long.Row(i) {
			long.Row(i)[c] *= 100 / length
		}
	}
	mixed := long.Clone()
	for i := range 6 {
		for c := range mixed.Row(i) {
			mixed.Row(i)[c] /= 100
		}
	}
	x, out := save(t, dir, "x.npy", long), filepath.Join(dir, "k.npy")
	args := []string{"--family", "positive", "--projections", "16", "-o", out}
	fails(t, exitFailed, "144 of 144 estimates are 0", append([]string{"gram", x, x}, args...)...)
	fails(t, exitFailed, "choose a larger --scale, --family trig", append([]string{"gram", x, x}, args...)...)
	if _, err := os.Stat(out); err == nil {
		t.Error("an all-zero matrix was written")
	}
	y := save(t, dir, "y.npy", mixed)
	o := ok(t, append([]string{"gram", y, y}, args...)...)
	if !strings.Contains(o.stderr, "warning: ") || !strings.Contains(o.stderr, "of 144 estimates are 0") {
		t.Errorf("stderr %q", o.stderr)
	}
	r := objects[kernels.GramResult](t, ok(t, append([]string{"gram", y, y, "--json"}, args...)...).stdout)[0]
	if !strings.Contains(r.Warning, "estimates are 0") {
		t.Errorf("%+v", r)
	}
	if o := ok(t, append([]string{"gram", x, x, "--scale", "100"}, args...)...); strings.Contains(o.stderr, "are 0") {
		t.Errorf("rows that are short for the bandwidth: %q", o.stderr)
	}
	// Features have their own warning.
	o = ok(t, append([]string{"features", x}, args...)...)
	if !strings.Contains(o.stderr, "all features of 12 rows are 0") {
		t.Errorf("features: %q", o.stderr)
	}
}
