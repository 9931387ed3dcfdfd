// Package serve answers HTTP requests with a model, in the format of OpenAI's API:
//
//	POST /v1/embeddings    texts in, embeddings out (encoders)
//	POST /v1/completions   a prompt in, text out, at once or as server-sent events (decoders)
//	POST /v1/chat/completions   messages in, the next message out (decoders with a conversation format)
//	GET  /v1/models        the name of the model
//	GET  /healthz, /readyz
//
// Open a model, make a server, run it until ctx ends:
//
//	m, err := models.Open(path, models.Options{})
//	s := serve.New(m, serve.Options{Name: "minilm"})
//	err = s.Run(ctx, listener)
//
// [Limits] bound connections, request bodies, times, memory and the number of requests. A request passes guard (host
// and token) and limited (body, then number and time), and waits twice for one of Limits.Work turns: to be read, and to
// be computed. Generation does not wait for the client: a slow reader occupies a connection, not a turn. If a client
// disconnects, its generation ends.
package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/models"
)

// Limits bound the resources that clients can use. A zero field means the default in its comment.
type Limits struct {
	Connections int // open connections: 1024; more are closed

	Body     int64         // bytes of a request, also after decompression: 8 MiB
	Texts    int           // texts of one embeddings request: 2048
	Tokens   int           // tokens that one request may generate: 4096
	InFlight int           // requests whose body has arrived: 256; more get status 429
	Work     int           // requests that compute at the same time: 4; others wait
	Memory   int64         // bytes of all bodies, their texts and sessions: 1 GiB; more get status 429
	Time     time.Duration // to answer a request whose body has arrived, including waiting: 5 minutes
	Read     time.Duration // for a client to send a request: 30 seconds
	Write    time.Duration // for a client to take a piece of an answer: 30 seconds
	Shutdown time.Duration // for current requests to finish when the server stops: 15 seconds
}

func (l *Limits) defaults() {
	set(&l.Connections, 1024)
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
	token    httpd.Token
	handler  http.Handler
	http     httpd.Server
	memory   *httpd.Memory // of bodies, texts and sessions
	inFlight chan struct{} // holds one element per request in progress
	work     chan struct{} // holds one element per request that computes
	read     chan struct{} // holds one element per request that is read
	long     sync.Once     // says that texts are longer than a passage
}

// New makes a server. The model must stay open until Run returns.
func New(m *models.Model, opt Options) *Server {
	opt.Limits.defaults()
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{model: m, opt: opt, token: httpd.NewToken(opt.Token),
		memory: httpd.NewMemory(opt.Limits.Memory), inFlight: make(chan struct{}, opt.Limits.InFlight),
		work: make(chan struct{}, opt.Limits.Work), read: make(chan struct{}, opt.Limits.Work)}
	l := opt.Limits
	s.http = httpd.Server{Handler: s, Log: opt.Log, Connections: l.Connections, HeaderBytes: 1 << 16,
		Header: min(l.Read, 5*time.Second), Read: l.Read, Idle: 2 * time.Minute, Shutdown: l.Shutdown}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", s.limited(s.embeddings))
	mux.HandleFunc("POST /v1/completions", s.limited(s.completions))
	mux.HandleFunc("POST /v1/chat/completions", s.limited(s.chat))
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "", "/v1/responses is not served: send messages to /v1/chat/completions")
	})
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /v1/models/{name...}", s.retrieve)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.http.Stopping() {
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

// Run serves until ctx ends. It then answers the requests that have arrived, for at most Limits.Shutdown, and closes
// the connections. A server runs once.
func (s *Server) Run(ctx context.Context, ln net.Listener) error { return s.http.Run(ctx, ln) }

// guard checks the host and the token of a request.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opt.LoopbackHosts && !httpd.LoopbackHost(r.Host) {
			refuse(w, http.StatusForbidden, "host", "requests to %q are not answered without a token", r.Host)
			return
		}
		if s.opt.Token != "" && r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			if !s.token.Sent(r) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, http.StatusUnauthorized, "token", "a token is needed: send it as Authorization: Bearer …")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// limited reads the body, which holds nobody up, and then bounds the number and the time of requests. Beyond InFlight
// it refuses at once instead of queueing.
func (s *Server) limited(read reader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "", "send JSON, with Content-Type: application/json")
			return
		}
		body, e := s.http.ReadBody(w, r, s.opt.Limits.Body, s.memory)
		if e != nil {
			refuseBody(w, e)
			return
		}
		defer body.Free()
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
		defer func() {
			if v := recover(); v != nil {
				s.refuseError(w, s.panicked(v))
			}
		}()
		r = r.WithContext(ctx)
		if then := s.inTurn(w, r, body, read); then != nil {
			then()
		}
	}
}

// inTurn reads a request when few others are read: its JSON, its texts and their copies take several times the memory
// of the body, which is all that a waiting request holds.
func (s *Server) inTurn(w http.ResponseWriter, r *http.Request, body *httpd.Body, read reader) (then func()) {
	done, err := turn(r.Context(), s.read)
	if err != nil {
		s.refuseError(w, err)
		return nil
	}
	defer done()
	return read(w, r, body)
}

// reader reads a request and returns the function that answers it. If it has refused the request, that is nil.
type reader func(w http.ResponseWriter, r *http.Request, body *httpd.Body) (answer func())

// panicked turns a panic into the error of one request: a fault in one computation must not end the others.
func (s *Server) panicked(v any) error {
	s.opt.Log.Error("a request panicked", "panic", v, "stack", string(debug.Stack()))
	return fmt.Errorf("panic: %v", v)
}

// turn waits for a place in s.work or s.read. The caller must call done after its work.
func turn(ctx context.Context, places chan struct{}) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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

// refuseBody answers a request whose body was not read, or for which there is no memory.
func refuseBody(w http.ResponseWriter, e *httpd.BodyError) {
	if e.Retry {
		w.Header().Set("Retry-After", "1")
	}
	if e.Status != http.StatusTooManyRequests {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	refuse(w, e.Status, "", "%s", e.Message)
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

// decode reads the JSON of a request. Fields that v does not have are refused: they would change the answer, and nobody
// would notice that they did not. If it fails, it has answered the request, and ok is false. Texts take no more
// bytes than their JSON: that is so for UTF-8 only, whose damaged parts would grow.
func decode(w http.ResponseWriter, body *httpd.Body, v any) (ok bool) {
	err := errors.New("it is not UTF-8")
	if utf8.Valid(body.Bytes) {
		d := json.NewDecoder(bytes.NewReader(body.Bytes))
		d.DisallowUnknownFields()
		if err = d.Decode(v); err == nil && d.More() {
			err = errors.New("more than one object")
		}
	}
	if err == nil {
		return true
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name := strings.Trim(quoted, `"`)
		refuse(w, http.StatusBadRequest, name, "the field %.100q is not supported", name)
		return false
	}
	refuse(w, http.StatusBadRequest, "", "the body is no such request: %v", err)
	return false
}

// entry describes the model to clients.
type entry struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, map[string]any{"object": "list", "data": []entry{{s.opt.Name, "model", 0, "local"}}})
}

func (s *Server) retrieve(w http.ResponseWriter, r *http.Request) {
	if name := r.PathValue("name"); name != s.opt.Name {
		refuse(w, http.StatusNotFound, "model", "no model %q, only %q", name, s.opt.Name)
		return
	}
	s.answer(w, entry{s.opt.Name, "model", 0, "local"})
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

// mostTexts bounds a list: empty texts take more memory than their JSON.
const mostTexts = 1 << 16

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	*t = nil
	in := cell.JSONScanner{Data: b}
	if in.Array(func(i int) error {
		in.Skip()
		text, err := in.Key()
		if i >= mostTexts {
			err = errors.New("too many")
		}
		*t = append(*t, string(text))
		return err
	}) != nil {
		return fmt.Errorf("want a text or a list of at most %d texts", mostTexts)
	}
	return nil
}
