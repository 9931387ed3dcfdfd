package datasets

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/internal/npy"
)

// The public copies differ from the files that our code reads only in layout. These functions convert one into
// the other. The checksum of the result decides, so they check their input only roughly.

// ended returns b with exactly one line end after the last line.
func ended(b []byte) ([]byte, error) { return append(bytes.TrimRight(b, "\r\n"), '\n'), nil }

// headless returns b without the first line.
func headless(b []byte) ([]byte, error) {
	_, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%d bytes of one line, want a header and rows", len(b))
	}
	return ended(rest)
}

// unindented is headless, without blanks at the start and end of each line.
func unindented(b []byte) ([]byte, error) {
	b, err := headless(b)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for line := range bytes.Lines(b) {
		out.Write(bytes.TrimSpace(line))
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// lastFirst moves the last column of comma-separated lines to the front.
func lastFirst(b []byte) ([]byte, error) {
	var out bytes.Buffer
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		at := strings.LastIndexByte(line, ',')
		if at < 0 {
			return nil, fmt.Errorf("the line %.60q has no comma", line)
		}
		fmt.Fprintf(&out, "%s,%s\n", line[at+1:], line[:at])
	}
	return out.Bytes(), nil
}

// tableOfXY returns the CSV of an npz with a matrix X and labels y: columns x0, x1, … and class, six decimals.
func tableOfXY(b []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	read := func(name string) (npy.Tensor, error) {
		f, err := z.Open(name)
		if err != nil {
			return npy.Tensor{}, err
		}
		defer f.Close()
		return npy.ReadTensor(io.LimitReader(f, maxDownload))
	}
	x, err := read("X.npy")
	if err != nil {
		return nil, err
	}
	y, err := read("y.npy")
	if err != nil {
		return nil, err
	}
	if len(x.Shape) != 2 || len(y.Shape) != 1 || x.Shape[0] != y.Shape[0] {
		return nil, fmt.Errorf("the shape of X is %v and that of y %v, want a matrix and a label for each of its rows", x.Shape, y.Shape)
	}
	var out bytes.Buffer
	d := x.Shape[1]
	for j := range d {
		fmt.Fprintf(&out, "x%d,", j)
	}
	out.WriteString("class\n")
	values := npy.Floats[float64](x)
	if values == nil || y.Int == nil {
		return nil, fmt.Errorf("the numbers of X are %s and those of y %s, want floats and integers", x.Element, y.Element)
	}
	for i, label := range y.Int {
		for _, v := range values[i*d : (i+1)*d] {
			out.WriteString(strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64))
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%d\n", label)
	}
	return out.Bytes(), nil
}
