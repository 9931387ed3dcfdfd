package pretrained

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// Free reports an error if Save could not write to dir. Call it before long work.
func Free(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s is not empty: name a folder that is not there yet", dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Save writes the model to a folder that does not exist yet or is empty: the weights in float32, attention.json, and
// the other small files of the original folder (configuration, tokenizer, licence). The folder appears complete or not
// at all.
func (m *Model) Save(dir string) error {
	if err := Free(dir); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	tmp, err := os.MkdirTemp(parent, ".converted-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := m.copyOthers(tmp); err != nil {
		return err
	}
	if err := m.writeWeights(filepath.Join(tmp, "model.safetensors")); err != nil {
		return err
	}
	if len(m.Attention.Heads) > 0 || m.Attention.Centroids != nil {
		a, err := m.current()
		if err != nil {
			return err
		}
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(tmp, attentionFile), func(w io.Writer) error {
			_, err := w.Write(append(b, '\n'))
			return err
		}); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // dir may exist if it is empty
		return err
	}
	return os.Rename(tmp, dir)
}

// copyOthers copies the small files that are neither weights nor attention.json, also from subfolders, which
// sentence encoders have, one level deep.
func (m *Model) copyOthers(to string) error {
	return filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(m.dir, path)
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") || strings.ContainsRune(name, filepath.Separator) {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > 64<<20 || name == attentionFile ||
			slices.Contains([]string{".safetensors", ".bin", ".gguf", ".onnx"}, filepath.Ext(name)) ||
			strings.HasSuffix(name, ".safetensors.index.json") {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		src, err := os.Open(path)
		if err != nil {
			return err
		}
		defer src.Close()
		return write(filepath.Join(to, name), func(w io.Writer) error {
			_, err := io.Copy(w, src)
			return err
		})
	})
}

// write writes a file atomically.
func write(path string, fill func(io.Writer) error) error {
	f, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := fill(f); err != nil {
		return err
	}
	return f.Commit()
}

func (m *Model) writeWeights(path string) error {
	var names []string
	for name := range m.weights {
		var l int
		if _, err := fmt.Sscanf(name, darkFormat, &l); err != nil { // matrices M are stored in attention.json
			names = append(names, name)
		}
	}
	slices.Sort(names)
	file := &tensorfile.File{Metadata: map[string]string{"format": "pt"}} // other readers require this entry
	for _, name := range names {
		w := m.weights[name]
		b := make([]byte, 0, 4*len(w.data))
		for _, v := range w.data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		file.Tensors = append(file.Tensors, tensorfile.Tensor{Name: name, DType: "F32", Shape: w.shape, Data: b})
	}
	file.Seal()
	return write(path, func(w io.Writer) error {
		_, err := file.WriteTo(w)
		return err
	})
}

// current returns the attention with the present values of the matrices M, which training may have changed.
func (m *Model) current() (Attention, error) {
	a := m.Attention
	a.Heads = slices.Clone(a.Heads)
	for l, specs := range a.Heads {
		w, ok := m.weights[darkName(l)]
		if !ok {
			continue
		}
		a.Heads[l] = slices.Clone(specs)
		rows, cols := w.shape[1], w.shape[2]
		for h := range specs {
			f, ok := specs[h].Family.(family.DARK)
			if !ok {
				return a, fmt.Errorf("%w: layer %d, head %d: a matrix M without family dark", ErrModel, l, h)
			}
			f.M = dense.New[float64](rows, cols)
			for i, v := range w.data[h*rows*cols : (h+1)*rows*cols] {
				f.M.Row(i / cols)[i%cols] = float64(v)
			}
			a.Heads[l][h].Family = f
		}
	}
	return a, nil
}
