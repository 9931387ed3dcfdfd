package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/pretrained"
)

func eval(args []string) error {
	var backendName, text, lengths, pairs string
	var passages int
	var asJSON bool
	flags := flag.NewFlagSet("rfx eval", flag.ContinueOnError)
	flags.StringVar(&backendName, "backend", "", "go, xla:cuda, xla:cpu; empty: the fastest found")
	flags.StringVar(&text, "text", "", "text that neither model was fitted to")
	flags.StringVar(&pairs, "pairs", "", "for encoders: lines of two texts and, if there is one, a score, between tabs")
	flags.StringVar(&lengths, "lengths", "128,256", "tokens of a passage; of a text of -pairs at most the first")
	flags.IntVar(&passages, "passages", 16, "passages per length at most")
	flags.BoolVar(&asJSON, "json", false, "for machines")
	dirs, err := arguments(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) != 2 || text == "" && pairs == "" {
		return fmt.Errorf("usage: rfx eval MODEL_DIR CONVERTED_DIR -text FILE or -pairs FILE (-h lists the flags)")
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
	var all []int
	for _, s := range strings.Split(lengths, ",") {
		length, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-lengths: %q is no length", s)
		}
		all = append(all, length)
	}
	if pairs != "" {
		if err := evalPairs(b, both, pairs, all[0], asJSON); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	ids := make([][][]int32, len(all)) // a length too much is an error before anything is computed
	for i, length := range all {
		if ids[i], err = readPassages(both[0], text, length, passages); err != nil {
			return err
		}
	}
	for i, length := range all {
		c, err := pretrained.Compare(b, both[0], both[1], ids[i])
		if err != nil {
			return fmt.Errorf("%d tokens: %w", length, err)
		}
		switch {
		case asJSON:
			err = json.NewEncoder(os.Stdout).Encode(c)
		case both[0].Causal():
			if i == 0 {
				fmt.Println("tokens  passages  perplexity       ratio (95 %)         logits  attention    ms per passage      cache kB")
			}
			fmt.Printf("%6d  %8d  %7.2f %7.2f  %5.3f (%5.3f–%5.3f)  %6.3f     %6.3f  %8.1f %8.1f  %8d %6d\n", c.Length,
				c.Passages, c.Perplexity[0], c.Perplexity[1], c.Perplexity[1]/c.Perplexity[0], c.RatioInterval[0],
				c.RatioInterval[1], c.Logits, c.Attention, c.Ms[0], c.Ms[1], c.Cache[0]/1000, c.Cache[1]/1000)
		default:
			if i == 0 {
				fmt.Println("tokens  passages  cosine (95 %)             worst  rank agreement (95 %)  attention    ms per passage")
			}
			fmt.Printf("%6d  %8d  %6.4f (%6.4f–%6.4f)  %6.4f    %5.3f (%5.3f–%5.3f)     %6.3f  %8.1f %8.1f\n", c.Length,
				c.Passages, c.Cosine, c.CosineInterval[0], c.CosineInterval[1], c.CosineWorst, c.Rank,
				c.RankInterval[0], c.RankInterval[1], c.Attention, c.Ms[0], c.Ms[1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// evalPairs compares encoders on pairs of texts.
func evalPairs(b compute.Backend, both [2]*pretrained.Model, file string, length int, asJSON bool) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	pairs, scored, err := pretrained.ReadPairs(in)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	c, err := pretrained.ComparePairs(b, both[0], both[1], pairs, scored, length)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(c)
	}
	fmt.Printf("%d pairs, %d texts cut to %d tokens: rank agreement %.3f (%.3f–%.3f)\n", c.Pairs, c.Cut, length, c.Rank,
		c.RankInterval[0], c.RankInterval[1])
	if scored {
		fmt.Printf("with the scores: %.3f (%.3f–%.3f), converted %.3f (%.3f–%.3f), lost %.3f to %.3f\n",
			c.Score[0], c.ScoreIntervals[0][0], c.ScoreIntervals[0][1], c.Score[1], c.ScoreIntervals[1][0],
			c.ScoreIntervals[1][1], c.Lost[0], c.Lost[1])
	}
	return nil
}
