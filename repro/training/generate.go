package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/repro/training/models"
	"github.com/randfeat/randfeat/repro/training/text"
)

func generate(args []string) error {
	flags := flag.NewFlagSet("training generate", flag.ContinueOnError)
	var d backend.Flags
	d.Set(flags)
	run := flags.String("run", "", "folder of a decoder trained by training train")
	prompt := flags.String("prompt", "\n", "text to continue")
	n := flags.Int("n", 100, "tokens to generate")
	temperature := flags.Float64("temperature", 0.8, "temperature of sampling; 0 takes the most probable token")
	seed := flags.Uint64("seed", 1, "seed of sampling")
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	if *run == "" || flags.NArg() > 0 {
		return fmt.Errorf("usage: training generate -run DIR (-h lists the flags)")
	}
	if *n < 0 || !(*temperature >= 0) {
		return fmt.Errorf("-n %d, -temperature %g", *n, *temperature)
	}
	b, line, err := d.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	choose := layer.Greedy
	if *temperature > 0 {
		choose = layer.Sample(*temperature, *seed)
	}
	out, err := write(b, *run, *prompt, *n, choose)
	if err != nil {
		return err
	}
	fmt.Println(*prompt + out)
	return nil
}

// write continues a prompt with the decoder of a training run.
func write(b compute.Backend, dir, prompt string, n int, choose func([]float32) int32) (string, error) {
	file := filepath.Join(dir, train.CheckpointFile)
	store, h, err := train.Load(file)
	if err != nil {
		return "", err
	}
	defer store.Finalize()
	var v text.Vocabulary
	if err := json.Unmarshal([]byte(h.Extra["vocabulary"]), &v); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	var m models.Config
	if err := json.Unmarshal(h.Model, &m); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if v.Size() != m.Vocab {
		return "", fmt.Errorf("%s: %d tokens in its vocabulary, %d in its model", file, v.Size(), m.Vocab)
	}
	tokens, err := m.Generate(b, store, v.Encode(prompt), n, choose)
	if err != nil {
		return "", err
	}
	return v.Decode(tokens)
}
