package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
	"github.com/randfeat/randfeat/machine"
)

// ErrNone marks models without a reference.
var ErrNone = errors.New("the model has no reference")

// Key is the name of the reference among the strings of a model file. Programs that do not know it keep it.
const Key = "watch"

// Attach stores a reference in a model, to be saved with it.
func Attach(m *machine.Model, r *Reference) error {
	b, err := r.MarshalText()
	if err != nil {
		return err
	}
	extra := map[string]string{Key: string(b)}
	for k, v := range m.Extra {
		if k != Key {
			extra[k] = v
		}
	}
	m.Extra = extra
	return nil
}

// Of returns the reference of a model. A model without one is ErrNone.
func Of(m *machine.Model) (*Reference, error) {
	text, ok := m.Extra[Key]
	if !ok || m.Schema == nil {
		return nil, ErrNone
	}
	r, err := Read([]byte(text), m.Schema)
	if err == nil && r.out.Count > 0 && r.out.Count != max(m.Outputs, 1) {
		return nil, fmt.Errorf("a reference %w, with other outputs", ErrMismatch)
	}
	return r, err
}

// stored is the JSON form of a reference. The schema is that of its model.
type stored struct {
	Version int     `json:"version"`
	Schema  string  `json:"schema"` // digest
	Options Options `json:"options"`
	Median  float64 `json:"median"`
	Rows    float64 `json:"rows"`
	Outputs outputs `json:"outputs"`

	Joint   [bandwidths]moments `json:"joint"`
	Maximum gumbel              `json:"maximum"`
	Tests   float64             `json:"tests"`
	Limit   float32             `json:"limit"`

	Kept    []int    `json:"kept"` // levels of every field
	Bins    []int    `json:"bins"` // edges of every field
	Edges   floats64 `json:"edges"`
	Columns floats64 `json:"columns"` // column, mean and scale
	Pairs   floats32 `json:"pairs"`
	Centre  floats32 `json:"centre"`
	Sums    floats32 `json:"sums"` // means of the vector, counts
}

const storedVersion = 1

// floats32 and floats64 are base64 of little endian in JSON.
type (
	floats32 []float32
	floats64 []float64
)

func (v floats32) MarshalText() ([]byte, error) { return packed(v) }
func (v floats64) MarshalText() ([]byte, error) { return packed(v) }

func (v *floats32) UnmarshalText(b []byte) (err error) { *v, err = unpacked[float32](b); return err }
func (v *floats64) UnmarshalText(b []byte) (err error) { *v, err = unpacked[float64](b); return err }

func packed[T dense.Float](v []T) ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, seal.Append(nil, v...)), nil
}

func unpacked[T dense.Float](text []byte) ([]T, error) {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	size := seal.NumberSize[T]()
	if err != nil || len(b)%size != 0 {
		return nil, fmt.Errorf("numbers of a reference: %w", machine.ErrCorrupt)
	}
	out, ok := make([]T, len(b)/size), true
	if seal.Read(b, out, &ok); !ok {
		return nil, fmt.Errorf("numbers of a reference: %w", machine.ErrCorrupt)
	}
	return out, nil
}

// MarshalText returns the reference as JSON, for [Read].
func (r *Reference) MarshalText() ([]byte, error) {
	s := stored{Version: storedVersion, Schema: r.schema.Digest(), Options: r.o, Median: r.median, Rows: r.rows,
		Outputs: r.out, Joint: r.joint, Maximum: r.maximum, Tests: r.tests, Limit: r.limit, Centre: r.centre}
	for _, f := range r.fields {
		s.Kept, s.Bins = append(s.Kept, f.kept), append(s.Bins, len(f.edges))
		s.Edges = append(s.Edges, f.edges...)
	}
	for _, c := range r.columns {
		s.Columns = append(s.Columns, float64(c.col), c.mean, c.scale)
	}
	for _, p := range r.pairs {
		s.Pairs = append(s.Pairs, float32(p.a), float32(p.b))
	}
	for j, v := range r.sums {
		if j < r.atCounts {
			v /= r.rows
		}
		s.Sums = append(s.Sums, float32(v))
	}
	return json.Marshal(s)
}

// mostBytes bounds the text of a reference.
const mostBytes = 1 << 20

// Read reads a reference of rows of a schema, as MarshalText wrote it. Everything is checked: damaged text is
// machine.ErrCorrupt, and a reference of another schema [ErrMismatch].
func Read(text []byte, of *data.Schema) (*Reference, error) {
	bad := func(what string) error { return fmt.Errorf("reference: %s: %w", what, machine.ErrCorrupt) }
	if len(text) > mostBytes {
		return nil, bad(fmt.Sprintf("%d bytes", len(text)))
	}
	var s stored
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, bad(err.Error())
	}
	if s.Version != storedVersion {
		return nil, bad(fmt.Sprintf("version %d, this program reads %d", s.Version, storedVersion))
	}
	r := &Reference{o: s.Options, out: s.Outputs, median: s.Median, rows: s.Rows, joint: s.Joint, maximum: s.Maximum,
		tests: s.Tests, limit: s.Limit, centre: s.Centre}
	r.schema = Schema(of)
	if s.Schema != r.schema.Digest() {
		return nil, fmt.Errorf("a reference %w, with another schema", ErrMismatch)
	}
	n := min(len(r.schema.Fields), mostFields)
	switch {
	case !(s.Median > 0) || !dense.IsFinite(s.Median) || !(s.Rows >= 1) || s.Rows > 1<<40 || !(s.Tests > 0) ||
		s.Maximum.Scale > 0 && !(s.Maximum.Excess > 0):
		return nil, bad("a number out of range")
	case s.Options.Projections < 1 || s.Options.Projections > 4096:
		return nil, bad("the number of projections")
	case len(s.Kept) != n || len(s.Bins) != n || len(s.Columns)%3 != 0 || len(s.Pairs)%2 != 0 ||
		len(s.Pairs) > 2*mostPairs || len(s.Columns) > 3*mostColumns:
		return nil, bad("the number of columns")
	case !s.Outputs.valid():
		return nil, bad("the outputs")
	}
	first := 0
	for k := range n {
		width := r.schema.Fields[k].Width()
		f := field{first: first, indicator: first + width - 1, kept: s.Kept[k]}
		if r.schema.Fields[k].Kind == data.Categorical {
			f.levels = width - 1
		}
		if f.kept < 0 || f.kept > max(0, f.levels-1) || s.Bins[k] < 0 || s.Bins[k] > min(mostBins+1, len(s.Edges)) ||
			s.Bins[k] > 0 && f.levels > 0 {
			return nil, bad("the cells of a column")
		}
		f.edges, s.Edges = s.Edges[:s.Bins[k]:s.Bins[k]], s.Edges[s.Bins[k]:]
		r.fields = append(r.fields, f)
		first += width
	}
	for k := 0; k < len(s.Columns); k += 3 {
		c := encoded{int(s.Columns[k]), s.Columns[k+1], s.Columns[k+2]}
		if c.col < 0 || c.col >= r.schema.Width() || !(c.scale > 0) {
			return nil, bad("a column of a pair")
		}
		r.columns = append(r.columns, c)
	}
	for k := 0; k < len(s.Pairs); k += 2 {
		p := pair{int(s.Pairs[k]), int(s.Pairs[k+1])}
		if min(p.a, p.b) < 0 || max(p.a, p.b) >= len(r.columns) {
			return nil, bad("a pair")
		}
		r.pairs = append(r.pairs, p)
	}
	if len(s.Centre) > len(s.Sums) || r.o.Projections > len(s.Centre) { // before projections take memory
		return nil, bad("the number of sums")
	}
	if err := r.draw(r.median, r.o.Projections, r.o.Seed); err != nil {
		return nil, bad(err.Error())
	}
	r.place(r.out.size())
	if len(s.Edges) > 0 || len(s.Sums) != r.size || len(r.centre) != r.features {
		return nil, bad("the number of sums")
	}
	for _, w := range r.out.Spread {
		if len(w) != r.features+1 {
			return nil, bad("the spread of the errors")
		}
	}
	r.sums = make([]float64, r.size)
	for j, v := range s.Sums {
		if r.sums[j] = float64(v); j < r.atCounts {
			r.sums[j] *= r.rows
		} else if !(v >= 0 && float64(v) <= r.rows) {
			return nil, bad("a count that is negative or above that of the rows")
		}
	}
	return r, nil
}

// valid checks outputs from a file.
func (o *outputs) valid() bool {
	ok := o.Count >= 0 && o.Count <= 1<<12 && len(o.Names) == o.Count && len(o.Mean) == o.Count
	if o.Task != machine.Classification {
		ok = ok && len(o.Scale) == o.Count
		for _, v := range o.Scale {
			ok = ok && v > 0
		}
	}
	return ok
}

// digest identifies a reference.
func (r *Reference) digest() [32]byte {
	b, err := r.MarshalText()
	if err != nil {
		panic(err) // its numbers are finite
	}
	return sha256.Sum256(b)
}

// format is that of saved monitors: the counts are rows and sums.
var format = seal.Format{Magic: "randfeat watch\n", Version: 1, Counts: 2}

// MarshalBinary returns the sums of the monitor, to be merged elsewhere.
func (m *Monitor) MarshalBinary() ([]byte, error) {
	b := format.Begin(nil, seal.Header{Fingerprint: m.r.digest(), Counts: []uint64{uint64(m.rows),
		uint64(len(m.sums))}})
	return seal.Close(seal.Append(b, m.sums...), 0), nil
}

// UnmarshalBinary replaces the rows of m by those of a saved monitor of the same reference.
func (m *Monitor) UnmarshalBinary(b []byte) error {
	h, body, err := format.Open(b)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	if h.Fingerprint != m.r.digest() {
		return fmt.Errorf("a monitor %w", ErrMismatch)
	}
	if h.Counts[1] != uint64(len(m.sums)) || len(body) != 8*len(m.sums) {
		return fmt.Errorf("monitor: %d numbers: %w", h.Counts[1], machine.ErrCorrupt)
	}
	sums, ok := make([]float64, len(m.sums)), true
	if seal.Read(body, sums, &ok); !ok {
		return fmt.Errorf("monitor: a sum that is not finite: %w", machine.ErrCorrupt)
	}
	m.rows, m.sums = float64(h.Counts[0]), sums
	return nil
}
