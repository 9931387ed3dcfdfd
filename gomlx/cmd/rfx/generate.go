package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/models"
	"github.com/randfeat/randfeat/gomlx/text"
	"github.com/randfeat/randfeat/gomlx/train"
)

func generate(args []string) error {
	flags := flag.NewFlagSet("rfx generate", flag.ContinueOnError)
	name := flags.String("backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	run := flags.String("run", "", "folder of a trained decoder")
	prompt := flags.String("prompt", "\n", "text to continue")
	n := flags.Int("n", 100, "tokens to write")
	temperature := flags.Float64("temperature", 0.8, "of sampling; 0: the likeliest token")
	seed := flags.Uint64("seed", 1, "of sampling")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *run == "" {
		return fmt.Errorf("name the folder of a trained decoder: -run DIR")
	}
	if *n < 0 || *temperature < 0 {
		return fmt.Errorf("-n %d, -temperature %g", *n, *temperature)
	}
	b, line, err := backend.Open(*name)
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	file := filepath.Join(*run, train.CheckpointFile)
	store, h, err := train.Load(file)
	if err != nil {
		return err
	}
	defer store.Finalize()
	var v text.Vocabulary
	if err := json.Unmarshal([]byte(h.Extra["vocabulary"]), &v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var m models.Config
	if err := json.Unmarshal(h.Model, &m); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if v.Size() != m.Vocab {
		return fmt.Errorf("%s: %d tokens in its vocabulary, %d in its model", file, v.Size(), m.Vocab)
	}
	choose := models.Greedy
	if *temperature > 0 {
		choose = models.Sample(*temperature, *seed)
	}
	tokens, err := m.Generate(b, store, v.Encode(*prompt), *n, choose)
	if err != nil {
		return err
	}
	out, err := v.Decode(tokens)
	if err != nil {
		return err
	}
	fmt.Println(*prompt + out)
	return nil
}
