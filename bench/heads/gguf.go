package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// gguf is what a file in the GGUF format, version 2 or 3, has for us: numbers of the metadata, and tensors
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
type gguf struct {
	numbers map[string]float64
	tensors map[string]ggufTensor
}

type ggufTensor struct {
	rows, cols int
	kind       uint32
	data       []byte
}

var errGGUF = errors.New("not a GGUF file that can be read here")

// Kinds of tensors: numbers in a block and its bytes.
const (
	ggufF32 = 0
	ggufF16 = 1
	ggufQ41 = 3
	ggufQ80 = 8
)

var ggufBlocks = map[uint32][2]int{ggufF32: {1, 4}, ggufF16: {1, 2}, ggufQ41: {32, 20}, ggufQ80: {32, 34}}

// ggufSizes are those of the metadata's scalar types.
var ggufSizes = map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

const (
	ggufString = 8
	ggufArray  = 9
)

// Bounds on what a file may claim. GGUF itself allows four dimensions.
const (
	ggufDepth     = 4
	ggufDims      = 4
	ggufMaxSize   = 1 << 31 // elements along one dimension
	ggufMaxAlign  = 1 << 20
	ggufAlignment = "general.alignment"
)

type ggufReader struct {
	all []byte
	*bytes.Reader
	err error
}

func (r *ggufReader) at() int { return len(r.all) - r.Len() }

func (r *ggufReader) take(n uint64) []byte {
	if r.err == nil && n > uint64(r.Len()) {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return nil
	}
	b := r.all[r.at():][:n]
	_, r.err = r.Seek(int64(n), io.SeekCurrent)
	return b
}

func (r *ggufReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *ggufReader) text() string { return string(r.take(r.u64())) }

// fail keeps the first error; after it the reader reads nothing.
func (r *ggufReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// value reads a value of the metadata; only numbers are kept. Arrays may hold arrays, to a depth that no file reaches
// which a program wrote: recursion must not follow the bytes of a damaged file.
func (r *ggufReader) value(kind uint32, depth int) (v float64, ok bool) {
	switch kind {
	case ggufString:
		r.text()
		return 0, false
	case ggufArray:
		if depth == ggufDepth {
			r.fail("arrays in arrays, more than %d deep", ggufDepth)
		}
		kind, n := r.u32(), r.u64()
		for ; n > 0 && r.err == nil; n-- {
			r.value(kind, depth+1)
		}
		return 0, false
	}
	size, known := ggufSizes[kind]
	if !known {
		r.fail("metadata of type %d", kind)
		return 0, false
	}
	var word [8]byte
	copy(word[:], r.take(uint64(size)))
	u := binary.LittleEndian.Uint64(word[:])
	switch kind {
	case 6:
		return float64(math.Float32frombits(uint32(u))), true
	case 12:
		return math.Float64frombits(u), true
	}
	return float64(u), true // negative numbers are none of those we ask for
}

func readGGUF(path string) (*gguf, error) {
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	g, err := parseGGUF(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// parseGGUF reads a file. Tensors stay in all, which must not change. Every count, size and offset of the file is
// checked against the number of bytes that are there, so that memory is bounded by the file's length.
func parseGGUF(all []byte) (*gguf, error) {
	r := &ggufReader{all: all, Reader: bytes.NewReader(all)}
	if string(r.take(4)) != "GGUF" {
		return nil, errGGUF
	}
	if v := r.u32(); v < 2 || v > 3 {
		return nil, fmt.Errorf("version %d: %w", v, errGGUF)
	}
	g := &gguf{numbers: map[string]float64{}, tensors: map[string]ggufTensor{}}
	tensors, fields := r.u64(), r.u64()
	for ; fields > 0 && r.err == nil; fields-- {
		name := r.text()
		if v, ok := r.value(r.u32(), 0); ok {
			g.numbers[name] = v
		}
	}
	offsets := map[string]uint64{}
	for ; tensors > 0 && r.err == nil; tensors-- {
		name := r.text()
		if _, twice := offsets[name]; twice {
			r.fail("two tensors %q", name)
		}
		t := r.tensor(name)
		offsets[name] = r.u64()
		g.tensors[name] = t
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", errGGUF, r.err)
	}
	align := 32
	if a, ok := g.numbers[ggufAlignment]; ok {
		if !(a >= 1 && a <= ggufMaxAlign) || a != math.Trunc(a) {
			return nil, fmt.Errorf("metadata %s is %v: %w", ggufAlignment, a, errGGUF)
		}
		align = int(a)
	}
	data := all[min(len(all), (r.at()+align-1)/align*align):]
	for name, t := range g.tensors {
		b, ok := ggufBlocks[t.kind]
		if !ok || t.cols%b[0] != 0 {
			return nil, fmt.Errorf("tensor %q is of type %d with %d columns: %w", name, t.kind, t.cols, errGGUF)
		}
		// Both factors are below 2³⁴, and the first is checked before they are multiplied.
		row, left := uint64(t.cols/b[0]*b[1]), uint64(len(data))
		if o := offsets[name]; o > left || row > left-o || uint64(t.rows) > (left-o)/row {
			return nil, fmt.Errorf("tensor %q reaches behind the end: %w", name, errGGUF)
		}
		t.data = data[offsets[name]:][:uint64(t.rows)*row]
		g.tensors[name] = t
	}
	return g, nil
}

// tensor reads the shape and the type of a tensor: its first dimension is the columns, the others make the rows.
func (r *ggufReader) tensor(name string) ggufTensor {
	t := ggufTensor{rows: 1}
	dims := r.u32()
	if dims < 1 || dims > ggufDims {
		r.fail("tensor %q has %d dimensions", name, dims)
	}
	for i := uint32(0); i < dims && r.err == nil; i++ {
		n := r.u64()
		if n < 1 || n > ggufMaxSize || i > 0 && uint64(t.rows) > ggufMaxSize/n {
			r.fail("tensor %q has %d elements in dimension %d", name, n, i)
		} else if i == 0 {
			t.cols = int(n)
		} else {
			t.rows *= int(n)
		}
	}
	t.kind = r.u32()
	return t
}

func (g *gguf) number(name string) (int, error) {
	v, ok := g.numbers[name]
	if !ok || v != math.Trunc(v) || v < 1 || v > 1e9 {
		return 0, fmt.Errorf("metadata %s: %w", name, errGGUF)
	}
	return int(v), nil
}

// matrix is a tensor as numbers.
func (g *gguf) matrix(name string, rows, cols int) (matrix, error) {
	t, ok := g.tensors[name]
	if !ok {
		return matrix{}, fmt.Errorf("no tensor %s: %w", name, errGGUF)
	}
	if t.rows != rows || t.cols != cols {
		return matrix{}, fmt.Errorf("tensor %s is %d×%d, want %d×%d: %w", name, t.rows, t.cols, rows, cols, errGGUF)
	}
	m := matrix{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
	block := ggufBlocks[t.kind]
	for i := 0; i*block[0] < len(m.Data); i++ {
		decode(m.Data[i*block[0]:][:block[0]], t.data[i*block[1]:][:block[1]], t.kind)
	}
	return m, nil
}

func (g *gguf) vector(name string, n int) ([]float32, error) {
	m, err := g.matrix(name, 1, n)
	return m.Data, err
}

// decode reads one block: scale·byte of Q8_0, scale·nibble + minimum of Q4_1 (low nibbles first).
func decode(dst []float32, src []byte, kind uint32) {
	switch kind {
	case ggufF32:
		dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
	case ggufF16:
		dst[0] = half(src)
	case ggufQ80:
		s := half(src)
		for i := range dst {
			dst[i] = s * float32(int8(src[2+i]))
		}
	case ggufQ41:
		s, least := half(src), half(src[2:])
		for i := range 16 {
			dst[i] = s*float32(src[4+i]&15) + least
			dst[16+i] = s*float32(src[4+i]>>4) + least
		}
	}
}

// half is a float16.
func half(b []byte) float32 {
	u := binary.LittleEndian.Uint16(b)
	exp, frac := int(u>>10&31), float64(u&1023)
	v := 0.0
	switch exp {
	case 0:
		v = math.Ldexp(frac, -24)
	case 31:
		v = math.Inf(1)
		if frac != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+frac, exp-25)
	}
	if u>>15 == 1 {
		v = -v
	}
	return float32(v)
}
