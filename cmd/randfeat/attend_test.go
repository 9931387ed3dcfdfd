package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/attend"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// saveTensor writes random numbers N(0, scale²) of a shape.
func saveTensor[T dense.Float](t *testing.T, dir, name string, stream uint64, scale float64, shape ...int) string {
	t.Helper()
	cols, n := shape[len(shape)-1], 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float64, n)
	rng.Normals(x, rng.Stream(5, stream))
	m := dense.New[T](n/cols, cols)
	for i, v := range x {
		m.Data[i] = T(scale * v)
	}
	return saveAs(t, dir, name, m, shape...)
}

func saveAs[T dense.Float](t *testing.T, dir, name string, m dense.Matrix[T], shape ...int) string {
	t.Helper()
	path := filepath.Join(dir, name)
	var b bytes.Buffer
	w, err := npy.NewTensorWriter[T](&b, shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRows(m); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// saveInts writes an integer array as NumPy does.
func saveInts(t *testing.T, dir, name, shape string, v ...byte) string {
	t.Helper()
	dict := "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }\n"
	b := append([]byte("\x93NUMPY\x01\x00"), byte(len(dict)), 0)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, append(append(b, dict...), v...), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func loadTensor(t *testing.T, path string) npy.Tensor {
	t.Helper()
	a, err := npy.ReadTensorFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// softmaxRow is exact attention of one query by definition.
func softmaxRow(q []float64, k, v dense.Matrix[float64], sees func(j int) bool) []float64 {
	out, sum := make([]float64, v.Cols), 0.0
	for j := range k.Rows {
		if !sees(j) {
			continue
		}
		w := math.Exp(dense.Dot(q, k.Row(j)) / math.Sqrt(float64(k.Cols)))
		sum += w
		for c, x := range v.Row(j) {
			out[c] += w * x
		}
	}
	for c := range out {
		out[c] /= sum
	}
	return out
}

// Every layout gives the softmax by definition; fewer key/value heads are shared by neighbours.
func TestAttendExactLayouts(t *testing.T) {
	for _, c := range []struct {
		name     string
		q, k, v  []int
		args     []string
		b, h, hk int
		want     []int
	}{
		{"[L, d]", []int{5, 4}, []int{7, 4}, []int{7, 3}, nil, 1, 1, 1, []int{5, 3}},
		{"[H, L, d]", []int{4, 5, 4}, []int{2, 7, 4}, []int{2, 7, 3}, []string{"--kv-heads", "2"}, 1, 4, 2,
			[]int{4, 5, 3}},
		{"[B, H, L, d]", []int{2, 3, 5, 4}, []int{2, 1, 7, 4}, []int{2, 1, 7, 3}, nil, 2, 3, 1, []int{2, 3, 5, 3}},
		{"[L, H·d]", []int{5, 16}, []int{7, 8}, []int{7, 6}, []string{"--heads", "4", "--kv-heads", "2"}, 1, 4, 2,
			[]int{5, 12}},
		{"[B, L, H·d]", []int{2, 5, 8}, []int{2, 7, 8}, []int{2, 7, 6}, []string{"--heads", "2"}, 2, 2, 2,
			[]int{2, 5, 6}},
	} {
		for _, causal := range []bool{false, true} {
			dir := t.TempDir()
			q, k, v := saveTensor[float64](t, dir, "q.npy", 1, 1, c.q...), saveTensor[float64](t, dir, "k.npy", 2, 1,
				c.k...), saveTensor[float64](t, dir, "v.npy", 3, 1, c.v...)
			out := filepath.Join(dir, "out.npy")
			args := append([]string{"attend", q, k, v, "-o", out, "--exact", fmt.Sprintf("--causal=%v", causal)},
				c.args...)
			if o := ok(t, args...); !strings.Contains(o.stderr, "exact attention") {
				t.Errorf("stderr %q", o.stderr)
			}
			got := loadTensor(t, out)
			if !slices.Equal(got.Shape, c.want) || got.DType != npy.Float64 {
				t.Fatalf("%s: output %v, want %v", c.name, got.Shape, c.want)
			}
			rows := func(path string, b, h, heads, length, dim int) dense.Matrix[float64] {
				x := loadTensor(t, path).F64
				if strings.Contains(c.name, "H·d") {
					return dense.Matrix[float64]{Rows: length, Cols: dim, Stride: heads * dim,
						Data: x[b*length*heads*dim+h*dim:]}
				}
				return dense.Matrix[float64]{Rows: length, Cols: dim, Stride: dim, Data: x[(b*heads+h)*length*dim:]}
			}
			for b := range c.b {
				for h := range c.h {
					g := h / (c.h / c.hk)
					qm, km, vm, om := rows(q, b, h, c.h, 5, 4), rows(k, b, g, c.hk, 7, 4), rows(v, b, g, c.hk, 7, 3),
						rows(out, b, h, c.h, 5, 3)
					for i := range 5 {
						want := softmaxRow(qm.Row(i), km, vm, func(j int) bool { return !causal || j <= i+2 })
						for l, w := range want {
							if math.Abs(om.At(i, l)-w) > 1e-6 {
								t.Fatalf("%s causal %v: batch %d head %d row %d: %v, want %v", c.name, causal, b, h, i,
									om.Row(i), want)
							}
						}
					}
				}
			}
		}
	}
}

// The command is the library: same spec, same numbers.
func TestAttendLinear(t *testing.T) {
	dir := t.TempDir()
	q, k, v := saveTensor[float32](t, dir, "q.npy", 1, 1, 2, 40, 8), saveTensor[float32](t, dir, "k.npy", 2, 1, 2, 40,
		8), saveTensor[float32](t, dir, "v.npy", 3, 1, 2, 40, 8)
	out := filepath.Join(dir, "out.npy")
	r := objects[attend.AttendResult](t, ok(t, "attend", q, k, v, "-o", out, "--causal", "--family", "positive",
		"--coupling",
		"orthogonal", "--features", "32", "--seed", "9", "--json").stdout)[0]
	if r.Features != 32 || r.DType != "float32" || r.KVHeads != 2 || r.Rows != 80 || r.Seed == nil || *r.Seed != 9 ||
		len(r.Specs) != 1 || !r.Causal {
		t.Errorf("%+v", r)
	}
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Attention(8), Family: family.Positive{},
		Coupling: coupling.Orthogonal{}, Dim: 8, M: 32, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	lin := linear.Attention[float32]{Visibility: attention.Visibility{Causal: true},
		Maps: []randfeat.FeatureMap[float32]{m}}
	seq := func(path string) attention.Seq[float32] {
		s := attention.NewSeq[float32](1, 2, 40, 8)
		copy(s.Data, loadTensor(t, path).F32)
		return s
	}
	want := attention.NewSeq[float32](1, 2, 40, 8)
	if _, err := lin.Forward(want, seq(q), seq(k), seq(v)); err != nil {
		t.Fatal(err)
	}
	if got := loadTensor(t, out).F32; !slices.Equal(got, want.Data) {
		t.Error("the output differs from linear.Attention[float32]")
	}
	// Without a family the adaptive one is fitted, each head on its own.
	o := ok(t, "attend", q, k, v, "-o", out, "--method", "features")
	if !strings.Contains(o.stderr, "adaptive features, fitted per head") || !strings.Contains(o.stderr, "seed 1") ||
		o.stdout != "" {
		t.Errorf("%+v", o)
	}
	r = objects[attend.AttendResult](t, ok(t, "attend", q, k, v, "-o", out, "--method", "features", "--json").stdout)[0]
	if len(r.Specs) != 2 || r.Specs[0].Seed == r.Specs[1].Seed {
		t.Errorf("%+v", r)
	}
}

// A fit to few rows is said once, not once per head, beside what theory says of the combination.
func TestAttendFewRows(t *testing.T) {
	dir := t.TempDir()
	const few, both = "adaptive is fitted to 15 rows of 8 columns, too few", "orfprime draws rows of one fixed norm"
	for _, c := range []struct {
		rows, times int
		args        []string
	}{
		{15, 1, nil},
		{16, 0, nil},
		{15, 0, []string{"--family", "oprf", "--fit"}},
		{15, 1, []string{"--coupling", "orfprime"}},
	} {
		args := []string{"attend"}
		for i, name := range []string{"q.npy", "k.npy", "v.npy"} {
			args = append(args, saveTensor[float32](t, dir, name, uint64(i), 1, 3, c.rows, 8))
		}
		args = append(append(args, "-o", filepath.Join(dir, "out.npy"), "--features", "16"), c.args...)
		r := objects[attend.AttendResult](t, ok(t, append(args, "--json")...).stdout)[0].Warning
		stderr := ok(t, args...).stderr
		for where, got := range map[string]string{"stderr": stderr, "JSON": r} {
			if n := strings.Count(got, few); n != c.times || strings.Contains(got, both) != (len(c.args) == 2) {
				t.Errorf("%d rows %v: %s warns %d times, want %d: %q", c.rows, c.args, where, n, c.times, got)
			}
		}
	}
}

// A window as long as the sequence leaves nothing to the features.
func TestAttendFullWindowIsExact(t *testing.T) {
	dir := t.TempDir()
	q, k, v := saveTensor[float64](t, dir, "q.npy", 1, 1, 30, 6), saveTensor[float64](t, dir, "k.npy", 2, 1, 30, 6),
		saveTensor[float64](t, dir, "v.npy", 3, 1, 30, 2)
	exact, out := filepath.Join(dir, "exact.npy"), filepath.Join(dir, "out.npy")
	ok(t, "attend", q, k, v, "-o", exact, "--exact", "--causal", "--scale", "0.7")
	ok(t, "attend", q, k, v, "-o", out, "--causal", "--window", "30", "--family", "positive", "--features", "4",
		"--scale", "0.7")
	equalNear(t, loadTensor(t, out).F64, loadTensor(t, exact).F64, 1e-6)
}

func equalNear(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements, want %d", len(got), len(want))
	}
	for i, w := range want {
		if math.Abs(got[i]-w) > tolerance {
			t.Fatalf("element %d is %v, want %v", i, got[i], w)
		}
	}
}

// Padding equals truncation, and packed sequences equal separate ones.
func TestAttendMaskAndSegments(t *testing.T) {
	dir := t.TempDir()
	x := random(12, 4, 1, 7)
	q := save(t, dir, "q.npy", x)
	padded, short := save(t, dir, "k.npy", x), save(t, dir, "short.npy", x.RowRange(0, 9))
	mask := saveInts(t, dir, "mask.npy", "(12,)", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0)
	a, b := filepath.Join(dir, "a.npy"), filepath.Join(dir, "b.npy")
	common := []string{"--family", "positive", "--features", "16"}
	ok(t, append([]string{"attend", q, padded, padded, "-o", a, "--mask", mask}, common...)...)
	ok(t, append([]string{"attend", q, short, short, "-o", b}, common...)...)
	equalNear(t, loadTensor(t, a).F64, loadTensor(t, b).F64, 1e-6)

	segments := saveInts(t, dir, "seg.npy", "(1, 12)", 3, 3, 3, 3, 3, 7, 7, 7, 7, 7, 7, 7)
	ok(t, append([]string{"attend", q, q, q, "-o", a, "--causal", "--segments", segments}, common...)...)
	first, second := save(t, dir, "1.npy", x.RowRange(0, 5)), save(t, dir, "2.npy", x.RowRange(5, 12))
	var want []float64
	for _, part := range []string{first, second} {
		ok(t, append([]string{"attend", part, part, part, "-o", b, "--causal"}, common...)...)
		want = append(want, loadTensor(t, b).F64...)
	}
	equalNear(t, loadTensor(t, a).F64, want, 1e-6)

	none := saveInts(t, dir, "none.npy", "(12,)", make([]byte, 12)...)
	o := ok(t, append([]string{"attend", q, q, q, "-o", a, "--mask", none}, common...)...)
	if !strings.Contains(o.stderr, "12 of 12 query rows see no key") {
		t.Errorf("stderr %q", o.stderr)
	}
}

func TestAttendPipes(t *testing.T) {
	dir := t.TempDir()
	q, k := saveTensor[float32](t, dir, "q.npy", 1, 1, 6, 4), saveTensor[float32](t, dir, "k.npy", 2, 1, 6, 4)
	out := filepath.Join(dir, "out.npy")
	ok(t, "attend", q, k, k, "-o", out, "--exact", "--dtype", "float64")
	want, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(q)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := runChecked(context.Background(), []string{"attend", "-", k, k, "-o", "-", "--exact", "--dtype", "float64"},
		bytes.NewReader(in), &stdout, &stderr)
	if code != exitDone || !bytes.Equal(stdout.Bytes(), want) {
		t.Errorf("exit %d, %d bytes on stdout, want those of the file (%d): %s", code, stdout.Len(), len(want),
			stderr.String())
	}
}

// Nothing to fit to: the default family gives way, and the output is the zeros that the library defines.
func TestAttendNothingToFit(t *testing.T) {
	dir := t.TempDir()
	x, row := saveTensor[float32](t, dir, "x.npy", 1, 1, 2, 6, 4), saveTensor[float32](t, dir, "row.npy", 1, 1, 1, 4)
	empty, out := saveTensor[float32](t, dir, "empty.npy", 1, 1, 2, 0, 4), filepath.Join(dir, "out.npy")
	none, one := saveInts(t, dir, "none.npy", "(6,)", make([]byte, 6)...), saveInts(t, dir, "one.npy", "(1,)", 0)
	for _, c := range []struct {
		q, k string
		args []string
		says string
	}{
		{empty, x, nil, "[2, 0, 4]"},
		{x, empty, nil, "12 of 12 query rows see no key"},
		{x, x, []string{"--mask", none}, "12 of 12 query rows see no key"},
		{row, row, []string{"--mask", one}, "1 of 1 query row sees no key"},
		{x, empty, []string{"--compare"}, "nothing to compare: no query row sees a key"},
	} {
		o := ok(t, append([]string{"attend", c.q, c.k, c.k, "-o", out, "--method", "features"}, c.args...)...)
		for _, text := range []string{"positive features, not fitted", "256 positive features, orthogonal", c.says} {
			if !strings.Contains(o.stderr, text) {
				t.Errorf("no %q in %s", text, o.stderr)
			}
		}
		q, got := loadTensor(t, c.q), loadTensor(t, out)
		if !slices.Equal(got.Shape, q.Shape) || slices.ContainsFunc(got.F32, func(v float32) bool { return v != 0 }) {
			t.Errorf("%v %v, want zeros of shape %v", got.Shape, got.F32, q.Shape)
		}
	}
}

// Where theory has nothing to say the table says so, once, with the reason.
func TestAttendCompareWithoutPrediction(t *testing.T) {
	dir := t.TempDir()
	x := saveTensor[float32](t, dir, "x.npy", 1, 20, 2, 40, 8)
	for family, reason := range map[string]string{"elu": "no closed form", "trig": "denominators vary"} {
		args := []string{"attend", x, x, x, "--family", family, "--coupling", "iid", "--features", "8", "--compare"}
		c := objects[attend.AttendResult](t, ok(t, append(args, "--json")...).stdout)[0].Compare
		if c.Predicted != nil || c.Method != "" || !strings.Contains(c.Reason, reason) {
			t.Errorf("%s: %+v", family, c.AttendErrors)
		}
		o := ok(t, args...)
		if n := strings.Count(o.stderr, reason); n != 1 || !strings.Contains(o.stderr,
			"PREDICTED is - for heads 0, 1: ") {
			t.Errorf("%s: the reason comes %d times in %s", family, n, o.stderr)
		}
		if n := strings.Count(o.stdout, "  -  "); n != 3 {
			t.Errorf("%s: %d dashes in %s", family, n, o.stdout)
		}
	}
}

// --compare measures the error of the output file, and the prediction is of the same size.
func TestAttendCompare(t *testing.T) {
	dir := t.TempDir()
	q, k, v := saveTensor[float32](t, dir, "q.npy", 1, 0.3, 2, 100, 8), saveTensor[float32](t, dir, "k.npy", 2, 0.3, 1,
		100, 8), saveTensor[float32](t, dir, "v.npy", 3, 1, 1, 100, 8)
	out, exact := filepath.Join(dir, "out.npy"), filepath.Join(dir, "exact.npy")
	args := []string{"attend", q, k, v, "--family", "positive", "--coupling", "iid", "--features", "512", "--compare",
		"--sample", "100"}
	r := objects[attend.AttendResult](t, ok(t, append(args, "-o", out, "--json")...).stdout)[0]
	c := r.Compare
	if c == nil || len(c.Heads) != 2 || c.Rows != 200 || c.Predicted == nil || c.Method != "covariances" ||
		c.AttentionSeconds <= 0 || c.ExactSeconds <= 0 || c.ExactEstimated {
		t.Fatalf("%+v", r)
	}
	ok(t, "attend", q, k, v, "-o", exact, "--exact")
	got, want := loadTensor(t, out).F32, loadTensor(t, exact).F32
	if d := distance(got, want); math.Abs(d-c.Output) > 1e-3*d {
		t.Errorf("the files differ by %v, --compare says %v", d, c.Output)
	}
	// One draw of 512 projections, with small inputs and so light tails: the error is a random number around the
	// prediction.
	if ratio := c.Output / *c.Predicted; ratio < 0.5 || ratio > 2 {
		t.Errorf("measured %v, predicted %v", c.Output, *c.Predicted)
	}
	o := ok(t, args...)
	for _, text := range []string{"HEAD", "PREDICTED", "all", " s, exact "} {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("no %q in %s", text, o.stdout)
		}
	}
	if !strings.Contains(o.stderr, "output not kept") || !strings.Contains(o.stderr, "seed 1") {
		t.Errorf("stderr %q", o.stderr)
	}
}

func TestAttendBadInput(t *testing.T) {
	dir := t.TempDir()
	q, k := saveTensor[float32](t, dir, "q.npy", 1, 1, 2, 6, 4), saveTensor[float32](t, dir, "k.npy", 2, 1, 2, 6, 4)
	flat := saveTensor[float32](t, dir, "flat.npy", 1, 1, 6, 4)
	vector := saveTensor[float32](t, dir, "vector.npy", 1, 1, 6)
	wide := saveTensor[float32](t, dir, "wide.npy", 1, 1, 2, 6, 5)
	long := saveTensor[float32](t, dir, "long.npy", 1, 1, 2, 7, 4)
	three := saveTensor[float32](t, dir, "three.npy", 1, 1, 3, 6, 4)
	two := saveTensor[float32](t, dir, "two.npy", 1, 1, 2, 1, 6, 4)
	one := saveTensor[float32](t, dir, "one.npy", 1, 1, 1, 1, 6, 4)
	bad := dense.New[float32](12, 4)
	bad.Set(7, 2, float32(math.NaN()))
	nan := saveAs(t, dir, "nan.npy", bad, 2, 6, 4)
	ints := saveInts(t, dir, "ints.npy", "(2, 6, 4)", make([]byte, 48)...)
	mask5, apart := saveInts(t, dir, "mask5.npy", "(5,)", 1, 1, 1, 1, 1), saveInts(t, dir, "apart.npy", "(6,)", 1, 1, 2,
		2, 1, 1)
	none := saveInts(t, dir, "none.npy", "(6,)", make([]byte, 6)...)
	out, lost := filepath.Join(dir, "out.npy"), filepath.Join(dir, "nowhere", "out.npy")
	before := names(t, dir)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitMisuse, "2 arguments, want three npy files", []string{q, k}},
		{exitMisuse, "--out (-o) is missing", []string{q, k, k}},
		{exitMisuse, "only one of the arrays can come from stdin", []string{"-", k, k, "-o", out, "--mask", "-"}},
		{exitMisuse, "-o - needs stdout", []string{q, k, k, "-o", "-", "--compare"}},
		{exitMisuse, "--heads is 0", []string{q, k, k, "-o", out, "--heads", "0"}},
		{exitMisuse, "--kv-heads is -1", []string{q, k, k, "-o", out, "--kv-heads", "-1"}},
		{exitMisuse, "--window is -1", []string{q, k, k, "-o", out, "--method", "features", "--window", "-1"}},
		{exitMisuse, "--scale is 0", []string{q, k, k, "-o", out, "--scale", "0"}},
		{exitMisuse, `--dtype is "half"`, []string{q, k, k, "-o", out, "--dtype", "half"}},
		{exitMisuse, "--key-segments needs --segments", []string{q, k, k, "-o", out, "--key-segments", apart}},
		{exitMisuse, "--sample needs --compare", []string{q, k, k, "-o", out, "--sample", "3"}},
		{exitMisuse, "--exact and --family exclude", []string{q, k, k, "-o", out, "--exact", "--family", "trig"}},
		{exitMisuse, "--exact and --window exclude", []string{q, k, k, "-o", out, "--exact", "--window", "3"}},
		{exitMisuse, "--features is 0", []string{q, k, k, "-o", out, "--features", "0"}},
		{exitMisuse, "--features is 100000000000", []string{q, k, k, "-o", out, "--features", "100000000000"}},
		{exitMisuse, "--family: ", []string{q, k, k, "-o", out, "--family", "none"}},
		{exitMisuse, "--demo and --window exclude", []string{"--demo", "--window", "3"}},
		{exitMisuse, "--svg needs --demo", []string{q, k, k, "-o", out, "--svg", out}},
		{exitMisuse, `--method is "best", want auto, exact, centroid or features`,
			[]string{q, k, k, "-o", out, "--method", "best"}},
		{exitMisuse, "--exact and --method centroid exclude",
			[]string{q, k, k, "-o", out, "--exact", "--method", "centroid"}},
		{exitMisuse, "--method auto and --family exclude",
			[]string{q, k, k, "-o", out, "--method", "auto", "--family", "trig"}},
		{exitMisuse, "imply) and --tol exclude", []string{q, k, k, "-o", out, "--features", "8", "--tol", "0.1"}},
		{exitMisuse, "imply) and --tol exclude", []string{q, k, k, "-o", out, "--clusters", "8", "--tol", "1"}},
		{exitMisuse, "--window and --sinks need --method", []string{q, k, k, "-o", out, "--window", "4"}},
		{exitMisuse, "--tol is 0, want a positive number", []string{q, k, k, "-o", out, "--tol", "0"}},
		{exitMisuse, "--budget is -1, want a positive number", []string{q, k, k, "-o", out, "--budget", "-1"}},
		{exitMisuse, "--tol and --budget exclude", []string{q, k, k, "-o", out, "--tol", "1", "--budget", "9"}},
		{exitMisuse, "--chunk needs --causal", []string{q, k, k, "-o", out, "--chunk", "3"}},
		{exitMisuse, "clusters -3, want", []string{q, k, k, "-o", out, "--clusters", "-3"}},
		{exitMisuse, "--sinks is for --method features",
			[]string{q, k, k, "-o", out, "--method", "centroid", "--sinks", "1"}},
		{exitMisuse, "--sinks is -1", []string{q, k, k, "-o", out, "--method", "features", "--sinks", "-1"}},
		{exitMisuse, "--spec and --method exclude", []string{q, k, k, "-o", out, "--spec", q, "--method", "auto"}},
		{exitMisuse, "--spec and --tol exclude", []string{q, k, k, "-o", out, "--spec", q, "--tol", "1"}},
		{exitFailed, "q.npy: not a choice of attention: it does not begin with {",
			[]string{q, k, k, "-o", out, "--spec", q}},
		{exitFailed, "nan.npy as k: batch 0, head 1, position 1, column 2 is NaN",
			[]string{q, nan, k, "-o", out, "--method", "centroid"}},
		{exitFailed, "no.npy", []string{q, filepath.Join(dir, "no.npy"), k, "-o", out}},
		{exitFailed, "vector.npy is [6], want [L, d]", []string{vector, vector, vector, "-o", out}},
		{exitFailed, "flat.npy is [6, 4]: they need the same number of dimensions", []string{q, flat, k, "-o", out}},
		{exitFailed, "queries of 4 columns and keys of 5", []string{q, wide, k, "-o", out}},
		{exitFailed, "6 keys and 7 values", []string{q, k, long, "-o", out}},
		{exitFailed, "2 heads of keys and 3 of values", []string{q, k, three, "-o", out}},
		{exitFailed, "2 query heads are not a multiple of 3", []string{q, three, three, "-o", out}},
		{exitFailed, "the number of batches is 2 and 1", []string{two, one, one, "-o", out}},
		{exitFailed, "--kv-heads is 1, ", []string{q, k, k, "-o", out, "--kv-heads", "1"}},
		{exitFailed, "divide into 3 heads", []string{q, k, k, "-o", out, "--heads", "3"}},
		{exitFailed, "two.npy is [2, 1, 6, 4], want [L, H·d]", []string{two, two, two, "-o", out, "--heads", "2"}},
		{exitFailed, "ints.npy holds uint8, want floats: convert", []string{ints, k, k, "-o", out}},
		{exitFailed, "nan.npy as k: batch 0, head 1, position 1, column 2 is NaN", []string{q, nan, k, "-o", out}},
		{exitFailed, "nan.npy as k: batch 0, head 1, position 1, column 2 is NaN",
			[]string{q, nan, k, "-o", out, "--family", "positive"}},
		{exitFailed, "nan.npy as v: batch 0, head 1, position 1, column 2 is NaN",
			[]string{q, k, nan, "-o", out, "--exact"}},
		{exitFailed, "mask5.npy is [5], want [6] or [1, 6]", []string{q, k, k, "-o", out, "--mask", mask5}},
		{exitFailed, "q.npy holds float32, want bools or integers: convert", []string{q, k, k, "-o", out, "--mask", q}},
		{exitFailed, "or use --family positive", []string{q, k, k, "-o", out, "--mask", none, "--family", "oprf",
			"--fit"}},
		{exitFailed, `set parameters with --family '{"name": "lfk", "w": [[...], ...]}'` + "\n",
			[]string{q, k, k, "-o", out, "--family", "lfk", "--fit"}},
		{exitFailed, "or fit them with --fit\n", []string{q, k, k, "-o", out, "--family", "zero-one"}},
		{exitFailed, "cannot write " + lost + ": ", []string{q, k, k, "-o", lost}},
		{exitFailed, "segment 1 begins a second time", []string{q, k, k, "-o", out, "--segments", apart}},
		{exitFailed, "needs --key-segments", []string{q, long, long, "-o", out, "--segments", apart}},
	} {
		fails(t, c.code, c.says, append([]string{"attend"}, c.args...)...)
	}
	if after := names(t, dir); after != before {
		t.Errorf("the directory changed from %s to %s", before, after)
	}
}

// The story that the demo tells, on texts that nothing was fitted to: features are hardly better than the mean of the
// values, centroids with exact sets far better at less cost, and a choice per head keeps its tolerance at the least.
func TestAttendDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("many methods")
	}
	svg := filepath.Join(t.TempDir(), "demo.svg")
	for _, args := range [][]string{{"--svg", svg, "--causal"}} { // TestShownRuns has the demo without flags
		rows := objects[attend.AttendDemoRow](t, ok(t, append([]string{"attend", "--demo", "--json"},
			args...)...).stdout)
		find := func(plan string) attend.AttendDemoRow {
			for _, r := range rows {
				if strings.HasPrefix(r.Method+", "+r.Plan, plan) {
					return r
				}
			}
			t.Fatalf("no row %s", plan)
			return attend.AttendDemoRow{}
		}
		mean, exact := find("mean of the values"), find("exact")
		positive, adaptive := find("positive features, 256"), find("adaptive features, fitted, 256")
		sets, chosen := find("chunks, centroids and exact keys, centroid, 16 clusters, keys 64"), find("chosen per head, --tol 0.1")
		if exact.Median != 0 || exact.Cost != 256 ||
			!(positive.Median > 0.5*mean.Median && adaptive.Median < positive.Median) ||
			!(sets.Median < adaptive.Median/3 && sets.Cost < 120) {
			t.Errorf("%v: mean %v, positive %v, adaptive %v, exact sets %v at %v", args, mean.Median, positive.Median,
				adaptive.Median, sets.Median, sets.Cost)
		}
		if chosen.Expected == nil || chosen.Within < 0.85 || chosen.Cost > 110 || chosen.Median > 1.4**chosen.Expected {
			t.Errorf("%v: %+v", args, chosen)
		}
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", "Error of attention against its cost", "chosen per head",
		"chunks, centroids and exact keys"} {
		if !strings.Contains(string(b), text) {
			t.Errorf("no %q in the figure", text)
		}
	}
}

// saveHeads writes generated heads of a text.
func saveHeads(t *testing.T, dir string, n, length int, text uint64) []string {
	t.Helper()
	q, k, v := heads.Generate[float32](n, length, 32, text)
	var out []string
	for i, s := range []attention.Seq[float32]{q, k, v} {
		m := dense.Matrix[float32]{Rows: n * length, Cols: 32, Stride: 32, Data: s.Data}
		name := fmt.Sprintf("%d%s", text, []string{"q.npy", "k.npy", "v.npy"}[i])
		out = append(out, saveAs(t, dir, name, m, n, length, 32))
	}
	return out
}

// auto is the default: it says what it chose, keeps the tolerance, and what it saves gives the same output and serves
// other texts. --method features and centroid are saved as well.
func TestAttendAuto(t *testing.T) {
	dir := t.TempDir()
	const n, length = 3, 256
	one, two := saveHeads(t, dir, n, length, 1), saveHeads(t, dir, n, length, 2)
	out, again, spec := filepath.Join(dir, "out.npy"), filepath.Join(dir, "again.npy"), filepath.Join(dir, "spec.json")
	for _, causal := range []string{"--causal=false", "--causal"} {
		for _, how := range [][]string{{"--tol", "0.15"}, {"--budget", "60"},
			{"--method", "centroid", "--clusters", "16"},
			{"--method", "features", "--features", "32", "--sinks", "2"}, {"--exact"}} {
			args := append([]string{"attend", causal, "-o", out, "--save-spec", spec, "--json"}, one...)
			said := ok(t, append(args, how...)...)
			r := objects[attend.AttendResult](t, said.stdout)[0]
			if len(r.Choice) != n || r.ExactCost != length/2 || r.Cost <= 0 || r.Cost > length/2 {
				t.Fatalf("%v: %+v", how, r)
			}
			switch how[0] {
			case "--tol":
				for _, c := range r.Choice {
					if c.Expected == nil || *c.Expected > 0.15 || r.Method != "auto" || c.Rows == 0 ||
						(c.Method == "exact") != (c.Reason != "") {
						t.Errorf("%+v", c)
					}
				}
			case "--budget":
				if r.Cost > 60 {
					t.Errorf("cost %v", r.Cost)
				}
			}
			use := append([]string{"attend", causal, "-o", again, "--spec", spec}, one...)
			if o := ok(t, use...); !strings.Contains(o.stderr, "EXPECTED") ||
				!strings.Contains(o.stderr, r.Choice[0].Plan) {
				t.Errorf("%v: stderr %s", how, o.stderr)
			}
			if !slices.Equal(loadTensor(t, out).F32, loadTensor(t, again).F32) {
				t.Errorf("%v, %s: another output by the saved choice", how, causal)
			}
			if how[0] == "--tol" {
				use := append([]string{"attend", causal, "--compare", "--json", "--spec", spec}, two...)
				c := objects[attend.AttendResult](t, ok(t, use...).stdout)[0].Compare
				if c == nil || len(c.Heads) != n || c.Output > 0.2 || c.Low == nil || *c.Low > c.Output {
					t.Errorf("on another text: %+v", c)
				}
			}
		}
	}
	// Later keys change nothing, also not through the fit.
	x := loadTensor(t, one[1]).F32
	for i := range x {
		if i/32%length >= length/2 {
			x[i] *= -2
		}
	}
	m := dense.Matrix[float32]{Rows: n * length, Cols: 32, Stride: 32, Data: x}
	later := saveAs(t, dir, "later.npy", m, n, length, 32)
	for _, save := range [][]string{nil, {"--save-spec", filepath.Join(dir, "other.json")}} {
		how := append([]string{"attend", "--causal", "--method", "centroid", "--clusters", "8", "--chunk", "32"},
			save...)
		ok(t, append(how, one[0], one[1], one[2], "-o", out)...)
		ok(t, append(how, one[0], later, one[2], "-o", again)...)
		want, got := loadTensor(t, out).F32, loadTensor(t, again).F32
		for h := range n {
			if !slices.Equal(want[h*length*32:][:length/2*32], got[h*length*32:][:length/2*32]) {
				t.Errorf("%v: head %d sees later keys", how, h)
			}
		}
	}
	for _, how := range [][]string{{"-o", out}, {"--compare"}} {
		how = append([]string{"attend", "--tol", "1e-9"}, append(how, one...)...)
		if o := ok(t, how...); !strings.Contains(o.stdout+o.stderr, "exact: no plan ") {
			t.Errorf("%v does not say why heads are exact: %s%s", how, o.stdout, o.stderr)
		}
	}
	o := ok(t, append([]string{"attend", "-o", out, "--compare"}, one...)...)
	for _, text := range []string{"HEAD", "EXPECTED", "OUTPUT", "exact attention on all heads"} {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("no %q in %s", text, o.stdout)
		}
	}
	o = ok(t, append([]string{"attend", "-o", out, "--budget", "60", "--trace"}, one...)...)
	for _, text := range []string{"head 0\n", "head 2\n", "exact: cost 128", ": taken\n", "first rows: error ",
		"fresh rows: error ",
		"left: the budget is better spent otherwise"} {
		if !strings.Contains(o.stderr, text) {
			t.Errorf("no %q in the trace: %s", text, o.stderr)
		}
	}
	fails(t, exitMisuse, "--trace shows how", append([]string{"attend", "-o", out, "--exact", "--trace"}, one...)...)
	fails(t, exitMisuse, "was made with", append([]string{"attend", "-o", out, "--spec", spec}, one...)...)
	b, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.json")
	b = bytes.Replace(b, []byte(`"version": 1`), []byte(`"version": 9`), 1)
	if err := os.WriteFile(bad, b, 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, "version 9, want", append([]string{"attend", "-o", out, "--causal", "--spec", bad}, one...)...)
}

// --features is what it says, for every family: the largest map with at most so many features, or an error that names
// the flag; a default that is too small gives the smallest map.
func TestAttendFeatures(t *testing.T) {
	const d, asked = 4, 37
	dir := t.TempDir()
	q, k := saveTensor[float64](t, dir, "q.npy", 1, 0.4, 40, d), saveTensor[float64](t, dir, "k.npy", 2, 0.4, 40, d)
	size := func(s randfeat.Spec) int {
		n, err := s.OutDim()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	fixed, several := 0, 0
	for _, info := range family.List() {
		for _, e := range info.Examples(d) {
			text, err := family.Encode(e.Family)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"attend", q, k, k, "-o", filepath.Join(dir, "out.npy"), "--json", "--family", string(text),
				"--coupling", "iid"}
			if e.Fit {
				args = append(args, "--fit")
			}
			plain := objects[attend.AttendResult](t, ok(t, args...).stdout)[0]
			one := plain.Specs[0]
			one.M = 1
			least := size(one)
			if least > asked {
				fails(t, exitMisuse, fmt.Sprintf("--features is %d: family", asked), append(args, "--features",
					fmt.Sprint(asked))...)
			}
			for _, m := range []int{asked, max(least, asked) + 5, 256} {
				if least > m {
					continue
				}
				r := objects[attend.AttendResult](t, ok(t, append(args, "--features", fmt.Sprint(m))...).stdout)[0]
				more := r.Specs[0]
				if size(more) != r.Features {
					t.Errorf("%s: %d features reported, the spec has %d", e.Name, r.Features, size(more))
				}
				more.M++
				switch next := size(more); {
				case r.Features > m:
					t.Errorf("%s: %d features, asked for at most %d", e.Name, r.Features, m)
				case next == r.Features:
					fixed++
				case next <= m:
					t.Errorf("%s: %d features of %d, one projection more gives %d", e.Name, r.Features, m, next)
				case next > r.Features+1:
					several++
				}
			}
		}
	}
	if fixed == 0 || several == 0 {
		t.Errorf("%d maps of fixed size, %d with several features for each projection: no power", fixed, several)
	}
	wide := saveTensor[float64](t, dir, "wide.npy", 1, 0.1, 3, cli.DefaultM+1)
	elu := []string{"attend", wide, wide, wide, "-o", filepath.Join(dir, "out.npy"), "--json", "--family", "elu"}
	if r := objects[attend.AttendResult](t, ok(t, elu...).stdout)[0]; r.Features != cli.DefaultM+1 {
		t.Errorf("elu: %d features of %d columns", r.Features, cli.DefaultM+1)
	}
	fails(t, exitMisuse, "--features is 256: family elu has 257", append(elu, "--features", "256")...)
}

// distance is |got - want|/|want|.
func distance(got, want []float32) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += math.Pow(float64(got[i])-float64(w), 2)
		norm += float64(w) * float64(w)
	}
	return math.Sqrt(diff / norm)
}

// Errors are measured in float32. Values out of its range have the errors of the same values in another unit.
func TestAttendLargeValues(t *testing.T) {
	dir := t.TempDir()
	q, k := saveTensor[float64](t, dir, "q.npy", 1, 1, 120, 4), saveTensor[float64](t, dir, "k.npy", 2, 1, 120, 4)
	var want float64
	for _, unit := range []float64{1, 0x1p200, 0x1p-200} {
		v := saveTensor[float64](t, dir, "v.npy", 3, unit, 120, 4)
		for _, method := range []string{"centroid", "features"} {
			r := objects[attend.AttendResult](t, ok(t, "attend", q, k, v, "-o", filepath.Join(dir, "out.npy"),
				"--method", method, "--compare", "--json").stdout)[0]
			got := r.Compare.Output
			if method == "features" {
				if !(got > 0 && got < 10) {
					t.Errorf("unit %g: error %v of features", unit, got)
				}
				continue
			}
			if unit == 1 {
				want = got
			}
			if !(got > 0) || math.Abs(got-want) > 1e-5*want {
				t.Errorf("unit %g: error %v, in unit 1 %v", unit, got, want)
			}
		}
		ok(t, "attend", q, k, v, "-o", filepath.Join(dir, "out.npy"), "--tol", "0.1")
	}
}
