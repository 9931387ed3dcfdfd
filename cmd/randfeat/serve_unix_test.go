//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/serving"
)

// TestServeChild is not a test by itself: it is a process that the tests below signal and kill.
func TestServeChild(t *testing.T) {
	switch path := os.Getenv("RANDFEAT_SERVE_CHILD_MODEL"); os.Getenv("RANDFEAT_SERVE_CHILD") {
	case "serve":
		args := []string{"serve", path, "--addr", "127.0.0.1:0", "--json"}
		if token := os.Getenv("RANDFEAT_SERVE_CHILD_TOKEN"); token != "" {
			args = append(args, "--token-file", token)
		}
		os.Exit(runChecked(context.Background(), args, strings.NewReader(""), os.Stdout, os.Stderr))
	case "replace": // the model file, again and again, until killed
		models := [2]interface{ Save(string) error }{servedModel(t, 1), servedModel(t, 2)}
		for i := 0; ; i++ {
			if err := models[i%2].Save(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func serveChild(t *testing.T, what, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeChild$")
	cmd.Env = append(os.Environ(), "RANDFEAT_SERVE_CHILD="+what, "RANDFEAT_SERVE_CHILD_MODEL="+path,
		serving.TokenVariable+"=")
	return cmd
}

// A process that replaces the model file is killed at any moment while the server reloads on SIGHUP: every request is
// answered by one of the two models, with its value, and SIGTERM ends the server in order.
func TestServeReloadsWhileWriterIsKilled(t *testing.T) {
	t.Setenv(serving.TokenVariable, "")
	path := servedFile(t)
	want := map[string]bool{}
	for seed := range uint64(2) { // the answers of each model
		file := filepath.Join(t.TempDir(), "model.rf")
		if err := servedModel(t, seed+1).Save(file); err != nil {
			t.Fatal(err)
		}
		at, stop := startServer(t, file)
		_, body, err := predictAt(http.DefaultClient, at.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		want[body] = false
		stop()
	}
	if len(want) != 2 {
		t.Fatal("the models are alike")
	}
	server := serveChild(t, "serve", path)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at serving.Serving
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	if err != nil {
		server.Process.Kill()
		server.Wait()
		t.Fatalf("%v\n%s", err, log.String())
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var mu sync.Mutex
	// Two seconds, or as long as it takes both models to answer: on a busy machine a writer is slow to begin.
	start := time.Now()
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		all := true
		for _, seen := range want {
			all = all && seen
		}
		return time.Since(start) > 2*time.Second && (all || time.Since(start) > 2*time.Minute)
	}
	for range 4 {
		wg.Go(func() {
			for !enough() {
				status, body, err := predictAt(client, at.URL, "")
				mu.Lock()
				if _, ok := want[body]; err != nil || status != 200 || !ok {
					t.Errorf("%d %s %v", status, body, err)
				}
				want[body] = true
				mu.Unlock()
			}
		})
	}
	kills := 0
	for !enough() {
		writer := serveChild(t, "replace", path)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			time.Sleep(time.Duration(3+(7*kills+i)%5+kills/4) * time.Millisecond)
			if err := server.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		writer.Wait()
		kills++
	}
	wg.Wait()
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out)
	if err := server.Wait(); err != nil {
		t.Errorf("the server: %v\n%s", err, log.String())
	}
	for body, seen := range want {
		if !seen {
			t.Errorf("no answer %s", body)
		}
	}
	if strings.Contains(log.String(), "reload failed") || !strings.Contains(log.String(), "reloaded") {
		t.Errorf("reloads:\n%s", log.String())
	}
	t.Logf("%d writers killed", kills)
}

// A reload that waits for a file, here a token file that has become a FIFO, does not keep the server from stopping.
func TestServeStopsWhileAReloadBlocks(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serveChild(t, "serve", servedFile(t))
	server.Env = append(server.Env, "RANDFEAT_SERVE_CHILD_TOKEN="+token)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { server.Process.Kill() }).Stop() // it hangs
	if _, err := bufio.NewReader(out).ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(token), syscall.Mkfifo(token, 0o600),
		server.Process.Signal(syscall.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	// Opening the FIFO for writing works once the server has opened it for reading.
	var fifo *os.File
	for range 1000 {
		if fifo, err = os.OpenFile(token, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		server.Process.Kill()
		t.Fatal(err)
	}
	defer fifo.Close()
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out)
	if err := server.Wait(); err != nil || !strings.Contains(log.String(), "a reload is still under way") {
		t.Errorf("the server: %v\n%s", err, log.String())
	}
}
