package datasets

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/randfeat/randfeat/internal/localfile"
)

// ErrNoSource marks a file that Fetcher cannot get: there is no public copy from which it can be made, or its
// licence does not allow one.
var ErrNoSource = errors.New("cannot be fetched")

// errSum marks a download whose checksum is wrong.
var errSum = errors.New("the checksum is wrong")

// Fetcher downloads files into a folder of data sets. A download is checked before it is moved into place in
// one step. A download that was cut off or interrupted is continued by the next try, of the same process or a
// later one.
type Fetcher struct {
	// From is the address of a folder with the files in their final form, such as the data folder of another
	// machine; empty means the public addresses.
	From   string
	Client *http.Client  // nil: a client that limits redirects
	Tries  int           // tries of each address without progress; 0 means 5
	Stall  time.Duration // time without a byte after which a try ends; 0 means 30 s
	Pause  time.Duration // pause before the second try, doubled before each later one; 0 means 500 ms
	// Progress is called with the number of bytes so far.
	Progress func(f File, bytes int64)
}

// Fetch gets one file, unless it exists. It returns the number of bytes transferred.
func (t *Fetcher) Fetch(ctx context.Context, dir string, f File) (int64, error) {
	switch state, err := f.Verify(dir); {
	case err != nil:
		return 0, err
	case state == OK:
		return 0, nil
	case state == Differs:
		return 0, fmt.Errorf("%s is there and differs from the list: move it away first", f.In(dir))
	}
	urls := f.URLs
	if t.From != "" {
		u, err := url.JoinPath(t.From, f.Path)
		if err != nil {
			return 0, err
		}
		urls = []string{u}
		f.convert = nil
	}
	if len(urls) == 0 {
		return 0, fmt.Errorf("%s %w: %s", f.Path, ErrNoSource, f.Why)
	}
	if err := os.MkdirAll(filepath.Dir(f.In(dir)), 0o777); err != nil {
		return 0, err
	}
	var total int64
	var failed []error
	for _, u := range urls {
		n, err := t.fetchFrom(ctx, dir, f, u)
		total += n
		if err == nil {
			return total, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return total, fmt.Errorf("cannot fetch %s: %w", f.Path, errors.Join(failed...))
}

// fetchFrom downloads from one address, and once more from the start if a continued download has the wrong
// checksum: the first part may have come from another version of the file.
func (t *Fetcher) fetchFrom(ctx context.Context, dir string, f File, address string) (int64, error) {
	target := f.In(dir)
	// The name of the partial file depends on the address: parts of different copies must not be joined.
	sum := sha256.Sum256([]byte(address))
	part := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+"."+hex.EncodeToString(sum[:6])+".part")
	var total int64
	for {
		info, err := os.Stat(part)
		continued := err == nil && info.Size() > 0
		n, err := t.download(ctx, f, address, part)
		total += n
		if err != nil {
			return total, err
		}
		err = install(part, target, f)
		if errors.Is(err, errSum) {
			os.Remove(part)
			if continued {
				continue
			}
			return total, fmt.Errorf("%s: %w", address, err)
		}
		if err == nil {
			os.Remove(part)
		}
		return total, err
	}
}

// install makes the file from a complete download: convert, compress, check, and move into place.
func install(part, target string, f File) error {
	b, err := os.ReadFile(part)
	if err != nil {
		return err
	}
	if f.convert != nil {
		if b, err = f.convert(b); err != nil {
			return fmt.Errorf("%w: %w", errSum, err) // not the file that the list describes
		}
	}
	if f.compressed() && !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		b = z.Bytes()
	}
	switch state, err := f.check(bytes.NewReader(b)); {
	case err != nil:
		return err
	case state != OK:
		got, _ := digest(bytes.NewReader(b))
		return fmt.Errorf("%w: SHA-256 is %s, want %s: the file there has changed", errSum, got, f.SHA256)
	}
	out, err := localfile.Create(target)
	if err != nil {
		return err
	}
	defer out.Abort()
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Commit()
}

// fatal marks errors that another try of the same address cannot fix.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// download completes part with the rest of the file at an address.
func (t *Fetcher) download(ctx context.Context, f File, address, part string) (int64, error) {
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	tries, first := t.Tries, t.Pause
	tries = cmp.Or(tries, 5)
	first = cmp.Or(first, 500*time.Millisecond)
	pause := first
	var total, most int64
	for try := 1; ; try++ {
		n, err := t.try(ctx, f, address, out)
		total += n
		if err == nil {
			return total, out.Sync()
		}
		if at, err := out.Seek(0, io.SeekEnd); err == nil && at > most {
			most, try, pause = at, 0, first // progress: only tries without progress count
		}
		var no fatal
		if errors.As(err, &no) || try == tries || ctx.Err() != nil {
			return total, fmt.Errorf("%s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return total, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// try makes one request for the missing bytes of out.
func (t *Fetcher) try(ctx context.Context, f File, address string, out *os.File) (int64, error) {
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fatal{err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := t.Stall
	stall = cmp.Or(stall, 30*time.Second)
	watch := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no byte for %v", stall)) })
	defer watch.Stop()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, fatal{err}
	}
	request.Header.Set("Accept-Encoding", "identity") // ranges refer to the bytes as stored
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	client := t.Client
	if client == nil {
		client = defaultClient
	}
	r, err := client.Do(request)
	if err != nil {
		return 0, because(ctx, err)
	}
	defer r.Body.Close()
	switch {
	case r.StatusCode == http.StatusPartialContent && startsAt(r.Header.Get("Content-Range"), have):
	case r.StatusCode == http.StatusOK:
		have = 0 // the server does not support ranges: start over
	case have > 0 && (r.StatusCode == http.StatusRequestedRangeNotSatisfiable ||
		r.StatusCode == http.StatusPartialContent):
		// Everything is there, or the file has changed: start over.
		if err := out.Truncate(0); err != nil {
			return 0, fatal{err}
		}
		return 0, fmt.Errorf("the server does not continue at byte %d", have)
	case r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusRequestTimeout || r.StatusCode >= 500:
		return 0, fmt.Errorf("the server says %s", r.Status)
	default:
		return 0, fatal{fmt.Errorf("the server says %s", r.Status)}
	}
	if r.ContentLength > maxDownload-have {
		return 0, fatal{fmt.Errorf("the server offers %d bytes more, at most %d are taken", r.ContentLength,
			maxDownload-have)}
	}
	if err := out.Truncate(have); err != nil {
		return 0, fatal{err}
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return 0, fatal{err}
	}
	var n int64
	buf := make([]byte, 64<<10)
	for {
		k, err := r.Body.Read(buf)
		if k > 0 {
			watch.Reset(stall)
			if _, err := out.Write(buf[:k]); err != nil {
				return n, fatal{err}
			}
			if n += int64(k); have+n > maxDownload {
				return n, fatal{errors.Join(fmt.Errorf("more than %d bytes", maxDownload), out.Truncate(0))}
			}
			if t.Progress != nil {
				t.Progress(f, have+n)
			}
		}
		switch {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, because(ctx, err)
		}
	}
}

// because prefers the cause for which a context ended, and marks redirects that are refused as fatal.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errRedirect) {
		return fatal{err}
	}
	return err
}

// startsAt reports whether a Content-Range such as "bytes 10-19/20" begins at an offset.
func startsAt(contentRange string, offset int64) bool {
	return strings.HasPrefix(contentRange, fmt.Sprintf("bytes %d-", offset))
}

var errRedirect = errors.New("redirected")

// defaultClient follows a few redirects, but never from https to http.
var defaultClient = &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 5:
		return fmt.Errorf("%w more than 4 times", errRedirect)
	case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return fmt.Errorf("%w from https to %s", errRedirect, r.URL.Scheme)
	}
	return nil
}}
