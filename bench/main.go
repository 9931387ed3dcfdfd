// Command bench runs randfeat and the tools people use today, in turns on the same data and number of threads. It
// checks that their results agree and prints medians, ratios and the share of the machine's limit.
//
// From the root of the repository:
//
//	pip install -r bench/peers/requirements.txt
//	make bench            # or: cd bench && go run . -python python3 -o latest.md
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/npy"
)

type config struct {
	python, script, out string
	rounds              int
	threads             int
	memoryLen           int
	streamSize          int64
	compile             bool
	only                *regexp.Regexp
}

func main() {
	var c config
	flag.StringVar(&c.python, "python", "python3", "Python with the packages of peers/requirements.txt; empty: ours only")
	flag.StringVar(&c.script, "script", "peers/peers.py", "the peers")
	flag.StringVar(&c.out, "o", "", "file for the table, Markdown; empty: standard output")
	flag.IntVar(&c.rounds, "rounds", 15, "runs of everything, interleaved; the median counts")
	flag.IntVar(&c.threads, "threads", 1, "threads for ours and for the peers")
	flag.BoolVar(&c.compile, "compile", false, "also torch.compile (needs a C++ compiler, takes minutes)")
	only := flag.String("only", "", "regular expression on the names of cases")
	flag.IntVar(&c.memoryLen, "memory-len", 1<<20, "length of the sequence whose memory is measured")
	child := flag.String("memory-child", "", "bidirectional or causal: run it once over that sequence, print the memory as JSON and end")
	flag.Int64Var(&c.streamSize, "stream-size", 1e9, "bytes of the table whose fit is measured; 20000000000 takes minutes")
	stream := flag.Bool("stream-child", false, "fit that table once, print the memory as JSON and end")
	byThreads := flag.String("by-threads", "", "all, or numbers as in 1,2,4: only the table of times by threads, and end")
	profiles := flag.String("profiles", "", "with -by-threads: folder for CPU profiles and traces")
	flag.Parse()
	if *byThreads != "" {
		c.only = regexp.MustCompile(*only)
		counts, err := threadCounts(*byThreads)
		if err == nil {
			err = threadTable(os.Stdout, os.Stderr, c, counts, *profiles)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *stream {
		if err := streamChild(c.streamSize, c.threads, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *child != "" {
		if err := memoryChild(*child, c.threads, c.memoryLen, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	c.only = regexp.MustCompile(*only)
	if err := run(c, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// cases makes each case when its turn comes, so that their arrays are not in memory together.
func cases() []func() benchCase {
	return []func() benchCase{
		func() benchCase { return productCase[float32](4096, 64, 256) },
		func() benchCase { return productCase[float32](4096, 64, 1024) },
		func() benchCase { return productCase[float32](4096, 256, 1024) },
		func() benchCase { return productCase[float32](2048, 1024, 1024) },
		func() benchCase { return productCase[float64](4096, 64, 1024) },
		func() benchCase { return productCase[float64](2048, 1024, 1024) },
		func() benchCase { return sumsCase[float32](4096, 2048, false) },
		func() benchCase { return sumsCase[float64](4096, 2048, false) },
		func() benchCase { return sumsCase[float32](4096, 2048, true) },
		func() benchCase { return sumsCase[float64](4096, 2048, true) },
		func() benchCase { return trigCase[float32](20000, 64, 512, 1024, 1e-4) },
		func() benchCase { return trigCase[float64](20000, 64, 512, 1024, 1e-10) },
		func() benchCase { return trigCase[float32](20000, 64, 1024, 1024, 1e-4) },
		func() benchCase { return trigCase[float64](20000, 64, 1024, 1024, 1e-10) },
		func() benchCase {
			return mapCase[float32]("positive map", "positive", family.Positive{}, 20000, 64, 256, 1e-4)
		},
		func() benchCase {
			return mapCase[float32]("positive map", "positive", family.Positive{}, 20000, 64, 1024, 1e-4)
		},
		func() benchCase {
			return mapCase[float64]("positive map", "positive", family.Positive{}, 20000, 64, 1024, 1e-10)
		},
		func() benchCase {
			return mapCase[float32]("fused positive map against the product alone,", "product", family.Positive{},
				20000, 64, 256, 0)
		},
		func() benchCase {
			return mapCase[float32]("fused positive map against the product alone,", "product", family.Positive{},
				20000, 64, 1024, 0)
		},
		func() benchCase { return predictCase[float32](20000, 62, 1024, 1e-4) },
		func() benchCase { return predictCase[float32](20000, 62, 2048, 1e-4) },
		func() benchCase { return predictCase[float64](20000, 62, 1024, 1e-10) },
		func() benchCase { return predictCase[float64](20000, 62, 2048, 1e-10) },
		func() benchCase { return ridgeCase(41188, 62, 2048) },
		func() benchCase { return readyCase[float32](41188, 2048) },
		func() benchCase { return readyCase[float64](41188, 2048) },
		func() benchCase { return csvCase(20000, 62) },
		func() benchCase { return linearCase(16384, 64, 256) },
		func() benchCase { return causalCase(16384, 64, 256) },
		func() benchCase { return exactCase(2048, 64, 256, false) },
		func() benchCase { return exactCase(4096, 64, 256, false) },
		func() benchCase { return exactCase(16384, 64, 256, false) },
		func() benchCase { return exactCase(4096, 64, 256, true) },
		func() benchCase { return linearBackwardCase(16384, 64, 256) },
		func() benchCase { return exactBackwardCase(4096, 64) },
		func() benchCase { return decodeCase(8, 64, 256) },
		func() benchCase { return elementwiseCase[float32](4096) },
		func() benchCase { return elementwiseCase[float64](4096) },
		func() benchCase { return structuredCase[float32](4096, 64) },
		func() benchCase { return structuredCase[float32](4096, 256) },
		func() benchCase { return structuredCase[float32](1024, 1024) },
	}
}

func run(c config, log io.Writer) error {
	runtime.GOMAXPROCS(c.threads)
	dir, err := os.MkdirTemp("", "randfeat-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var peers *peerProcess
	if c.python != "" {
		if peers, err = startPeers(c.python, c.script, c.threads); err != nil {
			return err
		}
		defer peers.close()
	}
	var b strings.Builder
	limits := measureMachine(c.threads)
	header(&b, c, peers, limits)
	for _, make := range cases() {
		bc := make()
		if !c.only.MatchString(bc.name) {
			continue
		}
		fmt.Fprintln(log, bc.name)
		rows, err := compare(c, bc, peers, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", bc.name, err)
		}
		if bc.after != nil {
			bc.note = bc.after()
		}
		table(&b, bc, rows, limits)
		if bc.close != nil {
			bc.close()
		}
	}
	if c.threads > 1 && c.only.MatchString("scaling") {
		scaling(&b, c.threads, c.rounds)
	}
	if c.only.MatchString(memoryName) {
		fmt.Fprintln(log, memoryName)
		if err := memory(&b, c.threads, c.memoryLen); err != nil {
			return fmt.Errorf("%s: %w", memoryName, err)
		}
	}
	if c.only.MatchString(streamName) {
		fmt.Fprintln(log, streamName)
		if err := streams(&b, c.threads, c.streamSize); err != nil {
			return fmt.Errorf("%s: %w", streamName, err)
		}
	}
	if c.out == "" {
		_, err := os.Stdout.WriteString(b.String())
		return err
	}
	return os.WriteFile(c.out, []byte(b.String()), 0o644)
}

// row is the result of one contender.
type row struct {
	name    string
	ours    bool
	median  float64 // seconds
	flops   float64 // 0: as in the case
	problem string
}

// compare runs all contenders of a case in turn, round after round, so that a noisy moment affects all of them.
func compare(c config, bc benchCase, peers *peerProcess, dir string) ([]row, error) {
	var names []string
	if peers != nil && bc.peer != "" {
		files := map[string]string{}
		for name, a := range bc.arrays {
			if path, isText := a.(textFile); isText {
				files[name] = string(path)
				continue
			}
			files[name] = filepath.Join(dir, name+".npy")
			if err := writeArray(files[name], a); err != nil {
				return nil, err
			}
		}
		var err error
		if names, err = peers.setup(bc.peer, files, c.compile); err != nil {
			return nil, err
		}
	}
	times := make([][]float64, len(bc.ours)+len(names))
	rows := make([]row, len(times))
	var want []float64
	rounds, warm := c.rounds, 2
	if bc.rounds > 0 { // a long case
		rounds, warm = min(rounds, bc.rounds), 1
	}
	for round := range rounds + warm {
		for i, v := range bc.ours {
			start := time.Now()
			v.run()
			s := time.Since(start).Seconds() / float64(max(v.repeat, 1))
			rows[i].name, rows[i].ours, rows[i].flops = v.name, true, v.flops
			if round >= warm {
				times[i] = append(times[i], s)
			}
			if v.sample != nil {
				want = v.sample()
			}
		}
		for i, name := range names {
			r := &rows[len(bc.ours)+i]
			r.name = name
			if r.problem != "" {
				continue
			}
			if c.threads > 1 {
				time.Sleep(5 * time.Millisecond) // the workers of a BLAS spin for a while after a call
			}
			s, sample, err := peers.run(name)
			if err != nil {
				r.problem = err.Error()
				continue
			}
			if round >= warm {
				times[len(bc.ours)+i] = append(times[len(bc.ours)+i], s)
			}
			tolerance := bc.tolerance
			if t, own := bc.tolerances[name]; own {
				tolerance = t
			}
			if bc.tolerance > 0 && comparable(bc, name) && !agree(sample, want, tolerance) {
				r.problem = fmt.Sprintf("result differs: %.6g, ours %.6g", sample, want)
			}
		}
	}
	for i := range rows {
		if len(times[i]) > 0 {
			slices.Sort(times[i])
			rows[i].median = times[i][len(times[i])/2]
		}
	}
	return rows, nil
}

// comparable tells whether a peer computes the same numbers. Landmarks are other features than ours, and so are the
// cosines of a sampler unless it gets our projections.
func comparable(bc benchCase, name string) bool {
	return !strings.Contains(name, "Nystroem") && (bc.sameFeatures || !strings.Contains(name, "RBFSampler"))
}

func agree(a, b []float64, tolerance float64) bool {
	if len(a) != len(b) {
		return false
	}
	top := 0.0
	for _, v := range b {
		top = max(top, math.Abs(v))
	}
	for i, v := range a {
		if !(math.Abs(v-b[i]) <= tolerance*top) {
			return false
		}
	}
	return true
}

func writeArray(path string, a any) error {
	switch m := a.(type) {
	case dense.Matrix[float32]:
		return npy.WriteFile(path, m)
	case dense.Matrix[float64]:
		return npy.WriteFile(path, m)
	}
	return fmt.Errorf("array of type %T", a)
}
