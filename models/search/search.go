// Package search finds passages of texts by meaning. It embeds the text files of a folder once into an index, which
// queries then scan.
//
//	old, err := search.Open(path)                          // a missing file is fine: pass nil
//	x, err := search.Update(ctx, m, folder, old, nil)      // embeds only new and changed files
//	err = x.Save(path)
//	hits, err := x.Find(ctx, m, folder, "a question", 5)
//
// The index records size, times and hash of every file, so that Update recognises changes.
package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/tensorfile"
	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/weights"
)

// ErrIndex means that a file holds no index, a damaged one, or one of another model.
var ErrIndex = errors.New("not a usable index")

// Limits of the index.
const (
	maxFile    = 1 << 26 // largest file in bytes; larger ones are skipped
	passage    = 800     // usual bytes of a passage; passages end at line ends
	batchSize  = 64
	nameHeader = "index"
	nameMatrix = "embeddings"
)

// Passage is a part of a file.
type Passage struct {
	File       string `json:"file"` // relative to the folder, with slashes
	Line       int    `json:"line"` // of its first line, from 1
	Begin, End int    // bytes
}

// File is an indexed file, as it was when it was embedded.
type File struct {
	Name string    `json:"name"`
	Size int64     `json:"size"`
	Time time.Time `json:"time"`
	// Change is when the file system last changed the file, in nanoseconds; programs cannot set it. 0: not known.
	Change int64 `json:"change"`
	// Hash is that of the content. It decides if one of the others differs.
	Hash string `json:"hash"`
}

// Index holds the embedded passages of a folder.
type Index struct {
	Model    string    `json:"model"` // fingerprint
	Files    []File    `json:"files"`
	Passages []Passage `json:"passages"`
	vectors  []byte    // [passage][dim] float32, little-endian; of an index that was opened, mapped from its file
	dim      int
	file     *weights.Source
}

// Close unmaps the file of an index that was opened.
func (x *Index) Close() error {
	if x == nil || x.file == nil {
		return nil
	}
	return x.file.Close()
}

// Hit is a passage with its cosine similarity to the query.
type Hit struct {
	Passage
	Score float64 `json:"score"`
	Text  string  `json:"text"`
}

// Update makes the index of a folder. It keeps the passages of unchanged files from old, which may be nil or of
// another model. Hidden files, files that are not UTF-8 text and files above 64 MiB are skipped. progress, if not
// nil, is called after every file that was read.
func Update(ctx context.Context, m *models.Model, folder string, old *Index, progress func(done, of int)) (*Index,
	error) {
	if m.Encoder == nil {
		return nil, errors.New("the model does not embed texts")
	}
	x := &Index{Model: fingerprint(m), dim: m.Encoder.Dim()}
	files, err := list(folder)
	if err != nil {
		return nil, err
	}
	kept := map[string][]int{}
	if old != nil && old.Model == x.Model && old.dim == x.dim {
		for i, p := range old.Passages {
			kept[p.File] = append(kept[p.File], i)
		}
	}
	before := map[string]File{}
	if old != nil && old.Model == x.Model {
		if slices.EqualFunc(files, old.Files, File.same) {
			return old, nil
		}
		for _, f := range old.Files {
			before[f.Name] = f
		}
	}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		was, ok := before[f.Name]
		f.Hash = was.Hash
		var text []byte
		if !ok || !f.same(was) {
			if text, err = os.ReadFile(filepath.Join(folder, filepath.FromSlash(f.Name))); err != nil {
				return nil, err
			}
			f.Hash = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		if ok && f.Hash == was.Hash {
			for _, p := range kept[f.Name] {
				x.Passages = append(x.Passages, old.Passages[p])
				x.vectors = append(x.vectors, old.vectors[4*p*x.dim:4*(p+1)*x.dim]...)
			}
			x.Files = append(x.Files, f)
			continue
		}
		if err := x.add(ctx, m.Encoder, f, text); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(i+1, len(files))
		}
	}
	return x, nil
}

func (f File) same(o File) bool {
	return f.Name == o.Name && f.Size == o.Size && f.Time.Equal(o.Time) && f.Change == o.Change
}

func fingerprint(m *models.Model) string {
	f := m.Fingerprint()
	return hex.EncodeToString(f[:])
}

// list returns the files of a folder in the order of their names.
func list(folder string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && path != folder {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if info.Size() <= maxFile {
			files = append(files, File{Name: filepath.ToSlash(name), Size: info.Size(), Time: info.ModTime(),
				Change: changed(path)})
		}
		return nil
	})
	return files, err
}

// add embeds the content of a file.
func (x *Index) add(ctx context.Context, e *models.Encoder, f File, b []byte) error {
	x.Files = append(x.Files, f)
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		return nil // not text: remember the file, so that it is not read again
	}
	parts := split(f.Name, string(b))
	for len(parts) > 0 {
		n := min(batchSize, len(parts))
		var texts []string
		for _, p := range parts[:n] {
			texts = append(texts, string(b[p.Begin:p.End]))
		}
		v, err := e.For("document").Embed(ctx, texts)
		if err != nil {
			return err
		}
		for i, p := range parts[:n] {
			x.Passages = append(x.Passages, p)
			for _, value := range v.Row(i) {
				x.vectors = binary.LittleEndian.AppendUint32(x.vectors, math.Float32bits(value))
			}
		}
		parts = parts[n:]
	}
	return nil
}

// split cuts a text into passages at line ends. A passage ends at the first line end after passage bytes, or already
// at a blank line after half of that. It ends early rather than exceed twice that size. Lines that are longer still
// are cut.
func split(file, text string) []Passage {
	var list []Passage
	begin, line, first := 0, 1, 1
	end := func(at int) {
		if strings.TrimSpace(text[begin:at]) != "" {
			list = append(list, Passage{file, first, begin, at})
		}
		begin, first = at, line
	}
	for at := 0; at < len(text); {
		n := strings.IndexByte(text[at:], '\n') + 1
		if n == 0 {
			n = len(text) - at
		}
		if at-begin+n > 2*passage && at > begin {
			end(at)
		}
		for n > 4*passage { // an extremely long line
			cut := at + 2*passage
			for !utf8.RuneStart(text[cut]) {
				cut--
			}
			end(cut)
			at, n = cut, n-(cut-at)
		}
		blank := strings.TrimSpace(text[at:at+n]) == ""
		at += n
		line++
		if blank && at-begin >= passage/2 || at-begin >= passage {
			end(at)
		}
	}
	if begin < len(text) {
		end(len(text))
	}
	return list
}

// Find returns the n passages with the largest cosine to a query. It reads their texts from the folder; the text is
// empty if the file is gone or shorter.
func (x *Index) Find(ctx context.Context, m *models.Model, folder, query string, n int) ([]Hit, error) {
	if x.Model != fingerprint(m) {
		return nil, fmt.Errorf("the index was made with another model: %w", ErrIndex)
	}
	q, err := m.Encoder.For("query").Embed(ctx, []string{query})
	if err != nil {
		return nil, err
	}
	var hits []Hit // the best so far, best first; among equals the first ones
	row := make([]float32, x.dim)
	for i, p := range x.Passages {
		weights.Decode(row, x.vectors[4*i*x.dim:4*(i+1)*x.dim], weights.F32)
		score := cosine(q.Row(0), row)
		if len(hits) == n && (n == 0 || score <= hits[n-1].Score) {
			continue
		}
		at, _ := slices.BinarySearchFunc(hits, score, func(h Hit, s float64) int {
			if h.Score >= s {
				return -1
			}
			return 1
		})
		hits = slices.Insert(hits, at, Hit{Passage: p, Score: score})
		hits = hits[:min(n, len(hits))]
	}
	for i := range hits {
		hits[i].Text = hits[i].read(folder)
	}
	return hits, nil
}

// read returns the text of a passage, "" if it cannot be read.
func (p Passage) read(folder string) string {
	name := filepath.Join(folder, filepath.FromSlash(p.File))
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || int64(p.End) > info.Size() ||
		p.End-p.Begin > maxFile {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, p.End-p.Begin)
	if n, err := f.ReadAt(b, int64(p.Begin)); n < len(b) && err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func cosine(a, b []float32) float64 {
	d := math.Sqrt(float64(dense.Dot(a, a)) * float64(dense.Dot(b, b)))
	if d == 0 {
		return 0
	}
	return float64(dense.Dot(a, b)) / d
}

// Save writes the index to a file atomically.
func (x *Index) Save(path string) error {
	head, err := json.Marshal(x)
	if err != nil {
		return err
	}
	f := &tensorfile.File{Tensors: []tensorfile.Tensor{
		{Name: nameHeader, DType: "U8", Shape: []int{len(head)}, Data: head},
		{Name: nameMatrix, DType: "F32", Shape: []int{len(x.Passages), x.dim}, Data: x.vectors}}}
	f.Seal()
	w, err := localfile.Create(path)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := f.WriteTo(w); err != nil {
		return err
	}
	return w.Commit()
}

// Open maps an index and verifies its checksum. The embeddings stay in the file until Close.
func Open(path string) (*Index, error) {
	src := weights.Folder(filepath.Dir(path))
	b, err := src.Map(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	x, err := parse(b)
	if err != nil {
		src.Close()
		return nil, fmt.Errorf("%s: %w: %w", path, ErrIndex, err)
	}
	x.file = src
	return x, nil
}

func parse(b []byte) (*Index, error) {
	f, err := tensorfile.Parse(b)
	if err != nil {
		return nil, err
	}
	if err := f.Verify(); err != nil {
		return nil, err
	}
	head, ok := f.Tensor(nameHeader)
	m, also := f.Tensor(nameMatrix)
	if !ok || !also || m.DType != "F32" || len(m.Shape) != 2 {
		return nil, errors.New("header or embeddings are missing")
	}
	x := &Index{dim: m.Shape[1]}
	if err := json.Unmarshal(head.Data, x); err != nil {
		return nil, err
	}
	if len(x.Passages) != m.Shape[0] {
		return nil, fmt.Errorf("%d passages and %d embeddings", len(x.Passages), m.Shape[0])
	}
	for _, p := range x.Passages {
		if p.Begin < 0 || p.End < p.Begin || !filepath.IsLocal(filepath.FromSlash(p.File)) {
			return nil, fmt.Errorf("passage %+v", p)
		}
	}
	x.vectors = m.Data
	return x, nil
}
