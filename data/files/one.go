package files

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/array"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/data/internal/sheet"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/npy"
)

// OpenBytes opens a table of any format in memory. It recognises contents compressed by gzip, zstd or bzip2, and a zip
// archive with one table. name is used in messages and for its extension.
func OpenBytes(name string, b []byte, o data.Options) (data.Source, error) {
	src, _, err := open(raw.Bytes(name, b), o)
	return src, err
}

// OpenReader is OpenBytes for a stream: the source can be opened once, and formats whose directory is at the end (zip,
// npz, xlsx, Parquet) are errors. The source's reader closes r if it is an io.Closer.
func OpenReader(name string, r io.Reader, o data.Options) (data.Source, error) {
	plain, err := raw.Decompress(name, r)
	if err != nil {
		return nil, err
	}
	sample, _, err := raw.Sample(plain)
	if err != nil {
		return nil, raw.Wrap(name, err)
	}
	if o.Format == "" {
		if o.Format, err = Detect(name, sample); err != nil {
			return nil, err
		}
	}
	stream := raw.Joined{Reader: io.MultiReader(bytes.NewReader(sample), plain), Under: r}
	switch o.Format {
	case data.NPY:
		return array.OpenNPY(name, -1, func() (io.ReadCloser, error) { return stream, nil }, o)
	case data.NPZ, data.XLSX, data.Parquet:
		return nil, raw.Errorf(name, "a file of format %s cannot be read from a stream: write it to a file first", o.Format)
	}
	return text.OpenReader(name, stream, o)
}

// Decompress returns a reader of the decompressed contents of r. It recognises gzip, zstd and bzip2 by their first
// bytes and passes anything else through. name is used in messages.
func Decompress(name string, r io.Reader) (io.Reader, error) { return raw.Decompress(name, r) }

// open opens a file that can be opened again, and returns its format.
func open(f raw.File, o data.Options) (src data.Source, _ data.Format, err error) {
	sample, err := sampleOf(f)
	if err != nil {
		return nil, "", err
	}
	if raw.IsZip(sample) && o.Format != data.NPZ {
		format, member, err := lookInside(f)
		if err != nil {
			return nil, "", err
		}
		if format != "" {
			o.Format = format
		} else {
			if f = memberOf(f, member); o.Format == "" {
				o.Format = data.FormatOf(member)
			}
			if sample, err = sampleOf(f); err != nil {
				return nil, "", err
			}
			// A second level would need its own directory, hence another random access.
			if raw.IsZip(sample) {
				return nil, "", raw.Errorf(f.Name, "an archive in an archive: unpack it")
			}
		}
	}
	if o.Format == "" {
		if o.Format, err = Detect(f.Name, sample); err != nil {
			return nil, "", err
		}
	}
	switch o.Format {
	case data.NPY:
		src, err = array.OpenNPY(f.Name, f.Size, f.Open, o)
	case data.NPZ:
		src, err = array.OpenNPZ(f.Name, f.Size, f.Open, o)
	case data.XLSX:
		if !raw.IsZip(sample) {
			return nil, "", raw.Errorf(f.Name, "not a workbook of the format .xlsx")
		}
		src, err = sheet.Open(f.Name, f.Size, f.Open, o)
	case data.Parquet:
		src, err = parquet.OpenFile(f.Name, f.Size, func() (data.File, error) { return randomAccess(f) }, o)
	case data.CSV, data.NDJSON:
		src, err = text.OpenStream(f.Name, f.Size, f.Open, o)
	default:
		err = fmt.Errorf("unknown format %q: want csv, ndjson, npy, npz, parquet or xlsx", o.Format)
	}
	return src, o.Format, err
}

func randomAccess(f raw.File) (data.File, error) {
	s, err := f.Open()
	if err != nil {
		return nil, err
	}
	if at, ok := s.(data.File); ok {
		return at, nil
	}
	s.Close()
	return nil, raw.Errorf(f.Name, "a Parquet file in an archive: unpack it")
}

// sampleOf returns the beginning of a file, decompressed.
func sampleOf(f raw.File) ([]byte, error) {
	r, c, err := f.Text()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	b, _, err := raw.Sample(r)
	switch {
	case err != nil:
		return nil, raw.Wrap(f.Name, err)
	case len(b) == 0:
		return nil, raw.Errorf(f.Name, "the file is empty")
	}
	return b, nil
}

// Detect returns the format of a table from its first bytes, decompressed, then from its name. What is neither text nor
// a known format is an error. A zip archive, which may hold any format, counts as npz.
func Detect(name string, head []byte) (data.Format, error) {
	switch {
	case bytes.HasPrefix(head, []byte(npy.Magic)):
		return data.NPY, nil
	case raw.IsZip(head):
		return data.NPZ, nil
	case bytes.HasPrefix(head, []byte("PAR1")):
		return data.Parquet, nil
	}
	return text.Detect(name, head)
}

// lookInside detects the contents of a zip archive: npy arrays, a workbook, or one table, whose name it
// returns.
func lookInside(in raw.File) (format data.Format, member string, err error) {
	z, c, err := in.Zip()
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	var names []string
	arrays := 0
	for _, f := range z.File {
		switch base := path.Base(f.Name); {
		case f.Name == sheet.Part:
			return data.XLSX, "", nil
		case strings.HasSuffix(f.Name, "/") || strings.HasPrefix(f.Name, "__MACOSX/") || base[0] == '.':
			continue // folders, and files that file managers add
		case strings.HasSuffix(base, ".npy"):
			arrays++
		}
		names = append(names, f.Name)
	}
	switch {
	case arrays == len(names): // also an empty archive, which the npz reader reports
		return data.NPZ, "", nil
	case len(names) > 1:
		return "", "", raw.Errorf(in.Name, "the archive holds %d files, such as %s and %s, want one table or npy arrays: "+
			"unpack it", len(names), cell.Quote(names[0]), cell.Quote(names[1]))
	}
	return "", names[0], nil
}

// memberOf returns one file of an archive. It keeps the name of the archive, because messages should name the file that
// the user named.
func memberOf(in raw.File, name string) raw.File {
	return raw.File{Name: in.Name, Size: 0, Open: func() (io.ReadCloser, error) {
		z, c, err := in.Zip()
		if err != nil {
			return nil, err
		}
		for _, f := range z.File {
			if f.Name != name {
				continue
			}
			r, err := f.Open()
			if err != nil {
				c.Close()
				return nil, raw.Wrap(in.Name, raw.Damaged{Err: err})
			}
			return memberStream{raw.DamagedReader{Reader: r}, r, c}, nil
		}
		c.Close()
		return nil, raw.Errorf(in.Name, "no file %s in the archive: it has changed since it was opened", cell.Quote(name))
	}}
}

type memberStream struct {
	io.Reader
	member, archive io.Closer
}

func (m memberStream) Close() error {
	err := m.member.Close()
	if other := m.archive.Close(); err == nil {
		err = other
	}
	return err
}
