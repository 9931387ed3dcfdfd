package httpd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/randfeat/randfeat/internal/httpd/httpdtest"
)

// running starts a server on a free port. stop ends it and returns what Run returned.
func running(t *testing.T, s *Server) (url string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, ln) }()
	t.Cleanup(cancel)
	return "http://" + ln.Addr().String(), func() error { cancel(); return <-done }
}

// echo answers with the body of the request.
func echo(s *Server, m *Memory) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := s.ReadBody(w, r, 1<<20, m)
		if err != nil {
			http.Error(w, err.Message, err.Status)
			return
		}
		defer b.Free()
		w.Write(b.Bytes)
	})
}

func echoServer() *Server {
	s := &Server{Read: time.Minute, Header: time.Minute, Shutdown: 20 * time.Second}
	s.Handler = echo(s, NewMemory(1<<20))
	return s
}

// A server that stops under load answers every request that has reached it.
func TestStopUnderLoad(t *testing.T) {
	held := holdsNew(t)
	secure := httptest.NewTLSServer(nil) // for its certificate
	defer secure.Close()
	client := secure.Client().Transport.(*http.Transport).TLSClientConfig
	for name, c := range map[string]struct {
		drain     time.Duration
		transport *http.Transport
		tls       *tls.Config
	}{
		"kept connections":        {0, &http.Transport{}, nil},
		"kept connections, drain": {50 * time.Millisecond, &http.Transport{}, nil},
		"new connections":         {0, &http.Transport{DisableKeepAlives: true}, nil},
		"new connections, drain":  {50 * time.Millisecond, &http.Transport{DisableKeepAlives: true}, nil},
		"TLS":                     {0, &http.Transport{TLSClientConfig: client}, secure.TLS},
		"TLS, drain":              {50 * time.Millisecond, &http.Transport{TLSClientConfig: client}, secure.TLS},
		"TLS, new connections":    {0, &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}, secure.TLS},
	} {
		t.Run(name, func(t *testing.T) {
			s := echoServer()
			s.Drain, s.TLS = c.drain, c.tls
			url, stop := running(t, s)
			if c.tls != nil {
				url = strings.Replace(url, "http:", "https:", 1)
			}
			lost := httpdtest.StopUnderLoad(t, c.transport, stop, func(i int) *http.Request {
				method, body := http.MethodPost, io.Reader(strings.NewReader(strings.Repeat("x", i%9000)))
				if i%3 == 0 {
					method, body = http.MethodGet, nil
				}
				r, err := http.NewRequest(method, url, body)
				if err != nil {
					t.Error(err)
				}
				return r
			})
			// Clients that connect while the listener closes are safe only if the system can hold them back.
			connecting := c.drain > 0 || c.transport.DisableKeepAlives
			if len(lost) > 1 || len(lost) == 1 && (held || !connecting) {
				t.Error(errors.Join(lost...))
			}
		})
	}
}

// holdsNew reports whether the system can hold new connections back.
func holdsNew(t *testing.T) bool {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return holdNew(raw)
}

// In HTTP/2 the server says that it leaves (GOAWAY), and its clients move on: no request is lost.
func TestStopHTTP2(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	s := echoServer()
	s.TLS = &tls.Config{Certificates: secure.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	url, stop := running(t, s)
	tr := &http.Transport{TLSClientConfig: secure.Client().Transport.(*http.Transport).TLSClientConfig,
		ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	var answered, stopped atomic.Int64
	var wg sync.WaitGroup
	for range httpdtest.Clients {
		wg.Go(func() {
			for {
				r, err := http.NewRequest(http.MethodPost, strings.Replace(url, "http:", "https:", 1),
					strings.NewReader("a body"))
				if err != nil {
					t.Error(err)
					return
				}
				a, err := tr.RoundTrip(r)
				if err == nil {
					_, err = io.Copy(io.Discard, a.Body)
					a.Body.Close()
				}
				var op *net.OpError
				if stopped.Load() > 0 && errors.As(err, &op) && op.Op == "dial" {
					return
				}
				if err != nil || a.ProtoMajor != 2 || a.StatusCode != 200 {
					t.Errorf("after %d answers: %+v, %v", answered.Load(), a, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for answered.Load() < 300 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	stopped.Store(1)
	if err := stop(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Answers that begin after the server was told to stop close their connection, and Drain accepts new ones.
func TestStoppingAnswersClose(t *testing.T) {
	s := echoServer()
	s.Drain = 2 * time.Second
	url, stop := running(t, s)
	stopped := make(chan error, 1)
	get := func() *http.Response {
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r
	}
	if r := get(); r.Close {
		t.Error("an answer closes its connection before the server stops")
	}
	go func() { stopped <- stop() }()
	for !s.Stopping() {
		time.Sleep(time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections() // so that the next one is new
	for range 2 {
		if r := get(); !r.Close || r.StatusCode != 200 {
			t.Errorf("while stopping: status %d, close %v", r.StatusCode, r.Close)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Connections that are idle, have sent part of a header or part of a body do not keep the server from stopping. The
// last ones are told why; a body that still arrives is answered.
func TestStalledClientsDoNotHoldTheExit(t *testing.T) {
	s := echoServer()
	s.Grace = 500 * time.Millisecond
	url, stop := running(t, s)
	conns := httpdtest.Stall(t, url, "/", "text/plain", 4)
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, text := range []string{"", "POST / HTTP/1.1\r\nHost: x\r\nX-", get, get + "GET / HTTP/1.1\r\nX-"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	for {
		s.mu.Lock()
		n := len(s.arriving)
		s.mu.Unlock()
		if n == len(conns) && s.Open() == len(conns)+4 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !s.Stopping() {
		time.Sleep(time.Millisecond)
	}
	// The first body arrives now, and is answered whenever its handler ends.
	if _, err := io.WriteString(conns[0], strings.Repeat("x", 999)); err != nil {
		t.Fatal(err)
	}
	for i, c := range conns {
		want := http.StatusServiceUnavailable
		if i == 0 {
			want = http.StatusOK
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != want || !r.Close {
			t.Errorf("body %d: %+v, %v", i, r, err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 4*time.Second { // net/http itself would wait for 5 s
		t.Errorf("stopped after %v", took)
	}
}

// A request whose body arrived while the server stops is not cancelled when the time for bodies ends.
func TestCutBodiesSpareRequestsInWork(t *testing.T) {
	s := &Server{Read: time.Minute, Header: time.Minute, Shutdown: 20 * time.Second, Grace: 200 * time.Millisecond}
	m := NewMemory(1 << 20)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, e := s.ReadBody(w, r, 1<<20, m)
		if e != nil {
			http.Error(w, e.Message, e.Status)
			return
		}
		defer b.Free()
		select {
		case <-r.Context().Done():
			http.Error(w, "canceled", http.StatusTeapot)
		case <-time.After(time.Second):
		}
	})
	url, stop := running(t, s)
	c := httpdtest.Stall(t, url, "/", "text/plain", 1)[0]
	for m.Used() == 0 {
		time.Sleep(time.Millisecond)
	}
	empty, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for cut := false; !cut; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		cut = !s.cut.IsZero()
		s.mu.Unlock()
	}
	// The rest of a body, and a request without one: there, net/http reads ahead before the handler begins.
	_, err1 := io.WriteString(c, strings.Repeat("x", 999))
	_, err2 := io.WriteString(empty, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for i, c := range []net.Conn{c, empty} {
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("request %d: %+v, %v", i, r, err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Requests that take longer than Shutdown are cut off, which is an error.
func TestShutdownBound(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{})
	s := &Server{Shutdown: 50 * time.Millisecond, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	})}
	url, stop := running(t, s)
	lost := make(chan error, 1)
	go func() { _, err := http.Get(url); lost <- err }()
	<-began
	if err := stop(); err == nil || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("%v", err)
	}
	if <-lost == nil {
		t.Error("the request was answered")
	}
	close(release)
}

// Bodies around the size of a step arrive whole, in reads of any size, compressed or not, and all are counted.
func TestBodiesArriveWhole(t *testing.T) {
	const limit = 3*chunkBytes + 1000
	s, m := &Server{}, NewMemory(limit+1<<20)
	pattern := make([]byte, limit+1)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	read := func(b []byte, step int, zipped bool) (*Body, *BodyError) {
		r := httptest.NewRequest(http.MethodPost, "/", &steps{b, step})
		if zipped {
			var z bytes.Buffer
			g := gzip.NewWriter(&z)
			g.Write(b)
			g.Close()
			r = httptest.NewRequest(http.MethodPost, "/", &z)
			r.Header.Set("Content-Encoding", "gzip")
		}
		return s.ReadBody(httptest.NewRecorder(), r, limit, m)
	}
	for _, n := range []int{0, 1, firstBytes - 1, firstBytes, firstBytes + 1, chunkBytes, chunkBytes + firstBytes,
		chunkBytes + firstBytes + 1, 2*chunkBytes + firstBytes, 2*chunkBytes + firstBytes + 1, limit - 1, limit} {
		for _, step := range []int{997, chunkBytes, limit} {
			for _, zipped := range []bool{false, true} {
				b, err := read(pattern[:n], step, zipped)
				if err != nil || !bytes.Equal(b.Bytes, pattern[:n]) {
					t.Fatalf("%d bytes in steps of %d: %v", n, step, err)
				}
				if held := m.Used(); held < int64(n) || held > int64(max(n, firstBytes)) {
					t.Errorf("%d bytes in steps of %d: %d are counted", n, step, held)
				}
				b.Free()
			}
		}
	}
	for _, zipped := range []bool{false, true} {
		if _, err := read(pattern, limit, zipped); err == nil || err.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("a byte more than the limit, gzip %v: %v", zipped, err)
		}
	}
	if n := m.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// Clients that send much and then stall do not keep others out: when memory is full, the one with most is cut.
func TestStalledBodiesMakeRoom(t *testing.T) {
	s := &Server{Read: time.Minute, Header: time.Minute, Shutdown: 20 * time.Second}
	m := NewMemory(1 << 20)
	s.Handler = echo(s, m)
	url, stop := running(t, s)
	var stalled []net.Conn
	for _, size := range []int{220000, 380000, 300000} { // announced as 400 kB
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n"+
			strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	for m.Used() < 900000 {
		time.Sleep(time.Millisecond)
	}
	post := func() int {
		r, err := http.Post(url, "text/plain", strings.NewReader(strings.Repeat("y", 100000)))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if code := post(); code != http.StatusTooManyRequests { // they may be honest
		t.Errorf("while the others are young: %d", code)
	}
	time.Sleep(patience)
	if code := post(); code != http.StatusOK {
		t.Errorf("when the others are old: %d", code)
	}
	for i, c := range stalled {
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if cut := err == nil && r.StatusCode == http.StatusRequestTimeout; cut != (i == 1) {
			t.Errorf("stalled client %d was cut: %v", i, cut)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := m.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// Bodies beyond the memory are refused and counted no more.
func TestMemory(t *testing.T) {
	s, m := &Server{}, NewMemory(100<<10)
	read := func(n int) (*Body, *BodyError) {
		return s.ReadBody(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/",
			strings.NewReader(strings.Repeat("x", n))), 1<<20, m)
	}
	a, err := read(60 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(60 << 10); err == nil || err.Status != http.StatusTooManyRequests || !err.Retry {
		t.Errorf("%v", err)
	}
	if n := m.Used(); n != 60<<10 {
		t.Errorf("%d bytes are counted", n)
	}
	if err := a.Hold(41 << 10); err == nil {
		t.Error("more than there is")
	}
	a.Free()
	if b, err := read(60 << 10); err != nil {
		t.Error(err)
	} else {
		b.Free()
	}
	if n := m.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// steps hands out bytes, at most so many at a time.
type steps struct {
	left []byte
	most int
}

func (s *steps) Read(b []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.most)], s.left)
	s.left = s.left[n:]
	return n, nil
}
