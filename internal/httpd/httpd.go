// Package httpd runs the HTTP servers of this repository. It bounds connections, reads whole bodies before a request
// takes a slot ([Server.ReadBody]), and stops without breaking a client ([Server.Run]).
package httpd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server runs a handler. Set the fields before Run. Limits of 0 mean none, but Grace has a default.
type Server struct {
	Handler     http.Handler
	TLS         *tls.Config  // nil: connections are not encrypted
	Log         *slog.Logger // nil: no log
	Connections int          // open connections; more are closed before anything is read from them
	HeaderBytes int          // bytes of a request's header

	Header time.Duration // for a client to send the header of a request
	Read   time.Duration // for a client to send a request, header and body
	Write  time.Duration // from the end of the header to the end of the answer
	Idle   time.Duration // between two requests of a connection

	Drain    time.Duration // to go on accepting connections after Run was told to stop
	Grace    time.Duration // for open connections to send a last request, after Drain; 0: one second
	Shutdown time.Duration // for requests in work to finish, Grace included

	Opened  func(change int) // called when a connection opens (+1) and closes (−1); nil: nobody
	Refused func()           // called when a connection beyond Connections is closed; nil: nobody

	stopping atomic.Bool // Run was told to stop
	closing  atomic.Bool // answers say that their connection closes
	mu       sync.Mutex
	conns    map[net.Conn]*conn
	arriving map[*arrival]bool
	cut      time.Time // when bodies must have arrived; zero: no such time
}

// conn is the state of an open connection, guarded by Server.mu.
type conn struct {
	waits bool // no handler has begun since the connection was opened; net/http closes those that became idle
}

// connKey is the key of the net.Conn in the context of a request.
type connKey struct{}

const defaultGrace = time.Second

// Stopping reports whether Run was told to stop: the server is not ready for new clients.
func (s *Server) Stopping() bool { return s.stopping.Load() }

// Open is the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Run serves connections until ctx ends and then stops in steps. It closes ln. A server runs once.
//
//  1. Stopping is true. If there is a Drain, new connections are accepted for it, and answers say "Connection: close".
//  2. The listener closes, and answers say "Connection: close". For Grace, open connections may send one more request,
//     because a client may be sending it at this moment. Bodies that have not arrived by then are refused.
//  3. Connections without a request are closed. Requests in work have until Shutdown to finish.
//
// The error is nil if every request that had arrived was answered.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s.mu.Lock()
	s.conns = map[net.Conn]*conn{}
	s.mu.Unlock()
	// Requests outlive ctx, so their base context is separate.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: s.Header,
		ReadTimeout:       s.Read,
		WriteTimeout:      s.Write,
		IdleTimeout:       s.Idle,
		MaxHeaderBytes:    s.HeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 128, MaxReceiveBufferPerConnection: 256 << 10,
			MaxReceiveBufferPerStream: 128 << 10},
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: s.connection,
		// Clients that leave and failed handshakes are not worth more than a debug line.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	tcp := ln
	if s.TLS != nil {
		ln = tls.NewListener(tcp, s.TLS)
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	if s.Drain > 0 {
		s.closing.Store(true)
		log.Info("will shut down", "in", s.Drain)
		select {
		case err := <-failed:
			return err
		case <-time.After(s.Drain):
		}
	}
	log.Info("shutting down", "connections", s.Open(), "at_most", s.Shutdown)
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), s.Shutdown)
	defer stop()
	closeWhenEmpty(tcp)
	s.closing.Store(true) // not before: clients would connect again at the moment when the listener closes
	<-failed
	s.lastRequests(wait)
	s.closeWaiting()
	if err := srv.Shutdown(wait); err != nil {
		n := s.Open()
		// Close connections before ending requests: a request that is told to end while its connection is open
		// might or might not get its answer out.
		srv.Close()
		cancel()
		return fmt.Errorf("requests were still in work after %v and were cut off (%d connections): %w", s.Shutdown, n,
			err)
	}
	log.Info("stopped")
	return nil
}

// serve passes a request to the handler. Once the server stops, the answer says that the connection closes.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		s.mu.Lock()
		if k := s.conns[c]; k != nil {
			k.waits = false
		}
		s.mu.Unlock()
	}
	s.Handler.ServeHTTP(&closer{ResponseWriter: w, server: s}, r)
}

// closer adds "Connection: close" to the header of an answer that begins while the server stops. In HTTP/2 net/http
// turns that into GOAWAY.
type closer struct {
	http.ResponseWriter
	server *Server
	begun  bool
}

func (c *closer) begin() {
	if !c.begun && c.server.closing.Load() {
		c.Header().Set("Connection", "close")
	}
	c.begun = true
}

func (c *closer) WriteHeader(status int) {
	c.begin()
	c.ResponseWriter.WriteHeader(status)
}

func (c *closer) Write(b []byte) (int, error) {
	c.begin()
	return c.ResponseWriter.Write(b)
}

func (c *closer) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// connection follows the states of a connection and closes it beyond the limit.
func (s *Server) connection(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	full, change := false, 0
	switch state {
	case http.StateNew:
		s.conns[c], change = &conn{waits: true}, 1
		full = s.Connections > 0 && len(s.conns) > s.Connections
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
		change = -1
	}
	s.mu.Unlock()
	if change != 0 && s.Opened != nil {
		s.Opened(change)
	}
	if full {
		if s.Refused != nil {
			s.Refused() // before the client can know
		}
		c.Close()
	}
}

// lastRequests waits until all connections have closed, at most for Grace.
func (s *Server) lastRequests(ctx context.Context) {
	grace := s.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	ctx, stop := context.WithTimeout(ctx, grace)
	defer stop()
	s.cutBodies(time.Now().Add(grace))
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.Open() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// closeWaiting closes the connections whose request has not arrived, nor begun to.
func (s *Server) closeWaiting() {
	var waiting []net.Conn
	s.mu.Lock()
	for c, k := range s.conns {
		if k.waits {
			waiting = append(waiting, c)
		}
	}
	s.mu.Unlock()
	for _, c := range waiting {
		c.Close() // may write an alert of TLS, so not under the lock
	}
}
