package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/serve"
)

// A server is an http.Handler: here it answers one request for the prediction of two rows.
func Example() {
	csv := "x,y\n"
	for i := range 50 {
		csv += fmt.Sprintf("%d,%d\n", i, 2*i)
	}
	src, err := text.OpenBytes("lines.csv", []byte(csv), data.Options{})
	if err != nil {
		panic(err)
	}
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		panic(err)
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		panic(err)
	}
	ridge, err := machine.NewRidge(machine.Setup{Outputs: 1,
		Spec: randfeat.Spec{Family: family.Trig{}, Dim: 1, M: 64, Seed: 1}})
	if err != nil {
		panic(err)
	}
	if err := rows.Each(100, ridge.Add); err != nil {
		panic(err)
	}
	m, err := ridge.Model(1e-3)
	if err != nil {
		panic(err)
	}
	m.Schema = schema
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "lines.rf")
	if err := m.Save(path); err != nil {
		panic(err)
	}
	s, err := serve.New(path, serve.Options{})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/predict", strings.NewReader("x\n10\n20\n"))
	r.Header.Set("Content-Type", "text/csv")
	s.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	var a, b float64
	fmt.Sscanf(string(body), "prediction\n%f\n%f", &a, &b)
	fmt.Printf("%d %.0f %.0f\n", w.Code, a, b)
	// Output: 200 20 40
}
