package parquet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// maxPageValues bounds the values of a page, which a few bytes can promise in any number. Writers put thousands to a
// million into one.
const maxPageValues = 1 << 26

// chunk reads one column of one row group, page by page.
type chunk struct {
	c     *column
	codec format.CompressionCodec
	left  int64 // values that have not come
	size  int64 // bytes of pages that have not come
	in    *bufio.Reader
	pages *thrift.Decoder
	dict  *values
}

// openChunk begins a column of a row group.
func (f *file) openChunk(c *column, g *format.RowGroup) (*chunk, error) {
	if c.leaf >= len(g.Columns) {
		return nil, fmt.Errorf("a row group has %d columns", len(g.Columns))
	}
	m := &g.Columns[c.leaf].MetaData
	switch {
	case g.Columns[c.leaf].FilePath != "":
		return nil, fmt.Errorf("stored in another file, %q", g.Columns[c.leaf].FilePath)
	case len(g.Columns[c.leaf].EncryptedColumnMetadata) > 0 || g.Columns[c.leaf].CryptoMetadata.Value != nil:
		return nil, errors.New("encrypted")
	case m.Type != c.kind || m.NumValues != g.NumRows:
		return nil, fmt.Errorf("damaged: %d values of type %v, the schema says %v and the group %d rows",
			m.NumValues, m.Type, c.kind, g.NumRows)
	}
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if at < 0 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > f.size-at {
		return nil, fmt.Errorf("damaged: %d bytes at %d of a file of %d", m.TotalCompressedSize, at, f.size)
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, at, m.TotalCompressedSize), 1<<16)
	return &chunk{c: c, codec: m.Codec, left: m.NumValues, size: m.TotalCompressedSize, in: in,
		pages: thrift.NewDecoder(compact.NewReader(in))}, nil
}

// page is some consecutive values of a column.
type page struct {
	n      int    // nulls included
	levels []byte // 1 for a value, 0 for null; nil if there are no nulls
	dict   []uint32
	values *values // of the page, or those that dict chooses from
}

// next gives the next data page, or io.EOF after the last value.
func (k *chunk) next() (*page, error) {
	for k.left > 0 {
		var h format.PageHeader
		if err := k.pages.Decode(&h); err != nil {
			return nil, cut(err)
		}
		if n := int64(h.CompressedPageSize); n < 0 || n > k.size || h.UncompressedPageSize < 0 {
			return nil, fmt.Errorf("a page of %d bytes (%d uncompressed)", h.CompressedPageSize, h.UncompressedPageSize)
		}
		k.size -= int64(h.CompressedPageSize)
		body := make([]byte, h.CompressedPageSize)
		if _, err := io.ReadFull(k.in, body); err != nil {
			return nil, cut(err)
		}
		if h.CRC != 0 && crc32.ChecksumIEEE(body) != uint32(h.CRC) {
			return nil, errors.New("the checksum of a page is wrong")
		}
		switch h.Type {
		case format.DictionaryPage:
			if err := k.readDictionary(&h, body); err != nil {
				return nil, err
			}
		case format.DataPage, format.DataPageV2:
			read := k.readV1
			if h.Type == format.DataPageV2 {
				read = k.readV2
			}
			p, err := read(&h, body)
			if err != nil {
				return nil, err
			}
			k.left -= int64(p.n)
			if p.n > 0 {
				return p, nil
			}
		}
	}
	return nil, io.EOF
}

// cut is the error of a page that ends early.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// plainDictionary is what writers of version 1 call both a plain dictionary and references to it. The format deprecates
// it; files have it.
const plainDictionary format.Encoding = 2

func (k *chunk) readDictionary(h *format.PageHeader, body []byte) error {
	d := h.DictionaryPageHeader
	if !d.Valid || d.V.NumValues < 0 || d.V.Encoding != format.Plain && d.V.Encoding != plainDictionary {
		return fmt.Errorf("a dictionary of %d values in encoding %v", d.V.NumValues, d.V.Encoding)
	}
	body, err := decompress(k.codec, body, int(h.UncompressedPageSize))
	if err != nil {
		return err
	}
	k.dict, err = decode(k.c.kind, format.Plain, body, int(d.V.NumValues))
	return err
}

// readV1 reads a page whose levels are compressed together with its values.
func (k *chunk) readV1(h *format.PageHeader, body []byte) (*page, error) {
	d := h.DataPageHeader
	p, err := k.newPage(d.Valid, d.V.NumValues)
	if err != nil {
		return nil, err
	}
	if body, err = decompress(k.codec, body, int(h.UncompressedPageSize)); err != nil {
		return nil, err
	}
	if k.c.optional {
		if d.V.DefinitionLevelEncoding != format.RLE {
			return nil, fmt.Errorf("levels in the deprecated encoding %v", d.V.DefinitionLevelEncoding)
		}
		if len(body) < 4 || int64(binary.LittleEndian.Uint32(body)) > int64(len(body)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		n := 4 + int(binary.LittleEndian.Uint32(body))
		if err := p.readLevels(body[4:n]); err != nil {
			return nil, err
		}
		body = body[n:]
	}
	return p, k.readValues(p, d.V.Encoding, body)
}

// readV2 reads a page whose levels stand before its values, never compressed.
func (k *chunk) readV2(h *format.PageHeader, body []byte) (*page, error) {
	d := h.DataPageHeaderV2
	p, err := k.newPage(d.Valid, d.V.NumValues)
	if err != nil {
		return nil, err
	}
	repetition, definition := int(d.V.RepetitionLevelsByteLength), int(d.V.DefinitionLevelsByteLength)
	if repetition < 0 || definition < 0 || definition > len(body) || repetition > len(body)-definition {
		return nil, io.ErrUnexpectedEOF
	}
	levels := body[repetition : repetition+definition]
	body = body[repetition+definition:]
	if k.c.optional {
		if err := p.readLevels(levels); err != nil {
			return nil, err
		}
	}
	if !d.V.IsCompressed.Valid || d.V.IsCompressed.V {
		if body, err = decompress(k.codec, body, int(h.UncompressedPageSize)-repetition-definition); err != nil {
			return nil, err
		}
	}
	return p, k.readValues(p, d.V.Encoding, body)
}

func (k *chunk) newPage(valid bool, n int32) (*page, error) {
	if !valid || n < 0 || int64(n) > k.left || n > maxPageValues {
		return nil, fmt.Errorf("a page of %d values, %d are left", n, k.left)
	}
	return &page{n: int(n)}, nil
}

// readLevels reads which values are there. Columns are not nested: a level is 0 or 1.
func (p *page) readLevels(b []byte) error {
	levels := make([]uint32, p.n)
	if err := hybrid(levels, b, 1); err != nil {
		return err
	}
	if !slices.Contains(levels, 0) {
		return nil
	}
	p.levels = make([]byte, p.n)
	for i, l := range levels {
		p.levels[i] = byte(l)
	}
	return nil
}

// readValues reads those that are not null.
func (k *chunk) readValues(p *page, e format.Encoding, b []byte) (err error) {
	n := p.n
	for _, l := range p.levels {
		n -= 1 - int(l)
	}
	if e != plainDictionary && e != format.RLEDictionary {
		p.values, err = decode(k.c.kind, e, b, n)
		return err
	}
	if k.dict == nil {
		return errors.New("a page refers to a dictionary that is not there")
	}
	p.values, p.dict = k.dict, make([]uint32, n)
	if n == 0 {
		return nil
	}
	if len(b) == 0 {
		return io.ErrUnexpectedEOF
	}
	if err := hybrid(p.dict, b[1:], int(b[0])); err != nil {
		return err
	}
	if most := slices.Max(p.dict); int64(most) >= int64(k.dict.len()) {
		return fmt.Errorf("value %d of a dictionary of %d", most, k.dict.len())
	}
	return nil
}

// decompress gives the size bytes of a page. What a damaged page can make it take is in proportion to the page.
func decompress(c format.CompressionCodec, b []byte, size int) (out []byte, err error) {
	if size < 0 {
		return nil, fmt.Errorf("a page of %d bytes", size)
	}
	if len(b) == 0 && size == 0 {
		return nil, nil
	}
	switch c {
	case format.Uncompressed:
		out = b
	case format.Snappy:
		n, lenErr := snappy.DecodedLen(b)
		if lenErr != nil || n != size || n/64 > len(b) { // a copy of 64 bytes takes at least two
			return nil, fmt.Errorf("snappy: %d bytes become %d, want %d", len(b), n, size)
		}
		out, err = snappy.Decode(nil, b)
	case format.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			out, err = readUpTo(z, size)
		}
	case format.Brotli:
		out, err = readUpTo(brotli.NewReader(bytes.NewReader(b)), size)
	case format.Zstd:
		z := zstdDecoders.Get().(*zstd.Decoder)
		defer zstdDecoders.Put(z)
		if err = z.Reset(bytes.NewReader(b)); err == nil {
			out, err = readUpTo(z, size)
		}
	case format.Lz4Raw:
		if size/255 > len(b) {
			return nil, fmt.Errorf("lz4: %d bytes become %d", len(b), size)
		}
		out = make([]byte, size)
		var n int
		if n, err = lz4.UncompressBlock(b, out); err == nil {
			out = out[:n]
		}
	default:
		return nil, fmt.Errorf("compressed by %v, which is not supported: want snappy, gzip, zstd, brotli, lz4_raw or none", c)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%v: a page of %d bytes, want %d", c, len(out), size)
	}
	return out, nil
}

// zstdDecoders are costly to make; with one thread each they need not be closed.
var zstdDecoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		panic(err) // these options are right
	}
	return z
}}

// readUpTo reads at most one byte more than it should find, and grows with what comes.
func readUpTo(r io.Reader, size int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(min(size, 1<<20) + 1)
	_, err := b.ReadFrom(io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}
