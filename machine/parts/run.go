package parts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Options are the options of a fit by parts.
type Options struct {
	tabular.Options
	// DropMissing leaves out rows in which a target is missing.
	DropMissing bool
	// Held is the number of rows held out, but at most a fifth of all rows; 0 means 4096. None are held out if Folds is
	// 1.
	Held int
}

const (
	defaultHeld   = 4096
	defaultSample = 8192
	// 1/heldShare is the largest share of rows held out.
	heldShare = 5
	// sampleCells bounds the cells of the sample, as package tabular does.
	sampleCells = 1 << 25
	leastSample = 256 // rows of the sample, however wide they are
)

// Run is a table of files to read in parts, with the options of the fit. It is plain data with a JSON form, which is
// all that a worker needs besides the files. Several goroutines may use a Run.
type Run struct {
	manifest *files.Manifest
	table    *files.Table
	o        Options
	units    []data.Unit
	id       string // SHA-256 of the JSON form; all parts carry it
}

// NewRun returns a run over the files of a manifest. It refuses everything that can be refused before any row is read.
func NewRun(m *files.Manifest, o Options) (*Run, error) {
	if o.Held < 0 {
		return nil, fmt.Errorf("%d rows held out: %w", o.Held, machine.ErrSetup)
	}
	// These options do not change the result, so they must not change the identity of the run.
	o.Checkpoint, o.CheckpointEvery, o.Progress = "", 0, nil
	t, err := m.Open()
	if err != nil {
		return nil, err
	}
	r := &Run{manifest: m, table: t, o: o, units: t.Units()}
	if len(r.units) == 0 {
		return nil, fmt.Errorf("no files: %w", machine.ErrNoRows)
	}
	b, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	r.id = hex.EncodeToString(sum[:])
	return r, nil
}

type runJSON struct {
	Format      string          `json:"format"`
	Version     int             `json:"version"`
	Files       *files.Manifest `json:"files"`
	Options     tabular.Options `json:"options"`
	DropMissing bool            `json:"drop_missing,omitempty"`
	Held        int             `json:"held,omitempty"`
}

const (
	runFormat  = "randfeat run"
	runVersion = 1
)

// MarshalJSON writes the run. The digest of these bytes is the identity of the run, so equal runs must give equal
// bytes.
func (r *Run) MarshalJSON() ([]byte, error) {
	return json.Marshal(runJSON{runFormat, runVersion, r.manifest, r.o.Options, r.o.DropMissing, r.o.Held})
}

// ReadRun reads the output of MarshalJSON; anything else is machine.ErrCorrupt.
func ReadRun(b []byte) (*Run, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var j runJSON
	if err := dec.Decode(&j); err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	switch {
	case j.Format != runFormat || j.Files == nil:
		return nil, fmt.Errorf("format %q, want %q: %w", j.Format, runFormat, machine.ErrCorrupt)
	case j.Version != runVersion:
		return nil, fmt.Errorf("version %d of the format, this program reads %d: %w", j.Version, runVersion,
			machine.ErrCorrupt)
	}
	return NewRun(j.Files, Options{Options: j.Options, DropMissing: j.DropMissing, Held: j.Held})
}

// ID is the digest of the run, which all its parts carry.
func (r *Run) ID() string { return r.id }

// Options returns the options of the run.
func (r *Run) Options() Options { return r.o }

// Name is the name of the table in messages.
func (r *Run) Name() string { return r.table.Name() }

// Units returns the pieces of files, in order.
func (r *Run) Units() []data.Unit { return slices.Clone(r.units) }

// Leaves is the number of leaves.
func (r *Run) Leaves() int { return (len(r.units) + r.group() - 1) / r.group() }

// group is the number of units of a leaf. It depends on the number of units only, because leaves determine the bits.
func (r *Run) group() int { return par.LeafUnits(len(r.units)) }

func (r *Run) tree() tree { return tree{r.Leaves()} }

// unitsOf returns the units of a leaf.
func (r *Run) unitsOf(leaf int) Span {
	return Span{leaf * r.group(), min((leaf+1)*r.group(), len(r.units))}
}

// Range returns the leaves of worker i of n, counted from 0. Shares are about equal. If each worker has several leaves,
// shares are whole nodes of the tree where possible, so that a worker writes few parts. Together the ranges cover all
// leaves; with more workers than leaves some are empty.
func (r *Run) Range(i, n int) (Span, error) {
	if n < 1 || i < 0 || i >= n {
		return Span{}, fmt.Errorf("worker %d of %d: want 0 to one less than their number: %w", i, n, machine.ErrSetup)
	}
	leaves := r.Leaves()
	align := 1
	for leaves/n >= 2*align*par.Fan {
		align *= par.Fan
	}
	nodes := (leaves + align - 1) / align
	border := func(k int) int { return min(k*nodes/n*align, leaves) }
	return Span{border(i), border(i + 1)}, nil
}

// place names the first unit of a leaf, for messages.
func (r *Run) place(leaf int) string {
	u := r.units[r.unitsOf(leaf).Lo]
	name := r.table.ShardName(u.Shard)
	if u.Block > 0 || slices.Contains(r.units, data.Unit{Shard: u.Shard, Block: 1}) {
		return fmt.Sprintf("block %d of %s", u.Block+1, name)
	}
	return name
}

// source returns a unit as a table, without the rows that DropMissing removes.
func (r *Run) source(unit int) (data.Source, error) {
	src, err := r.table.Unit(unit)
	if err != nil || !r.o.DropMissing {
		return src, err
	}
	return data.DropMissing(src, r.o.Learn.Targets)
}

// columns are the columns of the table.
func (r *Run) columns() []string { return r.table.Columns() }

// Reads reports whether path names an input file of the run, under any name or link, and returns that file. Callers
// refuse it as an output.
func (r *Run) Reads(path string) (string, bool) { return reads(path, r.table.Files()) }

func reads(path string, files []string) (string, bool) {
	for _, name := range files {
		if localfile.Same(path, name) {
			return name, true
		}
	}
	return "", false
}
