package serving

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/httpd"
	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/web/explorer"
)

// Exploring is the object of explore --json, printed once it listens.
type Exploring struct {
	URL string `json:"url"` // address of the page
}

// exploreFlags are the flags of explore.
type exploreFlags struct {
	address string
	page    string
	output  string
	noOpen  bool
}

func ExploreCommand(env *cli.Env) *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Open the explorer: interactive theory in a browser",
		Long: `explore opens the explorer in a browser. Choose kernel, family, coupling, sizes and a pair of vectors, and see bias,
variance and error at once; look at projections; drop your data and let the advisor rank estimators. This program answers
the page, on loopback, until Ctrl-C. Nothing leaves your machine.

-o writes a page that needs no server: one HTML file in which the library runs as WebAssembly. Releases have this file as
explorer.html beside the program. Otherwise -o builds it with the go tool from the checkout that you are in, or from the
source of this version, which the go tool downloads. That takes a minute the first time. --page names such a file, to be
served or copied as it is.`,
		Example: `  randfeat explore
  randfeat explore -o explorer.html`,
		Args: cli.ExactArgs("none", 0),
		RunE: cli.Do(func(cmd *cobra.Command, _ []string) error { return runExplore(cmd.Context(), env, cmd, &f) }),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.address, "addr", "127.0.0.1:8090", "loopback address to listen on; port 0 takes a free one")
	fl.BoolVar(&f.noOpen, "no-open", false, "do not open a browser")
	fl.StringVar(&f.page, "page", "", "HTML `file` to read: the page that -o wrote; serve or copy it")
	fl.StringVarP(&f.output, "output", "o", "", "write the page to this HTML `file` and serve nothing")
	cli.CompleteFiles(cmd, "page", "html")
	cli.CompleteFiles(cmd, "output", "html")
	return cmd
}

func runExplore(ctx context.Context, env *cli.Env, cmd *cobra.Command, f *exploreFlags) error {
	if f.output != "" {
		if err := cli.Conflict(cmd, "output", "addr", "no-open"); err != nil {
			return err
		}
	} else if loopback, err := onLoopback(f.address); err != nil {
		return err
	} else if !loopback {
		return cli.Misused("--addr %s is not on loopback: the explorer is for this machine; -o writes a file to pass on", f.address)
	}
	if f.output != "" {
		page, err := explorerPage(ctx, env, f.page)
		if err != nil {
			return err
		}
		return localfile.Write(f.output, page)
	}
	if f.page == "" {
		handler, err := explorer.Handler()
		if err != nil {
			return err
		}
		return serveExplorer(ctx, env, handler, f)
	}
	page, err := readPage(f.page)
	if err != nil {
		return err
	}
	return serveExplorer(ctx, env, explorer.PageHandler(page), f)
}

// explorerPage returns the page that needs no server: a given file, the one beside the program, or a newly
// built one.
func explorerPage(ctx context.Context, env *cli.Env, path string) ([]byte, error) {
	if path != "" {
		return readPage(path)
	}
	if program, err := os.Executable(); err == nil {
		page, err := readPage(filepath.Join(filepath.Dir(program), "explorer.html"))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return page, err
		}
	}
	env.Note("Building the explorer with the go tool; the first time takes a while …")
	page, err := explorer.Build(ctx, ".")
	if !errors.Is(err, explorer.ErrNoSource) {
		return page, err
	}
	// Not in a checkout. A program from go install knows its version, whose source the go tool can download.
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		var dir string
		if dir, err = explorer.Download(ctx, info.Main.Version); err == nil {
			return explorer.Build(ctx, dir)
		}
	}
	return nil, fmt.Errorf("%w; put the explorer.html of the release beside the program or name it by --page, or run 'randfeat explore' in a checkout of the repository", err)
}

func readPage(path string) ([]byte, error) {
	return localfile.Read(path, localfile.Format{Want: "the page of the explorer", Max: 1 << 28})
}

func serveExplorer(ctx context.Context, env *cli.Env, handler http.Handler, f *exploreFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	ln, err := httpd.Listen(f.address)
	if err != nil {
		return err
	}
	where := Exploring{URL: "http://" + ln.Addr().String() + "/"}
	if env.JSON {
		err = env.Object(where)
	} else {
		_, err = fmt.Fprintf(env.Stdout, "The explorer is at %s (Ctrl-C stops)\n", where.URL)
	}
	if err = errors.Join(err, env.Stdout.Flush()); err != nil {
		ln.Close()
		return err
	}
	if !f.noOpen {
		if err := openBrowser(where.URL); err != nil {
			env.Note("no browser opens by itself (%v): open %s", err, where.URL)
		}
	}
	// The timeouts keep a stalled client from holding a connection forever. A browser keeps connections open that it
	// does not use, so the grace is short.
	s := httpd.Server{Handler: handler, Header: 10 * time.Second, Write: time.Minute, Idle: time.Minute,
		HeaderBytes: 1 << 16, Grace: 50 * time.Millisecond, Shutdown: 5 * time.Second}
	err = s.Run(ctx, ln)
	if ctx.Err() != nil {
		return nil // Ctrl-C: what was cut off does not matter
	}
	return err
}

// openBrowser opens an address in the desktop's browser and does not wait for it.
func openBrowser(url string) error {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", url)
	case "darwin":
		cmd = exec.Command("open", url)
	default:
		cmd = exec.Command("xdg-open", url)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}
