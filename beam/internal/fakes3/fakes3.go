// Package fakes3 is a small S3 server in memory for tests, which can fail and lie.
package fakes3

import (
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server holds the objects of all buckets by bucket/key.
type Server struct {
	// Fail, if set, says which requests get status 503.
	Fail func(r *http.Request) bool
	// Tag, if set, changes the ETag that is answered.
	Tag func(r *http.Request, etag string) string
	// Age is added to the age of all objects.
	Age func(name string) time.Duration

	mu       sync.Mutex
	objects  map[string]object
	uploads  map[string][][]byte // parts by upload
	Requests int
	Failed   int
}

type object struct {
	body []byte
	etag string
	at   time.Time
}

// Start starts a server and points the settings of the AWS client to it for the test.
func Start(t *testing.T) *Server {
	s := &Server{objects: map[string]object{}, uploads: map[string][][]byte{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	for k, v := range map[string]string{"AWS_ENDPOINT_URL": h.URL, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		// Without these the client adds checksums of its own, and would notice a wrong one first.
		"AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required", "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required"} {
		t.Setenv(k, v)
	}
	return s
}

// Names lists all objects.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Put stores an object.
func (s *Server) Put(name string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = object{body, fmt.Sprintf("%x", md5.Sum(body)), time.Now()}
}

// ServeHTTP answers requests in path style: /bucket/key.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests++
	name, query := strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()
	if s.Fail != nil && s.Fail(r) {
		s.Failed++
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>`)
		return
	}
	tag := func(etag string) string {
		if s.Tag != nil {
			etag = s.Tag(r, etag)
		}
		return `"` + etag + `"`
	}
	o, there := s.objects[name]
	switch {
	case r.Method == http.MethodGet && query.Has("list-type"):
		s.list(w, name, query.Get("prefix"))
	case r.Method == http.MethodPost && query.Has("uploads"):
		id := strconv.Itoa(len(s.uploads) + 1)
		s.uploads[id] = nil
		writeXML(w, struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadID string   `xml:"UploadId"`
		}{UploadID: id})
	case r.Method == http.MethodPut && query.Has("partNumber"):
		n, _ := strconv.Atoi(query.Get("partNumber"))
		parts := s.uploads[query.Get("uploadId")]
		for len(parts) < n {
			parts = append(parts, nil)
		}
		parts[n-1] = body
		s.uploads[query.Get("uploadId")] = parts
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, md5.Sum(body)))
	case r.Method == http.MethodPost && query.Has("uploadId"):
		var all, sums []byte
		parts := s.uploads[query.Get("uploadId")]
		for _, p := range parts {
			sum := md5.Sum(p)
			all, sums = append(all, p...), append(sums, sum[:]...)
		}
		o = object{all, fmt.Sprintf("%x-%d", md5.Sum(sums), len(parts)), time.Now()}
		s.objects[name] = o
		writeXML(w, struct {
			XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
			ETag    string
		}{ETag: tag(o.etag)})
	case r.Method == http.MethodPut:
		o = object{body, fmt.Sprintf("%x", md5.Sum(body)), time.Now()}
		s.objects[name] = o
		w.Header().Set("ETag", tag(o.etag))
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		w.WriteHeader(http.StatusNotFound)
		if r.Method != http.MethodHead {
			io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
		}
	default:
		at := o.at
		if s.Age != nil {
			at = at.Add(-s.Age(name))
		}
		w.Header().Set("ETag", tag(o.etag))
		w.Header().Set("Last-Modified", at.UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", strconv.Itoa(len(o.body)))
		if r.Method == http.MethodGet {
			w.Write(o.body)
		}
	}
}

func (s *Server) list(w http.ResponseWriter, bucket, prefix string) {
	type contents struct {
		Key  string
		Size int
	}
	var all []contents
	for name, o := range s.objects {
		if key, ok := strings.CutPrefix(name, strings.TrimSuffix(bucket, "/")+"/"); ok &&
			strings.HasPrefix(key, prefix) {
			all = append(all, contents{key, len(o.body)})
		}
	}
	slices.SortFunc(all, func(a, b contents) int { return strings.Compare(a.Key, b.Key) })
	writeXML(w, struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []contents
	}{Contents: all})
}

func writeXML(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(v)
}
