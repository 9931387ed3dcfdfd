package models_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/weights"
)

// toGGUF writes a tiny qwen2 folder as a GGUF file in float32.
func toGGUF(t *testing.T, folder string, more map[string]any) []byte {
	f, err := safetensors.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tok struct {
		Model struct {
			Vocab  map[string]int
			Merges []json.RawMessage
		}
		Added []struct {
			ID      int
			Content string
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(b, &tok); err != nil {
		t.Fatal(err)
	}
	c := f.Config()
	tokens, kinds := make([]string, c.Vocab), make([]int32, c.Vocab)
	for s, id := range tok.Model.Vocab {
		tokens[id], kinds[id] = s, 1
	}
	for _, a := range tok.Added {
		tokens[a.ID], kinds[a.ID] = a.Content, 3
	}
	var merges []string
	for _, m := range tok.Model.Merges {
		var pair [2]string
		if json.Unmarshal(m, &pair) != nil {
			t.Fatalf("%s", m)
		}
		merges = append(merges, pair[0]+" "+pair[1])
	}
	values := map[string]any{"general.architecture": "qwen2", "qwen2.block_count": c.Layers,
		"qwen2.embedding_length": c.Hidden, "qwen2.attention.head_count": c.Heads,
		"qwen2.attention.head_count_kv": c.KVHeads, "qwen2.feed_forward_length": c.FFN,
		"qwen2.context_length": c.MaxPositions, "qwen2.attention.layer_norm_rms_epsilon": c.NormEps,
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
		"tokenizer.ggml.token_type": kinds, "tokenizer.ggml.merges": merges}
	maps.Copy(values, more)
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	head := append([]byte("GGUF"), 3, 0, 0, 0)
	head = le.AppendUint64(le.AppendUint64(head, uint64(len(f.Names()))), uint64(len(values)))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		head = text(head, key)
		switch v := values[key].(type) {
		case string:
			head = text(le.AppendUint32(head, 8), v)
		case int:
			head = le.AppendUint32(le.AppendUint32(head, 4), uint32(v))
		case float64:
			head = le.AppendUint64(le.AppendUint32(head, 12), math.Float64bits(v))
		case []string:
			head = le.AppendUint64(le.AppendUint32(le.AppendUint32(head, 9), 8), uint64(len(v)))
			for _, s := range v {
				head = text(head, s)
			}
		case []int32:
			head = le.AppendUint64(le.AppendUint32(le.AppendUint32(head, 9), 5), uint64(len(v)))
			for _, n := range v {
				head = le.AppendUint32(head, uint32(n))
			}
		}
	}
	short := strings.NewReplacer("model.embed_tokens", "token_embd", "model.norm", "output_norm",
		"model.layers.", "blk.",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj",
		"attn_output", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm")
	var data []byte
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		head = le.AppendUint32(text(head, short.Replace(name)), uint32(len(x.Shape)))
		for _, n := range slices.Backward(x.Shape) {
			head = le.AppendUint64(head, uint64(n))
		}
		head = le.AppendUint64(le.AppendUint32(head, 0), uint64(len(data)))
		data = append(data, x.Data...)
		data = append(data, make([]byte, (32-len(data)%32)%32)...)
	}
	head = append(head, make([]byte, (32-len(head)%32)%32)...)
	return append(head, data...)
}

// A model in memory, in a file and in a file system gives the same numbers.
func TestOpenAnywhere(t *testing.T) {
	folder := tiny.Folder(t, "qwen2")
	whole := toGGUF(t, folder, nil)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	memory := fstest.MapFS{"a/m.gguf": {Data: whole}}
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		memory["b/"+name] = &fstest.MapFile{Data: b}
	}
	const part = "/model.safetensors"
	ways := map[string]func() (*models.Model, error){
		"folder":      func() (*models.Model, error) { return models.Open(folder, models.Options{}) },
		"weights":     func() (*models.Model, error) { return models.Open(folder+part, models.Options{}) },
		"file":        func() (*models.Model, error) { return models.Open(path, models.Options{}) },
		"bytes":       func() (*models.Model, error) { return models.OpenBytes(whole, models.Options{}) },
		"fs, file":    func() (*models.Model, error) { return models.OpenFS(memory, "a/m.gguf", models.Options{}) },
		"fs, folder":  func() (*models.Model, error) { return models.OpenFS(memory, "b", models.Options{}) },
		"fs, weights": func() (*models.Model, error) { return models.OpenFS(memory, "b"+part, models.Options{}) },
	}
	sums, prints := map[float64]string{}, map[[32]byte][]string{}
	for way, open := range ways {
		m, err := open()
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		s, err := m.Decoder.Session()
		if err != nil {
			t.Fatal(err)
		}
		sum, _, err := s.Score(ctx, m.Tokens.Encode(nil, "the same text everywhere"))
		if err != nil {
			t.Fatal(err)
		}
		sums[sum] = way
		prints[m.Fingerprint()] = append(prints[m.Fingerprint()], way)
		m.Close()
	}
	if len(sums) != 1 || len(prints) != 2 { // a GGUF file and a folder are different bytes
		t.Errorf("sums %v, fingerprints of %v", sums, slices.Collect(maps.Values(prints)))
	}
	if _, err := models.OpenFS(memory, "c", models.Options{}); err == nil {
		t.Error("a folder that is not there was opened")
	}
	if _, err := models.OpenBytes(whole[:1000], models.Options{}); !errors.Is(err, weights.ErrFormat) {
		t.Error(err)
	}
	for key, want := range map[string]string{"tokenizer.ggml.add_eos_token": "add_eos_token",
		"qwen2.expert_count": "qwen2.expert_count is 4"} {
		_, err := models.OpenBytes(toGGUF(t, folder, map[string]any{key: 4}), models.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Every byte of weights, configuration and tokenizer is in the fingerprint.
func TestFingerprint(t *testing.T) {
	folder := tiny.Folder(t, "qwen2")
	of := func() [32]byte {
		m, err := models.Open(folder, models.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Fingerprint()
	}
	seen := map[[32]byte]string{of(): "unchanged"}
	if seen[of()] == "" {
		t.Fatal("two fingerprints of one model")
	}
	for _, c := range []struct {
		name     string
		from, to string
	}{{"config.json", "0.00001", "0.00002"}, {"tokenizer.json", `"special":true`, `"special":false`},
		{"model.safetensors", "", ""}} {
		path := filepath.Join(folder, c.name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.from == "" {
			b[len(b)-4] ^= 1 // the last bit of a weight that is far from the beginning of its tensor
		} else if b = []byte(strings.Replace(string(b), c.from, c.to, 1)); !strings.Contains(string(b), c.to) {
			b = append(b, ' ')
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if old, ok := seen[of()]; ok {
			t.Errorf("a change of %s has the fingerprint of %s", c.name, old)
		}
		seen[of()] = c.name
	}
}
