package serve

import (
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
	taken, held := after.TotalAlloc-before.TotalAlloc, s.memory.Used()
	if held < clients*size || held > clients*(size+128<<10) {
		t.Errorf("%d bytes of %d are counted", held, clients*size)
	}
	if taken > clients*size*5/4 {
		t.Errorf("%d bytes of memory for %d bytes of bodies", taken, clients*size)
	}
	// The limit holds while the others wait: 2 MiB are left.
	if w := post(s, "/v1/predict", "application/json", text); w.Code != http.StatusTooManyRequests {
		t.Errorf("beyond the limit: %d %s", w.Code, w.Body)
	}
	if now := s.memory.Used(); now != held {
		t.Errorf("%d bytes are counted after a refused body, %d before", now, held)
	}
	close(release)
	done.Wait()
	for i, c := range codes {
		if c != http.StatusOK {
			t.Errorf("body %d: %d", i, c)
		}
	}
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}
