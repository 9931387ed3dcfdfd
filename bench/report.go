package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/randfeat/randfeat/internal/kern"
)

// limits is the measured capacity of the hardware.
type limits struct {
	gflops32, gflops64 float64 // all threads
	bandwidth          float64 // GB/s, all threads
}

func header(w io.Writer, c config, peers *peerProcess, m limits) {
	fmt.Fprintf(w, "## %d thread", c.threads)
	if c.threads > 1 {
		fmt.Fprint(w, "s")
	}
	fmt.Fprintf(w, ", %s\n\n", time.Now().UTC().Format("2006-01-02"))
	fmt.Fprintf(w, "- CPU: %s; %s, kernels %s\n", cpuName(), runtime.Version(), kern.Best[float32]().Name)
	if peers != nil {
		fmt.Fprintf(w, "- Peers: %s\n", peers.About)
	}
	fmt.Fprintf(w, "- Measured limits: %.0f GFLOP/s float32, %.0f GFLOP/s float64 (multiply-add loop), %.1f GB/s (triad)\n", m.gflops32, m.gflops64, m.bandwidth)
	fmt.Fprintf(w, "- Medians of %d interleaved runs; ratio = time of the row / time of our first row\n\n", c.rounds)
}

func table(w io.Writer, bc benchCase, rows []row, m limits) {
	fmt.Fprintf(w, "### %s\n\n| | ms | ratio | GFLOP/s | %% of limit |\n|---|---:|---:|---:|---:|\n", bc.name)
	for _, r := range rows {
		limit := m.gflops32
		if bc.isFloat64 && !strings.Contains(r.name, "float32") {
			limit = m.gflops64
		}
		if r.problem != "" && r.median == 0 {
			fmt.Fprintf(w, "| %s | %s | | | |\n", r.name, strings.ReplaceAll(r.problem, "|", "/"))
			continue
		}
		rate, share := "", ""
		flops := bc.flops
		if r.flops > 0 {
			flops = r.flops
		}
		if flops > 0 && !strings.Contains(r.name, "Nystroem") { // its products have another size
			g := flops / r.median / 1e9
			rate, share = fmt.Sprintf("%.0f", g), fmt.Sprintf("%.0f", 100*g/limit)
		}
		name := r.name
		if r.ours {
			name = "**" + name + "**"
		}
		if r.problem != "" {
			name += " (" + r.problem + ")"
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %s | %s |\n", name, milliseconds(r.median), r.median/rows[0].median, rate,
			share)
	}
	fmt.Fprintln(w)
	for _, t := range bc.targets {
		t.print(w, rows)
	}
	for i, r := range rows {
		if bc.bytes == 0 || r.median == 0 {
			continue
		}
		rate := bc.bytes / r.median / 1e6
		fmt.Fprintf(w, "- %s: %.0f MB/s", r.name, rate)
		if i == 0 && bc.leastRate > 0 {
			verdict := "met"
			if rate < bc.leastRate {
				verdict = "**missed**"
			}
			fmt.Fprintf(w, " (target ≥ %g on one thread) %s", bc.leastRate, verdict)
		}
		fmt.Fprintln(w)
	}
	if len(bc.targets) > 0 || bc.bytes > 0 {
		fmt.Fprintln(w)
	}
	if bc.note != "" {
		fmt.Fprintf(w, "%s\n\n", bc.note)
	}
}

// milliseconds prints more digits for microseconds.
func milliseconds(seconds float64) string {
	if seconds < 1e-4 {
		return fmt.Sprintf("%.5f", seconds*1e3)
	}
	return fmt.Sprintf("%.3f", seconds*1e3)
}

// print says whether the bound holds. If a row did not run, it says so.
func (t target) print(w io.Writer, rows []row) {
	find := func(name string) (row, bool) {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name && r.median > 0 })
		if i < 0 {
			return row{}, false
		}
		return rows[i], true
	}
	against := t.against
	if against == "" {
		against = rows[0].name
	}
	a, ranA := find(t.row)
	b, ranB := find(against)
	bound := fmt.Sprintf("≥ %g", t.least)
	if t.most > 0 {
		bound = fmt.Sprintf("≤ %g", t.most)
	}
	if !ranA || !ranB {
		fmt.Fprintf(w, "- %s / %s: not run (target %s)\n", t.row, against, bound)
		return
	}
	ratio, verdict := a.median/b.median, "met"
	met := ratio >= t.least
	if t.most > 0 {
		met = ratio <= t.most
	}
	if !met {
		verdict = "**missed**"
	}
	fmt.Fprintf(w, "- %s / %s: %.2f (target %s) %s\n", t.row, against, ratio, bound, verdict)
}

func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// coreType returns the OpenBLAS kernel for this CPU, because old versions do not recognise new ones.
func coreType() string {
	switch kern.Best[float32]().Name {
	case "avx512":
		return "SkylakeX"
	case "avx2":
		return "Haswell"
	}
	return ""
}
