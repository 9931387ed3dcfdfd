package serve

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
)

// A client that goes away while its request waits for a turn gives everything back.
func TestGoneWhileWaiting(t *testing.T) {
	m, err := models.Open(tiny.Folder(t, "llama"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := New(m, Options{Limits: Limits{Work: 1, Memory: 1 << 20}})
	s.work <- struct{}{} // somebody computes all the time
	reserved := s.memory.Used
	for _, stream := range []string{"true", "false"} {
		ctx, cancel := context.WithCancel(context.Background())
		r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt": "a", "max_tokens": 60, `+
			`"stream": `+stream+`}`))
		r.Header.Set("Content-Type", "application/json")
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		}()
		for reserved() < m.Decoder.SessionBytes(60) { // more than the body, which is not needed any more
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		for begin := time.Now(); reserved() != 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 5*time.Second {
				t.Fatalf("stream %s: %d bytes are reserved still", stream, reserved())
			}
		}
	}
	// Sessions beyond the memory are refused, others are not harmed.
	if !s.memory.Take(1<<20 - 4<<10) {
		t.Fatal("the memory is not free")
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt": "a"}`))
	r.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(w, r)
	if w.Code != 429 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.memory.Give(1<<20 - 4<<10)
	<-s.work
	w = httptest.NewRecorder()
	r = httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt": "a"}`))
	r.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A panic in the work of a request ends this request, gives its place back and leaves the others alone.
func TestPanicEndsOneRequest(t *testing.T) {
	m, err := models.Open(tiny.Folder(t, "bert"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := New(m, Options{Limits: Limits{Work: 1}})
	post := func() int {
		r := httptest.NewRequest("POST", "/v1/embeddings", strings.NewReader(`{"input": "a"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	whole := m.Encoder
	m.Encoder = &models.Encoder{} // its methods panic
	if code := post(); code != 500 || len(s.work) != 0 || len(s.inFlight) != 0 {
		t.Errorf("status %d, %d in work", code, len(s.work))
	}
	m.Encoder = whole
	if code := post(); code != 200 {
		t.Errorf("status %d after a panic", code)
	}
	s.model = &models.Model{Decoder: &models.Decoder{}} // generation runs on a goroutine of its own
	if _, err := s.generate(t.Context(), nil, models.Generate{}, nil); err == nil || len(s.work) != 0 {
		t.Errorf("%v, %d in work", err, len(s.work))
	}
}
