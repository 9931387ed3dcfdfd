package tabular

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
)

// A checkpoint is a safetensors container. Its metadata are
//
//	format    "randfeat checkpoint"
//	version   "5"
//	source    {"columns":[…],"contents":…,"size in bytes":…}: see sourceIdentity
//	options   the options that matter to the result, by name
//	state     see checkpointState
//	sha256    of the bytes of all tensors; sha256_metadata of everything else
//
// Tensors are landmarks, the projections of a map that has some, and for every fold k, sums.k (the bytes of
// machine.Sums), x.k and y.k (the rows that wait); for a table of several units node.l, the sums of the node of level l
// of their tree; or, for logistic regression, points and gradients (the rows of
// LogisticState).
//
// A checkpoint must never lead to a wrong model. The file is written next to its target, synced and renamed, so a kill
// leaves the old version or the new one. Checksums detect damage (not forgery: nothing is signed). Another version,
// unknown fields, another table or other options are refused. Shapes, counts and finiteness are checked before use.
// Rows that were already summed are hashed again as they are read.
//
// A resumed fit must give the same model, bit for bit. Sums, waiting rows and steps are stored with all bits, the rest
// is JSON that keeps every bit of a float64, and projections follow from the seed. A change of the format, or of
// anything that changes the result of the same options, needs a new version.
const (
	checkpointFormat  = "randfeat checkpoint"
	checkpointVersion = 5
)

// checkpointShare limits the time spent on writing. The next checkpoint waits for this multiple of the time of the last
// one, so writing takes at most an eleventh of the fit, however large the sums and slow the disk. It is a variable so
// that tests can write many.
var checkpointShare time.Duration = 10

// checkpoint is the file of one fit and what it will hold. A fit without a file has a nil checkpoint, which does
// nothing.
type checkpoint struct {
	path            string
	every           time.Duration
	warn            func(string)
	log             *journal
	source, options string // identities of table and options that the file must have been written for
	wrote           time.Time
	wait            time.Duration
	read            rowHash // hash of the rows added
	failed          bool    // a version could not be written, and a warning was given

	of       *chosen                // nil: no choices yet
	sums     *foldSums              // for kinds whose rows add up
	logistic *machine.LogisticState // for logistic regression; nil: not begun
}

func newCheckpoint(o Options, log *journal) *checkpoint {
	if o.Checkpoint == "" {
		return nil
	}
	return &checkpoint{path: o.Checkpoint, every: o.CheckpointEvery, warn: o.Warn, log: log}
}

// checkpointState is the metadata "state".
type checkpointState struct {
	Schema   *data.Schema  `json:"schema"`
	Base     *data.Schema  `json:"base,omitempty"` // the columns before levels got codes
	Summary  *data.Summary `json:"summary,omitempty"`
	Decision *decision     `json:"decision"`
	Stages   []Stage       `json:"stages"`
	Rows     int64         `json:"rows"`           // rows in the sums
	Hash     uint64        `json:"hash"`           // of these rows, or of all in a logistic regression
	Held     []int         `json:"held,omitempty"` // waiting rows, by fold
	// For a table of several units with one fold, Unit is the unit that is being read, and Nodes has the number of
	// children of every node of the tree.
	Unit  int   `json:"unit,omitempty"`
	Nodes []int `json:"nodes,omitempty"`
	// Logistic is set after the first step.
	Logistic *checkpointSteps `json:"logistic,omitempty"`
}

type checkpointSteps struct {
	Iterations int     `json:"iterations"`
	Passes     int     `json:"passes"`
	Loss       float64 `json:"loss"`
}

// RemoveCheckpoint removes the file Options.Checkpoint. Call it after the model has been saved: Fit keeps the file, so
// a model that could not be written is not lost. A missing file is not an error.
func RemoveCheckpoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the checkpoint: %w", err)
	}
	return nil
}

// resume restores schema and summary of a job from a checkpoint of the same fit, and returns the rest; nil: there was
// none. A checkpoint that does not match is an error and is left alone: starting over silently would overwrite hours of
// work because of a mistyped option.
func (c *checkpoint) resume(j *job) (*resumed, error) {
	if c == nil {
		return nil, nil
	}
	var err error
	if c.source, err = sourceIdentity(j.src); err != nil {
		return nil, err
	}
	if c.options, err = j.o.identity(); err != nil {
		return nil, err
	}
	c.wrote, c.wait = time.Now(), c.every
	b, err := localfile.Read(c.path, localfile.Format{Want: "a checkpoint of a fit", Check: tensorfile.Sealed})
	if errors.Is(err, fs.ErrNotExist) {
		// Found now, a mistyped directory is an error; later, one that is gone is a warning.
		if _, err := os.Stat(filepath.Dir(c.path)); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
		return nil, nil
	}
	if errors.Is(err, tensorfile.ErrFormat) {
		return nil, fmt.Errorf("checkpoint %w: %w; to begin anew delete the file, or name another", err, machine.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	was, err := c.load(b, j)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w; to begin anew delete the file, or name another", c.path, err)
	}
	return was, nil
}

// load reads a checkpoint.
func (c *checkpoint) load(b []byte, j *job) (*resumed, error) {
	f, err := tensorfile.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if v := f.Metadata["format"]; v != checkpointFormat {
		return nil, fmt.Errorf("%w: format %q, want %q", machine.ErrCorrupt, v, checkpointFormat)
	}
	if v := f.Metadata["version"]; v != strconv.Itoa(checkpointVersion) {
		return nil, fmt.Errorf("%w: version %q of the format, this program reads %d", machine.ErrCorrupt, v,
			checkpointVersion)
	}
	if err := f.Verify(); err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if err := differs("table", f.Metadata["source"], c.source); err != nil {
		return nil, err
	}
	if err := differs("options", f.Metadata["options"], c.options); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(f.Metadata["state"])))
	dec.DisallowUnknownFields()
	var s checkpointState
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("%w: state: %w", machine.ErrCorrupt, err)
	}
	if s.Schema == nil || s.Decision == nil || s.Decision.Spec.Dim != s.Schema.Width() || s.Rows < 0 ||
		s.Rows > s.Decision.Rows {
		return nil, fmt.Errorf("%w: a state without schema or decisions, or with %d rows", machine.ErrCorrupt, s.Rows)
	}
	was := &resumed{d: s.Decision}
	j.schema, j.base, j.summary, j.total = s.Schema, s.Base, s.Summary, s.Decision.Rows
	if err := j.settle(); err != nil {
		return nil, err
	}
	if t, ok := f.Tensor("landmarks"); ok {
		if !slices.Equal(t.Shape, []int{s.Decision.Spec.M, s.Decision.Spec.Dim}) {
			return nil, fmt.Errorf("%w: landmarks of shape %v", machine.ErrCorrupt, t.Shape)
		}
		marks := dense.New[float64](t.Shape[0], t.Shape[1])
		if err := fill(f, "landmarks", marks); err != nil {
			return nil, err
		}
		was.d.marks = []coupling.Omega{{Rows: marks}}
	}
	switch {
	case s.Logistic != nil:
		was.logistic, err = loadLogistic(j, f, &s)
	case len(s.Held) > 0:
		was.sums, err = loadSums(j, f, &s)
	}
	if err != nil {
		return nil, err
	}
	if s.Summary != nil {
		c.log.notes = slices.Clone(s.Summary.Notes)
	}
	c.log.stages, c.log.resumed = s.Stages, s.Rows
	c.read = rowHash{expected: s.Hash, until: s.Rows}
	return was, nil
}

func loadSums(j *job, c *tensorfile.File, s *checkpointState) (*foldSums, error) {
	setup, err := s.Decision.setup(j)
	if err != nil {
		return nil, err
	}
	if len(s.Held) > maxFolds {
		return nil, fmt.Errorf("%w: %d folds", machine.ErrCorrupt, len(s.Held))
	}
	sums := &foldSums{kind: j.kind, setup: setup, deal: j.deal, past: j.deal.ordered(), rows: s.Rows,
		parts: make([]foldPart, len(s.Held))}
	total := int64(0)
	for k, held := range s.Held {
		p := &sums.parts[k]
		t, ok := c.Tensor("sums." + strconv.Itoa(k))
		if !ok {
			return nil, fmt.Errorf("%w: no sums of fold %d", machine.ErrCorrupt, k)
		}
		if p.Sums, err = machine.NewSums(j.kind, setup); err == nil {
			err = p.Read(bytes.NewReader(t.Data), int64(len(t.Data)))
		}
		if err != nil {
			return nil, err
		}
		p.wait(setup)
		if held < 0 || held >= setup.Block {
			return nil, fmt.Errorf("%w: %d rows of fold %d wait for a block of %d", machine.ErrCorrupt, held, k,
				setup.Block)
		}
		p.held = held
		if err := fill(c, "x."+strconv.Itoa(k), p.x.RowRange(0, held)); err != nil {
			return nil, err
		}
		if err := fill(c, "y."+strconv.Itoa(k), p.y.RowRange(0, held)); err != nil {
			return nil, err
		}
		total += p.Len() + int64(held)
	}
	if sums.along(newLeaves(j.src)); sums.leaves != nil {
		n, err := sums.leaves.load(c, s)
		if err != nil {
			return nil, err
		}
		total += n
	} else if s.Unit != 0 || s.Nodes != nil {
		return nil, fmt.Errorf("%w: sums of unit %d of a table of one, or of several folds", machine.ErrCorrupt, s.Unit)
	}
	if total != s.Rows {
		return nil, fmt.Errorf("%w: %d rows in the folds, want %d", machine.ErrCorrupt, total, s.Rows)
	}
	return sums, nil
}

// load reads the nodes of the tree and returns the number of their rows.
func (l *leafSums) load(c *tensorfile.File, s *checkpointState) (rows int64, err error) {
	if s.Unit < 0 || s.Unit > len(l.of.units) || len(s.Nodes) > 8 {
		return 0, fmt.Errorf("%w: unit %d of %d, %d levels", machine.ErrCorrupt, s.Unit, len(l.of.units), len(s.Nodes))
	}
	l.unit, l.tree.Nodes, l.tree.Has = s.Unit, make([]machine.Sums, len(s.Nodes)), s.Nodes
	for level, n := range s.Nodes {
		if n == 0 {
			continue
		}
		t, ok := c.Tensor("node." + strconv.Itoa(level))
		if !ok || n < 0 || n >= par.Fan {
			return 0, fmt.Errorf("%w: no sums of the node of level %d with %d children", machine.ErrCorrupt, level, n)
		}
		sums, err := l.p.Like()
		if err == nil {
			err = sums.Read(bytes.NewReader(t.Data), int64(len(t.Data)))
		}
		if err != nil {
			return 0, err
		}
		l.tree.Nodes[level] = sums
		rows += sums.Len()
	}
	return rows, nil
}

func loadLogistic(j *job, c *tensorfile.File, s *checkpointState) (*machine.LogisticState, error) {
	if j.info.Summed() || s.Rows != s.Decision.Rows {
		return nil, fmt.Errorf("%w: steps of a logistic regression on %d of %d rows for a %s model", machine.ErrCorrupt,
			s.Rows,
			s.Decision.Rows, j.kind)
	}
	l := &machine.LogisticState{Iterations: s.Logistic.Iterations, Passes: s.Logistic.Passes, Loss: s.Logistic.Loss}
	for _, x := range []struct {
		name string
		to   *[][]float64
	}{{"points", &l.Points}, {"gradients", &l.Gradients}} {
		t, ok := c.Tensor(x.name)
		if !ok || len(t.Shape) != 2 {
			return nil, fmt.Errorf("%w: no %s", machine.ErrCorrupt, x.name)
		}
		v, err := t.Floats()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
		}
		for i := range t.Shape[0] {
			*x.to = append(*x.to, v[i*t.Shape[1]:][:t.Shape[1]])
		}
	}
	return l, nil // FitLogistic checks it
}

// fill copies a tensor to m. The tensor must have the shape of m.
func fill(c *tensorfile.File, name string, m dense.Matrix[float64]) error {
	t, ok := c.Tensor(name)
	if !ok || !slices.Equal(t.Shape, []int{m.Rows, m.Cols}) {
		return fmt.Errorf("%w: %s has shape %v, want %d×%d", machine.ErrCorrupt, name, t.Shape, m.Rows, m.Cols)
	}
	v, err := t.Floats()
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if i := slices.IndexFunc(v, func(x float64) bool { return !dense.IsFinite(x) }); i >= 0 {
		return fmt.Errorf("%w: %s has an entry of %g", machine.ErrCorrupt, name, v[i])
	}
	copy(m.Data, v)
	return nil
}

// keep sets the choices that are written from now on.
func (c *checkpoint) keep(of *chosen) {
	if c != nil {
		c.of = of
	}
}

// adds sets the sums that rows are added to.
func (c *checkpoint) adds(s *foldSums) {
	if c != nil {
		c.sums = s
	}
}

// steps sets the last step of a logistic regression.
func (c *checkpoint) steps(at *machine.LogisticState) {
	if c != nil {
		c.logistic = at
	}
}

// save writes a checkpoint if one is due, or immediately if now is set. Before the choices are made, only two passes
// could be lost, so there is none. A checkpoint that cannot be written, for example on a full disk, does not end the
// fit. The first failure is a warning and a note; later versions are still tried.
func (c *checkpoint) save(now bool) {
	if c == nil || c.of == nil || !now && time.Since(c.wrote) < c.wait {
		return
	}
	began := time.Now()
	err := c.write()
	c.wrote = time.Now()
	c.wait = max(c.every, checkpointShare*time.Since(began))
	if err != nil && !c.failed {
		c.failed = true
		c.log.note("%v: the fit goes on, but an interruption loses what it did since the last checkpoint", err)
		if c.warn != nil {
			c.warn(c.log.notes[len(c.log.notes)-1])
		}
	}
}

// write writes a checkpoint now. It takes as much memory again as the sums.
func (c *checkpoint) write() error {
	if c == nil || c.of == nil {
		return nil
	}
	f, err := c.snapshot()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	out, err := localfile.Create(c.path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer out.Abort()
	if _, err := f.WriteTo(out); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// snapshot returns the container with the present state.
func (c *checkpoint) snapshot() (*tensorfile.File, error) {
	s := checkpointState{Schema: c.of.f.schema, Base: c.of.base, Summary: c.of.summary, Decision: c.of.d,
		Stages: c.log.stages}
	if i := slices.IndexFunc(s.Stages, func(s Stage) bool { return s.Name == stageFit }); i >= 0 {
		s.Stages = s.Stages[:i] // the stage starts again
	}
	var tensors []tensorfile.Tensor
	if c.of.d.marks != nil {
		m := c.of.d.marks[0].Rows
		tensors = append(tensors, tensorfile.Floats("landmarks", m.Data, m.Rows, m.Cols))
	}
	switch {
	case c.logistic != nil:
		l := c.logistic
		s.Logistic = &checkpointSteps{Iterations: l.Iterations, Passes: l.Passes, Loss: l.Loss}
		s.Rows, s.Hash = c.of.d.Rows, c.read.of(c.of.d.Rows)
		n := len(l.Points)
		tensors = append(tensors, tensorfile.Floats("points", slices.Concat(l.Points...), n, len(l.Points[0])),
			tensorfile.Floats("gradients", slices.Concat(l.Gradients...), n, len(l.Points[0])))
	case c.sums != nil:
		s.Rows, s.Hash = c.sums.rows, c.read.of(c.sums.rows)
		for k := range c.sums.parts {
			p := &c.sums.parts[k]
			s.Held = append(s.Held, p.held)
			b, err := p.AppendBinary(nil)
			if err != nil {
				return nil, err
			}
			id := strconv.Itoa(k)
			x, y := p.x.RowRange(0, p.held), p.y.RowRange(0, p.held)
			tensors = append(tensors, tensorfile.Tensor{Name: "sums." + id, DType: "U8", Shape: []int{len(b)}, Data: b},
				tensorfile.Floats("x."+id, x.Data[:x.Rows*x.Cols], x.Rows, x.Cols), tensorfile.Floats("y."+id,
					y.Data[:y.Rows*y.Cols], y.Rows, y.Cols))
		}
		if l := c.sums.leaves; l != nil {
			s.Unit, s.Nodes = l.unit, l.tree.Has
			for level, n := range s.Nodes {
				if n == 0 {
					continue
				}
				b, err := l.tree.Nodes[level].AppendBinary(nil)
				if err != nil {
					return nil, err
				}
				tensors = append(tensors, tensorfile.Tensor{Name: "node." + strconv.Itoa(level), DType: "U8",
					Shape: []int{len(b)}, Data: b})
			}
		}
	}
	state, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	f := &tensorfile.File{Tensors: tensors, Metadata: map[string]string{"format": checkpointFormat,
		"version": strconv.Itoa(checkpointVersion),
		"source":  c.source, "options": c.options, "state": string(state)}}
	f.Seal()
	return f, nil
}
