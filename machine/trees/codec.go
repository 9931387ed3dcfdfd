package trees

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// ErrCorrupt is wrapped by errors about bytes that are no forest of this version, and about damaged bytes.
var ErrCorrupt = seal.ErrCorrupt

// format is the format of saved forests. The flag is the number of classes. The counts are those of the seven parts of
// the body, in little endian:
//
//	start f64
//	columns: used u8, levels u8, number of cuts u16
//	cuts f64, column after column
//	trees: first node i32
//	nodes: keep u64, set u32, column u16
//	sets: 4 × u64
//	values f32
var format = seal.Format{Magic: "randfeat trees\n\x00", Version: 1, Counts: 7}

// shape is a column in a file.
type shape struct {
	Used, Levels bool
	Cuts         uint16
}

// parts are slices of the numbers in a body, in their order.
func (f *Forest) parts(shapes []shape, cuts []float64) []any {
	return []any{f.start, shapes, cuts, f.trees, f.nodes, f.sets, f.values}
}

// MarshalBinary implements encoding.BinaryMarshaler; see AppendBinary.
func (f *Forest) MarshalBinary() ([]byte, error) { return f.AppendBinary(nil) }

// AppendBinary appends f to b. The bytes are the same on every platform.
func (f *Forest) AppendBinary(b []byte) ([]byte, error) {
	var shapes []shape
	var cuts []float64
	for _, c := range f.columns {
		shapes, cuts = append(shapes, shape{c.used, c.levels, uint16(len(c.cuts))}), append(cuts, c.cuts...)
	}
	begin, count := len(b), []uint64{uint64(len(f.start)), uint64(len(shapes)), uint64(len(cuts)), uint64(len(f.trees)),
		uint64(len(f.nodes)), uint64(len(f.sets)), uint64(len(f.values))}
	b = format.Begin(b, seal.Header{Flag: uint16(f.classes), Counts: count})
	for _, part := range f.parts(shapes, cuts) {
		var err error
		if b, err = binary.Append(b, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return seal.Close(b, begin), nil
}

// UnmarshalBinary reads what AppendBinary appended. Errors wrap ErrCorrupt. Memory is taken only once the counts agree
// with len(b).
func (f *Forest) UnmarshalBinary(b []byte) error {
	h, body, err := format.Open(b)
	if err != nil {
		return fmt.Errorf("trees: %w", err)
	}
	n, size := h.Counts, uint64(0)
	for i, bytes := range []uint64{8, 4, 8, 4, 14, 32, 4} { // of each part
		size += min(n[i], uint64(len(body))+1) * bytes
	}
	if size != uint64(len(body)) {
		return fmt.Errorf("trees: counts %v in %d bytes: %w", n, len(body), ErrCorrupt)
	}
	g := Forest{classes: int(h.Flag), start: make([]float64, n[0]), columns: make([]column, n[1]),
		trees: make([]int32, n[3]), nodes: make([]node, n[4]), sets: make([]set, n[5]), values: make([]float32, n[6])}
	shapes, cuts := make([]shape, n[1]), make([]float64, n[2])
	for _, part := range g.parts(shapes, cuts) {
		size, err := binary.Decode(body, binary.LittleEndian, part)
		if err != nil {
			return err
		}
		body = body[size:]
	}
	for j, s := range shapes {
		size := min(int(s.Cuts), len(cuts), maxBins)
		g.columns[j] = column{used: s.Used, levels: s.Levels, cuts: cuts[:size:size]}
		cuts = cuts[size:]
	}
	if what := g.check(); what != "" || len(cuts) > 0 {
		return fmt.Errorf("trees: %s: %w", cmp.Or(what, "too many numbers"), ErrCorrupt)
	}
	*f = g
	return nil
}

// check names what is wrong with a forest that was read.
func (f *Forest) check() string {
	scores := len(f.start)
	switch classes := f.classes; {
	case scores < 1, len(f.columns) < 1:
		return "no outputs or columns"
	case classes == 1, classes == 2 && scores != 1, classes > 2 && classes != scores:
		return "classes"
	case len(f.values) != len(f.nodes)+len(f.trees):
		return "sizes"
	}
	for _, v := range f.values {
		if !dense.IsFinite(float64(v)) {
			return "values"
		}
	}
	for _, c := range append(f.columns, column{cuts: f.start}) {
		if slices.ContainsFunc(c.cuts, func(v float64) bool { return !dense.IsFinite(v) }) {
			return "start or cuts"
		}
	}
	for _, c := range f.columns {
		if c.count() > maxBins || !slices.IsSorted(c.cuts) {
			return "cuts"
		}
	}
	for t, first := range f.trees {
		end := len(f.nodes)
		if t+1 < len(f.trees) {
			end = int(f.trees[t+1])
		}
		if t == 0 && first != 0 || int(first) >= end || end > len(f.nodes) {
			return "trees"
		}
		for _, n := range f.nodes[first:end] { // all keep the last leaf, so a row always has one
			if n.Keep>>(end-int(first))&1 == 0 || int(n.Column) >= len(f.columns) || int(n.Set) >= len(f.sets) {
				return "nodes"
			}
		}
	}
	return ""
}
