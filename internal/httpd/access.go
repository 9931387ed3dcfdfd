package httpd

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/randfeat/randfeat/internal/localfile"
)

// Token is the hash of a token that requests must carry.
type Token [sha256.Size]byte

// NewToken returns the hash of a token.
func NewToken(token string) Token { return sha256.Sum256([]byte(token)) }

// Sent reports whether a request carries the token, as "Authorization: Bearer <token>" or as the password of basic
// authentication, which browsers ask for. Hashes have equal length, so comparing them leaks nothing about the token.
func (t Token) Sent(r *http.Request) bool {
	token := ""
	if scheme, rest, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(rest)
	} else if _, password, ok := r.BasicAuth(); ok {
		token = password
	}
	sum := NewToken(token)
	return subtle.ConstantTimeCompare(sum[:], t[:]) == 1
}

// ReadToken returns the token of a file, or of an environment variable if path is empty; "" if there is none. A token
// on the command line would be visible to other users of the machine.
func ReadToken(path, variable string) (string, error) {
	if path == "" {
		return strings.TrimSpace(os.Getenv(variable)), nil
	}
	b, err := localfile.Read(path, localfile.Format{Want: "a file with a token", Max: 1 << 16, Pipes: true})
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" {
		return "", fmt.Errorf("the token file %s is empty", path)
	}
	return t, nil
}

// LoopbackHost reports whether the Host header of a request names this machine.
func LoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// ErrAddress means that an address is not host:port.
var ErrAddress = errors.New("want host:port, such as 127.0.0.1:8080")

// OnLoopback reports whether only this machine can reach an address. A host name counts only if all of its addresses
// are loopback.
func OnLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q: %w: %w", address, ErrAddress, err)
	}
	if host == "" {
		return false, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback(), nil
	}
	found, err := net.LookupHost(host)
	if err != nil {
		return false, fmt.Errorf("cannot find the address of %s: %w", host, err)
	}
	for _, h := range found {
		if a, err := netip.ParseAddr(h); err != nil || !a.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return len(found) > 0, nil
}

// Listen listens on an address. Its errors say what to do.
func Listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s: choose another address, or port 0 for a free port: %w",
			address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return ln, nil
}
