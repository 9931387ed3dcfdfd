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
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// A page may decompress to 16 MiB, or to 64 times its size in the file if that is more. Writers usually put 1
// MiB into a page; some put all rows of a group. All pages in memory (one, or with a dictionary two, per column
// that is read) may take 256 MiB plus 16 times the size of the file. Claims of the file are checked against
// these bounds before any memory is allocated.
const (
	maxPageBytes = 16 << 20
	maxPageRatio = 64
	maxHeldBytes = 256 << 20
	maxHeldRatio = 16
)

// chunk reads one column of one row group, page by page.
type chunk struct {
	c     *column
	codec format.CompressionCodec
	left  int64 // values still to come
	size  int64 // bytes of pages still to come
	in    *bufio.Reader
	pages *thrift.Decoder
	dict  *values

	budget *budget
	held   int64 // bytes held by the dictionary
	page   int64 // bytes held by the current page
}

// openChunk begins a column of a row group. It checks the offsets against the size of the file.
func (f *file) openChunk(c *column, g *format.RowGroup, b *budget) (*chunk, error) {
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
	return &chunk{c: c, codec: m.Codec, left: m.NumValues, size: m.TotalCompressedSize, in: in, budget: b,
		pages: thrift.NewDecoder(compact.NewReader(in))}, nil
}

// page is a run of consecutive values of a column.
type page struct {
	n      int  // values, including nulls
	nulls  bool // there are nulls
	levels runs // 1 for a value, 0 for null
	chosen bool // values are indices into a dictionary, read from dict
	dict   runs
	values *values // of the page, or of the dictionary
}

// next returns the next data page, or io.EOF after the last value. The previous page is released.
func (k *chunk) next() (*page, error) {
	for k.left > 0 {
		k.budget.give(&k.page)
		var h format.PageHeader
		if err := k.pages.Decode(&h); err != nil {
			return nil, cut(err)
		}
		if n := int64(h.CompressedPageSize); n < 0 || n > k.size || h.UncompressedPageSize < 0 {
			return nil, fmt.Errorf("a page of %d bytes (%d uncompressed)", h.CompressedPageSize, h.UncompressedPageSize)
		}
		if n := int64(h.UncompressedPageSize); n > max(maxPageBytes, maxPageRatio*int64(h.CompressedPageSize)) {
			return nil, fmt.Errorf("a page of %d bytes that decompresses to %d: the limit is %d, or %d times its size; "+
				"write the file with smaller pages", h.CompressedPageSize, n, maxPageBytes, maxPageRatio)
		}
		held := &k.page
		if h.Type == format.DictionaryPage {
			held = &k.held
		}
		if err := k.budget.take(held, int64(max(h.CompressedPageSize, h.UncompressedPageSize))); err != nil {
			return nil, err
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
	k.close()
	return nil, io.EOF
}

// close returns the memory that the chunk holds to the budget.
func (k *chunk) close() {
	k.budget.give(&k.page)
	k.budget.give(&k.held)
}

// cut turns io.EOF into io.ErrUnexpectedEOF: a page ends early.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// plainDictionary is the deprecated encoding by which version 1 writers mean both a plain dictionary and
// references to it. Files still have it.
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
	if k.dict, err = k.c.decode(format.Plain, body, int(d.V.NumValues), k.budget); err == nil {
		k.held += k.dict.held
	}
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
		p.nulls, p.levels = true, runs{b: body[4:n], bits: 1}
		body = body[n:]
	}
	return p, k.readValues(p, d.V.Encoding, body)
}

// readV2 reads a page whose levels precede its values and are never compressed.
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
		p.nulls, p.levels = true, runs{b: levels, bits: 1}
	}
	if !d.V.IsCompressed.Valid || d.V.IsCompressed.V {
		if body, err = decompress(k.codec, body, int(h.UncompressedPageSize)-repetition-definition); err != nil {
			return nil, err
		}
	}
	return p, k.readValues(p, d.V.Encoding, body)
}

func (k *chunk) newPage(valid bool, n int32) (*page, error) {
	if !valid || n < 0 || int64(n) > k.left {
		return nil, fmt.Errorf("a page of %d values, %d are left", n, k.left)
	}
	return &page{n: int(n)}, nil
}

// readValues reads the values that are not null. Columns are flat, so a definition level is 0 or 1.
func (k *chunk) readValues(p *page, e format.Encoding, b []byte) (err error) {
	n := p.n
	if p.nulls {
		if n, err = p.levels.count(p.n); err != nil {
			return err
		}
		p.nulls = n < p.n
	}
	switch {
	case e == plainDictionary || e == format.RLEDictionary:
		if k.dict == nil {
			return errors.New("a page refers to a dictionary that is not there")
		}
		if len(b) == 0 && n > 0 {
			return io.ErrUnexpectedEOF
		}
		p.values, p.chosen = k.dict, true
		if len(b) > 0 {
			p.dict = runs{b: b[1:], bits: int(b[0])}
		}
		return nil
	case k.c.kind == format.Boolean && e == format.Plain:
		p.values, p.chosen, p.dict = booleans, true, packedRun(b, 1, n)
		return nil
	case k.c.kind == format.Boolean && e == format.RLE:
		if len(b) < 4 && n > 0 { // the length of the rest
			return io.ErrUnexpectedEOF
		}
		p.values, p.chosen, p.dict = booleans, true, runs{b: b[min(4, len(b)):], bits: 1}
		return nil
	}
	if p.values, err = k.c.decode(e, b, n, k.budget); err == nil {
		k.page += p.values.held
	}
	return err
}

// decompress returns the size bytes of a page. A damaged page costs at most memory in proportion to its own
// size: each codec's largest ratio is checked before allocating.
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
		out, err = lz4Block(b, size)
	case format.Lz4:
		// The name LZ4 stands for two things: blocks that follow their two lengths, as Hadoop frames them, and
		// in older files of other writers one plain block.
		if out, err = lz4Framed(b, size); err != nil {
			out, err = lz4Block(b, size)
		}
	default:
		return nil, fmt.Errorf("compressed by %v, which is not supported: want snappy, gzip, zstd, brotli, lz4 or none", c)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%v: a page of %d bytes, want %d", c, len(out), size)
	}
	return out, nil
}

// lz4Block decompresses a block to at most size bytes. LZ4 expands at most 255 times.
func lz4Block(b []byte, size int) ([]byte, error) {
	if size/255 > len(b) {
		return nil, fmt.Errorf("%d bytes become %d", len(b), size)
	}
	out := make([]byte, size)
	n, err := lz4.UncompressBlock(b, out)
	if err != nil {
		return nil, err
	}
	return out[:n], nil
}

// lz4Framed decompresses blocks that follow their lengths, big-endian: decompressed, compressed.
func lz4Framed(b []byte, size int) (out []byte, err error) {
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, io.ErrUnexpectedEOF
		}
		big, small := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
		if b = b[8:]; small > int64(len(b)) || big > int64(size-len(out)) {
			return nil, fmt.Errorf("a block of %d bytes becomes %d", small, big)
		}
		block, err := lz4Block(b[:small], int(big))
		if err != nil {
			return nil, err
		}
		if int64(len(block)) != big {
			return nil, fmt.Errorf("a block of %d bytes, want %d", len(block), big)
		}
		out, b = append(out, block...), b[small:]
	}
	return out, nil
}

// zstdDecoders are costly to make. With one thread each they have no goroutines and need not be closed.
var zstdDecoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		panic(err) // constant options
	}
	return z
}}

// readUpTo reads at most one byte more than expected, to notice excess, and grows with the data.
func readUpTo(r io.Reader, size int) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(min(size, 1<<20) + 1)
	_, err := b.ReadFrom(io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}
