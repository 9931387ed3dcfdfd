package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models/serve"
)

// Serving is the object that serve --json prints as soon as it listens.
type Serving struct {
	Address string `json:"address"`
	URL     string `json:"url"`
	Model   string `json:"model"`
}

// tokenVariable is the environment variable with the token, used if --token-file is not set.
const tokenVariable = "RFM_TOKEN"

func serveCommand(e *env) *cobra.Command {
	var f modelFlags
	var address, tokenFile, name string
	var public, verbose bool
	var l serve.Limits
	cmd := &cobra.Command{
		Use:   "serve MODEL",
		Short: "Serve OpenAI's HTTP API",
		Long: `serve answers requests in the format of OpenAI's API:

  POST /v1/embeddings    texts in, embeddings out (models that embed)
  POST /v1/completions   a prompt in, text out; "stream": true sends it piece by piece (models that generate)
  GET  /v1/models, /healthz, /readyz

Beyond loopback a token is needed, from --token-file or the environment variable ` + tokenVariable + `. SIGTERM and SIGINT
stop the server: it answers every request that has arrived and closes the connections. Logs go to stderr; they never hold texts.`,
		Example: `  rfm serve all-MiniLM-L6-v2
  curl -H 'Content-Type: application/json' -d '{"input": "a text"}' http://127.0.0.1:8080/v1/embeddings`,
		Args: suggest.Args("a model", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			token, err := httpd.ReadToken(tokenFile, tokenVariable)
			if err != nil {
				return err
			}
			local, err := httpd.OnLoopback(address)
			if errors.Is(err, httpd.ErrAddress) {
				return misused("--addr %v", err)
			}
			if err != nil {
				return err
			}
			if !local && token == "" && !public {
				return misused("%s can be reached from other machines, and there is no token: set --token-file or %s, or set --public-without-token",
					address, tokenVariable)
			}
			m, err := f.open(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			if name == "" {
				name = strings.TrimSuffix(filepath.Base(filepath.Clean(args[0])), ".gguf")
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
			s := serve.New(m, serve.Options{Limits: l, Name: name, Token: token, LoopbackHosts: local && token == "",
				Log: log})
			// The garbage collector keeps the program below what it holds now and what requests may take.
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			debug.SetMemoryLimit(int64(now.Sys-now.HeapReleased) + l.Memory)
			ln, err := httpd.Listen(address)
			if err != nil {
				return err
			}
			at := Serving{Address: ln.Addr().String(), URL: "http://" + ln.Addr().String() + "/", Model: name}
			if e.json {
				err = e.object(at)
			} else {
				_, err = fmt.Fprintf(e.stdout, "%s is served at %s (Ctrl-C stops)\n", name, at.URL)
			}
			if err = errors.Join(err, e.stdout.Flush()); err != nil {
				ln.Close()
				return err
			}
			return s.Run(cmd.Context(), ln)
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&address, "addr", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	fl.StringVar(&name, "name", "", "name of the model for clients (default: the name of the file)")
	fl.StringVar(&tokenFile, "token-file", "", "`file` with the token that clients must send")
	fl.BoolVar(&public, "public-without-token", false, "serve everyone who can reach the address, without a token")
	fl.BoolVar(&verbose, "verbose", false, "log why connections fail")
	fl.IntVar(&l.Connections, "max-connections", 1024, "largest number of connections; more are closed")
	fl.Int64Var(&l.Body, "max-body", 8<<20, "largest request in bytes; larger ones get status 413")
	fl.IntVar(&l.Texts, "max-texts", 2048, "largest number of texts in a request; more get status 400")
	fl.IntVar(&l.Tokens, "max-tokens", 4096, "largest number of tokens that a request may ask for; more get status 400")
	fl.IntVar(&l.InFlight, "max-in-flight", 256, "largest number of requests that wait or compute; more get status 429")
	fl.IntVar(&l.Work, "max-work", 4, "largest number of requests that compute at a time; others wait")
	fl.Int64Var(&l.Memory, "max-memory", 1<<30, "largest total size of requests and sessions in bytes; beyond it requests get status 429")
	fl.DurationVar(&l.Time, "timeout", 5*time.Minute, "longest time to answer a request; then it gets status 503")
	fl.DurationVar(&l.Read, "read-timeout", 30*time.Second, "longest time for a client to send a request")
	fl.DurationVar(&l.Write, "write-timeout", 30*time.Second, "longest time for a client to take a piece of an answer")
	fl.DurationVar(&l.Shutdown, "shutdown-timeout", 15*time.Second,
		"longest time to wait for current requests when the server stops")
	return cmd
}
