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
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/machine"
)

// A checkpoint is a safetensors container. Its metadata are
//
//	format    "randfeat checkpoint"
//	version   "4"
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
	checkpointVersion = 4
)

// checkpointShare limits the time spent on writing. The next checkpoint waits for this multiple of the time of the last
// one, so writing takes at most an eleventh of the fit, however large the sums and slow the disk. It is a variable so
// that tests can write many.
var checkpointShare time.Duration = 10

// checkpoint is the file of one fit.
type checkpoint struct {
	source, options string // what it must have been written for
	wrote           time.Time
	wait            time.Duration
	read            rowHash // of the rows taken in
	failed          bool    // a version could not be written, which was said
}

// checkpointState is the metadata "state".
type checkpointState struct {
	Schema   *data.Schema  `json:"schema"`
	Base     *data.Schema  `json:"base,omitempty"` // the columns before levels got codes
	Summary  *data.Summary `json:"summary,omitempty"`
	Decision *decision     `json:"decision"`
	Stages   []Stage       `json:"stages"`
	Rows     int64         `json:"rows"`           // in the sums
	Hash     uint64        `json:"hash"`           // of these rows, or of all in a logistic regression
	Held     []int         `json:"held,omitempty"` // rows that wait, by fold
	// Unit is the one that is being read, and Nodes has the number of children of every node of the tree, of a table of
	// several units with one fold.
	Unit  int   `json:"unit,omitempty"`
	Nodes []int `json:"nodes,omitempty"`
	// Logistic is set once there was a step.
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

// resume restores schema, summary, decision and sums from a checkpoint of the same fit and reports whether there was
// one. A checkpoint that does not match is an error and is left alone: starting over silently would overwrite hours of
// work because of a mistyped option.
func (f *fit) resume() (bool, error) {
	path := f.o.Checkpoint
	if path == "" {
		return false, nil
	}
	source, err := sourceIdentity(f.src)
	if err != nil {
		return false, err
	}
	options, err := f.o.identity()
	if err != nil {
		return false, err
	}
	f.file = checkpoint{source: source, options: options, wrote: time.Now(), wait: f.o.CheckpointEvery}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// Reading a pipe would wait for its writer, and /dev/full has no end.
		return false, fmt.Errorf("checkpoint: %s is not a regular file: name another", path)
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Found now, a mistyped directory is an error; later, one that is gone is a warning.
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return false, fmt.Errorf("checkpoint: %w", err)
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	if err := f.load(b); err != nil {
		return false, fmt.Errorf("checkpoint %s: %w; to begin anew delete the file, or name another", path, err)
	}
	return true, nil
}

// load sets f to the state of a checkpoint.
func (f *fit) load(b []byte) error {
	c, err := tensorfile.Parse(b)
	if err != nil {
		return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if v := c.Metadata["format"]; v != checkpointFormat {
		return fmt.Errorf("%w: format %q, want %q", machine.ErrCorrupt, v, checkpointFormat)
	}
	if v := c.Metadata["version"]; v != strconv.Itoa(checkpointVersion) {
		return fmt.Errorf("%w: version %q of the format, this program reads %d", machine.ErrCorrupt, v,
			checkpointVersion)
	}
	if err := c.Verify(); err != nil {
		return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	if err := differs("table", c.Metadata["source"], f.file.source); err != nil {
		return err
	}
	if err := differs("options", c.Metadata["options"], f.file.options); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(c.Metadata["state"])))
	dec.DisallowUnknownFields()
	var s checkpointState
	if err := dec.Decode(&s); err != nil {
		return fmt.Errorf("%w: state: %w", machine.ErrCorrupt, err)
	}
	if s.Schema == nil || s.Decision == nil || s.Decision.Spec.Dim != s.Schema.Width() || s.Rows < 0 ||
		s.Rows > s.Decision.Rows {
		return fmt.Errorf("%w: a state without schema or decisions, or with %d rows", machine.ErrCorrupt, s.Rows)
	}
	f.schema, f.base, f.summary, f.decision = s.Schema, s.Base, s.Summary, s.Decision
	if err := f.settle(); err != nil {
		return err
	}
	if t, ok := c.Tensor("landmarks"); ok {
		if !slices.Equal(t.Shape, []int{s.Decision.Spec.M, s.Decision.Spec.Dim}) {
			return fmt.Errorf("%w: landmarks of shape %v", machine.ErrCorrupt, t.Shape)
		}
		marks := dense.New[float64](t.Shape[0], t.Shape[1])
		if err := fill(c, "landmarks", marks); err != nil {
			return err
		}
		f.decision.marks = []coupling.Omega{{Rows: marks}}
	}
	switch {
	case s.Logistic != nil:
		err = f.loadLogistic(c, &s)
	case len(s.Held) > 0:
		err = f.loadSums(c, &s)
	}
	if err != nil {
		return err
	}
	if s.Summary != nil {
		f.report.Notes = slices.Clone(s.Summary.Notes)
	}
	f.report.Stages, f.report.Resumed = s.Stages, s.Rows
	f.file.read = rowHash{expected: s.Hash, until: s.Rows}
	return nil
}

func (f *fit) loadSums(c *tensorfile.File, s *checkpointState) error {
	setup := f.setup(s.Decision.Spec)
	var err error
	if setup.Omega, err = f.drawn(); err != nil {
		return err
	}
	if len(s.Held) > maxFolds {
		return fmt.Errorf("%w: %d folds", machine.ErrCorrupt, len(s.Held))
	}
	sums := &foldSums{kind: f.kind, setup: setup, deal: f.deal, past: f.deal.ordered(), rows: s.Rows,
		parts: make([]foldPart, len(s.Held))}
	total := int64(0)
	for k, held := range s.Held {
		p := &sums.parts[k]
		t, ok := c.Tensor("sums." + strconv.Itoa(k))
		if !ok {
			return fmt.Errorf("%w: no sums of fold %d", machine.ErrCorrupt, k)
		}
		if p.Sums, err = machine.UnmarshalSums(f.kind, setup, t.Data); err != nil {
			return err
		}
		p.wait(setup)
		if held < 0 || held >= setup.Block {
			return fmt.Errorf("%w: %d rows of fold %d wait for a block of %d", machine.ErrCorrupt, held, k, setup.Block)
		}
		p.held = held
		if err := fill(c, "x."+strconv.Itoa(k), p.x.RowRange(0, held)); err != nil {
			return err
		}
		if err := fill(c, "y."+strconv.Itoa(k), p.y.RowRange(0, held)); err != nil {
			return err
		}
		total += p.Len() + int64(held)
	}
	if sums.along(newLeaves(f.src)); sums.leaves != nil {
		n, err := sums.leaves.load(c, s)
		if err != nil {
			return err
		}
		total += n
	} else if s.Unit != 0 || s.Nodes != nil {
		return fmt.Errorf("%w: sums of unit %d of a table of one, or of several folds", machine.ErrCorrupt, s.Unit)
	}
	if total != s.Rows {
		return fmt.Errorf("%w: %d rows in the folds, want %d", machine.ErrCorrupt, total, s.Rows)
	}
	f.sums = sums
	return nil
}

// load reads the nodes of the tree, and returns the number of their rows.
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
		if !ok || n < 0 || n >= data.LeafFan {
			return 0, fmt.Errorf("%w: no sums of the node of level %d with %d children", machine.ErrCorrupt, level, n)
		}
		sums, err := machine.SumsLike(l.p.Sums)
		if err == nil {
			err = machine.ReadSums(sums, bytes.NewReader(t.Data), int64(len(t.Data)))
		}
		if err != nil {
			return 0, err
		}
		l.tree.Nodes[level] = sums
		rows += sums.Len()
	}
	return rows, nil
}

func (f *fit) loadLogistic(c *tensorfile.File, s *checkpointState) error {
	if f.info.Summed() || s.Rows != s.Decision.Rows {
		return fmt.Errorf("%w: steps of a logistic regression on %d of %d rows for a %s model", machine.ErrCorrupt,
			s.Rows,
			s.Decision.Rows, f.kind)
	}
	l := &machine.LogisticState{Iterations: s.Logistic.Iterations, Passes: s.Logistic.Passes, Loss: s.Logistic.Loss}
	for _, x := range []struct {
		name string
		to   *[][]float64
	}{{"points", &l.Points}, {"gradients", &l.Gradients}} {
		t, ok := c.Tensor(x.name)
		if !ok || len(t.Shape) != 2 {
			return fmt.Errorf("%w: no %s", machine.ErrCorrupt, x.name)
		}
		v, err := t.Floats()
		if err != nil {
			return fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
		}
		for i := range t.Shape[0] {
			*x.to = append(*x.to, v[i*t.Shape[1]:][:t.Shape[1]])
		}
	}
	f.logistic = l // FitLogistic checks it
	return nil
}

// fill copies a tensor to m, whose shape it must have.
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

// save writes a checkpoint if one is due, or immediately if now is set. Before the choices are made, only two passes
// could be lost, so there is none. A checkpoint that cannot be written, for example on a full disk, does not end the
// fit. The first failure is a warning and a note; later versions are still tried.
func (f *fit) save(now bool) {
	if f.o.Checkpoint == "" || f.decision == nil || !now && time.Since(f.file.wrote) < f.file.wait {
		return
	}
	began := time.Now()
	err := f.write()
	f.file.wrote = time.Now()
	f.file.wait = max(f.o.CheckpointEvery, checkpointShare*time.Since(began))
	if err != nil && !f.file.failed {
		f.file.failed = true
		f.note("%v: the fit goes on, but an interruption loses what it did since the last checkpoint", err)
		if f.o.Warn != nil {
			f.o.Warn(f.report.Notes[len(f.report.Notes)-1])
		}
	}
}

// write writes a checkpoint now. It takes as much memory again as the sums.
func (f *fit) write() error {
	if f.o.Checkpoint == "" || f.decision == nil {
		return nil
	}
	c, err := f.snapshot()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	out, err := localfile.Create(f.o.Checkpoint)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer out.Abort()
	if _, err := c.WriteTo(out); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// snapshot is the container of what is known now.
func (f *fit) snapshot() (*tensorfile.File, error) {
	s := checkpointState{Schema: f.schema, Base: f.base, Summary: f.summary, Decision: f.decision,
		Stages: f.report.Stages}
	if i := slices.IndexFunc(s.Stages, func(s Stage) bool { return s.Name == stageFit }); i >= 0 {
		s.Stages = s.Stages[:i] // that one begins again
	}
	var tensors []tensorfile.Tensor
	if f.decision.marks != nil {
		m := f.decision.marks[0].Rows
		tensors = append(tensors, tensorfile.Floats("landmarks", m.Data, m.Rows, m.Cols))
	}
	switch {
	case f.logistic != nil:
		l := f.logistic
		s.Logistic = &checkpointSteps{Iterations: l.Iterations, Passes: l.Passes, Loss: l.Loss}
		s.Rows, s.Hash = f.decision.Rows, f.file.read.of(f.decision.Rows)
		n := len(l.Points)
		tensors = append(tensors, tensorfile.Floats("points", slices.Concat(l.Points...), n, len(l.Points[0])),
			tensorfile.Floats("gradients", slices.Concat(l.Gradients...), n, len(l.Points[0])))
	case f.sums != nil:
		s.Rows, s.Hash = f.sums.rows, f.file.read.of(f.sums.rows)
		for k := range f.sums.parts {
			p := &f.sums.parts[k]
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
		if l := f.sums.leaves; l != nil {
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
	c := &tensorfile.File{Tensors: tensors, Metadata: map[string]string{"format": checkpointFormat,
		"version": strconv.Itoa(checkpointVersion),
		"source":  f.file.source, "options": f.file.options, "state": string(state)}}
	c.Seal()
	return c, nil
}
