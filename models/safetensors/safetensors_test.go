package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/models/weights"
)

const bertJSON = `{"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 2,
	"intermediate_size": 8, "vocab_size": 3, "max_position_embeddings": 16, "layer_norm_eps": 1e-12,
	"type_vocab_size": 2, "hidden_act": "gelu"}`

const llamaJSON = `{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 2,
	"num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 3, "max_position_embeddings": 16,
	"rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0}`

// container has tensors of one number, 1, by name.
func container(names ...string) []byte {
	f := &tensorfile.File{}
	for _, name := range names {
		f.Tensors = append(f.Tensors, tensorfile.Tensor{Name: name, DType: "F32", Shape: []int{1},
			Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))})
	}
	var b bytes.Buffer
	if _, err := f.WriteTo(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func folder(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenBERT(t *testing.T) {
	files := map[string]string{"config.json": bertJSON,
		"model.safetensors": string(container("bert.embeddings.word_embeddings.weight", "embeddings.LayerNorm.gamma"))}
	f, err := Open(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c := f.Config(); c.Heads != 2 || c.HeadDim != 2 || c.Pooling != "mean" || !c.Normalize || c.Passage != 16 {
		t.Errorf("%+v", c)
	}
	want := []string{"embeddings.LayerNorm.weight", "embeddings.word_embeddings.weight"}
	if !slices.Equal(f.Names(), want) {
		t.Errorf("names %q", f.Names())
	}
	w, err := weights.Get(f, "embeddings.word_embeddings.weight", 1)
	if err != nil || w.Floats(nil)[0] != 1 {
		t.Errorf("%v, %v", w, err)
	}

	files["modules.json"] = `[{"path": "", "type": "sentence_transformers.models.Transformer"},
		{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]`
	files["1_Pooling/config.json"] = `{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}`
	files["sentence_bert_config.json"] = `{"max_seq_length": 8}`
	g, err := Open(filepath.Join(folder(t, files), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if c := g.Config(); c.Pooling != "cls" || c.Normalize || c.Passage != 8 {
		t.Errorf("%+v", c)
	}
}

func TestOpenMPNet(t *testing.T) {
	files := map[string]string{"config.json": strings.Replace(bertJSON, `"bert"`, `"mpnet"`, 1),
		"model.safetensors": string(container("mpnet.encoder.layer.0.attention.attn.q.weight",
			"encoder.layer.0.attention.LayerNorm.weight"))}
	f, err := Open(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c := f.Config(); c.FirstPosition != 2 || c.MaxPositions != 14 || c.RelativeBucket != 32 || c.TypeVocab != 0 {
		t.Errorf("%+v", c)
	}
	want := []string{"encoder.layer.0.attention.output.LayerNorm.weight", "encoder.layer.0.attention.self.query.weight"}
	if !slices.Equal(f.Names(), want) {
		t.Errorf("names %q", f.Names())
	}
}

func TestOpenShards(t *testing.T) {
	files := map[string]string{"config.json": strings.Replace(llamaJSON, "}", `, "rope_parameters": {"rope_type":
		"linear", "factor": 2, "rope_theta": 100.0}}`, 1),
		"model.safetensors.index.json": `{"weight_map": {"a.weight": "one.safetensors", "lm_head.weight": "two.safetensors"}}`,
		"one.safetensors":              string(container("a.weight")),
		"two.safetensors":              string(container("lm_head.weight"))}
	f, err := Open(folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c := f.Config(); c.TiedEmbeddings || c.KVHeads != 1 || !slices.Equal(c.RopeFreqs, []float64{0.5}) {
		t.Errorf("%+v", c)
	}
	if _, err := f.Tensor("a.weight"); err != nil {
		t.Error(err)
	}
}

func TestErrorsNameFileAndTensor(t *testing.T) {
	whole := string(container("a.weight"))
	index := func(file string) string { return `{"weight_map": {"b.weight": "` + file + `"}}` }
	with := func(name, text string) map[string]string {
		files := map[string]string{"config.json": bertJSON, "model.safetensors": whole}
		files[name] = text
		maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
		return files
	}
	changed := func(config, old, new string) map[string]string {
		return with("config.json", strings.Replace(config, old, new, 1))
	}
	for want, files := range map[string]map[string]string{
		"model.safetensors: not a usable":       with("model.safetensors", whole[:len(whole)-1]),
		"ends at byte 4 of 3: truncated":        with("model.safetensors", whole[:len(whole)-1]),
		"no model.safetensors and no":           with("model.safetensors", ""),
		"no such file":                          with("config.json", ""),
		"config.json: not a usable model file":  with("config.json", "{"),
		`config.json: architecture "t5" is not`: with("config.json", `{"model_type": "t5"}`),
		"config.json: no architecture":          with("config.json", `{}`),
		"hidden_act \"tanh\" is not supported":  changed(bertJSON, `"gelu"`, `"tanh"`),
		"heads is 0":                            changed(bertJSON, `heads": 2`, `heads": 0`),
		"no tensor b.weight":                    with("model.safetensors.index.json", index("model.safetensors")),
		`want a name of a file in this folder`:  with("model.safetensors.index.json", index("../model.safetensors")),
		"rotary scaling \"dynamic\"": changed(llamaJSON, "}",
			`, "rope_scaling": {"type": "dynamic"}}`),
		`rope_scaling: json: unknown field "mscale"`: changed(llamaJSON, "}",
			`, "rope_scaling": {"mscale": 2}}`),
		"no tensor model.layers.0.self_attn.q_proj.bias": changed(llamaJSON, "}",
			`, "attention_bias": true}`),
		"quantization_config is {\"bits\":4}, which": changed(llamaJSON, "}",
			`, "quantization_config": {"bits":4}}`),
		"layer_types has \"sliding_attention\"": changed(llamaJSON, "}",
			`, "layer_types": ["sliding_attention"]}`),
		"is_decoder is true, which is not": changed(bertJSON, "}",
			`, "is_decoder": true}`),
		"do_lower_case is not supported": func() map[string]string {
			f := with("modules.json", `[]`)
			f["sentence_bert_config.json"] = `{"do_lower_case": true}`
			return f
		}(),
		"no tensor lm_head.weight": changed(llamaJSON, "}",
			`, "tie_word_embeddings": false}`),
		"module x.Dense is not supported": with("modules.json", `[{"type": "x.Dense"}]`),
	} {
		_, err := Open(folder(t, files))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f, err := Open(folder(t, with("x", "y")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Tensor("b.weight"); err == nil || !strings.HasPrefix(err.Error(), f.Path()+": no tensor b.weight") {
		t.Error(err)
	}
}

// FuzzOpen: any config.json and index give a model or an error.
func FuzzOpen(f *testing.F) {
	f.Add(bertJSON, "", container("a"))
	f.Add(llamaJSON, `{"weight_map": {"a": "model.safetensors"}}`, container("a"))
	f.Fuzz(func(t *testing.T, config, index string, data []byte) {
		files := map[string]string{"config.json": config, "model.safetensors": string(data)}
		if index != "" {
			files["model.safetensors.index.json"] = index
		}
		g, err := Open(folder(t, files))
		if err != nil {
			return
		}
		defer g.Close()
		for _, name := range g.Names() {
			if w, err := g.Tensor(name); err == nil && len(w.Floats(nil)) != w.Rows()*w.Cols() {
				t.Fatalf("%s of shape %v", name, w.Shape)
			}
		}
	})
}

func TestMiniLM(t *testing.T) {
	models := os.Getenv("RANDFEAT_MODELS")
	if models == "" {
		t.Skip("RANDFEAT_MODELS names no folder of weights")
	}
	f, err := Open(filepath.Join(models, "minilm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := f.Config()
	if c.Layers != 6 || c.Hidden != 384 || c.Heads != 12 || c.FFN != 1536 || c.Vocab != 30522 || c.Passage != 256 ||
		c.MaxPositions != 512 || c.Pooling != "mean" || !c.Normalize {
		t.Errorf("%+v", c)
	}
	if _, err := weights.Get(f, "encoder.layer.5.output.dense.weight", 384, 1536); err != nil {
		t.Error(err)
	}
	if _, err := f.Tensor("embeddings.position_ids"); !errors.Is(err, weights.ErrFormat) {
		t.Error(err)
	}
}
