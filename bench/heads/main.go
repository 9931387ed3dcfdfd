// Command heads measures attention on the heads of real models: the errors of every head and of the embeddings of an
// encoder (all-MiniLM-L6-v2), and the perplexity of a decoder (SmolLM2-135M), with all heads replaced.
//
// From the folder bench, with weights and token ids in a folder of their own:
//
//	pip install -r heads/requirements.txt
//	RANDFEAT_DATA=... python heads/weights.py DIR
//	go run ./heads -weights DIR
//
// How often the errors hold that choose.Choose expects, on another corpus than it has seen:
//
//	go run ./heads -weights DIR -coverage 0.1
//
// The same of choices by seconds, on long texts, with the heads that -time uses:
//
//	go run ./heads -weights DIR -coverage 0.1 -time -lengths 2048,4096,8192
//
// Seconds of exact attention and of the plans that choose.Choose picks on another text, with their errors:
//
//	go run ./heads -weights DIR -time -threads 1,2 [-torch PYTHON]
//
// Results go to a file of JSON lines. What is there is not run again, and the tables have all of it.
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
	coverage              float64 // tolerance of runCoverage; 0: it is not wanted
	time                  bool
	tol                   float64 // of runTime
	lengths, threads      []int
	rounds                int
	choices               string
	torch                 string
	decode                []float64 // seconds of rounds
}

func (c *config) log(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func main() {
	var c config
	flag.StringVar(&c.weights, "weights", "", "folder that weights.py wrote")
	flag.StringVar(&c.results, "results", "", "file of results; default: heads.jsonl in the folder of weights")
	flag.StringVar(&c.out, "o", "HEADS.md", "file for the tables, figures beside it; empty: none")
	models := flag.String("models", "minilm,smollm2", "models to run")
	methods := flag.String("methods", "", "regular expression on the names of methods to run")
	flag.IntVar(&c.length, "L", 8192, "tokens of a passage of the decoder")
	flag.IntVar(&c.passages, "passages", 1<<30, "test passages, at most those that there are")
	flag.IntVar(&c.calibration, "calibration", 3, "passages that the decoder's centres are fitted to")
	flag.IntVar(&c.jobs, "jobs", 1, "passages of the decoder at a time")
	flag.BoolVar(&c.time, "time", false, "print only the seconds of exact attention and of choices, with their errors")
	flag.Float64Var(&c.tol, "tol", 0.1, "tolerance of -time")
	lengths := flag.String("lengths", "512,1024,2048,4096,8192,32768", "lengths of -time")
	flag.IntVar(&c.rounds, "rounds", 5, "rounds of -time")
	flag.StringVar(&c.choices, "choices", "", "folder of the choices of -time, made if they are not there")
	flag.StringVar(&c.torch, "torch", "", "a Python with PyTorch, whose exact attention -time shows too")
	flag.Float64Var(&c.coverage, "coverage", 0,
		"print only how often errors hold that choose.Choose expects with this tolerance")
	threads := flag.String("threads", fmt.Sprint(runtime.GOMAXPROCS(0)), "threads; with -time a list")
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

// quantile p of values, interpolated.
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
