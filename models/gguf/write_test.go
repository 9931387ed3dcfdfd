package gguf

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/randfeat/randfeat/models/weights"
)

// writer makes GGUF files for tests.
type writer struct {
	fields, tensors int
	head, list      []byte
	data            []byte
}

var le = binary.LittleEndian

func text(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }

func (w *writer) value(key string, v any) {
	w.fields++
	b := text(w.head, key)
	switch v := v.(type) {
	case string:
		b = text(le.AppendUint32(b, kindString), v)
	case int:
		b = le.AppendUint32(le.AppendUint32(b, 4), uint32(v))
	case float64:
		b = le.AppendUint32(le.AppendUint32(b, 6), math.Float32bits(float32(v)))
	case bool:
		b = append(le.AppendUint32(b, 7), map[bool]byte{true: 1}[v])
	case []string:
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, kindArray), kindString), uint64(len(v)))
		for _, s := range v {
			b = text(b, s)
		}
	case []int32:
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, kindArray), 5), uint64(len(v)))
		for _, n := range v {
			b = le.AppendUint32(b, uint32(n))
		}
	default:
		panic("no such value")
	}
	w.head = b
}

// tensor adds one; shape has the columns last.
func (w *writer) tensor(name string, kind uint32, data []byte, shape ...int) {
	w.tensors++
	b := le.AppendUint32(text(w.list, name), uint32(len(shape)))
	for _, n := range slices.Backward(shape) {
		b = le.AppendUint64(b, uint64(n))
	}
	w.list = le.AppendUint64(le.AppendUint32(b, kind), uint64(len(w.data)))
	w.data = append(w.data, data...)
	for len(w.data)%32 != 0 {
		w.data = append(w.data, 0)
	}
}

func (w *writer) bytes() []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(le.AppendUint64(b, uint64(w.tensors)), uint64(w.fields))
	b = append(append(b, w.head...), w.list...)
	for len(b)%32 != 0 {
		b = append(b, 0)
	}
	return append(b, w.data...)
}

// tinyLlama is a model of one layer, two heads of 4 numbers and one key/value head. Element j of row i is 100·i+j.
func tinyLlama(change func(values map[string]any)) *writer {
	values := map[string]any{"general.architecture": "llama", "llama.block_count": 1, "llama.embedding_length": 8,
		"llama.attention.head_count": 2, "llama.attention.head_count_kv": 1, "llama.feed_forward_length": 32,
		"llama.context_length": 64, "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
		"llama.rope.dimension_count": 4, "tokenizer.ggml.tokens": []string{"a", "b"},
		"tokenizer.ggml.token_type": []int32{1, 3}, "tokenizer.ggml.add_bos_token": true}
	if change != nil {
		change(values)
	}
	w := &writer{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.value(key, values[key])
	}
	counted := func(name string, rows, cols int) {
		var b []byte
		for i := range rows {
			for j := range cols {
				b = le.AppendUint32(b, math.Float32bits(float32(100*i+j)))
			}
		}
		w.tensor(name, 0, b, rows, cols)
	}
	counted("token_embd.weight", 2, 8)
	counted("blk.0.attn_q.weight", 8, 8)
	counted("blk.0.attn_k.weight", 4, 8)
	numbers, bytes := weights.Q8_0.Block()
	block := make([]byte, bytes)
	le.PutUint16(block, 0x3400) // 0.25
	for i := range numbers {
		block[2+i] = byte(int8(i - 16))
	}
	w.tensor("blk.0.ffn_down.weight", 8, block, 1, 32)
	w.tensor("other.weight", 99, nil, 1)
	return w
}
