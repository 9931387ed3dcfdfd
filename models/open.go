package models

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
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
	// Prompts replace those of the model's files by their names, see [Encoder.For]: E5 needs "query: " for query and
	// "passage: " for document, which its files do not say.
	Prompts map[string]string
}

// Model is an open model. Exactly one of Encoder, Ranker and Decoder is set.
type Model struct {
	Encoder *Encoder
	Ranker  *Ranker
	Decoder *Decoder
	Tokens  *token.Tokenizer

	file        weights.File
	source      *weights.Source
	fingerprint func() [sha256.Size]byte
}

// Open opens a GGUF file or a Hugging Face folder (config.json, model.safetensors, tokenizer.json). The weights are
// memory-mapped. To update a file, rename a new one over it; writing into it changes or crashes running models.
func Open(path string, opt Options) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openIn(weights.Folder(path), ".", opt)
	}
	return openIn(weights.Folder(filepath.Dir(path)), filepath.Base(path), opt)
}

// OpenFS opens a GGUF file, or a folder (. is the root), of a file system such as an embed.FS.
func OpenFS(fsys fs.FS, name string, opt Options) (*Model, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	folder := name
	if !info.IsDir() {
		folder = path.Dir(name)
	}
	sub, err := fs.Sub(fsys, folder)
	if err != nil {
		return nil, err
	}
	if name = path.Base(name); info.IsDir() {
		name = "."
	}
	return openIn(&weights.Source{FS: sub, Name: folder}, name, opt)
}

// OpenBytes opens a GGUF file that is in memory, for example by go:embed. The bytes are not copied and must not change.
func OpenBytes(gguf []byte, opt Options) (*Model, error) {
	return openIn(weights.Bytes("the model in memory", gguf), "the model in memory", opt)
}

func openIn(src *weights.Source, name string, opt Options) (*Model, error) {
	m := &Model{source: src}
	tokens, err := m.open(name)
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
		err = fmt.Errorf("%s: the tokenizer has %d tokens, the model %d: %w", m.file.Path(), m.Tokens.Len(),
			m.Config().Vocab, weights.ErrFormat)
	}
	if err != nil {
		m.file.Close()
		return nil, err
	}
	src.Release() // the weights are packed: their pages in the file are not needed until the fingerprint reads them
	switch {
	case m.Decoder != nil:
		m.Decoder.tokens, m.Decoder.chat = m.Tokens, newChatFormat(m.Tokens)
	case m.Ranker != nil:
		m.Ranker.tokens = m.Tokens
	default:
		m.Encoder.tokens = m.Tokens
	}
	return m, nil
}

// open opens the file of weights. It returns a function that reads the tokenizer, which openIn calls on another
// goroutine.
func (m *Model) open(name string) (tokens func() (*token.Tokenizer, error), err error) {
	if name != "." && !strings.HasSuffix(name, ".safetensors") {
		f, err := gguf.OpenIn(m.source, name)
		m.file = f
		return func() (*token.Tokenizer, error) { return token.FromGGUF(f) }, err
	}
	if name == "." {
		name = ""
	}
	f, err := safetensors.OpenIn(m.source, name)
	m.file = f
	return func() (*token.Tokenizer, error) { return token.OpenIn(m.source) }, err
}

// load packs the weights into the encoder or decoder.
func (m *Model) load(opt Options) error {
	c := m.file.Config()
	quantised, err := m.quantised(opt.Precision)
	if err != nil {
		return err
	}
	files := sync.OnceValue(func() [sha256.Size]byte {
		defer m.source.Release()
		return m.source.Fingerprint()
	})
	m.fingerprint = sync.OnceValue(func() [sha256.Size]byte {
		return sha256.Sum256(fmt.Appendf(nil, "%x %v %q", files(), quantised, opt.Prompts))
	})
	if c.IsDecoder() {
		d, err := decoder.New(m.file, decoder.Options{Quantised: quantised})
		if err != nil {
			return err
		}
		m.Decoder = &Decoder{model: d, base: m.fingerprint, files: files}
		return nil
	}
	e, err := encoder.New(m.file, encoder.Options{Quantised: quantised})
	if err != nil {
		return err
	}
	if c.Labels > 0 {
		m.Ranker, err = newRanker(e, m.file.Path())
		return err
	}
	prompts := maps.Clone(c.Prompts)
	if prompts == nil {
		prompts = map[string]string{}
	}
	maps.Copy(prompts, opt.Prompts)
	m.Encoder = &Encoder{model: e, prompts: prompts, prompt: prompts[c.DefaultPrompt]}
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

// Config is the shape of the model.
func (m *Model) Config() weights.Config { return m.file.Config() }

// Close unmaps the files. The model and its sessions must not be used afterwards.
func (m *Model) Close() error { return m.file.Close() }

// Fingerprint identifies the model and its precision: it is a hash of every byte of the files that were read, weights,
// configuration and tokenizer. Saved sessions contain it, and other models refuse them. The first call reads all
// weights.
func (m *Model) Fingerprint() [sha256.Size]byte { return m.fingerprint() }
