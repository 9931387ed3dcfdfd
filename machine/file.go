package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// A model file is a safetensors container. Its metadata are
//
//	format    "randfeat model"
//	version   "2"; "1" had no ranges, constants, booleans and encodings in its schema
//	spec      the JSON of Model.Spec
//	model     {"kind":…,"task":…,"outputs":…,"rows":…,"lambda":…,"fast":[…]}
//	schema    the JSON of Model.Schema, if there is one
//	history   the JSON of Model.History, if there is one
//	sketch    Model.Sketch, if there is one
//	sha256    of the bytes of all tensors; sha256_metadata of everything else
//
// and Model.Extra. Tensors are float64: omega.0, omega.1, …, and the non-empty fields of Model.
const (
	fileFormat  = "randfeat model"
	fileVersion = 2
)

var reserved = []string{"format", "version", "spec", "model", "schema", "history", "sketch", "sha256",
	"sha256_metadata"}

// facts is the metadata "model".
type facts struct {
	Kind    Kind    `json:"kind"`
	Task    Task    `json:"task"`
	Outputs int     `json:"outputs"`
	Rows    int64   `json:"rows"`
	Lambda  float64 `json:"lambda"`
	Weight  float64 `json:"weight,omitempty"`
	// Fast says which projections are structured. The file stores their rows; redraw restores the fast form.
	Fast []bool `json:"fast"`
	// IntervalBy is the column whose levels have prediction intervals of their own.
	IntervalBy string `json:"interval_by,omitempty"`
}

// field is a tensor of a model file: one of matrix and vector is set.
type field struct {
	name   string
	matrix *dense.Matrix[float64]
	vector *[]float64
}

// fields lists the tensors besides the projections. Their order is the order in the file, so it must not change.
func (m *Model) fields() []field {
	return []field{
		{name: "weights", matrix: &m.Weights}, {name: "intercept", vector: &m.Intercept},
		{name: "noise", vector: &m.Noise}, {name: "centre", vector: &m.Centre}, {name: "factor", matrix: &m.Factor},
		{name: "log_scale", vector: &m.LogScale}, {name: "mass", vector: &m.Mass},
		{name: "calibration", vector: &m.Calibration}, {name: "residuals", matrix: &m.Residuals},
		{name: "residuals_by", matrix: &m.GroupResiduals},
		{name: "quantiles", vector: &m.Quantiles},
	}
}

func omegaName(i int) string { return "omega." + strconv.Itoa(i) }

// WriteTo writes the model file.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	f, err := m.file()
	if err != nil {
		return 0, err
	}
	return f.WriteTo(w)
}

// Save writes the model file to path, in one step: readers see the old file or the new one.
func (m *Model) Save(path string) error {
	f, err := m.file()
	if err != nil {
		return err
	}
	out, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := f.WriteTo(out); err != nil {
		return err // names the path
	}
	return out.Commit()
}

// file validates the model and builds its container, with checksums.
func (m *Model) file() (*tensorfile.File, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	spec, err := json.Marshal(m.Spec)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	head := facts{m.Kind, m.Task, m.Outputs, m.Rows, m.Lambda, m.Weight, []bool{}, m.IntervalBy}
	f := &tensorfile.File{Metadata: map[string]string{"format": fileFormat, "version": strconv.Itoa(fileVersion),
		"spec": string(spec)}}
	for i, o := range m.Omega {
		head.Fast = append(head.Fast, o.Fast != nil)
		f.Tensors = append(f.Tensors, tensorfile.Floats(omegaName(i), o.Rows.Clone().Data, o.Rows.Rows, o.Rows.Cols))
	}
	for _, x := range m.fields() {
		switch {
		case x.matrix != nil && !x.matrix.IsEmpty():
			f.Tensors = append(f.Tensors, tensorfile.Floats(x.name, x.matrix.Clone().Data, x.matrix.Rows,
				x.matrix.Cols))
		case x.vector != nil && len(*x.vector) > 0:
			f.Tensors = append(f.Tensors, tensorfile.Floats(x.name, *x.vector, len(*x.vector)))
		}
	}
	b, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	f.Metadata["model"] = string(b)
	if m.Schema != nil {
		if b, err = json.Marshal(m.Schema); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		f.Metadata["schema"] = string(b)
	}
	if m.History != nil {
		if b, err = json.Marshal(m.History); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		f.Metadata["history"] = string(b)
	}
	if m.Sketch != nil {
		if b, err = m.Sketch.MarshalText(); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		f.Metadata["sketch"] = string(b)
	}
	for k, v := range m.Extra {
		if slices.Contains(reserved, k) {
			return nil, fmt.Errorf("extra string with the reserved name %q: %w", k, ErrSetup)
		}
		f.Metadata[k] = v
	}
	f.Seal()
	return f, nil
}

// ReadFile returns the bytes of a model file, for [Read]. It reads a file only if the header says that it is a model of
// a known version, the header's checksum is right, and the sizes of the tensors add up to the length of the file.
// Pipes and devices are refused.
func ReadFile(path string) ([]byte, error) {
	return localfile.Read(path, localfile.Format{Want: "a model file", Check: checkFile})
}

// checkFile checks the header of a model file of size bytes.
func checkFile(r io.ReaderAt, size int64) error {
	var head [9]byte
	if n, err := r.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return err
	} else if !mayBeModel(head[:n]) {
		return notModel{}
	}
	x, err := tensorfile.Read(r, size)
	if err == nil {
		if err = checkVersion(x.Metadata); err == nil {
			err = x.Verify()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// mayBeModel looks at the beginning of a file: the length of the header, then a JSON object. It leaves an empty file to
// the parser.
func mayBeModel(b []byte) bool { return len(b) == 0 || len(b) > 8 && b[8] == '{' }

// checkVersion checks the name and the version of the format.
func checkVersion(metadata map[string]string) error {
	if v := metadata["format"]; v != fileFormat {
		return fmt.Errorf("format %q, want %q", v, fileFormat)
	}
	if v, err := strconv.Atoi(metadata["version"]); err != nil || v < 1 || v > fileVersion {
		return fmt.Errorf("version %q of the format, this program reads 1 to %d", metadata["version"], fileVersion)
	}
	return nil
}

// Load reads a model file.
func Load(path string) (*Model, error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Read(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Read reads a model file from its bytes. Everything is checked before use: bytes that are not a model file, or a
// damaged one, are [ErrCorrupt]. Memory is bounded by a multiple of len(b).
func Read(b []byte) (*Model, error) {
	m, err := read(b)
	if errors.As(err, new(notModel)) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return m, nil
}

// notModel is the error of a file that was never a model file. It is [ErrCorrupt] for programs.
type notModel struct{}

func (notModel) Error() string { return "not a model file (randfeat fit writes them)" }
func (notModel) Unwrap() error { return ErrCorrupt }

// read parses and checks a model file. Checksums are verified before any content is interpreted; Validate then checks
// that everything fits together.
func read(b []byte) (*Model, error) {
	if !mayBeModel(b) {
		return nil, notModel{}
	}
	f, err := tensorfile.Parse(b)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(f.Metadata); err != nil {
		return nil, err
	}
	if err := f.Verify(); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(f.Metadata["model"])))
	dec.DisallowUnknownFields()
	var head facts
	if err := dec.Decode(&head); err != nil {
		return nil, fmt.Errorf("metadata \"model\": %w", err)
	}
	m := &Model{Kind: head.Kind, Task: head.Task, Outputs: head.Outputs, Rows: head.Rows, Lambda: head.Lambda,
		Weight: head.Weight, IntervalBy: head.IntervalBy}
	if err := json.Unmarshal([]byte(f.Metadata["spec"]), &m.Spec); err != nil {
		return nil, err
	}
	if text, ok := f.Metadata["schema"]; ok {
		m.Schema = new(data.Schema)
		if err := m.Schema.UnmarshalJSON([]byte(text)); err != nil {
			return nil, fmt.Errorf("metadata \"schema\": %w", err)
		}
	}
	if text, ok := f.Metadata["history"]; ok {
		m.History = new(History)
		if err := json.Unmarshal([]byte(text), m.History); err != nil {
			return nil, fmt.Errorf("metadata \"history\": %w", err)
		}
	}
	if text, ok := f.Metadata["sketch"]; ok {
		m.Sketch = new(RowSketch)
		if err := m.Sketch.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("metadata \"sketch\": %w", err)
		}
	}
	for k, v := range f.Metadata {
		if !slices.Contains(reserved, k) {
			if m.Extra == nil {
				m.Extra = map[string]string{}
			}
			m.Extra[k] = v
		}
	}
	if err := m.readTensors(f, len(head.Fast)); err != nil {
		return nil, err
	}
	if len(m.Omega) > 0 && m.Spec.M < 1 {
		return nil, fmt.Errorf("metadata \"spec\": m = %d, want at least 1", m.Spec.M)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if slices.Contains(head.Fast, true) {
		m.redraw()
	}
	return m, nil
}

// readTensors sets the projections and the fields of m. A tensor with an unknown name is an error.
func (m *Model) readTensors(f *tensorfile.File, draws int) error {
	used := 0
	m.Omega = make([]coupling.Omega, 0, draws) // empty for families without projections, as they draw it
	for ; used < draws; used++ {
		t, ok := f.Tensor(omegaName(used))
		if !ok {
			return fmt.Errorf("no tensor %s", omegaName(used))
		}
		a, err := matrixOf(t)
		if err != nil {
			return err
		}
		if err := a.CheckFinite(); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		m.Omega = append(m.Omega, coupling.Omega{Rows: a})
	}
	for _, x := range m.fields() {
		t, ok := f.Tensor(x.name)
		if !ok {
			continue
		}
		used++
		var err error
		if x.matrix != nil {
			*x.matrix, err = matrixOf(t)
		} else if *x.vector, err = t.Floats(); err == nil && len(t.Shape) != 1 {
			err = fmt.Errorf("tensor %s has %d dimensions, want 1: %w", t.Name, len(t.Shape), dense.ErrShape)
		}
		if err != nil {
			return err
		}
	}
	if used != len(f.Tensors) {
		return fmt.Errorf("%d tensors, %d are known", len(f.Tensors), used)
	}
	return nil
}

func matrixOf(t tensorfile.Tensor) (dense.Matrix[float64], error) {
	if len(t.Shape) != 2 {
		return dense.Matrix[float64]{}, fmt.Errorf("tensor %s has %d dimensions, want 2: %w", t.Name, len(t.Shape),
			dense.ErrShape)
	}
	x, err := t.Floats()
	return dense.Matrix[float64]{Rows: t.Shape[0], Cols: t.Shape[1], Stride: t.Shape[1], Data: x}, err
}

// redraw restores the fast form of structured projections, which the file does not contain, by drawing them again from
// the spec. The fast form is used only if its numbers equal those of the file; another machine may draw other last
// bits.
func (m *Model) redraw() {
	if m.Spec.M != m.Omega[0].Rows.Rows {
		return
	}
	drawn, err := randfeat.Draw(m.Spec)
	if err != nil || len(drawn) != len(m.Omega) {
		return
	}
	for i, o := range drawn {
		if o.Fast != nil && slices.Equal(o.Rows.Clone().Data, m.Omega[i].Rows.Data) {
			m.Omega[i].Fast = o.Fast
		}
	}
}

// fileInfo describes a model file whose contents have been verified.
type fileInfo struct {
	Version        int    // version of the format
	Bytes          int64  // size of the file
	TensorsSHA256  string // hash of the tensors
	MetadataSHA256 string // hash of everything else
	Tensors        []TensorInfo
}

// TensorInfo describes a tensor of a model file.
type TensorInfo struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

// LoadInfo is Load with a description of the file.
func LoadInfo(path string) (*Model, *fileInfo, error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := Read(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := tensorfile.Parse(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	version, err := strconv.Atoi(f.Metadata["version"])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", path, ErrCorrupt, err)
	}
	info := &fileInfo{Version: version, Bytes: int64(len(b)), TensorsSHA256: f.Metadata["sha256"],
		MetadataSHA256: f.Metadata["sha256_metadata"]}
	for _, t := range f.Tensors {
		info.Tensors = append(info.Tensors, TensorInfo{t.Name, t.Shape})
	}
	return m, info, nil
}
