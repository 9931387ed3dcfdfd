// Package hub downloads models from the Hugging Face hub, or a server with the same addresses, into one folder of this
// machine:
//
//	path, err := hub.Pull(ctx, "sentence-transformers/all-MiniLM-L6-v2", hub.Options{})
//	m, err := models.Open(path, models.Options{})
//
// A download that was cut off goes on where it ended. Every file is compared with the hash that the server states, and
// appears under its name only if they are equal. config.json comes last: an incomplete model does not open.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Options are the settings of Pull. The zero value uses the environment.
type Options struct {
	Endpoint string // address of the server; empty: HF_ENDPOINT, or https://huggingface.co
	Token    string // empty: HF_TOKEN
	Revision string // branch, tag or commit; empty: main
	// Progress, if not nil, is called while a file arrives, with its bytes so far and in all.
	Progress func(file string, done, of int64)
}

// ErrName means that a text is not the name of a model.
var ErrName = errors.New("want OWNER/NAME, or OWNER/NAME/FILE.gguf")

// Dir is the folder with the downloaded models: RFM_MODELS, or rfm in the user's folder of caches.
func Dir() (string, error) {
	if dir := os.Getenv("RFM_MODELS"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "rfm"), err
}

var validName = regexp.MustCompile(`^\w[\w.-]*/\w[\w.-]*(/\w[\w.-]*\.gguf)?$`)

// Path returns the place of a model that was downloaded. A name without its owner is enough if it is the only one.
func Path(name string) (string, error) {
	all, err := List()
	if err != nil {
		return "", err
	}
	var found []string
	for _, m := range all {
		if m.Name == name || !strings.Contains(name, "/") && path.Base(m.Name) == name {
			found = append(found, m.Name)
		}
	}
	dir, err := Dir()
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("model %s: %w", name, fs.ErrNotExist)
	case len(found) > 1:
		return "", fmt.Errorf("%s may be %s: %w", name, strings.Join(found, " or "), ErrName)
	}
	return filepath.Join(dir, filepath.FromSlash(found[0])), nil
}

// Model is a downloaded model.
type Model struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// List returns the downloaded models, in the order of their names.
func List() ([]Model, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	var list []Model
	for _, p := range files {
		folder := filepath.Base(p) == "config.json"
		if !folder && filepath.Ext(p) != ".gguf" {
			continue
		}
		if folder {
			p = filepath.Dir(p)
		}
		rel, e := filepath.Rel(dir, p)
		m := Model{Name: filepath.ToSlash(rel)}
		err = errors.Join(err, e, filepath.WalkDir(p, func(f string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || f != p && filepath.Ext(f) == ".gguf" {
				return err
			}
			info, err := d.Info()
			if err == nil {
				m.Bytes += info.Size()
			}
			return err
		}))
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Remove deletes a downloaded model. GGUF files in the folder of a model are models of their own and stay.
func Remove(name string) error {
	p, err := Path(name)
	if err != nil {
		return err
	}
	if info, err := os.Stat(p); err != nil || !info.IsDir() {
		return errors.Join(err, os.Remove(p))
	}
	if kept, err := filepath.Glob(filepath.Join(p, "*.gguf")); err != nil || len(kept) == 0 {
		return errors.Join(err, os.RemoveAll(p))
	}
	entries, err := os.ReadDir(p)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".gguf" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p, e.Name())))
		}
	}
	return err
}

// needed are the files that models.Open reads.
var needed = regexp.MustCompile(`^(config|generation_config|tokenizer|tokenizer_config|modules|sentence_bert_config|` +
	`config_sentence_transformers)\.json$|^(vocab\.txt|chat_template\.jinja)$|^[\w-]+/config\.json$|` +
	`^model(-\d+-of-\d+)?\.safetensors$|^model\.safetensors\.index\.json$`)

// Pull downloads a model and returns its path: a folder, or a GGUF file if the name ends in one. Files that are there
// and have not changed are not downloaded again.
func Pull(ctx context.Context, name string, opt Options) (string, error) {
	dir, err := Dir()
	if err != nil {
		return "", err
	}
	if !validName.MatchString(name) {
		return "", fmt.Errorf("%q: %w", name, ErrName)
	}
	opt.Endpoint = cmp.Or(opt.Endpoint, os.Getenv("HF_ENDPOINT"), "https://huggingface.co")
	opt.Token = cmp.Or(opt.Token, os.Getenv("HF_TOKEN"))
	opt.Revision = cmp.Or(opt.Revision, "main")
	repo := name
	if path.Ext(name) == ".gguf" {
		repo = path.Dir(name)
	}
	c := client{opt, repo, filepath.Join(dir, filepath.FromSlash(repo))}
	list, commit, err := c.list(ctx)
	if err != nil {
		return "", err
	}
	var take []file
	var gguf []string
	weights := false
	for _, f := range list {
		if path.Ext(f.Name) == ".gguf" {
			gguf = append(gguf, repo+"/"+f.Name)
		}
		if repo+"/"+f.Name == name || repo == name && needed.MatchString(f.Name) {
			take = append(take, f)
			weights = weights || repo != name || path.Ext(f.Name) == ".safetensors"
		}
	}
	switch {
	case !weights && len(gguf) > 0:
		return "", fmt.Errorf("%s: name one of its files: %s", name, strings.Join(gguf, ", "))
	case !weights:
		return "", fmt.Errorf("%s has neither model.safetensors nor GGUF files", repo)
	}
	slices.SortStableFunc(take, func(a, b file) int { return cmp.Compare(a.order(), b.order()) })
	for _, f := range take {
		if err := c.pull(ctx, f, commit); err != nil {
			return "", fmt.Errorf("%s/%s: %w", repo, f.Name, err)
		}
	}
	return filepath.Join(dir, filepath.FromSlash(name)), nil
}
