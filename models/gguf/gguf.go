// Package gguf reads model files in the GGUF format, versions 2 and 3, of llama.cpp and its relatives
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
//	f, err := gguf.Open("model.gguf")
//	defer f.Close()
//	config := f.Config()
//	t, err := f.Tensor("model.embed_tokens.weight")
//
// Tensors are found by the names of Hugging Face and are views of the mapped file: do not use them after Close, and do
// not write into the file while it is open. Tensor.Name and messages have the names of the file.
//
// Input is never trusted. Every count, size and offset is checked against the bytes that exist before it is used.
// Memory is bounded by a small multiple of the header's length.
package gguf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/models/weights"
)

// File is an open GGUF file. Tensors have the names of Hugging Face; see weights.File.
type File struct {
	path    string
	values  map[string]any
	tensors map[string]tensor
	names   []string
	stored  func(name string) string // a name of Hugging Face in this file's notation
	config  weights.Config
	source  *weights.Source
}

// tensor is a stored tensor, with the conversion to Hugging Face's layout.
type tensor struct {
	weights.Tensor
	known   bool   // whether weights supports the type
	kind    uint32 // ggml's number of the type
	offset  uint64
	permute int // number of heads whose rows are permuted; 0: none
}

// Bounds on what a file may claim. GGUF itself allows four dimensions.
const (
	maxDepth  = 4 // arrays nested in arrays
	maxDims   = 4
	maxSize   = 1 << 31 // elements in one dimension
	maxAlign  = 1 << 20
	maxString = 1 << 24
)

// Types of metadata.
const (
	kindString = 8
	kindArray  = 9
)

// kindSizes has the bytes of the metadata types of fixed size.
var kindSizes = map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// types maps ggml's numbers of types to ours.
var types = map[uint32]weights.Type{0: weights.F32, 1: weights.F16, 2: weights.Q4_0, 3: weights.Q4_1, 6: weights.Q5_0,
	7: weights.Q5_1, 8: weights.Q8_0, 12: weights.Q4_K, 13: weights.Q5_K, 14: weights.Q6_K, 30: weights.BF16}

// Open maps a file and reads its header.
func Open(path string) (*File, error) {
	return OpenIn(weights.Folder(filepath.Dir(path)), filepath.Base(path))
}

// OpenIn is Open for a file of a source, which it closes on Close and on an error.
func OpenIn(src *weights.Source, name string) (*File, error) {
	data, err := src.Map(name)
	if err != nil {
		return nil, err
	}
	f, err := Parse(src.Path(name), data)
	if err != nil {
		src.Close()
		return nil, err
	}
	f.source = src
	return f, nil
}

// Parse reads a file from data, which must not change afterwards. path is only used in messages.
func Parse(path string, data []byte) (*File, error) {
	f := &File{path: path, values: map[string]any{}, tensors: map[string]tensor{}}
	stored, err := f.header(data)
	if err == nil {
		err = f.name(stored)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := f.config.Validate(path); err != nil {
		return nil, err
	}
	return f, nil
}

// header reads the metadata into f.values and returns the tensors under their stored names.
func (f *File) header(data []byte) ([]tensor, error) {
	r := &reader{data: data}
	if string(r.take(4)) != "GGUF" {
		return nil, fmt.Errorf("not a GGUF file: %w", weights.ErrFormat)
	}
	if v := r.u32(); r.err == nil && (v < 2 || v > 3) {
		return nil, fmt.Errorf("GGUF version %d, want 2 or 3: %w", v, weights.ErrFormat)
	}
	tensors, fields := r.u64(), r.u64()
	for ; fields > 0 && r.err == nil; fields-- {
		name := r.text()
		v := r.value(r.u32(), 0)
		if _, twice := f.values[name]; twice {
			r.fail("two values %q in the metadata", name)
		}
		f.values[name] = v
	}
	var stored []tensor
	for ; tensors > 0 && r.err == nil; tensors-- {
		stored = append(stored, r.tensor())
	}
	if r.err != nil {
		return nil, r.err
	}
	align := uint64(32)
	if _, ok := f.values["general.alignment"]; ok {
		a, ok := f.Int("general.alignment")
		if !ok || a < 1 || a > maxAlign {
			return nil, fmt.Errorf("general.alignment is %v: %w", f.values["general.alignment"], weights.ErrFormat)
		}
		align = uint64(a)
	}
	begin := min(uint64(len(data)), (uint64(r.at)+align-1)/align*align)
	return stored, place(stored, data[begin:])
}

// place points every tensor at its bytes and checks that they exist.
func place(stored []tensor, data []byte) error {
	for i := range stored {
		t := &stored[i]
		if !t.known {
			continue // Tensor reports the type if somebody asks for it
		}
		numbers, bytes := t.Type.Block()
		if t.Cols()%numbers != 0 {
			return fmt.Errorf("tensor %s of type %v has rows of %d numbers, not a multiple of %d: %w", t.Name, t.Type,
				t.Cols(), numbers, weights.ErrFormat)
		}
		// Both factors are below 2³⁵, and the row is checked before the factors are multiplied, so nothing
		// overflows.
		row, left := uint64(t.Cols()/numbers*bytes), uint64(len(data))
		if t.offset > left || row > left-t.offset || uint64(t.Rows()) > (left-t.offset)/row {
			return fmt.Errorf("tensor %s reaches behind the end of the file, which is truncated or damaged: %w", t.Name,
				weights.ErrFormat)
		}
		t.Data = data[t.offset:][:uint64(t.Rows())*row]
	}
	return nil
}

// Path returns the name of the file.
func (f *File) Path() string { return f.path }

// Config returns the configuration of the model.
func (f *File) Config() weights.Config { return f.config }

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string { return f.names }

// Tensor returns the named tensor. For Llama, the rows of query and key projections are copied, because GGUF stores
// them in another order.
func (f *File) Tensor(name string) (weights.Tensor, error) {
	t, ok := f.tensors[name]
	switch {
	case !ok:
		return weights.Tensor{}, weights.Missing(f.path, f.stored(name))
	case !t.known:
		return weights.Tensor{}, fmt.Errorf("%s: tensor %s is of ggml's type %d, which is not supported (%s are): %w",
			f.path, t.Name, t.kind, typeList(), weights.ErrFormat)
	case t.permute > 0:
		return unpermute(t.Tensor, t.permute), nil
	}
	return t.Tensor, nil
}

func typeList() string {
	s := ""
	for _, t := range slices.SortedFunc(maps.Values(types), func(a, b weights.Type) int { return cmp.Compare(a, b) }) {
		s += fmt.Sprintf(", %v", t)
	}
	return s[2:]
}

// Close unmaps the file. Tensors must not be used afterwards.
func (f *File) Close() error {
	if f.source == nil {
		return nil
	}
	return f.source.Close()
}

// Release gives the memory of mapped pages back; they are read again when they are used.
func (f *File) Release() {
	if f.source != nil {
		f.source.Release()
	}
}

// unpermute undoes the permutation that converters apply to the rows of q and k of a Llama so that rotary positions
// turn neighbours: row 2j+p of a head is row p·dim/2+j of Hugging Face (convert_hf_to_gguf.py, LlamaModel.permute).
func unpermute(t weights.Tensor, heads int) weights.Tensor {
	rows, n := t.Shape[0], len(t.Data)/t.Shape[0]
	dim := rows / heads
	out := make([]byte, len(t.Data))
	for i := range rows {
		h, j, p := i/dim, i%dim/2, i%dim%2
		copy(out[(h*dim+p*(dim/2)+j)*n:][:n], t.Data[i*n:])
	}
	t.Data = out
	return t
}

// reader reads little-endian values and keeps the first error. After an error all values are zero.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.data)-r.at) {
		r.fail("the header ends early, the file is truncated or damaged")
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.at:][:n]
	r.at += int(n)
	return b
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), weights.ErrFormat)
	}
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) text() string {
	n := r.u64()
	if n > maxString {
		r.fail("a text of %d bytes in the header", n)
	}
	return string(r.take(n))
}

// value reads a value of the metadata: string, bool, int64, uint64, float64, []string, []int64 or []float64; arrays
// of arrays are skipped and give nil. The depth of nesting is bounded, so that a damaged file cannot exhaust the
// stack.
func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case kindString:
		return r.text()
	case kindArray:
		if depth == maxDepth {
			r.fail("arrays in arrays, more than %d deep", maxDepth)
			return nil
		}
		return r.array(r.u32(), r.u64(), depth)
	}
	size, known := kindSizes[kind]
	if !known {
		r.fail("metadata of type %d", kind)
		return nil
	}
	return scalar(kind, r.take(uint64(size)))
}

func (r *reader) array(kind uint32, n uint64, depth int) any {
	switch kind {
	case kindString:
		var list []string
		for ; n > 0 && r.err == nil; n-- {
			list = append(list, r.text())
		}
		return list
	case kindArray:
		for ; n > 0 && r.err == nil; n-- {
			r.value(kind, depth+1)
		}
		return nil
	}
	size, known := kindSizes[kind]
	if !known || n > uint64(len(r.data)) {
		r.fail("an array of %d values of type %d in the metadata", n, kind)
		return nil
	}
	b := r.take(n * uint64(size))
	if r.err != nil {
		return nil
	}
	if kind == 6 || kind == 12 {
		list := make([]float64, n)
		for i := range list {
			list[i], _ = scalar(kind, b[i*size:][:size]).(float64)
		}
		return list
	}
	list := make([]int64, n)
	for i := range list {
		switch v := scalar(kind, b[i*size:][:size]).(type) {
		case int64:
			list[i] = v
		case uint64:
			list[i] = int64(v)
		case bool:
			if v {
				list[i] = 1
			}
		}
	}
	return list
}

// scalar converts the bytes of a number or truth value. After an error b is nil, and the result is zero.
func scalar(kind uint32, b []byte) any {
	var word [8]byte
	copy(word[:], b)
	u := binary.LittleEndian.Uint64(word[:])
	switch kind {
	case 1:
		return int64(int8(u))
	case 3:
		return int64(int16(u))
	case 5:
		return int64(int32(u))
	case 11:
		return int64(u)
	case 6:
		return float64(math.Float32frombits(uint32(u)))
	case 7:
		return u != 0
	case 12:
		return math.Float64frombits(u)
	}
	return u
}

// tensor reads name, shape, type and offset of a tensor. Files store the fastest dimension first, so the shape is
// reversed.
func (r *reader) tensor() tensor {
	t := tensor{Tensor: weights.Tensor{Name: r.text()}}
	dims := r.u32()
	if dims < 1 || dims > maxDims {
		r.fail("tensor %q has %d dimensions", t.Name, dims)
		return t
	}
	total := uint64(1)
	for i := uint32(0); i < dims && r.err == nil; i++ {
		n := r.u64()
		if n < 1 || n > maxSize || total > math.MaxInt64/8/n {
			r.fail("tensor %q has %d elements in dimension %d", t.Name, n, i)
			return t
		}
		total *= n
		t.Shape = append(t.Shape, int(n))
	}
	slices.Reverse(t.Shape)
	t.kind = r.u32()
	t.Type, t.known = types[t.kind]
	t.offset = r.u64()
	return t
}
