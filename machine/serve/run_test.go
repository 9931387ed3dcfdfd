package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/httpd/httpdtest"
	"github.com/randfeat/randfeat/machine"
)

// running starts a server on a free port. stop ends it and returns what Run returned.
func running(t *testing.T, s *Server) (url string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if s.http.Grace == 0 {
		s.http.Grace = 100 * time.Millisecond // clients of these tests keep connections that they do not use
	}
	go func() { done <- s.Run(ctx, ln) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			result = <-done
		})
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + ln.Addr().String(), stop
}

// gate lets tests hold requests in work: their jobs queue until it opens.
func gate(t *testing.T, s *Server) (b *batcher, open func()) {
	return blocked(t, s.current.Load())
}

const oneRow = `{"rows":[{"a":1,"b":2,"c":"red"}]}`

func send(url string) (int, string, error) {
	r, err := http.Post(url+"/v1/predict", "application/json", strings.NewReader(oneRow))
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

// More requests than allowed are refused at once, and say when to come again.
func TestConcurrencyLimit(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{InFlight: 3}})
	b, open := gate(t, s)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 200 {
				t.Errorf("within the limit: %d", w.Code)
			}
		})
	}
	waiting(t, b, 3)
	if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beyond the limit: %d %v", w.Code, w.Header())
	}
	open()
	wg.Wait()
	if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d are counted", n)
	}
}

// All bodies and answers together are bounded, too.
func TestMemoryLimit(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Body: 1 << 16, Memory: 1 << 16}})
	s.memory.Take(1 << 15)
	if w := post(s, "/v1/predict", "application/json", oneRow+strings.Repeat(" ", 1<<15)); w.Code != 429 ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 200 {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	// 300 rows are 3 kB of body and 6 kB of answer.
	many := "a,b,c\n" + strings.Repeat("1,2,red\n", 300)
	s.memory.Take(1<<15 - 6<<10)
	if w := post(s, "/v1/predict", "text/csv", many); w.Code != 429 {
		t.Errorf("a long answer: %d", w.Code)
	}
	s.memory.Give(1<<15 - 6<<10)
	if w := post(s, "/v1/predict", "text/csv", many); w.Code != 200 {
		t.Errorf("a long answer: %d", w.Code)
	}
	if n := s.memory.Used(); n != 1<<15 {
		t.Errorf("%d bytes are counted", n)
	}
}

func TestTimeLimit(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Time: 20 * time.Millisecond}})
	_, open := gate(t, s)
	w := post(s, "/v1/predict", "application/json", oneRow)
	if w.Code != 503 || !strings.Contains(w.Body.String(), "timeout") || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	open()
}

// Clients that send slowly lose their connection; others do not notice.
func TestSlowClients(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Header: 150 * time.Millisecond,
		Read: 300 * time.Millisecond}})
	url, stop := running(t, s)
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		_, err = io.WriteString(c, text)
		check(t, err)
		return c
	}
	var slow []net.Conn
	for range 50 {
		slow = append(slow, dial("POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "))
	}
	body := dial("POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"rows\":")
	// On a busy machine an honest client may be slow once, not always.
	honest, err := 0, error(nil)
	for i := 0; i < 20 && honest != 200; i++ {
		honest, _, err = send(url)
	}
	if honest != 200 {
		t.Errorf("an honest client: %d %v", honest, err)
	}
	drip := make(chan struct{})
	go func() { // a byte now and then does not help
		defer close(drip)
		for range 2000 {
			if _, err := slow[0].Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for _, c := range slow {
		check(t, c.SetReadDeadline(time.Now().Add(20*time.Second))) // half of the bytes
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a slow header is still waited for")
		}
		c.Close()
	}
	check(t, body.SetReadDeadline(time.Now().Add(20*time.Second)))
	r, err := http.ReadResponse(bufio.NewReader(body), nil)
	check(t, err)
	if r.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a slow body: %d", r.StatusCode)
	}
	r.Body.Close()
	body.Close()
	<-drip
	// A header without end.
	long := dial("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
	check(t, long.SetReadDeadline(time.Now().Add(20*time.Second)))
	if r, err := http.ReadResponse(bufio.NewReader(long), nil); err == nil {
		if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a long header: %d", r.StatusCode)
		}
		r.Body.Close()
	}
	long.Close()
	check(t, stop())
}

// Shutdown lets requests in work finish. It is not ready for new ones.
func TestGracefulShutdown(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	url, stop := running(t, s)
	if code, _, err := send(url); err != nil || code != 200 {
		t.Fatalf("%d %v", code, err)
	}
	b, open := gate(t, s)
	answers := make(chan string, 5)
	for range 5 {
		go func() {
			code, body, err := send(url)
			answers <- fmt.Sprint(code, err, strings.Contains(body, "prediction"))
		}()
	}
	waiting(t, b, 5)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for !s.http.Stopping() {
		time.Sleep(time.Millisecond)
	}
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200} {
		w := newRecorder()
		s.ServeHTTP(w, newGet(path))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	select {
	case err := <-stopped:
		t.Errorf("stopped with requests in work: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	open()
	for range 5 {
		if a := <-answers; a != "200 <nil> true" {
			t.Errorf("a request in work: %s", a)
		}
	}
	check(t, <-stopped)
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		t.Error("it still listens")
	}
}

// A server that stops under load breaks no client.
func TestStopUnderLoad(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	s.http.Grace = 2 * time.Second
	url, stop := running(t, s)
	for _, err := range httpdtest.StopUnderLoad(t, &http.Transport{}, stop, func(i int) *http.Request {
		method, path, body := http.MethodPost, "/v1/predict", io.Reader(strings.NewReader(oneRow))
		if i%3 == 0 {
			method, path, body = http.MethodGet, "/v1/model", nil
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
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{InFlight: 4}})
	url, stop := running(t, s)
	const clients = 600
	httpdtest.Stall(t, url, "/v1/predict", "application/json", clients)
	for s.memory.Used() < clients*4<<10 { // all of them are being read
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		if code, body, err := send(url); code != 200 {
			t.Fatalf("another client: %d %s %v", code, body, err)
		}
	}
	began := time.Now()
	check(t, stop())
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopped after %v", took)
	}
	if n := s.memory.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// Shutdown is bounded: what has not finished is cut off.
func TestShutdownBound(t *testing.T) {
	noLeak(t)
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Limits: Limits{Shutdown: 50 * time.Millisecond}})
	url, stop := running(t, s)
	b, open := gate(t, s)
	cut := make(chan error, 1)
	go func() {
		_, _, err := send(url)
		cut <- err
	}()
	waiting(t, b, 1)
	if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := <-cut; err == nil {
		t.Error("the request was answered")
	}
	open()
}

// Reloads under load: every request is answered, by one of the models, with the value of that model.
func TestReloadUnderLoad(t *testing.T) {
	noLeak(t)
	models := []*machine.Model{fitted(t, machine.KindRidge, 1), fitted(t, machine.KindRidge, 2),
		fitted(t, machine.KindGP, 3)}
	path := saved(t, models[0])
	rows := table(5, 20, false)
	want := map[string][]string{} // sha256 → answers
	for _, m := range models {
		s := serverOf(t, m, Options{})
		var all []string
		for _, r := range rows {
			all = append(all, post(s, "/v1/predict", "application/json", objectsBody([][]string{r})).Body.String())
		}
		want[s.SHA256()] = all
	}
	if len(want) != len(models) {
		t.Fatal("models are alike")
	}
	s, err := New(path, Options{})
	check(t, err)
	url, stop := running(t, s)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var done atomic.Bool
	var answered, known atomic.Int64
	var seen sync.Map
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; !done.Load(); i++ {
				k := i % len(rows)
				r, err := client.Post(url+"/v1/predict", "application/json",
					strings.NewReader(objectsBody(rows[k:k+1])))
				if err != nil {
					t.Errorf("lost: %v", err)
					return
				}
				b, err := io.ReadAll(r.Body)
				r.Body.Close()
				sha := r.Header.Get(modelHeader)
				if all := want[sha]; err != nil || r.StatusCode != 200 || all == nil || all[k] != string(b) {
					t.Errorf("row %d, model %s: %d %v %s", k, sha, r.StatusCode, err, b)
					return
				}
				if _, old := seen.LoadOrStore(sha, true); !old {
					known.Add(1)
				}
				answered.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer done.Store(true)
	// 60 reloads, or as many as it takes all models to answer: on a busy machine requests are slow.
	reloads := 0
	for !t.Failed() && (reloads < 60 || reloads < 6000 && known.Load() < int64(len(want))) {
		reloads++
		check(t, models[reloads%len(models)].Save(path))
		check(t, s.Reload())
		time.Sleep(5 * time.Millisecond)
	}
	done.Store(true)
	wg.Wait()
	check(t, stop())
	for sha := range want {
		if _, ok := seen.Load(sha); !ok {
			t.Errorf("no answer of model %s", sha)
		}
	}
	t.Logf("%d answers, %d reloads", answered.Load(), reloads)
}

// A damaged file changes nothing but a counter and the log; another schema is used, and said.
func TestReloadBadFiles(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	path := saved(t, m)
	good := readFile(t, path)
	var log bytes.Buffer
	s, err := New(path, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	before := s.SHA256()
	want := post(s, "/v1/predict", "application/json", oneRow).Body.String()
	flipped := bytes.Clone(good)
	flipped[len(flipped)-5] ^= 1
	plain := *m
	plain.Schema = nil
	for name, write := range map[string]func() error{
		"missing":   func() error { return os.Remove(path) },
		"empty":     func() error { return os.WriteFile(path, nil, 0o600) },
		"truncated": func() error { return os.WriteFile(path, good[:len(good)/2], 0o600) },
		"flipped":   func() error { return os.WriteFile(path, flipped, 0o600) },
		"text":      func() error { return os.WriteFile(path, []byte("hello"), 0o600) },
		"no schema": func() error { return plain.Save(path) },
	} {
		check(t, write())
		if err := s.Reload(); err == nil {
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not name the file", name, err)
		}
		if s.SHA256() != before || post(s, "/v1/predict", "application/json", oneRow).Body.String() != want {
			t.Errorf("%s: the model has changed", name)
		}
		if _, err := New(path, Options{}); err == nil {
			t.Errorf("%s: a new server starts", name)
		}
	}
	if n := strings.Count(log.String(), "reload failed"); n != 6 {
		t.Errorf("%d failures in the log", n)
	}
	check(t, os.WriteFile(path, good, 0o600))
	same := s.current.Load()
	check(t, s.Reload())
	if s.current.Load() != same || counted(t, s, `randfeat_reloads_total{result="same"}`) != 1 {
		t.Error("a file that has not changed is loaded again")
	}
	other := *m
	schema := *m.Schema
	schema.Fields = append([]data.Field(nil), schema.Fields...)
	schema.Fields[0].Name = "renamed"
	other.Schema = &schema
	check(t, other.Save(path))
	if err := s.Reload(); !errors.Is(err, errColumns) || s.current.Load() != same {
		t.Errorf("a model with other columns: %v", err)
	}
	s.o.ColumnsMayChange = true
	check(t, s.Reload())
	if !strings.Contains(log.String(), "other columns") {
		t.Errorf("the new columns are not reported:\n%s", log.String())
	}
	if w := post(s, "/v1/predict", "application/json", strings.Replace(oneRow, `"a"`, `"renamed"`, 1)); w.Code != 200 {
		t.Errorf("the new columns: %s", w.Body)
	}
	if err := serverOf(t, m, Options{}).Reload(); !errors.Is(err, errNoFile) {
		t.Errorf("a model without a file: %v", err)
	}
	if err := os.Remove(path); err == nil {
		check(t, os.Mkdir(path, 0o700))
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "directory") {
			t.Errorf("a directory: %v", err)
		}
	}
}

func TestOptions(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	for _, l := range []Limits{{Body: -1}, {Rows: -1}, {InFlight: -1}, {Time: -1}, {Shutdown: -1}, {Batch: -1},
		{Body: 10, Memory: 9}} {
		if _, err := newModel(m, Options{Limits: l}); !errors.Is(err, errOptions) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
