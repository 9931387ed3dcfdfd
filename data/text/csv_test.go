package text

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/charmap"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

func openCSV(t *testing.T, text string, o data.Options) data.Source {
	t.Helper()
	src, err := OpenBytes("x.csv", []byte(text), o)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return src
}

func TestCSVDialects(t *testing.T) {
	no, yes := false, true
	for _, c := range []struct {
		name, text, want string // want: columns and rows
		o                data.Options
	}{
		{"header", "a,b\n1,x\n2,y\n", "a b|1 x|2 y", data.Options{}},
		{"no header", "1,x\n2,y\n", "c1 c2|1 x|2 y", data.Options{}},
		{"no final line end", "a,b\n1,2", "a b|1 2", data.Options{}},
		{"CRLF, empty lines", "a,b\r\n\r\n1,2\r\n3,4\r\n\r\n", "a b|1 2|3 4", data.Options{}},
		{"carriage returns", "a,b\r1,x\r\r2,\"y\rz\"\r", "a b|1 x|2 y\nz", data.Options{}},
		{"carriage returns and a mark", "\xef\xbb\xbfa,b\r1,x", "a b|1 x", data.Options{}},
		{"byte order mark", "\xef\xbb\xbfa,b\n1,2\n", "a b|1 2", data.Options{}},
		{"tab", "a\tb\n1\tx y\n", "a b|1 x y", data.Options{}},
		{"semicolon", "a;b\n1,5;2\n2,5;3\n", "a b|1,5 2|2,5 3", data.Options{}},
		{"bar", "a|b\n1|2\n", "a b|1 2", data.Options{}},
		{"runs of blanks", "  1   x\n 22  y \n\n", "c1 c2|1 x|22 y", data.Options{}},
		{"blanks and tabs", "a \t b\n1\t 2\n", "a b|1 2", data.Options{Delimiter: ' '}},
		{"one column", "a\n1\n2\n", "a|1|2", data.Options{}},
		{"quotes", "a,b\n\"x,\"\"y\"\"\nz\",1\n", "a b|x,\"y\"\nz 1", data.Options{}},
		{"CRLF in quotes", "a,b\r\n\"x\r\ny\",1\r\n", "a b|x\ny 1", data.Options{}},
		{"quoted blanks stay", "a,b\n\" x \" , 1 \n", "a b| x  1", data.Options{}},
		{"quote inside", "a,b\n5\" pipe,1\n", "a b|5\" pipe 1", data.Options{}},
		{"literal", "a\tb\n\"x\t1\n", "a b|\"x 1", data.Options{Literal: true}},
		{"quoted line end in a name", "\"a\nb\",c\n1,2\n", "a\nb c|1 2", data.Options{}},
		{"missing", "a,b\n,NA\n?,1\n", "a b|∅ ∅|∅ 1", data.Options{}},
		{"own missing", "a,b\n-9,NA\n", "a b|∅ NA", data.Options{Missing: []string{"-9"}}},
		{"row names", ",b\nx,1\ny,2\n", "c1 b|x 1|y 2", data.Options{}},
		{"forced header", "1,2\n3,4\n", "1 2|3 4", data.Options{Header: &yes}},
		{"forced no header", "a,b\n3,4\n", "c1 c2|a b|3 4", data.Options{Header: &no}},
		{"name missing", "a,,y\nu,1,2\nv,3,4\n", "a c2 y|u 1 2|v 3 4", data.Options{}},
		{"missing above numbers is no name", "a,?\nu,1\na,2\n", "c1 c2|a ∅|u 1|a 2", data.Options{}},
		{"text only, header", "name,colour\nx,red\ny,red\n", "name colour|x red|y red", data.Options{}},
		{"text only, no header", "x,red\ny,red\n", "c1 c2|x red|y red", data.Options{}},
		{"header only", "a,b\n", "a b", data.Options{}},
		{"blank line within", "a,b\n1,2\n \t\n3,4\n", "a b|1 2|3 4", data.Options{}},
	} {
		for kind, b := range map[string][]byte{"plain": []byte(c.text), "gzip": datatest.Gzip([]byte(c.text))} {
			src, err := OpenBytes("x.csv", b, c.o)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, kind, err)
				continue
			}
			columns, rows, err := datatest.Table(src, nil, 7)
			got := strings.Join(columns, " ")
			for _, r := range rows {
				got += "|" + strings.Join(r, " ")
			}
			if err != nil || got != c.want {
				t.Errorf("%s, %s: %q, want %q; %v", c.name, kind, got, c.want, err)
			}
		}
	}
}

func TestCSVKinds(t *testing.T) {
	src := openCSV(t, "a,b,c,d\n1.5,x,7,\"2\"\n NA , y,8, 1e3 \n", data.Options{})
	_, rows, err := datatest.Table(src, []data.Kind{data.Number, data.Text, data.Skip, data.Number}, 10)
	want := [][]string{{"1.5", "x", "skipped", "2"}, {"NaN", "y", "skipped", "1000"}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%q, %v", rows, err)
	}
	if _, err := src.Open([]data.Kind{data.Number}); err == nil {
		t.Error("one kind for four columns")
	}
	if _, err := src.Open([]data.Kind{9, 9, 9, 9}); err == nil {
		t.Error("unknown kinds")
	}
}

// Bad input, by example: the error names the place and the expected input.
func TestCSVErrors(t *testing.T) {
	number := []data.Kind{data.Number, data.Number}
	for _, c := range []struct {
		text, want string
		kinds      []data.Kind
		o          data.Options
	}{
		{"a,b\n1,2\n3\n", `x.csv:3:2: the row has 1 fields, want 2 as in the first row`, nil, data.Options{}},
		{"a,b\n1,2\n3,4,5,6\n", `x.csv:3:4: the row has 4 fields, want 2 as in the first row`, nil, data.Options{}},
		{"a,b\n1,2\n3,4,\n", `x.csv:3:4: the row has 3 fields, want 2`, number, data.Options{}},
		{"a,b\n1,2\n\n3,abc\n", `x.csv:4:3: column "b" is "abc", want a number`, number, data.Options{Strict: true}},
		{"a,b\n1,1e999\n", `x.csv:2:3: column "b" is "1e999", want a number`, number, data.Options{Strict: true}},
		{"a,b\n\"1\n\",2x\n", `x.csv:2:1: column "a" is "1\n", want a number`, number, data.Options{Strict: true}},
		{"a,b\n\"x\ny\",2z\n", `x.csv:3:4: column "b" is "2z", want a number`, []data.Kind{data.Text, data.Number},
			data.Options{Strict: true}},
		{"a,b\n1,\"2\n3,4\n", `x.csv:2:3: the quote is not closed`, nil, data.Options{}},
		{"a,b\n1,\"2\"3\n", `x.csv:2:6: text follows the closing quote`, nil, data.Options{}},
		{"a,a\n1,2\n", `x.csv:1:1: columns 1 and 2 are both named "a": rename one`, nil,
			data.Options{Header: new(true)}},
		{"a,a,y\n1,2,3\n", `x.csv:1:1: columns 1 and 2 are both named "a": rename one`, nil, data.Options{}},
		{"a\x01\x02,\x03b\n1,2\n", `3 of the first 11 bytes are control characters: neither text nor`, nil,
			data.Options{}},
		{"a b\n1 2\n1 2 3\n", `x.csv:3:5: the row has 3 fields, want 2`, nil, data.Options{Delimiter: ' '}},
		{"a b\n1 2\n1\n", `x.csv:3:2: the row has 1 fields, want 2`, nil, data.Options{Delimiter: ' '}},
		{"a,b\r1,2\r3\r", `x.csv:3:2: the row has 1 fields, want 2`, nil, data.Options{}},
		{"\xff\xfea\x00\r\x001\x00\r\x00", `x.csv: lines end with carriage returns alone, in UTF-16`, nil,
			data.Options{}},
		{"", `x.csv: the file is empty`, nil, data.Options{}},
		{"\n\n\n", `x.csv: the file has no rows`, nil, data.Options{}},
		{"a,b\n1,2222222222\n", `x.csv:2:1: a row of more than 9 bytes`, nil, data.Options{MaxLine: 9}},
		{"a,b\n1,\x00\n", `byte 7 is zero`, nil, data.Options{}},
		{"\xff\xfea\x00\n\x00b\x00\x00\xd8", `x.csv:2:2: half of a character, 0xD800, in UTF-16`, nil, data.Options{}},
		{"é\nb\xe9\n", `x.csv:2:2: byte 0xE9 is not UTF-8, the encoding of the text before it`, nil, data.Options{}},
		{"a\nb\xe9\n", `x.csv:2:2: byte 0xE9 is not UTF-8`, nil, data.Options{Encoding: "UTF8"}},
		{"a\nb\x81\n", `x.csv:2:2: byte 0x81 is no character of windows-1252`, nil, data.Options{}},
		{"\xfd7zXZ\x00", `xz`, nil, data.Options{}},
		{"PAR1", `Parquet`, nil, data.Options{}},
		{"a,b,c\n", `x.csv:1:1: 3 columns, the limit is 2`, nil, data.Options{MaxColumns: 2}},
	} {
		src, err := OpenBytes("x.csv", []byte(c.text), c.o)
		if err == nil {
			_, _, err = datatest.Table(src, c.kinds, 100)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, data.ErrInput) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	for _, o := range []data.Options{{Delimiter: '"'}, {Delimiter: '\n'}, {MaxLine: -1}, {Format: "xls"}} {
		if _, err := OpenBytes("x.csv", []byte("a\n"), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, data.Options{}); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none"), data.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	empty := filepath.Join(dir, "empty.csv")
	os.WriteFile(empty, nil, 0o666)
	if _, err := Open(empty, data.Options{}); !errors.Is(err, data.ErrInput) {
		t.Errorf("an empty file: %v", err)
	}
	cut := filepath.Join(dir, "cut.csv.gz")
	var long strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&long, "%d,%d\n", i, i*7919%10007)
	}
	z := datatest.Gzip([]byte(long.String()))
	os.WriteFile(cut, z[:len(z)-100], 0o666)
	src, err := Open(cut, data.Options{})
	if err == nil {
		_, _, err = datatest.Table(src, nil, 100)
	}
	if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), "cut.csv.gz: damaged") {
		t.Errorf("a cut gzip file: %v", err)
	}
	z[len(z)/2] ^= 0x55
	src, err = OpenBytes("flipped.csv.gz", z, data.Options{})
	if err == nil {
		_, _, err = datatest.Table(src, nil, 100)
	}
	if !errors.Is(err, data.ErrInput) {
		t.Errorf("a gzip file with another byte: %v", err)
	}
	for name, want := range map[string]data.Format{"x.csv": data.CSV, "x.tsv.gz": data.CSV, "x.jsonl": data.NDJSON,
		"x.npy": data.NPY,
		"x.npz": data.NPZ, "x.parquet": data.Parquet, "x.data": ""} {
		if got := data.FormatOf(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A million columns are refused by default, with their number; many work if asked for.
func TestMillionColumns(t *testing.T) {
	line := strings.Repeat("1,", 999_999) + "1\n"
	_, err := OpenBytes("wide.csv", []byte(line+line), data.Options{})
	if err == nil || !strings.Contains(err.Error(), "wide.csv:1:1: 1000000 columns, the limit is 65536") {
		t.Errorf("%v", err)
	}
	var object strings.Builder
	for j := range 1_000_000 {
		fmt.Fprintf(&object, `,"c%d":1`, j)
	}
	// Were every key to look for its place among those before it, 65536 took 15 s, and eight times as many would
	// end the test.
	for _, most := range []int{1 << 16, 1 << 19} {
		_, err = OpenBytes("wide.ndjson", []byte("{"+object.String()[1:]+"}\n"), data.Options{MaxColumns: most})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d columns, the limit is %d", most+1, most)) {
			t.Errorf("%v", err)
		}
	}
	line = line[:200_000-1] + "\n"
	src, err := OpenBytes("wide.csv", []byte(line+line), data.Options{MaxColumns: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := data.Learn(src, data.LearnOptions{}); !errors.Is(err, data.ErrInput) { // all constant
		t.Errorf("%v", err)
	}
}

// Streaming equals one shot: whatever the block size and however the bytes arrive.
func TestCSVBlocks(t *testing.T) {
	text := datatest.Random(rand.New(rand.NewPCG(5, 2)), 3000)
	_, want, err := datatest.Table(openCSV(t, text, data.Options{}), nil, 1<<20)
	if err != nil || len(want) < 2900 {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	for _, block := range []int{1, 2, 7, 1024, 2999} {
		_, rows, err := datatest.Table(openCSV(t, text, data.Options{}), nil, block)
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("blocks of %d: %d rows, %v", block, len(rows), err)
		}
	}
	for name, r := range map[string]io.Reader{"bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves":   iotest.HalfReader(strings.NewReader(text)),
		"with EOF": iotest.DataErrReader(strings.NewReader(text))} {
		src, err := OpenReader("x.csv", r, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, rows, err := datatest.Table(src, nil, 100)
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		if _, err := src.Open(nil); err == nil || !strings.Contains(err.Error(), "only once") {
			t.Errorf("%s opened again: %v", name, err)
		}
	}
}

func TestCSVWhere(t *testing.T) {
	src := openCSV(t, "a,b\n\n1,\"x\ny\"\n2,z\n\n3,w\n", data.Options{})
	r, err := src.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 10); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"x.csv:3", "x.csv:5", "x.csv:7"} {
		if got := r.Where(i); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}

// repeated is a stream of one text many times, so that tests of memory need none for their input.
type repeated struct {
	head, text string
	n          int
	pos        int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.head != "" {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.n == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[r.pos:])
	if r.pos += n; r.pos == len(r.text) {
		r.pos, r.n = 0, r.n-1
	}
	return n, nil
}

// 100 MB of text pass through a few megabytes of memory.
func TestLearnMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory")
	}
	var text strings.Builder
	r := rand.New(rand.NewPCG(5, 3))
	for i := range 1000 {
		fmt.Fprintf(&text, "%.6f,%.6f,%.6f,level%d,%d\n", r.Float64(), r.NormFloat64(), 100*r.Float64(), r.IntN(5000),
			i%3)
	}
	src, err := OpenReader("x.csv", &repeated{head: "a,b,c,d,y\n", text: text.String(), n: 100 << 20 / text.Len()},
		data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if sum.Rows < 2_000_000 || len(s.Fields) != 4 {
		t.Errorf("%d rows, fields %v", sum.Rows, s.Fields)
	}
	// The heap that was ever asked of the system grew by little, whatever was collected in between.
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 32<<20 {
		t.Errorf("the heap grew by %d MB for 100 MB of text", grown>>20)
	}
}

// FuzzCSV: any bytes give a table or an error; where encoding/csv accepts them too, the fields are the same.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n"))
	f.Add([]byte("a,\"b\"\"\n\",c\r\n,,\n"))
	f.Add([]byte("\xef\xbb\xbfa;b\n1;2"))
	f.Add([]byte("  1  2 \n 3\t4\n"))
	f.Add([]byte("\"a\r\nb\",\"\r\"\r\n\r,\r\r\n"))
	f.Add([]byte(datatest.Random(rand.New(rand.NewPCG(5, 4)), 20)))
	f.Add([]byte(",,0"))
	f.Add([]byte("0,\"\r\","))
	f.Add(datatest.Gzip([]byte("a,b\n1,2\n")))
	f.Add([]byte("\xef")) // not UTF-8: read as windows-1252
	f.Fuzz(func(t *testing.T, b []byte) {
		if src, err := OpenBytes("f", b, data.Options{MaxLine: 1 << 16}); err == nil { // never panics
			if columns, rows, err := datatest.Table(src, nil, 3); err == nil {
				for _, r := range rows {
					if len(r) != len(columns) {
						t.Fatalf("%d fields in %d columns", len(r), len(columns))
					}
				}
				if _, again, err := datatest.Table(src, nil, 1000); err != nil || !reflect.DeepEqual(rows, again) {
					t.Fatalf("read again: %v", err)
				}
			}
		}
		no := false
		src, err := OpenBytes("f", b, data.Options{Format: data.CSV, Delimiter: ',', Header: &no,
			Missing: []string{}})
		if err != nil {
			return
		}
		_, rows, err := datatest.Table(src, nil, 5)
		if err != nil || bytes.HasPrefix(b, []byte("\x1f\x8b")) {
			return
		}
		text := bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
		switch name := encodingOf(src); name {
		case "":
		case "windows-1252": // encoding/csv does not decode; x/text serves as the oracle of this step
			if text, err = charmap.Windows1252.NewDecoder().Bytes(b); err != nil {
				t.Fatal(err)
			}
		case "utf-16le", "utf-16be": // FuzzEncoding has these
			return
		default:
			t.Fatalf("%q was read as %s", b, name)
		}
		if bytes.IndexByte(text, '\n') < 0 { // line ends of old Macintoshes, within quotes too
			text = bytes.ReplaceAll(text, []byte{'\r'}, []byte{'\n'})
		}
		want, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			return
		}
		if len(rows) != len(want) {
			t.Fatalf("%d rows, encoding/csv has %d", len(rows), len(want))
		}
		for i, row := range rows {
			for j, got := range row {
				if w := want[i][j]; got != w && got != strings.Trim(w, " \t") {
					t.Fatalf("row %d, field %d: %q, encoding/csv has %q", i, j, got, w)
				}
			}
		}
	})
}

func BenchmarkCSV(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 5))
	var numeric, mixed, digits17 bytes.Buffer
	numeric.WriteString(strings.Join(names("x", 20), ",") + "\n")
	digits17.WriteString(strings.Join(names("x", 20), ",") + "\n")
	mixed.WriteString(strings.Join(names("x", 20), ",") + "\n")
	for range 20000 {
		for j := range 20 {
			sep := ","
			if j == 19 {
				sep = "\n"
			}
			fmt.Fprintf(&numeric, "%.6f%s", r.NormFloat64(), sep)
			fmt.Fprintf(&digits17, "%v%s", r.NormFloat64(), sep)
			switch j % 4 {
			case 0:
				fmt.Fprintf(&mixed, "level %d%s", r.IntN(20), sep)
			case 1:
				fmt.Fprintf(&mixed, "%d%s", r.IntN(1000), sep)
			case 2:
				fmt.Fprintf(&mixed, "\"%c, quoted\"%s", 'a'+rune(r.IntN(26)), sep)
			default:
				fmt.Fprintf(&mixed, "%.4f%s", r.Float64(), sep)
			}
		}
	}
	num, mix := make([]data.Kind, 20), make([]data.Kind, 20)
	for j := range 20 {
		num[j], mix[j] = data.Number, data.Number
		if j%2 == 0 {
			mix[j] = data.Text
		}
	}
	for _, c := range []struct {
		name  string
		text  []byte
		kinds []data.Kind
	}{{"numeric", numeric.Bytes(), num}, {"numeric17", digits17.Bytes(), num}, {"mixed", mixed.Bytes(), mix},
		{"text", numeric.Bytes(), nil}} {
		b.Run("cells="+c.name, func(b *testing.B) {
			src, err := OpenBytes("x.csv", c.text, data.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var block data.Block
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := src.Open(c.kinds)
				if err != nil {
					b.Fatal(err)
				}
				rows := 0
				for err == nil {
					if err = r.Read(&block, 1024); err == nil {
						rows += block.Rows
					}
				}
				if err != io.EOF || rows != 20000 {
					b.Fatal(rows, err)
				}
				r.Close()
			}
		})
	}
	b.Run("learn", func(b *testing.B) {
		src, err := OpenBytes("x.csv", mixed.Bytes(), data.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(mixed.Len()))
		for b.Loop() {
			if _, _, err := data.Learn(src, data.LearnOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func names(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint(prefix, i)
	}
	return s
}

// A first line may tell spreadsheets the delimiter.
func TestDelimiterLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"sep=;\na;b\n1,5;2\n", "a b: 1,5 2 at 3"},
		{"\ufeffSEP=|\r\na|b\r\n1|2\r\n", "a b: 1 2 at 3"},
		{"sep=;\n1;2\n", "c1 c2: 1 2 at 2"},
		{"sep=ten\n2\n", "sep=ten: 2 at 2"}, // the name of a column
	} {
		src, err := OpenBytes("x.csv", []byte(c.text), data.Options{})
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		columns, rows, err := datatest.Table(src, nil, 10)
		if err != nil || len(rows) != 1 {
			t.Errorf("%q: %v, %v", c.text, rows, err)
			continue
		}
		r, err := src.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		var b data.Block
		if err := r.Read(&b, 1); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(columns, " ") + ": " + strings.Join(rows[0], " ") + " at " +
			strings.TrimPrefix(r.Where(0), "x.csv:")
		if r.Close(); got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}
