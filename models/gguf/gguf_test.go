package gguf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/models/weights"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	whole := tinyLlama(nil).bytes()
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := f.Config()
	if c.Architecture != "llama" || c.Layers != 1 || c.Hidden != 8 || c.Heads != 2 || c.KVHeads != 1 ||
		c.HeadDim != 4 || c.FFN != 32 || c.Vocab != 2 || c.MaxPositions != 64 || c.NormEps != float64(float32(1e-5)) ||
		!c.TiedEmbeddings || c.RopeLength != 1 || !slices.Equal(c.RopeFreqs, []float64{1, 0.01}) {
		t.Errorf("config %+v", c)
	}
	if s := f.Strings("tokenizer.ggml.tokens"); !slices.Equal(s, []string{"a", "b"}) {
		t.Errorf("tokens %q", s)
	}
	if s := f.Ints("tokenizer.ggml.token_type"); !slices.Equal(s, []int64{1, 3}) {
		t.Errorf("types %v", s)
	}
	if v, ok := f.Bool("tokenizer.ggml.add_bos_token"); !v || !ok {
		t.Errorf("add_bos_token %v, %v", v, ok)
	}
	// Row p·dim/2+j of a head of Hugging Face is row 2j+p of the file.
	q, err := weights.Get(f, "model.layers.0.self_attn.q_proj.weight", 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	x := q.Floats(nil)
	for i, want := range []float32{0, 2, 1, 3, 4, 6, 5, 7} {
		if x[8*i] != 100*want || x[8*i+1] != 100*want+1 {
			t.Errorf("row %d of q is row %v of the file, want %v", i, x[8*i]/100, want)
		}
	}
	d, err := weights.Get(f, "model.layers.0.mlp.down_proj.weight", 1, 32)
	if err != nil || d.Floats(nil)[31] != 15.0/4 {
		t.Errorf("%v, %v", d, err)
	}
}

type values = map[string]any

func TestErrorsNameFileAndTensor(t *testing.T) {
	f, err := Parse("x.gguf", tinyLlama(nil).bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lm_head.weight":                         "x.gguf: no tensor output.weight",
		"model.layers.3.self_attn.q_norm.weight": "x.gguf: no tensor blk.3.attn_q_norm.weight",
		"other.weight": "x.gguf: tensor other.weight is of ggml's type 99, which is not supported (" +
			"F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K are)",
	} {
		if _, err := f.Tensor(name); err == nil || !strings.HasPrefix(err.Error(), want) ||
			!errors.Is(err, weights.ErrFormat) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	_, err = weights.Get(f, "model.embed_tokens.weight", 2, 9)
	if want := "x.gguf: tensor token_embd.weight has shape [2 8], want [2 9]"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	for want, change := range map[string]func(values){
		`architecture "t5" is not supported`:               func(v values) { v["general.architecture"] = "t5" },
		"metadata has no number llama.block_count":         func(v values) { delete(v, "llama.block_count") },
		"2 heads and 3 key/value heads":                    func(v values) { v["llama.attention.head_count_kv"] = 3 },
		"metadata has no number llama.feed_forward_length": func(v values) { v["llama.feed_forward_length"] = "x" },
		"attn_q.weight has 8 rows, want 4 heads of 4": func(v values) {
			v["llama.attention.head_count"], v["llama.attention.key_length"] = 4, 4
		},
		"llama.rope.dimension_count is 2":       func(v values) { v["llama.rope.dimension_count"] = 2 },
		`rotary scaling "longrope" is not`:      func(v values) { v["llama.rope.scaling.type"] = "longrope" },
		"rotary scaling by 0":                   func(v values) { v["llama.rope.scaling.type"] = "yarn" },
		"llama.expert_count is 8, which is not": func(v values) { v["llama.expert_count"] = 8 },
		"llama.logit_scale is 0.5, which":       func(v values) { v["llama.logit_scale"] = 0.5 },
		"llama.attention.clamp_kqv is 8":        func(v values) { v["llama.attention.clamp_kqv"] = 8.0 },
		"llama.attention.value_length is 8":     func(v values) { v["llama.attention.value_length"] = 8 },
		"llama.pooling_type is 3":               func(v values) { v["llama.pooling_type"] = 3 },
		"split.count is 2":                      func(v values) { v["split.count"] = 2 },
		`general.type is "adapter"`:             func(v values) { v["general.type"] = "adapter" },
		"norm epsilon is 0":                     func(v values) { v["llama.attention.layer_norm_rms_epsilon"] = 0.0 },
		"9 layers of 2 heads, but 5 tensors":    func(v values) { v["llama.block_count"] = 9 },
		"general.alignment is 0":                func(v values) { v["general.alignment"] = 0 },
		"general.alignment is 0.5":              func(v values) { v["general.alignment"] = 0.5 },
		"positions is 0":                        func(v values) { v["llama.context_length"] = 0 },
	} {
		_, err := Parse("x.gguf", tinyLlama(change).bytes())
		if err == nil || !strings.HasPrefix(err.Error(), "x.gguf: ") || !strings.Contains(err.Error(), want) ||
			!errors.Is(err, weights.ErrFormat) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTruncated(t *testing.T) {
	whole := tinyLlama(nil).bytes()
	for n := range len(whole) - 30 { // the padding after the last tensor may be missing
		if _, err := Parse("x.gguf", whole[:n:n]); !errors.Is(err, weights.ErrFormat) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// damaged are files whose numbers are wrong.
func damaged() map[string][]byte {
	head := func(tensors, fields uint64) []byte {
		return le.AppendUint64(le.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), tensors), fields)
	}
	align := func(kind uint32, v ...byte) []byte {
		return append(le.AppendUint32(text(head(0, 1), "general.alignment"), kind), v...)
	}
	tensor := func(kind uint32, offset uint64, dims ...uint64) []byte {
		b := le.AppendUint32(text(head(1, 0), "t"), uint32(len(dims)))
		for _, n := range dims {
			b = le.AppendUint64(b, n)
		}
		return append(le.AppendUint64(le.AppendUint32(b, kind), offset), make([]byte, 200)...)
	}
	nested := le.AppendUint32(text(head(0, 1), "a"), kindArray)
	for range 1000 {
		nested = le.AppendUint64(le.AppendUint32(nested, kindArray), 1)
	}
	array := func(kind uint32, n uint64) []byte {
		b := le.AppendUint32(text(head(0, 1), "a"), kindArray)
		return append(le.AppendUint64(le.AppendUint32(b, kind), n), make([]byte, 64)...)
	}
	twice := tensor(0, 0, 1)
	twice = append(append(head(2, 0), twice[24:len(twice)-200]...), twice[24:]...)
	return map[string][]byte{
		"alignment 0":           align(4, 0, 0, 0, 0),
		"alignment 2^63":        align(10, 0, 0, 0, 0, 0, 0, 0, 0x80),
		"columns below 0":       tensor(0, 0, 1<<63),
		"no column":             tensor(0, 0, 0),
		"no dimension":          tensor(0, 0),
		"five dimensions":       tensor(0, 0, 1, 1, 1, 1, 1),
		"product is 2^64":       tensor(0, 0, 4, 1<<30, 1<<30, 4),
		"size is 2^64":          tensor(0, 0, 1<<31, 1<<31),
		"offset behind the end": tensor(0, 1<<63, 1),
		"half a block":          tensor(8, 0, 16),
		"nested arrays":         nested,
		"numbers without end":   array(10, 1<<61),
		"texts without end":     array(8, 1<<63),
		"array of what":         array(77, 1),
		"two of one name":       twice,
		"fields without end":    head(0, 1<<63),
		"a name without end":    append(head(0, 1), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	}
}

func TestDamaged(t *testing.T) {
	for name, b := range damaged() {
		if f, err := Parse("x", b); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%s: %+v, %v", name, f, err)
		} else if name == "nested arrays" && !strings.Contains(err.Error(), "arrays in arrays") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse: any bytes give tensors that are as large as their shapes say, or an error.
func FuzzParse(f *testing.F) {
	f.Add(tinyLlama(nil).bytes())
	for _, b := range damaged() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse("x", b)
		if err != nil {
			if !errors.Is(err, weights.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, name := range g.Names() {
			w, err := g.Tensor(name)
			if err != nil {
				continue
			}
			if n := w.Rows() * w.Cols(); n > 2*len(b) || len(w.Floats(nil)) != n {
				t.Fatalf("%s: %d numbers of shape %v in %d bytes", name, n, w.Shape, len(b))
			}
		}
	})
}

// The real file has what the reference reader says (peers/README.md tells where weights come from).
func TestSmolLM2(t *testing.T) {
	folder := os.Getenv("RANDFEAT_MODELS")
	if folder == "" {
		t.Skip("RANDFEAT_MODELS names no folder of weights")
	}
	f, err := Open(filepath.Join(folder, "smollm2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := f.Config()
	if c.Layers != 30 || c.Hidden != 576 || c.Heads != 9 || c.KVHeads != 3 || c.HeadDim != 64 || c.FFN != 1536 ||
		c.Vocab != 49152 || c.MaxPositions != 8192 || !c.TiedEmbeddings || len(f.Names()) != 272 {
		t.Errorf("%+v, %d tensors", c, len(f.Names()))
	}
	if w, err := weights.Get(f, "model.layers.29.mlp.down_proj.weight", 576, 1536); err != nil ||
		w.Type != weights.Q4_1 {
		t.Errorf("%v, %v", w.Type, err)
	}
}
