// Package safetensors reads models from folders in the layout of Hugging Face: config.json, the weights in
// model.safetensors or in several files with model.safetensors.index.json, and for sentence-transformers the files
// that say how tokens are pooled.
//
//	f, err := safetensors.Open("all-MiniLM-L6-v2")
//	defer f.Close()
//	t, err := f.Tensor("embeddings.word_embeddings.weight")
//
// Weights are memory-mapped: tensors are valid until Close.
package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/models/weights"
)

// File is an open folder; it implements [weights.File].
type File struct {
	path    string // of the folder
	tensors map[string]tensorfile.Tensor
	names   []string
	config  weights.Config
	source  *weights.Source
}

var types = map[string]weights.Type{"F32": weights.F32, "F16": weights.F16, "BF16": weights.BF16}

const (
	configName = "config.json"
	indexName  = "model.safetensors.index.json"
	wholeName  = "model.safetensors"
	// maxJSON is the largest JSON file that is read, in bytes.
	maxJSON = 1 << 26
)

// Open opens a folder. If path is a file of weights, Open uses its folder but reads the weights from this file
// alone.
func Open(path string) (*File, error) { return within(path, OpenIn) }

// OpenTensors is Open without config.json, for architectures that this module does not run: Config is zero.
func OpenTensors(path string) (*File, error) { return within(path, open) }

func within(path string, open func(*weights.Source, string) (*File, error)) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	folder, only := path, ""
	if !info.IsDir() {
		folder, only = filepath.Dir(path), filepath.Base(path)
	}
	return open(weights.Folder(folder), only)
}

// OpenIn is Open for a source, which it closes on Close and on an error. only, if not empty, is the file of weights.
func OpenIn(src *weights.Source, only string) (*File, error) {
	f, err := open(src, only)
	if err != nil {
		return nil, err
	}
	if err := f.configure(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func open(src *weights.Source, only string) (*File, error) {
	files, err := weightFiles(src, only)
	if err != nil {
		return nil, err
	}
	f := &File{path: src.Path(only), tensors: map[string]tensorfile.Tensor{}, source: src}
	for name, holds := range files {
		if err := f.add(name, holds); err != nil {
			f.Close()
			return nil, err
		}
	}
	slices.Sort(f.names)
	return f, nil
}

// weightFiles maps the names of the files of weights to the tensors that the index says they hold. Without an index
// the tensors are nil.
func weightFiles(src *weights.Source, only string) (map[string][]string, error) {
	if only != "" {
		return map[string][]string{only: nil}, nil
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	path := src.Path(indexName)
	switch err := src.ReadJSON(indexName, maxJSON, &index); {
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
	if src.Has(wholeName) {
		return map[string][]string{wholeName: nil}, nil
	}
	return nil, fmt.Errorf("%s: no %s and no %s in this folder: %w", src.Name, wholeName, indexName, weights.ErrFormat)
}

// add maps a file of weights and checks that it holds the tensors that the index promised.
func (f *File) add(file string, holds []string) error {
	data, err := f.source.Map(file)
	if err != nil {
		return err
	}
	path := f.source.Path(file)
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
			return fmt.Errorf("%s: a second tensor %s: %w", path, t.Name, weights.ErrFormat)
		}
		f.tensors[name] = t
		f.names = append(f.names, name)
	}
	return nil
}

var mpnetNames = strings.NewReplacer(".attention.attn.q.", ".attention.self.query.", ".attention.attn.k.",
	".attention.self.key.", ".attention.attn.v.", ".attention.self.value.", ".attention.attn.o.",
	".attention.output.dense.", ".attention.LayerNorm.", ".attention.output.LayerNorm.")

// canonical removes the prefix that models with a task head have and gives MPNet's layers the names of BERT's. Old
// conversions from TensorFlow call the parameters of norms gamma and beta.
func canonical(name string) string {
	// Decoders keep theirs; transformer is GPT-2's.
	for _, prefix := range []string{"bert.", "roberta.", "mpnet.", "transformer."} {
		name = strings.TrimPrefix(name, prefix)
	}
	name = mpnetNames.Replace(name)
	if s, ok := strings.CutSuffix(name, "LayerNorm.gamma"); ok {
		return s + "LayerNorm.weight"
	}
	if s, ok := strings.CutSuffix(name, "LayerNorm.beta"); ok {
		return s + "LayerNorm.bias"
	}
	return name
}

// Path returns the name that was opened.
func (f *File) Path() string { return f.path }

// Config returns the configuration of the model.
func (f *File) Config() weights.Config { return f.config }

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string { return f.names }

// Tensor returns the named tensor.
func (f *File) Tensor(name string) (weights.Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return weights.Tensor{}, weights.Missing(f.path, name)
	}
	kind, ok := types[t.DType]
	if !ok {
		return weights.Tensor{}, fmt.Errorf("%s: tensor %s has elements of type %s, which is not supported (F32, F16 and BF16 are): %w",
			f.path, t.Name, t.DType, weights.ErrFormat)
	}
	return weights.Tensor{Name: t.Name, Type: kind, Shape: t.Shape, Data: t.Data}, nil
}

// Close unmaps the files. Tensors must not be used afterwards.
func (f *File) Close() error { return f.source.Close() }

// Release gives the memory of mapped pages back; they are read again when they are used.
func (f *File) Release() { f.source.Release() }
