package parquet_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/parquet"
)

// peer reads all columns that are not nested with the library, which shares only its thrift and delta decoders with us.
// Numbers are the shortest that give their bits, missing is ∅.
func peer(path string) (names []string, columns map[string][]string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	file, err := pq.OpenFile(f, info.Size())
	if err != nil {
		return nil, nil, err
	}
	columns = map[string][]string{}
	for _, c := range file.Root().Columns() {
		names = append(names, c.Name())
		if !c.Leaf() || c.Repeated() ||
			c.Type().Kind() == pq.FixedLenByteArray && decimalScale(c) < 0 {
			continue
		}
		out := []string{}
		for _, g := range file.RowGroups() {
			pages := g.ColumnChunks()[c.Index()].Pages()
			for {
				p, err := pages.ReadPage()
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil, nil, err
				}
				buf := make([]pq.Value, p.NumValues())
				n, err := p.Values().ReadValues(buf)
				if err != nil && err != io.EOF {
					return nil, nil, err
				}
				for _, v := range buf[:n] {
					out = append(out, shown(c, v))
				}
			}
			pages.Close()
		}
		columns[c.Name()] = out
	}
	return names, columns, nil
}

func isDate(c *pq.Column) bool {
	if t := c.Type().LogicalType(); t != nil {
		_, ok := t.Value.(*format.DateType)
		return ok
	}
	return c.Type().ConvertedType() != nil && *c.Type().ConvertedType() == deprecated.Date
}

// unitOf is the unit of timestamps; 0: none.
func unitOf(c *pq.Column) time.Duration {
	if t := c.Type().LogicalType(); t != nil {
		if s, ok := t.Value.(*format.TimestampType); ok {
			switch s.Unit.Value.(type) {
			case *format.MilliSeconds:
				return time.Millisecond
			case *format.MicroSeconds:
				return time.Microsecond
			}
			return time.Nanosecond
		}
	}
	switch t := c.Type().ConvertedType(); {
	case t != nil && *t == deprecated.TimestampMillis:
		return time.Millisecond
	case t != nil && *t == deprecated.TimestampMicros:
		return time.Microsecond
	}
	return 0
}

// decimalScale is the number of digits behind the point; −1: no decimal.
func decimalScale(c *pq.Column) int {
	if t := c.Type().LogicalType(); t != nil {
		if d, ok := t.Value.(*format.DecimalType); ok {
			return int(d.Scale)
		}
	}
	return -1
}

func shown(c *pq.Column, v pq.Value) string {
	number := func(x float64) string {
		if math.IsNaN(x) {
			return "∅"
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	unsigned := false
	divisor := 1.0
	if t := c.Type().LogicalType(); t != nil {
		switch t := t.Value.(type) {
		case *format.IntType:
			unsigned = !t.IsSigned
		case *format.DecimalType:
			divisor = math.Pow10(int(t.Scale))
		}
	}
	at := func(unit time.Duration) string {
		t := time.Unix(0, 0).UTC().Add(time.Duration(v.Int64()) * unit)
		return t.Format("2006-01-02T15:04:05.999999999")
	}
	switch {
	case v.IsNull():
		return "∅"
	case v.Kind() == pq.Int96:
		i := v.Int96()
		return time.Date(-4713, 11, 24, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(i[2])).
			Add(time.Duration(uint64(i[1])<<32 | uint64(i[0]))).Format("2006-01-02T15:04:05.999999999")
	case isDate(c):
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(v.Int32())).Format("2006-01-02")
	case unitOf(c) > 0:
		return at(unitOf(c))
	case (v.Kind() == pq.FixedLenByteArray || v.Kind() == pq.ByteArray) && decimalScale(c) >= 0:
		x := new(big.Int).SetBytes(v.ByteArray())
		if v.ByteArray()[0] >= 128 {
			x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.ByteArray()))))
		}
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimalScale(c))), nil)
		f, _ := new(big.Rat).SetFrac(x, power).Float64()
		return number(f)
	case v.Kind() == pq.Boolean:
		return strconv.FormatBool(v.Boolean())
	case v.Kind() == pq.Int32 && unsigned:
		return number(float64(v.Uint32()))
	case v.Kind() == pq.Int32:
		return number(float64(v.Int32()) / divisor)
	case v.Kind() == pq.Int64 && unsigned:
		return number(float64(v.Uint64()))
	case v.Kind() == pq.Int64:
		return number(float64(v.Int64()) / divisor)
	case v.Kind() == pq.Float:
		return number(float64(v.Float()))
	case v.Kind() == pq.Double:
		return number(v.Double())
	}
	if !utf8.Valid(v.ByteArray()) {
		return fmt.Sprintf("0x%x", v.ByteArray())
	}
	return string(v.ByteArray())
}

// ours reads one column.
func ours(src data.Source, names []string, j int) ([]string, error) {
	want := make([]data.Kind, len(names))
	for i := range want {
		want[i] = data.Skip
	}
	want[j] = data.Infer
	r, err := src.Open(want)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b data.Block
	out := []string{}
	for {
		err := r.Read(&b, 1000)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		c := &b.Cols[j]
		for i := range b.Rows {
			switch {
			case c.Num != nil && math.IsNaN(c.Num[i]), c.Text != nil && c.Text[i] == nil:
				out = append(out, "∅")
			case c.Num != nil:
				out = append(out, strconv.FormatFloat(c.Num[i], 'g', -1, 64))
			default:
				out = append(out, string(c.Text[i]))
			}
		}
	}
}

// compare reads a file in both ways and returns how many columns were the same.
func compare(t *testing.T, path string) (same int) {
	t.Helper()
	names, want, err := peer(path)
	if err != nil {
		if src, err := parquet.Open(path, data.Options{Missing: []string{}}); err == nil {
			_, err = cells(src, nil, 100)
			if !errors.Is(err, data.ErrInput) {
				t.Errorf("%s is damaged: %v", path, err)
			}
		}
		return 0
	}
	return compareWith(t, path, names, want)
}

func compareWith(t *testing.T, path string, names []string, want map[string][]string) (same int) {
	t.Helper()
	src, err := parquet.Open(path, data.Options{Missing: []string{}})
	if len(names) == 0 && errors.Is(err, data.ErrInput) {
		return 0
	}
	if err != nil {
		t.Errorf("%v", err)
		return 0
	}
	if got := src.Columns(); !slices.Equal(got, names) {
		t.Errorf("%s: columns %q, want %q", path, got, names)
		return 0
	}
	for j, name := range names {
		got, err := ours(src, names, j)
		if _, ok := want[name]; !ok {
			if !errors.Is(err, data.ErrInput) {
				t.Errorf("%s: column %q is not for us: %v", path, name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("column %q: %v", name, err)
			continue
		}
		if len(got) != len(want[name]) {
			t.Errorf("%s: column %q has %d rows, want %d", path, name, len(got), len(want[name]))
			continue
		}
		differs := -1
		for i := range got {
			if got[i] != want[name][i] {
				differs = i
				break
			}
		}
		if differs >= 0 {
			t.Errorf("%s: column %q, row %d: %.40q, want %.40q", path, name, differs+1, got[differs],
				want[name][differs])
			continue
		}
		same++
	}
	return same
}

// Files of many other writers (Impala, parquet-mr, Arrow, Rust, Spark), which the library brings for its own tests.
func TestFilesOfOthers(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/parquet-go/parquet-go").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Skipf("no files: %v", err)
	}
	more, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "malformed", "*"))
	total := 0
	for _, p := range append(paths, more...) {
		if filepath.Base(p) != lz4Larger {
			total += compare(t, p)
			continue
		}
		// The library (0.32) takes these texts for empty ones; Arrow's tests have the right values.
		src, err := parquet.Open(p, data.Options{Missing: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours(src, []string{"a"}, 0)
		if err != nil || len(got) != 10000 || got[0] != "c7ce6bef-d5b0-4863-b199-8ea8c7fb117b" ||
			got[9999] != "85440778-460a-41ac-aa2e-ac3ee41696bf" {
			t.Errorf("%s: %d rows, %.100q, %v", p, len(got), got, err)
		}
	}
	if total < 200 {
		t.Errorf("only %d columns were the same", total)
	}
}

const lz4Larger = "lz4_raw_compressed_larger.parquet"

// every is a row with all types.
type every struct {
	B  bool    `parquet:"b"`
	I  int32   `parquet:"i"`
	U  uint32  `parquet:"u"`
	L  int64   `parquet:"l"`
	UL uint64  `parquet:"ul"`
	F  float32 `parquet:"f"`
	D  float64 `parquet:"d"`
	S  string  `parquet:"s"`

	OB *bool    `parquet:"ob"`
	OI *int32   `parquet:"oi"`
	OL *int64   `parquet:"ol"`
	OF *float32 `parquet:"of"`
	OD *float64 `parquet:"od"`
	OS *string  `parquet:"os"`

	DI int32  `parquet:"di,dict"`
	DD *int64 `parquet:"dd,dict"`
	DS string `parquet:"ds,dict"`

	EI int32   `parquet:"ei,delta"`
	EL int64   `parquet:"el,optional,delta"` // 0 is null
	ES string  `parquet:"es,delta"`
	EO string  `parquet:"eo,optional,delta"`
	PF float32 `parquet:"pf,split"`
	PD float64 `parquet:"pd,split"`
	NU *int64  `parquet:"nu"` // always null
}

func everyRows(n int) []every {
	r := rand.New(rand.NewPCG(8, 9))
	rows := make([]every, n)
	for i := range rows {
		e := &rows[i]
		text := strings.Repeat("ab", r.IntN(4)) + strconv.Itoa(r.IntN(50))
		e.B, e.I, e.U, e.L, e.UL = r.IntN(2) == 1, int32(r.Uint32()), r.Uint32(), int64(r.Uint64()>>12)-1<<51,
			r.Uint64()>>12
		e.F, e.D, e.S = float32(r.NormFloat64()), r.NormFloat64(), text
		e.DI, e.DS, e.EI, e.ES, e.PF, e.PD = int32(r.IntN(300)), text, int32(i*3), text, e.F, e.D
		if r.IntN(4) > 0 {
			b, x, l, f, d, s := e.B, e.I, e.L, e.F, e.D, text
			e.OB, e.OI, e.OL, e.OF, e.OD, e.OS, e.DD, e.EL, e.EO = &b, &x, &l, &f, &d, &s, &l, l, s
		}
	}
	return rows
}

// Every type in every encoding, both kinds of pages, every compression.
func TestEncodings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, n := range []int{1, 7, 2000} {
		rows := everyRows(n)
		var names []string
		var want map[string][]string
		for _, codec := range []compress.Codec{&pq.Uncompressed, &pq.Snappy, &pq.Gzip, &pq.Brotli, &pq.Zstd,
			&pq.Lz4Raw} {
			for version := 1; version <= 2; version++ {
				err := pq.WriteFile(path, rows, pq.Compression(codec), pq.DataPageVersion(version),
					pq.PageBufferSize(4096),
					pq.MaxRowsPerRowGroup(900))
				if err != nil {
					t.Fatal(err)
				}
				if want == nil { // uncompressed; of those compressed by lz4 the library (0.32) reads some wrong
					if names, want, err = peer(path); err != nil {
						t.Fatal(err)
					}
				}
				if same := compareWith(t, path, names, want); same != 24 {
					t.Errorf("%d rows, %v, version %d: %d columns are the same", n, codec, version, same)
				}
			}
		}
	}
}

// The library reads our files with the same values.
func TestPeerReadsOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, rows := range []int{0, 1, 9, 70_000} {
		write(t, path, rows, 1000)
		if same := compare(t, path); same != len(columns) {
			t.Errorf("%d rows: %d columns are the same", rows, same)
		}
	}
	// Long texts: several pages in a group, several groups.
	w, err := parquet.Create(path, []string{"s"}, []data.Kind{data.Text})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 300_000)
	for i := range text {
		text[i] = byte(r.Uint32N(127))
	}
	for range 24 {
		var b data.Block
		b.Reset(0, []data.Kind{data.Text})
		for range 10 {
			text[r.IntN(len(text))]++
			b.AppendText(0, text)
			b.Rows++
		}
		if err := w.WriteBlock(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if same := compare(t, path); same != 1 {
		t.Error("long texts differ")
	}
}
