// Package serve answers HTTP requests with a model, in the format of OpenAI's API:
//
//	POST /v1/embeddings    texts in, embeddings out (encoders)
//	POST /v1/completions   a prompt in, text out, at once or as server-sent events (decoders)
//	GET  /v1/models        the name of the model
//	GET  /healthz, /readyz
//
// Open a model, make a server, run it until ctx ends:
//
//	m, err := models.Open(path, models.Options{})
//	s := serve.New(m, serve.Options{Name: "minilm"})
//	err = s.Run(ctx, listener)
//
// [Limits] bound request bodies, times, memory and the number of requests. A request passes guard (host and token),
// limited (number and time), and then waits in compute for one of Limits.Work turns. Generation does not wait for
// the client: a slow reader occupies a connection, not a turn. If a client disconnects, its generation ends.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/randfeat/randfeat/models"
)

// Limits bound the resources that clients can use. A zero field means the default in its comment.
type Limits struct {
	Body     int64         // bytes of a request: 8 MiB
	Texts    int           // texts of one embeddings request: 2048
	Tokens   int           // tokens that one request may generate: 4096
	InFlight int           // concurrent requests: 256; more get status 429
	Work     int           // requests that compute at the same time: 4; others wait
	Memory   int64         // bytes of all concurrent sessions: 1 GiB; more get status 429
	Time     time.Duration // to answer a request, including waiting: 5 minutes
	Read     time.Duration // for a client to send a request: 30 seconds
	Write    time.Duration // for a client to take a piece of an answer: 30 seconds
	Shutdown time.Duration // for current requests to finish when the server stops: 15 seconds
}

func (l *Limits) defaults() {
	set(&l.Body, 8<<20)
	set(&l.Texts, 2048)
	set(&l.Tokens, 4096)
	set(&l.InFlight, 256)
	set(&l.Work, 4)
	set(&l.Memory, 1<<30)
	set(&l.Time, 5*time.Minute)
	set(&l.Read, 30*time.Second)
	set(&l.Write, 30*time.Second)
	set(&l.Shutdown, 15*time.Second)
}

func set[T int | int64 | time.Duration](p *T, v T) {
	if *p <= 0 {
		*p = v
	}
}

// Options are the settings of a server.
type Options struct {
	Limits Limits
	Name   string // name of the model for clients
	Token  string // clients must send it as "Authorization: Bearer …"; empty: no token needed
	// LoopbackHosts refuses requests whose Host header does not name this machine. It prevents DNS rebinding: otherwise
	// a web page could reach a server without a token through a name that resolves to 127.0.0.1.
	LoopbackHosts bool
	Log           *slog.Logger // nil: no log
}

// Server answers requests with one model.
type Server struct {
	model    *models.Model
	opt      Options
	token    [sha256.Size]byte
	handler  http.Handler
	inFlight chan struct{} // holds one element per request in progress
	work     chan struct{} // holds one element per request that computes
	stopping atomic.Bool

	mu     sync.Mutex
	memory int64 // bytes reserved by sessions
}

// New makes a server. The model must stay open until Run returns.
func New(m *models.Model, opt Options) *Server {
	opt.Limits.defaults()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{model: m, opt: opt, token: sha256.Sum256([]byte(opt.Token)),
		inFlight: make(chan struct{}, opt.Limits.InFlight), work: make(chan struct{}, opt.Limits.Work)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", s.limited(s.embeddings))
	mux.HandleFunc("POST /v1/completions", s.limited(s.completions))
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.stopping.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	s.handler = s.guard(mux)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run serves until ctx ends. It then refuses new connections and waits for current requests, at most
// Limits.Shutdown.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	l := s.opt.Limits
	h := &http.Server{Handler: s, ReadHeaderTimeout: min(l.Read, 5*time.Second), ReadTimeout: l.Read,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16,
		ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	last, cancel := context.WithTimeout(context.Background(), l.Shutdown)
	defer cancel()
	if err := h.Shutdown(last); err != nil {
		s.opt.Log.Warn("requests in work are given up", "error", err)
		return h.Close()
	}
	return nil
}

// guard checks the host and the token of a request. Tokens are compared as hashes in constant time, so that timing
// tells nothing about them.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opt.LoopbackHosts && !loopback(r.Host) {
			refuse(w, http.StatusForbidden, "host", "requests to %q are not answered without a token", r.Host)
			return
		}
		if s.opt.Token != "" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			sum := sha256.Sum256([]byte(strings.TrimSpace(sent)))
			if !ok || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "token", "a token is needed: send it as Authorization: Bearer …")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}

// limited bounds the number, the time and the size of requests. Beyond InFlight it refuses at once instead of
// queueing.
func (s *Server) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.inFlight <- struct{}{}:
			defer func() { <-s.inFlight }()
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "requests", "%d requests are in work already", s.opt.Limits.InFlight)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.opt.Limits.Time)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, s.opt.Limits.Body)
		next(w, r.WithContext(ctx))
	}
}

// compute waits for a turn to compute. The caller must call done after its work.
func (s *Server) compute(ctx context.Context) (done func(), err error) {
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reserve takes memory for a session, or reports that there is not enough. free gives it back.
func (s *Server) reserve(bytes int64) (free func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes > s.opt.Limits.Memory-s.memory {
		return nil, false
	}
	s.memory += bytes
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.memory -= bytes
	}, true
}

// Problem is an error in OpenAI's format.
type Problem struct {
	Error struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   string `json:"param,omitempty"`
	} `json:"error"`
}

func problem(status int, param, format string, args ...any) Problem {
	var p Problem
	p.Error.Message, p.Error.Param, p.Error.Type = fmt.Sprintf(format, args...), param, "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		p.Error.Type = "rate_limit_error"
	case status >= 500:
		p.Error.Type = "server_error"
	}
	return p
}

func refuse(w http.ResponseWriter, status int, param, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(problem(status, param, format, args...))
}

// refuseError answers an error of the computation. Internal errors are logged and not shown to the client.
func (s *Server) refuseError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusServiceUnavailable, "", "the answer takes longer than %v", s.opt.Limits.Time)
	case errors.Is(err, context.Canceled): // nobody reads the answer
	case errors.Is(err, models.ErrContext):
		refuse(w, http.StatusBadRequest, "prompt", "%v", err)
	default:
		s.opt.Log.Error("a request failed", "error", err)
		refuse(w, http.StatusInternalServerError, "", "the request failed")
	}
}

// decode reads the JSON of a request. If it fails, it has answered the request, and ok is false.
func decode(w http.ResponseWriter, r *http.Request, v any) (ok bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "", "send JSON, with Content-Type: application/json")
		return false
	}
	d := json.NewDecoder(r.Body)
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more after the JSON object")
		}
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "", "the request has more than %d bytes", large.Limit)
	case err != nil:
		refuse(w, http.StatusBadRequest, "", "the body is no such request: %v", err)
	}
	return err == nil
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	s.answer(w, map[string]any{"object": "list", "data": []entry{{s.opt.Name, "model", 0, "local"}}})
}

// answer writes a JSON object. A client that does not take it within Limits.Write loses the connection.
func (s *Server) answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.refuseError(w, err)
		return
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opt.Limits.Write))
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(b, '\n'))
}

// texts is a text or a list of texts.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return errors.New("want a text or a list of texts")
	}
	*t = list
	return nil
}
