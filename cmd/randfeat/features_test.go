package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/kernels"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/kernel"
)

func equalRows(t *testing.T, got, want dense.Matrix[float64]) {
	t.Helper()
	if got.Rows != want.Rows || got.Cols != want.Cols {
		t.Fatalf("got %d×%d, want %d×%d", got.Rows, got.Cols, want.Rows, want.Cols)
	}
	for i := range want.Rows {
		for j, w := range want.Row(i) {
			if g := got.At(i, j); g != w {
				t.Fatalf("element %d,%d = %v, want %v", i, j, g, w)
			}
		}
	}
}

// The file holds the features of the library, also for more rows than one block.
func TestFeaturesAreThoseOfTheLibrary(t *testing.T) {
	dir := t.TempDir()
	x := random(1024+7, 5, 0.5, 1)
	in, out := save(t, dir, "x.npy", x), filepath.Join(dir, "phi.npy")
	o := ok(t, "features", in, "-o", out, "--kernel", "softmax", "--scale", "2", "--family", `{"name":"oprf","a":-0.1}`,
		"--coupling", "orthogonal", "--projections", "8", "--seed", "42", "--side", "key")
	if o.stdout != "" || !strings.Contains(o.stderr, "seed 42") {
		t.Errorf("stdout %q, stderr %q", o.stdout, o.stderr)
	}
	m, err := randfeat.New[float64](randfeat.Spec{
		Kernel: kernel.Kernel{Kind: kernel.Softmax, Scale: 2}, Family: family.OPRF{A: -0.1},
		Coupling: coupling.Orthogonal{}, Dim: 5, M: 8, Seed: 42,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := dense.New[float64](x.Rows, m.OutDim())
	if err := m.Keys(want, nil, x, nil); err != nil {
		t.Fatal(err)
	}
	equalRows(t, load(t, out).F64, want)
}

// Queries and keys, fitted from each other's files, give one map: their product is near the kernel.
func TestFeaturesFitBothSides(t *testing.T) {
	dir := t.TempDir()
	q, k := save(t, dir, "q.npy", random(30, 4, 0.5, 1)), save(t, dir, "k.npy", random(20, 4, 0.5, 2))
	phiQ, phiK := filepath.Join(dir, "pq.npy"), filepath.Join(dir, "pk.npy")
	common := []string{"--kernel", "softmax", "--family", "adaptive", "--projections", "4096", "--json"}
	a := objects[kernels.FeaturesResult](t, ok(t, append([]string{"features", q, "-o", phiQ, "--fit", k},
		common...)...).stdout)[0]
	b := objects[kernels.FeaturesResult](t, ok(t, append([]string{"features", k, "-o", phiK, "--fit", q, "--side",
		"key"},
		common...)...).stdout)[0]
	if a.Features != 4096 || a.Rows != 30 || a.DType != "float64" || !a.Positive || a.Spec.Seed != cli.DefaultSeed ||
		a.Side != "query" {
		t.Errorf("%+v", a)
	}
	one, _ := a.Spec.MarshalJSON()
	two, _ := b.Spec.MarshalJSON()
	if !bytes.Equal(one, two) {
		t.Fatalf("the two sides have different maps:\n%s\n%s", one, two)
	}
	x, y, fx, fy := load(t, q).F64, load(t, k).F64, load(t, phiQ).F64, load(t, phiK).F64
	for i := range x.Rows {
		for j := range y.Rows {
			ratio := dense.Dot(fx.Row(i), fy.Row(j)) / math.Exp(dense.Dot(x.Row(i), y.Row(j)))
			if math.Abs(ratio-1) > 0.2 {
				t.Fatalf("pair %d,%d: estimate/kernel = %v", i, j, ratio)
			}
		}
	}
}

// A saved spec gives the same features without the data it was fitted to.
func TestFeaturesSpecRoundTrip(t *testing.T) {
	dir := t.TempDir()
	x, y := save(t, dir, "x.npy", random(10, 3, 0.5, 1)), save(t, dir, "y.npy", random(10, 3, 0.5, 2))
	spec, first, second := filepath.Join(dir, "spec.json"), filepath.Join(dir, "a.npy"), filepath.Join(dir, "b.npy")
	ok(t, "features", x, "-o", first, "--family", "geometric", "--kernel", "softmax", "--fit", y, "--seed", "7",
		"--projections", "16", "--save-spec", spec)
	ok(t, "features", x, "-o", second, "--spec", spec)
	equalRows(t, load(t, second).F64, load(t, first).F64)
	fails(t, exitMisuse, "--spec and --seed exclude", "features", x, "-o", second, "--spec", spec, "--seed", "3")
	wide := save(t, dir, "wide.npy", random(2, 4, 1, 3))
	fails(t, exitFailed, "for inputs of 3 columns, the data have 4", "features", wide, "-o",
		filepath.Join(dir, "c.npy"), "--spec", spec)
}

func TestFeaturesGivenProjections(t *testing.T) {
	dir := t.TempDir()
	x := save(t, dir, "x.npy", dense.MustFromRows([][]float64{{0.5, -1}}))
	w := save(t, dir, "w.npy", dense.MustFromRows([][]float32{{1, 2}, {0, 1}, {3, 0}}))
	out := filepath.Join(dir, "phi.npy")
	o := ok(t, "features", x, "-o", out, "--kernel", "softmax", "--family", "positive", "--omega", w)
	if !strings.Contains(o.stderr, "projections from "+w) {
		t.Errorf("stderr %q", o.stderr)
	}
	got := load(t, out).F64
	for i, dot := range []float64{-1.5, -1, 1.5} {
		if want := math.Exp(dot-0.625) / math.Sqrt(3); math.Abs(got.At(0, i)-want) > 1e-14 {
			t.Errorf("feature %d = %v, want %v", i, got.At(0, i), want)
		}
	}
	fails(t, exitMisuse, "--omega and --seed exclude", "features", x, "-o", out, "--family", "positive", "--omega", w,
		"--seed", "2")
	fails(t, exitFailed, "--omega", "features", x, "-o", out, "--family", "angular", "--omega", w)
	bad := save(t, dir, "bad.npy", dense.MustFromRows([][]float64{{1, 2, 3}}))
	fails(t, exitFailed, "--omega", "features", x, "-o", out, "--family", "positive", "--omega", bad)
}

// With log scales float32 features of large inputs stay finite and restore to the plain ones.
func TestFeaturesLogScale(t *testing.T) {
	dir := t.TempDir()
	x := dense.Convert[float32](random(4, 3, 40, 1))
	in, out, scale := save(t, dir, "x.npy", x), filepath.Join(dir, "phi.npy"), filepath.Join(dir, "s.npy")
	fails(t, exitFailed, "--log-scale", "features", in, "-o", out, "--family", "trig", "--kernel", "softmax")
	if got := names(t, dir); got != "x.npy" {
		t.Fatalf("the directory holds %s after a failure", got)
	}
	ok(t, "features", in, "-o", out, "--family", "trig", "--kernel", "softmax", "--log-scale", scale, "--projections",
		"4")
	phi, s := load(t, out), load(t, scale)
	if phi.DType != npy.Float32 || s.DType != npy.Float64 || s.Rows() != 4 || s.Cols() != 1 {
		t.Fatalf("%v, %v, %d×%d", phi.DType, s.DType, s.Rows(), s.Cols())
	}
	for i := range x.Rows {
		// |φ(x)|² = exp(|x|²) for trigonometric features.
		log := math.Log(float64(dense.Norm2(phi.F32.Row(i)))) + 2*s.F64.At(i, 0)
		if want := float64(dense.Norm2(x.Row(i))); math.Abs(log-want) > 1e-3*want {
			t.Errorf("row %d: log |φ|² = %v, want %v", i, log, want)
		}
	}
}

func TestFeaturesDType(t *testing.T) {
	dir := t.TempDir()
	in, out := save(t, dir, "x.npy", random(4, 3, 1, 1)), filepath.Join(dir, "phi.npy")
	ok(t, "features", in, "-o", out, "--family", "trig", "--dtype", "float32")
	if a := load(t, out); a.DType != npy.Float32 || a.Cols() != 2*cli.DefaultM {
		t.Errorf("%v, %d columns", a.DType, a.Cols())
	}
	if o := ok(t, "features", in, "-o", out, "--family", "trig", "--fit", in); !strings.Contains(o.stderr,
		"no parameters to fit") {
		t.Errorf("stderr %q", o.stderr)
	}
	huge := save(t, dir, "huge.npy", dense.MustFromRows([][]float64{{1e300}}))
	fails(t, exitFailed, "as float32", "features", huge, "-o", filepath.Join(dir, "h.npy"), "--family", "trig",
		"--dtype", "float32")
}

func TestFeaturesThroughPipes(t *testing.T) {
	var in, stdout, stderr bytes.Buffer
	x := random(3, 2, 1, 1)
	if err := npy.Write(&in, x); err != nil {
		t.Fatal(err)
	}
	code := runChecked(context.Background(), []string{"features", "-", "-o", "-", "--family", "relu", "--projections",
		"5"}, &in, &stdout, &stderr)
	if code != exitDone {
		t.Fatal(stderr.String())
	}
	a, err := npy.Read(&stdout)
	if err != nil || a.Rows() != 3 || a.Cols() != 5 {
		t.Errorf("%d×%d, %v", a.Rows(), a.Cols(), err)
	}
	fails(t, exitMisuse, "drop --json", "features", "-", "-o", "-", "--family", "relu", "--json")
}

// Whatever is wrong with the call or the data, the message names it and nothing is written.
func TestFeaturesBadInput(t *testing.T) {
	dir := t.TempDir()
	good := save(t, dir, "good.npy", random(3, 2, 1, 1))
	other := save(t, dir, "other.npy", random(3, 4, 1, 1))
	nan := save(t, dir, "nan.npy", dense.MustFromRows([][]float64{{1, 2}, {3, math.NaN()}}))
	inf := save(t, dir, "inf.npy", dense.MustFromRows([][]float64{{1, 2}, {math.Inf(1), 4}}))
	empty := save(t, dir, "empty.npy", dense.Matrix[float64]{Cols: 2})
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cut := write("cut.npy", whole[:len(whole)-1])
	ints := write("ints.npy", bytes.Replace(whole, []byte("<f8"), []byte("<i8"), 1))
	vector := write("vector.npy", bytes.Replace(whole, []byte("(3, 2), }"), []byte("(6,), }  "), 1))
	text := write("text.csv", []byte("1,2\n3,4\n"))
	spec := write("spec.json", []byte(`{"family":{"name":"trigg"}}`))
	large := write("large.json", []byte(`{"kernel":{"kind":"gaussian"},"family":{"name":"trig"},"dim":2,"m":1000000000000}`))
	before := names(t, dir)
	out := filepath.Join(dir, "out.npy")

	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "no.npy", []string{filepath.Join(dir, "no.npy"), "-o", out, "--family", "trig"}},
		{exitFailed, "is a directory", []string{dir, "-o", out, "--family", "trig"}},
		{exitFailed, "is a directory", []string{good, "-o", dir, "--family", "trig"}},
		{exitFailed, "cannot write", []string{good, "-o", filepath.Join(dir, "no", "out.npy"), "--family", "trig"}},
		{exitFailed, "nan.npy: row 1, column 1 is NaN", []string{nan, "-o", out, "--family", "trig"}},
		{exitFailed, "inf.npy: row 1, column 0 is +Inf", []string{inf, "-o", out, "--family", "trig"}},
		{exitFailed, "empty.npy has no rows", []string{empty, "-o", out, "--family", "trig"}},
		{exitFailed, "(truncated)", []string{cut, "-o", out, "--family", "trig"}},
		{exitFailed, "(dtype)", []string{ints, "-o", out, "--family", "trig"}},
		{exitFailed, "(shape)", []string{vector, "-o", out, "--family", "trig"}},
		{exitFailed, "text.csv: not a usable npy file (format)", []string{text, "-o", out, "--family", "trig"}},
		{exitFailed, "other.npy has 4 columns, the data have 2", []string{good, "-o", out, "--family", "oprf", "--fit",
			other}},
		{exitFailed, "--fit: ", []string{good, "-o", out, "--family", "oprf", "--fit", nan}},
		{exitFailed, "--family '{\"name\":\"poisson\"", []string{good, "-o", out, "--family", "poisson"}},
		{exitFailed, "only trig has it", []string{good, "-o", out, "--family", "positive", "--kernel", "bessel"}},
		{exitFailed, "only trig has it", []string{good, "-o", out, "--family", "oprf", "--kernel", "matern32"}},
		{exitMisuse, "matern12, matern32 or matern52", []string{good, "-o", out, "--family", "trig", "--kernel",
			"matern"}},
		{exitFailed, "not defined for this law", []string{good, "-o", out, "--family", `{"name":"poisson","lambda":1}`,
			"--coupling", "simplex"}},
		{exitFailed, "--kernel-matrix", []string{good, "-o", out, "--family", "trig", "--kernel-matrix", nan}},
		{exitFailed, "M is 3×4", []string{good, "-o", out, "--family", "trig", "--kernel-matrix", other}},
		{exitFailed, "spec.json: ", []string{good, "-o", out, "--spec", spec}},
		{exitMisuse, "--out (-o) is missing", []string{good, "--family", "trig"}},
		{exitMisuse, "--family is missing: choose one of trig, ", []string{good, "-o", out}},
		{exitMisuse, `--family: unknown family "trigg" (did you mean trig?); want one of trig`, []string{good, "-o", out, "--family", "trigg"}},
		{exitMisuse, "--family: ", []string{good, "-o", out, "--family", `{"name":"oprf","b":1}`}},
		{exitMisuse, `--coupling: unknown coupling "orthogonl" (did you mean orthogonal?); want one of iid`, []string{good, "-o", out, "--family", "trig",
			"--coupling", "orthogonl"}},
		{exitMisuse, "--kernel: ", []string{good, "-o", out, "--family", "trig", "--kernel", "poly"}},
		{exitMisuse, `--scale is "-1"`, []string{good, "-o", out, "--family", "trig", "--scale", "-1"}},
		{exitMisuse, `--scale is "0"`, []string{good, "-o", out, "--family", "trig", "--scale", "0"}},
		{exitMisuse, `--scale is "NaN"`, []string{good, "-o", out, "--family", "trig", "--scale", "NaN"}},
		{exitMisuse, "--projections is 0", []string{good, "-o", out, "--family", "trig", "--projections", "0"}},
		{exitMisuse, "--projections is -3", []string{good, "-o", out, "--family", "trig", "--projections", "-3"}},
		{exitMisuse, "--projections is 100000000000", []string{good, "-o", out, "--family", "trig", "--projections",
			"100000000000"}},
		{exitMisuse, "--projections is 9223372036854775807", []string{good, "-o", out, "--family", "angular",
			"--projections", "9223372036854775807"}},
		{exitMisuse, "--projections is 16: the projections of the family angular",
			[]string{good, "-o", out, "--family", `{"name":"angular","n":1000000000}`, "--projections", "16"}},
		{exitMisuse, "\"m\" of --spec ", []string{good, "-o", out, "--spec", large}},
		{exitMisuse, "can come from stdin", []string{"-", "-o", out, "--family", "oprf", "--fit", "-"}},
		{exitMisuse, `--side is "value"`, []string{good, "-o", out, "--family", "trig", "--side", "value"}},
		{exitMisuse, `--dtype is "half"`, []string{good, "-o", out, "--family", "trig", "--dtype", "half"}},
		{exitMisuse, "same file", []string{good, "-o", out, "--family", "trig", "--log-scale", out}},
		{exitMisuse, "--save-spec", []string{good, "-o", out, "--family", "trig", "--save-spec", out}},
		{exitMisuse, `--seed is "-1", want a whole number from 0`, []string{good, "-o", out, "--family", "trig",
			"--seed", "-1"}},
	} {
		fails(t, c.code, c.says, append([]string{"features"}, c.args...)...)
	}
	if after := names(t, dir); after != before {
		t.Errorf("the directory changed from %s to %s", before, after)
	}
}

// Log scales are written only if all of them are finite.
func TestFeaturesOfHugeRows(t *testing.T) {
	dir := t.TempDir()
	for name, v := range map[string]float64{"a.npy": 1e200, "b.npy": 1e155, "c.npy": 1e100} {
		in := save(t, dir, name, dense.MustFromRows([][]float64{{0.5, 1}, {v, 3}}))
		for _, fam := range []string{"trig", "positive", "hyperbolic", "oprf", "angular"} {
			out, scale := filepath.Join(dir, "phi.npy"), filepath.Join(dir, "s.npy")
			o := call(t, "", "features", in, "-o", out, "--log-scale", scale, "--family", fam, "--kernel", "softmax",
				"--projections", "4")
			if o.code == exitFailed {
				if !strings.Contains(o.stderr, "row 1") {
					t.Errorf("%g, %s: %q does not name the row", v, fam, o.stderr)
				}
				if got := names(t, dir); strings.Contains(got, "phi") || strings.Contains(got, "s.npy") {
					t.Errorf("%g, %s: the directory holds %s after a failure", v, fam, got)
				}
				continue
			}
			if v > 1e150 || o.code != exitDone {
				t.Errorf("%g, %s: exit %d", v, fam, o.code)
				continue
			}
			for _, a := range []npy.Array{load(t, out), load(t, scale)} {
				if err := a.CheckFinite(); err != nil {
					t.Errorf("%g, %s: %v", v, fam, err)
				}
			}
			os.Remove(out)
			os.Remove(scale)
		}
		os.Remove(in)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := cli.CheckLogScales("X", 3, []float64{0, bad}); err == nil ||
			!strings.Contains(err.Error(), "row 4 of X") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A hint to fit stands where a fit may help: not after one, and not for families that have none.
func TestFitHint(t *testing.T) {
	dir := t.TempDir()
	x := save(t, dir, "x.npy", random(3, 2, 1, 1))
	const hint = "or fit them with --fit"
	for _, c := range []struct {
		hinted bool
		args   []string
	}{
		{true, []string{"--family", "geometric"}},
		{false, []string{"--family", "lfk"}},
		{false, []string{"--family", "lfk", "--fit", x}},
		{false, []string{"--family", `{"name":"gaussian-lambda","c":[-1]}`, "--fit", x}},
	} {
		o := call(t, "", append([]string{"features", x, "-o", filepath.Join(dir, "phi.npy")}, c.args...)...)
		if o.code != exitFailed || strings.Contains(o.stderr, hint) != c.hinted {
			t.Errorf("%v: exit %d, %q", c.args, o.code, o.stderr)
		}
	}
}

// Known-bad combinations warn on stderr and in the JSON, whatever the command; good ones do not.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	x, y := save(t, dir, "x.npy", random(5, 4, 0.5, 1)), save(t, dir, "y.npy",
		dense.Convert[float32](random(6, 4, 0.5, 2)))
	w := save(t, dir, "w.npy", random(4, 4, 1, 3))
	out := filepath.Join(dir, "o.npy")
	type result struct {
		Warning string
	}
	commands := map[string][]string{
		"features":     {"features", x, "-o", out},
		"features key": {"features", y, "-o", out, "--side", "key"},
		"gram":         {"gram", x, y},
		"gram file":    {"gram", x, y, "-o", out},
		"gram error":   {"gram", x, y, "--error", "--repeat", "1"},
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"simplex coupling makes trigonometric", []string{"--family", "trig", "--coupling", "simplex", "--projections",
			"8"}},
		{"simplex coupling makes hyperbolic", []string{"--family", "hyperbolic", "--coupling", "fastsimplex",
			"--projections", "8"}},
		{"simplex coupling makes trigonometric", []string{"--family", `{"name":"gerf","a":[0.01,0],"s":-1}`,
			"--coupling", "simplex"}},
		{"simplex coupling makes ", []string{"--family", "angular", "--coupling", "simplex"}},
		{"makes positive features biased", []string{"--family", "positive", "--coupling", "orfprime", "--projections",
			"1"}},
		{"makes oprf features biased", []string{"--family", "oprf", "--coupling",
			`{"name":"orfprime","sqrtDim":true}`}},
		{"estimate the Bessel kernel", []string{"--family", "trig", "--coupling", "orfprime"}},
		{"", []string{"--family", "trig", "--coupling", "orfprime", "--kernel", "bessel"}},
		{"", []string{"--family", "positive", "--coupling", "simplex"}},
		{"", []string{"--family", "trig", "--coupling", "orthogonal"}},
		{"", []string{"--family", "trig", "--coupling", "simplex", "--projections", "1"}},
		{"", []string{"--family", "elu", "--coupling", "orfprime"}},
		{"simplexplus coupling makes trigonometric", []string{"--family", "trig", "--coupling", "simplexplus",
			"--projections", "8"}},
		{"", []string{"--family", "trig", "--omega", w}},
	} {
		for name, command := range commands {
			o := ok(t, append(slices.Clone(command), c.args...)...)
			j := ok(t, append(slices.Clone(command), append(c.args, "--json")...)...)
			var r result
			first, _, _ := strings.Cut(j.stdout, "\n")
			if err := json.Unmarshal([]byte(first), &r); err != nil {
				t.Fatal(err)
			}
			for where, got := range map[string]string{"stderr": o.stderr, "stderr with --json": j.stderr} {
				if warned := strings.Contains(got, "warning: "); warned != (c.says != "") ||
					!strings.Contains(got, c.says) {
					t.Errorf("%s %v: %s is %q, want %q", name, c.args, where, got, c.says)
				}
			}
			if !strings.Contains(r.Warning, c.says) || (r.Warning == "") != (c.says == "") {
				t.Errorf("%s %v: JSON warning %q, want %q", name, c.args, r.Warning, c.says)
			}
		}
	}
	// Uneven rows of HD products show where the data are: along an axis, and with explicit factors only.
	axis := save(t, dir, "axis.npy", dense.MustFromRows([][]float64{{0, 0, 0, 0}, {2, 0, 0, 0}}))
	for k, says := range map[string]string{`{"name":"hadamard","k":3}`: "rows of the hadamard coupling are not uniform",
		"hadamard": ""} {
		o := ok(t, "features", axis, "-o", out, "--family", "trig", "--coupling", k)
		if warned := strings.Contains(o.stderr, "warning: "); warned != (says != "") ||
			!strings.Contains(o.stderr, says) {
			t.Errorf("%s at |x−y| = 2 along an axis: %q, want %q", k, o.stderr, says)
		}
	}
}

func TestFeaturesStopWhenInterrupted(t *testing.T) {
	dir := t.TempDir()
	in := save(t, dir, "x.npy", random(3, 2, 1, 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := runChecked(ctx, []string{"features", in, "-o", filepath.Join(dir, "out.npy"), "--family", "trig"}, nil,
		&stdout, &stderr)
	if code != exitInterrupted || names(t, dir) != "x.npy" {
		t.Errorf("exit %d, files %s", code, names(t, dir))
	}
}
