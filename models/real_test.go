package models_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/models"
)

// On real weights tokens equal those of Hugging Face, and embeddings those of PyTorch or onnxruntime to 1e-5
// (peers/encoders.py): mean and CLS pooling, and the relative positions of MPNet.
func TestRealEncoders(t *testing.T) {
	b, err := os.ReadFile("testdata/encoders.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]struct {
		Text      string
		IDs       []int32
		Embedding []float64
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for name, refs := range all {
		t.Run(name, func(t *testing.T) {
			folder := os.Getenv("RANDFEAT_MODELS")
			if folder == "" {
				t.Skip("RANDFEAT_MODELS names no folder of weights")
			}
			m, err := models.Open(filepath.Join(folder, name), models.Options{})
			if err != nil {
				t.Skip(err)
			}
			defer m.Close()
			for _, r := range refs {
				ids := m.Tokens.Wrap(nil, m.Tokens.EncodeText(nil, r.Text), 512)
				if !slices.Equal(ids, r.IDs) {
					t.Errorf("%.40q: tokens %v, want %v", r.Text, ids, r.IDs)
				}
				if len(r.IDs) > m.Encoder.Passage() {
					continue
				}
				got, err := m.Encoder.Embed(t.Context(), []string{r.Text})
				if err != nil {
					t.Fatal(err)
				}
				var worst float64
				for i, v := range r.Embedding {
					worst = max(worst, math.Abs(float64(got.At(0, i))-v))
				}
				t.Logf("%d tokens: furthest %.2g", len(r.IDs), worst)
				if !(worst <= 1e-5) {
					t.Errorf("%.40q: %v from the reference", r.Text, worst)
				}
			}
		})
	}
}
