package tabular

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/machine"
)

// identity returns the options that affect the result as JSON: all but Progress, Warn and those of the checkpoint
// itself. An option that is missing here would let a fit resume from the checkpoint of another fit. Keys are sorted, so
// equal options give equal bytes and a difference can be named.
func (o Options) identity() (string, error) {
	m := map[string]any{"columns": o.Learn, "schema": o.Schema, "model": o.Kind, "bandwidth": o.Bandwidth,
		"lambda":   o.Lambda,
		"features": o.Features, "budget": o.Budget, "class weights": o.ClassWeights, "seed": o.Seed, "folds": o.Folds,
		"sample":  o.Sample,
		"float32": o.Float32, "block": o.Block, "map": o.Map, "kernel": o.Kernel, "scaling": o.Scaling,
		"loss": o.Loss, "marks": o.Marks, "keep": o.Keep, "quick": o.Quick}
	if o.Memory > 0 {
		m["memory"] = o.Memory
	}
	for name, encode := range map[string]func() ([]byte, error){
		"family":   func() ([]byte, error) { return family.Encode(o.Family) },
		"coupling": func() ([]byte, error) { return coupling.Encode(o.Coupling) },
	} {
		if name == "family" && o.Family == nil || name == "coupling" && o.Coupling == nil {
			continue
		}
		b, err := encode()
		if err != nil {
			return "", err
		}
		m[name] = json.RawMessage(b)
	}
	b, err := json.Marshal(m)
	return string(b), err
}

// differs returns an error that names the first difference between two JSON objects: that of a checkpoint and the
// expected one.
func differs(what, got, want string) error {
	if got == want {
		return nil
	}
	var g, w map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return fmt.Errorf("%w: %s: %w", machine.ErrCorrupt, what, err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return err
	}
	for k := range g {
		if _, ok := w[k]; !ok {
			w[k] = nil
		}
	}
	var names []string
	for k, v := range w {
		if !bytes.Equal(g[k], v) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return fmt.Errorf("%w: %s: written otherwise", machine.ErrCorrupt, what)
	}
	k := names[0]
	return fmt.Errorf("it is of a fit with %s: its %s is %s, now it is %s: %w",
		map[string]string{"table": "another table", "options": "other options"}[what],
		k, excerpt(g[k]), excerpt(w[k]), machine.ErrMismatch)
}

func excerpt(b json.RawMessage) string {
	const most = 80
	switch {
	case len(b) == 0:
		return "not given"
	case len(b) > most:
		return string(bytes.ToValidUTF8(b[:most], nil)) + "…"
	}
	return string(b)
}

// sourceIdentity identifies a table by its columns and, for files, by their sizes and the SHA-256 of the first and last
// MiB of each. Names do not count, because files may be moved. Hashing everything would cost another pass. A change in
// between is detected when rows that were already summed are read again (rowHash). A change of later rows that keeps
// the size and both ends is not detected.
func sourceIdentity(src data.Source) (string, error) {
	columns := src.Columns()
	id := map[string]any{"columns": columns}
	info, err := os.Stat(src.Name())
	if err == nil && info.Mode().IsRegular() {
		sum, err := endsHash(src.Name(), info.Size())
		if err != nil {
			return "", err
		}
		id["size in bytes"], id["contents"] = info.Size(), sum
	}
	if t, ok := data.As[interface{ Files() []string }](src); ok && len(t.Files()) > 1 {
		names := t.Files()
		h := sha256.New()
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				return "", err
			}
			sum, err := endsHash(name, info.Size())
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, info.Size(), sum)
		}
		id["files"], id["contents"] = len(names), hex.EncodeToString(h.Sum(nil))
	}
	b, err := json.Marshal(id)
	return string(b), err
}

func endsHash(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return localfile.EndsHash(f, size)
}
