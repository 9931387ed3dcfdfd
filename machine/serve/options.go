package serve

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Limits bound the work and memory that clients can cause; 0 means the default in the comment.
type Limits struct {
	Body     int64 // bytes of a request, also after decompression; 8 MiB
	Rows     int   // rows of a request; 10000
	InFlight int   // prediction requests whose body has arrived, waiting or in work; 512. More are answered 429
	Memory   int64 // bytes of all bodies and answers, at least Body; 256 MiB. Beyond it requests get 429
	Batch    int   // rows predicted in one call; 256
	// Connections is the number of open connections; 4096. More are closed before anything is read from them.
	Connections int

	Time     time.Duration // to answer a request whose body has arrived; 30 s
	Header   time.Duration // to send the header of a request; 5 s
	Read     time.Duration // to send a request, header and body; 30 s
	Idle     time.Duration // between two requests of a connection; 2 min
	Shutdown time.Duration // for requests in work to finish at the end; 15 s
	// Drain is how long the server accepts connections after it was told to stop, while /readyz already fails: the
	// time that load balancers need to notice; 0 means none.
	Drain time.Duration
}

// answerBytes bounds an answer, which is held in memory until it is complete: an error in the last row must
// still become a status.
const answerBytes = 64 << 20

// headerBytes bounds the header of a request.
const headerBytes = 16 << 10

// Options of a server; the zero value serves everybody who can connect.
type Options struct {
	Limits Limits
	// Token must come with every request except /healthz and /readyz, as "Authorization: Bearer <token>" or as
	// the password of basic authentication, which browsers ask for. Empty means that no token is needed.
	Token string
	// OpenMetrics lets /metrics be read without the token.
	OpenMetrics bool
	// LoopbackHosts refuses requests whose Host is not a loopback address or localhost. Otherwise a web page
	// could reach a server on loopback by letting its own name resolve to 127.0.0.1 (DNS rebinding).
	LoopbackHosts bool
	// TLS encrypts the connections of Run; nil means plain HTTP. Its NextProtos name h2 to offer HTTP/2.
	TLS *tls.Config
	// Float32 predicts in float32.
	Float32 bool
	// Strict refuses rows that are unlike the training rows: unseen levels, values outside the range, new
	// missing values, and other values of constant columns. Otherwise they are counted in the metrics.
	Strict bool
	// Watch is the number of the newest rows that are compared with those of the fit, if the model has a reference; 0
	// means 10000, less than 0 none.
	Watch int
	// ColumnsMayChange lets Reload accept a model that reads other columns or predicts something else, so that
	// clients must change. Otherwise such a file is refused and the old model stays.
	ColumnsMayChange bool
	// Log receives events, never the contents of rows; nil means no log.
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
	o.Watch = cmp.Or(o.Watch, 10000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
