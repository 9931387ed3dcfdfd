// Embedded is one static binary with a model in it that answers a search: nothing is installed, read or downloaded.
//
//	go run . "a question"
//
// The folder model/ holds a tiny random model, so that this program builds anywhere; it knows nothing. For answers, put
// the files of all-MiniLM-L6-v2 there: config.json, tokenizer.json, model.safetensors, modules.json and
// 1_Pooling/config.json.
package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/models"
)

//go:embed model
var files embed.FS

//go:embed passages.txt
var passages string

func main() {
	query := strings.Join(os.Args[1:], " ")
	if query == "" {
		query = "how do I renew the certificate?"
	}
	if err := run(context.Background(), query); err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, query string) error {
	m, err := models.OpenFS(files, "model", models.Options{}) // a GGUF file in a []byte: models.OpenBytes
	if err != nil {
		return err
	}
	defer m.Close()
	texts := strings.Split(strings.TrimSpace(passages), "\n")
	x, err := m.Encoder.For("document").Embed(ctx, texts)
	if err != nil {
		return err
	}
	q, err := m.Encoder.For("query").Embed(ctx, []string{query})
	if err != nil {
		return err
	}
	type hit struct {
		score float64
		text  string
	}
	var hits []hit
	for i, text := range texts {
		var dot float64 // embeddings have length 1
		for j, v := range q.Row(0) {
			dot += float64(v) * float64(x.At(i, j))
		}
		hits = append(hits, hit{dot, text})
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	for _, h := range hits[:3] {
		fmt.Printf("%.3f  %s\n", h.score, h.text)
	}
	return nil
}
