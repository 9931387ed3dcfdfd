// Command serve sends single rows at a fixed rate to a randfeat server while its model is replaced, and checks every
// answer:
//
//	go run ./serve -rate 2000 -seconds 60 -reload 1s
//
// Requests follow a schedule, whether or not earlier ones are answered, and their time counts from the schedule: a
// server that stalls is charged for all requests of the stall. The server is a process of its own with the default
// limits. An answer is right if it has the bits that the model named in its header predicts for the row.
//
// With -runs 5 it does so five times, each with a new server, prints the p99 of all and whether each is below
// -limit. Three clocks besides the client's tell where the time of slow requests goes: the time between header and
// answer measured by the server, how long its goroutines waited for a thread (Go's scheduler), and how long the
// threads of either process waited for a processor (Linux). To measure the tail of the server itself, give both
// processes processors of their own:
//
//	taskset -c 8-15 serve -runs 5 -seconds 20 -under 'taskset -c 0-7'
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type settings struct {
	rate        float64
	seconds     float64
	reload      time.Duration
	connections int
	columns, m  int
	binary      string
	float32     bool
	runs        int
	limit       time.Duration
	under       string
}

func main() {
	var s settings
	flag.Float64Var(&s.rate, "rate", 2000, "requests per second")
	flag.Float64Var(&s.seconds, "seconds", 60, "how long")
	flag.DurationVar(&s.reload, "reload", time.Second, "time between two models; 0: never")
	flag.IntVar(&s.connections, "connections", 64, "kept-alive connections")
	flag.IntVar(&s.columns, "columns", 62, "columns of a row")
	flag.IntVar(&s.m, "m", 1024, "projections of the model; it has twice as many features")
	flag.StringVar(&s.binary, "randfeat", "", "the command; empty: built from the module above")
	flag.BoolVar(&s.float32, "float32", false, "serve in float32")
	flag.IntVar(&s.runs, "runs", 1, "how often")
	flag.DurationVar(&s.limit, "limit", 10*time.Millisecond, "what p99 should be below, with several runs in every one")
	flag.StringVar(&s.under, "under", "", "a command with arguments that the server is started by, such as 'taskset -c 0-7'")
	flag.Parse()
	debug.SetGCPercent(1000) // leave the processors to the server
	if err := all(s); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// all does all runs and, if there are several, judges them together.
func all(s settings) error {
	var tails []string
	below := 0
	for i := range s.runs {
		if s.runs > 1 {
			fmt.Printf("run %d of %d\n", i+1, s.runs)
		}
		p99, err := run(s)
		if err != nil {
			return err
		}
		tails = append(tails, fmt.Sprintf("%.2f", p99.Seconds()*1e3))
		if p99 < s.limit {
			below++
		}
	}
	if s.runs > 1 {
		fmt.Printf("p99 in milliseconds: %s; below %v in %d of %d runs\n", strings.Join(tails, ", "), s.limit, below,
			s.runs)
	}
	if below < s.runs {
		return fmt.Errorf("p99 is not below %v in %d of %d runs", s.limit, s.runs-below, s.runs)
	}
	return nil
}

// run loads one server and returns the p99.
func run(s settings) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "randfeat-serve")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if s.binary == "" {
		s.binary = filepath.Join(dir, "randfeat")
		build := exec.Command("go", "build", "-o", s.binary, "./cmd/randfeat")
		build.Dir = ".."
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return 0, fmt.Errorf("cannot build randfeat: %w", err)
		}
	}
	c, err := newCases(s, dir)
	if err != nil {
		return 0, err
	}
	srv, err := start(s, c.path)
	if err != nil {
		return 0, err
	}
	defer srv.stop()
	runtime.GC()
	own := runDelay(os.Getpid())
	l, err := load(s, c, srv)
	if err != nil {
		return 0, err
	}
	n, err := srv.counts()
	if err != nil {
		return 0, err
	}
	delays := [2]time.Duration{runDelay(srv.cmd.Process.Pid), runDelay(os.Getpid()) - own}
	usage := srv.stop()
	return l.report(s, n, usage, delays)
}

// server is the process under test.
type server struct {
	cmd  *exec.Cmd
	addr string
	done bool
}

func start(s settings, path string) (*server, error) {
	args := []string{"serve", path, "--addr", "127.0.0.1:0", "--json", "--log-level", "warn"}
	if s.float32 {
		args = append(args, "--float32")
	}
	args = append(append(strings.Fields(s.under), s.binary), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at struct{ Address string }
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("the server does not start: %w", err)
	}
	return &server{cmd: cmd, addr: at.Address}, nil
}

func (s *server) stop() *os.ProcessState {
	if !s.done {
		s.done = true
		s.cmd.Process.Signal(syscall.SIGTERM)
		if err := s.cmd.Wait(); err != nil {
			fmt.Fprintln(os.Stderr, "serve: the server:", err)
		}
	}
	return s.cmd.ProcessState
}

// counts returns the server's own counters: reloads by result, and requests by duration from the header to the end
// of the answer, without the waits before and after.
func (s *server) counts() (counts, error) {
	r, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out := counts{}
	for _, m := range counted.FindAllStringSubmatch(string(b), -1) {
		if out[m[1]], err = strconv.Atoi(m[2]); err != nil {
			return nil, err
		}
	}
	for _, m := range waited.FindAllStringSubmatch(string(b), -1) {
		bound, err := strconv.ParseFloat(m[2], 64)
		n, err2 := strconv.Atoi(m[3])
		if err = errors.Join(err, err2); err != nil {
			return nil, err
		}
		out[m[1]] = max(out[m[1]], n) // all
		if bound <= 0.001 {
			out[m[1]+" 1 ms"] = max(out[m[1]+" 1 ms"], n)
		}
		if bound <= 0.01 {
			out[m[1]+" 10 ms"] = max(out[m[1]+" 10 ms"], n)
		}
	}
	return out, nil
}

var (
	counted = regexp.MustCompile(`(?m)^randfeat_(?:reloads_total{result|http_request_seconds_bucket{path="/v1/predict",le)="(.+)"} (\d+)`)
	waited  = regexp.MustCompile(`(?m)^(go_sched_latencies_seconds|go_gc_pauses_seconds)_bucket{le="(.+)"} (\d+)`)
)

// counts are counters of the server by label.
type counts map[string]int

// above returns the percentage of requests that took longer than a bucket holds.
func (c counts) above(le string) float64 { return 100 * (1 - float64(c[le])/float64(c["+Inf"])) }

// results are the results of a run.
type results struct {
	done   []request
	late   []time.Duration // lateness of the generator itself: from the schedule to the end of its sleep
	lost   int
	wrong  int
	first  string // first error
	models map[string]int
	sent   []time.Duration // times of reloads, from the beginning
}

// request is an answered request.
type request struct {
	due, took time.Duration // due from the beginning; took from when it was due
}

// patience is the time after which an answer counts as lost.
const patience = 30 * time.Second

// load sends requests by the schedule until the time is over. A single locked thread sends, because Go's timers are
// late by up to a millisecond. Every connection has a goroutine that reads.
func load(s settings, c *cases, srv *server) (*results, error) {
	out := &results{models: map[string]int{}}
	total := int64(s.rate * s.seconds)
	l := &schedule{began: time.Now().Add(200 * time.Millisecond), rate: s.rate}
	free := make(chan *worker, s.connections)
	var all []*worker
	for range s.connections {
		w := &worker{c: c, l: l, free: free, models: map[string]int{},
			done: make([]request, 0, 2*total/int64(s.connections))}
		var err error
		if w.conn, err = net.Dial("tcp", srv.addr); err != nil {
			return nil, err
		}
		defer w.conn.Close()
		w.in = bufio.NewReader(w.conn)
		all = append(all, w)
		free <- w
	}
	var readers, reloads sync.WaitGroup
	for _, w := range all {
		readers.Go(w.read)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if s.reload > 0 {
		reloads.Go(func() { out.sent = c.replace(ctx, s.reload, l.began, srv.cmd.Process) })
	}
	out.late = make([]time.Duration, 0, total)
	runtime.LockOSThread()
	for i := range total {
		due := l.due(i)
		if wait := time.Until(due); wait > 0 {
			for ; wait > 0; wait = time.Until(due) {
				sleep(wait)
			}
			out.late = append(out.late, -wait)
		}
		select {
		case w := <-free:
			w.send(i)
		case <-time.After(patience):
			out.lost += int(total - i)
			out.first = "no connection is free"
		}
		if out.lost > 0 {
			break
		}
	}
	runtime.UnlockOSThread()
	cancel()
	reloads.Wait()
	waits := func(w *worker) bool { return w.pending.Load() != 0 }
	for end := time.Now().Add(patience); slices.ContainsFunc(all, waits) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, w := range all {
		if waits(w) {
			out.lost++
		}
		w.ending.Store(true)
		w.conn.Close()
	}
	readers.Wait()
	for _, w := range all {
		out.add(w)
	}
	return out, nil
}

// schedule says when requests are due.
type schedule struct {
	began time.Time
	rate  float64
}

func (l *schedule) due(i int64) time.Time {
	return l.began.Add(time.Duration(float64(i) / l.rate * 1e9))
}

func (r *results) add(w *worker) {
	r.done = append(r.done, w.done...)
	r.wrong += w.wrong
	if r.first == "" {
		r.first = w.first
	}
	for k, v := range w.models {
		r.models[k] += v
	}
}

func (r *results) report(s settings, c counts, usage *os.ProcessState, delays [2]time.Duration) (time.Duration,
	error) {
	if len(r.done) == 0 {
		return 0, errors.New("no request was sent")
	}
	var all, near, far []time.Duration // near: while a model was being loaded
	for _, q := range r.done {
		all = append(all, q.took)
		if slices.ContainsFunc(r.sent, func(t time.Duration) bool { return q.due >= t && q.due < t+reloadTime }) {
			near = append(near, q.took)
		} else {
			far = append(far, q.took)
		}
	}
	fmt.Printf("%d requests of one row (%d columns, %d features) in %.0f s, %g/s, %d connections, %d processors\n",
		len(all), s.columns, 2*s.m, s.seconds, s.rate, s.connections, runtime.NumCPU())
	fmt.Printf("milliseconds from the schedule: %s\n", quantiles(all))
	fmt.Printf("  less than %v after a reload: %s\n", reloadTime, quantiles(near))
	fmt.Printf("  otherwise: %s\n", quantiles(far))
	fmt.Printf("  the generator itself was late by: %s\n", quantiles(r.late))
	fmt.Printf("lost %d, wrong %d; answers by model %v\n", r.lost, r.wrong, slices.Sorted(mapsValues(r.models)))
	fmt.Printf("models replaced %d times, loaded by the server %d times\n", len(r.sent), c["new"])
	fmt.Printf("between header and answer the server took more than 1 ms for %.2f %%, more than 5 ms for %.2f %%, more than 10 ms for %.2f %%\n",
		c.above("0.001"), c.above("0.005"), c.above("0.01"))
	for _, w := range []struct{ what, name string }{{"goroutines that waited for a thread",
		"go_sched_latencies_seconds"},
		{"pauses for the garbage collector", "go_gc_pauses_seconds"}} {
		fmt.Printf("%s in the server: %d, more than 1 ms %d, more than 10 ms %d\n", w.what, c[w.name],
			c[w.name]-c[w.name+" 1 ms"], c[w.name]-c[w.name+" 10 ms"])
	}
	fmt.Printf("threads waited for a processor: of the server %.0f ms in all, of the client %.0f ms\n",
		delays[0].Seconds()*1e3, delays[1].Seconds()*1e3)
	fmt.Printf("the server used %.2f processors\n", (usage.UserTime()+usage.SystemTime()).Seconds()/s.seconds)
	p99 := all[min(len(all)-1, len(all)*99/100)] // quantiles has sorted them
	switch {
	case r.lost+r.wrong > 0:
		return p99, fmt.Errorf("%d requests lost, %d answers wrong, such as: %s", r.lost, r.wrong, r.first)
	case c["failed"] > 0:
		return p99, fmt.Errorf("%d reloads failed", c["failed"])
	case len(r.sent) > 1 && len(r.models) < 2:
		return p99, errors.New("the models were never replaced")
	}
	return p99, nil
}

// reloadTime is how long after a reload its effect may be felt.
const reloadTime = 50 * time.Millisecond

func quantiles(t []time.Duration) string {
	if len(t) == 0 {
		return "none"
	}
	slices.Sort(t)
	at := func(q float64) float64 { return t[min(len(t)-1, int(q*float64(len(t))))].Seconds() * 1e3 }
	return fmt.Sprintf("p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f", at(.5), at(.9), at(.99), at(.999), at(1))
}

func mapsValues(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// worker has one connection. It speaks HTTP by hand, to leave the processors to the server.
type worker struct {
	c       *cases
	l       *schedule
	conn    net.Conn
	in      *bufio.Reader
	free    chan<- *worker
	pending atomic.Int64 // 1 + number of the unanswered request; 0: none
	ending  atomic.Bool
	body    []byte
	done    []request
	wrong   int
	first   string
	models  map[string]int
}

func (w *worker) note(err error) {
	if w.first == "" {
		w.first = err.Error()
	}
}

// send sends request i. If that fails, the reader notes why, and the request stays pending.
func (w *worker) send(i int64) {
	w.pending.Store(i + 1)
	if _, err := w.conn.Write(w.c.requests[i%int64(len(w.c.requests))]); err != nil {
		w.conn.Close()
	}
}

// read reads answers until the connection ends.
func (w *worker) read() {
	for {
		model, err := w.answer()
		if err != nil {
			if !w.ending.Load() {
				w.note(err)
			}
			return
		}
		i := w.pending.Load() - 1
		due := w.l.due(i)
		w.done = append(w.done, request{due.Sub(w.l.began), time.Since(due)})
		w.models[model]++
		if err := w.c.check(int(i)%len(w.c.requests), model, w.body); err != nil {
			w.wrong++
			w.note(err)
		}
		w.pending.Store(0)
		w.free <- w
	}
}

// answer reads an answer into body and returns the model it came from. A status other than 200 is an error.
func (w *worker) answer() (model string, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	status := ""
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		status = string(bytes.TrimSpace(line))
	}
	length := -1
	for {
		if line, err = w.in.ReadSlice('\n'); err != nil {
			return "", err
		}
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if !found {
			break
		}
		switch string(name) {
		case "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", err
			}
		case "Randfeat-Model":
			model = string(value)
		}
	}
	if length < 0 {
		return "", errors.New("an answer without a length")
	}
	w.body = slices.Grow(w.body[:0], length)[:length]
	if _, err := io.ReadFull(w.in, w.body); err != nil {
		return "", err
	}
	if status != "" {
		return "", fmt.Errorf("%s: %s", status, w.body)
	}
	return model, nil
}

// check compares an answer with the prediction of its model. Other parts of the answer, such as notes on values out
// of range, are ignored.
func (c *cases) check(i int, model string, body []byte) error {
	want, ok := c.want[model]
	if !ok {
		return fmt.Errorf("an answer of the unknown model %q", model)
	}
	rest, ok := bytes.CutPrefix(body, want.before)
	rest, _, ended := bytes.Cut(rest, []byte("}]"))
	ok = ok && ended
	got, err := strconv.ParseFloat(string(rest), 64)
	if !ok || err != nil || math.Float64bits(got) != math.Float64bits(want.values[i]) {
		return fmt.Errorf("row %d of model %s: %s, want %v", i, model, body, want.values[i])
	}
	return nil
}
