package hub

import (
	"context"
	"crypto/sha1" // git names its objects by it
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// client downloads the files of one model into dir.
type client struct {
	Options
	repo, dir string
}

// file is an entry of the server's list.
type file struct {
	Name string `json:"rfilename"`
	Size int64  `json:"size"`
	Git  string `json:"blobId"` // git's SHA-1
	LFS  struct {
		SHA256 string `json:"sha256"` // of large files, for which git holds a pointer
	} `json:"lfs"`
}

// order puts config.json behind the others.
func (f *file) order() int {
	if f.Name == "config.json" {
		return 1
	}
	return 0
}

const (
	maxList = 1 << 24 // bytes of a list of files
	tries   = 5
)

// errStatus is the status of an answer other than success.
type errStatus int

func (e errStatus) Error() string {
	if e == http.StatusUnauthorized || e == http.StatusForbidden {
		return fmt.Sprintf("status %d: it does not exist, or needs a token (HF_TOKEN) or your consent to its terms", e)
	}
	return fmt.Sprintf("status %d %s", e, http.StatusText(int(e)))
}

// web gives up on a server that accepts a connection and does not answer.
var web = &http.Client{Transport: func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	return t
}()}

// request asks for what follows the first at bytes of a file of the server.
func (c *client) request(ctx context.Context, at int64, address ...string) (*http.Response, error) {
	u, err := url.JoinPath(c.Endpoint, address...)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	if c.Token != "" { // net/http does not send it to hosts outside its domain
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if r.URL.RawQuery = "blobs=true"; address[0] == c.repo {
		r.URL.RawQuery = ""
	}
	if at > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	a, err := web.Do(r)
	if err == nil && a.StatusCode != http.StatusOK && !(a.StatusCode == http.StatusPartialContent && at > 0) {
		a.Body.Close()
		err = errStatus(a.StatusCode)
	}
	return a, err
}

var (
	validRevision = regexp.MustCompile(`^[\w-][\w.-]*(/[\w-][\w.-]*)*$`)
	validCommit   = regexp.MustCompile(`^[0-9a-f]+$`)
)

// list returns the files of the model and the commit that they belong to.
func (c *client) list(ctx context.Context) ([]file, string, error) {
	if !validRevision.MatchString(c.Revision) {
		return nil, "", fmt.Errorf("%s: revision %q: want the name of a branch, a tag or a commit", c.repo,
			c.Revision)
	}
	a, err := c.request(ctx, 0, "api/models", c.repo, "revision", c.Revision)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", c.repo, err)
	}
	defer a.Body.Close()
	var l struct {
		Commit string `json:"sha"`
		Files  []file `json:"siblings"`
	}
	err = json.NewDecoder(io.LimitReader(a.Body, maxList)).Decode(&l)
	if err == nil && !validCommit.MatchString(l.Commit) {
		err = fmt.Errorf("commit %q", l.Commit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %s does not answer like the Hugging Face hub (%v)", c.repo, c.Endpoint, err)
	}
	return l.Files, l.Commit, nil
}

// pull downloads a file, unless it is there and has not changed.
func (c *client) pull(ctx context.Context, f file, commit string) error {
	to := filepath.Join(c.dir, filepath.FromSlash(f.Name))
	if f.is(to) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if filepath.Ext(to) != ".gguf" { // while files change, the folder holds no model
		if err := os.Remove(filepath.Join(c.dir, "config.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	part := to + ".part"
	for try := 0; ; try++ {
		err := c.append(ctx, f, commit, part)
		if err == nil {
			break
		}
		if status, ok := errors.AsType[errStatus](err); try+1 == tries || ctx.Err() != nil || ok && status < 500 {
			return err
		}
		select {
		case <-time.After(pause << try):
		case <-ctx.Done():
		}
	}
	if !f.is(part) {
		os.Remove(part)
		return errors.New("the contents do not have the hash that the server states: pull again")
	}
	return os.Rename(part, to)
}

// pause is the time before the second try.
var pause = time.Second

// append downloads what is missing of a file.
func (c *client) append(ctx context.Context, f file, commit, part string) (err error) {
	out, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	at, err := out.Seek(0, io.SeekEnd)
	if err != nil || at == f.Size {
		return err
	}
	if at > f.Size {
		at = 0
	}
	a, err := c.request(ctx, at, c.repo, "resolve", commit, f.Name)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusOK { // the server sends all of it
		at = 0
	}
	if err := out.Truncate(at); err != nil {
		return err
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(out, written(func(n int) {
		if at += int64(n); c.Progress != nil {
			c.Progress(f.Name, at, f.Size)
		}
	})), io.LimitReader(a.Body, f.Size-at)); err != nil {
		return err
	}
	if at < f.Size {
		return io.ErrUnexpectedEOF
	}
	return out.Sync()
}

// written is called with the number of bytes of every write.
type written func(n int)

func (w written) Write(b []byte) (int, error) {
	w(len(b))
	return len(b), nil
}

// is reports whether a local file has the hash of f.
func (f *file) is(path string) bool {
	in, err := os.Open(path)
	if err != nil {
		return false
	}
	defer in.Close()
	var h hash.Hash
	want := f.LFS.SHA256
	if h = sha256.New(); want == "" {
		h, want = sha1.New(), f.Git
		fmt.Fprintf(h, "blob %d\x00", f.Size)
	}
	n, err := io.Copy(h, in)
	return err == nil && n == f.Size && hex.EncodeToString(h.Sum(nil)) == want
}
