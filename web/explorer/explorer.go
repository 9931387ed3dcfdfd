// Package explorer makes the explorer, in two forms of the same page. [Handler] serves it from a program, whose
// library answers the page. [Build] makes one HTML file that needs no server and no network, in which the
// library runs as WebAssembly. The page, its styles and its scripts are in the folder page; its computations
// are in package model, which the folder wasm compiles for browsers.
package explorer

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat/internal/figure"
)

// module is the path of this module.
const module = "github.com/randfeat/randfeat"

//go:embed page
var folder embed.FS

// ErrNoSource is returned by Build if the source of the module, or the go tool, is not available.
var ErrNoSource = errors.New("the explorer cannot be built here")

// Build compiles the explorer with the go tool from the module that contains the folder dir, and returns the
// page as one file.
func Build(ctx context.Context, dir string) ([]byte, error) {
	temp, err := os.MkdirTemp("", "randfeat-explorer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	goTool := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, exec.ErrNotFound):
			return nil, fmt.Errorf("%w: there is no go tool: %w", ErrNoSource, err)
		case err != nil:
			return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
		}
		return out, nil
	}
	if _, err := goTool("list", "-m", module); err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrNoSource) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s is not inside a checkout of %s", ErrNoSource, dir, module)
	}
	file := filepath.Join(temp, "explorer.wasm")
	if _, err := goTool("build", "-trimpath", "-ldflags=-s -w", "-o", file, module+"/web/explorer/wasm"); err != nil {
		return nil, err
	}
	root, err := goTool("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	glue, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	return standalone(wasm, glue)
}

// Download fetches the source of a version of the module into the module cache, with the go tool, and returns
// its folder for Build. A program from go install makes its page this way.
func Download(ctx context.Context, version string) (dir string, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir() // outside of any module, whose replacements would apply
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var answer struct{ Dir, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Dir != "" {
		return answer.Dir, nil
	}
	if err == nil || answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return "", fmt.Errorf("%w: cannot download %s@%s: %w", ErrNoSource, module, version, err)
}

// standalone returns the page that loads nothing. wasm is the compiled folder wasm, glue the wasm_exec.js of
// the Go version that compiled it.
func standalone(wasm, glue []byte) ([]byte, error) {
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(wasm); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return page(string(glue)+"\n"+part("worker.js"), base64.StdEncoding.EncodeToString(z.Bytes()), "")
}

// part returns a file of the page.
func part(name string) string {
	b, err := folder.ReadFile("page/" + name)
	if err != nil {
		panic("explorer: " + err.Error()) // it is embedded, so only a bug gets here
	}
	return string(b)
}

// page joins the parts into one file. worker is the script that answers the page, with the program wasm or, if
// connect allows requests, without. The file loads nothing else, and its content security policy says so.
func page(worker, wasm, connect string) ([]byte, error) {
	style, app := figure.Page+part("style.css"), part("app.js")
	for _, s := range []string{worker, app} {
		if strings.Contains(strings.ToLower(s), "</script") {
			return nil, errors.New("a script holds the end of a script")
		}
	}
	page := part("index.html")
	for mark, text := range map[string]string{"{{policy}}": policy(style, app, connect), "{{style}}": style,
		"{{app}}": app, "{{worker}}": worker, "{{wasm}}": wasm} {
		if strings.Count(page, mark) != 1 {
			return nil, fmt.Errorf("index.html must have one %s", mark)
		}
		page = strings.Replace(page, mark, text, 1)
	}
	return []byte(page), nil
}

// policy is the content security policy of the page: its own style and script by their hashes, a worker made
// from text in the page, WebAssembly, and nothing from elsewhere except what connect allows.
func policy(style, script, connect string) string {
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(h[:]) + "'"
	}
	return "default-src 'none'; style-src " + sum(style) + "; script-src " + sum(script) +
		" 'wasm-unsafe-eval' blob:; worker-src blob:;" + connect + " img-src data:; base-uri 'none'; form-action 'none'"
}
