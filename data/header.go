package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// The header is parsed here and not by github.com/sbinet/npyio (v0.6.0): its reader allocates whatever length and
// shape the file claims, reads missing elements as zeros, and slices past the end of malformed dictionaries.
// The tests use it as the second implementation to agree with.

const (
	magic = "\x93NUMPY"
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
)

// String is the name used on the command line.
func (t DType) String() string {
	if t == Float32 {
		return "float32"
	}
	return "float64"
}

// Size is the number of bytes of one element.
func (t DType) Size() int {
	if t == Float32 {
		return 4
	}
	return 8
}

// header is the dictionary of an npy file.
type header struct {
	dtype      DType
	order      binary.ByteOrder
	fortran    bool
	rows, cols int
	size       int64 // bytes before the data
}

// elements is rows × cols; readHeader has checked that it does not overflow.
func (h header) elements() int { return h.rows * h.cols }

// readHeader reads everything before the data. Keys may come in any order, as the format allows.
func readHeader(r io.Reader) (header, error) {
	var pre [12]byte
	if err := readFull(r, pre[:8], "the magic string"); err != nil {
		return header{}, err
	}
	if string(pre[:6]) != magic {
		return header{}, fault(FaultFormat, "the file does not start with the npy magic string")
	}
	var length int
	lengthBytes := 4
	switch pre[6] {
	case 1:
		lengthBytes = 2
	case 2, 3:
	default:
		return header{}, fault(FaultFormat, "format version %d.%d, want 1, 2 or 3", pre[6], pre[7])
	}
	if err := readFull(r, pre[8:8+lengthBytes], "the header length"); err != nil {
		return header{}, err
	}
	if lengthBytes == 2 {
		length = int(binary.LittleEndian.Uint16(pre[8:]))
	} else {
		n := binary.LittleEndian.Uint32(pre[8:])
		if n > maxHeader {
			return header{}, fault(FaultHeader, "the header claims %d bytes, the limit is %d", n, maxHeader)
		}
		length = int(n)
	}
	text := make([]byte, length)
	if err := readFull(r, text, "the header"); err != nil {
		return header{}, err
	}
	h, err := parseHeader(string(text))
	h.size = int64(8 + lengthBytes + length)
	return h, err
}

// readFull fills b; running out of data is a truncated file, other errors are the reader's own.
func readFull(r io.Reader, b []byte, what string) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault(FaultTruncated, "the file ends inside %s", what)
	}
	return err
}

// parseHeader reads the Python dictionary literal of an npy header.
func parseHeader(text string) (header, error) {
	s := scanner{rest: text}
	var h header
	seen := map[string]bool{}
	if !s.eat("{") {
		return header{}, fault(FaultFormat, "the header is not a dictionary")
	}
	for !s.eat("}") {
		key, ok := s.quoted()
		if !ok || !s.eat(":") {
			return header{}, fault(FaultFormat, "the header dictionary is malformed near %q", s.near())
		}
		if seen[key] {
			return header{}, fault(FaultFormat, "the header has two %q entries", key)
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
			err = fault(FaultFormat, "unknown header entry %q", key)
		}
		if err != nil {
			return header{}, err
		}
		if s.eat(",") {
			continue
		}
		if s.eat("}") {
			break
		}
		return header{}, fault(FaultFormat, "the header dictionary is malformed near %q", s.near())
	}
	if strings.TrimSpace(s.rest) != "" {
		return header{}, fault(FaultFormat, "the header continues after its dictionary")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return header{}, fault(FaultFormat, "the header has no %q entry", key)
		}
	}
	if h.rows > math.MaxInt/h.dtype.Size()/h.cols {
		return header{}, fault(FaultOverflow, "%d×%d elements do not fit in memory", h.rows, h.cols)
	}
	return h, nil
}

func (h *header) parseDescr(s *scanner) error {
	d, ok := s.quoted()
	if !ok {
		return fault(FaultDType, "structured elements; want float32 or float64")
	}
	switch d {
	case "<f4", ">f4":
		h.dtype = Float32
	case "<f8", ">f8":
		h.dtype = Float64
	default:
		return fault(FaultDType, "elements of type %q; want float32 (<f4) or float64 (<f8): convert with array.astype('<f8')", d)
	}
	h.order = binary.ByteOrder(binary.LittleEndian)
	if d[0] == '>' {
		h.order = binary.BigEndian
	}
	return nil
}

func (h *header) parseOrder(s *scanner) error {
	switch {
	case s.eat("True"):
		h.fortran = true
	case s.eat("False"):
	default:
		return fault(FaultFormat, "fortran_order is neither True nor False near %q", s.near())
	}
	return nil
}

// parseShape accepts two dimensions only: for one dimension nobody can tell a row from a column.
func (h *header) parseShape(s *scanner) error {
	if !s.eat("(") {
		return fault(FaultFormat, "the shape is not a tuple near %q", s.near())
	}
	var dims []int
	for !s.eat(")") {
		n, err := s.integer()
		if err != nil {
			return err
		}
		if len(dims) < 3 { // two are wanted; the third is enough to say no
			dims = append(dims, n)
		}
		if s.eat(",") {
			continue
		}
		if s.eat(")") {
			break
		}
		return fault(FaultFormat, "the shape is malformed near %q", s.near())
	}
	if len(dims) != 2 {
		hint := "reshape to (rows, columns)"
		if len(dims) == 1 {
			hint = "write one vector as array.reshape(1, -1), a column as array.reshape(-1, 1)"
		}
		return fault(FaultShape, "the array has %s, want two: %s", dimCount(len(dims)), hint)
	}
	h.rows, h.cols = dims[0], dims[1]
	if h.cols == 0 {
		return fault(FaultShape, "the array has no columns")
	}
	return nil
}

func dimCount(n int) string {
	switch n {
	case 0:
		return "no dimensions"
	case 1:
		return "one dimension"
	}
	return "more than two dimensions"
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

// integer consumes a nonnegative number; Python 2 wrote some with a trailing L.
func (s *scanner) integer() (int, error) {
	s.skipSpace()
	end := 0
	for end < len(s.rest) && s.rest[end] >= '0' && s.rest[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, fault(FaultFormat, "the shape holds something other than a nonnegative integer near %q", s.near())
	}
	n, err := strconv.Atoi(s.rest[:end])
	if err != nil {
		return 0, fault(FaultOverflow, "the dimension %.30s does not fit in memory", s.rest[:end])
	}
	s.rest = strings.TrimPrefix(s.rest[end:], "L")
	return n, nil
}

func (s *scanner) near() string {
	s.skipSpace()
	return s.rest[:min(len(s.rest), 20)]
}

// headerBytes is the header of a little-endian, row-major file, padded so that the data starts on a multiple of 64.
func headerBytes(t DType, rows, cols int) []byte {
	descr := "<f8"
	if t == Float32 {
		descr = "<f4"
	}
	var b bytes.Buffer
	b.WriteString(magic + "\x01\x00\x00\x00")
	b.WriteString("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" +
		strconv.Itoa(rows) + ", " + strconv.Itoa(cols) + "), }")
	for (b.Len()+1)%64 != 0 {
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	out := b.Bytes()
	binary.LittleEndian.PutUint16(out[8:], uint16(len(out)-10))
	return out
}
