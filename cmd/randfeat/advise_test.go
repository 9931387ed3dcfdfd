package main

import (
	"archive/zip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/choose"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/advising"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/heads"
)

// cheap makes advice cheap.
var cheap = []string{"--families", "positive,oprf,trig", "--couplings", "iid,orthogonal", "--rows", "16", "--draws",
	"4",
	"--costs", "model"}

func TestAdvise(t *testing.T) {
	dir := t.TempDir()
	x, y := save(t, dir, "x.npy", random(60, 5, 0.4, 1)), save(t, dir, "y.npy", random(50, 5, 0.4, 2))
	page, spec := filepath.Join(dir, "r.html"), filepath.Join(dir, "s.json")
	o := ok(t, append([]string{"advise", x, y, "--features", "16", "--html", page, "--save-spec", spec}, cheap...)...)
	for _, says := range []string{"60 queries and 50 keys of 5 columns", "softmax kernel with inputs divided by 1.495",
		"→", "Why:", "In Go:",
		"Seed 1."} {
		if !strings.Contains(o.stdout, says) {
			t.Errorf("no %q in\n%s", says, o.stdout)
		}
	}
	var s randfeat.Spec
	b, err := os.ReadFile(spec)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if n, nErr := s.OutDim(); err != nil || nErr != nil || n != 16 || s.Dim != 5 {
		t.Errorf("saved spec %+v: %v, %v", s, err, nErr)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "</html>") || strings.Contains(string(b),
		"http:") {
		t.Errorf("the page: %v, %d bytes", err, len(b))
	}
	r := objects[advise.Report](t, ok(t, append([]string{"advise", x, "--features", "16", "--json"},
		cheap...)...).stdout)[0]
	if !r.OneSet || r.Loss != "absolute" || r.Kernel.Scale <= 0 || len(r.Ranking) == 0 {
		t.Errorf("one set: %+v", r)
	}
}

// Arrays of integers and bools are read as numbers, of any width.
func TestAdviseIntegers(t *testing.T) {
	dir := t.TempDir()
	m := random(40, 3, 2, 1)
	for i, v := range m.Data {
		m.Data[i] = float64(int(v+8) % 2) // 0 or 1
	}
	run := func(file string) []advise.Candidate {
		o := ok(t, append([]string{"advise", file, "-m", "8", "--json"}, cheap...)...)
		return objects[advise.Report](t, o.stdout)[0].Ranking
	}
	want := run(save(t, dir, "float.npy", m))
	for _, descr := range []string{"|b1", "|i1", "|u1", "<i2", ">u2", "<i4", "<u4", "<i8", ">u8"} {
		width := int(descr[2] - '0')
		head := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (40, 3), }\n"
		b := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), byte(len(head)>>8))
		b = append(b, head...)
		for _, v := range m.Data {
			cell := make([]byte, width)
			if cell[0] = byte(v); descr[0] == '>' {
				cell[0], cell[width-1] = 0, byte(v)
			}
			b = append(b, cell...)
		}
		file := filepath.Join(dir, "ints.npy")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run(file); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: another ranking than that of floats", descr)
		}
	}
}

func TestAdviseTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	var b strings.Builder
	b.WriteString("a,b,colour,price\n")
	m := random(80, 3, 100, 1)
	for i := range m.Rows {
		b.WriteString(strings.Join([]string{numberText(m.At(i, 0)), numberText(m.At(i, 1)), []string{"red",
			"blue"}[i%2],
			numberText(m.At(i, 2))}, ",") + "\n")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := ok(t, append([]string{"advise", path, "--skip", "price", "--features", "16"}, cheap...)...)
	if !strings.Contains(o.stdout, "80 rows of 5 columns, gaussian kernel") {
		t.Errorf("%s", o.stdout)
	}
	fails(t, exitFailed, "colour", append([]string{"advise", path, path, "--features", "16"}, cheap...)...)
}

func numberText(v float64) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestAdviseHeads(t *testing.T) {
	dir := t.TempDir()
	q, k, v := heads.Generate[float32](2, 96, 16, 1)
	var files []string
	var z *zip.Writer
	npz, err := os.Create(filepath.Join(dir, "heads.npz"))
	if err != nil {
		t.Fatal(err)
	}
	z = zip.NewWriter(npz)
	for i, s := range []attention.Seq[float32]{q, k, v} {
		name := filepath.Join(dir, "qkv"[i:i+1]+".npy")
		saveAs(t, dir, filepath.Base(name), dense.Matrix[float32]{Rows: 192, Cols: 16, Stride: 16, Data: s.Data}, 2, 96,
			16)
		files = append(files, name)
		w, err := z.Create("qkv"[i:i+1] + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := npz.Close(); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(dir, "choice.json")
	want := ok(t, append([]string{"advise", files[0], files[1], files[2], "--features", "16", "--save-spec", spec},
		cheap...)...).stdout
	for _, says := range []string{"2 heads, 96 queries and 96 keys", "METHOD", "mean of the values", "chosen per head",
		"HEAD"} {
		if !strings.Contains(want, says) {
			t.Errorf("no %q in\n%s", says, want)
		}
	}
	var c choose.Choice
	b, err := os.ReadFile(spec)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || len(c.Heads) != 2 {
		t.Errorf("saved choice %v: %v", c, err)
	}
	got := ok(t, append([]string{"advise", npz.Name(), "--features", "16"}, cheap...)...).stdout
	before := func(s string) string { at, _, _ := strings.Cut(s, "\nTime "); return at }
	if before(got) != before(want) {
		t.Errorf("npz:\n%s\nnpy:\n%s", got, want)
	}
	each := objects[advising.AdviseHead](t, ok(t, append([]string{"advise", files[0], files[1], "--features", "16",
		"--json"}, cheap...)...).stdout)
	if len(each) != 2 || each[1].Head != 1 || each[1].Report.Spec == nil {
		t.Errorf("heads without values: %+v", each)
	}
	fails(t, exitMisuse, "--html", append([]string{"advise", files[0], files[1], "--html", "x.html"}, cheap...)...)
}

// Advice on attention is computed in float32. Values out of its range get the advice of the same values in another
// unit.
func TestAdviseLargeValues(t *testing.T) {
	dir := t.TempDir()
	q, k := saveTensor[float64](t, dir, "q.npy", 1, 1, 96, 4), saveTensor[float64](t, dir, "k.npy", 2, 1, 96, 4)
	var want float64
	for _, unit := range []float64{1, 0x1p200} {
		v := saveTensor[float64](t, dir, "v.npy", 3, unit, 96, 4)
		r := objects[advise.Report](t, ok(t, append([]string{"advise", q, k, v, "--features", "16", "--json"},
			cheap...)...).stdout)[0]
		got := r.Ranking[r.Best].Error
		if unit == 1 {
			want = got
		}
		if !(got > 0) || math.Abs(got-want) > 1e-4*want {
			t.Errorf("unit %g: error %v, in unit 1 %v", unit, got, want)
		}
	}
}

func TestAdviseMisuse(t *testing.T) {
	dir := t.TempDir()
	x, few := save(t, dir, "x.npy", random(60, 5, 0.4, 1)), save(t, dir, "few.npy", random(4, 5, 0.4, 1))
	wide := save(t, dir, "wide.npy", random(60, 6, 0.4, 1))
	fails(t, exitMisuse, "want one table", "advise")
	fails(t, exitMisuse, "--demo needs no files", "advise", "--demo", x)
	fails(t, exitMisuse, "three budgets", "advise", x, "--features", "8", "--tol", "0.1")
	fails(t, exitMisuse, "--features is 0", "advise", x, "--features", "0")
	fails(t, exitMisuse, "nobody", "advise", x, "--families", "nobody")
	fails(t, exitMisuse, "--scale", "advise", x, "--scale", "wide")
	fails(t, exitMisuse, "--kernel", "advise", x, "--kernel", "cubic")
	fails(t, exitMisuse, "--causal needs values", "advise", x, x, "--causal")
	fails(t, exitFailed, "at least 8", "advise", few)
	fails(t, exitFailed, "columns", "advise", x, wide)
	fails(t, exitFailed, "nowhere.npy", "advise", filepath.Join(dir, "nowhere.npy"))
	empty := save(t, dir, "empty.npy", dense.New[float64](0, 5))
	fails(t, exitFailed, "empty.npy is [0, 5]", "advise", empty)
	fails(t, exitFailed, "empty.npy is [0, 5]", "advise", x, empty)
	fails(t, exitFailed, "empty.npy is [0, 5]", "advise", x, x, empty)
	table := filepath.Join(dir, "empty.csv")
	if err := os.WriteFile(table, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, "empty.csv", "advise", table)
	fails(t, exitFailed, "all rows are equal", "advise", save(t, dir, "equal.npy", dense.New[float64](20, 3)))
	fails(t, exitMisuse, "luck", "advise", x, "--rank", "luck")
	nan := dense.New[float64](20, 2)
	nan.Set(3, 1, 1/nan.At(0, 0))
	fails(t, exitFailed, "row 3", "advise", save(t, dir, "nan.npy", nan))
}
