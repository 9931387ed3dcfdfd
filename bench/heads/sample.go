package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// A head sample holds the queries, keys and values of a few heads on one long text, in half precision. It is small
// enough to copy to another machine, where -time then needs neither weights nor a model.

// The heads of the samples, each as {layer, key/value head}. Existing sample files keep the heads they were made with:
// after a change, delete them.
var (
	minilmHeads  = [][2]int{{0, 3}, {1, 7}, {2, 1}, {2, 10}, {3, 5}, {4, 2}, {4, 8}, {5, 6}}
	smollm2Heads = [][2]int{{2, 1}, {6, 0}, {12, 2}, {18, 0}}
)

// sampleHeads returns the sample of a model on one of its texts, "cal" or "test". The first call makes the sample and
// stores it in the weights folder. It then reads the file back, so that all calls get the same rounded values.
func sampleHeads(c *config, model, text string) (headInputs, error) {
	path := filepath.Join(c.weights, model+"_"+text+"_heads.safetensors")
	if in, err := readSample(path); err == nil || !os.IsNotExist(err) {
		return in, err
	}
	var in headInputs
	var err error
	switch model {
	case "minilm":
		in, err = sampleEncoder(c, text)
	case longModel:
		in, err = sampleLong(c, text)
	default:
		in, err = sampleDecoder(c, text)
	}
	if err != nil {
		return in, err
	}
	if err := writeSample(path, in); err != nil {
		return in, err
	}
	return readSample(path)
}

// sampleEncoder joins passages that follow each other in the text. The encoder has only 512 positions, so a longer
// sequence consists of several passages whose queries see each other's keys.
func sampleEncoder(c *config, text string) (headInputs, error) {
	ids, err := passages(c.weights, "minilm_joined_"+text)
	if err != nil {
		return headInputs{}, err
	}
	m, err := loadMiniLM(c.weights)
	if err != nil {
		return headInputs{}, err
	}
	n := len(ids[0])
	out := newSample(len(minilmHeads), 1, len(ids)*n, m.Config().HeadDim)
	for p, tokens := range ids {
		_, layers, err := m.record(tokens)
		if err != nil {
			return out, err
		}
		out.take(layers, minilmHeads, p*n)
	}
	return out, nil
}

// sampleDecoder takes the first decoderTokens tokens of every passage, one after the other.
func sampleDecoder(c *config, text string) (headInputs, error) {
	ids, err := passages(c.weights, "smollm2_"+text)
	if err != nil {
		return headInputs{}, err
	}
	m, err := loadSmolLM2(c.weights)
	if err != nil {
		return headInputs{}, err
	}
	shape := m.Config()
	out := newSample(len(smollm2Heads), shape.Heads/shape.KVHeads, len(ids)*decoderTokens, shape.HeadDim)
	for i, tokens := range ids {
		layers, _, err := m.record(tokens[:decoderTokens], isSampled)
		if err != nil {
			return headInputs{}, err
		}
		out.take(layers, smollm2Heads, i*decoderTokens)
	}
	return out, nil
}

// longModel is SmolLM2 with four times as many positions as it was trained for, on running texts of 32768 tokens.
const longModel = "smollm2_long"

// sampleOf is the name of the sample of a model for texts of n tokens.
func sampleOf(model string, n int) string {
	if model == "smollm2" && n > decoderTokens {
		return longModel
	}
	return model
}

// sampleLong takes one running text, and logs its perplexity: it tells whether the model still reads it.
func sampleLong(c *config, text string) (headInputs, error) {
	ids, err := passages(c.weights, longModel+"_"+text)
	if err != nil {
		return headInputs{}, err
	}
	m, err := loadStretched(c.weights, (len(ids[0])+decoderTokens-1)/decoderTokens)
	if err != nil {
		return headInputs{}, err
	}
	layers, loss, err := m.record(ids[0], isSampled)
	if err != nil {
		return headInputs{}, err
	}
	for lo := 0; lo < len(loss); lo += decoderTokens {
		part := loss[lo:min(lo+decoderTokens, len(loss))]
		c.log("%s %s: perplexity of tokens %d to %d: %.2f", longModel, text, lo, lo+len(part), math.Exp(mean(part)))
	}
	shape := m.Config()
	out := newSample(len(smollm2Heads), shape.Heads/shape.KVHeads, len(ids[0]), shape.HeadDim)
	out.take(layers, smollm2Heads, 0)
	return out, nil
}

// isSampled tells whether a sampled head of the decoder is in a layer.
func isSampled(layer int) bool {
	return slices.ContainsFunc(smollm2Heads, func(w [2]int) bool { return w[0] == layer })
}

// decoderTokens is the length of each of the decoder's texts in a sample, and the number of positions that the decoder
// was trained for.
const decoderTokens = 8192

// newSample allocates q, k and v for the given number of key/value heads with group query heads each.
func newSample(heads, group, length, dim int) headInputs {
	return headInputs{q: attention.NewSeq[float32](1, heads*group, length, dim),
		k: attention.NewSeq[float32](1, heads, length, dim), v: attention.NewSeq[float32](1, heads, length, dim)}
}

// take copies the wanted heads of a passage, {layer, key/value head} each, to in, beginning at position at.
func (in *headInputs) take(layers []headInputs, wanted [][2]int, at int) {
	group := in.q.Heads / in.k.Heads
	move := func(to seq, i int, from seq, h int) {
		src, dst := from.Head(0, h), to.Head(0, i)
		for l := range src.Rows {
			copy(dst.Row(at+l), src.Row(l))
		}
	}
	for i, w := range wanted {
		l := layers[w[0]]
		for g := range group {
			move(in.q, i*group+g, l.q, w[1]*group+g)
		}
		move(in.k, i, l.k, w[1])
		move(in.v, i, l.v, w[1])
	}
}

// cutTo returns a view of the first n positions of the first key/value heads.
func (in headInputs) cutTo(heads, n int) headInputs {
	group := in.q.Heads / in.k.Heads
	heads = min(heads, in.k.Heads)
	in.q.Len, in.k.Len, in.v.Len = n, n, n
	in.q.Heads, in.k.Heads, in.v.Heads = heads*group, heads, heads
	return in
}

func readSample(path string) (headInputs, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return headInputs{}, err
	}
	f, err := tensorfile.Parse(b)
	if err != nil {
		return headInputs{}, fmt.Errorf("%s: %w", path, err)
	}
	var in headInputs
	for name, dst := range map[string]*seq{"q": &in.q, "k": &in.k, "v": &in.v} {
		t, ok := f.Tensor(name)
		if !ok || t.DType != "F16" || len(t.Shape) != 3 {
			return in, fmt.Errorf("%s: no three-dimensional tensor %s in half precision (F16)", path, name)
		}
		*dst = attention.NewSeq[float32](1, t.Shape[0], t.Shape[1], t.Shape[2])
		for i := range dst.Data {
			dst.Data[i] = kern.FromHalf(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	}
	return in, nil
}

// writeSample writes to a temporary file first, so that an interrupted run leaves no partial sample.
func writeSample(path string, in headInputs) error {
	var f tensorfile.File
	for _, s := range []struct {
		name string
		seq  seq
	}{{"q", in.q}, {"k", in.k}, {"v", in.v}} {
		data := make([]byte, 2*len(s.seq.Data))
		for i, v := range s.seq.Data {
			binary.LittleEndian.PutUint16(data[2*i:], toHalf(v))
		}
		f.Tensors = append(f.Tensors, tensorfile.Tensor{Name: s.name, DType: "F16",
			Shape: []int{s.seq.Heads, s.seq.Len, s.seq.Dim}, Data: data})
	}
	tmp := path + ".tmp"
	file, err := os.Create(tmp)
	if err != nil {
		return err
	}
	if _, err = f.WriteTo(file); err == nil {
		err = file.Close()
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return os.Rename(tmp, path)
}

// toHalf rounds to half precision. Values below its normal range become zero, values above its range infinity.
func toHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b = b&0x7fffffff + 0x0fff + b>>13&1 // round to nearest, ties to even
	switch exp := int(b>>23) - 127 + 15; {
	case exp <= 0:
		return sign
	case exp >= 31:
		return sign | 0x7c00
	default:
		return sign | uint16(exp)<<10 | uint16(b>>13&0x3ff)
	}
}
