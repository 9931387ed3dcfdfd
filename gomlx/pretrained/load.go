package pretrained

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/internal/half"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// Model is a pretrained Transformer in memory.
type Model struct {
	Config
	// Attention says how heads attend. The zero value is exact attention.
	Attention Attention
	// Unused lists tensors of the folder that the architecture does not have, e.g. those of heads for other tasks.
	Unused []string

	dir     string
	weights map[string]weight
}

type weight struct {
	shape []int
	data  []float32
}

// scopeName is the scope of a store that holds the weights of a model.
const scopeName = "pretrained"

// Load reads the folder of a model. All tensors of the architecture must be there with their shapes.
func Load(dir string) (*Model, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: c, dir: dir, weights: map[string]weight{}}
	want := map[string][]int{}
	for _, t := range c.weights() {
		want[t.name] = t.shape
	}
	files, err := containers(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if err := m.read(filepath.Join(dir, name), want); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	var missing []string
	for name := range want {
		if _, ok := m.weights[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("%w: %s has no tensor %s (%d of %d are missing)", ErrModel, dir, missing[0],
			len(missing), len(want))
	}
	slices.Sort(m.Unused)
	return m, m.readAttention()
}

// containers returns the names of the safetensors files of a folder.
func containers(dir string) ([]string, error) {
	const whole, list = "model.safetensors", "model.safetensors.index.json"
	b, err := os.ReadFile(filepath.Join(dir, list))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, whole)); err != nil {
			return nil, fmt.Errorf("%w: %s has neither %s nor %s", ErrModel, dir, whole, list)
		}
		return []string{whole}, nil
	}
	if err != nil {
		return nil, err
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil || len(index.Map) == 0 {
		return nil, fmt.Errorf("%w: %s: no weight_map", ErrModel, filepath.Join(dir, list))
	}
	var files []string
	for _, name := range index.Map {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("%w: %s names the file %q outside the folder", ErrModel, list, name)
		}
		if !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files, nil
}

// read reads the tensors of one file that the architecture wants. A wanted dimension of −1 accepts any size.
func (m *Model) read(path string, want map[string][]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	x, err := tensorfile.Read(f, info.Size())
	if err != nil {
		return err
	}
	for _, t := range x.Tensors {
		name := strings.TrimPrefix(t.Name, m.prefix())
		shape, ok := want[name]
		if !ok {
			m.Unused = append(m.Unused, t.Name)
			continue
		}
		same := len(shape) == len(t.Shape)
		for i := range shape {
			same = same && (shape[i] == t.Shape[i] || shape[i] < 0 && t.Shape[i] > 0)
		}
		if !same {
			return fmt.Errorf("%w: tensor %s is %v, config.json says %v", ErrModel, t.Name, t.Shape, shape)
		}
		if _, twice := m.weights[name]; twice {
			return fmt.Errorf("%w: tensor %s is there twice", ErrModel, name)
		}
		full, _, err := x.Tensor(t.Name)
		if err != nil {
			return err
		}
		data, err := floats(full)
		if err != nil {
			return err
		}
		m.weights[name] = weight{t.Shape, data}
	}
	return nil
}

// floats returns the elements of a tensor in float32. A number that is not finite is an error, because it would
// spread to all outputs.
func floats(t tensorfile.Tensor) ([]float32, error) {
	size := map[string]int{"F32": 4, "F16": 2, "BF16": 2}[t.DType]
	if size == 0 {
		return nil, fmt.Errorf("%w: tensor %s has elements of type %s, want F32, F16 or BF16", ErrModel, t.Name, t.DType)
	}
	x := make([]float32, len(t.Data)/size)
	for i := range x {
		switch b := t.Data[size*i:]; t.DType {
		case "F32":
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		case "F16":
			x[i] = half.Float(binary.LittleEndian.Uint16(b))
		default:
			x[i] = half.Brain(binary.LittleEndian.Uint16(b))
		}
		if v := float64(x[i]); math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%w: tensor %s has the element %v", ErrModel, t.Name, v)
		}
	}
	return x, nil
}

// Fill puts the weights into a store, as variables of the scope "pretrained" under their published names. Variables
// that exist already are kept, so that a store from a checkpoint continues where it was.
func (m *Model) Fill(store *model.Store) error { return m.fill(store, scopeName) }

func (m *Model) fill(store *model.Store, name string) error {
	scope := store.Scope("/" + name)
	for name, w := range m.weights {
		if scope.GetVariable(name) != nil {
			continue
		}
		if _, err := scope.CreateVariable(name, tensors.FromFlatDataAndDimensions(w.data, w.shape...)); err != nil {
			return err
		}
	}
	return nil
}
