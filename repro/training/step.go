package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute"

	"github.com/randfeat/randfeat/gomlx/backend"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/internal/suggest/similar"
	"github.com/randfeat/randfeat/repro/training/corpus"
	"github.com/randfeat/randfeat/repro/training/models"
)

// stepRow is one measurement of training bench.
type stepRow struct {
	Attention string  `json:"attention"`
	Length    int     `json:"length"`
	Batch     int     `json:"batch"`
	Ms        float64 `json:"ms,omitempty"` // per training step, median
	Tokens    float64 `json:"tokens_per_s"`
	Compile   float64 `json:"compile_s"`            // seconds, including the first step
	Memory    int     `json:"memory_mib,omitempty"` // peak of the process; device memory on a GPU
	Error     string  `json:"error,omitempty"`
}

type stepFlags struct {
	backend.Flags
	lengths, attention string
	batch, steps       int
	json, inside       bool
	model              models.Config
}

// stepBench times training steps of a decoder by length and kind of attention. Every measurement runs in a process
// of its own, so that its memory is its own, and running out of it ends only that measurement.
func stepBench(args []string) error {
	f := stepFlags{model: models.Config{Kind: models.Decoder, Vocab: 256}}
	flags := flag.NewFlagSet("training bench", flag.ContinueOnError)
	f.Flags.Set(flags)
	flags.StringVar(&f.lengths, "lengths", "4096,8192,16384", "tokens per sequence")
	flags.StringVar(&f.attention, "attention", "oprf:orthogonal:128,exact", "kinds of attention, as for training train")
	flags.IntVar(&f.batch, "batch", 1, "sequences per batch")
	flags.IntVar(&f.steps, "steps", 5, "steps after the one that compiles; the median is reported")
	flags.IntVar(&f.model.Layers, "layers", 12, "number of blocks")
	flags.IntVar(&f.model.Width, "width", 512, "width of the model")
	flags.IntVar(&f.model.Heads, "heads", 8, "number of heads")
	flags.BoolVar(&f.model.Half, "bf16", false, "bfloat16 inside blocks")
	flags.BoolVar(&f.json, "json", false, "print one JSON object per row")
	flags.BoolVar(&f.inside, "inside", false, "measure the first length and attention in this process; the program starts itself with it")
	if err := similar.ParseFlags(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see training bench -h", flags.Arg(0))
	}
	var lengths []int
	for _, s := range strings.Split(f.lengths, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 2 {
			return fmt.Errorf("-lengths: %q is not a length", s)
		}
		lengths = append(lengths, n)
	}
	kinds := splitKinds(f.attention)
	if f.steps < 1 {
		return fmt.Errorf("-steps %d: take one at least", f.steps)
	}
	if f.inside {
		return json.NewEncoder(os.Stdout).Encode(f.measure(lengths[0], kinds[0]))
	}
	if !f.json {
		fmt.Printf("%d layers of width %d, %d heads, %d sequences per batch: one training step\n\n", f.model.Layers,
			f.model.Width, f.model.Heads, f.batch)
		fmt.Println("| tokens | attention | ms | tokens/s | times the first | MiB | compiled in |")
		fmt.Println("|---:|---|---:|---:|---:|---:|---:|")
	}
	for _, n := range lengths {
		var first float64
		for _, kind := range kinds {
			r := f.process(args, n, kind)
			if f.json {
				if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
					return err
				}
				continue
			}
			if r.Error != "" {
				fmt.Printf("| %d | %s | – | | | | %s |\n", n, kind, r.Error)
				continue
			}
			if first == 0 {
				first = r.Ms
			}
			fmt.Printf("| %d | %s | %.1f | %.0f | %.2f | %d | %.1f s |\n", n, kind, r.Ms, r.Tokens, r.Ms/first,
				r.Memory, r.Compile)
		}
	}
	return nil
}

// splitKinds splits at commas outside of braces.
func splitKinds(s string) []string {
	var all []string
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				all, from = append(all, s[from:i]), i+1
			}
		}
	}
	return append(all, s[from:])
}

// process measures in a process of its own.
func (f stepFlags) process(args []string, length int, kind string) stepRow {
	r := stepRow{Attention: kind, Length: length, Batch: f.batch}
	self, err := os.Executable()
	if err != nil {
		r.Error = err.Error()
		return r
	}
	cmd := exec.Command(self, append(append([]string{"bench"}, args...), "-inside", "-lengths",
		strconv.Itoa(length), "-attention", kind)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(&said, os.Stderr)
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		r.Error = err.Error() + ": " + lines[len(lines)-1]
		return r
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		r.Error = err.Error()
	}
	return r
}

func (f stepFlags) measure(length int, kind string) stepRow {
	r := stepRow{Attention: kind, Length: length, Batch: f.batch}
	if err := f.take(&r); err != nil {
		r.Error, _, _ = strings.Cut(err.Error(), "\n")
	}
	return r
}

func (f stepFlags) take(r *stepRow) error {
	before := deviceMemory()
	b, line, err := f.Open()
	if err != nil {
		return err
	}
	defer b.Finalize()
	fmt.Fprintln(os.Stderr, line)
	m := f.model
	m.Length, m.Attention = r.Length, r.Attention
	text := make([]int32, 4*r.Length)
	src := rng.Stream(1)
	for i := range text {
		text[i] = int32(src.Uint64() % uint64(m.Vocab))
	}
	source, err := corpus.NewStream(text, text, f.batch, r.Length, 1)
	if err != nil {
		return err
	}
	from := time.Now()
	t, err := train.New(b, m, train.Config{Steps: f.steps + 1, Clip: 1, Seed: 1}, source)
	if err != nil {
		return err
	}
	defer t.Close()
	var all []float64
	for i := range f.steps + 1 {
		if _, err := t.Step(); err != nil {
			return err
		}
		if i == 0 {
			r.Compile = time.Since(from).Seconds()
		} else {
			all = append(all, time.Since(from).Seconds()*1e3)
		}
		from = time.Now()
	}
	slices.Sort(all)
	r.Ms = all[len(all)/2]
	r.Tokens = float64(f.batch*r.Length) / r.Ms * 1e3
	r.Memory = memory(b, before)
	return nil
}

// memory returns the peak memory in MiB, or 0 if the system does not tell. On a GPU it is the growth of the memory in
// use, because XLA returns no peak; otherwise it is the memory of the process.
func memory(b compute.Backend, before int) int {
	if strings.HasPrefix(b.Name(), "xla") && before >= 0 {
		return deviceMemory() - before
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			return kb >> 10
		}
	}
	return 0
}

// deviceMemory returns the memory that all processes use on the first GPU in MiB, or −1 without a GPU.
func deviceMemory() int {
	out, err := exec.Command("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(out), "\n")
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return -1
	}
	return n
}
