package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/randfeat/randfeat/data"
)

// manifestVersion is the version of the JSON form of a manifest.
const manifestVersion = 2

// Bounds on a manifest that comes from a file, checked before anything of that size is allocated.
const (
	maxShards = 1 << 20
	maxUnits  = 1 << 22
)

// shardInfo is one file of a table.
type shardInfo struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	Blocks int    `json:"blocks"` // number of blocks that it is cut into
	// Ends is the hash of its first and last MiB; empty for an object in a store.
	Ends string `json:"ends,omitempty"`
	// Values are the values of the columns that come from the names of its folders.
	Values []string `json:"values,omitempty"`
}

// Manifest lists the files of a table and how to read them, so that all workers read the same rows as the same
// units. The same files give the same JSON, and thus the same Digest.
type Manifest struct {
	Version   int         `json:"version"`
	Format    data.Format `json:"format"`
	Delimiter string      `json:"delimiter,omitempty"`
	Header    *bool       `json:"header,omitempty"`
	Literal   bool        `json:"literal,omitempty"`
	Strict    bool        `json:"strict,omitempty"`
	Encoding  string      `json:"encoding,omitempty"`
	Assume    string      `json:"assume,omitempty"`
	Missing   []string    `json:"missing"` // null: data.DefaultMissing
	Limits    [2]int      `json:"limits"`  // most columns, most bytes of a row; 0 is the default
	UnitBytes int64       `json:"unit_bytes"`
	Columns   []string    `json:"columns"`
	Kinds     []string    `json:"kinds"` // kinds of columns, if the format tells
	// Partitions is how many of the columns, the last ones, come from the names of folders.
	Partitions int         `json:"partitions,omitempty"`
	Shards     []shardInfo `json:"shards"`
}

func (m *Manifest) setOptions(o data.Options) {
	m.Format, m.Header, m.Literal, m.Encoding, m.Assume = o.Format, o.Header, o.Literal, o.Encoding, o.Assume
	m.Strict = o.Strict
	if o.Delimiter != 0 {
		m.Delimiter = string(rune(o.Delimiter))
	}
	m.Missing, m.Limits = o.Missing, [2]int{o.MaxColumns, o.MaxLine}
	if m.UnitBytes = o.UnitBytes; m.UnitBytes == 0 {
		m.UnitBytes = data.DefaultUnitBytes
	}
}

func (m *Manifest) options() data.Options {
	o := data.Options{Format: m.Format, Header: m.Header, Literal: m.Literal, Strict: m.Strict, Encoding: m.Encoding,
		Assume: m.Assume, Missing: m.Missing, MaxColumns: m.Limits[0], MaxLine: m.Limits[1], UnitBytes: m.UnitBytes}
	if m.Delimiter != "" {
		o.Delimiter = byte([]rune(m.Delimiter)[0])
	}
	if m.Format == data.NDJSON {
		o.Columns = m.fileColumns()
	}
	return o
}

// fileColumns returns the columns that the files have themselves.
func (m *Manifest) fileColumns() []string { return m.Columns[:len(m.Columns)-m.Partitions] }

func (m *Manifest) units() []data.Unit {
	var out []data.Unit
	for i, s := range m.Shards {
		for b := range s.Blocks {
			out = append(out, data.Unit{Shard: i, Block: b})
		}
	}
	return out
}

// Digest is the SHA-256 of the manifest in hexadecimal: names, sizes and ends of the files, and how to read
// them. Parts of a computation carry it, so that parts of another table are refused.
func (m *Manifest) Digest() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts and whole numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Validate checks everything that the methods rely on.
func (m *Manifest) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("the list of the files of a table: "+format, args...)
	}
	switch {
	case m.Version != manifestVersion:
		return bad("version %d, this program reads %d", m.Version, manifestVersion)
	case len(m.Shards) == 0 || len(m.Shards) > maxShards:
		return bad("%d files, want 1 to %d", len(m.Shards), maxShards)
	case len(m.Columns) == 0 || len(m.Kinds) != len(m.Columns):
		return bad("%d columns with %d kinds", len(m.Columns), len(m.Kinds))
	case m.Partitions < 0 || m.Partitions >= len(m.Columns):
		return bad("%d of %d columns come from folders", m.Partitions, len(m.Columns))
	case m.UnitBytes <= 0 || m.Limits[0] < 0 || m.Limits[1] < 0:
		return bad("units of %d bytes, limits %v", m.UnitBytes, m.Limits)
	case m.Delimiter != "" && (len([]rune(m.Delimiter)) != 1 || []rune(m.Delimiter)[0] > math.MaxUint8):
		return bad("the delimiter %q", m.Delimiter)
	}
	switch m.Format {
	case data.CSV, data.NDJSON, data.Parquet, data.NPY, data.NPZ, data.XLSX:
	default:
		return bad("the format %q", m.Format)
	}
	units := 0
	for _, s := range m.Shards {
		if s.Name == "" || s.Size < 0 || s.Blocks < 1 || int64(s.Blocks-1) > s.Size/m.UnitBytes {
			return bad("file %q of %d bytes in %d blocks", s.Name, s.Size, s.Blocks)
		}
		if len(s.Values) != m.Partitions {
			return bad("file %q has %d values of its folders, want %d", s.Name, len(s.Values), m.Partitions)
		}
		if units += s.Blocks; units > maxUnits {
			return bad("more than %d units", maxUnits)
		}
	}
	return nil
}

// UnmarshalJSON is strict: unknown keys, trailing data and anything that Validate refuses are errors.
func (m *Manifest) UnmarshalJSON(b []byte) error {
	type plain Manifest
	var p plain
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("the list of the files of a table: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("the list of the files of a table: data follow the JSON object")
	}
	if err := (*Manifest)(&p).Validate(); err != nil {
		return err
	}
	*m = Manifest(p)
	return nil
}
