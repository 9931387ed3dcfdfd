package tensorfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Index is the header of a container whose tensors stay in the file, so files may be larger than memory.
// Several goroutines may read tensors if r allows it.
type Index struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of the file, without data
	at       []int64  // offset of each tensor
	r        io.ReaderAt
}

// Read reads the header of a container of size bytes. Its claims are checked as in Parse. Memory is
// proportional to the header, which the file must contain.
func Read(r io.ReaderAt, size int64) (*Index, error) {
	var head [9]byte
	if size < 8 {
		return nil, fmt.Errorf("%d bytes, too few for a header: %w", size, ErrFormat)
	}
	if n, err := r.ReadAt(head[:], 0); err != nil && (err != io.EOF || n < 8) {
		return nil, err
	}
	n, err := headerLength(binary.LittleEndian.Uint64(head[:]), size)
	if err != nil {
		return nil, err
	}
	if head[8] != '{' { // before the header is read into memory
		return nil, fmt.Errorf("header: no JSON object: %w", ErrFormat)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, 8); err != nil && !(err == io.EOF && size == 8+n) {
		return nil, err
	}
	f, entries, err := parseHeader(b)
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	order, err := f.spans(entries, int(size-8-n))
	if err != nil {
		return nil, err
	}
	x := &Index{Metadata: f.Metadata, r: r}
	for _, i := range order {
		x.Tensors = append(x.Tensors, f.Tensors[i])
		x.at = append(x.at, 8+n+int64(entries[i].Offsets[0]))
	}
	return x, nil
}

// Verify compares the checksum of the header that Seal wrote.
func (x *Index) Verify() error {
	return (&File{Metadata: x.Metadata, Tensors: x.Tensors}).verifyHeader()
}

// Sealed checks a container of size bytes that Seal has completed, without reading its tensors: the checksum of its
// header and that the tensors end where the file does. It has the form of localfile.Format.Check.
func Sealed(r io.ReaderAt, size int64) error {
	x, err := Read(r, size)
	if err != nil {
		return err
	}
	return x.Verify()
}

// Tensor reads the tensor of a name; ok is false if there is none.
func (x *Index) Tensor(name string) (t Tensor, ok bool, err error) {
	i := slices.IndexFunc(x.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false, nil
	}
	t = x.Tensors[i]
	n, err := t.bytes(int(^uint(0) >> 1))
	if err != nil {
		return t, true, err
	}
	t.Data = make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(x.r, x.at[i], int64(n)), t.Data); err != nil {
		return t, true, fmt.Errorf("tensor %q: %w", name, err)
	}
	return t, true, nil
}
