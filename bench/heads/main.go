// Command heads measures approximate attention on the heads of real models. For an encoder (all-MiniLM-L6-v2) it
// reports the error of every head, and the change of the embedding when all heads are replaced. For a decoder
// (SmolLM2-135M) it reports the perplexity when all heads are replaced.
//
// Run it from the folder bench. DIR holds the weights and token ids:
//
//	pip install -r heads/requirements.txt
//	RANDFEAT_DATA=... python heads/weights.py DIR
//	go run ./heads -weights DIR
//
// The results go to a file of JSON lines. A later run skips the passages and methods in that file, and its tables
// include all of them.
//
// Flag -coverage checks the error intervals of choose.Choose on a corpus that it has not seen:
//
//	go run ./heads -weights DIR -coverage 0.1
//
// With -time, it checks choices by seconds on long texts, on the sampled heads:
//
//	go run ./heads -weights DIR -coverage 0.1 -time -lengths 2048,4096,8192
//
// Flag -time alone compares exact attention with the plans that choose.Choose picks on another text, in time and error:
//
//	go run ./heads -weights DIR -time -threads 1,2 [-torch PYTHON]
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

type config struct {
	weights, results, out string
	models                []string
	methods               *regexp.Regexp
	length, passages      int
	calibration, jobs     int
	coverage              float64 // tolerance of runCoverage and runSeconds; 0 means neither runs
	time                  bool
	tol                   float64 // tolerance of runTime
	lengths, threads      []int
	rounds                int
	choices               string
	torch                 string
	peak                  map[int]float64 // operations per second of the vector units, by threads
	decode                []float64       // seconds of each round of timeDecode; empty between calls
}

func (c *config) log(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func main() {
	var c config
	flag.StringVar(&c.weights, "weights", "", "folder that heads/weights.py has filled")
	flag.StringVar(&c.results, "results", "", "results file (JSON lines); empty: heads.jsonl in the -weights folder")
	flag.StringVar(&c.out, "o", "HEADS.md", "output file for the tables; figures go to its folder; empty: no report")
	models := flag.String("models", "minilm,smollm2", "comma-separated models to run")
	methods := flag.String("methods", "", "run only methods whose name matches this regular expression")
	flag.IntVar(&c.length, "L", 8192, "tokens per decoder passage")
	flag.IntVar(&c.passages, "passages", 1<<30, "largest number of test passages")
	flag.IntVar(&c.calibration, "calibration", 3, "number of passages that calibrate the decoder's centres and plans")
	flag.IntVar(&c.jobs, "jobs", 1, "decoder passages to run in parallel")
	flag.BoolVar(&c.time, "time", false, "only compare the time of exact attention and of chosen plans, with errors")
	flag.Float64Var(&c.tol, "tol", 0.1, "largest error of a head for -time")
	lengths := flag.String("lengths", "512,1024,2048,4096,8192,32768", "comma-separated numbers of tokens for -time")
	flag.IntVar(&c.rounds, "rounds", 5, "timed rounds of -time, after one warm-up round")
	flag.StringVar(&c.choices, "choices", "",
		"folder where -time stores its choices and reads them back; use one folder per -tol; empty: none")
	flag.StringVar(&c.torch, "torch", "", "Python interpreter with PyTorch; -time then times its exact attention too")
	flag.Float64Var(&c.coverage, "coverage", 0,
		"only check the error intervals of choose.Choose, with this tolerance; 0: off")
	threads := flag.String("threads", fmt.Sprint(runtime.GOMAXPROCS(0)),
		"number of threads; -time without -coverage runs each of a comma-separated list")
	flag.Parse()
	c.models = strings.Split(*models, ",")
	if c.results == "" {
		c.results = filepath.Join(c.weights, "heads.jsonl")
	}
	var err error
	if c.methods, err = regexp.Compile(*methods); err == nil {
		c.lengths, err = numbers(*lengths)
	}
	if err == nil {
		c.threads, err = numbers(*threads)
	}
	if err == nil {
		runtime.GOMAXPROCS(c.threads[0])
		err = run(&c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "heads:", err)
		os.Exit(1)
	}
}

func run(c *config) error {
	switch {
	case c.time && c.coverage > 0:
		return runSeconds(c)
	case c.time:
		return runTime(c)
	}
	if c.coverage > 0 {
		return runCoverage(c)
	}
	res, err := openResults(c.results)
	if err != nil {
		return err
	}
	if slices.Contains(c.models, "minilm") {
		if err := runEncoder(c, res); err != nil {
			return err
		}
	}
	if slices.Contains(c.models, "smollm2") {
		if err := runDecoder(c, res); err != nil {
			return err
		}
	}
	if c.out == "" {
		return nil
	}
	return report(c, res)
}

// quantile returns the p-quantile of x with linear interpolation, or NaN if x is empty.
func quantile(x []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if len(s) == 0 {
		return math.NaN()
	}
	at := p * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}
