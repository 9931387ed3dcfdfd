package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/randfeat/randfeat/data"
)

// pack compresses b.
func pack(t *testing.T, codec format.CompressionCodec, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case format.Snappy:
		return snappy.Encode(nil, b)
	case format.Lz4Raw, format.Lz4:
		block := make([]byte, lz4.CompressBlockBound(len(b)))
		n, err := lz4.CompressBlock(b, block, nil)
		if err != nil {
			t.Fatal(err)
		}
		return block[:n]
	case format.Gzip:
		w = gzip.NewWriter(&out)
	case format.Brotli:
		w = brotli.NewWriterLevel(&out, 3)
	case format.Zstd:
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return b
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func dataPage(e format.Encoding, n, size, packed int) format.PageHeader {
	return format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(size),
		CompressedPageSize: int32(packed), DataPageHeader: some(format.DataPageHeader{NumValues: int32(n), Encoding: e,
			DefinitionLevelEncoding: format.RLE})}
}

// allocated is the memory, in MiB, that f takes in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// A page that is right and decompresses to a thousand times its size is refused before it is decompressed, in every
// codec that can do so; one of the usual size is read.
func TestPagesThatGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, codec := range []format.CompressionCodec{format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw, format.Lz4,
		format.Snappy} {
		for _, mib := range []int{1, 20} {
			body := make([]byte, mib<<20)
			packed := pack(t, codec, body)
			onePage(t, path, format.Double, codec, dataPage(format.Plain, len(body)/8, len(body), len(packed)), packed,
				int64(len(body)/8))
			var rows int
			var err error
			took := allocated(func() { rows, err = readAll(path) })
			small := len(body) <= max(maxPageBytes, maxPageRatio*len(packed))
			if small && (err != nil || rows != len(body)/8) {
				t.Errorf("%v, %d MiB from %d bytes: %d rows, %v", codec, mib, len(packed), rows, err)
			}
			if !small && (!errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), "smaller pages") ||
				took > 40) {
				t.Errorf("%v, %d MiB from %d bytes: %v; took %d MiB", codec, mib, len(packed), err, took)
			}
		}
	}
}

// Runs stand for any number of values in no memory, common beginnings for texts that are not made.
func TestValuesOfFewBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	const n = 3 << 20
	body := append([]byte{4, 0, 0, 0}, binary.AppendUvarint(nil, n<<1)...)
	body = append(body, 1)
	onePage(t, path, format.Boolean, format.Uncompressed, dataPage(format.RLE, n, len(body), len(body)), body, n)
	var rows int
	var err error
	if took := allocated(func() { rows, err = readAll(path) }); rows != n || err != nil || took > 8 {
		t.Errorf("%d rows, %v; took %d MiB", rows, err, took)
	}
	// A text of 64 KiB, then 32767 times the same, all in common.
	const times, long = 1 << 15, 1 << 16
	numbers := func(first, rest uint64) []byte { // one block of equal differences after the first
		b := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, 1<<15), 4), times)
		b = binary.AppendVarint(b, int64(first))
		b = binary.AppendVarint(b, 0)
		b = append(b, 64, 0, 0, 0) // the first difference takes the remaining bits
		part := make([]byte, 1<<13*8)
		binary.LittleEndian.PutUint64(part, rest-first)
		return append(b, part...)
	}
	body = append(append(numbers(0, long), numbers(long, 0)...), make([]byte, long)...)
	onePage(t, path, format.ByteArray, format.Uncompressed,
		dataPage(format.DeltaByteArray, times, len(body), len(body)), body, times)
	took := allocated(func() { rows, err = readAll(path) })
	if !errors.Is(err, data.ErrInput) || took > 40 {
		t.Errorf("2 GiB of texts in %d bytes: %d rows, %v; took %d MiB", len(body), rows, err, took)
	}
}

// The codec LZ4 is blocks framed as Hadoop does, or one plain block.
func TestLegacyLZ4(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	var body []byte
	for i := range 1000 {
		body = binary.LittleEndian.AppendUint64(body, math.Float64bits(float64(i)))
	}
	frame := func(b []byte) []byte {
		packed := pack(t, format.Lz4, b)
		out := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
		return append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
	}
	for name, packed := range map[string][]byte{"plain": pack(t, format.Lz4, body), "framed": frame(body),
		"two frames": append(frame(body[:4000]), frame(body[4000:])...)} {
		onePage(t, path, format.Double, format.Lz4, dataPage(format.Plain, 1000, len(body), len(packed)), packed, 1000)
		src, err := Open(path, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := src.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		var b data.Block
		if err := r.Read(&b, 1000); err != nil || b.Cols[0].Num[0] != 0 || b.Cols[0].Num[999] != 999 {
			t.Errorf("%s: %v", name, err)
		}
		r.Close()
	}
}

func TestFloat16(t *testing.T) {
	for bits, want := range map[uint16]float64{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 0x1p-24, 0x0400: 0x1p-14,
		0x3555: 0.333251953125, 0x7c00: math.Inf(1)} {
		if got := float16(bits); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(float16(0x7e00)) {
		t.Error("no NaN")
	}
}
