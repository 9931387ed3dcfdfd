package main

import (
	"math"
	"path/filepath"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/weights"
)

type seq = attention.Seq[float32]

// attend computes the attention of one layer, all heads at once.
type attend func(layer int, out, q, k, v seq) error

// headInputs holds the inputs and the output of one layer's attention.
type headInputs struct{ q, k, v, out seq }

// minilm is all-MiniLM-L6-v2. Its embedding of a text is the mean over the positions of the last layer.
type minilm struct {
	*encoder.Model
	attend *attend // of the run
}

func loadMiniLM(folder string) (minilm, error) {
	f, err := safetensors.Open(filepath.Join(folder, "minilm"))
	if err != nil {
		return minilm{}, err
	}
	m := minilm{attend: new(attend)}
	m.Model, err = encoder.New(f, encoder.Options{Attention: func(l int, out, q, k, v seq, _ []int32) error {
		return (*m.attend)(l, out, q, k, v)
	}})
	return m, err
}

// run returns the embedding of a passage, with f as the attention of every layer.
func (m minilm) run(ids []int32, f attend) ([]float32, error) {
	dst := dense.New[float32](1, m.Dim())
	*m.attend = f
	err := m.Embed(dst, [][]int32{ids})
	return dst.Data, err
}

// record returns the embedding with exact attention, and copies of the inputs and outputs of every layer's attention.
func (m minilm) record(ids []int32) (embedding []float32, layers []headInputs, err error) {
	ex := &attention.Exact[float32]{}
	embedding, err = m.run(ids, func(_ int, out, q, k, v seq) error {
		_, err := ex.Forward(out, q, k, v)
		one := func(s seq) seq { return batches([]seq{s}) }
		layers = append(layers, headInputs{one(q), one(k), one(v), one(out)})
		return err
	})
	return embedding, layers, err
}

// smollm2 is SmolLM2-135M in float32.
type smollm2 struct{ *decoder.Model }

func loadSmolLM2(folder string) (smollm2, error) { return loadStretched(folder, 1) }

// loadStretched is loadSmolLM2 with so many times as many positions as the model was trained for, by the usual
// extension without training: the base of the rotary angles grows by stretch^(d/(d−2)), so that the slowest pair turns
// over the longer text as far as it did over the shorter one, and the fastest pair as before.
func loadStretched(folder string, stretch int) (smollm2, error) {
	f, err := gguf.Open(filepath.Join(folder, "smollm2.gguf"))
	if err != nil {
		return smollm2{}, err
	}
	c := f.Config()
	c.MaxPositions *= stretch
	c.RopeFreqs = slices.Clone(c.RopeFreqs)
	for j := range c.RopeFreqs {
		c.RopeFreqs[j] *= math.Pow(float64(stretch), -float64(2*j)/float64(c.HeadDim-2))
	}
	m, err := decoder.New(configured{f, c}, decoder.Options{})
	return smollm2{m}, err
}

// configured is a file of weights with another configuration.
type configured struct {
	weights.File
	config weights.Config
}

func (c configured) Config() weights.Config { return c.config }

// run returns −log p of every token but the first, given the tokens before it. memory makes the attention state of a
// layer; nil means exact attention.
func (m smollm2) run(ids []int32, memory func(layer int) (decoder.State, error)) ([]float64, error) {
	s, err := m.NewSession(memory)
	if err != nil {
		return nil, err
	}
	loss := make([]float64, len(ids))
	return loss[1:], s.Score(loss, ids, nil)
}

// record runs exact attention and returns the inputs and outputs of the attention of the layers that want is true for,
// and −log p of every token but the first.
func (m smollm2) record(ids []int32, want func(layer int) bool) ([]headInputs, []float64, error) {
	c, exact := m.Config(), m.Exact()
	layers := make([]headInputs, c.Layers)
	loss, err := m.run(ids, func(l int) (decoder.State, error) {
		st, err := exact(l)
		if err != nil || !want(l) {
			return st, err
		}
		layers[l] = newSample(c.KVHeads, c.Heads/c.KVHeads, len(ids), c.HeadDim)
		layers[l].out = attention.NewSeq[float32](1, c.Heads, len(ids), c.HeadDim)
		return &recorder{st, &layers[l]}, nil
	})
	return layers, loss, err
}

// allLayers is the want of record for all layers.
func allLayers(int) bool { return true }

// recorder copies the inputs and outputs of a state's steps to in, which has room for all tokens.
type recorder struct {
	decoder.State
	in *headInputs
}

func (r *recorder) Step(out, q, k, v seq) error {
	at := r.Len()
	err := r.State.Step(out, q, k, v)
	for _, x := range [][2]seq{{r.in.q, q}, {r.in.k, k}, {r.in.v, v}, {r.in.out, out}} {
		put(x[0], at, x[1])
	}
	return err
}

// put copies src to dst, beginning at position at of dst.
func put(dst seq, at int, src seq) {
	for h := range src.Heads {
		to, from := dst.Head(0, h), src.Head(0, h)
		for i := range from.Rows {
			copy(to.Row(at+i), from.Row(i))
		}
	}
}

// keptState computes attention over all keys so far. The embedded State is nil: only Len, Report and Step work.
// That is enough to score tokens; calls of other methods, as in forking or saving a session, would panic.
type keptState struct {
	decoder.State
	forward func(out, q, k, v seq) (attention.Report, error)
	k, v    seq // have room for all tokens
	length  int
	report  attention.Report
}

func (s *keptState) Len() int                 { return s.length }
func (s *keptState) Report() attention.Report { return s.report }

func (s *keptState) Step(out, q, k, v seq) error {
	put(s.k, s.length, k)
	put(s.v, s.length, v)
	s.length += k.Len
	all, values := s.k, s.v
	all.Len, values.Len = s.length, s.length
	r, err := s.forward(out, q, all, values)
	s.report.Add(r)
	return err
}
