package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/kernel"
)

// threadCase is work whose time is compared at several numbers of threads.
type threadCase struct {
	name  string
	least float64 // target for the speed-up of 16 threads over one
	slow  bool    // run few rounds
	make  func() (run func(), done func())
}

func plain(run func()) (func(), func()) { return run, func() {} }

// attentionThreads is linear attention with so many heads, forward or backward.
func attentionThreads(heads, l int, causal, backward bool) func() (func(), func()) {
	return func() (func(), func()) {
		const d, m = 64, 256
		seq := func(scale float64, seed uint64) attention.Seq[float32] {
			s := attention.NewSeq[float32](1, heads, l, d)
			copy(s.Data, random[float32](heads*l, d, scale, seed).Data)
			return s
		}
		q, k, v, dout := seq(inputScale, 1), seq(inputScale, 2), seq(1, 3), seq(1, 5)
		out, dq, dk, dv := seq(0, 1), seq(0, 1), seq(0, 1), seq(0, 1)
		mp := givenMap(kernel.Attention(d), family.Positive{}, random[float32](m, d, 1, 4))
		a := &linear.Attention[float32]{Visibility: attention.Visibility{Causal: causal},
			Maps: []randfeat.FeatureMap[float32]{mp}}
		must(a.Forward(out, q, k, v))
		if backward {
			return plain(func() { must(a.Backward(dq, dk, dv, dout, out, q, k, v, nil)) })
		}
		return plain(func() { must(a.Forward(out, q, k, v)) })
	}
}

// caseThreads is the first variant of a case whose name contains part.
func caseThreads(make func() benchCase, part string) func() (func(), func()) {
	return func() (func(), func()) {
		c := make()
		i := slices.IndexFunc(c.ours, func(v variant) bool { return strings.Contains(v.name, part) })
		done := c.close
		if done == nil {
			done = func() {}
		}
		return c.ours[i].run, done
	}
}

// smallThreads is many calls that are too short for more than one or two threads.
func smallThreads(rows int) func() (func(), func()) {
	return func() (func(), func()) {
		mp := givenMap(kernel.Kernel{Kind: kernel.Softmax}, family.Positive{}, random[float32](256, 64, 1, 2))
		x, dst := random[float32](rows, 64, 0.1, 1), dense.New[float32](rows, 256)
		var ws randfeat.Workspace[float32]
		return plain(func() {
			for range 1 + 1<<14/rows {
				check(mp.Queries(dst, nil, x, &ws))
			}
		})
	}
}

// positiveThreads computes 256 positive features per row, 1 KiB each, and reads them again if read is set.
func positiveThreads(rows int, read bool) func() (func(), func()) {
	return func() (func(), func()) {
		mp := givenMap(kernel.Kernel{Kind: kernel.Softmax}, family.Positive{}, random[float32](256, 64, 1, 2))
		x, dst := random[float32](rows, 64, 0.1, 1), dense.New[float32](rows, 256)
		var ws randfeat.Workspace[float32]
		sums := make([]float32, rows)
		return plain(func() {
			check(mp.Queries(dst, nil, x, &ws))
			if !read {
				return
			}
			par.For(rows, 64, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					sums[i] = 0
					for _, v := range dst.Row(i) {
						sums[i] += v
					}
				}
			})
		})
	}
}

// gramThreads is the matrix of kernel estimates between n rows.
func gramThreads(n, d, m int) func() (func(), func()) {
	return func() (func(), func()) {
		mp := givenMap(kernel.Kernel{}, family.Trig{}, random[float32](m, d, 1, 2))
		x, dst := random[float32](n, d, 0.1, 1), dense.New[float32](n, n)
		var ws randfeat.Workspace[float32]
		return plain(func() { check(mp.Gram(dst, x, x, &ws)) })
	}
}

// batchThreads predicts rows at a time, as a server does for the requests that it has gathered.
func batchThreads(rows int) func() (func(), func()) {
	return func() (func(), func()) {
		run := caseThreads(func() benchCase { return predictCase[float32](rows, 62, 2048, 0) }, "ridge")
		one, done := run()
		return func() {
			for range 1 << 13 / rows {
				one()
			}
		}, done
	}
}

// spinThreads is arithmetic in registers, cut into as many equal parts as any number of threads divides. Its
// speed-up is what the host provides; read the other rows against it.
func spinThreads() (func(), func()) {
	var sink [64 * 16]uint64
	return plain(func() {
		par.For(64, 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				x := uint64(i)
				for range 1 << 18 {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
				}
				sink[i*16] = x
			}
		})
	})
}

func threadCases() []threadCase {
	const l = 16384
	trig := func() benchCase { return trigCase[float32](20000, 64, 512, 1024, 1e-4) }
	return []threadCase{
		{"bidirectional, L = 16384", 10, false, attentionThreads(1, l, false, false)},
		{"causal, L = 16384", 10, false, attentionThreads(1, l, true, false)},
		{"backward, L = 16384", 10, false, attentionThreads(1, l, false, true)},
		{"causal backward, L = 16384", 10, false, attentionThreads(1, l, true, true)},
		{"bidirectional, L = 2048", 0, false, attentionThreads(1, 2048, false, false)},
		{"causal, L = 2048", 0, false, attentionThreads(1, 2048, true, false)},
		{"bidirectional, 8 heads, L = 16384", 12, true, attentionThreads(8, l, false, false)},
		{"causal, 8 heads, L = 16384", 12, true, attentionThreads(8, l, true, false)},
		{"backward, 8 heads, L = 16384", 12, true, attentionThreads(8, l, false, true)},
		{"causal backward, 8 heads, L = 16384", 12, true, attentionThreads(8, l, true, true)},
		{"trig map 20000×64, 1024 features, reused output", 0, false, caseThreads(trig, "reused")},
		{"trig map 20000×64, 1024 features, fresh output", 8, false, caseThreads(trig, "fresh")},
		{"positive map, 128 rows a call", 0, false, smallThreads(128)},
		{"positive map, 2048 rows a call", 0, false, smallThreads(2048)},
		{"positive map, outputs of 8 MiB", 0, false, positiveThreads(8<<10, false)},
		{"positive map, outputs of 16 MiB", 0, false, positiveThreads(16<<10, false)},
		{"positive map, outputs of 32 MiB", 0, false, positiveThreads(32<<10, false)},
		{"positive map, outputs of 128 MiB", 0, false, positiveThreads(128<<10, false)},
		{"positive map, outputs of 16 MiB, then read", 0, false, positiveThreads(16<<10, true)},
		{"positive map, outputs of 32 MiB, then read", 0, false, positiveThreads(32<<10, true)},
		{"transform and predict 20000×62, 2048 features", 10, false,
			caseThreads(func() benchCase { return predictCase[float32](20000, 62, 2048, 1e-4) }, "ridge")},
		{"ridge fit 41188×62, 2048 features", 10, true,
			caseThreads(func() benchCase { return ridgeCase(41188, 62, 2048) }, "float32")},
		{"ridge on ready features 41188×2048", 0, true,
			caseThreads(func() benchCase { return readyCase[float32](41188, 2048) }, "randfeat")},
		{"Gram matrix of 4096 rows, 1024 features", 0, false, gramThreads(4096, 62, 512)},
		{"predictions of 32 rows a call, 2048 features", 0, false, batchThreads(32)},
		{"predictions of 256 rows a call, 2048 features", 0, false, batchThreads(256)},
		{"CSV of 50000×62 numbers", 8, true, caseThreads(func() benchCase { return csvCase(50000, 62) }, "text.Open")},
		{"schema learned from that CSV", 0, true,
			caseThreads(func() benchCase { return csvCase(50000, 62) }, "data.Learn")},
		{"NDJSON of 50000×62 numbers", 0, true,
			caseThreads(func() benchCase { return tableCase(50000, 62, data.NDJSON) }, "randfeat")},
		{"Parquet of 100000×62 numbers", 0, true,
			caseThreads(func() benchCase { return tableCase(100000, 62, data.Parquet) }, "randfeat")},
		{"control: what the host gives to loops without memory", 0, false, spinThreads},
	}
}

// threadTable runs every case at each number of threads in turn, round after round, and prints medians and
// speed-ups. If a folder for profiles is given, it also writes a CPU profile and an execution trace of each case at
// the most threads.
func threadTable(w, log io.Writer, c config, counts []int, profiles string) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	fmt.Fprint(w, "| ms at threads |")
	for _, n := range counts {
		fmt.Fprintf(w, " %d |", n)
	}
	fmt.Fprintf(w, " speed-up | wanted |\n|---|%s---:|---:|\n", strings.Repeat("---:|", len(counts)))
	for _, tc := range threadCases() {
		if !c.only.MatchString(tc.name) {
			continue
		}
		fmt.Fprintln(log, tc.name)
		run, done := tc.make()
		times := make([][]float64, len(counts))
		rounds := c.rounds
		if tc.slow {
			rounds = min(rounds, 5)
		}
		for range rounds {
			for i, n := range counts {
				runtime.GOMAXPROCS(n)
				run() // workers and pages
				start := time.Now()
				run()
				times[i] = append(times[i], time.Since(start).Seconds())
			}
		}
		if profiles != "" {
			if err := profile(filepath.Join(profiles, slug(tc.name)), run); err != nil {
				return err
			}
		}
		done()
		fmt.Fprintf(w, "| %s |", tc.name)
		for i := range times {
			slices.Sort(times[i])
			fmt.Fprintf(w, " %.3f |", 1e3*times[i][len(times[i])/2])
		}
		last := times[len(times)-1]
		wanted := "—"
		if tc.least > 0 {
			wanted = fmt.Sprint(tc.least)
		}
		fmt.Fprintf(w, " %.2f | %s |\n", times[0][len(times[0])/2]/last[len(last)/2], wanted)
	}
	return nil
}

// profile writes path.pprof of one second and path.trace of three runs.
func profile(path string, run func()) error {
	f, err := os.Create(path + ".pprof")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < time.Second; {
		run()
	}
	pprof.StopCPUProfile()
	t, err := os.Create(path + ".trace")
	if err != nil {
		return err
	}
	defer t.Close()
	if err := trace.Start(t); err != nil {
		return err
	}
	for range 3 {
		run()
	}
	trace.Stop()
	return nil
}

// slug returns a name for files.
func slug(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s), "-")
}

// threadCounts parses "1,2,4"; "all" means 1, 2, 4, … up to the number of CPUs.
func threadCounts(s string) ([]int, error) {
	var counts []int
	if s == "all" {
		for n := 1; n <= runtime.NumCPU(); n *= 2 {
			counts = append(counts, n)
		}
		return counts, nil
	}
	for _, f := range strings.Split(s, ",") {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil || n < 1 {
			return nil, fmt.Errorf("-by-threads %s: want numbers of threads, as in 1,2,4", s)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
