package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/layer"
	"github.com/randfeat/randfeat/gomlx/pretrained"
)

func generate(args []string) error {
	flags := flag.NewFlagSet("rfx generate", flag.ContinueOnError)
	var d backend.Flags
	d.Set(flags)
	prompt := flags.String("prompt", "\n", "text to continue")
	n := flags.Int("n", 100, "tokens to generate")
	temperature := flags.Float64("temperature", 0.8, "temperature of sampling; 0 takes the most probable token")
	seed := flags.Uint64("seed", 1, "seed of sampling")
	dir, err := oneFolder(flags, args, "rfx generate MODEL_DIR")
	if err != nil {
		return err
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
	out, err := write(b, dir, *prompt, *n, choose)
	if err != nil {
		return err
	}
	fmt.Println(*prompt + out)
	return nil
}

// write continues a prompt with the decoder of a folder, converted or not.
func write(b compute.Backend, dir, prompt string, n int, choose func([]float32) int32) (string, error) {
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
