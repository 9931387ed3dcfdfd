package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/pretrained"
)

func eval(args []string) error {
	var backendName, text, lengths string
	var passages int
	var asJSON bool
	flags := flag.NewFlagSet("rfx eval", flag.ContinueOnError)
	flags.StringVar(&backendName, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar(&text, "text", "", "text that neither model was fitted to; required")
	flags.StringVar(&lengths, "lengths", "128,256", "tokens of a passage")
	flags.IntVar(&passages, "passages", 16, "passages per length at most")
	flags.BoolVar(&asJSON, "json", false, "for machines")
	dirs, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) != 2 || text == "" {
		return fmt.Errorf("usage: rfx eval MODEL_DIR CONVERTED_DIR -text FILE (-h lists the flags)")
	}
	var both [2]*pretrained.Model
	for i, dir := range dirs {
		if both[i], err = pretrained.Load(dir); err != nil {
			return err
		}
	}
	b, line, err := backend.Open(backendName)
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	for i, s := range strings.Split(lengths, ",") {
		length, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-lengths: %q is no length", s)
		}
		ids, err := readPassages(both[0], text, length, passages)
		if err != nil {
			return err
		}
		c, err := pretrained.Compare(b, both[0], both[1], ids)
		if err != nil {
			return fmt.Errorf("%d tokens: %w", length, err)
		}
		switch {
		case asJSON:
			err = json.NewEncoder(os.Stdout).Encode(c)
		case both[0].Causal():
			if i == 0 {
				fmt.Println("tokens  passages  perplexity       ratio (95 %)         logits      ms per passage      cache kB")
			}
			fmt.Printf("%6d  %8d  %7.2f %7.2f  %5.3f (%5.3f–%5.3f)  %6.3f  %8.1f %8.1f  %8d %6d\n", c.Length,
				c.Passages, c.Perplexity[0], c.Perplexity[1], c.Perplexity[1]/c.Perplexity[0], c.RatioInterval[0],
				c.RatioInterval[1], c.Logits, c.Ms[0], c.Ms[1], c.Cache[0]/1000, c.Cache[1]/1000)
		default:
			if i == 0 {
				fmt.Println("tokens  passages  cosine (95 %)             worst  rank agreement (95 %)    ms per passage")
			}
			fmt.Printf("%6d  %8d  %6.4f (%6.4f–%6.4f)  %6.4f    %5.3f (%5.3f–%5.3f)  %8.1f %8.1f\n", c.Length,
				c.Passages, c.Cosine, c.CosineInterval[0], c.CosineInterval[1], c.CosineWorst, c.Rank,
				c.RankInterval[0], c.RankInterval[1], c.Ms[0], c.Ms[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
