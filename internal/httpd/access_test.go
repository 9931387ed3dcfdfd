package httpd

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	token := NewToken("secret")
	for header, want := range map[string]bool{"": false, "secret": false, "Bearer secret": true,
		"bearer  secret ": true,
		"Bearer secre":    false, "Bearer ": false, "Basic eDpzZWNyZXQ=": true, "Basic eDpubw==": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if token.Sent(r) != want {
			t.Errorf("%q: %v", header, !want)
		}
	}
	const variable = "HTTPD_TEST_TOKEN"
	t.Setenv(variable, " of the environment\n")
	if got, err := ReadToken("", variable); got != "of the environment" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"x\n": "x", " \n": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadToken(path, variable); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9:80": true, "[::1]:80": true, "[::1]": true,
		"LOCALHOST:1": true, "::ffff:127.0.0.1": true, "example.com": false, "127.0.0.1.example.com": false,
		"10.0.0.1": false, "": false} {
		if LoopbackHost(host) != want {
			t.Errorf("host %q: %v", host, !want)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, "[::ffff:127.0.0.1]:0": true,
		":0": false, "0.0.0.0:0": false, "10.0.0.1:0": false} {
		if got, err := OnLoopback(address); got != want || err != nil {
			t.Errorf("address %q: %v %v", address, got, err)
		}
	}
	if _, err := OnLoopback("127.0.0.1"); !errors.Is(err, ErrAddress) {
		t.Errorf("an address without a port: %v", err)
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "another program listens") {
		t.Errorf("an address in use: %v", err)
	}
}
