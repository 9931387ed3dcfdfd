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

// Options say how a model is opened. The zero value decides by the file.
type Options struct {
	// Precision is "float32", "int8" (weights in 8 or 4 bits, activations in 8) or "". The empty string means int8
	// if the weights of the file are quantised, and float32 otherwise.
	Precision string
}

// Model is an open model. Exactly one of Encoder and Decoder is set.
type Model struct {
	Encoder *Encoder
	Decoder *Decoder
	Tokens  *token.Tokenizer

	file        weights.File
	fingerprint [sha256.Size]byte
}

// Open opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json). The weights are
// memory-mapped. To update a file, rename a new one over it; writing into it changes or crashes running models.
func Open(path string, opt Options) (*Model, error) {
	m := &Model{}
	tokens, err := m.open(path)
	if err != nil {
		return nil, err
	}
	// The tokenizer loads while this goroutine packs the weights.
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

// open opens the file of weights. It returns a function that reads the tokenizer, which Open calls on another
// goroutine.
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

// load packs the weights into the encoder or decoder.
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

// quantised tells whether products are computed in 8 bits, see Options.Precision.
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

// sign computes the fingerprint: a hash of the configuration, of the names, types and shapes of all tensors, and of
// the first 1024 bytes of each. Hashing all bytes would read the whole file at every start.
func (m *Model) sign(quantised bool) error {
	h := sha256.New()
	fmt.Fprintf(h, "%+v %v\n", m.file.Config(), quantised)
	for _, name := range m.file.Names() {
		t, err := m.file.Tensor(name)
		if err != nil {
			continue // a type that no forward pass reads
		}
		fmt.Fprintf(h, "%q %v %v\n", name, t.Type, t.Shape)
		h.Write(t.Data[:min(len(t.Data), 1024)])
	}
	h.Sum(m.fingerprint[:0])
	return nil
}

// Config is the shape of the model.
func (m *Model) Config() weights.Config { return m.file.Config() }

// Close unmaps the files. The model and its sessions must not be used afterwards.
func (m *Model) Close() error { return m.file.Close() }

// Fingerprint identifies the model and its precision. Saved sessions contain it, and other models refuse them.
func (m *Model) Fingerprint() [sha256.Size]byte { return m.fingerprint }
