package serve_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/serve"
)

// A Server is an http.Handler.
func Example() {
	folder, remove := tiny.Temporary("bert") // a random model
	defer remove()
	m, err := models.Open(folder, models.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	s := httptest.NewServer(serve.New(m, serve.Options{Name: "tiny"}))
	defer s.Close()
	answer, err := http.Post(s.URL+"/v1/embeddings", "application/json", strings.NewReader(`{"input": ["a text"]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 200 OK
}
