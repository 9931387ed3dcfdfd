package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/repro/training/lab"
)

func laboratory(args []string) error {
	flags := flag.NewFlagSet("training lab", flag.ContinueOnError)
	var d backend.Flags
	d.Set(flags)
	dir := flags.String("data-dir", os.Getenv("RANDFEAT_DATA"), "folder of the data sets")
	quick := flags.Bool("quick", false, "tiny sizes, to check that everything runs; the numbers mean nothing")
	small := flags.Bool("small", false, "smaller models and fewer steps, for the Go backend")
	limit := flags.Duration("limit", 0, "start no run after this time; 0: no limit")
	seeds := flags.Int("seeds", 0, "number of seeds; 0: 3")
	first := flags.Uint64("first", 0, "start after this seed, to add seeds to an earlier run")
	only := flags.String("only", "", "methods to run, such as performer,dark (default: all)")
	sets := flags.String("sets", "", "sets of glue, such as SST2,RTE (default: all)")
	parts := flags.String("parts", "", "parts of darkformer and language (full, partial, M only, sweep) or of words (train, curves) (default: all)")
	steps := flags.Int("steps", 0, "steps of each fine-tuning of darkformer, or of each run of the others; 0: chosen")
	out := flags.String("out", "", "folder for the keys, queries and counts of words, such as $RANDFEAT_DATA/lstm")
	dirModel := flags.String("model", "", "folder of the model that the part encoder or language fine-tunes")
	parallel := flags.Bool("parallel", false, "compile and run graphs at the same time")
	usage := "usage: training lab [flags] darkformer | pretrain | mnist | fashion_mnist | speed | glue | encoder | language | " +
		"speech | words SET, or training lab table ROWS.jsonl"
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	if flags.NArg() == 2 && flags.Arg(0) == "table" {
		f, err := os.Open(flags.Arg(1))
		if err != nil {
			return err
		}
		defer f.Close()
		return lab.Tables(os.Stdout, f)
	}
	if words := flags.NArg() == 2 && flags.Arg(0) == "words"; flags.NArg() != 1 && !words {
		return fmt.Errorf("%s", usage)
	}
	b, line, err := d.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	l := &lab.Lab{Backend: b, Data: *dir, Out: os.Stdout, Log: os.Stderr, Seeds: *seeds,
		Parallel: *parallel, Steps: *steps, First: *first}
	if *only != "" {
		l.Only = strings.Split(*only, ",")
	}
	if *sets != "" {
		l.Sets = strings.Split(*sets, ",")
	}
	if *parts != "" {
		l.Parts = strings.Split(*parts, ",")
	}
	if *small {
		l.Size = lab.Small
	}
	if *quick {
		l.Size = lab.Quick
	}
	if *limit > 0 {
		l.Until = time.Now().Add(*limit)
	}
	switch flags.Arg(0) {
	case "darkformer":
		return l.DarkFormer()
	case "mnist", "fashion_mnist":
		return l.ViT(flags.Arg(0))
	case "speed":
		return l.Speed("mnist")
	case "glue":
		return l.GLUE()
	case "encoder", "language":
		if *dirModel == "" {
			return fmt.Errorf("training lab %s: -model names the folder of an encoder or a decoder, such as MiniLM or SmolLM2",
				flags.Arg(0))
		}
		if flags.Arg(0) == "encoder" {
			return l.Encoder(*dirModel)
		}
		return l.Language(*dirModel)
	case "speech":
		return l.Speech()
	case "pretrain":
		return l.Pretrain()
	case "words":
		set := "ptb"
		if flags.NArg() == 2 {
			set = flags.Arg(1)
		}
		return l.Words(set, *out)
	}
	return fmt.Errorf("%s", usage)
}
