package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Limits bound what clients can make the server do; 0 is the default.
type Limits struct {
	Body     int64 // bytes of a request, compressed or not; 8 MiB
	Rows     int   // of a request; 10000
	InFlight int   // requests for predictions that are read, wait or are in work; 512. More are answered 429
	Memory   int64 // bytes of all bodies and answers at a time, at least Body; 256 MiB. More are answered 429
	Batch    int   // rows predicted in one call; 256
	// Connections open at a time; 4096. More are closed at once, before anything is read from them.
	Connections int

	Time     time.Duration // to answer a request whose body has come; 30 s
	Header   time.Duration // to send the header of a request; 5 s
	Read     time.Duration // to send a request, header and body; 30 s
	Idle     time.Duration // between two requests of a connection; 2 min
	Shutdown time.Duration // for requests in work to finish; 15 s
	// Drain is how long the server goes on answering after it was told to stop, while /readyz says that it will: the
	// time that load balancers take to notice; 0: none.
	Drain time.Duration
}

// answerBytes bounds an answer, which is held in memory until it is complete: an error in the last row must still
// become a status.
const answerBytes = 64 << 20

// headerBytes bounds the header of a request.
const headerBytes = 16 << 10

// Options of a server; the zero value serves everybody who can connect.
type Options struct {
	Limits Limits
	// Token must come with every request but /healthz and /readyz, as "Authorization: Bearer <token>" or as the
	// password of basic authentication, which browsers ask for. Empty: no token is needed.
	Token string
	// OpenMetrics lets /metrics be read without the token.
	OpenMetrics bool
	// LoopbackHosts refuses requests whose Host is not a loopback address or localhost, so that no web page can reach a
	// server on loopback by giving its own name the address 127.0.0.1.
	LoopbackHosts bool
	// Float32 predicts in float32.
	Float32 bool
	// Strict refuses rows that are unlike those of the fit: unseen levels, values outside the range, or missing where
	// none was, and other values of constant columns. Otherwise they are counted in the metrics.
	Strict bool
	// ColumnsMayChange lets Reload take a model that reads other columns than the one before, or predicts something
	// else: clients must change with it. Otherwise such a file is refused and the old model stays.
	ColumnsMayChange bool
	// Log gets what happens, never contents of rows; nil: nothing.
	Log *slog.Logger
}

// errOptions marks options that cannot be used.
var errOptions = errors.New("invalid options")

func (o Options) withDefaults() (Options, error) {
	l := &o.Limits
	for _, x := range []struct {
		name string
		v    *int64
		def  int64
	}{{"Body", &l.Body, 8 << 20}, {"Memory", &l.Memory, max(256<<20, l.Body)}} {
		if *x.v < 0 {
			return o, fmt.Errorf("limit %s = %d, want a positive number: %w", x.name, *x.v, errOptions)
		}
		if *x.v == 0 {
			*x.v = x.def
		}
	}
	for _, x := range []struct {
		name string
		v    *int
		def  int
	}{{"Rows", &l.Rows, 10000}, {"InFlight", &l.InFlight, 512}, {"Batch", &l.Batch, 256},
		{"Connections", &l.Connections, 4096}} {
		if *x.v < 0 {
			return o, fmt.Errorf("limit %s = %d, want a positive number: %w", x.name, *x.v, errOptions)
		}
		if *x.v == 0 {
			*x.v = x.def
		}
	}
	for _, x := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{{"Time", &l.Time, 30 * time.Second}, {"Header", &l.Header, 5 * time.Second}, {"Read", &l.Read, 30 * time.Second},
		{"Idle", &l.Idle, 2 * time.Minute}, {"Shutdown", &l.Shutdown, 15 * time.Second}} {
		if *x.v < 0 {
			return o, fmt.Errorf("limit %s = %v, want a positive time: %w", x.name, *x.v, errOptions)
		}
		if *x.v == 0 {
			*x.v = x.def
		}
	}
	if l.Drain < 0 {
		return o, fmt.Errorf("limit Drain = %v, want a positive time or 0: %w", l.Drain, errOptions)
	}
	if l.Memory < l.Body {
		return o, fmt.Errorf("limit Memory = %d is less than one body of %d bytes: %w", l.Memory, l.Body, errOptions)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
