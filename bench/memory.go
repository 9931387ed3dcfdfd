package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
)

// The long sequence whose memory is measured.
const (
	memoryName     = "memory of linear attention"
	memoryHeads    = 8
	memoryDim      = 64
	memoryFeatures = 256
	memoryTarget   = 64.0 // MiB beyond inputs and outputs
)

// memoryResult is what the child prints for each direction.
type memoryResult struct {
	Seconds float64 `json:"seconds"`
	Peak    float64 `json:"peak"`  // MiB, high-water mark of the process
	InOut   float64 `json:"inout"` // MiB of q, k, v and out
	Finite  bool    `json:"finite"`
}

// memory runs a child process per direction, since the high-water mark never falls, and prints a table.
func memory(w io.Writer, threads, length int) error {
	fmt.Fprintf(w, "### %s: L = %d, %d heads, d = %d, m = %d, float32\n\n| | s | peak, MiB | inputs and output, MiB | beyond, MiB | target |\n|---|---:|---:|---:|---:|---:|\n",
		memoryName, length, memoryHeads, memoryDim, memoryFeatures)
	for _, direction := range []string{"bidirectional", "causal"} {
		cmd := exec.Command(os.Args[0], "-memory-child", direction, "-memory-len", strconv.Itoa(length), "-threads", strconv.Itoa(threads))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var r memoryResult
		if err := json.Unmarshal(out, &r); err != nil {
			return err
		}
		verdict := "met"
		beyond := r.Peak - r.InOut
		if beyond >= memoryTarget || !r.Finite {
			verdict = "**missed**"
		}
		fmt.Fprintf(w, "| **randfeat, %s** | %.1f | %.0f | %.0f | %.1f | < %.0f %s |\n", direction, r.Seconds, r.Peak, r.InOut, beyond, memoryTarget, verdict)
	}
	fmt.Fprintln(w)
	return nil
}

// memoryChild runs attention once over the long sequence and prints the high-water mark of this process.
func memoryChild(direction string, threads, length int, w io.Writer) error {
	runtime.GOMAXPROCS(threads)
	fill := func(scale float64, seed uint64) attention.Seq[float32] {
		x := attention.NewSeq[float32](1, memoryHeads, length, memoryDim)
		block := random[float32](1<<12, memoryDim, scale, seed).Data
		for lo := 0; lo < len(x.Data); lo += len(block) {
			copy(x.Data[lo:], block)
		}
		return x
	}
	q, k, v, out := fill(inputScale, 1), fill(inputScale, 2), fill(1, 3), fill(1, 4) // writing touches every page
	mp := givenMap(kernel.Attention(memoryDim), family.Positive{}, random[float32](memoryFeatures, memoryDim, 1, 5))
	a := &attention.Linear[float32]{Visibility: attention.Visibility{Causal: direction == "causal"}, Maps: []*randfeat.Map[float32]{mp}}
	start := time.Now()
	if _, err := a.Forward(out, q, k, v); err != nil {
		return err
	}
	r := memoryResult{Seconds: time.Since(start).Seconds(), InOut: float64(4*4*len(q.Data)) / (1 << 20)}
	var err error
	if r.Peak, err = highWater(); err != nil {
		return err
	}
	r.Finite = out.CheckFinite("out") == nil
	runtime.KeepAlive(q.Data)
	runtime.KeepAlive(k.Data)
	runtime.KeepAlive(v.Data)
	return json.NewEncoder(w).Encode(r)
}

// highWater is the largest resident size of this process so far, in MiB.
func highWater() (float64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("the high-water mark needs Linux: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}
