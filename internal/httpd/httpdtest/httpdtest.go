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
	"testing"
	"time"
)

// Clients is the number of clients of StopUnderLoad.
const Clients = 16

// StopUnderLoad stops a server while clients send requests as fast as they can, each with a copy of transport. Each
// client goes on until it cannot connect any more. It returns the errors of requests that were sent and did not get an
// answer of status 200 at the first attempt.
func StopUnderLoad(t *testing.T, transport *http.Transport, stop func() error,
	request func(i int) *http.Request) (lost []error) {
	t.Helper()
	var answered atomic.Int64
	var stopped atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range Clients {
		wg.Go(func() {
			tr := transport.Clone()
			defer tr.CloseIdleConnections()
			for n := i; ; n++ {
				err := once(tr, request(n))
				var op *net.OpError
				if stopped.Load() && errors.As(err, &op) && op.Op == "dial" {
					return // the server no longer listens
				}
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					lost = append(lost, fmt.Errorf("client %d after %d answers, stopping %v: %w", i, answered.Load(),
						stopped.Load(), err))
					return
				}
				answered.Add(1)
			}
		})
	}
	for end := time.Now().Add(20 * time.Second); answered.Load() < 20*Clients && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	stopped.Store(true)
	if err := stop(); err != nil {
		t.Errorf("the server: %v", err)
	}
	wg.Wait()
	t.Logf("%d answers", answered.Load())
	return lost
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
