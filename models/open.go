package models

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/token"
	"github.com/randfeat/randfeat/models/weights"
)

// Options say how a model is opened. The zero value chooses by the file.
type Options struct {
	// Precision is "float32", or "int8" for weights in 8 or 4 bits and activations in 8, or "": int8 if the file's
	// weights are quantised, float32 otherwise.
	Precision string
}

// Model is an open model: an encoder or a decoder, the other is nil.
type Model struct {
	Encoder *Encoder
	Decoder *Decoder
	Tokens  *token.Tokenizer

	file        weights.File
	fingerprint [sha256.Size]byte
}

// Open opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json). Weights are memory
// mapped: to update a file, rename another over it; never write into it.
func Open(path string, opt Options) (*Model, error) {
	m := &Model{}
	tokens, err := m.open(path)
	if err != nil {
		return nil, err
	}
	// The tokenizer is read while the weights are packed.
	var tokensErr error
	var both sync.WaitGroup
	both.Go(func() { m.Tokens, tokensErr = tokens() })
	err = m.load(opt)
	both.Wait()
	switch {
	case tokensErr != nil:
		err = tokensErr
	case err == nil && m.Tokens.Len() > m.Config().Vocab:
		err = fmt.Errorf("%s: the tokenizer has %d tokens, the model %d: %w", path, m.Tokens.Len(), m.Config().Vocab,
			weights.ErrFormat)
	}
	if err != nil {
		m.file.Close()
		return nil, err
	}
	if m.Decoder != nil {
		m.Decoder.tokens = m.Tokens
	} else {
		m.Encoder.tokens = m.Tokens
	}
	return m, nil
}

// open opens the file and returns how the tokenizer is read.
func (m *Model) open(path string) (tokens func() (*token.Tokenizer, error), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	folder := path
	if !info.IsDir() {
		if !strings.HasSuffix(path, ".safetensors") {
			f, err := gguf.Open(path)
			m.file = f
			return func() (*token.Tokenizer, error) { return token.FromGGUF(f) }, err
		}
		folder = filepath.Dir(path)
	}
	f, err := safetensors.Open(path)
	m.file = f
	return func() (*token.Tokenizer, error) { return token.Open(folder) }, err
}

// load reads the weights.
func (m *Model) load(opt Options) error {
	c := m.file.Config()
	quantised, err := m.quantised(opt.Precision)
	if err != nil {
		return err
	}
	if err := m.sign(quantised); err != nil {
		return err
	}
	if c.IsDecoder() {
		d, err := decoder.New(m.file, decoder.Options{Quantised: quantised})
		if err != nil {
			return err
		}
		m.Decoder = &Decoder{model: d, base: m.fingerprint}
		return nil
	}
	e, err := encoder.New(m.file, encoder.Options{Quantised: quantised})
	if err != nil {
		return err
	}
	m.Encoder = &Encoder{model: e, passage: c.Passage, normalize: c.Normalize}
	return nil
}

// quantised tells whether products are computed in 8 bits.
func (m *Model) quantised(precision string) (bool, error) {
	switch precision {
	case "float32":
		return false, nil
	case "int8":
		return true, nil
	case "":
	default:
		return false, fmt.Errorf("precision %q, want float32 or int8", precision)
	}
	for _, name := range m.file.Names() {
		if t, err := m.file.Tensor(name); err == nil && t.Type >= weights.Q8_0 {
			return true, nil
		}
	}
	return false, nil
}

// sign computes the fingerprint: configuration, names, types and shapes, and the first bytes of every tensor.
func (m *Model) sign(quantised bool) error {
	h := sha256.New()
	fmt.Fprintf(h, "%+v %v\n", m.file.Config(), quantised)
	for _, name := range m.file.Names() {
		t, err := m.file.Tensor(name)
		if err != nil {
			continue // of a type that no forward pass reads
		}
		fmt.Fprintf(h, "%q %v %v\n", name, t.Type, t.Shape)
		h.Write(t.Data[:min(len(t.Data), 1024)])
	}
	h.Sum(m.fingerprint[:0])
	return nil
}

// Config is the shape of the model.
func (m *Model) Config() weights.Config { return m.file.Config() }

// Close ends the use of the model's files.
func (m *Model) Close() error { return m.file.Close() }

// Fingerprint identifies a model and its settings. Saved sessions contain it and are refused by other models.
func (m *Model) Fingerprint() [sha256.Size]byte { return m.fingerprint }
