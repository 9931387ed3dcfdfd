package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/serving"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// servedModel is a small regression of y on a and b; other seeds predict otherwise.
func servedModel(t testing.TB, seed uint64) *machine.Model {
	t.Helper()
	var table bytes.Buffer
	table.WriteString("a,b,y\n")
	for i := range 60 {
		fmt.Fprintf(&table, "%d.5,%d,%d\n", i%7, i%11, i*int(seed)%13)
	}
	src, err := text.OpenBytes("rows.csv", table.Bytes(), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: data.Regression})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := machine.NewRidge(machine.Setup{Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{},
		Family:   family.Trig{},
		Coupling: coupling.Orthogonal{}, Dim: 2, M: 64, Seed: seed}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddRows(rows); err != nil {
		t.Fatal(err)
	}
	m, err := r.Model(1)
	if err != nil {
		t.Fatal(err)
	}
	m.Schema = schema
	return m
}

func servedFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.rf")
	if err := servedModel(t, 1).Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// startServer runs serve in this process on a free port.
func startServer(t *testing.T, args ...string) (at serving.Serving, stop func() outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- runChecked(ctx, append([]string{"serve", "--addr", "127.0.0.1:0", "--json"}, args...),
			strings.NewReader(""), in, &stderr)
		in.Close()
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		cancel()
		t.Fatalf("serve %v: exit %d\n%s", args, <-done, stderr.String())
	}
	if err := json.Unmarshal(line, &at); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() outcome {
		if stopped {
			return outcome{}
		}
		stopped = true
		cancel()
		code := <-done
		return outcome{code: code, stderr: stderr.String()}
	}
	t.Cleanup(func() { stop() })
	return at, stop
}

const servedRow = `{"rows":[{"a":1,"b":2}]}`

func predictAt(client *http.Client, url, token string) (status int, body string, err error) {
	r, err := http.NewRequest(http.MethodPost, url+"v1/predict", strings.NewReader(servedRow))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(b), err
}

func TestServe(t *testing.T) {
	t.Setenv(serving.TokenVariable, "")
	at, stop := startServer(t, servedFile(t), "--log-format", "json")
	client := &http.Client{}
	defer client.CloseIdleConnections()
	status, body, err := predictAt(client, at.URL, "")
	if err != nil || status != 200 || !strings.Contains(body, at.SHA256) || !strings.Contains(body, `"prediction":`) {
		t.Errorf("%d %s %v", status, body, err)
	}
	// The port is taken now.
	fails(t, exitFailed, "another program listens on "+at.Address, "serve", servedFile(t), "--addr", at.Address)
	o := stop()
	if o.code != exitDone {
		t.Errorf("exit %d", o.code)
	}
	for line := range strings.Lines(o.stderr) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log is not JSON: %s", line)
		}
	}
	if !strings.Contains(o.stderr, `"listening"`) || !strings.Contains(o.stderr, `"stopped"`) {
		t.Errorf("the log:\n%s", o.stderr)
	}
}

func TestServeMisuse(t *testing.T) {
	t.Setenv(serving.TokenVariable, "")
	path := servedFile(t)
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		fails(t, exitMisuse, "--public-without-token", "serve", path, "--addr", address)
	}
	fails(t, exitMisuse, "host:port", "serve", path, "--addr", "8080")
	fails(t, exitMisuse, "go together", "serve", path, "--tls-cert", "x")
	fails(t, exitMisuse, "--log-level", "serve", path, "--log-level", "loud")
	fails(t, exitMisuse, "--log-format", "serve", path, "--log-format", "xml")
	fails(t, exitMisuse, "--max-rows", "serve", path, "--max-rows", "0")
	fails(t, exitMisuse, "--max-memory", "serve", path, "--max-memory", "1")
	fails(t, exitFailed, "empty", "serve", path, "--token-file", empty)
	fails(t, exitFailed, "token", "serve", path, "--token-file", empty+"x")
	fails(t, exitFailed, "does not exist", "serve", path+"x")
	fails(t, exitFailed, "directory", "serve", filepath.Dir(path))
	fails(t, exitFailed, "not a model file", "serve", empty)
	fails(t, exitFailed, "certificate", "serve", path, "--tls-cert", path, "--tls-key", path)
	fails(t, exitMisuse, "no arguments, want a model", "serve")
}

// The token is that of the file, then of the environment; with TLS it travels encrypted.
func TestServeTokenAndTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		"token":    []byte("of the file\n"),
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(files["cert.pem"])
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	modern := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true}}
	defer modern.CloseIdleConnections()
	t.Setenv(serving.TokenVariable, "of the environment")
	tls := []string{"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem")}
	for token, args := range map[string][]string{
		"of the file":        append([]string{"--token-file", filepath.Join(dir, "token")}, tls...),
		"of the environment": tls,
	} {
		at, stop := startServer(t, append(args, servedFile(t))...)
		connections := 0
		if !strings.HasPrefix(at.URL, "https://") {
			t.Errorf("URL %s", at.URL)
		}
		for sent, want := range map[string]int{token: 200, "another": 401, "": 401} {
			if status, body, err := predictAt(client, at.URL, sent); err != nil || status != want {
				t.Errorf("token %q for %q: %d %s %v", sent, token, status, body, err)
			}
		}
		// HTTP/2 has the same answers, and one that is too large does not end the connection.
		for _, c := range []struct {
			body   string
			status int
		}{{servedRow, 200}, {strings.Repeat(" ", 9<<20), 413}, {servedRow, 200}} {
			r, err := http.NewRequest(http.MethodPost, at.URL+"v1/predict", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			reused := false
			r = r.WithContext(httptrace.WithClientTrace(r.Context(),
				&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}))
			reply, err := modern.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if reply.StatusCode != c.status || reply.ProtoMajor != 2 || reused == (connections == 0) {
				t.Errorf("HTTP/2: %s, %d, reused %v", reply.Proto, reply.StatusCode, reused)
			}
			connections++
			io.Copy(io.Discard, reply.Body)
			reply.Body.Close()
		}
		if o := stop(); o.code != exitDone || strings.Contains(o.stderr, token) {
			t.Errorf("exit %d\n%s", o.code, o.stderr)
		}
	}
}
