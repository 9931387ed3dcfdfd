// Package tensorfile reads and writes safetensors containers: eight bytes with the length of a JSON header, the
// header, and the tensors one after the other, everything little-endian
// (https://github.com/huggingface/safetensors).
//
// [Parse] reads a container in memory, [Read] only its header. [File.Seal] adds checksums to the metadata and
// [File.Verify] checks them. Input is never trusted: claims of the header are checked against the available
// bytes before they are used, and tensors of Parse are views of the input.
package tensorfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrFormat marks bytes that are no container, or a damaged one.
var ErrFormat = errors.New("not a usable safetensors file")

// Tensor is a named array of packed little-endian elements.
type Tensor struct {
	Name  string
	DType string // F64, F32, …
	Shape []int
	Data  []byte
}

// File is the contents of a container. Tensors are in the order of the file.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor
}

// The metadata keys that Seal writes.
const (
	keyData     = "sha256"          // checksum of the bytes of all tensors
	keyMetadata = "sha256_metadata" // checksum of all other metadata and of names, types and shapes
)

const (
	metadataKey = "__metadata__"
	// maxHeader is the limit of the reference implementation, too.
	maxHeader = 100_000_000
	align     = 8
)

var sizes = map[string]int{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8,
	"U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}

// entry is a tensor in the header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// Floats returns a tensor of float64 numbers.
func Floats(name string, x []float64, shape ...int) Tensor {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return Tensor{Name: name, DType: "F64", Shape: shape, Data: b}
}

// Floats returns a copy of the elements of a float64 tensor.
func (t Tensor) Floats() ([]float64, error) {
	if t.DType != "F64" {
		return nil, fmt.Errorf("tensor %q has elements of type %s, want F64: %w", t.Name, t.DType, ErrFormat)
	}
	x := make([]float64, len(t.Data)/8)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(t.Data[8*i:]))
	}
	return x, nil
}

// bytes is the size that the shape of t promises. limit bounds it, so that the product cannot overflow.
func (t Tensor) bytes(limit int) (int, error) {
	size, ok := sizes[t.DType]
	if !ok {
		return 0, fmt.Errorf("tensor %q has elements of unknown type %q: %w", t.Name, t.DType, ErrFormat)
	}
	n := size
	for _, d := range t.Shape {
		if d < 0 {
			return 0, fmt.Errorf("tensor %q has shape %v: %w", t.Name, t.Shape, ErrFormat)
		}
		if d > 0 && n > limit/d {
			return 0, fmt.Errorf("tensor %q of shape %v is larger than the file: %w", t.Name, t.Shape, ErrFormat)
		}
		n *= d
	}
	return n, nil
}

// Tensor returns the tensor of a name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i := slices.IndexFunc(f.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Seal adds checksums to a copy of the metadata. Call it after everything else is set.
func (f *File) Seal() {
	f.Metadata = maps.Clone(f.Metadata)
	if f.Metadata == nil {
		f.Metadata = map[string]string{}
	}
	f.Metadata[keyData], f.Metadata[keyMetadata] = f.dataSum(), f.headerSum()
}

// Verify compares the checksums of Seal.
func (f *File) Verify() error {
	if err := f.verifyHeader(); err != nil {
		return err
	}
	return f.compare(keyData, f.dataSum(), "the tensors")
}

func (f *File) verifyHeader() error { return f.compare(keyMetadata, f.headerSum(), "the header") }

func (f *File) compare(key, want, of string) error {
	switch got, ok := f.Metadata[key]; {
	case !ok:
		return fmt.Errorf("no checksum %s: %w", key, ErrFormat)
	case got != want:
		return fmt.Errorf("the checksum of %s is wrong, the file is damaged: %w", of, ErrFormat)
	}
	return nil
}

// dataSum hashes the bytes of the tensors.
func (f *File) dataSum() string {
	h := sha256.New()
	for _, t := range f.Tensors {
		h.Write(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// headerSum hashes names, types and shapes of the tensors and the metadata, in a fixed order.
func (f *File) headerSum() string {
	h := sha256.New()
	for _, t := range f.Tensors {
		fmt.Fprintf(h, "%q %q %v\n", t.Name, t.DType, t.Shape)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Metadata)) {
		if k != keyData && k != keyMetadata {
			fmt.Fprintf(h, "%q %q\n", k, f.Metadata[k])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// WriteTo writes the container.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	head, err := f.header()
	if err != nil {
		return 0, err
	}
	var n int64
	write := func(b []byte) error {
		k, err := w.Write(b)
		n += int64(k)
		return err
	}
	if err := write(binary.LittleEndian.AppendUint64(nil, uint64(len(head)))); err != nil {
		return n, err
	}
	if err := write(head); err != nil {
		return n, err
	}
	for _, t := range f.Tensors {
		if err := write(t.Data); err != nil {
			return n, err
		}
	}
	return n, nil
}

// header builds the JSON by hand: map keys would be sorted, and the tensors must keep their order.
func (f *File) header() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"` + metadataKey + `":`)
	for k, v := range f.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("metadata %q is not UTF-8: %w", k, ErrFormat)
		}
	}
	meta, err := json.Marshal(f.Metadata)
	if err != nil {
		return nil, err
	}
	b.Write(meta)
	at := 0
	seen := map[string]bool{metadataKey: true}
	for _, t := range f.Tensors {
		n, err := t.bytes(math.MaxInt)
		if err != nil {
			return nil, err
		}
		if n != len(t.Data) || seen[t.Name] || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %q of shape %v with %d bytes, or a second one of that name: %w", t.Name,
				t.Shape, len(t.Data), ErrFormat)
		}
		seen[t.Name] = true
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		e, err := json.Marshal(entry{t.DType, shape, [2]int{at, at + n}})
		if err != nil {
			return nil, err
		}
		b.WriteByte(',')
		b.Write(name)
		b.WriteByte(':')
		b.Write(e)
		at += n
	}
	b.WriteByte('}')
	for b.Len()%align != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes, at most %d are allowed: %w", b.Len(), maxHeader, ErrFormat)
	}
	return b.Bytes(), nil
}

// Parse reads a container that is all of b; the tensors share its memory.
func Parse(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%d bytes, too few for a header: %w", len(b), ErrFormat)
	}
	n, err := headerLength(binary.LittleEndian.Uint64(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	f, entries, err := parseHeader(b[8 : 8+n])
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return f, f.place(entries, b[8+n:])
}

// headerLength checks the length of a header against the size of the file.
func headerLength(n uint64, size int64) (int64, error) {
	switch {
	case n > maxHeader:
		return 0, fmt.Errorf("a header of %d bytes, at most %d are allowed: %w", n, maxHeader, ErrFormat)
	case int64(n) > size-8:
		return 0, fmt.Errorf("a header of %d bytes in a file of %d: truncated: %w", n, size, ErrFormat)
	}
	return int64(n), nil
}

// parseHeader decodes the names one by one, because a map would hide duplicates.
func parseHeader(b []byte) (*File, []entry, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	broken := func(err error) (*File, []entry, error) { return nil, nil, fmt.Errorf("%w (%w)", ErrFormat, err) }
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return broken(fmt.Errorf("no JSON object: %v", err))
	}
	f := new(File)
	var entries []entry
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return broken(err)
		}
		name, ok := t.(string)
		if !ok || seen[name] {
			return broken(fmt.Errorf("name %v, or a second one", t))
		}
		seen[name] = true
		if name == metadataKey {
			if err := dec.Decode(&f.Metadata); err != nil {
				return broken(err)
			}
			continue
		}
		var e entry
		if err := dec.Decode(&e); err != nil {
			return broken(fmt.Errorf("tensor %q: %w", name, err))
		}
		f.Tensors = append(f.Tensors, Tensor{Name: name, DType: e.DType, Shape: e.Shape})
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return broken(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return broken(errors.New("more after the JSON object"))
	}
	return f, entries, nil
}

// place gives every tensor its bytes.
func (f *File) place(entries []entry, data []byte) error {
	order, err := f.spans(entries, len(data))
	if err != nil {
		return err
	}
	sorted := make([]Tensor, 0, len(order))
	for _, i := range order {
		t, o := f.Tensors[i], entries[i].Offsets
		t.Data = data[o[0]:o[1]:o[1]]
		sorted = append(sorted, t)
	}
	f.Tensors = sorted
	return nil
}

// spans checks that the tensors cover size bytes without holes or overlaps, and returns their order in the
// file.
func (f *File) spans(entries []entry, size int) ([]int, error) {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	at := 0
	for _, i := range order {
		t, o := f.Tensors[i], entries[i].Offsets
		if o[0] != at || o[1] < o[0] {
			return nil, fmt.Errorf("tensor %q lies at %v, want a start at %d: %w", t.Name, o, at, ErrFormat)
		}
		if o[1] > size {
			return nil, fmt.Errorf("tensor %q ends at byte %d of %d: truncated: %w", t.Name, o[1], size, ErrFormat)
		}
		n, err := t.bytes(size)
		if err != nil {
			return nil, err
		}
		if n != o[1]-o[0] {
			return nil, fmt.Errorf("tensor %q of shape %v has %d bytes, want %d: %w", t.Name, t.Shape, o[1]-o[0], n,
				ErrFormat)
		}
		at = o[1]
	}
	if at != size {
		return nil, fmt.Errorf("%d bytes after the last tensor: %w", size-at, ErrFormat)
	}
	return order, nil
}
