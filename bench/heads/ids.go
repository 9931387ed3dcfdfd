package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

var npyHeader = regexp.MustCompile(`^\{'descr': '<i4', 'fortran_order': False, 'shape': \((\d+), (\d+)\), \}\s*$`)

// passages reads the token ids that weights.py writes: a NumPy matrix [passages, tokens] of 32-bit integers.
func passages(folder, name string) ([][]int32, error) {
	path := filepath.Join(folder, name+".npy")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; run heads/weights.py to make it", err)
	}
	bad := fmt.Errorf("%s: not a NumPy file (version 1.0) with a matrix of 32-bit integers", path)
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		return nil, bad
	}
	end := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	if end > len(b) {
		return nil, bad
	}
	m := npyHeader.FindSubmatch(b[10:end])
	if m == nil {
		return nil, bad
	}
	n, _ := strconv.Atoi(string(m[1]))
	length, _ := strconv.Atoi(string(m[2]))
	if b = b[end:]; n < 1 || length < 1 || len(b)/4/n != length || len(b)%4 != 0 {
		return nil, bad
	}
	out := make([][]int32, n)
	for i := range out {
		out[i] = make([]int32, length)
		for j := range out[i] {
			out[i][j] = int32(binary.LittleEndian.Uint32(b[4*(i*length+j):]))
		}
	}
	return out, nil
}
