package search_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/search"
)

func Example() {
	weights, remove := tiny.Temporary("bert") // a random model; yours may be all-MiniLM-L6-v2
	defer remove()
	m, err := models.Open(weights, models.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	notes, err := os.MkdirTemp("", "notes")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(notes)
	texts := map[string]string{"a.txt": "renew the certificate every year", "b.txt": "water the plants"}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(notes, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	index, err := search.Update(ctx, m, notes, nil, func(done, of int) {})
	if err != nil {
		fmt.Println(err)
		return
	}
	hits, err := index.Find(ctx, m, notes, "water the plants", 1)
	fmt.Println(hits[0].File, hits[0].Text, err)
	// Output: b.txt water the plants <nil>
}
