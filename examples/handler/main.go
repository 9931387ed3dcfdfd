// Command handler predicts inside of an HTTP server of your own: it loads a model file, takes one row as JSON and
// answers with predictions. For a complete server use package machine/serve.
//
//	handler MODEL [ADDRESS]
//
// Without arguments it fits a small model, sends itself two requests and ends.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// predict answers a JSON object of columns with a JSON object of predictions.
func predict(p *machine.TablePredictor) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var row map[string]any
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&row); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := p.PredictRow(row)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(out); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return demo()
	}
	file, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	m, err := machine.Read(file)
	if err != nil {
		return err
	}
	p, err := machine.NewTablePredictor(m, machine.TableOptions{NoIDs: true})
	if err != nil {
		return err
	}
	address := "localhost:8080"
	if len(args) > 1 {
		address = args[1]
	}
	http.HandleFunc("POST /predict", predict(p))
	return http.ListenAndServe(address, nil)
}

// demo fits prices of rooms by their size and garden, and asks for two: one complete, one with a missing value.
func demo() error {
	var b strings.Builder
	b.WriteString("size,garden,price\n")
	for i := range 200 {
		size, garden := 20+float64(i%50), i%3 == 0
		price := 10*math.Sqrt(size) + map[bool]float64{true: 15}[garden]
		fmt.Fprintf(&b, "%g,%v,%.2f\n", size, garden, price+math.Sin(float64(i*i)))
	}
	src, err := text.OpenBytes("rooms.csv", []byte(b.String()), data.Options{})
	if err != nil {
		return err
	}
	m, _, err := tabular.Fit(context.Background(), src, tabular.Options{
		Learn: data.LearnOptions{Targets: []string{"price"}}, Map: "exact", Seed: 1})
	if err != nil {
		return err
	}
	p, err := machine.NewTablePredictor(m, machine.TableOptions{Interval: 0.9})
	if err != nil {
		return err
	}
	server := httptest.NewServer(predict(p))
	defer server.Close()
	for _, body := range []string{`{"size": 36, "garden": true}`, `{"size": 36}`} {
		r, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		var answer bytes.Buffer
		if _, err := answer.ReadFrom(r.Body); err != nil {
			return err
		}
		r.Body.Close()
		fmt.Printf("%s: %d %s", body, r.StatusCode, answer.String())
	}
	return nil
}
