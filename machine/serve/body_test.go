package serve

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/randfeat/randfeat/machine"
)

// stalled is a body that tells once all that it has was read, and then waits.
type stalled struct {
	io.Reader
	read    func()
	release chan struct{}
}

func (s *stalled) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err == io.EOF {
		s.read()
		<-s.release
	}
	return n, err
}

// Clients that send much and then stall take as much memory as they sent, all of it counted. A buffer that grows by
// doubling would hold more than is counted.
func TestStalledBodiesTakeWhatIsCounted(t *testing.T) {
	const clients, size = 6, 3 << 20
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Body: 4 << 20, Memory: 20 << 20}})
	text := strings.Repeat(" ", size-len(oneRow)) + oneRow
	var arrived, done sync.WaitGroup
	release := make(chan struct{})
	codes := make([]int, clients)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range clients {
		arrived.Add(1)
		body := &stalled{Reader: strings.NewReader(text), read: sync.OnceFunc(arrived.Done), release: release}
		done.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/predict", body)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			codes[i] = w.Code
		})
	}
	arrived.Wait()
	runtime.ReadMemStats(&after)
	taken, held := after.TotalAlloc-before.TotalAlloc, s.memory.Load()
	if held < clients*size || held > clients*(size+2*chunkBytes) {
		t.Errorf("%d bytes of %d are counted", held, clients*size)
	}
	if taken > clients*size*5/4 {
		t.Errorf("%d bytes of memory for %d bytes of bodies", taken, clients*size)
	}
	// The limit holds while the others wait: 2 MiB are left.
	if w := post(s, "/v1/predict", "application/json", text); w.Code != http.StatusTooManyRequests {
		t.Errorf("beyond the limit: %d %s", w.Code, w.Body)
	}
	if now := s.memory.Load(); now != held {
		t.Errorf("%d bytes are counted after a refused body, %d before", now, held)
	}
	close(release)
	done.Wait()
	for i, c := range codes {
		if c != http.StatusOK {
			t.Errorf("body %d: %d", i, c)
		}
	}
	if n := s.memory.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// Bodies around the size of a step arrive whole, in reads of any size, and one of the size of the limits is taken.
func TestBodiesArriveWhole(t *testing.T) {
	const limit = 3*chunkBytes + 1000
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Body: limit, Memory: limit + 1<<20}})
	pattern := make([]byte, limit+1)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	for _, n := range []int{0, 1, 511, 512, 513, chunkBytes, chunkBytes + 512, chunkBytes + 513, 2*chunkBytes + 512,
		2*chunkBytes + 513, limit - 1, limit} {
		for _, step := range []int{997, chunkBytes, limit} {
			k := newWork()
			err := s.readAll(k, &steps{pattern[:n], step}, limit, 0)
			if err != nil || !bytes.Equal(k.body, pattern[:n]) {
				t.Errorf("%d bytes in steps of %d: %d arrive, %v", n, step, len(k.body), err)
			}
			if k.held < int64(n) || k.held > int64(n)+chunkBytes+512 {
				t.Errorf("%d bytes in steps of %d: %d are counted", n, step, k.held)
			}
			s.leave(k)
		}
	}
	k := newWork()
	if err := s.readAll(k, &steps{pattern, limit}, limit, 0); err != errTooLong {
		t.Errorf("a byte more than the limit: %v", err)
	}
	s.leave(k)
	if n := s.memory.Load(); n != 0 {
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
