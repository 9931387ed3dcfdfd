// Package tiny makes small random models for tests: Hugging Face folders with tokenizers that know every byte.
package tiny

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/randfeat/randfeat/internal/tensorfile"
)

const (
	hidden, ffn, heads, kvHeads, layers = 32, 64, 4, 2, 2
	headDim                             = hidden / heads
	positions                           = 256
)

// Folder writes a model of a kind (bert, rank, llama or qwen2) to a temporary folder of the test.
func Folder(t testing.TB, kind string) string {
	dir := t.TempDir()
	if err := write(dir, kind); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Temporary is Folder for examples.
func Temporary(kind string) (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "tiny")
	if err == nil {
		err = write(dir, kind)
	}
	if err != nil {
		panic(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// tokenizer reads the tokenizer of a kind from token/testdata, in the first folder above the working directory that
// has it.
func tokenizer(kind string) ([]byte, error) {
	name := map[string]string{"bert": "bert", "rank": "bert", "llama": "smollm", "qwen2": "qwen2"}[kind]
	up := "."
	for range 5 {
		if b, err := os.ReadFile(filepath.Join(up, "token", "testdata", name, "tokenizer.json")); err == nil {
			return b, nil
		}
		up = filepath.Join(up, "..")
	}
	return nil, fmt.Errorf("no tokenizer %s above the working directory", name)
}

// write writes config.json, tokenizer.json and random weights, the same ones in every call.
func write(dir, kind string) error {
	tok, err := tokenizer(kind)
	if err != nil {
		return err
	}
	var j struct {
		Model struct{ Vocab map[string]int }
		Added []struct{ ID int } `json:"added_tokens"`
	}
	if err := json.Unmarshal(tok, &j); err != nil {
		return err
	}
	vocab := 0
	for _, id := range j.Model.Vocab {
		vocab = max(vocab, id+1)
	}
	for _, a := range j.Added {
		vocab = max(vocab, a.ID+1)
	}
	r := rand.New(rand.NewPCG(1, 2))
	f := &tensorfile.File{}
	tensor := func(name string, mean, sd float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		b := make([]byte, 0, 4*n)
		for range n {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(mean+sd*r.NormFloat64())))
		}
		f.Tensors = append(f.Tensors, tensorfile.Tensor{Name: name, DType: "F32", Shape: shape, Data: b})
	}
	linear := func(name string, rows, cols int, bias bool) {
		tensor(name+".weight", 0, 1/math.Sqrt(float64(cols)), rows, cols)
		if bias {
			tensor(name+".bias", 0, 0.1, rows)
		}
	}
	config := map[string]any{"model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden,
		"num_attention_heads": heads, "intermediate_size": ffn, "vocab_size": vocab,
		"max_position_embeddings": positions}
	switch kind {
	case "rank":
		config["model_type"], config["architectures"] = "bert", []string{"BertForSequenceClassification"}
		config["id2label"] = map[string]string{"0": "LABEL_0"}
		linear("pooler.dense", hidden, hidden, true)
		linear("classifier", 1, hidden, true)
		fallthrough
	case "bert":
		bert(config, vocab, tensor, linear)
	default:
		llama(config, kind, vocab, tensor, linear)
	}
	c, err := json.Marshal(config)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{"config.json": c, "tokenizer.json": tok} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	w, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = f.WriteTo(w)
	return err
}

func bert(config map[string]any, vocab int, tensor func(string, float64, float64, ...int),
	linear func(string, int, int, bool)) {
	config["layer_norm_eps"], config["type_vocab_size"], config["hidden_act"] = 1e-12, 2, "gelu"
	norm := func(name string) { tensor(name+".weight", 1, 0.1, hidden); tensor(name+".bias", 0, 0.1, hidden) }
	tensor("embeddings.word_embeddings.weight", 0, 1, vocab, hidden)
	tensor("embeddings.position_embeddings.weight", 0, 1, positions, hidden)
	tensor("embeddings.token_type_embeddings.weight", 0, 1, 2, hidden)
	norm("embeddings.LayerNorm")
	for l := range layers {
		p := fmt.Sprintf("encoder.layer.%d.", l)
		for _, name := range []string{"self.query", "self.key", "self.value", "output.dense"} {
			linear(p+"attention."+name, hidden, hidden, true)
		}
		norm(p + "attention.output.LayerNorm")
		linear(p+"intermediate.dense", ffn, hidden, true)
		linear(p+"output.dense", hidden, ffn, true)
		norm(p + "output.LayerNorm")
	}
}

func llama(config map[string]any, kind string, vocab int, tensor func(string, float64, float64, ...int),
	linear func(string, int, int, bool)) {
	config["num_key_value_heads"], config["rms_norm_eps"], config["hidden_act"] = kvHeads, 1e-5, "silu"
	config["tie_word_embeddings"], config["rope_theta"] = true, 10000.0
	tensor("model.embed_tokens.weight", 0, 1, vocab, hidden)
	tensor("model.norm.weight", 1, 0.1, hidden)
	for l := range layers {
		p := fmt.Sprintf("model.layers.%d.", l)
		linear(p+"self_attn.q_proj", hidden, hidden, kind == "qwen2")
		linear(p+"self_attn.k_proj", kvHeads*headDim, hidden, kind == "qwen2")
		linear(p+"self_attn.v_proj", kvHeads*headDim, hidden, kind == "qwen2")
		linear(p+"self_attn.o_proj", hidden, hidden, false)
		linear(p+"mlp.gate_proj", ffn, hidden, false)
		linear(p+"mlp.up_proj", ffn, hidden, false)
		linear(p+"mlp.down_proj", hidden, ffn, false)
		tensor(p+"input_layernorm.weight", 1, 0.1, hidden)
		tensor(p+"post_attention_layernorm.weight", 1, 0.1, hidden)
	}
}

// Long makes a llama model with a context of 2048 tokens.
func Long(t testing.TB) string {
	dir := Folder(t, "llama")
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	var c map[string]any
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	c["max_position_embeddings"] = 2048
	if err == nil {
		b, err = json.Marshal(c)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Text returns n random letters and spaces, the same ones in every call.
func Text(n int) string {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrst      "[r.IntN(26)]
	}
	return string(b)
}
