// Command bench measures tokens per second of models: reading (prefill), generating (decode) and embedding.
//
//	go run ./bench -decoder DIR/smollm2.gguf -encoder DIR/minilm
//	go run ./bench -decoder DIR/smollm2.gguf -only -long 7936 -compact 8
//	go run ./bench -decoder random:smollm2 -threads 1,2,4,8,16     # random weights of the same sizes
//
// Token ids are arbitrary: the speed does not depend on them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/models/decoder"
	"github.com/randfeat/randfeat/models/encoder"
	"github.com/randfeat/randfeat/models/gguf"
	"github.com/randfeat/randfeat/models/safetensors"
	"github.com/randfeat/randfeat/models/weights"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// result is one line of output. The programs in peers print the same fields.
type result struct {
	Model    string  `json:"model"`
	Task     string  `json:"task"`
	Threads  int     `json:"threads"`
	Tokens   int     `json:"tokens"`                 // of the text before, or of a sequence
	PerSec   float64 `json:"tokens_s"`               // median of the runs
	PerCPU   float64 `json:"tokens_cpu_s,omitempty"` // per second of processor time, which other programs disturb less
	GBPerSec float64 `json:"gb_s,omitempty"`         // decode: bytes of weights, keys and values read per second
	Weights  float64 `json:"weights_mb,omitempty"`
	LoadSecs float64 `json:"load_s,omitempty"`
	ReadSecs float64 `json:"read_s,omitempty"`    // reading before decode
	Compact  float64 `json:"compact_s,omitempty"` // compaction before decode
}

type bench struct {
	out    *json.Encoder
	repeat int
	memory string
	short  bool
	only   bool
	read   int // threads for reading before decode; 0: all
	factor int // of the compaction before decode; 0: none
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dec := flags.String("decoder", "", "GGUF file or folder of a decoder")
	enc := flags.String("encoder", "", "folder of an encoder")
	repeat := flags.Int("repeat", 3, "runs of each case")
	long := flags.Int("long", 0, "also decode after so many tokens")
	threads := flags.String("threads", "", "run the decoder with each of these numbers of threads, such as 1,2,4")
	floats := flags.Bool("float32", false, "only weights in float32 (default: only quantised for decoders, both for encoders)")
	memory := flags.String("memory", "exact", "how heads remember: exact, chunks (centroids) or slots (512 keys)")
	short := flags.Bool("short", false, "read 256 tokens only")
	readThreads := flags.Int("read-threads", 0, "threads while reading before -long; 0: as many as otherwise")
	factor := flags.Int("compact", 0, "decode again after keeping one of so many keys; one head of eleven keeps all")
	only := flags.Bool("only", false, "only decode after -long tokens")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	b := &bench{json.NewEncoder(stdout), *repeat, *memory, *short, *only, *readThreads, *factor}
	var err error
	if *dec != "" {
		err = b.decoder(*dec, *floats, *long, *threads)
	}
	if *enc != "" && err == nil {
		if err = b.encoder(*enc, false); err == nil && !*floats {
			err = b.encoder(*enc, true)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func open(path string) (weights.File, error) {
	if name, random := strings.CutPrefix(path, "random:"); random {
		return newRandom(name)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return safetensors.Open(path)
	}
	return gguf.Open(path)
}

// report prints the median tokens per second of several runs. r.GBPerSec holds gigabytes per token on entry.
func (b *bench) report(r result, tokens int, run func() error) error {
	var rates, perCPU []float64
	for range b.repeat {
		start, before := time.Now(), cpu()
		if err := run(); err != nil {
			return err
		}
		rates = append(rates, float64(tokens)/time.Since(start).Seconds())
		if used := cpu() - before; used > 0 {
			perCPU = append(perCPU, float64(tokens)/used)
		}
	}
	slices.Sort(rates)
	slices.Sort(perCPU)
	r.PerSec, r.Threads = rates[len(rates)/2], runtime.GOMAXPROCS(0)
	r.GBPerSec *= r.PerSec
	if len(perCPU) > 0 {
		r.PerCPU = perCPU[len(perCPU)/2]
	}
	return b.out.Encode(r)
}

func (b *bench) decoder(path string, floats bool, long int, threads string) error {
	start := time.Now()
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := decoder.New(f, decoder.Options{Quantised: !floats})
	if err != nil {
		return err
	}
	loaded := time.Since(start).Seconds()
	if threads == "" {
		return b.decode(m, floats, long, loaded)
	}
	for _, s := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-threads %s: want numbers from 1 on, separated by commas", threads)
		}
		before := runtime.GOMAXPROCS(n)
		err = b.decode(m, floats, long, loaded)
		runtime.GOMAXPROCS(before)
		if err != nil {
			return err
		}
	}
	return nil
}

// decode measures reading and generating, with -compact also generating from the compacted session.
func (b *bench) decode(m *decoder.Model, floats bool, long int, loaded float64) error {
	ids := make([]int32, 1024)
	for i := range ids {
		ids[i] = int32(100 + i*7919%(m.Config().Vocab-200))
	}
	name := "quantised"
	if floats {
		name = "float32"
	}
	if b.memory != "exact" {
		name += ", " + b.memory
	}
	read, at := []int{256, 1024}, []int{16, 1024}
	switch {
	case b.only:
		read, at = nil, nil
	case b.short:
		read = read[:1]
	}
	for _, n := range read {
		r := result{Model: name, Task: "prefill", Tokens: n, Weights: float64(m.Bytes()) / 1e6, LoadSecs: loaded}
		if err := b.report(r, n, func() error {
			s, err := m.NewSession(b.states(m))
			if err == nil {
				_, err = s.Append(ids[:n]...)
			}
			return err
		}); err != nil {
			return err
		}
	}
	if long > 0 {
		at = append(at, long)
	}
	for _, n := range at {
		s, err := m.NewSession(b.states(m))
		if err != nil {
			return err
		}
		r := result{Model: name, Task: "decode", Tokens: n}
		if b.factor > 0 {
			s.KeepQueries()
		}
		if r.ReadSecs, err = b.aside(func() error {
			for s.Len() < n {
				if _, err := s.Append(ids[:min(len(ids), n-s.Len())]...); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		one := s
		if b.factor > 0 {
			one = s.Fork()
		}
		if err := b.steps(m, one, ids, r); err != nil {
			return err
		}
		if b.factor == 0 {
			continue
		}
		r.Model = fmt.Sprintf("%s, compacted %d times", name, b.factor)
		if r.Compact, err = b.aside(func() error { return b.compact(m, s) }); err != nil {
			return err
		}
		if err := b.steps(m, s, ids, r); err != nil {
			return err
		}
	}
	return nil
}

// aside runs f with the threads of -read-threads and returns its seconds.
func (b *bench) aside(f func() error) (float64, error) {
	before := runtime.GOMAXPROCS(max(b.read, 0))
	defer runtime.GOMAXPROCS(before)
	start := time.Now()
	err := f()
	return time.Since(start).Seconds(), err
}

// steps measures tokens that are appended one by one.
func (b *bench) steps(m *decoder.Model, s *decoder.Session, ids []int32, r result) error {
	const steps = 32
	r.GBPerSec = float64(int64(m.Bytes())+s.Bytes()) / 1e9
	return b.report(r, steps, func() error {
		for i := range steps {
			if _, err := s.Append(ids[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// compact shrinks a session. Random weights have no calibration, so one head of eleven keeps all keys, about as many
// as in SmolLM2, and the others get equal numbers of slots.
func (b *bench) compact(m *decoder.Model, s *decoder.Session) error {
	c, tokens := m.Config(), s.Len()
	heads := c.Layers * c.KVHeads
	kept := heads / 11
	slots := max(8, (heads*tokens/b.factor-kept*tokens)/(heads-kept))
	return s.Compact(func(layer, head int) int {
		if h := layer*c.KVHeads + head; h%11 == 5 && h/11 < kept {
			return tokens
		}
		return slots
	})
}

// states returns the memory of the heads that -memory asks for; nil means exact.
func (b *bench) states(m *decoder.Model) func(layer int) (decoder.State, error) {
	c := m.Config()
	q, v := attention.Shape{Batch: 1, Heads: c.Heads, Dim: c.HeadDim},
		attention.Shape{Batch: 1, Heads: c.KVHeads, Dim: c.HeadDim}
	switch b.memory {
	case "chunks":
		return func(int) (decoder.State, error) {
			a := centroid.Attention{Unchecked: true, Specs: []centroid.Spec{centroid.Sketch{Clusters: 16, Chunk: 512,
				Share: 0.005, Sinks: 4, Window: 64, Landmarks: 8, Passes: 1}}}
			return centroid.NewChunks(&a, q, v)
		}
	case "slots":
		return func(int) (decoder.State, error) {
			return centroid.NewSlots([]centroid.SlotSpec{decoder.ConstantSpec(512)}, 0, q, v)
		}
	}
	return nil
}

func (b *bench) encoder(path string, quantised bool) error {
	start := time.Now()
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := encoder.New(f, encoder.Options{Quantised: quantised})
	if err != nil {
		return err
	}
	loaded := time.Since(start).Seconds()
	name := "float32"
	if quantised {
		name = "quantised"
	}
	for _, n := range []int{128, 512} {
		const tokens = 2048
		batch := make([][]int32, tokens/n)
		for i := range batch {
			batch[i] = make([]int32, n)
			for j := range batch[i] {
				batch[i][j] = int32(1000 + (i*n+j)*7919%20000)
			}
		}
		dst := dense.New[float32](len(batch), m.Dim())
		r := result{Model: name, Task: "embed", Tokens: n, LoadSecs: loaded}
		if err := b.report(r, tokens, func() error { return m.Embed(dst, batch) }); err != nil {
			return err
		}
	}
	return nil
}
