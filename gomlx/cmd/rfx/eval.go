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
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

func eval(args []string) error {
	var d backend.Flags
	var text, lengths, pairs string
	var passages int
	var asJSON, brief bool
	flags := flag.NewFlagSet("rfx eval", flag.ContinueOnError)
	d.Set(flags)
	flags.StringVar(&text, "text", "", "text file that no model was fitted to")
	flags.StringVar(&pairs, "pairs", "", "for encoders: file with two texts and optionally a score per line, separated by tabs")
	flags.StringVar(&lengths, "lengths", "128,256", "tokens per passage; texts of -pairs are cut to the first length")
	flags.IntVar(&passages, "passages", 16, "largest number of passages per length")
	flags.BoolVar(&brief, "brief", false, "skip the errors of attention and logits: less than half the time to compile")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	dirs, err := similar.Arguments(flags, args)
	if err != nil {
		return err
	}
	if len(dirs) < 2 || text == "" && pairs == "" {
		return fmt.Errorf("usage: rfx eval MODEL_DIR CONVERTED_DIR… -text FILE or -pairs FILE (-h lists the flags)")
	}
	models := make([]*pretrained.Model, len(dirs))
	for i, dir := range dirs {
		if models[i], err = pretrained.Load(dir); err != nil {
			return err
		}
	}
	b, line, err := d.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	var all []int
	for _, s := range strings.Split(lengths, ",") {
		length, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-lengths: %q is not a length", s)
		}
		all = append(all, length)
	}
	for i := 1; i < len(models) && pairs != ""; i++ {
		if len(models) > 2 && !asJSON {
			fmt.Println(dirs[i])
		}
		if err := evalPairs(b, [2]*pretrained.Model{models[0], models[i]}, pairs, all[0], asJSON); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	ids := make([][][]int32, len(all)) // check all lengths before computing anything
	for i, length := range all {
		if ids[i], err = readPassages(models[0], text, length, passages); err != nil {
			return err
		}
	}
	for i, length := range all {
		judge, err := pretrained.NewJudge(b, models[0], ids[i])
		if err != nil {
			return fmt.Errorf("%d tokens: %w", length, err)
		}
		for j, second := range models[1:] {
			c, err := judge.Compare(second, !brief)
			if err != nil {
				return fmt.Errorf("%s, %d tokens: %w", dirs[j+1], length, err)
			}
			if asJSON {
				if err := json.NewEncoder(os.Stdout).Encode(struct {
					Model string `json:"model"`
					pretrained.Comparison
				}{dirs[j+1], c}); err != nil {
					return err
				}
				continue
			}
			name := ""
			if len(models) > 2 {
				name = "  " + dirs[j+1]
			}
			printComparison(c, models[0].Causal(), i == 0 && j == 0, name)
		}
	}
	return nil
}

// printComparison prints a row, with a header before the first.
func printComparison(c pretrained.Comparison, causal, first bool, name string) {
	measured := func(x float64) string {
		if x == 0 {
			return "–"
		}
		return fmt.Sprintf("%.3f", x)
	}
	if causal {
		if first {
			fmt.Println("tokens  passages  perplexity       ratio (95 %)         logits  attention    ms per passage      cache kB")
		}
		fmt.Printf("%6d  %8d  %7.2f %7.2f  %5.3f (%5.3f–%5.3f)  %6s     %6s  %8.1f %8.1f  %8d %6d%s\n", c.Length,
			c.Passages, c.Perplexity[0], c.Perplexity[1], c.Perplexity[1]/c.Perplexity[0], c.RatioInterval[0],
			c.RatioInterval[1], measured(c.Logits), measured(c.Attention), c.Ms[0], c.Ms[1],
			c.Cache[0]/1000, c.Cache[1]/1000, name)
		return
	}
	if first {
		fmt.Println("tokens  passages  cosine (95 %)             worst  rank agreement (95 %)  attention    ms per passage")
	}
	fmt.Printf("%6d  %8d  %6.4f (%6.4f–%6.4f)  %6.4f    %5.3f (%5.3f–%5.3f)     %6s  %8.1f %8.1f%s\n", c.Length,
		c.Passages, c.Cosine, c.CosineInterval[0], c.CosineInterval[1], c.CosineWorst, c.Rank,
		c.RankInterval[0], c.RankInterval[1], measured(c.Attention), c.Ms[0], c.Ms[1], name)
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
