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
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// The long sequence whose memory is measured.
const (
	memoryName     = "memory of linear attention"
	memoryHeads    = 8
	memoryDim      = 64
	memoryFeatures = 256
	memoryTarget   = 64.0 // MiB beyond inputs and outputs
)

// memoryResult is what a child process prints.
type memoryResult struct {
	Seconds float64 `json:"seconds"`
	Peak    float64 `json:"peak"`  // MiB, peak resident size of the process
	InOut   float64 `json:"inout"` // MiB of q, k, v and out
	Finite  bool    `json:"finite"`
}

// memory runs a child process per direction, because the peak of a process never falls, and prints a table.
func memory(w io.Writer, threads, length int) error {
	fmt.Fprintf(w, "### %s: L = %d, %d heads, d = %d, m = %d, float32\n\n| | s | peak, MiB | inputs and output, MiB | beyond, MiB | target |\n|---|---:|---:|---:|---:|---:|\n",
		memoryName, length, memoryHeads, memoryDim, memoryFeatures)
	for _, direction := range []string{"bidirectional", "causal"} {
		cmd := exec.Command(os.Args[0], "-memory-child", direction, "-memory-len", strconv.Itoa(length), "-threads",
			strconv.Itoa(threads))
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
		fmt.Fprintf(w, "| **randfeat, %s** | %.1f | %.0f | %.0f | %.1f | < %.0f %s |\n", direction, r.Seconds, r.Peak,
			r.InOut, beyond, memoryTarget, verdict)
	}
	fmt.Fprintln(w)
	return nil
}

// memoryChild runs attention once over the long sequence and prints the peak memory of this process.
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
	a := &linear.Attention[float32]{Visibility: attention.Visibility{Causal: direction == "causal"},
		Maps: []randfeat.FeatureMap[float32]{mp}}
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

// highWater returns the peak resident size of this process in MiB.
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

// The stream whose fit is measured: text that is generated while it is read, as if from a file of that size.
const (
	streamName     = "memory of a fit"
	streamDim      = 62
	streamFeatures = 256
	streamBlock    = 1024
	// streamSlack is memory that does not depend on the model: the program, buffers of the parser, uncollected
	// garbage.
	streamSlack = 64.0 // MiB
)

// streamBound is the memory that a fit may take, in MiB: the sums and their copy while solving, a block of features
// and its packed copies, three blocks of rows, and the slack.
func streamBound() float64 {
	const f = streamFeatures
	return float64(8*2*f*f+3*8*streamBlock*f+3*8*streamBlock*(streamDim+1))/(1<<20) + streamSlack
}

// streamResult is what a child process prints.
type streamResult struct {
	Seconds float64 `json:"seconds"`
	Peak    float64 `json:"peak"` // MiB, high-water mark of the process
	Rows    int64   `json:"rows"`
}

// streams fits tables of a hundredth of size and of size, each in a process of its own.
func streams(w io.Writer, threads int, size int64) error {
	fmt.Fprintf(w, "### %s: ridge, %d columns, %d features, CSV made on the way, schema learned first\n\n| | rows | s | MB/s | peak, MiB | bound |\n|---|---:|---:|---:|---:|---:|\n",
		streamName, streamDim, streamFeatures)
	for _, n := range []int64{size / 100, size} {
		cmd := exec.Command(os.Args[0], "-stream-child", "-stream-size", strconv.FormatInt(n, 10), "-threads",
			strconv.Itoa(threads))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return err
		}
		var r streamResult
		if err := json.Unmarshal(out, &r); err != nil {
			return err
		}
		verdict := "met"
		if r.Peak > streamBound() {
			verdict = "**missed**"
		}
		// The stream is read twice: by Learn and by the fit.
		fmt.Fprintf(w, "| **randfeat, %.2f GB** | %d | %.1f | %.0f | %.0f | ≤ %.0f %s |\n", float64(n)/1e9, r.Rows,
			r.Seconds, 2*float64(n)/1e6/r.Seconds, r.Peak, streamBound(), verdict)
	}
	fmt.Fprintln(w)
	return nil
}

// streamChild fits one stream and prints the peak memory of this process.
func streamChild(size int64, threads int, w io.Writer) error {
	runtime.GOMAXPROCS(threads)
	start := time.Now()
	src := newGenerated(streamDim, size)
	schema, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		return err
	}
	rows, err := machine.TableRows(src, schema, true)
	if err != nil {
		return err
	}
	ridge, err := machine.NewRidge(machine.Setup{Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 8},
		Family: family.Trig{}, Coupling: coupling.Orthogonal{}, Dim: rows.Dim(), M: streamFeatures / 2}, Outputs: 1,
		Block: streamBlock})
	if err != nil {
		return err
	}
	if err := ridge.AddRows(rows); err != nil {
		return err
	}
	if _, err := ridge.Model(1); err != nil {
		return err
	}
	r := streamResult{Seconds: time.Since(start).Seconds(), Rows: ridge.Len()}
	if r.Peak, err = highWater(); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(r)
}
