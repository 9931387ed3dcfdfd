package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// ErrCheckpoint means that a file is no checkpoint, is damaged, or belongs to another run.
var ErrCheckpoint = errors.New("not a checkpoint of this run")

const format = "rfx-train/1"

// Header describes a checkpoint.
type Header struct {
	Model  json.RawMessage // of the Task
	Config Config
	Step   int
	Extra  map[string]string // of the program: vocabulary, data
}

// Save writes everything that a resumed run needs to a file, atomically.
func (t *Trainer) Save(file string, extra map[string]string) (err error) {
	f := &tensorfile.File{Metadata: map[string]string{"format": format, "step": strconv.Itoa(t.done)}}
	for name, v := range map[string]any{"model": t.Model, "config": t.Config} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		f.Metadata[name] = string(b)
	}
	for k, v := range extra {
		f.Metadata["x-"+k] = v
	}
	for _, v := range t.variables() {
		value, err := v.Value()
		if err != nil {
			return err
		}
		var raw []byte
		if err := value.ConstBytes(func(b []byte) { raw = slices.Clone(b) }); err != nil {
			return fmt.Errorf("%s: %w", v.Path(), err)
		}
		f.Tensors = append(f.Tensors, tensorfile.Tensor{Name: v.Path(), DType: "F32", Shape: v.Shape().Dimensions,
			Data: raw})
	}
	f.Seal()
	out, err := localfile.Create(file)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := f.WriteTo(out); err != nil {
		return err
	}
	return out.Commit()
}

// readFile reads a checkpoint and verifies its checksums.
func readFile(file string) (*tensorfile.File, Header, error) {
	var h Header
	b, err := localfile.Read(file, localfile.Format{Want: "a checkpoint of a training", Check: tensorfile.Sealed})
	if err != nil {
		return nil, h, err
	}
	f, err := tensorfile.Parse(b)
	if err != nil {
		return nil, h, fmt.Errorf("%s: %w", file, err)
	}
	if f.Metadata["format"] != format {
		return nil, h, fmt.Errorf("%s: format %q, want %s: %w", file, f.Metadata["format"], format, ErrCheckpoint)
	}
	if err := f.Verify(); err != nil {
		return nil, h, fmt.Errorf("%s: %w", file, err)
	}
	if h.Step, err = strconv.Atoi(f.Metadata["step"]); err != nil {
		return nil, h, fmt.Errorf("%s: step %q: %w", file, f.Metadata["step"], ErrCheckpoint)
	}
	for name, v := range map[string]any{"model": &h.Model, "config": &h.Config} {
		if err := json.NewDecoder(bytes.NewReader([]byte(f.Metadata[name]))).Decode(v); err != nil {
			return nil, h, fmt.Errorf("%s: %s: %w", file, name, errors.Join(err, ErrCheckpoint))
		}
	}
	h.Extra = map[string]string{}
	for k, v := range f.Metadata {
		if name, ok := strings.CutPrefix(k, "x-"); ok {
			h.Extra[name] = v
		}
	}
	return f, h, nil
}

// ReadHeader reads the description of a checkpoint.
func ReadHeader(file string) (Header, error) {
	_, h, err := readFile(file)
	return h, err
}

// Load reads the parameters of a checkpoint into a new store, to run the model without training.
func Load(file string) (*model.Store, Header, error) {
	f, h, err := readFile(file)
	if err != nil {
		return nil, h, err
	}
	store := model.NewStore()
	for _, x := range f.Tensors {
		if strings.HasPrefix(x.Name, "/"+optimizer+"/") || x.DType != "F32" {
			continue
		}
		value := tensors.FromShape(shapes.Make(dtypes.Float32, x.Shape...))
		if err := value.MutableBytes(func(b []byte) { copy(b, x.Data) }); err != nil {
			return nil, h, err
		}
		if _, err := store.CreateVariable(x.Name, value); err != nil {
			return nil, h, err
		}
	}
	return store, h, nil
}

// Resume continues where Save left off. Model and settings must be the same; the error names the differences. All
// variables are checked before the first is changed.
func (t *Trainer) Resume(file string) error {
	f, h, err := readFile(file)
	if err != nil {
		return err
	}
	if d := append(differences(h.Model, t.Model), differences(h.Config, t.Config)...); len(d) > 0 {
		return fmt.Errorf("%s: %s: %w", file, strings.Join(d, ", "), ErrCheckpoint)
	}
	for _, v := range t.variables() {
		x, ok := f.Tensor(v.Path())
		if !ok || x.DType != "F32" || !slices.Equal(x.Shape, v.Shape().Dimensions) {
			return missing(file, v)
		}
	}
	for _, v := range t.variables() {
		x, _ := f.Tensor(v.Path())
		value := tensors.FromShape(v.Shape())
		if err := value.MutableBytes(func(b []byte) { copy(b, x.Data) }); err != nil {
			return err
		}
		if err := v.SetValue(value); err != nil {
			return err
		}
	}
	t.done = h.Step
	return nil
}

// missing returns the error for a checkpoint that lacks a parameter.
func missing(file string, v *model.Variable) error {
	return fmt.Errorf("%s: no parameter %s of shape %v: %w", file, v.Path(), v.Shape().Dimensions, ErrCheckpoint)
}

// Adopt takes the parameters of a checkpoint of another run, to begin a fine-tuning. The model may attend in another
// way. M, learned projections and a new classification head keep their initial values; everything else must be there
// in the same shapes.
func (t *Trainer) Adopt(file string) error {
	f, h, err := readFile(file)
	if err != nil {
		return err
	}
	vocab := func(v any) (size struct{ Vocab int }) {
		b, _ := json.Marshal(v)
		_ = json.Unmarshal(b, &size) // a model may have none
		return size
	}
	if a, b := vocab(h.Model), vocab(t.Model); a != b {
		return fmt.Errorf("%s: a vocabulary of %d tokens, this model has %d: %w", file, a.Vocab, b.Vocab, ErrCheckpoint)
	}
	from := map[string][]float32{}
	for _, v := range t.variables() {
		if !v.Trainable || t.Model.Group(v.Path()) >= Kernel {
			continue
		}
		x, ok := f.Tensor(v.Path())
		if !ok && strings.HasPrefix(v.Path(), "/classes/") {
			continue
		}
		if !ok || !slices.Equal(x.Shape, v.Shape().Dimensions) {
			return missing(file, v)
		}
		value := tensors.FromShape(v.Shape())
		if err := value.MutableBytes(func(b []byte) { copy(b, x.Data) }); err != nil {
			return err
		}
		if from[v.Path()], err = tensors.CopyFlatData[float32](value); err != nil {
			return err
		}
	}
	return t.Put(from)
}

// Get returns a copy of all trained parameters by path.
func (t *Trainer) Get() (map[string][]float32, error) {
	all := map[string][]float32{}
	for _, v := range t.variables() {
		if !v.Trainable {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if all[v.Path()], err = tensors.CopyFlatData[float32](value); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Put sets the parameters that this model has and ignores others.
func (t *Trainer) Put(from map[string][]float32) error {
	for _, v := range t.variables() {
		x, ok := from[v.Path()]
		if !ok || !v.Trainable {
			continue
		}
		if len(x) != v.Shape().Size() {
			return fmt.Errorf("%d numbers for %s of shape %v: %w", len(x), v.Path(), v.Shape().Dimensions,
				ErrCheckpoint)
		}
		if err := v.SetValue(tensors.FromFlatDataAndDimensions(slices.Clone(x), v.Shape().Dimensions...)); err != nil {
			return err
		}
	}
	return nil
}

// differences lists the fields in which two settings differ, as text.
func differences(file, now any) []string {
	read := func(v any) map[string]any {
		b, _ := json.Marshal(v)
		var m map[string]any
		_ = json.Unmarshal(b, &m)
		return m
	}
	a, b := read(file), read(now)
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	var d []string
	for k := range keys {
		if fmt.Sprint(a[k]) != fmt.Sprint(b[k]) {
			d = append(d, fmt.Sprintf("%s is %v there and %v here", k, a[k], b[k]))
		}
	}
	slices.Sort(d)
	return d
}
