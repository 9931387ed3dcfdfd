package data

import (
	"errors"
	"fmt"
)

// ErrNPY marks every error about the contents of an npy file. Use errors.As with *NPYError to get the fault.
var ErrNPY = errors.New("not a usable npy file")

// Fault says what is wrong with an npy file.
type Fault string

// The faults.
const (
	FaultFormat    Fault = "format"    // no npy magic, unknown version, header that cannot be parsed
	FaultHeader    Fault = "header"    // header longer than any honest one
	FaultDType     Fault = "dtype"     // elements of a type that the caller cannot use
	FaultShape     Fault = "shape"     // a number of dimensions that the caller cannot use
	FaultOverflow  Fault = "overflow"  // the product of the shape does not fit in memory, or an element not in int64
	FaultTruncated Fault = "truncated" // less data than the shape promises
	FaultTrailing  Fault = "trailing"  // more data than the shape promises
)

// NPYError says what is wrong with an npy file and what was found.
type NPYError struct {
	Fault  Fault
	Detail string
}

// Error names the fault and what was found.
func (e *NPYError) Error() string { return fmt.Sprintf("%v (%s): %s", ErrNPY, e.Fault, e.Detail) }

// Is makes errors.Is(err, ErrNPY) true.
func (e *NPYError) Is(target error) bool { return target == ErrNPY }

func fault(f Fault, format string, args ...any) error {
	return &NPYError{Fault: f, Detail: fmt.Sprintf(format, args...)}
}

// checkSize compares the bytes that follow the header with those the shape promises.
func checkSize(h header, have int64) error {
	want := int64(h.elements()) * int64(h.width)
	switch {
	case have < want:
		return fault(FaultTruncated, "%s elements %s need %d bytes, the file holds %d", h.dims(), h.descr, want, have)
	case have > want:
		return fault(FaultTrailing, "%d bytes follow the %s array", have-want, h.dims())
	}
	return nil
}
