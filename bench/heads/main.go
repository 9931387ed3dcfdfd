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
	tol                   float64 // of runCoverage; 0: it is not wanted
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
	flag.Float64Var(&c.tol, "coverage", 0,
		"print only how often errors hold that choose.Choose expects with this tolerance")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "threads")
	flag.Parse()
	runtime.GOMAXPROCS(*threads)
	c.models = strings.Split(*models, ",")
	if c.results == "" {
		c.results = filepath.Join(c.weights, "heads.jsonl")
	}
	var err error
	if c.methods, err = regexp.Compile(*methods); err == nil {
		err = run(&c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "heads:", err)
		os.Exit(1)
	}
}

func run(c *config) error {
	if c.tol > 0 {
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
