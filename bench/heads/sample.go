package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/internal/half"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// A head sample is the queries, keys and values of a few heads on one long text, in half precision: small enough to be
// carried to another machine, where -time needs neither weights nor a model.

// Heads of the samples: layer and key/value head.
var (
	minilmHeads  = [][2]int{{0, 3}, {1, 7}, {2, 1}, {2, 10}, {3, 5}, {4, 2}, {4, 8}, {5, 6}}
	smollm2Heads = [][2]int{{2, 1}, {6, 0}, {12, 2}, {18, 0}}
)

// sampleHeads is the sample of a model on one of its texts ("cal" or "test"). It is made once and kept in the folder of
// weights.
func sampleHeads(c *config, model, text string) (headInputs, error) {
	path := filepath.Join(c.weights, model+"_"+text+"_heads.safetensors")
	if in, err := readSample(path); err == nil || !os.IsNotExist(err) {
		return in, err
	}
	var in headInputs
	var err error
	if model == "minilm" {
		in, err = sampleEncoder(c, text)
	} else {
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

// sampleEncoder joins the keys of passages: the encoder has 512 positions, so a longer sequence is several texts that
// see each other.
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
		layers, err := m.record(tokens[:decoderTokens])
		if err != nil {
			return headInputs{}, err
		}
		out.take(layers, smollm2Heads, i*decoderTokens)
	}
	return out, nil
}

// decoderTokens is the length of the texts of the decoder in a sample, one after the other. Longer texts of -time are
// several of them, whose positions begin anew.
const decoderTokens = 8192

func newSample(heads, group, length, dim int) headInputs {
	return headInputs{q: attention.NewSeq[float32](1, heads*group, length, dim),
		k: attention.NewSeq[float32](1, heads, length, dim), v: attention.NewSeq[float32](1, heads, length, dim)}
}

// take copies the wanted heads of a passage to the positions from at on.
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

// cutTo is the first n positions of the first key/value heads.
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
			return in, fmt.Errorf("%s: no tensor %s of three dimensions in half precision", path, name)
		}
		*dst = attention.NewSeq[float32](1, t.Shape[0], t.Shape[1], t.Shape[2])
		for i := range dst.Data {
			dst.Data[i] = half.Float(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	}
	return in, nil
}

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

// toHalf is the nearest number of half precision, zero for those below its normal range, and infinity above.
func toHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b = b&0x7fffffff + 0x0fff + b>>13&1 // to the nearest, ties to even
	switch exp := int(b>>23) - 127 + 15; {
	case exp <= 0:
		return sign
	case exp >= 31:
		return sign | 0x7c00
	default:
		return sign | uint16(exp)<<10 | uint16(b>>13&0x3ff)
	}
}
