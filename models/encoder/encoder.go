// Package encoder runs encoders of the BERT type (Devlin et al. 2018, arXiv:1810.04805), such as MiniLM, BGE, GTE and
// E5, RoBERTa (multilingual E5), MPNet and ModernBERT, and classifiers of pairs of texts on top of them
// (cross-encoders). It works on token ids; package models adds text.
//
// Load the weights once, then embed batches of sequences, one row of dst per sequence:
//
//	m, err := encoder.New(file, encoder.Options{})
//	dst := dense.New[float32](len(batch), m.Dim())
//	err = m.Embed(dst, batch)
//
// The sequences of a batch are packed without padding, so the work grows with the number of tokens. A sequence may
// have at most MaxTokens ids. A [Model] is safe for concurrent use.
package encoder

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/buf"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/models/internal/nn"
	"github.com/randfeat/randfeat/models/weights"
)

// Options say how a model is loaded and run. The zero value computes in float32, with exact attention.
type Options struct {
	// Quantised keeps weights in 8 or 4 bits and rounds activations to 8 bits.
	Quantised bool
	// Attention computes the heads of a layer for packed sequences; segments has the number of the sequence of each
	// position. It may be called concurrently. Nil means exact attention. MPNet adds biases to its scores and
	// therefore accepts only nil.
	Attention func(layer int, out, q, k, v attention.Seq[float32], segments []int32) error
}

// Model is a loaded encoder. It is safe for concurrent use.
type Model struct {
	config  weights.Config
	kernels nn.Kernels
	attend  func(layer int, out, q, k, v attention.Seq[float32], segments []int32) error // nil: exact

	words      weights.Tensor // token embeddings, still in the file
	places     [2][]float32   // position embeddings plus those of a type of tokens, by row of the table
	norm, bias []float32
	blocks     []block
	last       []float32 // ModernBERT: the norm after the layers
	head       *head
	runs       par.Pool[run]
}

// block is one layer. Queries, keys and values are one stacked projection.
type block struct {
	qkv, out, up, down                   *nn.Linear
	attnNorm, attnBias, ffnNorm, ffnBias []float32 // nil attnNorm: the identity (ModernBERT)
}

// head is the classifier of a model that scores pairs: out(norm(act(dense(x)))).
type head struct {
	dense, out *nn.Linear
	act        func(x []float32)
	norm       []float32 // nil: none
}

// chunkTokens bounds the memory of a call: sequences are computed together up to so many tokens.
const chunkTokens = 2048

// loader loads an encoder.
type loader struct {
	nn.Loader
	kernels   nn.Kernels
	precision nn.Precision
}

// linear stacks projections. Those without biases must have none.
func (l *loader) linear(rows, cols int, biased bool, names ...string) *nn.Linear {
	var bias []float32
	var list []weights.Tensor
	for _, n := range names {
		list = append(list, l.Tensor(n+".weight", rows, cols))
		if biased {
			bias = append(bias, l.Vector(n+".bias", rows)...)
		}
	}
	if l.Err != nil {
		return nil
	}
	return nn.NewLinear(l.kernels, l.precision, bias, list...)
}

// New loads the weights of an encoder. Token embeddings are read from the file on demand, so the file must stay open
// as long as the model is used.
func New(f weights.File, opt Options) (*Model, error) {
	c := f.Config()
	if c.IsDecoder() {
		return nil, fmt.Errorf("%s: %s is a decoder, want an encoder: %w", f.Path(), c.Architecture, weights.ErrFormat)
	}
	if err := c.Validate(f.Path()); err != nil {
		return nil, err
	}
	k, err := nn.Chosen()
	if err != nil {
		return nil, err
	}
	m := &Model{config: c, kernels: k, attend: opt.Attention}
	l := &loader{Loader: nn.Loader{File: f}, kernels: k}
	if opt.Quantised {
		l.precision = nn.Quantised
	}
	if c.Architecture == "modernbert" {
		m.loadModern(l)
	} else if err := m.loadBERT(l, opt); err != nil {
		return nil, err
	}
	if c.Labels > 0 {
		m.loadHead(l)
	}
	l.Rest(func(name string) bool {
		for _, task := range []string{"pooler.", "cls.predictions.", "cls.seq_relationship.", "lm_head.", "head.",
			"decoder."} {
			if strings.HasPrefix(name, task) { // the head of another task
				return true
			}
		}
		return name == "embeddings.position_ids" || name == "embeddings.token_type_ids" // counts from 0, and zeros
	})
	return m, l.Err
}

func (m *Model) loadBERT(l *loader, opt Options) error {
	c := &m.config
	if c.Architecture == "mpnet" {
		if opt.Attention != nil {
			return fmt.Errorf("%s: scores of %s have biases, which only exact attention computes: %w", l.File.Path(),
				c.Architecture, weights.ErrFormat)
		}
		r, err := newRelative(m.kernels, c, &l.Loader)
		if err != nil {
			return err
		}
		m.attend = r.attend
	}
	m.words = l.Tensor("embeddings.word_embeddings.weight", c.Vocab, c.Hidden)
	places := l.Floats("embeddings.position_embeddings.weight", -1, c.Hidden)
	if len(places) < (c.FirstPosition+c.MaxPositions)*c.Hidden && l.Err == nil {
		return fmt.Errorf("%s: %d rows of positions, want %d: %w", l.File.Path(), len(places)/c.Hidden,
			c.FirstPosition+c.MaxPositions, weights.ErrFormat)
	}
	m.places = [2][]float32{places, places}
	if c.TypeVocab > 0 {
		kinds := l.Floats("embeddings.token_type_embeddings.weight", c.TypeVocab, c.Hidden)
		if l.Err != nil {
			return l.Err
		}
		for kind := range min(c.TypeVocab, 2) {
			m.places[kind] = slices.Clone(places)
			for i := range places {
				m.places[kind][i] += kinds[kind*c.Hidden+i%c.Hidden]
			}
			if c.Labels == 0 || c.TypeVocab == 1 {
				m.places[1] = m.places[0]
				break
			}
		}
	}
	m.norm, m.bias = l.Vector("embeddings.LayerNorm.weight", c.Hidden), l.Vector("embeddings.LayerNorm.bias", c.Hidden)
	for i := range c.Layers {
		p := fmt.Sprintf("encoder.layer.%d.", i)
		self := p + "attention.self."
		b := block{
			qkv:      l.linear(c.Hidden, c.Hidden, true, self+"query", self+"key", self+"value"),
			out:      l.linear(c.Hidden, c.Hidden, true, p+"attention.output.dense"),
			up:       l.linear(c.FFN, c.Hidden, true, p+"intermediate.dense"),
			down:     l.linear(c.Hidden, c.FFN, true, p+"output.dense"),
			attnNorm: l.Vector(p+"attention.output.LayerNorm.weight", c.Hidden),
			attnBias: l.Vector(p+"attention.output.LayerNorm.bias", c.Hidden),
			ffnNorm:  l.Vector(p+"output.LayerNorm.weight", c.Hidden),
			ffnBias:  l.Vector(p+"output.LayerNorm.bias", c.Hidden),
		}
		m.blocks = append(m.blocks, b)
		l.Packed()
	}
	return nil
}

// loadHead loads the classifier of transformers' …ForSequenceClassification.
func (m *Model) loadHead(l *loader) {
	c, t := &m.config, m.kernels.Model
	tanh := func(x []float32) {
		for i, v := range x {
			x[i] = float32(math.Tanh(float64(v)))
		}
	}
	h := &head{act: tanh}
	switch c.Architecture {
	case "roberta":
		h.dense = l.linear(c.Hidden, c.Hidden, true, "classifier.dense")
		h.out = l.linear(c.Labels, c.Hidden, true, "classifier.out_proj")
	case "modernbert":
		h.act, h.norm = t.GELU, l.Vector("head.norm.weight", c.Hidden)
		h.dense = l.linear(c.Hidden, c.Hidden, false, "head.dense")
		h.out = l.linear(c.Labels, c.Hidden, true, "classifier")
	default:
		h.dense = l.linear(c.Hidden, c.Hidden, true, "pooler.dense")
		h.out = l.linear(c.Labels, c.Hidden, true, "classifier")
	}
	m.head = h
}

// Config is the shape of the model.
func (m *Model) Config() weights.Config { return m.config }

// Dim is the length of an embedding.
func (m *Model) Dim() int { return m.config.Hidden }

// MaxTokens is the length of the longest sequence.
func (m *Model) MaxTokens() int { return m.config.MaxPositions }

// Embed sets row i of dst to the embedding of sequence i.
func (m *Model) Embed(dst dense.Matrix[float32], batch [][]int32) error {
	return m.each(dst, batch, nil, m.config.Hidden, m.pool)
}

// Labels is the number of outputs of the classifier of a model that scores pairs; 0: the model embeds.
func (m *Model) Labels() int { return m.config.Labels }

// Score sets row i of dst to the outputs of the classifier for sequence i, without a function behind them. The second
// text of the sequence begins at second[i].
func (m *Model) Score(dst dense.Matrix[float32], batch [][]int32, second []int) error {
	if m.head == nil || len(second) != len(batch) {
		return fmt.Errorf("%d pairs for a model of %d labels: %w", len(second), m.config.Labels, dense.ErrShape)
	}
	x, mul := dense.New[float32](1, m.config.Hidden), nn.Mul{}
	y := dense.New[float32](1, m.config.Hidden)
	return m.each(dst, batch, second, m.config.Labels, func(out []float32, rows nn.Matrix) {
		m.pool(x.Row(0), rows)
		mul.Do(m.kernels, y, x, m.head.dense)
		m.head.act(y.Row(0))
		if m.head.norm != nil {
			m.kernels.Model.LayerNorm(y.Row(0), y.Row(0), m.head.norm, m.bias, float32(m.config.NormEps))
		}
		mul.Do(m.kernels, nn.Matrix{Rows: 1, Cols: len(out), Stride: len(out), Data: out}, y, m.head.out)
	})
}

// each computes the hidden states of every sequence and reduces them to a row of dst.
func (m *Model) each(dst dense.Matrix[float32], batch [][]int32, second []int, cols int,
	reduce func(dst []float32, x nn.Matrix)) error {
	if dst.Rows != len(batch) || dst.Cols != cols {
		return fmt.Errorf("%d×%d results for %d sequences of %d columns: %w", dst.Rows, dst.Cols, len(batch), cols,
			dense.ErrShape)
	}
	for i, ids := range batch {
		if len(ids) == 0 || len(ids) > m.config.MaxPositions {
			return fmt.Errorf("sequence %d has %d tokens, want 1 to %d: %w", i, len(ids), m.config.MaxPositions,
				dense.ErrShape)
		}
		for j, id := range ids {
			if id < 0 || int(id) >= m.config.Vocab {
				return fmt.Errorf("sequence %d: token %d is %d, want 0 to %d: %w", i, j, id, m.config.Vocab-1,
					dense.ErrShape)
			}
		}
	}
	r := m.runs.Get()
	defer m.runs.Put(r)
	for lo := 0; lo < len(batch); {
		hi, tokens := lo+1, len(batch[lo])
		for hi < len(batch) && tokens+len(batch[hi]) <= chunkTokens {
			tokens += len(batch[hi])
			hi++
		}
		var begins []int
		if second != nil {
			begins = second[lo:hi]
		}
		x, err := r.forward(m, batch[lo:hi], begins, tokens)
		if err != nil {
			return err
		}
		for i, ids := range batch[lo:hi] {
			reduce(dst.Row(lo+i), x.RowRange(0, len(ids)))
			x = x.RowRange(len(ids), x.Rows)
		}
		lo = hi
	}
	return nil
}

// pool turns the rows of a sequence into its embedding: the mean, the first or the last row, normalised if the model
// says so.
func (m *Model) pool(dst []float32, x nn.Matrix) {
	t := m.kernels.Table
	switch m.config.Pooling {
	case "cls":
		copy(dst, x.Row(0))
	case "last":
		copy(dst, x.Row(x.Rows-1))
	default:
		clear(dst)
		t.ColSum(dst, x)
		t.Scale(dst, 1/float32(x.Rows))
	}
	if m.config.Normalize && m.head == nil {
		if n := t.Norm2(dst); n > 0 {
			t.Scale(dst, float32(1/math.Sqrt(n)))
		}
	}
}

// run is the scratch memory of one call. Calls take it from a pool.
type run struct {
	x, y, z, qkv, wide []float32
	cos, sin           [2][]float32 // ModernBERT: of the rotary angles of layers that see all tokens, and of the others
	segments           []int32
	mul                nn.Mul
	exact              attention.Exact[float32]
}

// rowGrain is the number of rows that pays for a goroutine in functions of single rows.
const rowGrain = 16

// forward returns the last hidden states of all tokens, in scratch memory. A BERT layer normalises after each
// residual addition: x = norm(x + attention(x)), x = norm(x + ffn(x)).
func (r *run) forward(m *Model, batch [][]int32, second []int, tokens int) (nn.Matrix, error) {
	c, k := &m.config, m.kernels
	x, y := shaped(&r.x, tokens, c.Hidden), shaped(&r.y, tokens, c.Hidden)
	z, qkv, wide := shaped(&r.z, tokens, c.Hidden), shaped(&r.qkv, tokens, 3*c.Hidden), shaped(&r.wide, tokens, c.FFN)
	r.segments = buf.Sized(r.segments, tokens)
	at := 0
	for s, ids := range batch {
		for i, id := range ids {
			m.words.Row(x.Row(at), int(id))
			places := m.places[0]
			if second != nil && i >= second[s] {
				places = m.places[1]
			}
			if places != nil {
				k.Table.MulAdd(x.Row(at), places[(c.FirstPosition+i)*c.Hidden:(c.FirstPosition+i+1)*c.Hidden], 1)
			}
			r.segments[at] = int32(s)
			at++
		}
	}
	eps := float32(c.NormEps)
	nn.Rows(tokens, rowGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.Model.LayerNorm(x.Row(i), x.Row(i), m.norm, m.bias, eps)
		}
	})
	if c.Architecture == "modernbert" {
		return x, r.modern(m, batch, x, y, z, qkv)
	}
	// addNorm sets x = norm(x + z).
	addNorm := func(z nn.Matrix, weight, bias []float32) {
		nn.Rows(tokens, rowGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				k.Table.MulAdd(x.Row(i), z.Row(i), 1)
				k.Model.LayerNorm(x.Row(i), x.Row(i), weight, bias, eps)
			}
		})
	}
	for l := range m.blocks {
		b := &m.blocks[l]
		r.mul.Do(k, qkv, x, b.qkv)
		if err := r.attend(m, l, y, qkv); err != nil {
			return nn.Matrix{}, err
		}
		r.mul.Do(k, z, y, b.out)
		addNorm(z, b.attnNorm, b.attnBias)
		r.mul.Do(k, wide, x, b.up)
		nn.Rows(tokens, rowGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				m.activate(wide.Row(i))
			}
		})
		r.mul.Do(k, z, wide, b.down)
		addNorm(z, b.ffnNorm, b.ffnBias)
	}
	return x, nil
}

func (m *Model) activate(x []float32) {
	switch m.config.Activation {
	case "gelu_tanh":
		m.kernels.Model.GELUTanh(x)
	case "relu":
		for i, v := range x {
			x[i] = max(v, 0)
		}
	case "silu":
		for i, v := range x {
			x[i] = float32(float64(v) / (1 + math.Exp(-float64(v))))
		}
	default:
		m.kernels.Model.GELU(x)
	}
}

func shaped(b *[]float32, rows, cols int) nn.Matrix {
	*b = buf.Sized(*b, rows*cols)
	return nn.Matrix{Rows: rows, Cols: cols, Stride: cols, Data: *b}
}

// attend computes the heads of a layer from its queries, keys and values.
func (r *run) attend(m *Model, layer int, out, qkv nn.Matrix) error {
	c, h := &m.config, m.config.Hidden
	heads := func(m nn.Matrix) attention.Seq[float32] { return nn.Heads(m, c.Heads, c.HeadDim) }
	attend := m.attend
	if attend == nil {
		attend = r.softmax
		if r.exact.Window = 0; c.Windows != nil && c.Windows[layer] > 0 {
			r.exact.Window = c.Windows[layer] + 1
		}
	}
	if err := attend(layer, heads(out), heads(qkv.ColRange(0, h)), heads(qkv.ColRange(h, 2*h)),
		heads(qkv.ColRange(2*h, 3*h)), r.segments[:out.Rows]); err != nil {
		return fmt.Errorf("layer %d: %w", layer, err)
	}
	return nil
}

// softmax is exact attention within each sequence.
func (r *run) softmax(_ int, out, q, k, v attention.Seq[float32], segments []int32) error {
	r.exact.Segments, r.exact.Unchecked = segments, true
	_, err := r.exact.Forward(out, q, k, v)
	return err
}
