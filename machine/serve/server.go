package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/machine"
)

// Server answers requests with the newest model that it could load. Any number of goroutines may use it. A
// request passes through answer (token, logs, metrics), httpd.ReadBody, enter (limits), predict, and batcher.predict.
type Server struct {
	o       Options
	path    string // of the model file; empty: the model was given
	mux     *http.ServeMux
	metrics *metrics
	token   atomic.Pointer[httpd.Token] // nil: none is needed
	cross   *http.CrossOriginProtection

	current  atomic.Pointer[loaded]
	reload   sync.Mutex // serialises reloads
	http     httpd.Server
	memory   *httpd.Memory // of bodies and answers
	inFlight atomic.Int64  // prediction requests admitted and not yet left
	run      string        // random prefix of request ids
	requests atomic.Uint64
	work     sync.Pool // of *work
}

// New serves the model of a file. It fails if the file cannot be read, if its model cannot predict, or if an option is
// wrong.
func New(path string, o Options) (*Server, error) {
	file, err := machine.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := newServer(file, path, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// newModel serves a model in memory; it cannot be reloaded.
func newModel(m *machine.Model, o Options) (*Server, error) {
	var file bytes.Buffer
	if _, err := m.WriteTo(&file); err != nil {
		return nil, err
	}
	return newServer(file.Bytes(), "", o)
}

func newServer(file []byte, path string, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, path: path, metrics: newMetrics(), cross: http.NewCrossOriginProtection(),
		run: rand.Text()[:8] + "-", memory: httpd.NewMemory(o.Limits.Memory)}
	l := o.Limits
	s.http = httpd.Server{Handler: s, TLS: o.TLS, Log: o.Log, Connections: l.Connections, HeaderBytes: headerBytes,
		Header: l.Header, Read: l.Read, Idle: l.Idle, Drain: l.Drain, Shutdown: l.Shutdown,
		Write:   l.Read + 2*l.Time, // the body, the work, and a slow reader
		Opened:  func(change int) { s.metrics.connections.with().add(float64(change)) },
		Refused: func() { s.metrics.rejected.with("connections").add(1) },
	}
	s.SetToken(o.Token)
	s.work.New = func() any { return newWork() }
	d, err := s.prepare(file, sumOf(file))
	if err != nil {
		return nil, err
	}
	s.current.Store(d)
	s.metrics.use(d)
	s.mux = s.newMux()
	return s, nil
}

// SetToken replaces Options.Token for requests from now on; empty means that no token is needed any more.
func (s *Server) SetToken(token string) {
	if token == "" {
		s.token.Store(nil)
		return
	}
	t := httpd.NewToken(token)
	s.token.Store(&t)
}

// errColumns is returned by Reload for a model that would break existing clients.
var errColumns = errors.New("the new model reads other columns, or predicts something else")

// errNoFile is returned by Reload if the server was made from a model in memory.
var errNoFile = errors.New("the model did not come from a file")

// Reload reads the model file again. After an error the old model stays in use. Current requests finish with the model
// that they began with. If the file system hangs, Reload waits, but neither requests nor Run do.
func (s *Server) Reload() error {
	if s.path == "" {
		return errNoFile
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	began := time.Now()
	old := s.current.Load()
	file, err := machine.ReadFile(s.path)
	sum := sumOf(file)
	if err == nil && sum == old.sha256 {
		s.metrics.reloads.with("same").add(1)
		s.o.Log.Info("the model file has not changed", "sha256", old.sha256)
		return nil
	}
	var d *loaded
	if err == nil {
		if d, err = s.prepare(file, sum); err != nil {
			err = fmt.Errorf("%s: %w", s.path, err)
		}
	}
	same := err == nil && d.sameColumns(old)
	if err == nil && !same && !s.o.ColumnsMayChange {
		err = fmt.Errorf("%s: %w: start a new server for it, or allow that columns change", s.path, errColumns)
	}
	if err != nil {
		s.metrics.reloads.with("failed").add(1)
		s.o.Log.Error("reload failed, the old model stays", "error", err, "sha256", old.sha256)
		return err
	}
	s.current.Store(d)
	s.metrics.use(d)
	s.metrics.reloads.with("new").add(1)
	s.o.Log.Info("reloaded", "sha256", d.sha256, "kind", d.model.Kind, "took", time.Since(began))
	if !same {
		s.o.Log.Warn("the new model reads other columns: clients must send them", "columns", len(d.columns), "before",
			len(old.columns))
	}
	return nil
}

// panicked logs and counts a bug. It must be called directly by the deferred function that recovers: the stack
// is then still that of the panic.
func (s *Server) panicked(v any) {
	s.metrics.panics.with().add(1)
	s.o.Log.Error("panic", "value", v, "stack", string(debug.Stack()))
}

// SHA256 is the checksum of the file of the model that answers now.
func (s *Server) SHA256() string { return s.current.Load().sha256 }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handler answers a request, or returns why it does not.
type handler func(http.ResponseWriter, *http.Request) *fault

// recorder remembers the status for metrics; 0 means that the answer has not begun.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// requestID names a request in logs and answers: by the id of a proxy if it is harmless, else by a number of
// ours. Arbitrary text would let clients forge log lines.
func (s *Server) requestID(r *http.Request) string {
	id := r.Header.Get(idHeader)
	odd := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c))
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, odd) {
		return s.run + strconv.FormatUint(s.requests.Add(1), 36)
	}
	return id
}

// Headers that are the same for all answers.
var noSniff, noStore = []string{"nosniff"}, []string{"no-store"}

// answer does the steps common to all paths: authentication, metrics and logs.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, label string, open bool, h handler) {
	began := time.Now()
	rec := &recorder{ResponseWriter: w}
	head := w.Header()
	head["X-Content-Type-Options"], head["Cache-Control"] = noSniff, noStore
	id := s.requestID(r)
	head[idHeader] = []string{id}
	p := s.admit(r, open)
	if p != nil && p.status == http.StatusUnauthorized {
		head.Set("WWW-Authenticate", challenge(label))
	}
	if p == nil {
		p = s.try(rec, r, h)
	}
	if p != nil && rec.status == 0 {
		p.send(rec, r)
	}
	status := rec.status
	status = cmp.Or(status, http.StatusOK)
	took := time.Since(began)
	s.metrics.answered(label, status, took)
	level := slog.LevelDebug
	if p != nil {
		s.metrics.rejected.with(p.Code).add(1)
		if p.status == http.StatusInternalServerError {
			level = slog.LevelError
		}
	}
	if !s.o.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []any{"id", id, "method", r.Method, "path", label, "status", status, "took", took, "from", r.RemoteAddr}
	if p != nil {
		attrs = append(attrs, "code", p.Code, "row", p.Row) // not the message: it may quote cells
		if p.cause != nil {
			attrs = append(attrs, "error", p.cause)
		}
	}
	s.o.Log.Log(r.Context(), level, "request", attrs...)
}

// try calls h. A panic becomes an internal error, unless the answer has begun: then the connection is cut, because a
// client must not take half an answer for a whole one.
func (s *Server) try(w *recorder, r *http.Request, h handler) (p *fault) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { // net/http's own signal to cut the connection
			panic(v)
		}
		s.panicked(v)
		if p = internal(errPanicked); w.status != 0 {
			panic(http.ErrAbortHandler)
		}
	}()
	return h(w, r)
}

// challenge makes browsers ask for the token on pages for people. Programs get no such prompt.
func challenge(label string) string {
	if label == "/" {
		return `Basic realm="randfeat: the token is the password", charset="UTF-8"`
	}
	return `Bearer realm="randfeat"`
}

// admit checks the host and the token.
func (s *Server) admit(r *http.Request, open bool) *fault {
	if s.o.LoopbackHosts && !httpd.LoopbackHost(r.Host) {
		return problem(http.StatusMisdirectedRequest, "wrong_host",
			"the host %s is not a loopback address: a server on loopback without a token answers to 127.0.0.1, [::1] and localhost only", show(r.Host))
	}
	want := s.token.Load()
	if open || want == nil {
		return nil
	}
	if !want.Sent(r) {
		return problem(http.StatusUnauthorized, "unauthorized", "send the header Authorization: Bearer <token>")
	}
	return nil
}

// allow checks the method. HEAD is GET without a body, which net/http handles.
func allow(w http.ResponseWriter, r *http.Request, methods []string) *fault {
	for _, m := range methods {
		if r.Method == m || r.Method == http.MethodHead && m == http.MethodGet {
			return nil
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return problem(http.StatusMethodNotAllowed, "method_not_allowed", "method %s, want %s", show(r.Method),
		strings.Join(methods, " or "))
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) *fault {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
	return nil
}

func (s *Server) readiness(w http.ResponseWriter, r *http.Request) *fault {
	if s.http.Stopping() {
		return bodyFault(httpd.Stopped())
	}
	return s.health(w, r)
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) *fault {
	s.metrics.write(w)
	return nil
}

func (s *Server) serveModel(w http.ResponseWriter, _ *http.Request) *fault {
	d := s.current.Load()
	var b []byte
	info, err := d.info()
	if err == nil {
		b, err = json.MarshalIndent(info, "", "  ")
	}
	if err != nil {
		return problemOf(err, 0)
	}
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set(modelHeader, d.sha256)
	w.Write(append(b, '\n'))
	return nil
}

// Run serves connections until ctx ends. It then keeps accepting connections for Limits.Drain, and lets current
// requests finish for at most Limits.Shutdown. Every request that has arrived is answered, with "Connection: close". It
// closes ln. A server runs once.
func (s *Server) Run(ctx context.Context, ln net.Listener) error { return s.http.Run(ctx, ln) }

// prepare loads the model of a file with the given sha256 and predicts one row, to be sure that it can. Reload
// calls it while the old model answers, so it must not touch shared state.
func (srv *Server) prepare(file []byte, sum string) (*loaded, error) {
	m, err := machine.Read(file)
	if err != nil {
		return nil, err
	}
	d := &loaded{model: m, sha256: sum, bytes: len(file), at: time.Now().UTC(),
		s: srv, ready: map[machine.TableOptions]*batcher{}, index: map[string]int{}}
	if srv.path != "" {
		d.name = filepath.Base(srv.path)
	}
	s := m.Schema
	if s == nil {
		return nil, fmt.Errorf("the model has no schema, so the columns of rows are not known: fit it with randfeat fit: %w", machine.ErrSetup)
	}
	for i := range s.Fields {
		d.columns = append(d.columns, s.Fields[i].Name)
	}
	d.fields = len(d.columns)
	d.columns = append(d.columns, s.IDs...)
	d.ids = len(d.columns)
	for _, c := range s.Ignored {
		if _, ok := s.Constants[c]; ok {
			d.columns = append(d.columns, c)
		}
	}
	for j, c := range d.columns {
		d.index[c] = j
	}
	for i := range s.Targets {
		d.index[s.Targets[i].Name] = unread
	}
	for _, c := range s.Ignored {
		if _, ok := s.Constants[c]; !ok {
			d.index[c] = unread
		}
	}
	if srv.o.Watch > 0 {
		if d.watch, err = newWatcher(m, srv.o.Watch, srv.o.Log, srv.metrics.watched); err != nil {
			return nil, err
		}
	}
	b, err := d.batcher(machine.TableOptions{})
	if err != nil {
		return nil, err
	}
	if err := d.try(b.predictor); err != nil {
		return nil, fmt.Errorf("the model cannot predict a row without values: %w", err)
	}
	d.offers = sync.OnceValue(d.options)
	return d, nil
}
