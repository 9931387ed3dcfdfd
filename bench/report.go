package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/randfeat/randfeat/internal/kern"
)

// machine is what the hardware can do, measured.
type machine struct {
	gflops32, gflops64 float64 // all threads
	bandwidth          float64 // GB/s, all threads
}

func header(w io.Writer, c config, peers *peerProcess, m machine) {
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

func table(w io.Writer, bc benchCase, rows []row, m machine) {
	fmt.Fprintf(w, "### %s\n\n| | ms | ratio | GFLOP/s | %% of limit |\n|---|---:|---:|---:|---:|\n", bc.name)
	limit := m.gflops32
	if bc.isFloat64 {
		limit = m.gflops64
	}
	for _, r := range rows {
		if r.problem != "" && r.median == 0 {
			fmt.Fprintf(w, "| %s | %s | | | |\n", r.name, strings.ReplaceAll(r.problem, "|", "/"))
			continue
		}
		rate, share := "", ""
		if bc.flops > 0 {
			g := bc.flops / r.median / 1e9
			rate, share = fmt.Sprintf("%.0f", g), fmt.Sprintf("%.0f", 100*g/limit)
		}
		name := r.name
		if r.ours {
			name = "**" + name + "**"
		}
		if r.problem != "" {
			name += " (" + r.problem + ")"
		}
		fmt.Fprintf(w, "| %s | %.3f | %.2f | %s | %s |\n", name, r.median*1e3, r.median/rows[0].median, rate, share)
	}
	fmt.Fprintln(w)
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

// coreType is the OpenBLAS kernel for this CPU: old versions do not recognise new ones.
func coreType() string {
	switch kern.Best[float32]().Name {
	case "avx512":
		return "SkylakeX"
	case "avx2":
		return "Haswell"
	}
	return ""
}
