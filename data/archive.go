package data

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/randfeat/randfeat/internal/quote"
)

// isZip reports whether a file with this beginning is a zip archive, possibly an empty one.
func isZip(head []byte) bool {
	return strings.HasPrefix(string(head[:min(len(head), 4)]), "PK\x03\x04") ||
		strings.HasPrefix(string(head[:min(len(head), 4)]), "PK\x05\x06")
}

// openZip opens a zip archive, which must be readable at any offset, and checks the number of its files.
func (in input) openZip() (*zip.Reader, io.Closer, error) {
	if in.size < 0 {
		return nil, nil, inputError(in.name, "a zip archive cannot be read from a stream: write it to a file first")
	}
	f, err := in.open()
	if err != nil {
		return nil, nil, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return nil, nil, inputError(in.name, "a zip archive must not be compressed again")
	}
	z, err := zip.NewReader(at, in.size)
	if err != nil {
		f.Close()
		detail := fmt.Sprintf("not a readable zip archive: %v", err)
		return nil, nil, &InputError{Place: in.name, Detail: detail, Err: err}
	}
	if len(z.File) > maxMembers {
		f.Close()
		return nil, nil, inputError(in.name, "%d files in the archive, the limit is %d", len(z.File), maxMembers)
	}
	return z, f, nil
}

// lookInside detects the contents of a zip archive: npy arrays, a workbook, or one table, whose name it
// returns.
func (in input) lookInside() (format Format, member string, err error) {
	z, c, err := in.openZip()
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	var names []string
	arrays := 0
	for _, f := range z.File {
		switch base := path.Base(f.Name); {
		case f.Name == workbookPart:
			return XLSX, "", nil
		case strings.HasSuffix(f.Name, "/") || strings.HasPrefix(f.Name, "__MACOSX/") || base[0] == '.':
			continue // folders, and files that file managers add
		case strings.HasSuffix(base, ".npy"):
			arrays++
		}
		names = append(names, f.Name)
	}
	switch {
	case arrays == len(names): // also an empty archive, which the npz reader reports
		return NPZ, "", nil
	case len(names) > 1:
		return "", "", inputError(in.name, "the archive holds %d files, such as %s and %s, want one table or npy arrays: "+
			"unpack it", len(names), quote.Short(names[0]), quote.Short(names[1]))
	}
	return "", names[0], nil
}

// member returns an input for one file of the archive. It keeps the name of the archive, because messages
// should name the file that the user named.
func (in input) member(name string) input {
	out := in
	out.size = 0 // can be opened again, but not cut into blocks
	out.open = func() (stream, error) {
		z, c, err := in.openZip()
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
				return nil, in.wrap(damaged{err})
			}
			return memberStream{damagedReader{r}, r, c}, nil
		}
		c.Close()
		return nil, inputError(in.name, "no file %s in the archive: it has changed since it was opened", quote.Short(name))
	}
	return out
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
