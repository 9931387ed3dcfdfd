package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
)

// blocked is a batcher whose processors are taken, so that jobs queue until release is called.
func blocked(t *testing.T, d *loaded) (b *batcher, release func()) {
	t.Helper()
	b, err := d.batcher(machine.TableOptions{})
	check(t, err)
	b.mu.Lock()
	b.running += b.workers
	b.mu.Unlock()
	return b, func() {
		b.mu.Lock()
		b.running -= b.workers - 1
		b.mu.Unlock()
		b.next()
	}
}

// waiting blocks until n jobs queue.
func waiting(t *testing.T, b *batcher, n int) {
	t.Helper()
	for range 20000 {
		b.mu.Lock()
		got := len(b.queue)
		b.mu.Unlock()
		if got == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("no %d jobs queue", n)
}

// Requests that wait for a processor are predicted in one call, with the bits of single ones, and a row that cannot be
// predicted fails its own request only (of a GP: other models take numbers beyond their range for its ends).
func TestBatchEqualsSingle(t *testing.T) {
	for _, kind := range []machine.Kind{machine.KindRidge, machine.KindLogistic, machine.KindGP} {
		s := serverOf(t, fitted(t, kind, 1), Options{})
		d := s.current.Load()
		rows := table(7, 60, false)
		var alone []string
		for _, r := range rows {
			alone = append(alone, post(s, "/v1/predict", "application/json", objectsBody([][]string{r})).Body.String())
		}
		for _, bad := range []bool{false, true} {
			var sizes []int
			b, release := blocked(t, d)
			b.observe = func(n int) { sizes = append(sizes, n) }
			var wg sync.WaitGroup
			got := make([]string, len(rows))
			for i, r := range rows {
				wg.Go(func() {
					got[i] = post(s, "/v1/predict", "application/json",
						objectsBody([][]string{r})).Body.String()
				})
			}
			status := 0
			if bad {
				wg.Go(func() {
					status = post(s, "/v1/predict", "text/csv", "a,b,c\n1,1e308,red\n").Code
				})
			}
			waiting(t, b, len(rows)+map[bool]int{true: 1}[bad])
			release()
			wg.Wait()
			for i := range rows {
				if got[i] != alone[i] {
					t.Fatalf("%s row %d: %s in a batch, %s alone", kind, i, got[i], alone[i])
				}
			}
			if sizes[0] != len(got)+map[bool]int{true: 1}[bad] {
				t.Errorf("%s: batches of %v", kind, sizes)
			}
			if want := map[bool]int{true: 400, false: 200}[kind == machine.KindGP]; bad && status != want {
				t.Errorf("%s: the bad row: %d, want %d", kind, status, want)
			}
		}
	}
}

// Batches hold at most as many rows as allowed, in order, and a job larger than that is alone.
func TestBatchSizes(t *testing.T) {
	b := &batcher{max: 10}
	for _, n := range []int{3, 7, 1, 12, 4, 6, 1} {
		b.queue = append(b.queue, &job{in: &data.Block{Rows: n}})
	}
	var got []string
	for len(b.queue) > 0 {
		var sizes []int
		for _, j := range b.take() {
			sizes = append(sizes, j.in.Rows)
		}
		got = append(got, fmt.Sprint(sizes))
	}
	if want := []string{"[3 7]", "[1]", "[12]", "[4 6]", "[1]"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A job whose time ends while it waits is not predicted, and the processors are all free at the end.
func TestBatchDeadline(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	d := s.current.Load()
	b, release := blocked(t, d)
	var in, out data.Block
	in.Reset(0, b.kinds)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	j := newJob(&in, &out)
	if err := b.predict(ctx, j); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if len(b.queue) != 0 || b.withdraw(j) {
		t.Error("the job is still there")
	}
	release()
	if b.running != 0 {
		t.Errorf("%d processors are taken", b.running)
	}
}

// When a prediction panics, the requests of its batch are answered 500, the stack is logged and counted, and the server
// goes on.
func TestPanic(t *testing.T) {
	noLeak(t)
	var log bytes.Buffer
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	b, release := blocked(t, s.current.Load())
	observe := b.observe
	b.observe = func(int) { panic("a bug") }
	var wg sync.WaitGroup
	codes := make([]int, 5)
	for i := range codes {
		wg.Go(func() {
			codes[i] = post(s, "/v1/predict", "application/json", oneRow, "X-Request-Id", fmt.Sprint("mine-", i)).Code
		})
	}
	waiting(t, b, len(codes))
	release()
	wg.Wait()
	alone := post(s, "/v1/predict", "application/json", oneRow)
	page := post(s, "/", "application/x-www-form-urlencoded", "rows="+oneRow)
	for _, code := range append(codes, alone.Code, page.Code) {
		if code != http.StatusInternalServerError {
			t.Errorf("%d, want 500", code)
		}
	}
	if strings.Contains(alone.Body.String(), "a bug") || alone.Header().Get("X-Request-Id") == "" {
		t.Errorf("the answer: %v %s", alone.Header(), alone.Body)
	}
	if n := counted(t, s, "randfeat_panics_total"); n != 3 { // one for the batch
		t.Errorf("%v panics are counted", n)
	}
	text := log.String()
	if strings.Count(text, "a bug") != 3 || !strings.Contains(text, "batch_test.go") ||
		strings.Count(text, errPanicked.Error()) != 7 ||
		!strings.Contains(text, "id=mine-3") {
		t.Errorf("the log:\n%s", text)
	}
	b.observe = observe
	if w := post(s, "/v1/predict", "application/json", oneRow); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
	if b.running != 0 || s.inFlight.Load() != 0 || s.memory.Used() != 0 {
		t.Errorf("%d processors are taken, %d requests and %d bytes are counted", b.running, s.inFlight.Load(),
			s.memory.Used())
	}
}

// A handler that panics is answered 500 as well, or cut off if its answer has begun.
func TestHandlerPanic(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	w := newRecorder()
	s.answer(w, newGet("/"), "/", true, func(http.ResponseWriter, *http.Request) *fault { panic("a bug") })
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d", w.Code)
	}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || counted(t, s, "randfeat_panics_total") != 2 {
			t.Errorf("panics with %v", v)
		}
	}()
	s.answer(newRecorder(), newGet("/"), "/", true, func(w http.ResponseWriter, _ *http.Request) *fault {
		w.Write([]byte("half"))
		panic("a bug")
	})
}

// A request keeps the name that it came with if that is harmless.
func TestRequestID(t *testing.T) {
	s := serverOf(t, fitted(t, machine.KindRidge, 1), Options{})
	seen := map[string]bool{}
	for _, c := range []struct {
		sent string
		kept bool
	}{{"a.b-C_9", true}, {"", false}, {"a b", false}, {"a\"b", false}, {"é", false}, {strings.Repeat("x", 65), false}} {
		r := newGet("/healthz")
		r.Header.Set("X-Request-Id", c.sent)
		w := newRecorder()
		s.ServeHTTP(w, r)
		id := w.Header().Get("X-Request-Id")
		if (id == c.sent) != c.kept || id == "" || seen[id] {
			t.Errorf("%q: %q", c.sent, id)
		}
		seen[id] = true
	}
}

// In float32 predictions differ, and by no more than rounding.
func TestFloat32(t *testing.T) {
	m := fitted(t, machine.KindRidge, 1)
	body := string(csvOf(table(3, 20, false)))
	ask := func(o Options) []map[string]any {
		return decode[Answer](t, post(serverOf(t, m, o), "/v1/predict", "text/csv", body, "Accept",
			"application/json").Body.Bytes()).Rows
	}
	a, b := ask(Options{}), ask(Options{Float32: true})
	differ := false
	for i := range a {
		x, y := a[i]["prediction"].(float64), b[i]["prediction"].(float64)
		differ = differ || x != y
		if math.Abs(x-y) > 1e-4*(1+math.Abs(x)) { // 64 features with weights up to some tens, each rounded to 6e-8
			t.Errorf("row %d: %v and %v in float32", i, x, y)
		}
	}
	if !differ {
		t.Error("float32 is not used")
	}
}
