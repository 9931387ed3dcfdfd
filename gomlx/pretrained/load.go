package pretrained

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/models/safetensors"
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
	if err := m.read(want); err != nil {
		return nil, err
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

// read reads the tensors of the folder that the architecture wants. A wanted dimension of −1 accepts any size. A number
// that is not finite is an error, because it would spread to all outputs.
func (m *Model) read(want map[string][]int) error {
	f, err := safetensors.OpenTensors(m.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	for _, name := range f.Names() {
		shape, ok := want[name]
		if !ok {
			m.Unused = append(m.Unused, name)
			continue
		}
		t, err := f.Tensor(name)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrModel, err)
		}
		same := len(shape) == len(t.Shape)
		for i := range shape {
			same = same && (shape[i] == t.Shape[i] || shape[i] < 0 && t.Shape[i] > 0)
		}
		if !same {
			return fmt.Errorf("%w: %s: tensor %s is %v, config.json says %v", ErrModel, m.dir, name, t.Shape, shape)
		}
		data := t.Floats(nil)
		for _, v := range data {
			if v-v != 0 { // NaN and ±Inf
				return fmt.Errorf("%w: %s: tensor %s has the element %v", ErrModel, m.dir, name, v)
			}
		}
		m.weights[name] = weight{t.Shape, data}
	}
	return nil
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
