package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/randfeat/randfeat/data"
)

// readAll reads a file in small blocks and counts the rows.
func readAll(path string) (rows int, err error) {
	src, err := Open(path, data.Options{})
	if err != nil {
		return 0, err
	}
	r, err := src.Open(nil)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var b data.Block
	for {
		err := r.Read(&b, 64)
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		rows += b.Rows
	}
}

// onePage is a file with a required column of a type in one page, as its writer claims it.
func onePage(t testing.TB, path string, kind format.Type, codec format.CompressionCodec, h format.PageHeader,
	body []byte, rows int64) {
	t.Helper()
	header, err := thrift.Marshal(&compact, &h)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(header) + len(body))
	column := format.ColumnMetaData{Type: kind, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"x"},
		Codec: codec, NumValues: rows, TotalUncompressedSize: size, TotalCompressedSize: size, DataPageOffset: 4}
	meta := format.FileMetaData{Version: 1, NumRows: rows,
		Schema: []format.SchemaElement{{Name: "table", NumChildren: some(int32(1))},
			{Name: "x", Type: some(kind), RepetitionType: some(format.Required)}},
		RowGroups: []format.RowGroup{{NumRows: rows, Columns: []format.ColumnChunk{{MetaData: column}}}}}
	footer, err := thrift.Marshal(&compact, &meta)
	if err != nil {
		t.Fatal(err)
	}
	b := append(append([]byte(magic), header...), body...)
	b = append(binary.LittleEndian.AppendUint32(append(b, footer...), uint32(len(footer))), magic...)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// A small file cannot make the reader take much memory, whatever it promises.
func TestPromises(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	data1 := func(e format.Encoding, n int32, size int) format.PageHeader {
		return format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(size),
			DataPageHeader: some(format.DataPageHeader{NumValues: n, Encoding: e, DefinitionLevelEncoding: format.RLE})}
	}
	const many = 1 << 26
	delta := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 128), 4), many)
	for name, c := range map[string]struct {
		kind  format.Type
		codec format.CompressionCodec
		h     format.PageHeader
		body  []byte
	}{
		"values that are not there": {format.Double, format.Uncompressed, data1(format.Plain, many, 16),
			make([]byte, 16)},
		"more values than any page": {format.Double, format.Uncompressed, data1(format.Plain, math.MaxInt32, 16),
			make([]byte, 16)},
		"texts that are not there": {format.ByteArray, format.Uncompressed, data1(format.Plain, many, 16),
			make([]byte, 16)},
		"packed numbers, not there": {format.Int64, format.Uncompressed,
			data1(format.DeltaBinaryPacked, 3, len(delta)), delta},
		"packed texts, not there": {format.ByteArray, format.Uncompressed,
			data1(format.DeltaByteArray, 3, len(delta)), delta},
		"snappy that claims 2 GB": {format.Double, format.Snappy, data1(format.Plain, 1, math.MaxInt32),
			binary.AppendUvarint(nil, math.MaxInt32)},
		"lz4 that claims 2 GB": {format.Double, format.Lz4Raw, data1(format.Plain, 1, math.MaxInt32),
			make([]byte, 16)},
		"zstd that claims 2 GB": {format.Double, format.Zstd, data1(format.Plain, 1, math.MaxInt32),
			make([]byte, 16)},
		"brotli that claims 2 GB": {format.Double, format.Brotli, data1(format.Plain, 1, math.MaxInt32),
			make([]byte, 16)},
		"gzip that claims 2 GB": {format.Double, format.Gzip, data1(format.Plain, 1, math.MaxInt32),
			make([]byte, 16)},
		"less than it decompresses to": {format.Double, format.Snappy, data1(format.Plain, 1, 8),
			snappy.Encode(nil, make([]byte, 16))},
		"an encoding of another type": {format.Double, format.Uncompressed, data1(format.DeltaByteArray, 1, 8),
			make([]byte, 8)},
		"a dictionary that is not there": {format.Double, format.Uncompressed, data1(format.RLEDictionary, 1, 8),
			make([]byte, 8)},
		"a codec that nobody uses": {format.Double, format.LZO, data1(format.Plain, 1, 8), make([]byte, 8)},
	} {
		c.h.CompressedPageSize = int32(len(c.body))
		onePage(t, path, c.kind, c.codec, c.h, c.body, math.MaxInt32)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rows, err := readAll(path)
		runtime.ReadMemStats(&after)
		if rows != 0 || !errors.Is(err, data.ErrInput) {
			t.Errorf("%s: %d rows, %v", name, rows, err)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 40 {
			t.Errorf("%s: took %d MiB", name, mib)
		}
	}
}

// hybrid reads in pieces of some size.
func hybrid(dst []uint32, b []byte, bits int) error {
	r := runs{b: b, bits: bits}
	for len(dst) > 0 {
		n := min(len(dst), 1+len(dst)%7)
		if err := r.read(dst[:n]); err != nil {
			return err
		}
		dst = dst[n:]
	}
	return nil
}

// Runs and packed bits against a plain definition.
func TestHybrid(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		bits := r.IntN(33)
		draw := func() uint32 { return uint32(r.Uint64() & (1<<bits - 1)) }
		var b []byte
		var want []uint32
		for range 1 + r.IntN(4) {
			if n := r.IntN(20); r.IntN(2) == 0 {
				x := draw()
				b = binary.AppendUvarint(b, uint64(n)<<1)
				b = append(b, binary.LittleEndian.AppendUint32(nil, x)[:(bits+7)/8]...)
				for range n {
					want = append(want, x)
				}
			} else {
				b = binary.AppendUvarint(b, uint64(n)<<1|1)
				packed := make([]byte, n*bits)
				for i := range 8 * n {
					x := draw()
					want = append(want, x)
					for k := range bits {
						packed[(i*bits+k)/8] |= byte(x>>k&1) << ((i*bits + k) % 8)
					}
				}
				b = append(b, packed...)
			}
		}
		want = want[:len(want)-min(len(want), r.IntN(8))] // the last group may be padded
		got := make([]uint32, len(want))
		if err := hybrid(got, b, bits); err != nil {
			t.Fatalf("%d numbers of %d bits: %v", len(want), bits, err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("number %d of %d bits: %d, want %d", i, bits, got[i], want[i])
			}
		}
		if err := hybrid(make([]uint32, 1000), b, bits); err == nil {
			t.Fatalf("%d numbers were taken for 1000", len(want))
		}
	}
	if hybrid(make([]uint32, 1), []byte{2, 255, 255, 255, 255, 255}, 33) == nil ||
		hybrid(make([]uint32, 1), []byte{2, 4}, 2) == nil {
		t.Error("numbers of 33 bits, or with more bits than they have")
	}
}

// FuzzRead: whatever a file holds, reading it ends with rows or with an error about it.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "x.parquet")
	w, err := Create(path, []string{"a", "b"}, []data.Kind{data.Number, data.Text})
	if err != nil {
		f.Fatal(err)
	}
	var b data.Block
	b.Reset(0, []data.Kind{data.Number, data.Text})
	for i := range 20 {
		b.Cols[0].Num = append(b.Cols[0].Num, float64(i))
		b.AppendText(1, []byte{'x'})
		b.Rows++
	}
	b.Cols[1].Text[3], b.Cols[0].Num[5] = nil, math.NaN()
	if err := errors.Join(w.WriteBlock(&b), w.Close()); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for kind, e := range map[format.Type]format.Encoding{format.Int32: format.DeltaBinaryPacked,
		format.ByteArray: format.DeltaByteArray,
		format.Boolean:   format.RLE, format.Float: format.ByteStreamSplit} {
		body := []byte{128, 1, 4, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0}
		onePage(f, path, kind, format.Uncompressed, format.PageHeader{Type: format.DataPage,
			UncompressedPageSize: int32(len(body)),
			CompressedPageSize:   int32(len(body)), DataPageHeader: some(format.DataPageHeader{NumValues: 2,
				Encoding: e})}, body, 2)
		seed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(path); err != nil && !errors.Is(err, data.ErrInput) {
			t.Fatal(err)
		}
	})
}
