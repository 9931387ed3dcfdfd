// Package httpdtest tests how servers stop and how they treat clients that stall.
package httpdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Clients is the number of clients of StopUnderLoad.
const Clients = 16

// StopUnderLoad stops a server while clients send requests as fast as they can, some to kept connections, some to new
// ones. A request fails the test if it gets no answer of status 200 at the first attempt, unless the server no longer
// listens. It returns how many were answered.
func StopUnderLoad(t *testing.T, keepAlive bool, stop func() error, request func(i int) *http.Request) int64 {
	t.Helper()
	var answered atomic.Int64
	var stopped atomic.Bool
	var wg sync.WaitGroup
	for i := range Clients {
		wg.Go(func() {
			tr := &http.Transport{DisableKeepAlives: !keepAlive}
			defer tr.CloseIdleConnections()
			for n := i; ; n++ {
				err := once(tr, request(n))
				if stopped.Load() && errors.Is(err, syscall.ECONNREFUSED) {
					return
				}
				if err != nil {
					t.Errorf("client %d, after %d answers (stopping: %v): %v", i, answered.Load(), stopped.Load(), err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for answered.Load() < 20*Clients && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	stopped.Store(true)
	if err := stop(); err != nil {
		t.Errorf("the server: %v", err)
	}
	wg.Wait()
	return answered.Load()
}

// once sends a request and reads its answer. A second attempt of the transport is an error.
func once(tr *http.Transport, r *http.Request) error {
	attempts := 0
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { attempts++ }}
	a, err := tr.RoundTrip(r.WithContext(httptrace.WithClientTrace(context.Background(), trace)))
	if attempts > 1 {
		return fmt.Errorf("%d attempts (%v)", attempts, err)
	}
	if err != nil {
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", a.StatusCode, b)
	}
	return err
}

// Stall opens connections that send a header, the first byte of a body and nothing more. They are closed when the test
// ends.
func Stall(t *testing.T, url, path, contentType string, clients int) []net.Conn {
	t.Helper()
	var all []net.Conn
	for range clients {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n{",
			path, contentType); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}
