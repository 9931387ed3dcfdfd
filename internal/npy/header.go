package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The header is parsed here and not by github.com/sbinet/npyio (v0.6.0): its reader allocates whatever length and
// shape the file claims, reads missing elements as zeros, and slices past the end of malformed dictionaries.
// The tests use it as the second implementation to agree with.

const (
	Magic = "\x93NUMPY"
	// maxHeader bounds the allocation for the header; NumPy itself writes about 128 bytes and refuses more than
	// 10000 unless told otherwise.
	maxHeader = 1 << 16
)

// DType is the element type of a file.
type DType int

// The element types.
const (
	Float64 DType = iota
	Float32
	Int64 // any integer of the file, held as int64
	Bool  // held as 0 and 1
)

// String is the name of the type on the command line.
func (t DType) String() string { return [...]string{"float64", "float32", "int64", "bool"}[t] }

// Size is the number of bytes of one element in memory.
func (t DType) Size() int { return [...]int{8, 4, 8, 8}[t] }

// Header is the dictionary of an npy file.
type Header struct {
	Dtype   DType
	descr   string // as in the file, such as <f4
	Width   int    // bytes of one element in the file
	order   binary.ByteOrder
	Fortran bool
	Shape   []int
	Size    int64 // bytes before the data
}

// element is the element type in NumPy's terms: int32 for <i4 and >i4.
func (h Header) element() string {
	if h.Dtype == Bool {
		return "bool"
	}
	kind := map[byte]string{'f': "float", 'i': "int", 'u': "uint"}[h.descr[len(h.descr)-2]]
	return kind + strconv.Itoa(8*h.Width)
}

// Elements is the product of the shape; parseHeader has checked that it does not overflow.
func (h Header) Elements() int {
	n := 1
	for _, d := range h.Shape {
		n *= d
	}
	return n
}

// Dims is the shape for messages: 2×3.
func (h Header) Dims() string {
	if len(h.Shape) == 0 {
		return "scalar"
	}
	s := make([]string, len(h.Shape))
	for i, d := range h.Shape {
		s[i] = strconv.Itoa(d)
	}
	return strings.Join(s, "×")
}

// ReadHeader reads everything before the data, versions 1 to 3. Keys may come in any order, as the format
// allows. The length of the header is bounded before memory is allocated.
func ReadHeader(r io.Reader) (Header, error) {
	var pre [12]byte
	if err := readFull(r, pre[:8], "the magic string"); err != nil {
		return Header{}, err
	}
	if string(pre[:6]) != Magic {
		return Header{}, Errorf(FaultFormat, "the file does not start with the npy magic string")
	}
	var length int
	lengthBytes := 4
	switch pre[6] {
	case 1:
		lengthBytes = 2
	case 2, 3:
	default:
		return Header{}, Errorf(FaultFormat, "format version %d.%d, want 1, 2 or 3", pre[6], pre[7])
	}
	if err := readFull(r, pre[8:8+lengthBytes], "the header length"); err != nil {
		return Header{}, err
	}
	if lengthBytes == 2 {
		length = int(binary.LittleEndian.Uint16(pre[8:]))
	} else {
		n := binary.LittleEndian.Uint32(pre[8:])
		if n > maxHeader {
			return Header{}, Errorf(FaultHeader, "the header claims %d bytes, the limit is %d", n, maxHeader)
		}
		length = int(n)
	}
	text := make([]byte, length)
	if err := readFull(r, text, "the header"); err != nil {
		return Header{}, err
	}
	h, err := parseHeader(string(text))
	h.Size = int64(8 + lengthBytes + length)
	return h, err
}

// readFull fills b. Running out of data is a truncated file; other errors are the reader's own.
func readFull(r io.Reader, b []byte, what string) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Errorf(FaultTruncated, "the file ends inside %s", what)
	}
	return err
}

// parseHeader parses the Python dictionary literal of an npy header. It accepts only the form that NumPy writes: three
// keys, no escapes, nothing after the dictionary.
func parseHeader(text string) (Header, error) {
	s := scanner{rest: text}
	var h Header
	seen := map[string]bool{}
	if !s.eat("{") {
		return Header{}, Errorf(FaultFormat, "the header is not a dictionary")
	}
	for !s.eat("}") {
		key, ok := s.quoted()
		if !ok || !s.eat(":") {
			return Header{}, Errorf(FaultFormat, "the header dictionary is malformed near %q", s.near())
		}
		if seen[key] {
			return Header{}, Errorf(FaultFormat, "the header has two %q entries", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "descr":
			err = h.parseDescr(&s)
		case "fortran_order":
			err = h.parseOrder(&s)
		case "shape":
			err = h.parseShape(&s)
		default:
			err = Errorf(FaultFormat, "unknown header entry %q", key)
		}
		if err != nil {
			return Header{}, err
		}
		if s.eat(",") {
			continue
		}
		if s.eat("}") {
			break
		}
		return Header{}, Errorf(FaultFormat, "the header dictionary is malformed near %q", s.near())
	}
	if strings.TrimSpace(s.rest) != "" {
		return Header{}, Errorf(FaultFormat, "the header continues after its dictionary")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return Header{}, Errorf(FaultFormat, "the header has no %q entry", key)
		}
	}
	// Divide instead of multiplying, so that the check itself cannot overflow.
	left := math.MaxInt / h.Dtype.Size()
	for _, d := range h.Shape {
		if d > left {
			return Header{}, Errorf(FaultOverflow, "%s elements do not fit in memory", h.Dims())
		}
		left /= max(d, 1)
	}
	return h, nil
}

func (h *Header) parseDescr(s *scanner) error {
	d, ok := s.quoted()
	if !ok {
		return Errorf(FaultDType, "structured elements; want floats")
	}
	h.descr, h.order = d, binary.ByteOrder(binary.LittleEndian)
	kind, bytes := "", 0
	if len(d) == 3 && strings.Contains("<>|", d[:1]) {
		kind, bytes = d[1:2], int(d[2]-'0')
	}
	switch {
	case strings.HasPrefix(d, ">"):
		h.order = binary.BigEndian
	case strings.HasPrefix(d, "|") && bytes > 1: // elements of several bytes need a byte order
		kind = ""
	}
	switch {
	case kind == "f" && (bytes == 4 || bytes == 2): // float32 holds every float16
		h.Dtype = Float32
	case kind == "f" && bytes == 8:
		h.Dtype = Float64
	case (kind == "i" || kind == "u") && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8):
		h.Dtype = Int64
	case kind == "b" && bytes == 1:
		h.Dtype = Bool
	default:
		return h.wrongType("float16 (<f2), float32 (<f4) or float64 (<f8)", "<f8")
	}
	h.Width = bytes
	return nil
}

func (h *Header) wrongType(want, convert string) error {
	return Errorf(FaultDType, "elements of type %q; want %s: convert with array.astype('%s')", h.descr, want, convert)
}

func (h *Header) parseOrder(s *scanner) error {
	switch {
	case s.eat("True"):
		h.Fortran = true
	case s.eat("False"):
	default:
		return Errorf(FaultFormat, "fortran_order is neither True nor False near %q", s.near())
	}
	return nil
}

// maxDims bounds the dimensions of an array; NumPy's own limit is 64.
const maxDims = 64

func (h *Header) parseShape(s *scanner) error {
	if !s.eat("(") {
		return Errorf(FaultFormat, "the shape is not a tuple near %q", s.near())
	}
	for !s.eat(")") {
		n, err := s.integer()
		if err != nil {
			return err
		}
		if len(h.Shape) == maxDims {
			return Errorf(FaultShape, "the array has more than %d dimensions", maxDims)
		}
		h.Shape = append(h.Shape, n)
		if s.eat(",") {
			continue
		}
		if s.eat(")") {
			break
		}
		return Errorf(FaultFormat, "the shape is malformed near %q", s.near())
	}
	return nil
}

// checkMatrix accepts two dimensions of floats only: one dimension could be a row or a column.
func (h *Header) checkMatrix() error {
	if h.Dtype != Float32 && h.Dtype != Float64 {
		return h.wrongType("float32 (<f4) or float64 (<f8)", "<f8")
	}
	if len(h.Shape) != 2 {
		hint := "reshape to (rows, columns)"
		if len(h.Shape) == 1 {
			hint = "write one vector as array.reshape(1, -1), a column as array.reshape(-1, 1)"
		}
		return Errorf(FaultShape, "the array has %s, want two: %s", DimCount(len(h.Shape)), hint)
	}
	if h.Shape[1] == 0 {
		return Errorf(FaultShape, "the array has no columns")
	}
	return nil
}

// DimCount names a number of dimensions for messages.
func DimCount(n int) string {
	switch n {
	case 0:
		return "no dimensions"
	case 1:
		return "one dimension"
	}
	return fmt.Sprintf("%d dimensions", n)
}

// scanner walks over the tokens of a Python literal.
type scanner struct{ rest string }

func (s *scanner) skipSpace() { s.rest = strings.TrimLeft(s.rest, " \t\r\n") }

// eat consumes a token and reports whether it was there.
func (s *scanner) eat(token string) bool {
	s.skipSpace()
	rest, ok := strings.CutPrefix(s.rest, token)
	if ok {
		s.rest = rest
	}
	return ok
}

// quoted consumes a string literal without escapes, in either quote.
func (s *scanner) quoted() (string, bool) {
	s.skipSpace()
	if s.rest == "" || s.rest[0] != '\'' && s.rest[0] != '"' {
		return "", false
	}
	body, rest, ok := strings.Cut(s.rest[1:], s.rest[:1])
	if !ok || strings.ContainsAny(body, "\\\n") {
		return "", false
	}
	s.rest = rest
	return body, true
}

// integer consumes a non-negative number; Python 2 wrote some with a trailing L.
func (s *scanner) integer() (int, error) {
	s.skipSpace()
	end := 0
	for end < len(s.rest) && s.rest[end] >= '0' && s.rest[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, Errorf(FaultFormat, "the shape holds something other than a nonnegative integer near %q", s.near())
	}
	n, err := strconv.Atoi(s.rest[:end])
	if err != nil {
		return 0, Errorf(FaultOverflow, "the dimension %.30s does not fit in memory", s.rest[:end])
	}
	s.rest = strings.TrimPrefix(s.rest[end:], "L")
	return n, nil
}

func (s *scanner) near() string {
	s.skipSpace()
	return s.rest[:min(len(s.rest), 20)]
}

// HeaderBytes is the header of a little-endian, row-major file, padded so that the data start at a multiple of 64. The
// header of a matrix always has 128 bytes, so a preliminary one can be overwritten when the number of rows is known.
func HeaderBytes(t DType, shape []int) []byte {
	descr := "<f8"
	if t == Float32 {
		descr = "<f4"
	}
	var b bytes.Buffer
	b.WriteString(Magic + "\x01\x00\x00\x00")
	b.WriteString("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (")
	for i, d := range shape {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 { // a tuple of one needs a comma
		b.WriteByte(',')
	}
	b.WriteString("), }")
	for (b.Len()+1)%64 != 0 {
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	out := b.Bytes()
	binary.LittleEndian.PutUint16(out[8:], uint16(len(out)-10))
	return out
}
