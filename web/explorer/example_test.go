package explorer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/randfeat/randfeat/web/explorer"
)

// The explorer is a handler, so a program can offer it beside its own pages.
func ExampleHandler() {
	h, err := explorer.Handler()
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()

	answer, err := http.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}
