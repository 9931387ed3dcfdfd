// Command trees fits boosted trees to the arrays of a folder and prints its time, for peers/trees.py, which compares
// them with LightGBM:
//
//	go build -o /tmp/bench-trees ./trees
//	python peers/trees.py run DATA /tmp/bench-trees 1 OUT.jsonl
//	python peers/trees.py report OUT.jsonl
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine/trees"
)

// job is job.json of a folder. The files x, xt and y have little-endian float64, row by row: training rows, test rows,
// targets of the training rows. The predictions of the test rows are written to p.
type job struct {
	Rows, Test, Columns, Classes int
	Levels                       []bool
	Options                      trees.Options
}

// result is printed as JSON: seconds and CPU seconds of binning and fit.
type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`
}

func main() {
	profile := flag.String("cpuprofile", "", "file for a CPU profile of twenty fits")
	flag.Parse()
	if err := run(flag.Arg(0), *profile); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, profile string) error {
	b, err := os.ReadFile(filepath.Join(dir, "job.json"))
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	x, xt := dense.New[float64](j.Rows, j.Columns), dense.New[float64](j.Test, j.Columns)
	y := dense.New[float64](j.Rows, 1)
	for name, m := range map[string]dense.Matrix[float64]{"x": x, "xt": xt, "y": y} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if _, err := binary.Decode(b, binary.LittleEndian, m.Data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	t := trees.Target{Values: y, Classes: j.Classes}
	fits := 1
	if profile != "" {
		fits = 20
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var r result
	var f *trees.Forest
	for range fits {
		start, cpu := time.Now(), cpuSeconds()
		bins, err := trees.Bin(x, j.Levels)
		if err != nil {
			return err
		}
		if f, err = trees.Fit(context.Background(), bins, nil, t, j.Options); err != nil {
			return err
		}
		r.Seconds, r.CPU = time.Since(start).Seconds(), cpuSeconds()-cpu
	}
	p := dense.New[float64](j.Test, f.Outputs())
	if err := f.Predict(p, xt); err != nil {
		return err
	}
	if b, err = binary.Append(nil, binary.LittleEndian, p.Data); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "p"), b, 0o666); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
