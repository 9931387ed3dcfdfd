// Package safetensors reads models in folders as Hugging Face publishes them: config.json, weights in one
// model.safetensors or in several with model.safetensors.index.json, and, of sentence-transformers, how tokens are
// pooled. Weights are mapped, not read.
package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/models/weights"
)

// File is an open folder.
type File struct {
	path    string // of the folder
	tensors map[string]tensorfile.Tensor
	names   []string
	config  weights.Config
	unmap   []func() error
}

var types = map[string]weights.Type{"F32": weights.F32, "F16": weights.F16, "BF16": weights.BF16}

const (
	configName = "config.json"
	indexName  = "model.safetensors.index.json"
	wholeName  = "model.safetensors"
	// maxJSON bounds what is read of a JSON file.
	maxJSON = 1 << 26
)

// Open opens a folder, or the folder of a weights file that is named.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	folder, only := path, ""
	if !info.IsDir() {
		folder, only = filepath.Dir(path), filepath.Base(path)
	}
	f := &File{path: path, tensors: map[string]tensorfile.Tensor{}}
	if err := f.open(folder, only); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) open(folder, only string) error {
	files, err := weightFiles(folder, only)
	if err != nil {
		return err
	}
	for name, holds := range files {
		if err := f.add(filepath.Join(folder, name), holds); err != nil {
			return err
		}
	}
	slices.Sort(f.names)
	return f.configure(folder)
}

// weightFiles are the names of the files with weights and, where an index tells, of the tensors that they hold.
func weightFiles(folder, only string) (map[string][]string, error) {
	if only != "" {
		return map[string][]string{only: nil}, nil
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	path := filepath.Join(folder, indexName)
	switch err := readJSON(path, &index); {
	case err == nil:
		files := map[string][]string{}
		for tensor, file := range index.Map {
			if file != filepath.Base(file) || file == "." || file == ".." || strings.ContainsAny(file, `/\`) {
				return nil, fmt.Errorf("%s: tensor %s is in %q, want a name of a file in this folder: %w", path, tensor,
					file, weights.ErrFormat)
			}
			files[file] = append(files[file], tensor)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: no weight_map: %w", path, weights.ErrFormat)
		}
		return files, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder, wholeName)); err == nil {
		return map[string][]string{wholeName: nil}, nil
	}
	return nil, fmt.Errorf("%s: no %s and no %s in this folder: %w", folder, wholeName, indexName, weights.ErrFormat)
}

// add maps a file of weights.
func (f *File) add(path string, holds []string) error {
	data, unmap, err := weights.Map(path)
	if err != nil {
		return err
	}
	f.unmap = append(f.unmap, unmap)
	if err := f.parse(path, data); err != nil {
		return err
	}
	for _, name := range holds {
		if _, ok := f.tensors[canonical(name)]; !ok {
			return weights.Missing(path, name)
		}
	}
	return nil
}

func (f *File) parse(path string, data []byte) error {
	c, err := tensorfile.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", path, weights.ErrFormat, err)
	}
	for _, t := range c.Tensors {
		name := canonical(t.Name)
		if _, twice := f.tensors[name]; twice {
			return fmt.Errorf("%s: a second tensor %s: %w", path, name, weights.ErrFormat)
		}
		f.tensors[name] = t
		f.names = append(f.names, name)
	}
	return nil
}

var mpnetNames = strings.NewReplacer(".attention.attn.q.", ".attention.self.query.", ".attention.attn.k.",
	".attention.self.key.", ".attention.attn.v.", ".attention.self.value.", ".attention.attn.o.",
	".attention.output.dense.", ".attention.LayerNorm.", ".attention.output.LayerNorm.")

// canonical is the name of a tensor without the prefix that models with a task's head have, and with BERT's names for
// MPNet's layers. Old conversions from TensorFlow call the parameters of norms gamma and beta.
func canonical(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "bert."), "mpnet.")
	name = mpnetNames.Replace(name)
	if s, ok := strings.CutSuffix(name, "LayerNorm.gamma"); ok {
		return s + "LayerNorm.weight"
	}
	if s, ok := strings.CutSuffix(name, "LayerNorm.beta"); ok {
		return s + "LayerNorm.bias"
	}
	return name
}

// Path is the name that was opened.
func (f *File) Path() string { return f.path }

// Config is the configuration of the model.
func (f *File) Config() weights.Config { return f.config }

// Names are the tensors' names, sorted.
func (f *File) Names() []string { return f.names }

// Tensor is the tensor of a name.
func (f *File) Tensor(name string) (weights.Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return weights.Tensor{}, weights.Missing(f.path, name)
	}
	kind, ok := types[t.DType]
	if !ok {
		return weights.Tensor{}, fmt.Errorf("%s: tensor %s has elements of type %s, which is not supported (F32, F16 and BF16 are): %w",
			f.path, name, t.DType, weights.ErrFormat)
	}
	return weights.Tensor{Name: name, Type: kind, Shape: t.Shape, Data: t.Data}, nil
}

// Close unmaps the files; tensors must no longer be used.
func (f *File) Close() error {
	var errs []error
	for _, unmap := range f.unmap {
		errs = append(errs, unmap())
	}
	f.unmap = nil
	return errors.Join(errs...)
}

// readJSON reads a JSON file of bounded length.
func readJSON(path string, v any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxJSON+1))
	if err != nil {
		return err
	}
	if len(b) > maxJSON {
		return fmt.Errorf("%s: more than %d bytes: %w", path, maxJSON, weights.ErrFormat)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, weights.ErrFormat, err)
	}
	return nil
}
