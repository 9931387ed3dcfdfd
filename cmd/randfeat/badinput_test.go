package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/randfeat/randfeat/internal/rng"
)

// quick are flags that make a fit small: these tests do not look at its predictions.
var quick = []string{"--features", "16", "--bandwidth", "1", "--lambda", "1", "--folds", "2"}

// badInput is a directory with a good table of each task, a model of it, and bad ones.
type badInput struct {
	t   *testing.T
	dir string
}

func (b badInput) path(name string) string { return filepath.Join(b.dir, name) }

// put writes a file and returns its path.
func (b badInput) put(name, text string) string {
	b.t.Helper()
	path := b.path(name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// fit is the command line of a fit to a file; the model goes to out.rf.
func (b badInput) fit(file string, more ...string) []string {
	return append(append([]string{"fit", file, "-o", b.path("out.rf")}, quick...), more...)
}

// says is fails, with names of files in the message as they are in the directory; no model may be left.
func (b badInput) says(code int, text string, args ...string) {
	b.t.Helper()
	o := call(b.t, "", args...)
	got := strings.ReplaceAll(o.stderr, b.dir+string(filepath.Separator), "")
	if o.code != code || !strings.Contains(got, text) {
		b.t.Errorf("randfeat %s:\nexit %d, %s\nwant %d, %s", strings.Join(args, " "), o.code, got, code, text)
	}
	if o.stdout != "" {
		b.t.Errorf("randfeat %s: printed %q on stdout", strings.Join(args, " "), o.stdout)
	}
	if left := names(b.t, b.dir); strings.Contains(left, "out.") || strings.Contains(left, ".tmp") {
		b.t.Errorf("randfeat %s: left %s", strings.Join(args, " "), left)
	}
}

// rowsOf are n rows x,colour,y with y as f gives it.
func rowsOf(n int, f func(x float64, colour string) string) string {
	z := make([]float64, n)
	rng.Normals(z, rng.Stream(7, 7))
	var b strings.Builder
	for i, x := range z {
		c := []string{"red", "green", "blue"}[i%3]
		fmt.Fprintf(&b, "%.4f,%s,%s\n", x, c, f(x, c))
	}
	return b.String()
}

func quantity(x float64, colour string) string { return fmt.Sprintf("%.4f", x*x+float64(len(colour))) }

func label(x float64, _ string) string {
	if x > 0 {
		return "yes"
	}
	return "no"
}

const badHead = "x,colour,y\n"

func newBadInput(t *testing.T) badInput {
	b := badInput{t, t.TempDir()}
	numbers := b.put("numbers.csv", badHead+rowsOf(60, quantity))
	classes := b.put("classes.csv", badHead+rowsOf(60, label))
	ok(t, append([]string{"fit", numbers, "--target", "y", "-o", b.path("numbers.rf")}, quick...)...)
	ok(t, append([]string{"fit", classes, "--target", "y", "-o", b.path("classes.rf")}, quick...)...)
	return b
}

// Bad input by example: the table that is fitted.
func TestBadTables(t *testing.T) {
	b := newBadInput(t)
	good := badHead + rowsOf(60, quantity)
	y := []string{"--target", "y"}
	gz := func(text string) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write([]byte(text))
		w.Close()
		return z.Bytes()
	}
	long := good + rowsOf(5000, quantity)
	flipped := gz(long)
	flipped[len(flipped)/2] ^= 0x55
	var utf []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + good)) {
		utf = binary.LittleEndian.AppendUint16(utf, u)
	}
	noise := make([]byte, 5000)
	src := rng.Stream(1, 9)
	for i := range noise {
		noise[i] = byte(src.Uint64())
	}
	for _, c := range []struct {
		name, text, says string
		more             []string
	}{
		{"target.csv", good, `target.csv: no column "z", named as target; the columns are "x", "colour", "y"`,
			[]string{"--target", "z"}},
		{"case.csv", good, `named as target, did you mean "y"?`, []string{"--target", "Y"}},
		{"id.csv", good, `no column "key", named as id`, append(y, "--id", "key")},
		{"skip.csv", good, `no column "w", named as skipped`, append(y, "--skip", "w")},
		{"both.csv", good, `both.csv: column "y" is named as target and as id: it can be one of them`,
			append(y, "--id", "y")},
		{"short.csv", good + "1,red\n", `short.csv:62:6: the row has 2 fields, want 3 as in the first row`, y},
		{"wide.csv", good + "1,red,2,3\n", `wide.csv:62:8: the row has 4 fields, want 3 as in the first row`, y},
		{"text.csv", good + "1,red,many\n", `text.csv:62: target "y" is "many", though 60 of its values are numbers`,
			y},
		{"regression.csv", good + "1,red,many\n", `regression.csv:62: target "y" is "many", though 60 of its values are numbers`,
			append(y, "--task", "regression")},
		{"numeric.csv", good + "one,red,1\n", `numeric.csv:62: column "x" is "one", want a number`,
			append(y, "--numeric", "x")},
		{"nan.csv", good + "1,red,NaN\n", `nan.csv:62: target "y" is missing: remove the row, or have such rows left out (--drop-missing-target)`, y},
		{"byte.csv", good + "1,ré\xe9d,2\n", `byte.csv:62:6: byte 0xE9 is not UTF-8, the encoding of the text before it: correct it, or name the encoding of the file (--encoding)`, y},
		{"two.csv", badHead + rowsOf(2, quantity),
			"two.csv: 2 rows cannot be divided into 5 folds: give more rows, or fewer folds (--folds)\n",
			append(y, "--folds", "5")},
		{"inf.csv", good + "1,red,inf\n", `inf.csv:62: column "y" is infinite`, y},
		{"empty.csv", "", `empty.csv: the file is empty`, y},
		{"blank.csv", "\n\n\n", `blank.csv: the file has no rows`, y},
		{"header.csv", badHead, `header.csv: the table has columns but no rows`, y},
		{"constant.csv", "x,y\n" + strings.Repeat("1,2\n1,3\n", 20),
			`constant.csv: no column is left to predict from: "x" (constant 1), "y" (the target)`, y},
		{"oneclass.csv", badHead + rowsOf(60, func(float64, string) string { return "yes" }),
			`oneclass.csv: target "y" is "yes" in every row: one class cannot be told from another`, y},
		{"twice.csv", "x,x,y\n1,2,3\n4,5,6\n", `twice.csv:1:1: columns 1 and 2 are both named "x": rename one`, y},
		{"cut.csv.gz", string(gz(long)[:3000]), `cut.csv.gz: damaged or cut file`, y},
		{"flipped.csv.gz", string(flipped), `flipped.csv.gz`, y},
		{"noise.csv", string(noise), `neither text nor a format known here`, y},
		{"utf16.csv", string(utf[:len(utf)-1]), `utf16.csv:61:`, y},
		{"line.csv", good + strings.Repeat("x", 17<<20) + ",red,1\n",
			`line.csv:62:1: a row of more than 16777216 bytes`, y},
		{"quote.csv", good + "\"1,red,2\n3,blue,4\n", `quote.csv:62:1: the quote is not closed`, y},
		{"xz.csv.xz", "\xfd7zXZ\x00", `compressed by xz: decompress it, or compress it with gzip`, y},
		{"nested.ndjson", `{"x": 1, "y": {"a": 2}}` + "\n", `nested.ndjson:1:15: column "y" is nested: leave it out, or write its parts as columns of their own (--skip)`, y},
		{"npy.npy", "\x93NUMPY\x01\x00", `npy.npy`, y},
		{"parquet.parquet", "PAR1PAR1", `parquet.parquet`, y},
	} {
		b.says(exitFailed, c.says, b.fit(b.put(c.name, c.text), c.more...)...)
	}
	b.says(exitFailed, "tables of several formats", "fit", b.dir, "--target", "y", "-o", b.path("out.rf"))
	b.says(exitFailed, "none.csv does not exist", b.fit(b.path("none.csv"), y...)...)
	b.says(exitFailed, "randfeat: none does not exist in "+b.dir, b.fit(b.path("none")+"/", y...)...)

	// A constant column is not an error: it is left out, and said so.
	rows := strings.TrimSuffix(strings.ReplaceAll(good, "\n", "\n7,"), "7,")
	o := ok(t, append([]string{"fit", b.put("leftout.csv", "one,"+rows), "--target", "y", "-o", b.path("leftout.rf")},
		quick...)...)
	if !strings.Contains(o.stdout, "one (constant 7)") {
		t.Errorf("the summary does not say that a constant column is ignored:\n%s", o.stdout)
	}
}

// A million columns are refused.
func TestMillionColumnsFit(t *testing.T) {
	b := badInput{t, t.TempDir()}
	line := strings.Repeat("1,", 999_999) + "1\n"
	path := b.put("wide.csv", line+line)
	b.says(exitFailed, "wide.csv:1:1: 1000000 columns, the limit is 65536: is the table transposed?",
		b.fit(path, "--target", "c1")...)
}

// Bad input by example: where the model goes.
func TestBadOutputs(t *testing.T) {
	b := badInput{t, t.TempDir()}
	good := b.put("good.csv", badHead+rowsOf(60, quantity))
	to := func(out string, more ...string) []string {
		return append(append([]string{"fit", good, "--target", "y", "-o", out}, quick...), more...)
	}
	b.says(exitMisuse, "-o is missing: add -o model.rf", "fit", good, "--target", "y")
	b.says(exitFailed, "-o: cannot write none"+string(filepath.Separator)+"out.rf: the directory",
		to(b.path(filepath.Join("none", "out.rf")))...)
	b.says(exitFailed, "is a directory, want a file to write", to(b.dir)...)
	b.says(exitMisuse, "-o names the data file good.csv: it would be replaced", to(good)...)
	b.says(exitFailed, "--checkpoint: cannot write none", to(b.path("m.rf"), "--checkpoint",
		b.path(filepath.Join("none", "c")))...)
	b.says(exitMisuse, "-o and --checkpoint name the same file", to(b.path("m.rf"), "--checkpoint", b.path("m.rf"))...)
	if got := names(t, b.dir); got != "good.csv" {
		t.Errorf("files left: %s", got)
	}
}

// Bad input by example: tables that a model reads.
func TestBadTablesOfModels(t *testing.T) {
	b := newBadInput(t)
	numbers, classes := b.path("numbers.rf"), b.path("classes.rf")
	predict := func(model, file string, more ...string) []string {
		return append([]string{"predict", model, file, "-o", b.path("out.csv")}, more...)
	}
	for _, c := range []struct{ name, text, says string }{
		{"text.csv", "x,colour\nmany,red\n", `text.csv:2: column "x" is "many", want a number`},
		{"missing.csv", "x\n1\n", `columns missing: "colour"`},
		{"unknown.csv", "x,colour,size\n1,red,2\n", `"size"`},
		{"infinite.csv", "x,colour\ninf,red\n", `infinite.csv:2: column "x" is infinite`},
		{"ragged.csv", "x,colour\n1,red\n2\n", `ragged.csv:3:2: the row has 1 fields, want 2`},
		{"empty.csv", "", `empty.csv: the file is empty`},
		{"twice.csv", "x,x,colour\n1,2,red\n", `both named "x"`},
		{"utf16.csv", "\xff\xfex\x00\x00\xdc", `utf16.csv:1:2: half of a character, 0xDC00, in UTF-16`},
	} {
		b.says(exitFailed, c.says, predict(numbers, b.put(c.name, c.text))...)
	}
	b.says(exitFailed, "empty.csv: the file is empty", predict(numbers, b.dir)...)
	b.says(exitFailed, "does not exist", predict(numbers, b.path("none.csv"))...)

	unseen := b.put("unseen.csv", badHead+"1,red,yes\n2,red,perhaps\n")
	b.says(exitFailed, `unseen.csv:3: target "y" is "perhaps", a class unseen when the schema was learned; known are "no", "yes"`, "evaluate", classes, unseen)
	b.says(exitFailed, `no column "y", the model's target; the columns are "x", "colour"`, "evaluate", classes,
		b.put("untold.csv", "x,colour\n1,red\n"))
	b.says(exitFailed, `nan.csv:3: target "y" is missing`, "evaluate", numbers,
		b.put("nan.csv", badHead+"1,red,2\n2,red,NaN\n"))
	b.says(exitFailed, `no rows`, "evaluate", numbers, b.put("head.csv", badHead))
}

// Bad input by example: model files.
func TestBadModels(t *testing.T) {
	b := newBadInput(t)
	table := b.put("new.csv", "x,colour\n1,red\n")
	model, err := os.ReadFile(b.path("numbers.rf"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(model)
	flipped[len(flipped)-100] ^= 1
	header := int(binary.LittleEndian.Uint64(model))
	huge := bytes.Clone(model)
	binary.LittleEndian.PutUint64(huge, 1<<40)
	for _, c := range []struct {
		name, says string
		data       []byte
	}{
		{"cut", "truncated", model[:len(model)-100]},
		{"stub", "truncated", model[:header/2]},
		{"none", "0 bytes, too few for a header", nil},
		{"flipped", "the checksum of the tensors is wrong, the file is damaged", flipped},
		{"version", `version "9" of the format, this program reads 1 to 2`, bytes.Replace(model,
			[]byte(`"version":"2"`),
			[]byte(`"version":"9"`), 1)},
		{"huge", "a header of 1099511627776 bytes", huge},
		{"table", ".rf: not a model file (randfeat fit writes them)", []byte(badHead + rowsOf(60, quantity))},
		{"small", ".rf: not a model file (randfeat fit writes them)", []byte("a,b\n1,2\n")},
	} {
		path := b.put(c.name+".rf", string(c.data))
		for _, args := range [][]string{{"predict", path, table, "-o", b.path("out.csv")}, {"evaluate", path, table},
			{"inspect", path}} {
			b.says(exitFailed, c.name+".rf: ", args...)
			b.says(exitFailed, c.says, args...)
		}
	}
	for _, args := range [][]string{{"predict", b.dir, table}, {"evaluate", b.dir, table}, {"inspect", b.dir}} {
		b.says(exitFailed, "is a directory, want a model file", args...)
	}
	b.says(exitFailed, "does not exist", "predict", b.path("absent.rf"), table)
}
