package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
)

// serialReader reads a text format record by record from a stream. A textReader must give the same.
type serialReader struct {
	*lines
	rows   rows
	want   []data.Kind
	starts []int64
}

func newSerialReader(t *testing.T, src data.Source, want []data.Kind) (*serialReader, error) {
	switch s := src.(type) {
	case *csvSource:
		l, err := newLines(s.in, s.o.MaxLine)
		if err != nil {
			return nil, err
		}
		r := &csvReader{lines: l, missing: data.NewMissingTexts(s.o.Missing), delim: s.o.Delimiter,
			blank: s.o.Delimiter == ' ', literal: s.o.Literal}
		if *s.o.Header {
			err := r.nextRecord()
			if err == nil {
				_, _, err = r.cells(0)
			}
			if err != nil && err != io.EOF {
				return nil, err
			}
		}
		r.columns, r.want = s.columns, want
		return &serialReader{lines: l, rows: r, want: want}, nil
	case *jsonSource:
		l, err := newLines(s.in, s.o.MaxLine)
		if err != nil {
			return nil, err
		}
		r := &jsonReader{lines: l, columns: s.columns, want: want, missing: data.NewMissingTexts(s.o.Missing),
			index: map[string]int{}, seen: make([]int64, len(s.columns))}
		for j, c := range s.columns {
			r.index[c] = j
		}
		return &serialReader{lines: l, rows: r, want: want}, nil
	}
	t.Fatalf("a source of type %T", src)
	return nil, nil
}

func (r *serialReader) Read(b *data.Block, most int) error {
	b.Reset(0, r.want)
	r.starts = r.starts[:0]
	for b.Rows < most && !b.Full() {
		err := r.rows.parseRow(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		b.Rows++
		r.starts = append(r.starts, r.line)
	}
	if b.Rows == 0 {
		return io.EOF
	}
	return nil
}

// contents are all that a consumer can see of a block: cells, marks and lines.
func contents(b *data.Block, starts []int64) []string {
	var out []string
	for i := range b.Rows {
		row := fmt.Sprint(starts[i])
		for j := range b.Cols {
			switch c := &b.Cols[j]; {
			case c.Num != nil:
				row += fmt.Sprintf(" %x", math.Float64bits(c.Num[i]))
			case c.Text != nil:
				row += fmt.Sprintf(" %q/%v/%v", c.Text[i], c.Text[i] == nil, c.IsBare(i))
			}
		}
		out = append(out, row)
	}
	return out
}

// failing gives some bytes and then an error, a few at a time.
type failing struct {
	b    []byte
	err  error
	step int
}

func (f *failing) Read(p []byte) (int, error) {
	if len(f.b) == 0 {
		return 0, f.err
	}
	n := copy(p, f.b[:min(len(f.b), f.step)])
	f.b = f.b[n:]
	return n, nil
}

var errBroken = errors.New("broken")

// checkPieces compares pieces of any size on any number of goroutines with the serial reader: rows, blocks, lines,
// errors and the encoding that was found.
func checkPieces(t *testing.T, text []byte, o data.Options, pick uint64) {
	t.Helper()
	defer func() { testPiece = 0 }()
	r := rand.New(rand.NewPCG(pick, 1))
	end := io.EOF
	stream := r.IntN(3) == 0
	if stream && r.IntN(2) == 0 {
		end = errBroken
	}
	step := 1 + r.IntN(50)
	open := func(o data.Options) (data.Source, error) {
		if stream {
			return OpenReader("t", &failing{text, end, step}, o)
		}
		return OpenBytes("t", text, o)
	}
	src, err := open(o)
	if err != nil {
		return
	}
	most := 1 + r.IntN(20)
	want := make([]data.Kind, len(src.Columns()))
	for j := range want {
		want[j] = []data.Kind{data.Skip, data.Number, data.Text, data.Text}[r.IntN(4)]
	}
	for range 3 {
		po := o
		po.Workers, testPiece = 1+r.IntN(4), 1+r.IntN(40)
		if r.IntN(8) == 0 {
			testPiece = 0
		}
		psrc, err := open(po)
		if err != nil {
			t.Fatal(err)
		}
		if src, err = open(o); err != nil {
			t.Fatal(err)
		}
		serial, err := newSerialReader(t, src, want)
		if err != nil {
			t.Fatal(err)
		}
		rd, err := psrc.Open(want)
		if err != nil {
			t.Fatal(err)
		}
		parallel := rd.(*textReader)
		var a, b data.Block
		for n := 0; ; n++ {
			errA, errB := serial.Read(&a, most), parallel.Read(&b, most)
			if fmt.Sprint(errA) != fmt.Sprint(errB) || !reflect.DeepEqual(errA, errB) {
				t.Fatalf("%q by %+v in pieces of %d on %d, block %d: error %v, serial %v", text, o, testPiece, po.Workers, n,
					errB, errA)
			}
			if errA != nil {
				break
			}
			if x, y := contents(&a, serial.starts), contents(&b, parallel.starts); !slices.Equal(x, y) {
				t.Fatalf("%q by %+v in pieces of %d on %d, block %d:\n%q\nserial\n%q", text, o, testPiece,
					po.Workers, n, y, x)
			}
		}
		if x, y := src.(encoded).Encoding(), psrc.(encoded).Encoding(); x != y {
			t.Fatalf("%q: encoding %q, serial %q", text, y, x)
		}
		if err := parallel.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type encoded interface{ Encoding() string }

// messy is text of few characters, most of which matter to the parsers.
func messy(r *rand.Rand, alphabet string, n int) []byte {
	var b []byte
	for len(b) < n {
		k := r.IntN(len(alphabet))
		b = append(b, alphabet[k])
		if r.IntN(20) == 0 {
			b = append(b, alphabet[k], '\n')
		}
	}
	return b
}

// table is mostly regular delimited text with quotes, line ends in quotes and, rarely, mistakes.
func table(r *rand.Rand, delim byte) []byte {
	var b []byte
	columns := 1 + r.IntN(4)
	for range 2 + r.IntN(30) {
		for j := range columns {
			if j > 0 {
				b = append(b, delim)
			}
			for range r.IntN(2) {
				b = append(b, ' ')
			}
			switch r.IntN(8) {
			case 0:
				b = append(b, '"')
				for range r.IntN(6) {
					b = append(b, []string{"a", ",", "\n", "\r\n", `""`, " ", "é", ";"}[r.IntN(8)]...)
				}
				b = append(b, '"')
			case 1:
				b = append(b, []string{"x\"y", "", "NA", "ü", "1e5"}[r.IntN(5)]...)
			default:
				b = fmt.Appendf(b, "%d", r.IntN(100))
			}
		}
		switch r.IntN(60) {
		case 0:
			b = append(b, []string{`"`, "\xff", `"a"b`, ",", "\xe2\x82"}[r.IntN(5)]...)
		case 1:
			b = append(b, "\n\n \n"...)
		}
		b = append(b, []string{"\n", "\n", "\r\n"}[r.IntN(3)]...)
	}
	if r.IntN(3) == 0 {
		b = bytes.TrimRight(b, "\r\n")
	}
	return b
}

func inUTF16(text []byte) []byte {
	b := []byte("\xff\xfe")
	for _, u := range utf16.Encode([]rune(string(text))) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

// Any text gives the same in pieces as record by record, at any number of goroutines.
func TestPiecesAreSerial(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r := rand.New(rand.NewPCG(1, 16))
	rounds := 400
	if testing.Short() {
		rounds = 120
	}
	no, yes := false, true
	for i := range rounds {
		delim := ",;\t |"[r.IntN(5)]
		o := data.Options{Format: data.CSV, Delimiter: delim, Header: []*bool{nil, &no, &yes}[r.IntN(3)],
			Literal: r.IntN(8) == 0}
		if r.IntN(4) == 0 {
			o.MaxLine = 1 + r.IntN(60)
		}
		if r.IntN(6) == 0 {
			o.Missing = []string{"7", ""}
		}
		var text []byte
		switch r.IntN(6) {
		case 0:
			text = messy(r, string(delim)+"\"\"\n\r ax1\t", r.IntN(300))
		case 1:
			text = inUTF16(table(r, delim))
			if text = text[:len(text)-r.IntN(2)]; r.IntN(3) == 0 { // half of a character
				k := 2 + 2*r.IntN(len(text)/2-1)
				text = slices.Concat(text[:k], []byte{0, 0xd8}, text[k:])
			}
		case 2:
			text = bytes.ReplaceAll(table(r, delim), []byte("ü"), []byte("\xfc"))
			if r.IntN(2) == 0 {
				o.Encoding = "windows-1252"
			}
		case 3:
			o = data.Options{Format: data.NDJSON, MaxLine: o.MaxLine}
			for k := range 2 + r.IntN(40) {
				text = fmt.Appendf(text, `{"a":%d,"b":%s}%s`, k,
					[]string{`"x"`, "null", "1.5", "true", `"é"`}[r.IntN(5)], []string{"\n", "\r\n", "\n\n"}[r.IntN(3)])
				if r.IntN(80) == 0 {
					text = append(text, []string{"{", `{"a":[]}`, "\xff", `{"c":1}`, `{"a":1,"a":2}`}[r.IntN(5)]...)
				}
			}
		case 4:
			text = append([]byte(bom), table(r, delim)...)
		default:
			text = table(r, delim)
		}
		checkPieces(t, text, o, uint64(i))
	}
}

func FuzzPieces(f *testing.F) {
	f.Add([]byte("a,b\n1,\"x\ny\"\n\"3\"\"\",4\n"), byte(','), uint64(1))
	f.Add([]byte("\"a\" \"b\n\" 3\n\n x \"y\"\n"), byte(' '), uint64(2))
	f.Add([]byte("{\"a\":1}\n{\"a\":\"x\"}\n"), byte(0), uint64(3))
	f.Fuzz(func(t *testing.T, text []byte, delim byte, pick uint64) {
		o := data.Options{Format: data.CSV, Delimiter: delim, MaxLine: 1 + int(pick%97)}
		if pick%4 == 0 {
			o.MaxLine = 0
		}
		if pick%7 == 0 {
			o = data.Options{Format: data.NDJSON}
		}
		checkPieces(t, text, o, pick)
	})
}

// The first bad row is named, though later pieces fail sooner.
func TestPiecesNameTheFirstBadRow(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	defer func() { testPiece = 0 }()
	testPiece = 500
	var text strings.Builder
	text.WriteString("a,b\n")
	for i := range 5000 {
		if i == 3000 || i > 3100 {
			text.WriteString("1,x\n")
		} else {
			text.WriteString("1,\"2\"\n")
		}
	}
	for workers := 1; workers < 6; workers++ {
		src, err := OpenBytes("t.csv", []byte(text.String()), data.Options{Workers: workers, Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := src.Open([]data.Kind{data.Number, data.Number})
		if err != nil {
			t.Fatal(err)
		}
		var b data.Block
		rows := 0
		for err = r.Read(&b, 7); err == nil; err = r.Read(&b, 7) {
			rows += b.Rows
		}
		if want := `t.csv:3002:3: column "b" is "x", want a number`; err.Error() != want || rows != 3000/7*7 {
			t.Errorf("%d workers: %v after %d rows, want %s", workers, err, rows, want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Schema, encoded rows and errors are the same at any number of threads.
func TestLearnAndEncodeOnManyThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	r := rand.New(rand.NewPCG(3, 16))
	var text bytes.Buffer
	text.WriteString("a,b,c,d,e,y\n")
	for range 6000 {
		fmt.Fprintf(&text, "%g,%d,w%d,2024-01-%02d,\"1,%03d.5\",%g\n", r.NormFloat64(), r.IntN(9), r.IntN(90),
			1+r.IntN(28), r.IntN(1000), r.NormFloat64())
	}
	bad := bytes.Replace(text.Bytes(), []byte("2024-01-07"), []byte("someday"), 3)
	var first string
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		src, err := OpenBytes("t.csv", text.Bytes(), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := json.Marshal([]any{s, sum})
		if err != nil {
			t.Fatal(err)
		}
		got := string(found)
		enc, err := s.Encoder(src.Columns(), true)
		if err != nil {
			t.Fatal(err)
		}
		enc.Readable()
		for _, table := range [][]byte{text.Bytes(), bad} {
			if src, err = OpenBytes("t.csv", table, data.Options{}); err != nil {
				t.Fatal(err)
			}
			rd, err := src.Open(enc.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			var b data.Block
			for {
				if err = rd.Read(&b, 5000); err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				x, y := dense.New[float64](b.Rows, s.Width()), dense.New[float64](b.Rows, 1)
				if err = enc.Encode(x, y, &b, rd.Where); err != nil {
					got += err.Error()
					break
				}
				h := fnv.New64()
				for _, v := range append(x.Data, y.Data...) {
					fmt.Fprintf(h, "%x", math.Float64bits(v))
				}
				got += fmt.Sprintf(" %x", h.Sum64())
			}
			rd.Close()
		}
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%d threads:\n%s\none\n%s", threads, got, first)
		}
	}
	if !strings.Contains(first, "someday") {
		t.Errorf("no error about the bad row: %s", first)
	}
}
