package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat/internal/httpd/httpdtest"
	"github.com/randfeat/randfeat/models/serve"
)

var load = flag.Int("load", 12, "clients of each bad kind in TestLoad")

// Clients that read slowly, go away in the middle of a stream or ask for more memory than there is get clear errors or
// nothing. Another client gets the text that it gets alone, every time.
func TestLoad(t *testing.T) {
	url, stop := start(t, "llama", serve.Options{Limits: serve.Limits{Work: 2, Memory: 256 << 10, Write: time.Second,
		InFlight: 4 * *load, Shutdown: 5 * time.Second}})
	text := func(body string) string {
		var c serve.Completion
		if err := json.Unmarshal([]byte(body), &c); err != nil || len(c.Choices) != 1 {
			t.Fatalf("%s (%v)", body, err)
		}
		return *c.Choices[0].Text
	}
	_, body := post(t, url, "/v1/completions", prompt+`}`)
	want := text(body)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address := strings.TrimPrefix(url, "http://")
	var bad sync.WaitGroup
	var refused, gone atomic.Int32
	for range *load {
		bad.Go(func() { // takes nothing of its answer
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { c.Close() })
			const body = `{"prompt": "a text", "max_tokens": 60, "stream": true}`
			fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", len(body), body)
		})
		ask := func(body string, use func(*http.Response)) {
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			r, err := http.NewRequestWithContext(own, "POST", url+"/v1/completions", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			use(a)
		}
		bad.Go(func() { // goes away after the first event
			ask(`{"prompt": "a text", "max_tokens": 200, "stream": true}`, func(a *http.Response) {
				if a.StatusCode == 200 {
					bufio.NewReader(a.Body).ReadString('\n')
					gone.Add(1)
				}
			})
		})
		bad.Go(func() { // one of more sequences than the memory holds
			ask(`{"prompt": "a text", "max_tokens": 240}`, func(a *http.Response) {
				switch a.StatusCode {
				case http.StatusOK:
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("status %d", a.StatusCode)
				}
			})
		})
	}
	answered := 0
	for range 20 {
		status, body := post(t, url, "/v1/completions", prompt+`}`)
		if status == http.StatusTooManyRequests { // the memory is in use: said so, and later it is not
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if got := text(body); status != 200 || got != want {
			t.Fatalf("%d %q, want %q", status, got, want)
		}
		answered++
	}
	bad.Wait()
	for try := 0; ; try++ { // and when all of them are gone, everything is free again
		status, body := post(t, url, "/v1/completions", prompt+`}`)
		if status == 200 && text(body) == want {
			break
		}
		if try == 500 {
			t.Fatalf("%d %s", status, body)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d of 20 answered during the load, %d refused for memory, %d went away", answered, refused.Load(), gone.Load())
	http.DefaultClient.CloseIdleConnections() // the server would wait for those that were never used
	stop()
}

// A server that stops under load breaks no client.
func TestStopUnderLoad(t *testing.T) {
	url, stop := start(t, "llama", serve.Options{})
	end := func() error { stop(); return nil } // it fails the test itself
	for _, err := range httpdtest.StopUnderLoad(t, &http.Transport{}, end, func(i int) *http.Request {
		method, path, body := http.MethodPost, "/v1/completions", io.Reader(strings.NewReader(
			`{"prompt": "a", "max_tokens": 2}`))
		if i%3 == 0 {
			method, path, body = http.MethodGet, "/v1/models", nil
		}
		r, err := http.NewRequest(method, url+path, body)
		if err != nil {
			t.Error(err)
		}
		r.Header.Set("Content-Type", "application/json")
		return r
	}) {
		t.Error(err)
	}
}

// Clients that send a header and one byte take no slot, and do not keep the server from stopping.
func TestStalledBodiesTakeNoSlot(t *testing.T) {
	const clients = 600
	url, stop := start(t, "llama", serve.Options{Limits: serve.Limits{InFlight: 4}})
	httpdtest.Stall(t, url, "/v1/completions", "application/json", clients)
	for range 20 {
		if status, body := post(t, url, "/v1/completions", prompt+`}`); status != 200 {
			t.Fatalf("another client: %d %s", status, body)
		}
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopped after %v", took)
	}
}

// Requests that wait to be read hold their bodies and nothing else: memory for the bodies is enough for all of them.
func TestWaitingRequestsHoldTheirBodies(t *testing.T) {
	const clients, size = 16, 1 << 19
	url, _ := start(t, "llama", serve.Options{Limits: serve.Limits{Memory: clients * (size + 64<<10), Work: 1}})
	for path, body := range map[string]string{"/v1/completions": `{"prompt": "%s"}`,
		"/v1/chat/completions": `{"messages": [{"role": "user", "content": "%s"}]}`} {
		body := fmt.Sprintf(body, strings.Repeat("a b ", size/4))
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				if status, answer := post(t, url, path, body); status != http.StatusBadRequest ||
					!strings.Contains(answer, "more than") {
					t.Errorf("%s: %d %s", path, status, answer)
				}
			})
		}
		all.Wait()
	}
}

// Long prompts that wait, and lists of empty texts, take the memory that is counted.
func TestLongPromptsAreBounded(t *testing.T) {
	url, _ := start(t, "llama", serve.Options{Limits: serve.Limits{Memory: 32 << 20}})
	bodies := []string{`{"prompt": "` + strings.Repeat(" ", 6<<20) + `"}`,
		`{"prompt": [` + strings.Repeat(`"",`, 2<<20) + `""]}`, `{"prompt": "` + strings.Repeat("\xff", 6<<20) + `"}`,
		`{"prompt": "a", "logit_bias": {` + strings.Repeat(`"1":1,`, 1<<20) + `"2":1}}`}
	says := []string{"more than", "at most 65536 texts", "UTF-8", "logit_bias"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	var refused atomic.Int32
	for i := range 48 {
		wg.Go(func() {
			status, body := post(t, url, "/v1/completions", bodies[i%len(bodies)])
			if status == http.StatusTooManyRequests {
				refused.Add(1)
			} else if says := says[i%len(says)]; status != http.StatusBadRequest || !strings.Contains(body, says) {
				t.Errorf("%d %s, want %s", status, body, says)
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if refused.Load() == 0 {
		t.Error("no request is refused for memory")
	}
	if taken := after.Sys - before.Sys; taken > 300<<20 {
		t.Errorf("%d MiB of memory", taken>>20)
	}
	if status, body := post(t, url, "/v1/completions", prompt+`}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, body)
	}
}
