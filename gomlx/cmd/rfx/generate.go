package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/internal/models"
	"github.com/randfeat/randfeat/gomlx/internal/text"
	"github.com/randfeat/randfeat/gomlx/internal/train"
	"github.com/randfeat/randfeat/gomlx/pretrained"
)

func generate(args []string) error {
	flags := flag.NewFlagSet("rfx generate", flag.ContinueOnError)
	var d device
	d.set(flags)
	run := flags.String("run", "", "folder of a decoder trained by rfx train, instead of a pretrained or converted model")
	prompt := flags.String("prompt", "\n", "text to continue")
	n := flags.Int("n", 100, "tokens to generate")
	temperature := flags.Float64("temperature", 0.8, "temperature of sampling; 0 takes the most probable token")
	seed := flags.Uint64("seed", 1, "seed of sampling")
	dirs, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) > 1 || (len(dirs) == 1) == (*run != "") {
		return fmt.Errorf("usage: rfx generate MODEL_DIR, or rfx generate -run DIR (-h lists the flags)")
	}
	if *n < 0 || !(*temperature >= 0) {
		return fmt.Errorf("-n %d, -temperature %g", *n, *temperature)
	}
	b, line, err := d.open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	choose := models.Greedy
	if *temperature > 0 {
		choose = models.Sample(*temperature, *seed)
	}
	write := writeTrained
	if *run == "" {
		*run, write = dirs[0], writePretrained
	}
	out, err := write(b, *run, *prompt, *n, choose)
	if err != nil {
		return err
	}
	fmt.Println(*prompt + out)
	return nil
}

// writePretrained continues a prompt with the decoder of a folder, converted or not.
func writePretrained(b compute.Backend, dir, prompt string, n int, choose func([]float32) int32) (string, error) {
	m, err := pretrained.Load(dir)
	if err != nil {
		return "", err
	}
	ids, err := m.Encode(prompt)
	if err != nil {
		return "", err
	}
	exact := *m
	exact.Attention = pretrained.Attention{}
	from := time.Now()
	w, err := m.Generate(b, ids, n, choose)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "%d tokens read, %d written in %.1f s; a state of %d kB, a cache of %d tokens would be %d kB\n",
		len(ids), len(w.Tokens), time.Since(from).Seconds(), w.StateBytes/1000, len(ids)+n,
		exact.CacheBytes(len(ids)+n)/1000)
	return m.Decode(w.Tokens)
}

// writeTrained continues a prompt with the decoder of a training run.
func writeTrained(b compute.Backend, dir, prompt string, n int, choose func([]float32) int32) (string, error) {
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
