package store

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func init() { filesystem.Register("s3", newS3) }

// s3System is the file system of s3://. Beam has one too, but it drops the ETags of objects, and repeats failed
// requests without a limit on the time of all together.
type s3System struct{ client *s3.Client }

// newS3 reads settings and credentials as the AWS command line does. It panics if they are wrong, as Beam's do.
func newS3(ctx context.Context) filesystem.Interface {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryer(func() aws.Retryer { return newRepeats(retryTime) }))
	if err != nil {
		panic(err.Error())
	}
	return &s3System{s3.NewFromConfig(cfg)}
}

// retryTime bounds the pauses before repeated requests, of all requests of a process together. It lets a fit survive
// storage that fails 30 % of a thousand requests, at pauses of .05, .1, .2, … s.
var retryTime = 30 * time.Second

const (
	attempts     = 8
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// repeats decides whether and when a failed request is repeated.
type repeats struct {
	*retry.Standard
	most time.Duration

	mu    sync.Mutex
	spent time.Duration
	count int
}

func newRepeats(most time.Duration) *repeats {
	return &repeats{most: most, Standard: retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None // spent is the limit
	})}
}

// RetryDelay implements aws.Retryer. The first repetition has attempt 1.
func (r *repeats) RetryDelay(attempt int, err error) (time.Duration, error) {
	pause := min(firstPause<<min(max(attempt, 1)-1, 10), longestPause)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent+pause > r.most {
		return 0, fmt.Errorf("the storage fails too often: %d requests were repeated, with pauses of %v, at most %v: %w",
			r.count, r.spent, r.most, err)
	}
	r.spent += pause
	r.count++
	return pause, nil
}

// bucketKey splits s3://bucket/key.
func bucketKey(name string) (bucket, key *string, err error) {
	rest, ok := strings.CutPrefix(name, "s3://")
	b, k, _ := strings.Cut(rest, "/")
	if !ok || b == "" {
		return nil, nil, fmt.Errorf("%s: want s3://bucket/name", name)
	}
	return &b, &k, nil
}

// Close implements filesystem.Interface.
func (s *s3System) Close() error { return nil }

// List implements filesystem.Interface.
func (s *s3System) List(ctx context.Context, pattern string) ([]string, error) {
	bucket, key, err := bucketKey(pattern)
	if err != nil {
		return nil, err
	}
	prefix := *key
	if i := strings.IndexByte(prefix, '*'); i >= 0 {
		prefix = prefix[:i]
	}
	var names []string
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			if match, err := path.Match(*key, aws.ToString(o.Key)); err != nil {
				return nil, err
			} else if match {
				names = append(names, "s3://"+*bucket+"/"+aws.ToString(o.Key))
			}
		}
	}
	return names, nil
}

// OpenRead implements filesystem.Interface. The reader checks the contents against the ETag where the ETag is a hash of
// them, and has a method ETag.
func (s *s3System) OpenRead(ctx context.Context, name string) (io.ReadCloser, error) {
	bucket, key, err := bucketKey(name)
	if err != nil {
		return nil, err
	}
	o, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return nil, err
	}
	r := &s3Reader{ReadCloser: o.Body, etag: strings.Trim(aws.ToString(o.ETag), `"`)}
	if o.ServerSideEncryption == "" {
		r.sum = newETagHash()
	}
	return r, nil
}

type s3Reader struct {
	io.ReadCloser
	etag string
	sum  *etagHash // nil: the ETag of an encrypted object is no hash
}

// ETag names the version of the object.
func (r *s3Reader) ETag() string { return r.etag }

func (r *s3Reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.sum != nil {
		r.sum.Write(p[:n])
		if err == io.EOF {
			// The parts of an object that another program uploaded are unknown: only whole ones can be checked.
			if want := r.sum.whole(); isMD5(r.etag) && r.etag != want {
				err = fmt.Errorf("the contents have the MD5 %s, the ETag says %s: the object is damaged", want, r.etag)
			}
		}
	}
	return n, err
}

// OpenWrite implements filesystem.Interface. Close returns when the object is there and its ETag is that of what was
// written.
func (s *s3System) OpenWrite(ctx context.Context, name string) (io.WriteCloser, error) {
	bucket, key, err := bucketKey(name)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	u := &s3Writer{PipeWriter: w, sum: newETagHash(), done: make(chan error, 1)}
	go func() {
		uploader := manager.NewUploader(s.client, func(u *manager.Uploader) { u.PartSize, u.Concurrency = partSize, 2 })
		o, err := uploader.Upload(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: r})
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // later writes fail
		if err == nil && o.ServerSideEncryption == "" {
			u.etag = strings.Trim(aws.ToString(o.ETag), `"`)
		}
		u.done <- err
	}()
	return u, nil
}

type s3Writer struct {
	*io.PipeWriter
	sum  *etagHash
	etag string // "" if it is no hash
	done chan error
}

func (w *s3Writer) Write(p []byte) (int, error) {
	w.sum.Write(p)
	return w.PipeWriter.Write(p)
}

func (w *s3Writer) Close() error {
	w.PipeWriter.Close()
	if err := <-w.done; err != nil {
		return err
	}
	want := w.sum.whole()
	if strings.Contains(w.etag, "-") {
		want = w.sum.inParts()
	}
	if before, _, _ := strings.Cut(w.etag, "-"); isMD5(before) && w.etag != want {
		return fmt.Errorf("the storage answered with the ETag %s, what was written has %s: the object is damaged", w.etag,
			want)
	}
	return nil
}

// Size implements filesystem.Interface.
func (s *s3System) Size(ctx context.Context, name string) (int64, error) {
	o, err := s.head(ctx, name)
	if err != nil {
		return 0, err
	}
	return aws.ToInt64(o.ContentLength), nil
}

// LastModified implements filesystem.LastModifiedGetter.
func (s *s3System) LastModified(ctx context.Context, name string) (time.Time, error) {
	o, err := s.head(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	return aws.ToTime(o.LastModified), nil
}

func (s *s3System) head(ctx context.Context, name string) (*s3.HeadObjectOutput, error) {
	bucket, key, err := bucketKey(name)
	if err != nil {
		return nil, err
	}
	return s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key})
}

// Remove implements filesystem.Remover.
func (s *s3System) Remove(ctx context.Context, name string) error {
	bucket, key, err := bucketKey(name)
	if err != nil {
		return err
	}
	_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	return err
}

// partSize is the size of the parts in which a large object is uploaded; there are at most 10,000.
const partSize = 16 << 20

// etagHash computes the ETag that S3 gives to an object: its MD5, or for an object in parts the MD5 of the MD5 of the
// parts, with their number.
type etagHash struct {
	all, part hash.Hash
	in        int // bytes in part
	parts     []byte
}

func newETagHash() *etagHash { return &etagHash{all: md5.New(), part: md5.New()} }

func (e *etagHash) Write(p []byte) {
	e.all.Write(p)
	for len(p) > 0 {
		n := min(len(p), partSize-e.in)
		e.part.Write(p[:n])
		p = p[n:]
		if e.in += n; e.in == partSize {
			e.parts = e.part.Sum(e.parts)
			e.part.Reset()
			e.in = 0
		}
	}
}

func (e *etagHash) whole() string { return hex.EncodeToString(e.all.Sum(nil)) }

func (e *etagHash) inParts() string {
	parts := e.parts
	if e.in > 0 {
		parts = e.part.Sum(parts)
	}
	sum := md5.Sum(parts)
	return fmt.Sprintf("%x-%d", sum, len(parts)/md5.Size)
}

// isMD5 reports whether an ETag looks like an MD5.
func isMD5(etag string) bool {
	b, err := hex.DecodeString(etag)
	return err == nil && len(b) == md5.Size
}
