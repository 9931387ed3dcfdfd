// Package serving has the commands that answer HTTP requests: serve and explore. They turn flags and signals
// into calls of package serve; requests are handled there.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/machine/serve"
)

// Serving is the object of serve --json, printed once it listens.
type Serving struct {
	Address string `json:"address"` // address of the listener
	URL     string `json:"url"`     // address of the page to try it
	SHA256  string `json:"sha256"`  // checksum of the model file
}

// TokenVariable is the environment variable with the token, if there is no --token-file. A token on the command
// line would be visible to other users of the machine.
const TokenVariable = "RANDFEAT_TOKEN"

// serveFlags are the flags of serve.
type serveFlags struct {
	address     string
	tokenFile   string
	public      bool
	openMetrics bool
	cert, key   string
	logFormat   string
	logLevel    string
	float32     bool
	strict      bool
	columns     bool
	watch       int
	limits      serve.Limits
}

func ServeCommand(env *cli.Env) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve MODEL",
		Short: "Serve predictions over HTTP",
		Long: `serve answers predictions over HTTP. The address / shows a page to try it.

` + endpoints() + `
/v1/predict has the parameters ?probabilities, ?scores, ?variance and ?interval=0.9.

  curl -H 'Content-Type: application/json' -d '[{"age":31,"sex":"M"}]' http://127.0.0.1:8080/v1/predict
  curl -H 'Content-Type: text/csv' --data-binary @rows.csv http://127.0.0.1:8080/v1/predict

Any address other than loopback needs a token, from --token-file or the environment variable ` + TokenVariable + `. Clients send it as
"Authorization: Bearer TOKEN"; browsers ask for it as a password.

SIGHUP reloads the model file, the token file and the certificate without dropping a request. The server keeps the old
model if the new file is damaged, or if it reads other columns and --allow-other-columns is not set. Replace the file by
renaming a new one over it. SIGTERM and SIGINT stop the server: it answers every request that has arrived and closes
the connections. With --drain-delay it first accepts connections for that time while /readyz fails, so that load
balancers notice.
Logs go to stderr and never contain rows.`,
		Example: `  randfeat serve model.rf
  randfeat serve model.rf --addr :8443 --token-file token --tls-cert cert.pem --tls-key key.pem --log-format json`,
		Args: cli.ExactArgs("a model", 1),
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			return runServe(cmd.Context(), env, args[0], &f)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.address, "addr", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the token that clients must send")
	fl.BoolVar(&f.public, "public-without-token", false, "serve everyone who can reach the address, without a token")
	fl.BoolVar(&f.openMetrics, "open-metrics", false, "allow reading /metrics without the token")
	fl.StringVar(&f.cert, "tls-cert", "", "`file` with the certificate chain (PEM)")
	fl.StringVar(&f.key, "tls-key", "", "`file` with the private key (PEM)")
	fl.BoolVar(&f.strict, "strict", false, "refuse rows unlike those of the training table (unseen levels, numbers out of "+
		"range, …); otherwise they are counted in /metrics")
	fl.IntVar(&f.watch, "watch", 10000, "number of the newest `rows` that are compared with those of the fit; 0: none")
	fl.BoolVar(&f.columns, "allow-other-columns", false, "allow a reload to change the columns that clients must send")
	fl.BoolVar(&f.float32, "float32", false, "compute in float32: faster, with two to six right digits (fewest for a wide kernel with a small λ)")
	fl.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug (every request), info, warn or error")
	l := &f.limits
	fl.Int64Var(&l.Body, "max-body", 8<<20, "largest request in bytes, also after decompression; larger ones get status 413")
	fl.IntVar(&l.Rows, "max-rows", 10000, "largest number of rows in a request; more get status 413")
	fl.IntVar(&l.InFlight, "max-in-flight", 512, "largest number of requests that wait or compute; more get status 429")
	fl.Int64Var(&l.Memory, "max-memory", 256<<20, "largest total size of requests and answers in memory, in bytes; beyond it requests get status 429")
	fl.IntVar(&l.Batch, "max-batch", 256, "largest number of rows predicted together")
	fl.IntVar(&l.Connections, "max-connections", 4096, "largest number of connections; more are closed")
	fl.DurationVar(&l.Drain, "drain-delay", 0, "time to accept connections while /readyz fails, before the server stops")
	fl.DurationVar(&l.Time, "timeout", 30*time.Second, "longest time to answer a request; then it gets status 503")
	fl.DurationVar(&l.Read, "read-timeout", 30*time.Second, "longest time for a client to send a request")
	fl.DurationVar(&l.Header, "header-timeout", 5*time.Second,
		"longest time for a client to send the header of a request")
	fl.DurationVar(&l.Idle, "idle-timeout", 2*time.Minute, "longest time that an idle connection stays open")
	fl.DurationVar(&l.Shutdown, "shutdown-timeout", 15*time.Second,
		"longest time to wait for current requests when the server stops")
	return cmd
}

// leastWindow is the smallest window of --watch: ten parts of 20 rows.
const leastWindow = 200

// endpoints lists the paths of the server for the help.
func endpoints() string {
	var b strings.Builder
	for _, e := range serve.Endpoints() {
		if e.Path != "/" { // the page has a sentence of its own
			fmt.Fprintf(&b, "  %-4s %-14s %s\n", strings.Join(e.Methods, ", "), e.Path, e.Summary)
		}
	}
	return b.String()
}

// runServe checks flags, loads the model, listens, announces the address and serves until a signal. Signals are
// caught before the address is printed, so a caller that reads the address may send signals at once.
func runServe(ctx context.Context, env *cli.Env, path string, f *serveFlags) error {
	log, err := f.logger(env.Stderr)
	if err != nil {
		return err
	}
	token, err := httpd.ReadToken(f.tokenFile, TokenVariable)
	if err != nil {
		return err
	}
	if (f.cert == "") != (f.key == "") {
		return cli.Misused("--tls-cert and --tls-key go together")
	}
	if err := f.checkLimits(); err != nil {
		return err
	}
	if f.watch != 0 && f.watch < leastWindow {
		return cli.Misused("--watch is %d, want at least %d rows, or 0 for none", f.watch, leastWindow)
	}
	loopback, err := onLoopback(f.address)
	if err != nil {
		return err
	}
	if !loopback && token == "" && !f.public {
		return cli.Misused("%s can be reached from other machines, and there is no token: set --token-file or %s, or set --public-without-token",
			f.address, TokenVariable)
	}
	// From here on signals have the documented meaning: a caller may send them as soon as it has read the
	// address.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	again := make(chan os.Signal, 1)
	notifyReload(again)
	defer signal.Stop(again)
	o := serve.Options{Limits: f.limits, Token: token, OpenMetrics: f.openMetrics,
		LoopbackHosts: loopback && token == "", Float32: f.float32, Strict: f.strict, ColumnsMayChange: f.columns,
		Watch: f.watch,
		Log:   log}
	if f.watch == 0 {
		o.Watch = -1
	}
	// TLS reads the certificate through a pointer at every handshake, so a reload needs no new listener.
	pair := &certificate{cert: f.cert, key: f.key}
	if f.cert != "" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get,
			NextProtos: []string{"h2", "http/1.1"}}
	}
	s, err := serve.New(path, o)
	if err != nil {
		return err
	}
	if f.cert != "" {
		if err := pair.load(); err != nil {
			return err
		}
	}
	ln, err := httpd.Listen(f.address)
	if err != nil {
		return err
	}
	serving := Serving{Address: ln.Addr().String(), URL: "http://" + ln.Addr().String() + "/", SHA256: s.SHA256()}
	if f.cert != "" {
		serving.URL = "https://" + ln.Addr().String() + "/"
	} else if !loopback && token != "" {
		log.Warn("the token travels unencrypted: use --tls-cert and --tls-key, or a proxy that does")
	}
	if err := announce(env, path, serving); err != nil {
		ln.Close()
		return err
	}
	log.Info("listening", "address", serving.Address, "model", path, "sha256", serving.SHA256, "token", token != "",
		"tls", f.cert != "")

	// After the first signal, restore the default handling: a second one ends the process at once.
	defer context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		f.reloads(ctx, again, s, pair, log)
	}()
	err = s.Run(ctx, ln)
	stop()
	select {
	case <-idle:
	case <-time.After(reloadPatience):
		log.Warn("a reload is still under way and is given up")
	}
	return err
}

// reloadPatience is how long a stopped server waits for a reload in progress: a file system that does not
// answer must not keep the process alive.
const reloadPatience = time.Second

// reloads reads the model, the token and the certificate again at every signal. A file that cannot be read
// leaves the old one in use.
func (f *serveFlags) reloads(ctx context.Context, again <-chan os.Signal, s *serve.Server, pair *certificate,
	log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			_ = s.Reload() // the server logs and counts failures
			f.reloadToken(s, log)
			if f.cert == "" {
				continue
			}
			if err := pair.load(); err != nil {
				log.Error("the certificate cannot be read, the old one stays", "error", err)
			}
		}
	}
}

// announce prints the address. It flushes, because callers wait for this line before they send requests.
func announce(env *cli.Env, path string, s Serving) error {
	var err error
	if env.JSON {
		err = env.Object(s)
	} else {
		_, err = fmt.Fprintf(env.Stdout, "%s is served at %s (Ctrl-C stops)\n", path, s.URL)
	}
	return errors.Join(err, env.Stdout.Flush())
}

func (f *serveFlags) checkLimits() error {
	l := f.limits
	for _, v := range []struct {
		flag string
		ok   bool
	}{{"max-body", l.Body > 0}, {"max-rows", l.Rows > 0}, {"max-in-flight", l.InFlight > 0},
		{"max-memory", l.Memory >= l.Body},
		{"max-batch", l.Batch > 0}, {"max-connections", l.Connections > 0}, {"drain-delay", l.Drain >= 0}, {"timeout",
			l.Time > 0}, {"read-timeout", l.Read > 0},
		{"header-timeout", l.Header > 0},
		{"idle-timeout", l.Idle > 0}, {"shutdown-timeout", l.Shutdown > 0}} {
		if !v.ok {
			if v.flag == "max-memory" {
				return cli.Misused("--max-memory must not be less than --max-body")
			}
			return cli.Misused("--%s must be positive", v.flag)
		}
	}
	return nil
}

func (f *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, cli.Misused("--log-level %q: want debug, info, warn or error", f.logLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, cli.Misused("--log-format %q: want text or json", f.logFormat)
}

// reloadToken reads the token file again. A token from the environment cannot change.
func (f *serveFlags) reloadToken(s *serve.Server, log *slog.Logger) {
	if f.tokenFile == "" {
		return
	}
	token, err := httpd.ReadToken(f.tokenFile, TokenVariable)
	if err != nil {
		log.Error("the token cannot be read, the old one stays", "error", err)
		return
	}
	s.SetToken(token)
	log.Info("the token was read again")
}

// onLoopback is httpd.OnLoopback of --addr.
func onLoopback(address string) (bool, error) {
	local, err := httpd.OnLoopback(address)
	if errors.Is(err, httpd.ErrAddress) {
		return false, cli.Misused("--addr %v", err)
	}
	return local, err
}

// certificate is a certificate and key that can be reloaded; get may be called concurrently with load.
type certificate struct {
	cert, key string
	pair      atomic.Pointer[tls.Certificate]
}

func (c *certificate) load() error {
	p, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("cannot use the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	c.pair.Store(&p)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }
